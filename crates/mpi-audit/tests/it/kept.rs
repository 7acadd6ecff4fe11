// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is kept of earlier audits.

use cabane_mpi_audit::benchmark::NodeType;
use cabane_mpi_audit::judge::{
    AuditChange, Class, ComparedInstallation, Floor, KeptAudits, Latency, Yardsticks, judge,
};
use jiff::civil::{Date, date};
use serde_json::{Value, json};

use crate::made::ran_at;

const SIZES: [u64; 4] = [8, 4096, 32768, 1 << 20];

fn result(name: &str, class: &str, microseconds: f64) -> ComparedInstallation {
    let figure = |bytes: &u64| {
        json!({"kind": "latency", "bytes": bytes, "p10": microseconds, "p25": null,
        "p50": microseconds, "p75": null, "count": 100, "distance": 0.1, "waited": 0.0})
    };
    let figures: Vec<Value> = SIZES.iter().map(figure).collect();
    serde_json::from_value(json!({"name": name, "class": class, "figures": figures})).unwrap()
}

fn nothing() -> KeptAudits {
    KeptAudits::new(NodeType { model: "Some 64-Core".to_owned(), processors: 128 }, 2, 1)
}

fn day(number: i8) -> Date {
    date(2026, 10, number)
}

#[test]
fn three_healthy_installations_give_a_reference_though_they_were_audited_one_by_one() {
    let mut kept = nothing();
    kept.add(day(1), &[result("a", "working", 0.2)]);
    kept.add(day(2), &[result("b", "working", 0.3)]);
    kept.add(day(2), &[result("slow", "non-performant", 0.1)]);
    assert_eq!(kept.reference(), None);
    kept.add(day(3), &[result("c", "suboptimal", 0.4)]);
    let at = |microseconds| Latency { microseconds, distance: Some(0.1), is_disturbed: false };
    assert_eq!(kept.reference().unwrap().latency[&8], at(0.3));
    // The newest result of each installation counts.
    kept.add(day(4), &[result("b", "working", 0.25)]);
    assert_eq!(kept.reference().unwrap().latency[&8], at(0.25));
    kept.add(day(5), &[result("b", "nonfunctional", 0.25)]);
    assert_eq!(kept.reference(), None);
}

#[test]
fn what_is_kept_decides_where_there_are_too_few_peers() {
    let mut kept = nothing();
    for name in ["a", "b", "c"] {
        kept.add(day(1), &[result(name, "working", 0.2)]);
    }
    let reference = kept.reference();
    let floor = Floor::default();
    let judged = |latencies: &[f64]| -> Vec<_> {
        let outcomes: Vec<_> = latencies.iter().map(|latency| ran_at(0.1, [*latency; 4])).collect();
        let yardsticks =
            Yardsticks { reference: None, kept: reference.as_ref(), floor: &floor, processors: 2 };
        let verdicts = judge(&outcomes, &yardsticks).into_iter();
        verdicts.map(|verdict| (verdict.class, verdict.reason.to_string())).collect()
    };
    let text = |figures: &str| {
        format!("at worst, 1 MiB take {figures} what earlier audits of such nodes found")
    };
    assert_eq!(judged(&[0.2]), [(Class::Working, text("0.20 µs, 1.0 times"))]);
    let text = "1 MiB take 0.50 µs, 2.5 times what earlier audits of such nodes found".to_owned();
    assert_eq!(judged(&[0.5]), [(Class::Suboptimal, text)]);
    let text = "at worst, 1 MiB take 0.50 µs, 1.0 times the median of 3".to_owned();
    assert_eq!(judged(&[0.5; 3])[0], (Class::Working, text));
}

#[test]
fn an_installation_is_compared_with_its_newest_result_of_an_earlier_day() {
    let mut kept = nothing();
    kept.add(day(1), &[result("a", "suboptimal", 0.9), result("b", "working", 0.2)]);
    kept.add(day(7), &[result("a", "working", 0.2)]);
    kept.add(day(8), &[result("a", "nonfunctional", 0.2), result("a", "inconclusive", 9.0)]);
    let now = [result("a", "nonfunctional", 0.2), result("new", "working", 0.2)];
    let (name, since) = ("a".to_owned(), Some(day(7)));
    let expected =
        [AuditChange::Class { name, before: Class::Working, now: Class::Nonfunctional, since }];
    assert_eq!(kept.changes(day(8), &now), expected);
    // A repeated audit shows the change again, and the next day it is none.
    kept.add(day(8), &now);
    assert_eq!(kept.changes(day(8), &now), expected);
    assert_eq!(kept.changes(day(9), &now), []);
    let text = kept.changes(day(8), &now)[0].to_string();
    assert_eq!(text, "a: was working on 2026-10-07, and is nonfunctional");
    let text = kept.changes(day(9), &[result("b", "working", 0.5)])[0].to_string();
    assert_eq!(text, "b: 8 B took 0.20 µs on 2026-10-01, and take 0.50 µs now");
}

#[test]
fn results_of_many_days_do_not_grow_without_end() {
    let (mut kept, mut twelve) = (nothing(), nothing());
    for number in 1..=30 {
        kept.add(day(number), &[result("a", "working", f64::from(number))]);
    }
    for number in 19..=30 {
        twelve.add(day(number), &[result("a", "working", f64::from(number))]);
    }
    assert_eq!(kept, twelve);
}

#[test]
fn a_file_is_read_back_and_a_damaged_one_is_as_none() {
    let mut kept = nothing();
    kept.add(day(1), &[result("a", "working", 0.2)]);
    let text = kept.to_json();
    assert_eq!(KeptAudits::from_json(&text), Some(kept));
    let later = text.replace("\"version\":1", "\"version\":2");
    for damaged in ["", "{}", text.split_at(text.len() / 2).0, &later] {
        assert_eq!(KeptAudits::from_json(damaged), None, "{damaged}");
    }
}

#[test]
fn a_type_of_node_is_its_model_and_its_number_of_processors() {
    let intel = "processor\t: 0\nmodel name\t: Some  64-Core\nphysical id : 0\n\nprocessor\t: 1\nmodel name\t: x\n";
    let expected = NodeType { model: "Some 64-Core".to_owned(), processors: 2 };
    assert_eq!(NodeType::from_cpuinfo(intel), Some(expected));
    let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
    let expected = NodeType { model: "0xd4f".to_owned(), processors: 1 };
    assert_eq!(NodeType::from_cpuinfo(arm), Some(expected));
    assert_eq!(NodeType::from_cpuinfo("processor : 0\nmodel name :\n"), None);
}
