// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One page of HTML with the classes, their reasons and plots. Pure.
//!
//! The page needs nothing from elsewhere and runs no script, and may be put on any server or sent by mail.

use std::fmt::Write as _;

use cabane_label::escape_html;
use cabane_web_page::plot::{Axis, LinePlot, Series};
use cabane_web_page::{END, begin};

use crate::audit::Audited;
use crate::benchmark::Kind;
use crate::judge::{AuditChange, Class, Floor, Reason, Verdict, short, size};
use crate::run::Tried;

/// What is plotted: its name, what is to be seen, the unit, and the sizes.
const PLOTS: [(Kind, &str, &str, &str, &[u64]); 4] = [
    (Kind::Latency, "Latency", LOWER, "latency, µs", &[8, 4096, 32768, 1 << 20, 4 << 20]),
    (
        Kind::Bandwidth,
        "Bandwidth of windows of 64",
        HIGHER,
        "bandwidth, MB/s",
        &[64, 4096, 1 << 20],
    ),
    (Kind::Allreduce, "Allreduce", LOWER, "time, µs", &[8, 4096]),
    (Kind::Alltoall, "Alltoall", LOWER, "time, µs", &[8, 4096]),
];
const LOWER: &str = "Lower is better. Times are those of the fastest tenth of single operations, the best of all runs.";
const HIGHER: &str = "Higher is better. Only shown, and never judged.";

/// Writes the page.
pub fn html(title: &str, audited: &Audited) -> String {
    let mut page = begin(title);
    let _ = writeln!(page, "<main>\n<h1>{}</h1>", escape_html(title));
    page.push_str(
        "<table>\n<caption>What each installation is good for, the best first</caption>\n<tr>",
    );
    for column in ["installation", "class", "reason"] {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr>\n");
    for one in &audited.tried {
        add_row(&mut page, one);
    }
    page.push_str("</table>\n");
    list_changes(&mut page, audited.changes.as_deref().unwrap_or_default());
    page.push_str("<h2>Figures</h2>\n<div class=\"plots\">\n");
    for (kind, title, description, unit, sizes) in PLOTS {
        let of_floor = audited.floor.ways().filter(|_| kind == Kind::Latency);
        let of_floor = of_floor.map(|(way, figures)| Series {
            name: format!("{way}, without MPI"),
            points: points(sizes, |bytes| Some(Floor::best(figures, bytes)?.p10)),
            is_reference: true,
        });
        let of_all = audited.tried.iter().map(|one| Series {
            name: one.installation.name.clone(),
            points: points(sizes, |bytes| Some(one.outcome.output().best(kind, bytes)?.p10)),
            is_reference: false,
        });
        let (x, y) = (axis("message size", bytes_of), axis(unit, short));
        let mut series: Vec<Series> = of_all.chain(of_floor).collect();
        series.retain(|series| !series.points.is_empty());
        page.push_str(&LinePlot { title, description, x, y, series }.html());
    }
    page.push_str("</div>\n</main>\n");
    page.push_str(END);
    page
}

fn axis(name: &str, format: fn(f64) -> String) -> Axis {
    Axis { name: name.to_owned(), format }
}

/// A size of messages on an axis.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was an integer")]
fn bytes_of(number: f64) -> String {
    size(number as u64)
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
fn points(sizes: &[u64], figure: impl Fn(u64) -> Option<f64>) -> Vec<(f64, f64)> {
    sizes.iter().filter_map(|bytes| Some((*bytes as f64, figure(*bytes)?))).collect()
}

fn add_row(page: &mut String, one: &Tried) {
    let (class, look) = shown(&one.verdict);
    let library = one.outcome.output().library.as_deref().unwrap_or_default();
    let mut reason = escape_html(&one.verdict.reason.to_string());
    if let Some(advice) = &one.advice {
        reason += &format!("; {}", escape_html(&advice.to_string()));
    }
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\">{}</th><td><span class=\"o {look}\">{class}</span></td>\
         <td>{reason}<br><span class=\"faint\">{}</span></td></tr>",
        escape_html(&one.installation.name),
        escape_html(library)
    );
}

/// The class of a verdict as the page shows it, and how it looks. Nothing is called working that was compared
/// with nothing.
fn shown(verdict: &Verdict) -> (Class, &'static str) {
    let class = match verdict.reason {
        Reason::NothingToCompare { .. } => Class::Inconclusive,
        _ => verdict.class,
    };
    let look = match class {
        Class::Working => "p",
        Class::Suboptimal => "e",
        Class::Inconclusive => "n",
        Class::NonPerformant | Class::Misplaced | Class::Nonfunctional => "f",
    };
    (class, look)
}

fn list_changes(page: &mut String, changes: &[AuditChange]) {
    if changes.is_empty() {
        return;
    }
    page.push_str("<h2>Changes since earlier audits</h2>\n<ul>\n");
    for change in changes {
        let _ = writeln!(page, "<li>{}</li>", escape_html(&change.to_string()));
    }
    page.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::BenchmarkOutput;
    use crate::judge::{Outcome, Reason, Verdict};
    use crate::{Installation, Origin};

    fn page(title: &str, tried: Vec<Tried>, changes: Option<Vec<AuditChange>>) -> String {
        let (others, floor) = (Vec::new(), Floor::default());
        html(title, &Audited { tried, others, node_type: None, floor, changes })
    }

    fn tried(name: &str, output: &str, reason: Reason) -> Tried {
        Tried {
            installation: Installation::new(name, Origin::Module(name.to_owned())),
            program: None,
            pmi: None,
            outcome: Outcome::Ran(Box::new(BenchmarkOutput::from_output(output))),
            runs: 1,
            once: None,
            library_of: None,
            advice: None,
            verdict: Verdict { class: Class::Working, reason, is_incomplete: false },
        }
    }

    #[test]
    fn what_an_installation_says_cannot_become_part_of_the_page() {
        let reason = Reason::NotCompiled { message: "<script>alert('1')</script>".to_owned() };
        let changes = vec![AuditChange::Added { name: "<img src=y>".to_owned() }];
        let page = page("a & b", vec![tried("<img src=x>", "", reason)], Some(changes));
        let is_safe = !page.contains("<script") && !page.contains("<img");
        assert!(
            is_safe && page.contains("&lt;img src=x&gt;") && page.contains("&lt;img src=y&gt;"),
            "{page}"
        );
    }

    #[test]
    fn what_was_compared_with_nothing_is_not_called_working() {
        let nothing = Reason::NothingToCompare { peers: 1 };
        let page = page("t", vec![tried("a", "latency 8 0.2 0.2 9 1 1\n", nothing)], None);
        assert!(page.contains(">inconclusive</span>") && !page.contains(">working<"), "{page}");
    }

    #[test]
    fn each_installation_is_a_line_and_has_its_numbers() {
        let reason = || Reason::NotCompiled { message: String::new() };
        let output = |factor: f64| {
            let size = |bytes: u32| {
                let time = factor * f64::from(bytes) / 4096.0;
                format!("latency {bytes} {time} {time} 9 1 1\n")
            };
            [8, 4096, 32768].map(size).concat()
        };
        let tried = vec![
            tried("first", &output(0.5), reason()),
            tried("second", &output(3.0), reason()),
            tried("silent", "", reason()),
        ];
        let page = page("t", tried, None);
        let plot = page.split("<figure").nth(1).unwrap();
        let legend = plot.split_once("<ul class=\"legend\">").unwrap().1;
        assert!(legend.contains(" first</li>") && legend.contains(" second</li>"), "{plot}");
        assert!(!plot.contains("silent"), "{plot}");
        let row = "<th scope=\"row\">4 KiB</th><td>0.50</td><td>3.00</td>";
        assert!(plot.contains(row) && !page.contains("NaN"), "{plot}");
        assert_eq!(page.matches("<figure").count(), 1);
    }
}
