// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From YAML to a [`PipelineFile`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use cabane_label::{
    ChannelName, LabelPattern, MountPoint, Name, Namespace, System, Tag, Uarch, Version,
};
use cabane_view::is_variable_name;

use super::{
    CatalogueTarget, Cluster, PipelineFile, PromoteTarget, Resources, Revision, SuiteEntry, Target,
    UenvEntry,
};
use crate::Placed;
use crate::ask::{Field, each, instead};
use crate::diagnostic::{Mistakes, quote};
use crate::file;
use crate::language::Language;
use crate::node::{Entry, Kind, Node, Scalar, Value};
use crate::report::Report;
use crate::settings::{parse_size, parse_time};
use crate::suggest::suggestion;

const KEYS: &[&str] = &[
    "recipes",
    "systems",
    "publish",
    "promote",
    "catalogue",
    "resources",
    "suites",
    "clusters",
    "uenvs",
];
const SUITE_KEYS: &[&str] = &["directory", "options", "only"];
const CLUSTER_KEYS: &[&str] = &["targets", "runner", "no_bwrap"];
const TARGET_KEYS: &[&str] = &["uarch", "partition", "variables", "resources"];
const RUNNER_KEYS: &[&str] = &["slurm-tag", "baremetal-tag"];
const STAGE_KEYS: &[&str] = &["build", "check"];
const RESOURCE_KEYS: &[&str] = &["partition", "nodes", "cpus", "memory", "time", "options"];
const VERSION_KEYS: &[&str] = &["recipes", "deploy", "mount", "tag", "revision"];
const CATALOGUE_KEYS: &[&str] = &["directory", "namespaces", "title", "url", "runner"];
const PROMOTE_KEYS: &[&str] = &["namespace", "channel"];

const EXAMPLE: &str = "begin with the systems: `clusters:`";
const ADD_CLUSTERS: &str = "add `clusters:` with the name of each system and its `targets:`";
const ADD_UENVS: &str = "add `uenvs:` with the name and the versions of each environment";
const MOUNT: &str = "/user-environment";

/// The options of `sbatch` on which the results of a pipeline depend.
const OWN_OPTIONS: [&str; 9] = [
    "--array",
    "--clusters",
    "--dependency",
    "--error",
    "--kill-on-invalid-dep",
    "--output",
    "--parsable",
    "--wait",
    "--wrap",
];

/// Reads the description of a pipeline.
///
/// Any bytes can be given. A cell that can never be built is a remark and no mistake: a collection
/// of recipes has some, and all others can be built.
pub fn parse_pipeline(path: &Path, text: &[u8]) -> Result<PipelineFile, Mistakes> {
    file::read(path, text, Language::Yaml, read).map_err(Mistakes::in_the("the pipeline"))
}

fn read(report: &Report<'_>, root: &Node) -> Option<PipelineFile> {
    let file = report.file_with(root, EXAMPLE, KEYS)?;
    let recipes = file.given_or("recipes", PathBuf::from("recipes"), directory);
    let systems = file.optional("systems", directory);
    let publish = file.optional("publish", Field::word::<Namespace>);
    let promote = file.optional("promote", promote);
    let catalogue = file.optional("catalogue", catalogue);
    let (build, check) = file.given_or("resources", Default::default(), stages)?;
    let suites = file.given_or("suites", BTreeMap::new(), suites);
    let clusters = file.needed("clusters", ADD_CLUSTERS, clusters);
    let uenvs = file.needed("uenvs", ADD_UENVS, uenvs);
    let (clusters, uenvs) = (clusters?, uenvs?);
    for uenv in &uenvs {
        remark_on(report, &clusters, uenv);
    }
    Some(PipelineFile {
        recipes: recipes?,
        systems: systems?,
        // A word that is accepted.
        publish: publish?.or_else(|| "build".parse().ok())?,
        promote: promote?,
        catalogue: catalogue?,
        build,
        check,
        suites: suites?,
        clusters,
        uenvs,
        remarks: report.take_remarks(),
    })
}

/// Says which images of an environment can never be built.
fn remark_on(report: &Report<'_>, clusters: &BTreeMap<System, Cluster>, uenv: &UenvEntry) {
    let title = format!("{}/{}", uenv.name, uenv.version);
    if uenv.deploy.is_empty() {
        let message = format!("{title} is built for no system");
        report.remark(uenv.place.clone().into(), &message, "add `deploy:` with the systems");
    }
    for deployed in &uenv.deploy {
        let (system, uarch) = &deployed.value;
        let place = deployed.place.clone().into();
        let Some(cluster) = clusters.get(system) else {
            let known: Vec<&str> = clusters.keys().map(System::as_str).collect();
            let message =
                format!("{title} cannot be built: there is no system {}", quote(system.as_str()));
            let hint = suggestion(system.as_str(), &known, "the systems are");
            report.remark(place, &message, &hint);
            continue;
        };
        if cluster.target(uarch).is_none() {
            let known: Vec<&str> = cluster.targets.iter().map(|one| one.uarch.as_str()).collect();
            let message = format!("{title} cannot be built: {system} has no nodes with {uarch}");
            let hint = suggestion(uarch.as_str(), &known, &format!("the nodes of {system} have"));
            report.remark(place, &message, &hint);
        } else if !uenv.recipes.contains_key(uarch) {
            let message = format!("{title} cannot be built for {uarch}: it has no recipe for it");
            let hint = format!("add `{uarch}:` to `recipes`, or remove it here");
            report.remark(place, &message, &hint);
        }
    }
}

/// A path, relative to the file or absolute.
fn directory(field: &Field<'_>) -> Option<PathBuf> {
    let text = field.text()?;
    if text.is_empty() {
        return field.refuse("the path is empty", "write the path of a directory");
    }
    Some(PathBuf::from(text))
}

fn promote(field: &Field<'_>) -> Option<PromoteTarget> {
    let section = field.section_with(PROMOTE_KEYS)?;
    let namespace = section.optional("namespace", Field::word::<Namespace>);
    let channel = section.optional("channel", Field::word::<ChannelName>);
    let namespace = namespace?.or_else(|| "deploy".parse().ok())?;
    Some(PromoteTarget { namespace, channel: channel? })
}

fn catalogue(field: &Field<'_>) -> Option<CatalogueTarget> {
    let section = field.section_with(CATALOGUE_KEYS)?;
    let hint = "add `directory:` with the directory of the site, such as `/srv/www/software`";
    let place = section.needed("directory", hint, directory);
    let namespaces = section.given_or("namespaces", Vec::new(), |field| {
        each(field.items("the namespace")?, |item| item.word::<Namespace>())
    });
    let title = section.optional("title", |field| field.text().map(str::to_owned));
    let is_address = |text: &str| {
        let is_web = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
        is_web && text.chars().all(|c| c.is_ascii_graphic())
    };
    let hint = "write the address of the site, such as `https://software.example.org/`";
    let url = section.optional("url", |field| field.text_if(is_address, "is not an address", hint));
    let runner_tags = section.optional("runner", runner);
    Some(CatalogueTarget {
        directory: place?,
        namespaces: namespaces?,
        title: title?,
        url: url?,
        runner_tags: runner_tags?,
    })
}

fn suites(field: &Field<'_>) -> Option<BTreeMap<String, SuiteEntry>> {
    let section = field.section()?;
    each(section.entries, |entry| {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = entry.key.starts_with(|c: char| c.is_ascii_alphanumeric())
            && entry.key.chars().all(is_usual);
        let name = is_name.then(|| entry.key.clone()).or_else(|| {
            let message = format!("{} is not a valid name of a suite", quote(&entry.key));
            field.report.refuse(entry.key_place, &message, "use letters, digits, `-`, `_` and `.`")
        });
        let suite = suite(&Field::named(field.report, "the suite", entry));
        Some((name?, suite?))
    })
}

fn suite(field: &Field<'_>) -> Option<SuiteEntry> {
    let section = field.section_with(SUITE_KEYS)?;
    let hint = "add `directory:` with the directory of the tests, such as `suites/smoke`";
    let place =
        |field: &Field<'_>| Some(Placed { value: directory(field)?, place: field.place().into() });
    let directory = section.needed("directory", hint, place);
    let options = section.given_or("options", Vec::new(), |field| {
        each(field.items("the option")?, |item| suite_option(&item))
    });
    let only = section.given_or("only", Vec::new(), |field| {
        each(field.items("the pattern")?, |item| item.word::<LabelPattern>())
    });
    Some(SuiteEntry { directory: directory?, options: options?, only: only? })
}

fn suite_option(field: &Field<'_>) -> Option<String> {
    let is_right = |text: &str| {
        text.len() > 1 && text.starts_with('-') && !text.contains(|c: char| c.is_ascii_control())
    };
    field.text_if(is_right, "is not an option of `reframe`", "write it as `--tag=production`")
}

/// Reads a word, or one for each system.
fn revision(field: &Field<'_>) -> Option<Revision> {
    if let Value::Scalar(_) = field.node.value {
        return Some(Revision { everywhere: revision_word(field)?, systems: BTreeMap::new() });
    }
    let systems = each(field.section()?.entries, |entry| {
        let system: Option<System> = key(field.report, entry);
        let word = revision_word(&Field::named(field.report, "the revision for", entry));
        Some((system?, word?))
    });
    Some(Revision { everywhere: String::new(), systems: systems? })
}

fn revision_word(field: &Field<'_>) -> Option<String> {
    let text = field.string()?;
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 64 || !text.chars().all(is_usual) {
        let message = format!("{} is not a valid revision", quote(&text));
        return field.refuse(&message, "write a word, such as `2` or `zlib-1.3.1`");
    }
    Some(text)
}

fn clusters(field: &Field<'_>) -> Option<BTreeMap<System, Cluster>> {
    let section = field.section()?;
    each(section.entries, |entry| {
        let name = key(field.report, entry);
        let cluster = cluster(&Field::named(field.report, "the system", entry));
        Some((name?, cluster?))
    })
}

/// Reads a key that the author chose.
fn key<T: std::str::FromStr<Err = cabane_label::ParseError>>(
    report: &Report<'_>,
    entry: &Entry,
) -> Option<T> {
    let note = |error: cabane_label::ParseError| {
        report.note(Some(entry.key_place), &error.to_string(), error.hint().as_deref());
    };
    entry.key.parse().map_err(note).ok()
}

fn cluster(field: &Field<'_>) -> Option<Cluster> {
    let section = field.section_with(CLUSTER_KEYS)?;
    let hint = "add `targets:` with the microarchitecture of its nodes";
    let targets = section
        .needed("targets", hint, |field| each(field.items("the target")?, |item| target(&item)));
    let runner_tags = section.given_or("runner", Vec::new(), runner);
    // It concerns how another tool builds.
    let _ = section.given("no_bwrap").and_then(|field| field.truth());
    Some(Cluster { targets: targets?, runner_tags: runner_tags? })
}

/// `f7t`, or the tags of the runners.
fn runner(field: &Field<'_>) -> Option<Vec<String>> {
    if let Value::Scalar(_) = field.node.value {
        return field.choice(&[("f7t", ())]).map(|()| Vec::new());
    }
    let section = field.section_with(RUNNER_KEYS)?;
    let given = RUNNER_KEYS.iter().filter_map(|key| section.given(key));
    each(given, |field| field.string())
}

fn target(field: &Field<'_>) -> Option<Target> {
    let section = field.section_with(TARGET_KEYS)?;
    let uarch = section.needed("uarch", "add a line such as `uarch: zen3`", Field::word::<Uarch>);
    let partition = section.optional("partition", partition);
    let variables = section.chosen("variables", |report, entry| {
        let field = Field::named(report, "the variable", entry);
        if !is_variable_name(&entry.key) {
            let message = format!("{} is no name of a variable", quote(&entry.key));
            let hint = "use letters, digits and `_`";
            return report.refuse(entry.key_place, &message, hint);
        }
        Some((entry.key.clone(), field.string()?))
    });
    let resources = section.given_or("resources", Default::default(), stages);
    let (build, check) = resources?;
    Some(Target { uarch: uarch?, partition: partition?, variables: variables?, build, check })
}

fn stages(field: &Field<'_>) -> Option<(Resources, Resources)> {
    let section = field.section_with(STAGE_KEYS)?;
    let build = section.given_or("build", Resources::default(), resources);
    let check = section.given_or("check", Resources::default(), resources);
    Some((build?, check?))
}

fn resources(field: &Field<'_>) -> Option<Resources> {
    let section = field.section()?;
    section.refuse_unknown(RESOURCE_KEYS, |key| match key {
        "cpus-per-task" | "tasks" | "cores" => instead("write `cpus: 64`"),
        "mem" => instead("write `memory: 64G`"),
        "timelimit" | "limit" => instead("write `time: 4h`"),
        "account" | "constraint" | "gres" | "gpus" | "qos" | "reservation" => {
            instead("write it in `options`, such as `options: [--account=x]`")
        }
        _ => None,
    });
    let partition = section.optional("partition", partition);
    let nodes = section.optional("nodes", count);
    let cpus = section.optional("cpus", count);
    let memory = section.optional("memory", |field| {
        parse_size(field.text()?).map_err(|error| refuse(field, &error)).ok()
    });
    let time = section.optional("time", |field| {
        parse_time(field.text()?).map_err(|error| refuse(field, &error)).ok()
    });
    let options = section.given_or("options", Vec::new(), |field| {
        each(field.items("the option")?, |item| option(&item))
    });
    Some(Resources {
        partition: partition?,
        nodes: nodes?,
        cpus: cpus?,
        memory: memory?,
        time: time?,
        options: options?,
    })
}

fn refuse(field: &Field<'_>, error: &impl std::fmt::Display) {
    let _: Option<()> = field.refuse(&error.to_string(), None);
}

fn partition(field: &Field<'_>) -> Option<String> {
    let is_right = |text: &str| {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ',');
        !text.is_empty() && !text.starts_with('-') && text.chars().all(is_usual)
    };
    field.text_if(is_right, "is no partition", "write the name that `sinfo` shows")
}

/// An option is one word for `sbatch`, and never another script.
fn option(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let name = text.split('=').next().unwrap_or_default();
    if OWN_OPTIONS.contains(&name) {
        let message = format!("{} cannot be chosen: the pipeline sets it", quote(name));
        return field.refuse(&message, "remove it");
    }
    let is_right = |text: &str| {
        text.len() > 2 && text.starts_with("--") && !text.contains(|c: char| c.is_ascii_control())
    };
    field.text_if(is_right, "is no option of `sbatch`", "write it as `--account=x`")
}

fn count(field: &Field<'_>) -> Option<u32> {
    let number = match &field.node.value {
        Value::Scalar(Scalar { text, kind: Kind::Integer }) => text.parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| (1..=1_000_000).contains(number));
    number.or_else(|| field.wrong_type("a number from 1 to 1000000", None))
}

fn uenvs(field: &Field<'_>) -> Option<Vec<UenvEntry>> {
    let section = field.section()?;
    let names: Vec<Vec<UenvEntry>> = each(section.entries, |entry| {
        let name: Option<Name> = key(field.report, entry);
        let versions = Field::named(field.report, "the environment", entry).section()?;
        let name = name?;
        each(versions.entries, |entry| uenv(field.report, &name, entry))
    })?;
    Some(names.into_iter().flatten().collect())
}

fn uenv(report: &Report<'_>, name: &Name, entry: &Entry) -> Option<UenvEntry> {
    let version: Option<Version> = key(report, entry);
    let section = Field::named(report, "the version", entry).section_with(VERSION_KEYS)?;
    let hint = "add `recipes:` with the directory for each microarchitecture";
    let recipes = section.needed("recipes", hint, recipes);
    let deploy = section.given_or("deploy", Vec::new(), deploy);
    let mount = section.optional("mount", |field| {
        let text = field.text()?;
        MountPoint::below_root(text).map_err(|error| field.parse_error(text, &error)).ok()
    });
    let tag = section.optional("tag", Field::word::<Tag>);
    let revision = section.given_or("revision", Revision::default(), revision);
    Some(UenvEntry {
        name: name.clone(),
        version: version?,
        place: entry.key_place.into(),
        recipes: recipes?,
        deploy: deploy?,
        mount: mount?.or_else(|| MOUNT.parse().ok())?,
        tag: tag?,
        revision: revision?,
    })
}

fn recipes(field: &Field<'_>) -> Option<BTreeMap<Uarch, Placed<PathBuf>>> {
    let section = field.section()?;
    each(section.entries, |entry| {
        let uarch = key(field.report, entry);
        let value = Field::named(field.report, "the recipe for", entry);
        let path = below(&value);
        Some((uarch?, Placed { value: path?, place: value.place().into() }))
    })
}

/// A directory below that of the recipes: a description must not name files of others.
fn below(field: &Field<'_>) -> Option<PathBuf> {
    let is_below = |text: &str| {
        let mut components = Path::new(text).components().peekable();
        components.peek().is_some()
            && components.all(|one| matches!(one, Component::Normal(_) | Component::CurDir))
    };
    let hint = "write a path below the directory of the environment, such as `2024/mc`";
    field.text_if(is_below, "is no directory of a recipe", hint).map(PathBuf::from)
}

fn deploy(field: &Field<'_>) -> Option<Vec<Placed<(System, Uarch)>>> {
    let section = field.section()?;
    let mut seen = BTreeSet::new();
    let systems: Vec<Vec<_>> = each(section.entries, |entry| {
        let system: Option<System> = key(field.report, entry);
        let items =
            Field::named(field.report, "the system", entry).items("the microarchitecture")?;
        let uarchs: Option<Vec<_>> =
            each(&items, |item| Some((item.word::<Uarch>()?, item.place().into())));
        let system = system?;
        each(uarchs?.into_iter().zip(&items), |((uarch, place), item)| {
            let value = (system.clone(), uarch);
            if !seen.insert(value.clone()) {
                let message = format!("{} is listed twice for {system}", value.1);
                return item.refuse(&message, "remove one of them");
            }
            Some(Placed { value, place })
        })
    })?;
    Some(systems.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
clusters:
  daint:
    targets:
      - uarch: gh200
        partition: normal
        variables: {SLURM_ACCOUNT: x}
    runner: f7t
uenvs:
  app:
    \"2024\":
      recipes: {gh200: 2024/gpu}
      deploy: {daint: [gh200]}
";

    fn parse(text: &str) -> Result<PipelineFile, String> {
        parse_pipeline(Path::new("p.yaml"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_format_of_alps_is_read() {
        let file = parse(FILE).unwrap();
        let uenv = &file.uenvs[0];
        assert_eq!(uenv.deploy[0].value.0.as_str(), "daint");
        assert_eq!(uenv.mount.as_str(), MOUNT);
        assert_eq!(file.publish.as_str(), "build");
        assert!(file.remarks.is_empty() && file.promote.is_none());
    }

    #[test]
    fn what_cannot_be_built_is_a_remark() {
        for (from, to, remark) in [
            (
                "[gh200]",
                "[zen3]",
                "p.yaml:12:24: app/2024 cannot be built: daint has no nodes with zen3",
            ),
            ("daint: [", "dain: [", "cannot be built: there is no system `dain`"),
            ("{gh200: 2024", "{zen3: 2024", "cannot be built for gh200: it has no recipe for it"),
            (
                "      deploy: {daint: [gh200]}\n",
                "",
                "p.yaml:10:5: app/2024 is built for no system",
            ),
        ] {
            let file = parse(&FILE.replace(from, to)).unwrap();
            let [only] = file.remarks.as_slice() else { panic!("{:?}", file.remarks) };
            assert!(only.to_string().contains(remark), "{only}");
        }
    }

    #[test]
    fn mistakes_have_a_place() {
        for (from, to, message) in [
            ("deploy:", "depoly:", "p.yaml:12:7: unknown key `depoly`"),
            ("2024/gpu", "../gpu", "p.yaml:11:24: `../gpu` is no directory of a recipe"),
            ("2024/gpu", "/gpu", "`/gpu` is no directory of a recipe"),
            ("uarch: gh200", "uarch: [a]", "p.yaml:4:16: `uarch` must be text, not a list"),
            ("runner: f7t", "runner: f7", "p.yaml:7:13: `runner` must be `f7t`, not `f7`"),
            ("[gh200]", "[gh200, gh200]", "p.yaml:12:31: gh200 is listed twice for daint"),
        ] {
            let error = parse(&FILE.replace(from, to)).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn resources_of_a_target_come_before_those_of_all() {
        let more = "resources: {build: {cpus: 64, time: 4h, options: [--exclusive]}}\n";
        let target = "partition: normal\n        resources: {build: {cpus: 8}}\n";
        let file =
            parse(&(more.to_owned() + &FILE.replace("partition: normal\n", target))).unwrap();
        let target = &file.clusters.values().next().unwrap().targets[0];
        let build = target.build.or(&file.build);
        assert_eq!((build.cpus, build.time.unwrap().as_secs()), (Some(8), 4 * 3600));
        assert_eq!(build.options, ["--exclusive"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_brings_the_reader_down(text in "[a-z0-9:{}\\[\\] \n/.-]{0,200}") {
            let _ = parse(&text);
            let _ = parse(&FILE.replace("2024", &text));
        }
    }
}
