// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looking at everything, and judging it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use cabane_environment::directories;
use cabane_run::loaded::{CABANE_LOADED, Loaded, file_system_at};
use cabane_site::settings::{BackendChoice, ColorChoice, Effective, Overrides, RepositorySetting};
use cabane_site::{Installation, env_vars, helper_places};

use crate::facts::{
    Answer, Configuration, Facts, HelperFacts, HelperRemedies, Mistake, RepositoryEntry,
    SearchPath, Tool,
};
use crate::finding::Diagnosis;
use crate::probe::within;
use crate::{judge, look};

/// Looks at everything and judges it. Takes what was typed, the variables of the caller, and the
/// program that runs; also returns what the configuration says about color, if it can be read.
///
/// The settings are read here: they may be what is wrong.
pub fn diagnose(
    typed: &Overrides,
    calling: &BTreeMap<OsString, OsString>,
    program: Option<&Path>,
) -> (Diagnosis, Option<ColorChoice>) {
    let (settings, mistake) = read_settings(typed, calling);
    let facts = look_at_everything(calling, program, settings.as_ref(), mistake);
    let color = settings.map(|settings| settings.color.value);
    (judge::judge(&facts), color)
}

/// Reads the settings, first by a child: a home directory may not answer.
fn read_settings(
    typed: &Overrides,
    calling: &BTreeMap<OsString, OsString>,
) -> (Option<Effective>, Option<Mistake>) {
    if let Err(reason) = within(look::QUICK, || drop(Effective::read(typed, calling))) {
        let text = format!("a configuration file cannot be read: {reason}");
        return (None, Some(Mistake { text, hint: None }));
    }
    match Effective::read(typed, calling) {
        Ok(settings) => (Some(settings), None),
        Err(error) => {
            let (text, hint) = error.texts();
            (None, Some(Mistake { text, hint }))
        }
    }
}

fn look_at_everything(
    calling: &BTreeMap<OsString, OsString>,
    program: Option<&Path>,
    settings: Option<&Effective>,
    mistake: Option<Mistake>,
) -> Facts {
    let process = look::look_at_process();
    let user_namespaces = look::try_user_namespaces();
    let helper = look::look_at_helper(&helper_places(calling, program));
    let repositories = settings.map_or(&[][..], |settings| &settings.repositories);
    Facts {
        as_root: look::try_as_root(&process),
        helper_remedies: helper_remedies(program, &helper),
        helper,
        fuse: look::try_fuse(&cabane_site::fuse_programs(calling), &user_namespaces),
        user_namespaces,
        kernel: look::look_at_kernel(&process),
        held: look::look_at_held_images(&process),
        unpacked: look::look_at_unpacked(),
        rendezvous_points: look::look_at_rendezvous_points(&directories(calling), process.user),
        configuration: configuration(settings, mistake),
        repositories: repositories.iter().map(repository).collect(),
        search_path: search_path(calling),
        devices: look::look_at_devices(),
        tools: tools(calling, settings),
        process,
    }
}

fn helper_remedies(program: Option<&Path>, helper: &Answer<HelperFacts>) -> HelperRemedies {
    let installation = Installation::of(program);
    let helper = helper.as_ref().ok().and_then(|helper| helper.installed.as_ref());
    HelperRemedies {
        missing: installation.helper(None),
        broken: installation.helper(helper.map(|helper| Path::new(&helper.path))),
    }
}

fn configuration(settings: Option<&Effective>, mistake: Option<Mistake>) -> Configuration {
    let Some(settings) = settings else {
        return Configuration { mistake, ..Configuration::default() };
    };
    let wanted = settings.backend.value;
    let wanted = (wanted != BackendChoice::Auto).then(|| wanted.name());
    let files = settings.files.iter();
    Configuration {
        files: files.map(|path| path.display().to_string()).collect(),
        mistake,
        wanted: wanted.map(|name| (name, settings.backend.origin.to_string())),
    }
}

fn repository(setting: &RepositorySetting) -> RepositoryEntry {
    let is_used = setting.unusable.is_none();
    RepositoryEntry {
        name: setting.name.clone(),
        path: setting.path.display().to_string(),
        origin: setting.origin.to_string(),
        is_default: setting.is_default,
        unusable: setting.unusable.clone(),
        facts: is_used.then(|| look::look_at_repository(&setting.path)),
    }
}

fn search_path(calling: &BTreeMap<OsString, OsString>) -> Answer<SearchPath> {
    let loaded = calling
        .get(OsStr::new(CABANE_LOADED))
        .and_then(|value| value.to_str())
        .and_then(Loaded::from_variable)
        .unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let images = loaded.images.iter().map(|image| {
        let place = &image.mount_point;
        (place.display().to_string(), file_system_at(&mounts, place).is_some())
    });
    let foreign = calling.keys().filter_map(|name| name.to_str());
    let foreign = foreign.filter(|name| name.starts_with("UENV_") && loaded.images.is_empty());
    let path = calling.get(OsStr::new(env_vars::PATH));
    let names = look::look_at_path(path.map(OsString::as_os_str))?;
    Ok(SearchPath {
        loaded: images.collect(),
        foreign: foreign.map(str::to_owned).collect(),
        names,
    })
}

fn tools(calling: &BTreeMap<OsString, OsString>, settings: Option<&Effective>) -> Vec<Tool> {
    let path = calling.get(OsStr::new(env_vars::PATH));
    let path = path.map(OsString::as_os_str);
    let tool = |name, option, purpose| Tool {
        name,
        purpose,
        found: look::look_for_program(name, option, path),
    };
    let purpose = "Python packages in builds; fetched if it is needed";
    let named = settings.and_then(|settings| settings.uv.value.as_deref());
    vec![
        tool("mksquashfs", "-version", "packing squashfs images"),
        tool("mkfs.erofs", "--version", "packing EROFS images"),
        tool("python3", "--version", "Python environments"),
        tool("gdb", "--version", "debugging; optional"),
        match named.map(|named| look::look_at_program(named, "--version")) {
            Some(found) => Tool { name: "uv", purpose, found },
            None => tool("uv", "--version", purpose),
        },
    ]
}
