// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The environment of the process, and the programs that builds use.

use super::checks::{COMMANDS, DEVICES, LOADED, SEARCH_PATH, UENV, VARIABLES, tool};
use crate::facts::{Answer, DeviceFacts, Facts, Process, SearchPath, Tool};
use crate::finding::Finding;

/// Judges what is around the process.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = match facts.search_path.as_ref() {
        Ok(search_path) => judge_search_path(search_path, &facts.process),
        Err(reason) => {
            let found = format!("a directory of it does not answer: {reason}");
            vec![
                SEARCH_PATH
                    .problem(found)
                    .because("its file system hangs; programs are looked for there"),
            ]
        }
    };
    findings.extend(judge_devices(&facts.devices));
    findings.extend(facts.tools.iter().map(judge_tool));
    findings
}

fn judge_search_path(search_path: &SearchPath, process: &Process) -> Vec<Finding> {
    let mut findings = vec![judge_loaded(search_path, process)];
    if !search_path.foreign.is_empty() {
        let found = format!("{} set by another tool", search_path.foreign.join(", "));
        findings.push(
            VARIABLES
                .note(found)
                .because("scripts may take them for those of an environment of Cabane")
                .fixed_by(format!("unset {}", search_path.foreign.join(" "))),
        );
    }
    if let [first, others @ ..] = search_path.names.commands.as_slice()
        && !others.is_empty()
    {
        let found = format!("PATH holds different programs: {first}, {}", others.join(", "));
        findings.push(
            COMMANDS
                .note(found)
                .because("the first is used; a helper of another version may not understand it")
                .fixed_by("type -a cabane"),
        );
    }
    if let Some((path, is_this)) = &search_path.names.uenv {
        let found = if *is_this {
            format!("{path} is this program")
        } else {
            format!("{path} is another program")
        };
        findings.push(UENV.off(found));
    }
    findings
}

fn judge_loaded(search_path: &SearchPath, process: &Process) -> Finding {
    if search_path.loaded.is_empty() {
        return LOADED.off("not inside one");
    }
    let (mounted, absent): (Vec<_>, Vec<_>) =
        search_path.loaded.iter().partition(|(_, mounted)| *mounted);
    let names = |images: Vec<&(String, bool)>| {
        let names: Vec<&str> = images.iter().map(|(path, _)| path.as_str()).collect();
        names.join(", ")
    };
    if !absent.is_empty() {
        let found = format!("the variables name {}, which is not mounted", names(absent));
        return LOADED
            .note(found)
            .because("they travelled to a process outside, for example through ssh")
            .fixed_by("unset CABANE_LOADED UENV_MOUNT_LIST UENV_VIEW");
    }
    let cause = if process.in_first_user_namespace && process.no_new_privileges {
        "another one can be entered from here in a user namespace, not through the helper; \
         set-uid programs gain nothing"
    } else if process.in_first_user_namespace {
        "another one can be entered from here"
    } else {
        "another one can be entered from here, in one more user namespace; set-uid programs \
         gain nothing, and files of other users show as `nobody`"
    };
    LOADED.ok(format!("inside: {}", names(mounted))).because(cause)
}

/// Most machines have none, and then there is nothing to tell.
fn judge_devices(devices: &Answer<DeviceFacts>) -> Vec<Finding> {
    let devices = match devices.as_ref() {
        Ok(devices) => devices,
        Err(reason) => {
            return vec![DEVICES.note(format!("cannot be looked for: {reason}"))];
        }
    };
    let problems = devices
        .problems
        .iter()
        .map(|problem| DEVICES.note(problem).because("what this file describes cannot be had"));
    let known = (!devices.names.is_empty()).then(|| DEVICES.ok(devices.names.join(", ")));
    known.into_iter().chain(problems).collect()
}

fn judge_tool(one: &Tool) -> Finding {
    let check = tool(one.name, one.purpose);
    match one.found.as_ref() {
        Ok(Some(program)) => {
            let version = program.version.as_deref().unwrap_or_default();
            let found = format!("{} {version}", program.path);
            check.ok(found.trim_end())
        }
        Ok(None) => check.off("is not in PATH").fixed_by_installing(one.name),
        Err(reason) => check.note(format!("could not be looked for: {reason}")),
    }
}
