// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Counts over time: a column for each day or other span. Pure.

use plotters::prelude::*;

use super::scale::Scale;
use super::{BAD, COLORS, GRID, Numbers, TEXT, WIDTH, cut, figure, letters, svg};

const HEIGHT: u32 = 240;

/// A plot with a column for each span of time.
#[derive(Clone, Debug)]
pub struct ColumnPlot<'a> {
    /// What it is about.
    pub title: &'a str,
    /// What is to be seen.
    pub description: &'a str,
    /// What a column stands for: `day`.
    pub span: &'a str,
    /// What is counted: the lower part of a column, and the upper one, which stands out.
    pub parts: [&'a str; 2],
    /// The columns, the oldest first.
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub parts: [u64; 2],
}

impl ColumnPlot<'_> {
    /// Writes the plot; nothing if there is no column.
    #[must_use]
    pub fn html(&self) -> String {
        if self.columns.is_empty() {
            return String::new();
        }
        let places: Vec<usize> = (0..self.columns.len()).collect();
        let most = self.columns.iter().map(|column| height(column.parts[0], column.parts[1]));
        let most = most.fold(1.0, f64::max);
        let label = format!("{}. {}", self.title, self.description);
        let drawing = svg(&label, (WIDTH, HEIGHT), |area| {
            let middles: Vec<f64> = places.iter().map(|place| at(*place) + 0.5).collect();
            let x = Scale::exact(0.0..at(places.len())).with_points(&middles, 0.24);
            let mut chart = ChartBuilder::on(area)
                .margin(8)
                .margin_right(30)
                .x_label_area_size(24)
                .y_label_area_size(56)
                .build_cartesian_2d(x, Scale::exact(0.0..most * 1.05))?;
            let name_of = |place: &f64| {
                let found = places.iter().find(|one| (at(**one) + 0.5).total_cmp(place).is_eq());
                found.and_then(|one| self.columns.get(*one)).map(|one| cut(&one.name, 12))
            };
            chart
                .configure_mesh()
                .disable_x_mesh()
                .bold_line_style(GRID)
                .light_line_style(TRANSPARENT)
                .axis_style(TEXT)
                .label_style(letters())
                .y_labels(5)
                .x_label_formatter(&|place| name_of(place).unwrap_or_default())
                .y_label_formatter(&|count| crate::number(*count))
                .draw()?;
            let rectangles = self.columns.iter().zip(&places).flat_map(|(column, place)| {
                let (left, right) = (at(*place) + 0.1, at(*place) + 0.9);
                let [lower, upper] = column.parts;
                let (middle, top) = (height(lower, 0), height(lower, upper));
                let lower = Rectangle::new([(left, 0.0), (right, middle)], COLORS[0].filled());
                let upper = Rectangle::new([(left, middle), (right, top)], BAD.filled());
                [(lower, middle > 0.0), (upper, top > middle)]
            });
            let seen = rectangles.filter(|(_, is_seen)| *is_seen).map(|(one, _)| one);
            chart.draw_series(seen)?;
            Ok(())
        });
        figure(self.title, self.description, &drawing, &self.numbers())
    }

    fn numbers(&self) -> Numbers {
        let head = [self.span, self.parts[0], self.parts[1]].map(str::to_owned);
        let row = |column: &Column| {
            let [lower, upper] = column.parts;
            vec![column.name.clone(), lower.to_string(), upper.to_string()]
        };
        Numbers { head: head.into(), rows: self.columns.iter().map(row).collect() }
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
fn height(lower: u64, upper: u64) -> f64 {
    lower as f64 + upper as f64
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
fn at(place: usize) -> f64 {
    place as f64
}
