// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lines over a size, both on logarithmic axes. Pure.

use std::fmt::Write as _;

use cabane_label::escape_html;
use plotters::element::{DynElement, IntoDynElement};
use plotters::prelude::*;

use super::scale::{Axis, Scale, extent, has_logarithm};
use super::{CHARACTERS, COLORS, GRID, LETTERS, Numbers, TEXT, WIDTH, cut, figure, letters, svg};

const HEIGHT: u32 = 300;

/// A plot with a line for each series.
#[derive(Clone, Debug)]
pub struct LinePlot<'a> {
    /// What it is about.
    pub title: &'a str,
    /// What is to be seen.
    pub description: &'a str,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points. Only positive numbers are drawn.
    pub points: Vec<(f64, f64)>,
    /// Whether others are compared with it: it is a thin line without a color then.
    pub is_reference: bool,
}

impl LinePlot<'_> {
    /// Writes the plot; nothing if there is no point to draw.
    #[must_use]
    pub fn html(&self) -> String {
        let points = || self.series.iter().flat_map(Series::drawable);
        let (Some(x), Some(y)) =
            (extent(points().map(|(x, _)| x)), extent(points().map(|(_, y)| y)))
        else {
            return String::new();
        };
        let label = format!("{}. {}", self.title, self.description);
        let drawing = svg(&label, (WIDTH, HEIGHT), |area| {
            let x = Scale::logarithmic(x).with_points(&self.sizes(), 0.13);
            let mut chart = ChartBuilder::on(area)
                .margin(8)
                .margin_right(18)
                .x_label_area_size(40)
                .y_label_area_size(64)
                .build_cartesian_2d(x, Scale::logarithmic(y))?;
            chart
                .configure_mesh()
                .bold_line_style(GRID)
                .light_line_style(TRANSPARENT)
                .axis_style(TEXT)
                .label_style(letters())
                .x_label_formatter(&|x| (self.x.format)(*x))
                .y_label_formatter(&|y| (self.y.format)(*y))
                .x_desc(cut(&self.x.name, CHARACTERS))
                .y_desc(cut(&self.y.name, CHARACTERS))
                .draw()?;
            for (looks, series) in self.looks() {
                let points: Vec<_> = series.drawable().collect();
                let area = chart.plotting_area();
                area.draw(&looks.line(points.clone()))?;
                points.into_iter().try_for_each(|point| area.draw(&looks.mark(point)))?;
            }
            Ok(())
        });
        figure(self.title, self.description, &(drawing + &self.legend()), &self.numbers())
    }

    fn looks(&self) -> impl Iterator<Item = (Looks, &Series)> {
        let (mut colored, mut references) = (0, 0);
        self.series.iter().map(move |series| {
            let looks = if series.is_reference {
                references += 1;
                Looks::of_reference(references)
            } else {
                colored += 1;
                Looks::of(colored - 1)
            };
            (looks, series)
        })
    }

    /// All values of the horizontal axis, the smallest first.
    fn sizes(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> =
            self.series.iter().flat_map(Series::drawable).map(|(x, _)| x).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        sizes
    }

    fn legend(&self) -> String {
        let mut list = "<ul class=\"legend\">\n".to_owned();
        for (looks, series) in self.looks() {
            let key = svg("", (34, LETTERS), |area| {
                let middle = i32::try_from(LETTERS / 2).unwrap_or_default();
                area.draw(&looks.line(vec![(0, middle), (34, middle)]))?;
                area.draw(&looks.mark((17, middle)))
            });
            let key = key.replacen(" role=\"img\" aria-label=\"\"", " aria-hidden=\"true\"", 1);
            let _ = writeln!(list, "<li>{key} {}</li>", escape_html(&series.name));
        }
        list + "</ul>\n"
    }

    fn numbers(&self) -> Numbers {
        let names = self.series.iter().map(|series| series.name.clone());
        let head = std::iter::once(format!("{} / {}", self.x.name, self.y.name)).chain(names);
        let row = |x: f64| {
            let of = |series: &Series| {
                let found = series.points.iter().find(|(other, _)| other.total_cmp(&x).is_eq());
                found.map(|(_, y)| (self.y.format)(*y)).unwrap_or_default()
            };
            std::iter::once((self.x.format)(x)).chain(self.series.iter().map(of)).collect()
        };
        Numbers { head: head.collect(), rows: self.sizes().into_iter().map(row).collect() }
    }
}

impl Series {
    fn drawable(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(|(x, y)| has_logarithm(*x) && has_logarithm(*y))
    }
}

/// How a series looks: by its color and by the shape of its points.
#[derive(Clone, Copy)]
struct Looks {
    color: RGBColor,
    shape: usize,
    width: u32,
}

impl Looks {
    /// How a series looks with which others are compared: the first has no points.
    fn of_reference(number: usize) -> Self {
        let shape = match number {
            1 => usize::MAX,
            even if even % 2 == 0 => 3,
            _ => 4,
        };
        Self { color: TEXT, shape, width: 1 }
    }

    fn of(number: usize) -> Self {
        // There are as many colors as shapes. The next round has other pairs.
        let shape = (number + number / COLORS.len()) % COLORS.len();
        Self { color: COLORS[number % COLORS.len()], shape, width: 2 }
    }

    /// The line through some points.
    fn line<C>(self, points: Vec<C>) -> PathElement<C> {
        PathElement::new(points, self.color.stroke_width(self.width))
    }

    /// The mark of a point.
    fn mark<'b, C: Clone + 'b, B: DrawingBackend + 'b>(self, at: C) -> DynElement<'b, B, C> {
        let (filled, hollow) = (self.color.filled(), self.color.stroke_width(2));
        let at = EmptyElement::at(at);
        match self.shape {
            0 => (at + Circle::new((0, 0), 4, filled)).into_dyn(),
            1 => (at + TriangleMarker::new((0, 0), 6, filled)).into_dyn(),
            2 => (at + Rectangle::new([(-4, -4), (4, 4)], filled)).into_dyn(),
            3 => (at + Cross::new((0, 0), 4, hollow)).into_dyn(),
            4 => (at + Circle::new((0, 0), 4, hollow)).into_dyn(),
            5 => (at + Polygon::new([(0, -6), (6, 0), (0, 6), (-6, 0)], filled)).into_dyn(),
            _ => at.into_dyn(),
        }
    }
}
