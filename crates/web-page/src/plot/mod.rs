// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Plots: SVG that the library `plotters` draws, in a figure with a title, a description, and the same
//! numbers as a table. Pure.
//!
//! A plot has fixed colors, and the style of the page replaces each of them by a variable. So a plot follows
//! the dark mode and the colors of a reader without a second drawing. Shapes of points differ like colors.

mod columns;
mod lines;
mod rows;
mod scale;

use std::io;

use cabane_label::{escape, escape_html};
use plotters::coord::Shift;
use plotters::prelude::*;

pub use columns::{Column, ColumnPlot};
pub use lines::{LinePlot, Series};
pub use rows::{PlotRow, RowPlot, Rows};
pub use scale::Axis;

/// The width of a plot, in pixels of a narrow screen: the text can be read there.
const WIDTH: u32 = 440;
/// The height of the letters.
const LETTERS: u32 = 15;
/// How many characters of such letters are as wide as a plot.
const CHARACTERS: usize = 54;

const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xd5, 0xd5, 0xd5);
const BAND: RGBColor = RGBColor(0xcf, 0xe8, 0xd6);
const BAD: RGBColor = RGBColor(0xb3, 0x26, 0x1e);
/// The colors of series, in their order.
const COLORS: [RGBColor; 6] = [
    RGBColor(0x1f, 0x6f, 0xb2),
    RGBColor(0xb0, 0x53, 0x0a),
    RGBColor(0x1a, 0x7f, 0x4b),
    RGBColor(0x8a, 0x3f, 0xa8),
    RGBColor(0x0e, 0x7a, 0x85),
    RGBColor(0x7a, 0x52, 0x30),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Draws something with a text for those who do not see it.
fn svg(label: &str, (width, height): (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut drawing = String::new();
    let area = SVGBackend::with_string(&mut drawing, (width, height)).into_drawing_area();
    let is_drawn = draw(&area).and_then(|()| area.present());
    drop(area);
    // The first tag has a fixed size and no text.
    match (is_drawn, drawing.split_once('>')) {
        (Ok(()), Some((_, content))) => format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">{content}",
            escape_html(label)
        ),
        _ => "<p>The plot cannot be drawn.</p>\n".to_owned(),
    }
}

/// Writes a figure: what it is about, a drawing, and its numbers.
fn figure(title: &str, description: &str, drawing: &str, numbers: &Numbers) -> String {
    let (title, description) = (escape_html(title), escape_html(description));
    let numbers = numbers.html(&title);
    format!(
        "<figure class=\"plot\">\n<figcaption><b>{title}</b><br>{description}</figcaption>\n{drawing}{numbers}</figure>\n"
    )
}

/// The numbers of a plot.
struct Numbers {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Numbers {
    /// Writes a table that a reader opens. `title` is HTML.
    fn html(&self, title: &str) -> String {
        let head =
            self.head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", escape_html(cell)));
        let mut table = format!("<tr>{}</tr>\n", head.collect::<String>());
        for row in &self.rows {
            table.push_str("<tr>");
            for (place, cell) in row.iter().enumerate() {
                let cell = escape_html(cell);
                table.push_str(&match place {
                    0 => format!("<th scope=\"row\">{cell}</th>"),
                    _ => format!("<td>{cell}</td>"),
                });
            }
            table.push_str("</tr>\n");
        }
        format!(
            "<details><summary>Numbers<span class=\"v\"> of {title}</span></summary>\n\
             <div class=\"s\" role=\"group\" aria-label=\"Numbers of {title}\" tabindex=\"0\"><table>\n{table}</table></div></details>\n"
        )
    }
}

/// Returns a text as it is drawn, with a number of characters at most.
fn cut(text: &str, most: usize) -> String {
    let text = escape(text);
    if text.chars().count() <= most {
        return text.into_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// The letters of a plot.
fn letters() -> TextStyle<'static> {
    ("sans-serif", LETTERS).into_font().color(&TEXT)
}

#[cfg(test)]
mod tests;
