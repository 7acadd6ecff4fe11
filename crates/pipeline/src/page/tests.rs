// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::time::Instant;

use cabane_check::{CheckReport, CheckResult, Source};
use cabane_evidence::{Host, Measured};

use super::*;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload=alert(3) \
                       </pre></details><!-- \u{1b}[2J \u{202e}txt \u{2028}\0 &lt;";

fn measured(variable: &str, value: f64) -> Measured {
    Measured {
        variable: variable.to_owned(),
        value,
        unit: "GB/s".to_owned(),
        reference: Some(40.0),
        lower: Some(-0.1),
        upper: None,
    }
}

fn result(stage: Stage, outcome: Outcome, message: &str) -> StageResult {
    StageResult {
        stage,
        outcome,
        message: Some(message.to_owned()),
        hints: vec!["`cabane image ls`".to_owned()],
        started: "2026-11-26T10:00:00Z".parse().unwrap(),
        finished: "2026-11-26T10:01:01Z".parse().unwrap(),
        inputs: "0".repeat(64).parse().unwrap(),
        bases: cabane_builder::Pins::default(),
        digest: None,
        report: None,
        provenance: None,
    }
}

fn checked(outcome: Outcome, checks: Vec<CheckResult>) -> StageResult {
    let mut stage = result(Stage::Check, outcome, "1 check");
    stage.report = Some(CheckReport {
        image: "app".to_owned(),
        label: None,
        digest: "0".repeat(64).parse().unwrap(),
        size: 1,
        outcome,
        checks,
        left_out: Vec::new(),
        suites: Vec::new(),
        started: stage.started,
        finished: stage.finished,
        host: Host::default(),
    });
    stage
}

fn check(name: &str, outcome: Outcome, reason: &str, figures: Vec<Measured>) -> CheckResult {
    CheckResult {
        unmeasured: Vec::new(),
        name: name.to_owned(),
        source: Source::Recipe,
        outcome,
        reason: Some(reason.to_owned()),
        seconds: 1.25,
        figures,
    }
}

fn cell(name: &str, stages: Vec<StageResult>, log: Option<String>) -> PageCell {
    let outcome = Outcome::of_all(stages.iter().map(|stage| stage.outcome));
    let summary = CellSummary {
        cell: name.parse().unwrap(),
        outcome: (!stages.is_empty()).then_some(outcome),
        digest: None,
        stages,
    };
    PageCell { summary, log: log.map(|text| EndOfLog { stage: Stage::Build, text, is_cut: true }) }
}

fn page(cells: Vec<PageCell>) -> Page {
    Page { title: "Pipeline report: alps".to_owned(), cells, left_out: Vec::new() }
}

#[test]
fn nothing_that_others_wrote_becomes_part_of_the_page() {
    let figure = Measured { unit: HOSTILE.to_owned(), ..measured(HOSTILE, 1.0) };
    let mut stages = vec![
        result(Stage::Build, Outcome::Failed, HOSTILE),
        checked(Outcome::Failed, vec![check(HOSTILE, Outcome::Failed, HOSTILE, vec![figure])]),
    ];
    stages[0].hints.push(HOSTILE.to_owned());
    stages[1].report.as_mut().unwrap().left_out.push(HOSTILE.to_owned());
    stages[1].report.as_mut().unwrap().host.os = Some(HOSTILE.to_owned());
    let cells = vec![
        cell("app/1.0@daint%gh200", stages.clone(), Some(HOSTILE.to_owned())),
        cell("app/1.0@eiger%zen2", stages, Some(HOSTILE.to_owned())),
    ];
    let hostile = Page { title: HOSTILE.to_owned(), left_out: vec![HOSTILE.to_owned()], cells };
    let html = hostile.html();
    for bad in ["<script", "</script", "<img", "<!--", "\u{1b}", "\u{202e}", "\u{2028}", "\0"] {
        assert!(!html.contains(bad), "{bad:?}");
    }
    let count = |tag: &str| html.matches(tag).count();
    for tag in ["details", "pre", "main", "body", "table", "svg", "ol", "p", "h3"] {
        let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
    }
    // No attribute ends early: what is left of each tag has only names that are ours.
    for tag in html.split('<').filter_map(|rest| rest.split('>').next()) {
        let outside: String = tag.split('"').step_by(2).collect();
        assert!(!outside.contains("onload") && !outside.contains("onerror"), "{tag}");
    }
}

#[test]
fn the_matrix_has_a_row_for_each_environment_and_a_column_for_each_kind_of_nodes() {
    let cells = vec![
        cell("app/1.0@daint%gh200", vec![result(Stage::Build, Outcome::Passed, "built")], None),
        cell("app/1.0@eiger%zen2", vec![result(Stage::Build, Outcome::Error, "no node")], None),
        cell("lib/2.0@daint%gh200", Vec::new(), None),
    ];
    let html = page(cells).html();
    for part in [
        "<p>2 environments on 2 systems. 3 cells: 1 PASSED, 1 ERROR, 1 without a result.</p>",
        "The stages ran between 2026-11-26 10:00:00 UTC and 2026-11-26 10:01:01 UTC.",
        "<th scope=\"col\">daint%gh200</th><th scope=\"col\">eiger%zen2</th></tr>",
        "<th scope=\"row\">app/1.0</th><td><a class=\"o p\" href=\"#app/1.0@daint:gh200\">PASSED<",
        "<span class=\"v\"> app/1.0@eiger%zen2</span></a> build</td>",
        "<div id=\"app/1.0@eiger:zen2\">",
        "<span class=\"v\">not in the pipeline</span>",
        "no result",
        "1 min 1 s",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    assert_eq!(html.matches("<h1").count(), 1);
    assert_eq!(html.matches("<details open>").count(), 1);
}

#[test]
fn cells_with_the_same_message_are_one_item() {
    let failed = || vec![result(Stage::Build, Outcome::Failed, "no compiler\nmore")];
    let cells = vec![
        cell("app/1.0@daint%gh200", failed(), None),
        cell("lib/1.0@daint%gh200", failed(), None),
    ];
    let html = page(cells).html();
    assert_eq!(html.matches("build: no compiler<br>").count(), 1, "{html}");
}

#[test]
fn a_figure_of_several_cells_is_compared() {
    let speed = |value| vec![check("stream", Outcome::Passed, "", vec![measured("copy", value)])];
    let with = |name: &str, value| cell(name, vec![checked(Outcome::Passed, speed(value))], None);
    let html = page(vec![with("app/1.0@daint%gh200", 42.0)]).html();
    assert!(!html.contains("Compare the systems") && html.contains("stream: copy"), "{html}");
    let html = page(vec![with("app/1.0@a%gh200", 42.0), with("app/1.0@b%zen2", 20.0)]).html();
    let comparison =
        html.split_once("id=\"figures\"").unwrap().1.split_once("</figure>").unwrap().0;
    assert!(comparison.contains("<b>app: stream, copy</b>"), "{comparison}");
    let row = "<th scope=\"row\">1.0@b%zen2</th><td>20</td><td>at least 36</td><td>40</td>";
    assert!(comparison.contains(row), "{comparison}");
    assert_eq!(html.matches("<svg ").count(), 3);
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let cells = || {
        let stages = vec![result(Stage::Build, Outcome::Failed, "no compiler")];
        vec![cell("app/1.0@daint%gh200", stages, Some("line\n".repeat(9)))]
    };
    assert_eq!(page(cells()).html(), page(cells()).html());
}

#[test]
fn many_cells_with_long_logs_fit_in_two_megabytes() {
    let cells = (0..200).map(|number| {
        let checks = (0..10).map(|check_number| {
            let figures = vec![measured("copy", f64::from(number))];
            check(&format!("check-{check_number}"), Outcome::Failed, &"why ".repeat(20), figures)
        });
        let stages = vec![
            result(Stage::Build, Outcome::Passed, "built"),
            checked(Outcome::Failed, checks.collect()),
        ];
        let name = format!("app-{}/1.0@system{}%gh200", number / 10, number % 10);
        let log = "make: *** [\u{1b}[31m<all>\u{1b}[0m] 'Error' 2\n".repeat(1500);
        cell(&name, stages, Some(log))
    });
    let page = page(cells.collect());
    let began = Instant::now();
    let html = page.html();
    let seconds = began.elapsed().as_secs_f64();
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    // In a test build, beside other tests.
    assert!(seconds < 5.0, "{seconds} s");
}

#[test]
fn short_logs_leave_more_for_long_ones() {
    assert_eq!(fair_share(vec![], 100), 100);
    assert_eq!(fair_share(vec![8, 400], 100), 90);
    assert_eq!(fair_share(vec![400, 400], 100), 50);
}
