// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The rule `regressions`: no figure of an image is worse than that of the image that the channel releases
//! under the same name.

use cabane_channel::{ChannelDocument, Entry};
use cabane_evidence::{
    Answer, ComparedFigure, Comparison, Evidence, EvidenceKeys, Wanted, compare, figures,
};
use cabane_recipe::Regressions;
use cabane_registry::RemoteImage;
use cabane_report::Result;
use jiff::Timestamp;

use super::{GateRule, GateVerdict, evidence_of, no_keys, verdict};
use crate::compare::image_of;
use crate::publish::Target;

/// How many figures are named.
const MOST_NAMED: usize = 3;

/// Compares the figures of an image with those of the released one.
pub(super) fn judge(
    target: Target<'_>,
    rule: Regressions,
    keys: &EvidenceKeys,
    (image, evidence): (&RemoteImage, &[Evidence]),
    released: Option<(&ChannelDocument, &Entry)>,
) -> Result<GateVerdict> {
    let said = |evidence| Ok(verdict(GateRule::Regressions, evidence));
    if keys.has_no_testers() {
        let missing = no_keys("testers");
        return said(if rule == Regressions::Report { Ok(missing) } else { Err(missing) });
    }
    let Some((document, entry)) = released else {
        return said(Ok("the channel releases no image of this name".to_owned()));
    };
    if entry.digest == image.digest {
        return said(Ok("the channel releases this image".to_owned()));
    }
    let now = Timestamp::now();
    let wanted = Wanted::here(target.context, Some(&target.place.system), None, now);
    let old = image_of(target.registry, document, entry)?;
    let old = evidence_of(target, old.as_ref(), &entry.digest, keys)?;
    let comparison = compare(&figures(&old, &wanted, now), &figures(evidence, &wanted, now));
    let text = format!("compared with {}: {}", entry.label, text(&comparison));
    said(if is_permitted(rule, &comparison) { Ok(text) } else { Err(text) })
}

/// Whether a comparison permits to release an image.
fn is_permitted(rule: Regressions, comparison: &Comparison) -> bool {
    let has = |answer| comparison.with(answer).next().is_some();
    // A change may be a loss where no limit says which direction is better.
    let is_unknown = [Answer::CannotTell, Answer::Lower, Answer::Higher].into_iter().any(has)
        || !comparison.missing.is_empty()
        || comparison.figures.is_empty();
    match rule {
        Regressions::Report => true,
        Regressions::Refuse => !has(Answer::Worse),
        Regressions::RefuseUnknown => !has(Answer::Worse) && !is_unknown,
    }
}

/// Says what became of the figures, the worse ones first and by name.
fn text(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    let detail = |one: &ComparedFigure| {
        let (name, unit) = (&one.name, &one.unit);
        let (old, new) = (one.before.with_unit(unit), one.now.with_unit(unit));
        let ratio = one.ratio.map(|ratio| format!(", ratio {ratio:.3}")).unwrap_or_default();
        match &one.reason {
            Some(reason) => format!("{name}: {reason}"),
            None => format!("{name}: {old} before, {new} now{ratio}"),
        }
    };
    let order = [
        Answer::Worse,
        Answer::CannotTell,
        Answer::Lower,
        Answer::Higher,
        Answer::Better,
        Answer::Same,
    ];
    for answer in order {
        let all: Vec<&ComparedFigure> = comparison.with(answer).collect();
        if all.is_empty() {
            continue;
        }
        let count = all.len();
        if matches!(answer, Answer::Same | Answer::Better) {
            parts.push(format!("{count} {answer}"));
            continue;
        }
        let named: Vec<String> = all.iter().take(MOST_NAMED).map(|one| detail(one)).collect();
        let more = if count > MOST_NAMED { "; …" } else { "" };
        parts.push(format!("{count} {answer} ({}{more})", named.join("; ")));
    }
    if !comparison.missing.is_empty() {
        let names = comparison.missing.iter().take(MOST_NAMED).map(ToString::to_string);
        let names: Vec<String> = names.collect();
        parts.push(format!("{} missing ({})", comparison.missing.len(), names.join("; ")));
    }
    if comparison.figures.is_empty() && comparison.missing.is_empty() {
        return "the released image has no figures that count".to_owned();
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use cabane_evidence::{Band, FigureName};

    use super::*;

    fn figure(answer: Answer) -> ComparedFigure {
        let band = |median| Band { median, half_width: Some(1.0), runs: 5 };
        ComparedFigure {
            name: FigureName { test: "osu".to_owned(), variable: "bw".to_owned() },
            unit: "MB/s".to_owned(),
            before: band(100.0),
            now: band(80.0),
            ratio: Some(0.8),
            direction: None,
            answer,
            reason: (answer == Answer::CannotTell).then(|| "3 of 5 runs now".to_owned()),
        }
    }

    fn comparison(answers: &[Answer]) -> Comparison {
        let figures = answers.iter().map(|answer| figure(*answer)).collect();
        Comparison { figures, ..Comparison::default() }
    }

    #[test]
    fn what_a_site_refuses_is_its_choice() {
        let missing = vec![figure(Answer::Same).name];
        let cases = [
            (comparison(&[Answer::Same, Answer::Better]), [true, true, true]),
            (comparison(&[Answer::Same, Answer::Lower]), [true, true, false]),
            (comparison(&[Answer::Same, Answer::Higher]), [true, true, false]),
            (comparison(&[Answer::Same, Answer::Worse]), [true, false, false]),
            (comparison(&[Answer::Same, Answer::CannotTell]), [true, true, false]),
            (comparison(&[]), [true, true, false]),
            (Comparison { missing, ..comparison(&[Answer::Same]) }, [true, true, false]),
        ];
        for (comparison, expected) in cases {
            let rules = [Regressions::Report, Regressions::Refuse, Regressions::RefuseUnknown];
            assert_eq!(rules.map(|rule| is_permitted(rule, &comparison)), expected);
        }
    }

    #[test]
    fn the_worse_figures_are_named_first() {
        let said = text(&comparison(&[Answer::Same, Answer::CannotTell, Answer::Worse]));
        assert_eq!(
            said,
            "1 worse (osu bw: 100 ± 1 MB/s (5 runs) before, 80 ± 1 MB/s (5 runs) now, \
             ratio 0.800), 1 cannot tell (osu bw: 3 of 5 runs now), 1 same"
        );
        assert_eq!(text(&Comparison::default()), "the released image has no figures that count");
    }
}
