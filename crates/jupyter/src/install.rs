// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installs a kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cabane_environment::{ImageRequest, RootOptions, find_environment};
use cabane_label::{escape, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::ConcreteEnvironment;
use cabane_site::{Context, env_vars};
use serde_json::Map;

use crate::directory::{KernelDirectory, Kernels};
use crate::language::{self, Environment};
use crate::place::{self, Place};
use crate::spec::{CONNECTION_FILE, KernelSpec, Record, RecordedImage, is_plain};
use crate::words;

/// How many digits of an ID are in the name that people see.
const SHORT: usize = 8;
const HINT_ABOUT_NAME: &str = "choose another name with `--name`";

/// Which kernel to install, and where.
#[derive(Clone, Debug)]
pub struct InstallRequest {
    /// The images and views, as they were typed.
    pub images: ImageRequest,
    /// What else is seen inside.
    pub root: RootOptions,
    /// The MPI that replaces that of the kernel.
    pub mpi: Option<String>,
    /// The file that needs MPI, if it is not the kernel.
    pub mpi_program: Option<PathBuf>,
    /// Whether images are named by their digests.
    pub is_pinned: bool,
    /// The name of the kernel. Default: after the first image, or the environment file.
    pub name: Option<String>,
    /// The name that people see. Default: the label and the language.
    pub display_name: Option<String>,
    /// The language. Default: the first whose kernel is found, or after the command.
    pub language: Option<String>,
    /// The command of the kernel. Empty: it is found.
    pub command: Vec<String>,
    /// Where it is installed.
    pub place: Place,
    /// Whether nothing is written.
    pub is_dry_run: bool,
}

/// A kernel that was installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// What was written.
    pub spec: KernelSpec,
    /// Its images.
    pub images: Vec<RecordedImage>,
    /// Whether another kernel of Cabane had the name.
    pub was_replaced: bool,
}

/// Finds the images and the kernel in them, and writes its directory.
///
/// # Errors
///
/// There is no such image, no kernel in it, another kernel has the name, or the file cannot be written.
pub fn install(context: &Context, typed: &InstallRequest) -> Result<Installed> {
    let (environment, _) = find_environment(context, &typed.images)?;
    let request = words::settled(context, typed)?;
    let name = name_of(typed, &environment)?;
    let kernels = typed.place.kernels(context)?;
    let directory = kernels.join(&name);
    refuse_others(&kernels, &name)?;
    let run = run_words(context, &request, typed, environment.root().is_some())?;
    let mut spec = kernel(context, typed, &environment, &run)?;
    spec.argv = run.into_iter().chain(["--".to_owned()]).chain(spec.argv).collect();
    spec.display_name = match &typed.display_name {
        Some(name) => name.clone(),
        None => display_name(&name, &environment, &spec.language, typed.is_pinned),
    };
    check_text("the language", &spec.language)?;
    check_text("the display name", &spec.display_name)?;
    spec.interrupt_mode.get_or_insert_with(|| "signal".to_owned());
    let options = context.typed_options().iter().map(text).collect::<Result<_>>()?;
    let record = Record::new(request, options, &environment);
    spec.mark(&record)?;
    let mut installed =
        Installed { name, directory, spec, images: record.images, was_replaced: false };
    if !typed.is_dry_run {
        installed.was_replaced = write(&kernels, &installed)?;
    }
    Ok(installed)
}

/// Returns the kernel without `cabane run`: as it was typed, or as its interpreter describes it.
fn kernel(
    context: &Context,
    typed: &InstallRequest,
    images: &ConcreteEnvironment,
    run: &[String],
) -> Result<KernelSpec> {
    let inside = Environment { run: run.iter().map(OsString::from).collect(), images };
    if let Some(program) = typed.command.first() {
        if !typed.command.iter().any(|word| word.contains(CONNECTION_FILE)) {
            let message = format!("the command has no `{CONNECTION_FILE}`");
            let hint = format!(
                "write it where the kernel wants that file, as in `-- julia -i -e 'import IJulia; IJulia.run_kernel()' {CONNECTION_FILE}`"
            );
            return Err(Report::new(Kind::Usage, message).hinted(hint));
        }
        inside.check_command(program)?;
        let after_program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        return Ok(KernelSpec {
            argv: typed.command.clone(),
            display_name: String::new(),
            language: typed.language.clone().unwrap_or_else(|| after_program.into_owned()),
            interrupt_mode: None,
            metadata: Map::new(),
        });
    }
    let found = language::find(&inside, typed.language.as_deref())?;
    if let Some(package) = &found.package_elsewhere {
        context.warning(format_args!("the kernel is not in the images: {}", escape(package)));
        context.hint("other users and other machines may have another one, or none");
    }
    Ok(found.spec)
}

/// Returns the words before `--`: this program, its options, and the images.
fn run_words(
    context: &Context,
    request: &ImageRequest,
    typed: &InstallRequest,
    is_container: bool,
) -> Result<Vec<String>> {
    let mut run = vec![words::text_of(&own_program(context)?)?];
    for option in context.typed_options() {
        run.push(text(&option)?);
    }
    run.push("run".to_owned());
    run.extend(words::options(context, request, typed)?);
    if is_container && let Some(directory) = hidden_runtime_directory(context, typed.root.no_home) {
        run.push(format!("--bind={}", words::text_of(&directory)?));
    }
    run.extend(request.images.clone());
    Ok(run)
}

/// Returns the directory of connection files if a container does not show it.
fn hidden_runtime_directory(context: &Context, no_home: bool) -> Option<PathBuf> {
    let directory = place::runtime_directory(context)?;
    let home = place::home(context).filter(|_| !no_home);
    let is_shown =
        home.is_some_and(|home| directory.starts_with(home)) || directory.starts_with("/tmp");
    (!is_shown).then_some(directory)
}

/// Returns the name by which this program is found in `PATH`, if there is one: it stays when a new
/// version is installed in a directory of its own.
fn own_program(context: &Context) -> Result<PathBuf> {
    let program: PathBuf = context.own_program()?.swap_remove(0).into();
    let path = context.calling.get(std::ffi::OsStr::new(env_vars::PATH));
    let directories = path.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    let real = program.canonicalize().ok();
    let named = directories.map(|directory| directory.join("cabane"));
    let is_this = |named: &PathBuf| real.is_some() && named.canonicalize().ok() == real;
    Ok(named.into_iter().find(is_this).unwrap_or(program))
}

fn text(word: &OsString) -> Result<String> {
    words::text_of(Path::new(word))
}

/// Returns the name of the kernel, which Jupyter allows only certain characters.
fn name_of(typed: &InstallRequest, environment: &ConcreteEnvironment) -> Result<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if let Some(name) = &typed.name {
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_allowed) {
            let message = format!("`{}` cannot be the name of a kernel", escape(name));
            let hint = "use letters, digits, `-`, `_`, and `.`; `--display-name` takes any text";
            return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
        }
        return Ok(name.to_lowercase());
    }
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let first = environment.images.first();
    let name = match (&typed.images.environment, first.map(|image| (&image.label, &image.path))) {
        (Some(file), _) => stem(Path::new(file)),
        (None, Some((Some(label), _))) => format!("{}-{}", label.name, label.version),
        (None, Some((None, path))) => stem(path),
        (None, None) => String::new(),
    };
    let allowed = |c: char| if is_allowed(c) { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(allowed).collect();
    let name = name.trim_start_matches('.');
    Ok(if name.is_empty() { "cabane".to_owned() } else { name.to_owned() })
}

/// Returns the name that people see, such as `analysis/2026.2:v1 (Python)`; of a pinned image with the
/// beginning of its digest.
fn display_name(
    name: &str,
    environment: &ConcreteEnvironment,
    language: &str,
    is_pinned: bool,
) -> String {
    let first = environment.images.first();
    let image = match first.and_then(|image| image.label.as_ref()) {
        Some(label) => format!("{}/{}:{}", label.name, label.version, label.tag),
        None => name.to_owned(),
    };
    let mut letters = language.chars();
    let capital = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
    let language: String = capital.chain(letters).collect();
    match first.and_then(|image| image.digest.as_ref()).filter(|_| is_pinned) {
        Some(digest) => format!("{image} ({language}, {:.SHORT$})", digest.id().to_string()),
        None => format!("{image} ({language})"),
    }
}

/// Refuses a text with characters that a terminal could obey, or a reader could not see.
fn check_text(what: &str, text: &str) -> Result<()> {
    if is_plain(text) {
        return Ok(());
    }
    let message = format!("{what} cannot have control characters: `{}`", escape(text));
    Err(Report::new(Kind::Usage, message))
}

/// Refuses a name that is a link, or that belongs to a kernel of somebody else.
fn refuse_others(kernels: &Path, name: &str) -> Result<()> {
    let Ok(kernels) = Kernels::open(kernels) else { return Ok(()) };
    if kernels.is_link(name) {
        let message = format!("{} is a link", shown(&kernels.path().join(name)));
        return Err(Report::new(Kind::Failure, message).hinted(HINT_ABOUT_NAME.to_owned()));
    }
    kernels.kernel(name).map_or(Ok(()), |directory| refuse_other(&directory))
}

/// Refuses a directory that belongs to another user, or has a kernel of somebody else.
fn refuse_other(directory: &KernelDirectory<'_>) -> Result<()> {
    let path = shown(&directory.path());
    let message = if directory.has_file() && !directory.read().is_some_and(|spec| spec.is_marked())
    {
        format!("{path} has a kernel that Cabane did not install")
    } else if !directory.is_own() {
        format!("{path} belongs to another user")
    } else {
        return Ok(());
    };
    Err(Report::new(Kind::Failure, message).hinted(HINT_ABOUT_NAME.to_owned()))
}

/// Writes the directory. Returns whether there was a kernel. What is there may have come while the
/// interpreter was asked, so it is checked again.
fn write(kernels: &Path, installed: &Installed) -> Result<bool> {
    let failed = || format!("install the kernel in {}", shown(&installed.directory));
    let kernels = Kernels::make(kernels).or_failed(failed)?;
    let (directory, is_new) = kernels.make_kernel(&installed.name).or_failed(failed)?;
    refuse_other(&directory)?;
    let had_kernel = directory.has_file();
    let written = directory.write(&installed.spec).or_failed(failed);
    if written.is_err() && is_new {
        // Without the file it is no kernel.
        let _ = directory.remove_empty();
    }
    written.map(|()| had_kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_the_first_check_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (kernels, name) = (place.path().join("kernels"), "app".to_owned());
        let directory = kernels.join(&name);
        refuse_others(&kernels, &name).unwrap();
        std::fs::create_dir_all(&directory).unwrap();
        let theirs = r#"{"argv": ["python"]}"#;
        std::fs::write(directory.join("kernel.json"), theirs).unwrap();
        let spec = serde_json::from_str(theirs).unwrap();
        let installed =
            Installed { name, directory, spec, images: Vec::new(), was_replaced: false };
        let error = write(&kernels, &installed).unwrap_err();
        assert!(error.to_string().contains("Cabane did not install"), "{error}");
        let kept = std::fs::read_to_string(installed.directory.join("kernel.json")).unwrap();
        assert_eq!(kept, theirs);
    }
}
