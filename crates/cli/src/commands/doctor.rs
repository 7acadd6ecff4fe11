// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane doctor`: which ways of mounting work here, and why others do not.
//!
//! Gathers what [`crate::doctor`] sees and prints what it means. It reads the settings
//! itself: they may be what is wrong.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;

use cabane_label::escape;
use cabane_mount::FusePrograms;
use cabane_run::loaded::{CABANE_LOADED, Loaded};
use clap::Args;

use crate::args::GlobalArgs;
use crate::commands::status::file_system_at;
use crate::doctor::facts::{
    Answer, Configuration, Facts, Mistake, RepositoryEntry, Surroundings, Tool,
};
use crate::doctor::finding::{Finding, Group, Report, State};
use crate::doctor::probe::within;
use crate::doctor::{judge, look};
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::printer::{Printer, style};
use crate::report::CommandResult;
use cabane_environment::directories;
use cabane_site::env_vars;
use cabane_site::helper_places;
use cabane_site::settings::BackendChoice;
use cabane_site::settings::{Effective, RepositorySetting};

/// Diagnose mounting problems and suggest fixes
#[derive(Debug, Args)]
#[command(after_help = "\
Each check mounts or starts something in its own namespaces and cleans up. Each line is `ok`,
`off` (not available, and not needed), `note`, or `problem`.

The exit code is 10 if nothing can be mounted or if there is a problem.")]
pub(crate) struct DoctorArgs {
    /// Explain every line, not only the problems
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(
    global: &GlobalArgs,
    printer: Printer,
    args: &DoctorArgs,
) -> CommandResult<ExitCode> {
    let calling: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let (settings, mistake) = read_settings(global, &calling);
    let printer = match &settings {
        Some(settings) => printer.with_setting(settings.color.value, global),
        None => printer,
    };
    let facts = look_at_everything(&calling, settings.as_ref(), mistake);
    let report = judge::judge(&facts);
    if args.json {
        printer.data(json(&report));
    } else {
        printer.data(text(&report, args.verbose || global.verbose > 0));
    }
    Ok(if report.healthy {
        exit_codes::SUCCESS
    } else {
        exit_codes::UNHEALTHY
    })
}

/// Reads the settings, first by a child: a home directory may not answer.
fn read_settings(
    global: &GlobalArgs,
    calling: &BTreeMap<OsString, OsString>,
) -> (Option<Effective>, Option<Mistake>) {
    let mistake = |text: String, hint| Some(Mistake { text, hint });
    let typed = global.overrides();
    let answer = within(look::QUICK, || drop(Effective::read(&typed, calling)));
    if let Err(reason) = answer.known() {
        let text = format!("a configuration file cannot be read: {reason}");
        return (None, mistake(text, None));
    }
    match Effective::read(&typed, calling) {
        Ok(settings) => (Some(settings), None),
        Err(error) => {
            let (text, hint) = error.texts();
            (None, mistake(text, hint))
        }
    }
}

fn look_at_everything(
    calling: &BTreeMap<OsString, OsString>,
    settings: Option<&Effective>,
    mistake: Option<Mistake>,
) -> Facts {
    let process = look::look_at_process();
    let user_namespaces = look::try_user_namespaces();
    let repositories = settings.map_or(&[][..], |settings| &settings.repositories);
    Facts {
        as_root: look::try_as_root(&process),
        helper: look::look_at_helper(&helper_places(
            calling,
            std::env::current_exe().ok().as_deref(),
        )),
        fuse: look::try_fuse(&FusePrograms::default(), &user_namespaces),
        user_namespaces,
        kernel: look::look_at_kernel(&process),
        held: look::look_at_held_images(&process),
        gatherings: look::look_at_gatherings(&directories(calling), process.user),
        configuration: configuration(settings, mistake),
        repositories: repositories.iter().map(repository).collect(),
        surroundings: surroundings(calling),
        devices: look::look_at_devices(),
        tools: tools(calling, settings),
        process,
    }
}

fn configuration(settings: Option<&Effective>, mistake: Option<Mistake>) -> Configuration {
    let Some(settings) = settings else {
        return Configuration {
            mistake,
            ..Configuration::default()
        };
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

fn surroundings(calling: &BTreeMap<OsString, OsString>) -> Answer<Surroundings> {
    let loaded = calling
        .get(OsStr::new(CABANE_LOADED))
        .and_then(|value| value.to_str())
        .and_then(Loaded::from_variable)
        .unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let images = loaded.images.iter().map(|image| {
        let place = &image.mount_point;
        (
            place.display().to_string(),
            file_system_at(&mounts, place).is_some(),
        )
    });
    let foreign = calling.keys().filter_map(|name| name.to_str());
    let foreign = foreign.filter(|name| name.starts_with("UENV_") && loaded.images.is_empty());
    let path = calling.get(OsStr::new(env_vars::PATH));
    match look::look_at_path(path.map(OsString::as_os_str)) {
        Answer::Known(names) => Answer::Known(Surroundings {
            loaded: images.collect(),
            foreign: foreign.map(str::to_owned).collect(),
            names,
        }),
        Answer::Silent(seconds) => Answer::Silent(seconds),
        Answer::Failed(reason) => Answer::Failed(reason),
    }
}

fn tools(calling: &BTreeMap<OsString, OsString>, settings: Option<&Effective>) -> Vec<Tool> {
    let path = calling.get(OsStr::new(env_vars::PATH));
    let path = path.map(OsString::as_os_str);
    let tool = |name, option, purpose, package| Tool {
        name,
        purpose,
        package,
        found: look::look_for_program(name, option, path),
    };
    let mut tools = vec![
        tool(
            "mksquashfs",
            "-version",
            "packing squashfs images",
            Some("squashfs-tools"),
        ),
        tool(
            "mkfs.erofs",
            "--version",
            "packing EROFS images",
            Some("erofs-utils"),
        ),
        tool(
            "python3",
            "--version",
            "Python environments",
            Some("python3"),
        ),
        tool("gdb", "--version", "debugging; optional", Some("gdb")),
    ];
    let purpose = "installing Python packages in builds";
    let named = settings.and_then(|settings| settings.uv.value.as_deref());
    tools.push(match named {
        Some(named) => Tool {
            name: "uv",
            purpose,
            package: None,
            found: look::look_at_program(named, "--version"),
        },
        None => tool("uv", "--version", purpose, None),
    });
    tools
}

fn text(report: &Report, explain: bool) -> String {
    let mut text = String::new();
    let mut group: Option<Group> = None;
    for finding in ordered(&report.findings) {
        if group != Some(finding.group) {
            let (head, space) = (style::HEAD, if group.is_some() { "\n" } else { "" });
            let _ = writeln!(text, "{space}{head}{}{head:#}", finding.group.title());
            group = Some(finding.group);
        }
        line(&mut text, finding, explain);
    }
    let count = |state| {
        let findings = report.findings.iter();
        findings.filter(|finding| finding.state == state).count()
    };
    let verdict = match (report.choice.works, count(State::Problem)) {
        (true, 0) => "environments can be started here".to_owned(),
        (true, count) => format!("environments can be started here; {}", problems(count)),
        (false, _) => "environments cannot be started here as things are".to_owned(),
    };
    let color = if report.healthy {
        style::GOOD
    } else {
        style::ERROR
    };
    let _ = writeln!(text, "\n{color}{verdict}{color:#}");
    text
}

fn problems(count: usize) -> String {
    match count {
        1 => "one thing is broken".to_owned(),
        count => format!("{count} things are broken"),
    }
}

fn ordered(findings: &[Finding]) -> Vec<&Finding> {
    let mut findings: Vec<&Finding> = findings.iter().collect();
    findings.sort_by_key(|finding| finding.group);
    findings
}

fn line(text: &mut String, finding: &Finding, explain: bool) {
    let color = match finding.state {
        State::Ok => style::GOOD,
        State::Off => style::FAINT,
        State::Note => style::WARNING,
        State::Problem => style::ERROR,
    };
    let word = finding.state.word();
    let name = escape(&finding.name);
    let found = escape(&finding.found);
    let _ = writeln!(text, "  {color}{word:<8}{color:#} {name}: {found}");
    if !explain && finding.state < State::Note {
        return;
    }
    let mut more = |label: &str, value: &str| {
        for (number, line) in value.lines().enumerate() {
            let label = if number == 0 { label } else { "" };
            let _ = writeln!(text, "           {label:<6} {}", escape(line));
        }
    };
    if explain {
        more("for", finding.purpose);
    }
    more("cause", finding.cause.as_deref().unwrap_or_default());
    more("type", finding.command.as_deref().unwrap_or_default());
}
