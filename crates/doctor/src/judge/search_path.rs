// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The environment of the process, and the programs that builds use.

use crate::facts::{Answer, DeviceFacts, Facts, Process, SearchPath, Tool};
use crate::finding::{Finding, Group, State};

/// Judges what is around the process.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = match facts.search_path.known() {
        Ok(search_path) => judge_search_path(search_path, &facts.process),
        Err(reason) => {
            let found = format!("a directory of it does not answer: {reason}");
            let finding = Finding::new(Group::Environment, "PATH", State::Problem, found);
            vec![finding.because("its file system hangs; programs are looked for there")]
        }
    };
    findings.extend(judge_devices(&facts.devices));
    findings.extend(facts.tools.iter().map(judge_tool));
    findings
}

fn finding(name: &str, state: State, found: impl Into<String>) -> Finding {
    Finding::new(Group::Environment, name, state, found)
}

fn judge_search_path(search_path: &SearchPath, process: &Process) -> Vec<Finding> {
    let mut findings = vec![judge_loaded(search_path, process)];
    if !search_path.foreign.is_empty() {
        let found = format!("{} set by another tool", search_path.foreign.join(", "));
        findings.push(
            finding("variables", State::Note, found)
                .because("scripts may take them for those of an environment of Cabane")
                .fixed_by(format!("unset {}", search_path.foreign.join(" "))),
        );
    }
    if let [first, others @ ..] = search_path.names.commands.as_slice()
        && !others.is_empty()
    {
        let found = format!("PATH holds different programs: {first}, {}", others.join(", "));
        findings.push(
            finding("cabane", State::Note, found)
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
        findings.push(finding("uenv", State::Off, found));
    }
    findings
}

fn judge_loaded(search_path: &SearchPath, process: &Process) -> Finding {
    let name = "environment";
    let purpose = "whether this process is inside an environment of Cabane";
    if search_path.loaded.is_empty() {
        return finding(name, State::Off, "not inside one").serving(purpose);
    }
    let (mounted, absent): (Vec<_>, Vec<_>) =
        search_path.loaded.iter().partition(|(_, mounted)| *mounted);
    let names = |images: Vec<&(String, bool)>| {
        let names: Vec<&str> = images.iter().map(|(path, _)| path.as_str()).collect();
        names.join(", ")
    };
    if !absent.is_empty() {
        let found = format!("the variables name {}, which is not mounted", names(absent));
        return finding(name, State::Note, found)
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
    finding(name, State::Ok, format!("inside: {}", names(mounted))).because(cause)
}

/// Most machines have none, and then there is nothing to tell.
fn judge_devices(devices: &Answer<DeviceFacts>) -> Vec<Finding> {
    let purpose = "what containers can have by `--device`";
    let devices = match devices.known() {
        Ok(devices) => devices,
        Err(reason) => {
            let found = format!("cannot be looked for: {reason}");
            return vec![finding("devices", State::Note, found).serving(purpose)];
        }
    };
    let problems = devices.problems.iter().map(|problem| {
        finding("devices", State::Note, problem.clone())
            .because("what this file describes cannot be had")
            .serving(purpose)
    });
    let known = (!devices.names.is_empty())
        .then(|| finding("devices", State::Ok, devices.names.join(", ")).serving(purpose));
    known.into_iter().chain(problems).collect()
}

fn judge_tool(tool: &Tool) -> Finding {
    let finding = |state, found: String| {
        Finding::new(Group::Tools, tool.name, state, found).serving(tool.purpose)
    };
    match tool.found.known() {
        Ok(Some(program)) => {
            let version = program.version.as_deref().unwrap_or_default();
            let found = format!("{} {version}", program.path);
            finding(State::Ok, found.trim_end().to_owned())
        }
        Ok(None) => {
            let missing = finding(State::Off, "is not in PATH".to_owned());
            match tool.package {
                Some(package) => missing.fixed_by(format!("sudo apt-get install {package}")),
                None => missing,
            }
        }
        Err(reason) => finding(State::Note, format!("could not be looked for: {reason}")),
    }
}
