// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One page of HTML with the classes, their reasons and plots. Pure.
//!
//! The plots are drawn here as SVG: the page needs nothing from elsewhere, and may be put
//! on any server or sent by mail.

use std::fmt::Write as _;

use cabane_label::escape_html;

use crate::audit::Audited;
use crate::benchmark::{Figure, Kind};
use crate::judge::{AuditChange, Class, Floor, short, size};
use crate::run::Tried;

const STYLE: &str = "\
body{font:15px/1.5 sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #ddd;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}
b{font-weight:600}svg{width:100%;height:auto}svg text{font:11px sans-serif;fill:#444}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(28em,1fr));gap:2em}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg text{fill:#bbb}th,td{border-color:#444}}";

/// What is plotted, with the unit and the sizes.
const PLOTS: [(Kind, &str, &[u64]); 4] = [
    (Kind::Latency, "Latency, µs", &[8, 4096, 32768, 1 << 20, 4 << 20]),
    (Kind::Bandwidth, "Bandwidth of windows of 64, MB/s", &[64, 4096, 1 << 20]),
    (Kind::Allreduce, "Allreduce, µs", &[8, 4096]),
    (Kind::Alltoall, "Alltoall, µs", &[8, 4096]),
];

const WIDTH: f64 = 480.0;
const NAMES: f64 = 150.0;
const ROW: f64 = 16.0;

/// Writes the page.
pub fn html(title: &str, audited: &Audited) -> String {
    let tried = &audited.tried;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<table>\n<tr><th>installation<th>class<th>8 B<th>4 KiB<th>32 KiB<th>1 MiB<th>reason\n",
        title = escape_html(title)
    );
    for one in tried {
        let name = escape_html(&one.installation.name);
        let class = one.verdict.class;
        let _ = write!(page, "<tr><td>{name}<td><b style=\"color:{}\">{class}</b>", color(class));
        for bytes in crate::judge::LATENCIES {
            let best = one.outcome.output().best(Kind::Latency, bytes);
            let text = best.map(|figure| short(figure.p10)).unwrap_or_default();
            let _ = write!(page, "<td class=\"n\">{text}");
        }
        let library = one.outcome.output().library.as_deref().unwrap_or_default();
        let mut reason = escape_html(&one.verdict.reason.to_string());
        if let Some(advice) = &one.advice {
            reason += &format!("; {}", escape_html(&advice.to_string()));
        }
        let _ = writeln!(page, "<td>{reason}<br><small>{}</small>", escape_html(library));
    }
    for (name, figures) in audited.floor.ways() {
        let _ = write!(page, "<tr><td>({name})<td>");
        for bytes in crate::judge::LATENCIES {
            let best = Floor::best(figures, bytes).map(|figure| short(figure.p10));
            let _ = write!(page, "<td class=\"n\">{}", best.unwrap_or_default());
        }
        page.push_str("<td>what this node does without MPI\n");
    }
    page.push_str("</table>\n<p>Times are those of the fastest tenth of single operations.</p>\n");
    list_changes(&mut page, audited.changes.as_deref().unwrap_or_default());
    page.push_str("<div class=\"plots\">\n");
    for (kind, title, sizes) in PLOTS {
        for bytes in sizes {
            plot(&mut page, &format!("{title}: {}", size(*bytes)), tried, kind, *bytes);
        }
    }
    page.push_str("</div>\n</html>\n");
    page
}

fn list_changes(page: &mut String, changes: &[AuditChange]) {
    if changes.is_empty() {
        return;
    }
    page.push_str("<h2>Changes since earlier audits</h2>\n<ul>\n");
    for change in changes {
        let _ = writeln!(page, "<li>{}", escape_html(&change.to_string()));
    }
    page.push_str("</ul>\n");
}

/// Draws a bar for each installation, as long as the logarithm of its figure.
fn plot(page: &mut String, title: &str, tried: &[Tried], kind: Kind, bytes: u64) {
    let figures: Vec<(&Tried, &Figure)> = tried
        .iter()
        .filter_map(|one| Some((one, one.outcome.output().best(kind, bytes)?)))
        .collect();
    let values = || figures.iter().map(|(_, figure)| figure.p10);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if figures.is_empty() {
        return;
    }
    let heights = figures.iter().fold(20.0, |height, _| height + ROW);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {heights}\" role=\"img\"><text x=\"0\" y=\"12\" font-weight=\"600\">{}</text>",
        escape_html(title)
    );
    // The shortest bar can still be seen.
    let (low, high) = ((least / 2.0).ln(), most.ln());
    let mut top = 20.0;
    for (one, figure) in figures {
        let part = (figure.p10.ln() - low) / (high - low).max(f64::EPSILON);
        let length = part * (WIDTH - NAMES - 60.0);
        let (middle, end) = (top + 11.0, NAMES + length + 5.0);
        let _ = writeln!(
            page,
            "<text x=\"0\" y=\"{middle}\">{}</text><rect x=\"{NAMES}\" y=\"{top}\" width=\"{length:.1}\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{end:.1}\" y=\"{middle}\">{}</text>",
            escape_html(&shortened(&one.installation.name)),
            color(one.verdict.class),
            short(figure.p10)
        );
        top += ROW;
    }
    page.push_str("</svg>\n");
}

/// The end of a name: paths differ there.
fn shortened(name: &str) -> String {
    const MOST: usize = 24;
    let count = name.chars().count();
    if count <= MOST {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count - MOST + 1).collect();
    format!("…{end}")
}

fn color(class: Class) -> &'static str {
    match class {
        Class::Working => "#2a8a4a",
        Class::Suboptimal => "#b58900",
        Class::Inconclusive => "#6c7a89",
        Class::NonPerformant => "#d9541e",
        Class::Misplaced => "#8a4fbf",
        Class::Nonfunctional => "#c02942",
    }
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
    fn slower_installations_have_longer_bars() {
        let nothing = || Reason::NothingToCompare { peers: 2 };
        let page = page(
            "t",
            vec![
                tried("a", "latency 8 0.2 0.2 9 1 1\n", nothing()),
                tried("b", "latency 8 2.0 0.2 9 1 1\n", nothing()),
            ],
            None,
        );
        let widths: Vec<f64> = page
            .split("width=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert!(widths[0] > 0.0 && widths[0] < widths[1], "{widths:?}");
    }

    #[test]
    fn figures_that_are_all_alike_are_drawn() {
        let nothing = || Reason::NothingToCompare { peers: 1 };
        let page = page("t", vec![tried("a", "latency 8 0.2 0.2 9 1 1\n", nothing())], None);
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
    }
}
