// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Choosing a build of an image for this machine, as the nodes of a job choose theirs.

use cabane_compat::{Build, Lack, NoChoice, Reason, choose, parse_order};
use cabane_label::UenvDescription;
use cabane_mount::{UARCH_ORDER, uarch_order};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_site::Context;
use cabane_site::env_vars::CABANE_UARCH;

fn listed(builds: impl Iterator<Item = String>) -> String {
    builds.flat_map(|build| ["\n  ".to_owned(), build]).collect()
}

/// Returns what this machine takes, the best first, as the user sets it, or else the
/// administrator; and where it is set.
fn order(context: &Context) -> Result<(Vec<String>, &'static str)> {
    let typed = context.calling.get(std::ffi::OsStr::new(CABANE_UARCH));
    if let Some(value) = typed.filter(|value| !value.is_empty()) {
        return Ok((parse_order(&value.to_string_lossy()), CABANE_UARCH));
    }
    let text = uarch_order().map_err(std::io::Error::other);
    let text = text.or_failed(|| format!("read {UARCH_ORDER}"))?;
    Ok((parse_order(&text), UARCH_ORDER))
}

/// Returns the place of the build that this machine takes.
///
/// # Errors
///
/// That it can run none, or that nothing decides.
pub(crate) fn choose_here(
    context: &Context,
    description: &UenvDescription,
    builds: &[LocatedImage],
    is_reported: bool,
) -> Result<usize> {
    if builds.len() < 2 {
        return Ok(0);
    }
    let (order, origin) = order(context)?;
    let looked_at = builds.iter().map(|located| {
        let build = build_of(located);
        let lack = build.lack();
        (build, lack)
    });
    let looked_at: Vec<(Build<'_>, Lack)> = looked_at.collect();
    let choice = choose(&looked_at, &order)
        .map_err(|reason| not_chosen(reason, description, builds, &looked_at))?;
    let why = match choice.reason {
        Reason::Only => "this machine can run no other".to_owned(),
        Reason::Order => format!("{origin} names it before the others"),
        Reason::Features => "it makes the most of this processor".to_owned(),
        Reason::Generic => "it is the one for any processor, and no other is better".to_owned(),
    };
    if let Some(taken) = builds.get(choice.place) {
        let line = format!("{} of {} builds: {why}", label_of(taken), builds.len());
        if is_reported {
            context.note(line);
        } else {
            context.detail(line);
        }
    }
    Ok(choice.place)
}

fn build_of(located: &LocatedImage) -> Build<'_> {
    let needs = located.meta.as_ref().map(|meta| &meta.needs);
    let processor = needs.and_then(|needs| needs.processor.as_ref());
    Build {
        uarch: located.label.as_ref().map_or("", |one| one.uarch.as_str()),
        image: &located.path,
        architectures: needs.map_or(&[], |needs| needs.architectures.as_slice()),
        features: processor.map_or(&[], |need| need.features.as_slice()),
        glibc: needs.and_then(|needs| needs.glibc.as_deref()),
    }
}

fn label_of(located: &LocatedImage) -> String {
    located.label.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn not_chosen(
    reason: NoChoice,
    description: &UenvDescription,
    builds: &[LocatedImage],
    looked_at: &[(Build<'_>, Lack)],
) -> Report {
    let image = description.image.to_string();
    let label = builds.first().map(label_of).unwrap_or_default();
    match reason {
        NoChoice::Undecided => {
            let message = format!(
                "`{image}` has {} builds, and nothing says which is the better one here:{}",
                builds.len(),
                listed(builds.iter().map(label_of))
            );
            Report::new(Kind::Ambiguous, message)
                .hinted(format!("`{label}` names one of them"))
                .hinted(format!(
                    "{UARCH_ORDER} says for everybody which is better on a machine, and the \
                     variable {CABANE_UARCH} for you"
                ))
        }
        NoChoice::NoneFits => {
            let lines = builds.iter().zip(looked_at);
            let lines = lines.map(|(located, (_, lack))| format!("{}: {lack}", label_of(located)));
            let message =
                format!("this machine cannot run any build of `{image}`:{}", listed(lines));
            Report::new(Kind::Failure, message)
                .hinted(format!("`{label}` takes that one nevertheless"))
        }
    }
}
