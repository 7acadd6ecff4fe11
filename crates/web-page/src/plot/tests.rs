// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;

use super::*;
use crate::{STYLE, number};

const HOSTILE: &str =
    "</svg></text><script>alert(1)</script><img src=x>\"' onload=alert(2) \u{1b}[2J \u{202e}\0";

fn axis(name: &str) -> Axis {
    Axis { name: name.to_owned(), format: number }
}

fn lines(name: &str, points: &[(f64, f64)]) -> String {
    let series = (0..8).map(|place| Series {
        name: format!("{name} {place}"),
        points: points.iter().map(|(x, y)| (*x, y * (1.0 + f64::from(place)))).collect(),
        is_reference: place == 7,
    });
    let (x, y) = (axis(name), axis(name));
    LinePlot { title: name, description: name, x, y, series: series.collect() }.html()
}

fn rows(name: &str, kind: Rows, numbers: &[f64]) -> String {
    let row = |value: &f64| PlotRow {
        name: name.to_owned(),
        value: Some(*value),
        interval: Some((value * 0.9, value * 1.1)),
        band: Some((0.95, f64::INFINITY)),
        mark: Some(*value),
        is_bad: *value > 1.0,
    };
    let rows = numbers.iter().map(row).collect();
    RowPlot { title: name, description: name, axis: axis(name), kind, rows }.html()
}

const POINTS: Rows =
    Rows::Points { value: "ratio", interval: "quartiles", band: "control", mark: "claim" };
const BARS: Rows = Rows::Bars { value: "steps" };

fn columns(name: &str, counts: &[[u64; 2]]) -> String {
    let column = |parts: &[u64; 2]| Column { name: name.to_owned(), parts: *parts };
    let columns = counts.iter().map(column).collect();
    ColumnPlot { title: name, description: name, span: "day", parts: ["a", name], columns }.html()
}

/// Every kind of plot, with a name.
fn all(name: &str) -> String {
    [
        lines(name, &[(8.0, 0.2), (4096.0, 2.0), (1e6, 75.0)]),
        rows(name, POINTS, &[0.9, 1.0, 1.7]),
        rows(name, BARS, &[3.0, 900.0]),
        columns(name, &[[3, 1], [0, 0], [9, 0]]),
    ]
    .concat()
}

#[test]
fn every_color_of_a_plot_is_one_that_the_style_replaces() {
    let plots = all("name");
    let mut colors = BTreeSet::new();
    for attribute in ["fill", "stroke"] {
        for part in plots.split(&format!("{attribute}=\"#")).skip(1) {
            colors.insert(format!("[{attribute}=\"#{}\"]", part.split('"').next().unwrap()));
        }
    }
    assert!(colors.len() > 10, "{colors:?}");
    let unknown: Vec<_> = colors.iter().filter(|color| !STYLE.contains(color.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_plot_has_a_title_a_description_and_its_numbers() {
    for plot in
        [lines("size", &[(8.0, 0.25)]), rows("app", POINTS, &[0.25]), columns("May", &[[0, 25]])]
    {
        assert!(plot.starts_with("<figure class=\"plot\">\n<figcaption><b>"), "{plot}");
        assert!(plot.contains("role=\"img\" aria-label=\""), "{plot}");
        let table = plot.split_once("<table>").unwrap().1;
        assert!(table.contains("25</td>") && table.contains("<th scope=\"row\">"), "{plot}");
    }
}

#[test]
fn names_cannot_become_part_of_a_page() {
    let plots = all(HOSTILE);
    for bad in ["<script", "<img", "\u{1b}", "\u{202e}", "\0", "http:", "style="] {
        assert!(!plots.contains(bad), "{bad:?}");
    }
    for tag in ["svg", "text", "figure", "table", "ul"] {
        let count = |text: &str| plots.matches(text).count();
        let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
    }
    for tag in plots.split('<').filter_map(|rest| rest.split('>').next()) {
        let outside: String = tag.split('"').step_by(2).collect();
        assert!(!outside.contains("onload"), "{tag}");
    }
}

#[test]
fn any_number_can_be_drawn_or_is_left_out() {
    let strange = [0.0, -1.0, 1e-300, 1e308, f64::MAX, f64::MIN, f64::INFINITY, f64::NAN];
    for number in strange {
        let numbers = [number, 1.0, 2.0];
        for plot in [
            lines("n", &[(number, 1.0), (1.0, number), (2.0, 3.0)]),
            rows("n", POINTS, &numbers),
            rows("n", BARS, &numbers),
        ] {
            let drawing = plot.split_once("<details").unwrap().0;
            assert!(drawing.contains("<svg ") && !drawing.contains("NaN"), "{number}: {drawing}");
            assert!(!drawing.contains("2147483"), "{number}: {drawing}");
        }
    }
    assert!(columns("n", &[[u64::MAX, u64::MAX], [0, 0]]).contains("<svg "));
    assert_eq!(lines("n", &[(0.0, 1.0)]) + &rows("n", POINTS, &[]) + &columns("n", &[]), "");
}

#[test]
fn the_longest_bar_has_the_largest_number() {
    let plot = rows("n", BARS, &[10.0, 30.0, 20.0]);
    let width = |rectangle: &str| -> f64 {
        let rest = rectangle.split_once(" width=\"").unwrap().1;
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let widths: Vec<f64> =
        plot.split("<rect ").filter(|one| one.contains("fill=\"#B3261E\"")).map(width).collect();
    assert_eq!(widths.len(), 3, "{plot}");
    let ratio = (widths[0] / widths[1], widths[2] / widths[1]);
    assert!((ratio.0 - 1.0 / 3.0).abs() < 0.02 && (ratio.1 - 2.0 / 3.0).abs() < 0.02, "{ratio:?}");
}

#[test]
fn series_differ_by_shape_or_color() {
    let plot = lines("n", &[(8.0, 1.0), (64.0, 2.0)]);
    let legend = plot.split_once("<ul class=\"legend\">").unwrap().1;
    let keys: BTreeSet<&str> =
        legend.split("</svg>").take(8).map(|key| key.split_once("<svg").unwrap().1).collect();
    assert_eq!(keys.len(), 8, "{legend}");
}
