// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of a recipe for Spack and of a system, one below the other: a line
//! `--- name` before each.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_recipe::{
    ConvertTo, FileText, StackFiles, StackOptions, SystemFiles, Yaml, convert_stack, parse_stack,
    parse_system,
};
use cabane_spack::{OwnPackages, Places, lower};

use super::recipe::check;
use super::{Verdict, compare};

/// Reads the files of a recipe and of a system, and plans what Spack builds.
pub fn run(bytes: &[u8]) -> Verdict {
    let files = split(bytes);
    let file = |name: &'static str| {
        files.get(name.as_bytes()).map(|text| FileText { path: Path::new(name), text })
    };
    let Some(config) = file("config.yaml") else {
        return Verdict::Refused;
    };
    let stack = StackFiles {
        config,
        compilers: file("compilers.yaml"),
        environments: file("environments.yaml"),
        modules: file("modules.yaml"),
        packages: file("packages.yaml"),
    };
    if let Err(error) = convert_stack(&stack, &ConvertTo::default())
        && let wrong @ Verdict::Wrong(_) = check(error.diagnostics())
    {
        return wrong;
    }
    let system = file("system/packages.yaml").map(|packages| {
        parse_system(&SystemFiles {
            packages,
            network: file("system/network.yaml"),
            repos: file("system/repos.yaml"),
            mirrors: file("system/mirrors.yaml"),
            config: file("system/config.yaml"),
            concretizer: file("system/concretizer.yaml"),
            toolchains: file("system/toolchains.yaml"),
        })
    });
    let system = match system {
        Some(Err(error)) => return check(error.diagnostics()),
        Some(Ok(system)) => Some(system),
        None => None,
    };
    let options = StackOptions { system: system.as_ref(), accept_old_spack: false };
    let recipe = match parse_stack(&stack, &options) {
        Err(error) => return check(error.diagnostics()),
        Ok(recipe) => recipe,
    };
    let Some(system) = system else {
        return Verdict::Accepted;
    };
    let places = Places::in_image(&recipe, Path::new("/config"), OwnPackages::default());
    match lower(&recipe, &system, &places) {
        Err(error) => Verdict::Wrong(format!("it was accepted, but not planned: {error}")),
        Ok(stack) => {
            let specs = stack.environments.iter().map(|one| &one.spack_yaml);
            let files = stack.config.values().chain(stack.upstream.values());
            let verdicts = specs.chain(files).map(|text| read_again(text));
            let is_wrong = |verdict: &Verdict| matches!(verdict, Verdict::Wrong(_));
            verdicts.into_iter().find(is_wrong).unwrap_or(Verdict::Accepted)
        }
    }
}

/// What Spack is handed is read as what was written.
fn read_again(text: &str) -> Verdict {
    let read = |text: &str| Yaml::parse(Path::new("file"), text.as_bytes());
    match read(text) {
        Ok(value) if value.to_string() == text => compare(&value, text, read(text)),
        Ok(value) => Verdict::Wrong(format!("{text:?} is written again as {value}")),
        Err(error) => Verdict::Wrong(format!("{text:?} is not read again: {error}")),
    }
}

fn split(bytes: &[u8]) -> BTreeMap<&[u8], Vec<u8>> {
    let mut files = BTreeMap::<&[u8], Vec<u8>>::new();
    let mut name: &[u8] = b"";
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"--- ") {
            Some(next) => name = next.trim_ascii(),
            None => files.entry(name).or_default().extend_from_slice(line),
        }
    }
    files
}
