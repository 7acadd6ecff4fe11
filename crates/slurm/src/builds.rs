// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node: which build of each image it takes, and whether it can run it.

use std::ffi::OsString;

use cabane_compat::{Build, Lack, NoChoice, choose, parse_order};
use cabane_mount::{JobImage, JobImages, JobVariable, UARCH_ORDER, Unfit, uarch_order};

use crate::hints::lines;
use crate::spank::{Spank, change_variable};

/// Tells that a step has variables of its images, and not only images.
const CABANE_LOADED: &str = "CABANE_LOADED";
/// Tells what is mounted, and where.
const UENV_MOUNT_LIST: &str = "UENV_MOUNT_LIST";

/// What a node takes of a list.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    /// The images.
    pub(crate) images: Vec<JobImage>,
    /// The variables that go with them and not with other builds.
    pub(crate) variables: &'a [JobVariable],
    /// What the user sees.
    pub(crate) notes: Vec<String>,
}

/// Takes a build of each image for this node.
///
/// # Errors
///
/// What it cannot run, or cannot choose, in lines for the user.
pub(crate) fn take(list: &JobImages) -> Result<Taken<'_>, Vec<String>> {
    let has_choice = list.images.iter().any(|builds| builds.len() > 1);
    let order = if has_choice {
        parse_order(&uarch_order().map_err(|error| lines(&error))?)
    } else {
        Vec::new()
    };
    let lack = |build: &cabane_compat::Build<'_>| build.lack();
    take_for(list, &order, lack)
}

fn take_for<'a>(
    list: &'a JobImages,
    order: &[String],
    lack: impl Fn(&Build<'_>) -> Lack,
) -> Result<Taken<'a>, Vec<String>> {
    let (mut images, mut places, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for builds in &list.images {
        let looked_at = builds.iter().map(|image| {
            let build = build_of(image);
            let lack = lack(&build);
            (build, lack)
        });
        let looked_at: Vec<(Build<'_>, Lack)> = looked_at.collect();
        let place = if let ([image], [(_, lack)]) = (builds.as_slice(), looked_at.as_slice()) {
            notes.extend(note_if_unfit(image, lack, list.unfit)?);
            0
        } else {
            let choice = choose(&looked_at, order);
            let choice = choice.map_err(|reason| not_chosen(reason, builds, &looked_at))?;
            let taken = builds.get(choice.place);
            notes.extend(taken.map(|image| format!("takes {}", image.name())));
            choice.place
        };
        images.extend(builds.get(place).cloned());
        places.push(place);
    }
    Ok(Taken { images, variables: list.variables_for(&places), notes })
}

fn build_of(image: &JobImage) -> Build<'_> {
    Build {
        uarch: &image.uarch,
        image: &image.path,
        architectures: &image.architectures,
        features: &image.features,
        glibc: image.glibc.as_deref(),
    }
}

/// Looks whether a node can run the one build that there is.
fn note_if_unfit(
    image: &JobImage,
    lack: &Lack,
    unfit: Unfit,
) -> Result<Option<String>, Vec<String>> {
    if lack.is_nothing() {
        return Ok(None);
    }
    let line = format!("cannot run {}: {lack}", image.name());
    match unfit {
        Unfit::Refuse => Err(refused(line, image)),
        Unfit::Warn => Ok(Some(line)),
    }
}

fn refused(line: String, image: &JobImage) -> Vec<String> {
    let mut lines = vec![line];
    let suffix = format!("%{}", image.uarch);
    if let Some(rest) = image.label.strip_suffix(&suffix) {
        lines.push(format!(
            "hint: where there are builds for several kinds of nodes, `--uenv={rest}` lets each \
             take its own"
        ));
    }
    lines.push("hint: `--uenv-unfit=warn` starts nevertheless".to_owned());
    lines
}

fn not_chosen(
    reason: NoChoice,
    builds: &[JobImage],
    looked_at: &[(Build<'_>, Lack)],
) -> Vec<String> {
    let mut lines = vec![match reason {
        NoChoice::NoneFits => "cannot run any of these builds:".to_owned(),
        NoChoice::Undecided => "nothing says which of these builds is the better one:".to_owned(),
    }];
    for (image, (_, lack)) in builds.iter().zip(looked_at) {
        let why = if lack.is_nothing() { String::new() } else { format!(": {lack}") };
        lines.push(format!("  {}{why}", image.name()));
    }
    let name = builds.first().map(JobImage::name).unwrap_or_default();
    lines.push(match reason {
        NoChoice::NoneFits => {
            format!("hint: `--uenv={name} --uenv-unfit=warn` starts with that one nevertheless")
        }
        NoChoice::Undecided => format!(
            "hint: `--uenv={name}` takes that one; {UARCH_ORDER} on the nodes says for all jobs \
             which is better there"
        ),
    });
    lines
}

/// Gives the tasks of the step the variables that go with the builds. Where variables are not
/// handed on to the nodes (`--export=NONE`), they get only what is mounted: a step
/// that is started in this one is to have it, too.
///
/// # Errors
///
/// That Slurm does not take one, or that views were named whose variables are not handed on.
pub(crate) fn set_variables(
    spank: &dyn Spank,
    views: &str,
    taken: &Taken<'_>,
) -> Result<(), Vec<String>> {
    if !matches!(spank.variable(CABANE_LOADED), Ok(Some(_))) {
        if !views.is_empty() {
            return Err(vec![
                format!("the variables of the view {views} were not handed on to the job"),
                "hint: `--export=ALL` hands them on; with `--export=NONE` name no view, and the \
                 images are mounted"
                    .to_owned(),
            ]);
        }
        let mut list = OsString::new();
        for image in &taken.images {
            if !list.is_empty() {
                list.push(",");
            }
            list.push(&image.path);
            list.push(":");
            list.push(&image.mount_point);
        }
        return change_variable(spank, UENV_MOUNT_LIST.as_ref(), Some(&list));
    }
    let mut variables = taken.variables.iter();
    variables.try_for_each(|(name, value)| change_variable(spank, name, value.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabane_mount::ImageFormat;

    fn image(uarch: &str, features: &[&str]) -> JobImage {
        JobImage {
            label: format!("app/1:v1@here%{uarch}"),
            uarch: uarch.to_owned(),
            features: features.iter().map(ToString::to_string).collect(),
            ..JobImage::new(ImageFormat::Squashfs, format!("/{uarch}"), "/a")
        }
    }

    fn list(builds: Vec<JobImage>, unfit: Unfit) -> JobImages {
        let variables = if builds.len() > 1 {
            let one = |build: &JobImage| vec![("BUILD".into(), Some((&build.uarch).into()))];
            builds.iter().map(one).collect()
        } else {
            Vec::new()
        };
        JobImages { unfit, images: vec![builds], variables, ..JobImages::default() }
    }

    /// What a node takes whose processor has no avx512f.
    fn taken(list: &JobImages, order: &[&str]) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        let lack = |build: &Build<'_>| Lack {
            features: build.features.iter().filter(|name| *name == "avx512f").cloned().collect(),
            ..Lack::default()
        };
        let taken = take_for(list, &order, lack)?;
        let values = taken.variables.iter().filter_map(|(_, value)| {
            let value = value.as_ref()?;
            Some(value.to_string_lossy().into_owned())
        });
        Ok((taken.notes, values.collect()))
    }

    #[test]
    fn a_choice_is_reported_and_brings_its_variables() {
        let builds = vec![image("zen2", &["avx2"]), image("zen3", &["avx2", "vaes"])];
        let found = taken(&list(builds, Unfit::Refuse), &[]);
        let expected = (vec!["takes app/1:v1@here%zen3".to_owned()], vec!["zen3".to_owned()]);
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn a_single_image_that_fits_is_not_mentioned() {
        let found = taken(&list(vec![image("zen3", &["avx2"])], Unfit::Refuse), &[]);
        assert_eq!(found, Ok((Vec::new(), Vec::new())));
    }

    #[test]
    fn an_image_that_the_node_cannot_run_is_refused_with_what_is_lacking() {
        let found = taken(&list(vec![image("zen5", &["avx512f"])], Unfit::Refuse), &[]);
        let expected = [
            "cannot run app/1:v1@here%zen5: its processor lacks avx512f",
            "hint: where there are builds for several kinds of nodes, `--uenv=app/1:v1@here` lets \
             each take its own",
            "hint: `--uenv-unfit=warn` starts nevertheless",
        ];
        assert_eq!(found, Err(expected.map(str::to_owned).into()));
    }

    #[test]
    fn a_user_may_go_on_with_a_warning() {
        let found = taken(&list(vec![image("zen5", &["avx512f"])], Unfit::Warn), &[]);
        let line = "cannot run app/1:v1@here%zen5: its processor lacks avx512f";
        assert_eq!(found, Ok((vec![line.to_owned()], Vec::new())));
    }

    #[test]
    fn builds_among_which_nothing_decides_are_listed() {
        let builds = vec![image("zen2", &[]), image("zen3", &[])];
        let found = taken(&list(builds, Unfit::Refuse), &["a100"]).unwrap_err();
        assert_eq!(
            found[..3],
            [
                "nothing says which of these builds is the better one:",
                "  app/1:v1@here%zen2",
                "  app/1:v1@here%zen3"
            ]
        );
    }
}
