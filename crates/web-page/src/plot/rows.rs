// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Numbers of the same kind, one below the other: each with its name above it. Pure.

use plotters::coord::ranged1d::Ranged as _;
use plotters::element::{DynElement, IntoDynElement};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::{Axis, Scale, extent, has_logarithm, is_drawable};
use super::{BAD, BAND, CHARACTERS, COLORS, GRID, Numbers, TEXT, WIDTH, cut, figure, letters, svg};

/// The height of a row, and that of the axis below all rows.
const ROW: u32 = 38;
const AXIS: u32 = 44;
const MARGIN: u32 = 12;
/// The most rows that are drawn. The table has all.
const MOST: usize = 60;
/// From this ratio of the largest to the smallest number on, the axis is logarithmic.
const WIDE: f64 = 4.0;

/// A plot with a row for each number.
#[derive(Clone, Debug)]
pub struct RowPlot<'a> {
    /// What it is about.
    pub title: &'a str,
    /// What is to be seen.
    pub description: &'a str,
    /// The axis.
    pub axis: Axis,
    /// How the numbers are drawn.
    pub kind: Rows,
    /// The rows.
    pub rows: Vec<PlotRow>,
}

/// How the numbers of rows are drawn, and what their parts are called.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// As bars from zero.
    Bars {
        /// The number.
        value: &'static str,
    },
    /// As points with intervals.
    Points {
        /// The number.
        value: &'static str,
        /// The interval around it.
        interval: &'static str,
        /// The band behind it.
        band: &'static str,
        /// The line across it.
        mark: &'static str,
    },
}

/// The name of a column of the table, and its cell for a row.
type Column<'c> = (&'static str, &'c dyn Fn(&PlotRow) -> String);

/// A row.
#[derive(Clone, Debug, Default)]
pub struct PlotRow {
    /// Its name.
    pub name: String,
    /// The number; `None` where there is none.
    pub value: Option<f64>,
    /// An interval around the number.
    pub interval: Option<(f64, f64)>,
    /// A range with which the number is compared. An open end is infinite.
    pub band: Option<(f64, f64)>,
    /// A number with which it is compared.
    pub mark: Option<f64>,
    /// Whether it stands out.
    pub is_bad: bool,
}

impl RowPlot<'_> {
    /// Writes the plot; nothing if there is no number to draw.
    #[must_use]
    pub fn html(&self) -> String {
        let drawn = || self.rows.iter().filter(|row| row.value.is_some_and(is_drawable));
        let rows: Vec<&PlotRow> = drawn().take(MOST).collect();
        let numbers = || rows.iter().flat_map(|row| row.numbers());
        let zero = matches!(self.kind, Rows::Bars { .. }).then_some(0.0);
        let Some(extent) = extent(numbers().chain(zero)).filter(|_| !rows.is_empty()) else {
            return String::new();
        };
        let is_wide = zero.is_none() && numbers().all(has_logarithm) && extent.1 / extent.0 > WIDE;
        let label = format!("{}. {}", self.title, self.description);
        let count = u32::try_from(rows.len()).unwrap_or_default();
        let size = (WIDTH, count * ROW + AXIS + 2 * MARGIN);
        let mut drawing = svg(&label, size, |area| {
            let scale = if is_wide { Scale::logarithmic(extent) } else { Scale::linear(extent) };
            let start = scale.range().start;
            let mut chart = ChartBuilder::on(area)
                .margin(MARGIN)
                .margin_right(22)
                .margin_left(22)
                .x_label_area_size(AXIS)
                .build_cartesian_2d(scale, Scale::exact(-f64::from(count)..0.0))?;
            chart
                .configure_mesh()
                .disable_y_mesh()
                .disable_y_axis()
                .bold_line_style(GRID)
                .light_line_style(TRANSPARENT)
                .axis_style(TEXT)
                .label_style(letters())
                .x_label_formatter(&|x| (self.axis.format)(*x))
                .x_desc(cut(&self.axis.name, CHARACTERS))
                .draw()?;
            let area = chart.plotting_area();
            rows.iter().zip(0..).try_for_each(|(row, top)| {
                let elements = self.elements(row, f64::from(top), start);
                elements.into_iter().try_for_each(|element| area.draw(&element))
            })
        });
        if let Some(more) = drawn().count().checked_sub(MOST).filter(|more| *more > 0) {
            drawing += &format!("<p class=\"faint\">{more} more rows are in the table only.</p>\n");
        }
        figure(self.title, self.description, &drawing, &self.table())
    }

    fn elements<'b, B: DrawingBackend + 'b>(
        &self,
        row: &PlotRow,
        top: f64,
        start: f64,
    ) -> Vec<DynElement<'b, B, (f64, f64)>> {
        let at = |part: f64| -(top + part);
        let line = |from: f64, to: f64, width: u32, color: RGBColor| {
            let points = vec![(from, at(0.7)), (to, at(0.7))];
            PathElement::new(points, color.stroke_width(width)).into_dyn()
        };
        let Some(value) = row.value else { return Vec::new() };
        let color = if row.is_bad { BAD } else { COLORS[0] };
        let mut elements = Vec::new();
        if let Some((low, high)) = row.band {
            let corners = [(low, at(0.45)), (high, at(0.95))];
            elements.push(Rectangle::new(corners, BAND.filled()).into_dyn());
        }
        if let Rows::Bars { .. } = self.kind {
            let corners = [(0.0, at(0.5)), (value, at(0.9))];
            elements.push(Rectangle::new(corners, color.filled()).into_dyn());
        }
        if let Some((low, high)) = row.interval.filter(|(low, high)| low <= high) {
            elements.push(line(low, high, 3, TEXT));
        }
        if let Some(mark) = row.mark.filter(|mark| is_drawable(*mark)) {
            let points = vec![(mark, at(0.42)), (mark, at(0.98))];
            elements.push(PathElement::new(points, TEXT.stroke_width(2)).into_dyn());
        }
        if let Rows::Points { .. } = self.kind {
            let point = EmptyElement::at((value, at(0.7)));
            elements.push(if row.is_bad {
                let diamond = [(0, -7), (7, 0), (0, 7), (-7, 0)];
                (point + Polygon::new(diamond, color.filled())).into_dyn()
            } else {
                (point + Circle::new((0, 0), 5, color.filled())).into_dyn()
            });
        }
        let name = format!("{}: {}", row.name, (self.axis.format)(value));
        let style = letters().pos(Pos::new(HPos::Left, VPos::Center));
        elements.push(Text::new(cut(&name, CHARACTERS), (start, at(0.2)), style).into_dyn());
        elements
    }

    fn table(&self) -> Numbers {
        let format = |number: f64| (self.axis.format)(number);
        let range = |(low, high): (f64, f64)| match (low.is_finite(), high.is_finite()) {
            (true, true) => format!("{} to {}", format(low), format(high)),
            (true, false) => format!("at least {}", format(low)),
            (false, true) => format!("at most {}", format(high)),
            (false, false) => String::new(),
        };
        let value = |row: &PlotRow| row.value.map(format).unwrap_or_default();
        let interval = |row: &PlotRow| row.interval.map(range).unwrap_or_default();
        let band = |row: &PlotRow| row.band.map(range).unwrap_or_default();
        let mark = |row: &PlotRow| row.mark.map(format).unwrap_or_default();
        let columns: Vec<Column<'_>> = match self.kind {
            Rows::Bars { value: name } => vec![(name, &value)],
            Rows::Points { value: name, interval: between, band: behind, mark: across } => {
                vec![(name, &value), (between, &interval), (behind, &band), (across, &mark)]
            }
        };
        // A plot needs not have all parts.
        let has_some = |(_, cell): &Column<'_>| self.rows.iter().any(|row| !cell(row).is_empty());
        let columns: Vec<Column<'_>> = columns.into_iter().filter(has_some).collect();
        let head = columns.iter().map(|(name, _)| (*name).to_owned());
        let rows = self.rows.iter().map(|row| {
            let cells = columns.iter().map(|(_, cell)| cell(row));
            std::iter::once(row.name.clone()).chain(cells).collect()
        });
        Numbers {
            head: std::iter::once(self.axis.name.clone()).chain(head).collect(),
            rows: rows.collect(),
        }
    }
}

impl PlotRow {
    fn numbers(&self) -> impl Iterator<Item = f64> {
        let ends = |range: Option<(f64, f64)>| range.map_or([None; 2], |(a, b)| [Some(a), Some(b)]);
        let [[low, high], [from, to]] = [ends(self.interval), ends(self.band)];
        let all = [self.value, self.mark, low, high, from, to];
        all.into_iter().flatten().filter(|number| is_drawable(*number))
    }
}
