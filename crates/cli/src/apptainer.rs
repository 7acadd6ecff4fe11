// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The options of `exec` and `shell`, which are those of Apptainer where they mean something here.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_environment::{ImageRequest, RootOptions};
use cabane_label::escape;
use cabane_launch::LaunchPlan;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::env_vars;
use cabane_view::{VariableSetting, is_variable_name};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::image_args::InsideOptions;
use crate::setup::Setup;

/// Options of `exec` and `shell`.
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
#[derive(Debug, Args)]
pub(crate) struct ApptainerArgs {
    #[command(flatten)]
    inside: WithLetters,
    /// Show files or directories of this system inside: `SOURCE[:TARGET[:ro]]`, separated by commas. Repeatable
    #[arg(short = 'B', long, value_name = "BINDS")]
    bind: Vec<String>,
    /// Keep changes of the root file system in this directory
    #[arg(short, long, value_name = "DIRECTORY")]
    overlay: Option<String>,
    /// Keep changes of the root file system in memory until the command ends
    #[arg(long, conflicts_with = "overlay")]
    writable_tmpfs: bool,
    /// Appear as root inside; changes of the root file system are kept in memory, or with --overlay
    #[arg(short, long)]
    fakeroot: bool,
    /// Hide the home directory
    #[arg(long)]
    no_home: bool,
    /// Show another directory as the home directory: SOURCE or SOURCE:TARGET
    #[arg(short = 'H', long, value_name = "PLACE", conflicts_with = "no_home")]
    home: Option<String>,
    /// With --contain: keep /tmp, /var/tmp, and the home directory below this directory
    #[arg(short = 'W', long, value_name = "DIRECTORY")]
    workdir: Option<PathBuf>,
    /// As --contain with --cleanenv
    #[arg(short = 'C', long)]
    containall: bool,
    /// As --contain with --cleanenv and --writable-tmpfs
    #[arg(long, conflicts_with = "overlay")]
    compat: bool,
    /// Print what would be mounted and set, and stop
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    refused: Refused,
}

impl ApptainerArgs {
    /// Returns the plan for a command in an image.
    ///
    /// # Errors
    ///
    /// Options that are malformed, or that Cabane does not have.
    pub(crate) fn plan(&self, setup: &Setup, image: &str) -> Result<LaunchPlan> {
        if let Some(refused) = &self.refused.0 {
            let message = format!("Cabane has no option `--{}`", refused.name);
            return Err(Report::new(Kind::Usage, message).hinted(refused.hint.to_owned()));
        }
        Ok(LaunchPlan {
            images: ImageRequest { images: Some(image.to_owned()), ..ImageRequest::default() },
            root: self.options(setup)?,
            is_dry_run: self.dry_run,
            shows_conflicts: true,
            ..LaunchPlan::default()
        })
    }

    fn options(&self, setup: &Setup) -> Result<RootOptions> {
        let mut inside = self.inside.0.clone();
        inside.variables = inside.variables.iter().flat_map(|text| assignments(text)).collect();
        inside.cleanenv |= self.containall || self.compat;
        inside.contain |= self.containall || self.compat;
        let mut options = RootOptions {
            binds: binds_of_variables(setup),
            no_home: self.no_home,
            ..RootOptions::default()
        };
        options.binds.extend(self.bind.iter().flat_map(|text| listed(text)));
        note_ignored(setup);
        for (name, value) in variables_of_variables(setup) {
            let setting = options.variables.0.entry(PATH.to_owned());
            match name.as_str() {
                "PREPEND_PATH" => setting.or_default().prepend = vec![value],
                "APPEND_PATH" => setting.or_default().append = vec![value],
                _ => {
                    options.variables.0.entry(name).or_default().set = Some(value);
                }
            }
        }
        inside.add_to(&mut options)?;
        options.writable = match &self.overlay {
            Some(overlay) => Some(Some(directory_of(overlay)?)),
            None => (self.writable_tmpfs || self.fakeroot || self.compat).then_some(None),
        };
        if let Some(home) = &self.home {
            add_home(&mut options, home)?;
        }
        if let Some(directory) = &self.workdir {
            add_work_directory(setup, &mut options, directory)?;
        }
        if options.contained && options.working_directory.is_none() && !options.no_home {
            let home = setup.calling.get(OsStr::new(env_vars::HOME));
            options.working_directory = home.map(PathBuf::from);
        }
        Ok(options)
    }
}

/// Cuts a list at its commas.
fn listed(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(',').filter(|one| !one.is_empty()).map(str::to_owned)
}

/// Cuts `A=1,B=2` before each name of a variable; other commas belong to values.
fn assignments(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let begins = piece.split_once('=').is_some_and(|(name, _)| is_variable_name(name));
        match all.last_mut() {
            Some(last) if !begins => {
                last.push(',');
                last.push_str(piece);
            }
            _ => all.push(piece.to_owned()),
        }
    }
    all
}

/// Returns what the variables of Apptainer and Singularity show inside.
fn binds_of_variables(setup: &Setup) -> Vec<String> {
    let names = [
        env_vars::SINGULARITY_BINDPATH,
        env_vars::SINGULARITY_BIND,
        env_vars::APPTAINER_BINDPATH,
        env_vars::APPTAINER_BIND,
    ];
    let values = names.iter().filter_map(|name| setup.calling.get(OsStr::new(name))?.to_str());
    values.flat_map(listed).collect()
}

const PATH: &str = "PATH";
/// What a variable of Apptainer is called that stands for an option, after `APPTAINER_`.
const OPTIONS_OF_VARIABLES: [&str; 14] = [
    "CLEANENV",
    "COMPAT",
    "CONTAIN",
    "CONTAINALL",
    "ENV",
    "ENV_FILE",
    "FAKEROOT",
    "HOME",
    "NO_HOME",
    "NV",
    "OVERLAY",
    "PWD",
    "ROCM",
    "WRITABLE_TMPFS",
];

/// Warns of variables that stand for options of Apptainer: here only options count, so that a line does
/// the same everywhere.
fn note_ignored(setup: &Setup) {
    let prefixes = ["APPTAINER_", "SINGULARITY_"];
    let set = setup.calling.keys().filter_map(|name| name.to_str());
    let ignored: Vec<String> = set
        .filter(|name| {
            let option = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
            option.is_some_and(|option| OPTIONS_OF_VARIABLES.contains(&option))
        })
        .map(|name| format!("`{name}`"))
        .collect();
    if !ignored.is_empty() {
        let names = ignored.join(", ");
        setup.warning(format_args!("{names} has no effect here: use the option instead"));
    }
}

/// Returns the variables that `APPTAINERENV_NAME` and `SINGULARITYENV_NAME` set inside.
fn variables_of_variables(setup: &Setup) -> Vec<(String, String)> {
    let prefixes = [env_vars::SINGULARITYENV_, env_vars::APPTAINERENV_];
    let of_prefix = |prefix: &'static str| {
        setup.calling.iter().filter_map(move |(name, value)| {
            let name = name.to_str()?.strip_prefix(prefix)?;
            is_variable_name(name).then(|| Some((name.to_owned(), value.to_str()?.to_owned())))?
        })
    };
    prefixes.into_iter().flat_map(of_prefix).collect()
}

/// Returns the directory of an overlay.
fn directory_of(overlay: &str) -> Result<PathBuf> {
    let path = Path::new(overlay.strip_suffix(":rw").unwrap_or(overlay));
    if overlay.ends_with(":ro") || path.is_file() {
        let message = format!("`{}` cannot be an overlay", escape(overlay));
        let hint = "name a directory for the changes: `--overlay DIRECTORY`";
        return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
    }
    Ok(path.to_owned())
}

/// Shows a directory as the home directory.
fn add_home(options: &mut RootOptions, home: &str) -> Result<()> {
    let (source, target) = home.split_once(':').map_or((home, None), |(one, two)| (one, Some(two)));
    let source = std::path::absolute(source).or_failed(|| format!("find {source}"))?;
    let target = target.map_or_else(|| source.display().to_string(), str::to_owned);
    options.no_home = true;
    options.binds.push(format!("{}:{target}", source.display()));
    options.variables.0.insert(env_vars::HOME.to_owned(), VariableSetting::to(&target));
    if options.contained && options.working_directory.is_none() {
        options.working_directory = Some(target.into());
    }
    Ok(())
}

/// Makes the directories that are seen as temporary ones, and as the home directory unless that is
/// hidden or another one.
fn add_work_directory(setup: &Setup, options: &mut RootOptions, directory: &Path) -> Result<()> {
    if !options.contained {
        let message = "`--workdir` needs `--contain`";
        let hint = "type `--contain --workdir DIRECTORY`; to choose where the command starts, use \
                    `--pwd DIRECTORY`";
        return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
    }
    let home = setup.calling.get(OsStr::new(env_vars::HOME)).and_then(|home| home.to_str());
    let home = home.filter(|home| !options.no_home && home.starts_with('/') && *home != "/");
    let home = home.map(|home| ("home", home));
    for (name, target) in [("tmp", "/tmp"), ("var_tmp", "/var/tmp")].into_iter().chain(home) {
        let source = directory.join(name);
        fs::create_dir_all(&source).or_failed(|| format!("make {}", source.display()))?;
        options.binds.push(format!("{}:{target}", source.display()));
    }
    Ok(())
}

/// The options inside, with the letters that Apptainer has for them.
#[derive(Debug)]
struct WithLetters(InsideOptions);

impl Args for WithLetters {
    fn augment_args(command: Command) -> Command {
        let command = InsideOptions::augment_args(command);
        command
            .mut_arg("cleanenv", |option| option.short('e'))
            .mut_arg("contain", |option| option.short('c'))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WithLetters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        InsideOptions::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// An option of Apptainer that means nothing here, and what to do.
#[derive(Debug)]
struct Foreign {
    name: &'static str,
    letter: Option<char>,
    has_value: bool,
    /// Empty if Cabane always works this way: the option is accepted.
    hint: &'static str,
}

const SHARED: &str = "leave it out: a command has the processes, the memory, and the network of the \
                      machine, as MPI and Slurm need it";
const RIGHTS: &str = "leave it out: a command has the rights of its user, and never more";
const LIMITS: &str = "leave it out: Slurm limits what jobs use";
const LOGIN: &str = "use `podman login HOST`: Cabane reads its credentials";
const SECRET: &str = "decrypt it first: `apptainer build --sandbox DIRECTORY FILE.sif`, then \
                      `cabane import dir:DIRECTORY NAME/VERSION`";

macro_rules! foreign {
    ($($name:literal $($letter:literal)? $(= $value:ident)?: $hint:expr;)+) => {
        &[$(Foreign {
            name: $name,
            letter: foreign!(@letter $($letter)?),
            has_value: foreign!(@value $($value)?),
            hint: $hint,
        }),+]
    };
    (@letter) => { None };
    (@letter $letter:literal) => { Some($letter) };
    (@value) => { false };
    (@value $value:ident) => { true };
}

const FOREIGN: &[Foreign] = foreign! {
    "add-caps" = value: RIGHTS;
    "allow-setuid": RIGHTS;
    "app" = value: "run its program: `cabane exec IMAGE /scif/apps/NAME/scif/runscript`";
    "apply-cgroups" = value: LIMITS;
    "cpus" = value: LIMITS;
    "disable-cache": "";
    "dns" = value: SHARED;
    "docker-login": LOGIN;
    "drop-caps" = value: RIGHTS;
    "fusemount" = value: "mount it first, and show it: `--bind DIRECTORY`";
    "hostname" = value: SHARED;
    "ipc" 'i': SHARED;
    "keep-privs": RIGHTS;
    "memory" = value: LIMITS;
    "mount" = value: "use `--bind SOURCE:TARGET`, or `--bind SOURCE:TARGET:ro`";
    "net" 'n': SHARED;
    "network" = value: SHARED;
    "no-eval": "";
    "no-https": "put `http://` in front of the registry: `http://HOST/NAME:TAG`";
    "no-init": "";
    "no-mount" = value: "use `--no-home` or `--contain`";
    "no-privs": "";
    "nohttps": "put `http://` in front of the registry: `http://HOST/NAME:TAG`";
    "nvccli": "use `--nv`";
    "passphrase": SECRET;
    "pem-path" = value: SECRET;
    "pid" 'p': SHARED;
    "scratch" 'S' = value: "use `--bind DIRECTORY:TARGET` with one of your own directories";
    "security" = value: RIGHTS;
    "sharens": "leave it out: ranks of one launcher already share their environment";
    "underlay": "";
    "unsquash": "";
    "userns" 'u': "";
    "uts": SHARED;
    "writable" 'w': "images are read-only: use `--writable-tmpfs`, or `--overlay DIRECTORY` to keep \
                     the changes";
};

/// The first option that was typed and means nothing here.
#[derive(Debug)]
struct Refused(Option<&'static Foreign>);

impl Args for Refused {
    fn augment_args(command: Command) -> Command {
        let option = |foreign: &Foreign| {
            let action = if foreign.has_value { ArgAction::Append } else { ArgAction::Count };
            let option = Arg::new(foreign.name).long(foreign.name).action(action).hide(true);
            match foreign.letter {
                Some(letter) => option.short(letter),
                None => option,
            }
        };
        command.args(FOREIGN.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Refused {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_typed = |foreign: &&Foreign| {
            !foreign.hint.is_empty()
                && if foreign.has_value {
                    matches.contains_id(foreign.name)
                } else {
                    matches.get_count(foreign.name) > 0
                }
        };
        Ok(Self(FOREIGN.iter().find(is_typed)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_variables_is_cut_before_names() {
        let seen = ["A=1,B=x=2", "A=1,2,3,B=", "A"].map(assignments);
        let expected: [&[&str]; 3] = [&["A=1", "B=x=2"], &["A=1,2,3", "B="], &["A"]];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_means_nothing_is_sorted_and_known_once() {
        assert!(FOREIGN.is_sorted_by_key(|foreign| foreign.name));
    }
}
