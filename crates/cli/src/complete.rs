// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a shell offers when a person presses the Tab key: commands and options, and the images,
//! views, environments and repositories that are there.
//!
//! `cabane completion SHELL` prints the part for the shell, which runs this program with the words
//! of the line after `--` and the variable [`env_vars::CABANE_COMPLETE`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use cabane_environment::finder;
use cabane_image_search::{SearchRequest, known_images, known_packages, list};
use cabane_label::{Label, escape};
use cabane_report::shell_word;
use cabane_repository::Record;
use cabane_site::env_vars;
use cabane_site::settings::Overrides;
use cabane_transfer::RegistryRequest;
use clap::Command;
use clap_complete::CompletionCandidate as Candidate;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::Shells;

use crate::args::GlobalArgs;
use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;
use crate::uenv;

/// Commands whose images are those of a registry. It is not asked while a person types: what was
/// listed last is offered.
const REMOTE: [&str; 8] =
    ["bundle", "catalogue", "channel", "copy", "delete", "find", "pull", "registry"];

/// Bash splits words at `:`, `=` and `@`, which are parts of labels; so the line is split here.
const BASH: &str = r#"_COMMAND_complete() {
    local line=${COMP_LINE:0:COMP_POINT} words word candidates
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    candidates=$(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) CABANE_COMPLETE=bash \
        COMPLETER -- "${words[@]}" 2>/dev/null) || return 0
    mapfile -t COMPREPLY <<<"$candidates"
    [[ -n $candidates ]] || COMPREPLY=()
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[=:@]}"}"}")
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} == *[=/:,] ]] || compopt +o nospace
}
complete -o nospace -o bashdefault -o nosort -F _COMMAND_complete COMMAND
"#;

/// In a shell inside an environment, the prompt begins with the names of the images.
const PROMPTS: &[(&str, &str)] = &[
    ("bash", PROMPT_OF_BASH_AND_ZSH),
    ("zsh", PROMPT_OF_BASH_AND_ZSH),
    (
        "fish",
        r"
if status is-interactive; and set -q CABANE_LOADED; and not set -q _cabane_prompt
    set -g _cabane_prompt (COMMAND status --format prompt 2>/dev/null)
    functions -q fish_prompt; and functions -c fish_prompt _cabane_fish_prompt
    function fish_prompt; echo -n $_cabane_prompt; _cabane_fish_prompt; end
end
",
    ),
    (
        "tcsh",
        "if ($?CABANE_LOADED && $?prompt) set prompt = \"`COMMAND status --format prompt`$prompt\";\n",
    ),
];

const PROMPT_OF_BASH_AND_ZSH: &str = r"
if [[ $- == *i* && -n ${CABANE_LOADED-} && -z ${_cabane_prompt-} ]]; then
    _cabane_prompt=$(COMMAND status --format prompt 2>/dev/null)
    PS1=$_cabane_prompt$PS1
fi
";

/// Returns what a shell reads when it starts, to show the images in its prompt.
pub(crate) fn prompt(shell: &str, command: &str) -> String {
    let found = PROMPTS.iter().find(|(name, _)| *name == shell);
    found.map(|(_, script)| script.replace("COMMAND", command)).unwrap_or_default()
}

/// Returns the script for a shell, or nothing if there is none for it. `completer` is the program
/// that answers, and `command` is the word that is completed.
///
/// # Errors
///
/// None, as it is written to memory.
pub(crate) fn script(shell: &str, command: &str, completer: &str) -> io::Result<Option<String>> {
    if shell == "bash" {
        let completer = shell_word(completer);
        return Ok(Some(BASH.replace("COMPLETER", &completer).replace("COMMAND", command)));
    }
    let shells = Shells::builtins();
    let Some(found) = shells.completer(shell) else { return Ok(None) };
    let mut script = Vec::new();
    let variable = env_vars::CABANE_COMPLETE;
    found.write_registration(variable, command, command, completer, &mut script)?;
    Ok(Some(String::from_utf8_lossy(&script).into_owned()))
}

/// Whether a shell asks for what may follow.
pub(crate) fn is_asked(typed: &[OsString]) -> bool {
    // Nothing that a person types begins so.
    typed.get(1).is_some_and(|word| word == "--")
        && std::env::var_os(env_vars::CABANE_COMPLETE).is_some()
}

/// Prints what may follow. `typed` is the program, `--`, and the words of the line.
///
/// # Errors
///
/// There is no such shell, or standard output is closed.
pub(crate) fn answer(typed: &[OsString], mut parser: Command, is_uenv: bool) -> io::Result<()> {
    let shell = std::env::var(env_vars::CABANE_COMPLETE).unwrap_or_default();
    let shells = Shells::builtins();
    let shell = shells.completer(&shell).ok_or(io::ErrorKind::NotFound)?;
    let words: Arc<[OsString]> = typed.iter().skip(2).cloned().collect();
    parser.build();
    add_values(&mut parser, &Words { typed: words.clone(), is_uenv, is_remote: false });
    let mut text = Vec::new();
    let directory = std::env::current_dir().ok();
    shell.write_complete(&mut parser, words.to_vec(), directory.as_deref(), &mut text)?;
    if shell.name() == "bash" {
        // Other shells quote the names of files by themselves.
        let all = String::from_utf8_lossy(&text).into_owned();
        let plain: Vec<&str> = all.lines().filter(|word| is_plain(word)).collect();
        text = plain.join("\n").into_bytes();
    }
    io::stdout().write_all(&text)
}

/// Returns the exit code of an answer.
pub(crate) fn code(answer: &io::Result<()>) -> ExitCode {
    if answer.is_ok() { exit_codes::SUCCESS } else { exit_codes::FAILURE }
}

/// Says for the arguments of a command, and of those below it, what their values can be.
fn add_values(command: &mut Command, words: &Words) {
    let name = command.get_name().to_owned();
    let words = Words { is_remote: words.is_remote || REMOTE.contains(&&*name), ..words.clone() };
    let old = std::mem::take(command);
    *command = old.mut_args(|arg| {
        let candidates: fn(&Words, &str) -> Option<Vec<Candidate>> = match arg.get_id().as_str() {
            _ if !arg.get_action().takes_values() => return arg,
            "images" | "image" | "labels" | "patterns" | "pattern" | "uenv" => images,
            "label" if name == "rm" => images,
            "source" if words.is_uenv => images,
            "from" if name == "copy" => images,
            "view" | "views" => views,
            "environment" => environments,
            "package" | "packages" => packages,
            "repo" => repositories,
            "system" => systems,
            _ => return arg,
        };
        let words = words.clone();
        arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let (before, last) = split(current.to_str().unwrap_or_default());
            let found = candidates(&words, last).unwrap_or_default().into_iter();
            let found = found.filter(|one| {
                let value = one.get_value().to_str();
                value.is_some_and(|value| is_offered(value, last))
            });
            found.map(|one| one.add_prefix(before)).collect()
        }))
    });
    for below in command.get_subcommands_mut() {
        add_values(below, &words);
    }
}

/// Whether a value can be put in the place of what was typed. One that others have named does not begin as
/// an option or as the home of a user, unless that was typed.
fn is_offered(value: &str, typed: &str) -> bool {
    let is_begun = !typed.is_empty() || value.starts_with(char::is_alphanumeric);
    is_begun && value.starts_with(typed) && is_plain(value)
}

/// Whether a shell takes a word as it is. Names that come from others are not put into a command line
/// otherwise.
fn is_plain(word: &str) -> bool {
    word.chars().all(|one| one.is_alphanumeric() || "%+,-./:=@_~".contains(one))
}

/// Splits a list where its last element begins.
fn split(list: &str) -> (&str, &str) {
    list.split_at(list.rfind(',').map_or(0, |comma| comma + 1))
}

/// The words of the line.
#[derive(Clone)]
struct Words {
    typed: Arc<[OsString]>,
    /// Whether the command line is that of uenv.
    is_uenv: bool,
    /// Whether images are those of a registry.
    is_remote: bool,
}

impl Words {
    /// Returns the value of a global option.
    fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.typed.iter().filter_map(|word| word.to_str());
        while let Some(word) = words.next() {
            let Some(rest) = word.strip_prefix(name) else { continue };
            match rest.strip_prefix('=') {
                Some(value) => return Some(value),
                None if rest.is_empty() => return words.next(),
                None => {}
            }
        }
        None
    }

    /// Reads the configuration, as for the command that is typed.
    fn setup(&self) -> Option<Setup> {
        if self.is_uenv {
            return self.setup_of_uenv();
        }
        let args = GlobalArgs {
            repo: self.option("--repo").map(str::to_owned),
            system: self.option("--system").map(Into::into),
            ..GlobalArgs::default()
        };
        Setup::for_recipes(&args, args.printer()).ok()
    }

    fn setup_of_uenv(&self) -> Option<Setup> {
        let overrides = Overrides {
            repo: self.option("--repo").map(uenv::absolute),
            system: self.option("--system").map(str::to_owned),
            backend: None,
            is_uenv: true,
            cabane_first: false,
        };
        let site = Setup::site(&overrides, std::env::vars_os().collect()).ok()?;
        Some(Setup::of(site, GlobalArgs::default().printer()))
    }

    /// Returns the registry that is meant. A bundle is not opened while a person types.
    fn registry(&self) -> Option<RegistryRequest> {
        let registry = self.option("--registry").map(str::to_owned);
        let is_file = |text: &String| text.starts_with(['/', '.']) || Path::new(text).is_file();
        let request = RegistryRequest { registry, ..RegistryRequest::default() };
        (!request.registry.as_ref().is_some_and(is_file)).then_some(request)
    }

    /// Returns the images of the repositories that match.
    fn records(&self, pattern: Option<&str>) -> Option<Vec<Record>> {
        let request = SearchRequest { pattern: pattern.map(str::to_owned), ..Default::default() };
        let setup = self.setup()?;
        let found = list(&setup, &request).ok()?;
        Some(found.repositories.into_iter().flat_map(|(_, records)| records).collect())
    }
}

/// Offers names until one is typed, then its labels; files as well.
fn images(words: &Words, typed: &str) -> Option<Vec<Candidate>> {
    if words.is_remote {
        return images_seen_last(words, typed);
    }
    if typed.starts_with(['.', '/', '~']) {
        return Some(files(typed));
    }
    // A beginning of a name is found sooner than it is among all records.
    let start = typed.split('/').next().filter(|start| !start.is_empty());
    let records = words.records(start).or_else(|| words.records(None))?;
    let images = records.iter().map(|record| (&record.label, record.description.as_deref()));
    Some(labels(images, typed))
}

/// Offers the images of a registry that were listed last, in the namespace that was typed.
fn images_seen_last(words: &Words, typed: &str) -> Option<Vec<Candidate>> {
    let (namespace, rest) = match typed.split_once("::") {
        Some((namespace, rest)) => (Some(namespace.parse().ok()?), rest),
        None => (None, typed),
    };
    let setup = words.setup()?;
    let seen = known_images(&setup, &words.registry()?, namespace.as_ref()).ok()?;
    let system = setup.settings.system.value.as_ref();
    let here = seen.iter().map(|one| &one.label);
    let here = here.filter(|one| system.is_none_or(|system| one.system == *system));
    let found = labels(here.map(|label| (label, None)), rest).into_iter();
    let before = namespace.map(|one| format!("{one}::")).unwrap_or_default();
    Some(found.map(|one| one.add_prefix(before.clone())).collect())
}

/// Offers names until one is typed, then labels, without their system unless it is typed.
fn labels<'a>(
    images: impl Iterator<Item = (&'a Label, Option<&'a str>)>,
    typed: &str,
) -> Vec<Candidate> {
    let (start, is_name) = match typed.split_once('/') {
        Some((name, _)) => (name, true),
        None => (typed, false),
    };
    let is_whole = typed.contains(['@', '%']);
    let mut of_name: BTreeMap<&str, BTreeMap<String, Option<&str>>> = BTreeMap::new();
    for (label, description) in images {
        let name = label.name.as_str();
        if !name.starts_with(start) || is_name && name != start {
            continue;
        }
        let Label { name: _, version, tag, system, uarch } = label;
        let system = if is_whole { format!("@{system}%{uarch}") } else { String::new() };
        let text = format!("{name}/{version}:{tag}{system}");
        of_name.entry(name).or_default().insert(text, description);
    }
    let mut found = Vec::new();
    for (name, labels) in of_name {
        if labels.len() > 1 && !is_name {
            found.push(Candidate::new(format!("{name}/")));
            continue;
        }
        found.extend(labels.into_iter().map(|(label, description)| {
            let first = description.and_then(|text| text.lines().next());
            Candidate::new(label).help(first.map(|line| escape(line).into_owned().into()))
        }));
    }
    found
}

/// Offers names of packages until one is typed, then its versions.
fn packages(words: &Words, typed: &str) -> Option<Vec<Candidate>> {
    let registry = if words.is_remote { Some(words.registry()?) } else { None };
    let setup = words.setup()?;
    let known = known_packages(&setup, registry.as_ref()).ok()?;
    let has_name = typed.contains('@');
    let shown = known.iter().map(
        |(name, version)| {
            if has_name { format!("{name}@{version}") } else { name.clone() }
        },
    );
    Some(shown.collect::<BTreeSet<_>>().into_iter().map(Candidate::new).collect())
}

/// Offers the files of a directory that can be images or environment files.
fn files(typed: &str) -> Vec<Candidate> {
    let (directory, _) = typed.split_at(typed.rfind('/').map_or(0, |slash| slash + 1));
    let place = if directory.is_empty() { Path::new(".") } else { Path::new(directory) };
    let entries = place.read_dir().into_iter().flatten().flatten();
    let shown = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_directory = entry.path().is_dir();
        let end = if is_directory { "/" } else { "" };
        Some(Candidate::new(format!("{directory}{name}{end}")))
    });
    shown.collect()
}

/// Offers the views of the images that were typed.
fn views(words: &Words, _: &str) -> Option<Vec<Candidate>> {
    let typed = words.typed.iter().skip(2).filter_map(|word| word.to_str());
    let mut found = Vec::new();
    for list in typed.filter(|word| !word.starts_with('-')) {
        let images: Vec<&str> = list.split(',').map(before_mount_point).collect();
        for image in &images {
            for record in words.records(Some(image)).unwrap_or_default() {
                let name = record.label.name.as_str().to_owned();
                found.extend(record.views.iter().map(|view| match images.len() {
                    1 => view.as_str().to_owned(),
                    _ => format!("{name}:{}", view.as_str()),
                }));
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found.into_iter().map(Candidate::new).collect())
}

fn before_mount_point(image: &str) -> &str {
    image.split_once(":/").map_or(image, |(image, _)| image)
}

/// Offers environment files by name.
fn environments(words: &Words, typed: &str) -> Option<Vec<Candidate>> {
    if typed.contains('/') {
        return Some(files(typed));
    }
    let setup = words.setup()?;
    let names = finder(&setup).directories.iter().flat_map(|directory| names_in(directory));
    Some(names.filter_map(|name| Some(Candidate::new(name.strip_suffix(".toml")?))).collect())
}

/// Offers repositories by name.
fn repositories(words: &Words, _: &str) -> Option<Vec<Candidate>> {
    let repositories = words.setup()?.repositories().ok()?;
    Some(repositories.into_iter().map(|one| Candidate::new(one.name)).collect())
}

/// Offers systems by name.
fn systems(words: &Words, typed: &str) -> Option<Vec<Candidate>> {
    if typed.contains('/') {
        return Some(files(typed));
    }
    let setup = words.setup()?;
    let directories = setup.settings.system_directories.value.iter();
    Some(directories.flat_map(|directory| names_in(directory)).map(Candidate::new).collect())
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_do_not_begin_as_options_or_homes() {
        for name in ["--exec=evil", "~root/x", "@here", "/etc", "%1", "=ls", "+x", ""] {
            assert!(!is_offered(name, ""), "{name}");
        }
        assert!(is_offered("app/1.0:v1", "") && is_offered("app/1.0:v1", "ap"));
        assert!(is_offered("./app.squashfs", ".") && is_offered("~/app.squashfs", "~"));
        assert!(!is_offered("app$(evil)", "ap") && !is_offered("other", "ap"));
    }
}
