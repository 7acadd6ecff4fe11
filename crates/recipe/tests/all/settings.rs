// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Configuration files that are in order.

use std::num::NonZeroU32;
use std::path::Path;

use cabane_recipe::settings::table::{
    BUILD_DIRECTORY, CACHE_DIRECTORY, COLOR, FORMAT, JOBS, SYSTEM, UARCH, UV,
};
use cabane_recipe::{AtStart, PathTemplate, Requirement, Settings, parse_settings};

fn settings(text: &str) -> Settings {
    parse_settings(Path::new("config.toml"), text.as_bytes())
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn named(settings: &Settings) -> Vec<(&str, &str, i32)> {
    settings
        .repositories
        .iter()
        .map(|repository| (repository.name.as_str(), repository.path.as_str(), repository.priority))
        .collect()
}

#[test]
fn an_empty_configuration_leaves_everything_open() {
    assert_eq!(settings(""), Settings::default());
}

#[test]
fn a_configuration_says_everything_there_is_to_say() {
    let settings = settings(
        "color = \"never\"\nsystem_name = \"daint\"\ndefault_uarch = \"gh200\"\n\
         [[repositories]]\nname = \"site\"\npath = \"/apps/images\"\npriority = -1\n\
         [[repositories]]\nname = \"mine\"\npath = \"${SCRATCH}/images\"\n\
         [build]\nformat = \"erofs\"\njobs = 0x10\ndirectory = \"/dev/shm/$USER\"\n\
         cache = \"~/.cache/cabane\"\nuv = \"/usr/bin/uv\"\nindex_url = \"https://example.org/s\"\n",
    );
    let text = |setting| settings.get(setting);
    assert_eq!(
        (
            [text(&COLOR), text(&SYSTEM), text(&UARCH)],
            named(&settings),
            [text(&FORMAT), text(&JOBS)],
            [text(&BUILD_DIRECTORY), text(&CACHE_DIRECTORY), text(&UV)],
            settings.index_urls.as_deref(),
        ),
        (
            [Some("never"), Some("daint"), Some("gh200")],
            vec![("site", "/apps/images", -1), ("mine", "${SCRATCH}/images", 10)],
            [Some("erofs"), Some("16")],
            ["/dev/shm/$USER", "~/.cache/cabane", "/usr/bin/uv"].map(Some),
            Some(["https://example.org/s".to_owned()].as_slice()),
        )
    );
}

#[test]
fn a_colour_can_be_a_truth_value() {
    let colors = ["color = true", "color = false"].map(settings);
    let colors = colors.each_ref().map(|settings| settings.get(&COLOR));
    assert_eq!(colors, [Some("always"), Some("never")]);
}

#[test]
fn a_repository_may_say_how_long_and_how_much_is_kept() {
    let settings = settings(
        "[[repositories]]\nname = \"site\"\npath = \"/apps/images\"\n\
         [repositories.retention]\nolder_than = \"90d\"\nkeep_last = 2\n\
         max_size = \"20T\"\nspare = \"12h\"\n",
    );
    let retention = &settings.repositories[0].retention;
    assert_eq!(
        (
            retention.older_than.map(|time| time.as_secs()),
            retention.keep_last.map(NonZeroU32::get),
            retention.max_size,
            retention.spare.map(|time| time.as_secs())
        ),
        (Some(7_776_000), Some(2), Some(20_000_000_000_000), Some(43_200))
    );
}

/// What each file wants of a namespace: nothing, or its keys.
fn wanted(settings: &Settings, namespace: &str) -> Vec<String> {
    let namespace = namespace.parse().unwrap();
    let policies = settings.trust.iter();
    let wanted = policies.map(|policy| match policy.requirement(&namespace) {
        Requirement::Nothing => "nothing".to_owned(),
        Requirement::Signature { keys, .. } => {
            let keys: Vec<_> = keys.iter().map(PathTemplate::as_str).collect();
            keys.join(" ")
        }
    });
    wanted.collect()
}

const SITE: &str = "[[trust]]\nnamespace = \"*\"\nrequire = \"signature\"\nkeys = [\"/a\", \"/b\"]\n\
                    [[trust]]\nnamespace = \"build\"\nrequire = \"nothing\"\n";

#[test]
fn the_rule_of_a_namespace_is_stronger_than_that_for_all() {
    let settings = settings(SITE);
    assert_eq!(
        ["deploy", "build"].map(|namespace| wanted(&settings, namespace)),
        [["/a /b"], ["nothing"]]
    );
}

#[test]
fn a_namespace_without_any_rule_needs_nothing() {
    let settings =
        settings("[[trust]]\nnamespace = \"deploy\"\nrequire = \"signature\"\nkeys = [\"/a\"]\n");
    assert_eq!(wanted(&settings, "build"), ["nothing"]);
}

#[test]
fn a_rule_says_which_images_it_checks_at_a_start() {
    let rule = |at_start: &str| {
        let text = format!(
            "[[trust]]\nnamespace = \"*\"\nrequire = \"signature\"\nkeys = [\"/a\"]\n{at_start}"
        );
        let policy = settings(&text).trust.remove(0);
        (policy.rule(None).unwrap().at_start, policy.is_for_starts())
    };
    assert_eq!(rule(""), (AtStart::Never, false));
    assert_eq!(rule("at_start = \"never\"\n"), (AtStart::Never, false));
    assert_eq!(rule("at_start = \"others\"\n"), (AtStart::Others, true));
    assert_eq!(rule("at_start = \"all\"\n"), (AtStart::All, true));
}

#[test]
fn a_rule_for_a_group_is_for_a_part_of_a_registry_a_name_or_both() {
    let label: cabane_label::Label = "vasp/6.4:v1@daint%gh200".parse().unwrap();
    let is_for = |images: &str, namespace: &str| {
        let text = format!("[[restricted]]\nimages = \"{images}\"\ngroup = \"vaspusers\"\n");
        settings(&text).restricted[0].is_for(&namespace.parse().unwrap(), &label)
    };
    assert_eq!(
        [
            is_for("licensed::", "licensed"),
            is_for("licensed::", "deploy"),
            is_for("vasp", "deploy"),
            is_for("licensed::vasp", "licensed"),
            is_for("licensed::cp2k", "licensed"),
        ],
        [true, false, true, true, false]
    );
}
