// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which of several values of a setting is in effect.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

use cabane_recipe::Requirement;
use cabane_site::settings::{ColorChoice, Effective, FormatChoice, Overrides};

/// The settings in effect with a file of the site, one of the user, and variables.
fn effective(site: &str, user: &str, variables: &[(&str, &str)]) -> Effective {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    fs::create_dir_all(place("user/cabane")).unwrap();
    fs::write(place("site.toml"), site).unwrap();
    fs::write(place("user/cabane/config.toml"), user).unwrap();
    let mut calling: BTreeMap<OsString, OsString> =
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    calling.insert("CABANE_SITE_CONFIG".into(), place("site.toml").into());
    calling.insert("XDG_CONFIG_HOME".into(), place("user").into());
    calling.insert("HOME".into(), "/home/alice".into());
    Effective::read(&Overrides::default(), &calling).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn the_file_of_the_user_overrides_single_values_of_the_site() {
    let settings = effective(
        "color = \"never\"\nsystem_name = \"daint\"\n[build]\njobs = 2\n",
        "color = \"always\"\n[build]\nformat = \"erofs\"\n",
        &[],
    );
    assert_eq!(
        (
            settings.color.value,
            settings.system.value.map(|name| name.to_string()).as_deref(),
            settings.jobs.value,
            settings.image_format.value,
        ),
        (ColorChoice::Always, Some("daint"), Some(2), FormatChoice::Erofs)
    );
}

#[test]
fn a_repository_of_the_user_replaces_the_one_of_the_same_name() {
    let settings = effective(
        "[[repositories]]\nname = \"a\"\npath = \"/a\"\n\
         [[repositories]]\nname = \"b\"\npath = \"/b\"\n",
        "[[repositories]]\nname = \"c\"\npath = \"/c\"\n\
         [[repositories]]\nname = \"a\"\npath = \"/other\"\npriority = 1\n",
        &[],
    );
    let all = settings.repositories.iter();
    let paths: Vec<_> = all
        .filter(|one| one.name != "default")
        .map(|one| (one.name.as_str(), one.path.to_str().unwrap(), one.priority))
        .collect();
    assert_eq!(paths, [("b", "/b", 10), ("c", "/c", 10), ("a", "/other", 1)]);
}

#[test]
fn an_empty_list_of_indexes_replaces_another() {
    let settings = effective(
        "[build]\nindex_url = \"https://example.org/s\"\n",
        "[build]\nindex_urls = []\n",
        &[],
    );
    assert_eq!(settings.index_urls.value, Vec::<String>::new());
}

#[test]
fn no_file_takes_away_what_another_wants_of_signatures() {
    let settings = effective(
        "[[trust]]\nnamespace = \"*\"\nrequire = \"signature\"\nkeys = [\"/a\", \"/b\"]\n\
         [[trust]]\nnamespace = \"build\"\nrequire = \"nothing\"\n",
        "[[trust]]\nnamespace = \"*\"\nrequire = \"nothing\"\n\
         [[trust]]\nnamespace = \"build\"\nrequire = \"signature\"\nkeys = [\"/mine\"]\n\
         [registry]\nurl = \"https://elsewhere.example.org\"\n",
        &[],
    );
    let keys = |namespace: &str| -> Vec<usize> {
        let namespace = namespace.parse().unwrap();
        let policies = settings.trust.iter();
        let keys = policies.map(|one| match one.policy.requirement(&namespace) {
            Requirement::Nothing => 0,
            Requirement::Signature { keys, .. } => keys.len(),
        });
        keys.collect()
    };
    assert_eq!((keys("deploy"), keys("build")), (vec![2, 0], vec![0, 1]));
}

#[test]
fn the_rule_of_the_site_comes_before_that_of_the_user() {
    let rule = |group: &str| format!("[[restricted]]\nimages = \"vasp\"\ngroup = \"{group}\"\n");
    let settings = effective(&rule("site"), &rule("mine"), &[]);
    assert_eq!(settings.restricted[0].rule.group, "site");
}

const SITE_REGISTRY: &str = "[registry]\nurl = \"https://site.example.org/uenv\"\n\
                             namespace = \"prod\"\nca = \"/etc/site.pem\"\n\
                             token = \"/etc/token\"\nusername = \"builder\"\n";

/// The namespace, the certificates, and the token.
fn registry(settings: &Effective) -> (String, bool, bool) {
    let registry = &settings.registry;
    (
        registry.namespace.value.to_string(),
        registry.authorities.value.is_some(),
        registry.token.value.is_some(),
    )
}

#[test]
fn the_token_of_one_registry_is_not_for_another() {
    let other = "[registry]\nurl = \"https://mine.example.org/images\"\n";
    let by_file = effective(SITE_REGISTRY, other, &[]);
    let variable = [("CABANE_REGISTRY", "https://mine.example.org/images")];
    let by_variable = effective(SITE_REGISTRY, "", &variable);
    for settings in [by_file, by_variable] {
        assert_eq!(registry(&settings), ("deploy".to_owned(), false, false));
        assert_eq!(settings.registry.username.value, None);
    }
}

#[test]
fn the_token_of_a_host_is_for_its_other_prefixes_too() {
    let variable = [("CABANE_REGISTRY", "https://site.example.org/other")];
    let settings = effective(SITE_REGISTRY, "", &variable);
    assert_eq!(registry(&settings), ("prod".to_owned(), true, true));
}

#[test]
fn the_variable_overrides_both_files() {
    let file = |jobs: u32| format!("[build]\ncache = \"/files/{jobs}\"\n");
    let settings = effective(&file(1), &file(2), &[("CABANE_CACHE_DIR", "/variable")]);
    assert_eq!(settings.cache_directory.value, Some("/variable".into()));
    let settings = effective(&file(1), &file(2), &[]);
    assert_eq!(settings.cache_directory.value, Some("/files/2".into()));
}
