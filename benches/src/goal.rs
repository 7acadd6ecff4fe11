// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Cabane sets out to reach, and whether it did.

use crate::comparison::verdict;
use crate::report::Table;
use crate::statistics::Summary;

/// One number to reach.
pub(crate) struct Goal {
    what: String,
    target: f64,
    unit: &'static str,
    results: Vec<(&'static str, Option<Summary>)>,
    peers: String,
}

impl Goal {
    /// A ratio that is to stay below this.
    pub(crate) fn ratio(what: &str, target: f64) -> Self {
        Self::at_most(what, target, "")
    }

    /// A number of some unit.
    pub(crate) fn at_most(what: &str, target: f64, unit: &'static str) -> Self {
        Self { what: what.to_owned(), target, unit, results: Vec::new(), peers: String::new() }
    }

    /// Notes one of the ways by which it may be reached.
    pub(crate) fn reached_by(mut self, way: &'static str, result: Option<Summary>) -> Self {
        self.note(way, result);
        self
    }

    /// The same for one that is kept.
    pub(crate) fn note(&mut self, way: &'static str, result: Option<Summary>) {
        self.results.push((way, result));
    }

    /// Notes what others reach.
    pub(crate) fn beside(self, peers: String) -> Self {
        Self { peers, ..self }
    }

    fn row(&self) -> Vec<String> {
        // What is to be none at all is counted.
        let digits = if self.target > 0.0 { 2 } else { 0 };
        let unit = |number: f64| format!("{number:.digits$} {}", self.unit).trim().to_owned();
        let each = |text: &dyn Fn(Summary) -> String| {
            let texts = self.results.iter().map(|(way, result)| {
                let text = result.map_or("not measured".to_owned(), text);
                format!("{way}: {text}").trim_start_matches(": ").to_owned()
            });
            texts.collect::<Vec<_>>().join("; ")
        };
        vec![
            self.what.clone(),
            format!("≤ {}", unit(self.target)),
            each(&|summary| format!("**{}**", unit(summary.median))),
            each(&|summary| verdict(summary, self.target).to_owned()),
            self.peers.clone(),
        ]
    }
}

/// Returns the table of all goals.
pub(crate) fn table<'a>(goals: impl Iterator<Item = &'a Goal>) -> Table {
    let mut table = Table::new(&["what", "target", "result", "reached", "others, in this run"]);
    for goal in goals {
        table.push(goal.row());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_shows_how_far_each_way_leads() {
        let goal = Goal::ratio("starts", 1.5)
            .reached_by("one", Summary::of(&[1.0]))
            .reached_by("other", None);
        let row = goal.row().join(" / ");
        assert_eq!(
            row,
            "starts / ≤ 1.50 / one: **1.00**; other: not measured / one: yes; other: not measured / "
        );
    }
}
