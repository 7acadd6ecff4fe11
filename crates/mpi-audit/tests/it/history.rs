// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What has changed between two audits.

use cabane_mpi_audit::judge::{AuditChange, Class, ComparedInstallation, EarlierAudit};
use serde_json::{Value, json};

/// A figure for 8 bytes: the best tenth, the distance, and how long a rank waited.
fn figure(p10: f64, distance: f64, waited: f64) -> Value {
    json!({"kind": "latency", "bytes": 8, "p10": p10, "p25": null, "p50": p10, "p75": null,
        "count": 100, "distance": distance, "waited": waited})
}

fn audit(installations: &[(&str, &str, Vec<Value>)]) -> String {
    let row = |(name, class, figures): &(&str, &str, Vec<Value>)| json!({"name": name, "class": class, "figures": figures, "explanation": "not read"});
    let rows: Vec<Value> = installations.iter().map(row).collect();
    json!({"ranks": 2, "nodes": 1, "floor": {}, "installations": rows}).to_string()
}

fn changes(
    before: &[(&str, &str, Vec<Value>)],
    now: &[(&str, &str, Vec<Value>)],
) -> Vec<AuditChange> {
    let all: Value = serde_json::from_str(&audit(now)).unwrap();
    let now: Vec<ComparedInstallation> =
        serde_json::from_value(all["installations"].clone()).unwrap();
    EarlierAudit::from_json(&audit(before), 2, 1).unwrap().changes(&now)
}

#[test]
fn what_is_new_gone_or_in_another_class_is_a_change() {
    let before = [("a", "working", vec![]), ("b", "working", vec![])];
    let now = [("b", "non-performant", vec![]), ("c", "working", vec![])];
    let b = || "b".to_owned();
    let expected = [
        AuditChange::Class {
            name: b(),
            before: Class::Working,
            now: Class::NonPerformant,
            since: None,
        },
        AuditChange::Added { name: "c".to_owned() },
        AuditChange::Removed { name: "a".to_owned() },
    ];
    assert_eq!(changes(&before, &now), expected);
    assert_eq!(changes(&before, &before), []);
}

#[test]
fn a_latency_counts_if_it_differs_at_one_distance_and_without_load() {
    let one = |figures: Vec<Value>| [("a", "working", figures)];
    let before = one(vec![figure(0.4, 0.1, 0.0), figure(0.3, 0.1, 0.0)]);
    let slower =
        AuditChange::Latency { name: "a".to_owned(), bytes: 8, before: 0.3, now: 0.5, since: None };
    let now = |p10, distance, waited| changes(&before, &one(vec![figure(p10, distance, waited)]));
    assert_eq!(now(0.5, 0.1, 0.0), [slower]);
    assert_eq!(now(0.44, 0.1, 0.0), [], "runs differ as much");
    assert_eq!(now(0.5, 0.4, 0.0), [], "the ranks were farther apart");
    assert_eq!(now(0.5, 0.1, 0.3), [], "a rank waited for its processor");
    assert_eq!(now(5.0, 4.0, 0.0), [], "the ranks took turns");
    let faster = now(0.1, 0.1, 0.0);
    assert!(matches!(faster[..], [AuditChange::Latency { now: 0.1, .. }]), "{faster:?}");
}

#[test]
fn an_inconclusive_result_is_no_change() {
    let with = |class, p10| [("a", class, vec![figure(p10, 0.1, 0.0)])];
    assert_eq!(changes(&with("working", 0.3), &with("inconclusive", 9.0)), []);
    assert_eq!(changes(&with("inconclusive", 9.0), &with("working", 0.3)), []);
}

#[test]
fn an_audit_of_something_else_is_refused_with_the_reason() {
    let refused = |text: &str, ranks, nodes| {
        EarlierAudit::from_json(text, ranks, nodes).unwrap_err().to_string()
    };
    let text = audit(&[]);
    assert_eq!(
        refused(&text, 4, 2),
        "that audit had 2 ranks over 1 node, and this one has 4 over 2 nodes"
    );
    for text in ["", "{}", "[]", r#"{"ranks":2,"nodes":1,"installations":[{"name":"a"}]}"#] {
        assert_eq!(refused(text, 2, 1), "it is not the JSON output of an audit", "{text}");
    }
}
