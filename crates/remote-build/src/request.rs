// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is built, and the name of a build: the same request is the same build.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cabane_builder::{ImageFormat, Pins};
use cabane_image_build::BuildOptions;
use cabane_label::{ImageId, LabelPattern, SystemPattern, Tag, shown};
use cabane_process::Scratch;
use cabane_recipe::{EngineConfig, GitSource, InterpreterRequest, PythonSource};
use cabane_registry::sum;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::settings::Origin;
use cabane_site::{Context, env_vars, find_system};
use serde::{Deserialize, Serialize};

use crate::directory::{WorkDirectory, host};
use crate::parcel::Packer;
use crate::place::Place;

/// What is built, as it is typed.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// Where the build runs.
    pub place: Place,
    /// The directory of the recipe.
    pub recipe: PathBuf,
    /// The label; none if the image goes to a file.
    pub label: Option<String>,
    /// The file system of the image, instead of the default.
    pub format: Option<ImageFormat>,
    /// The system to build for: a name, or the directory of its configuration.
    pub system: Option<PathBuf>,
    /// Mirrors and caches, instead of those of the system.
    pub mirrors: Option<PathBuf>,
    /// The number of parallel processes, instead of the default.
    pub jobs: Option<usize>,
}

/// What is built, as it is carried. The number of processes is not in it: it changes nothing in the image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The label, with the system if its name is known.
    label: Option<String>,
    format: Option<String>,
    has_system: bool,
    has_mirrors: bool,
    /// What the recipe is known by: copies of the same recipe share a build directory.
    origin: String,
    epoch: Option<u32>,
    /// Builds of different versions differ.
    version: String,
}

/// A request that is ready to be carried.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The name of the build.
    pub(crate) id: ImageId,
    pub(crate) label: Option<LabelPattern>,
    pub(crate) length: u64,
    /// Whether the image depends on nothing but what is carried.
    pub(crate) is_whole: bool,
    path: PathBuf,
    _scratch: Scratch,
}

impl Packed {
    /// Opens what is carried.
    pub(crate) fn open(&self) -> Result<BufReader<File>> {
        let file = File::open(&self.path).or_failed(|| format!("read {}", shown(&self.path)))?;
        Ok(BufReader::new(file))
    }
}

impl BuildRequest {
    /// Packs the recipe and the configuration of the system. `output` is the absolute path of the file that
    /// gets the image, if it is not added to the repository.
    ///
    /// # Errors
    ///
    /// The recipe or the system is not found or cannot be read.
    pub(crate) fn pack(&self, context: &Context, output: Option<&Path>) -> Result<Packed> {
        // Mistakes are found before anything is carried.
        let recipe = cabane_builder::read_recipe(&self.recipe)?;
        self.check_inside(&recipe.engine)?;
        let is_named = matches!(context.settings.system.origin, Origin::Option(_));
        // A host has a system of its own, which is the default there.
        let system = match (&self.place, &self.system) {
            (Place::Host(_), None) if !is_named => None,
            (_, typed) => find_system(context, typed.as_deref())?,
        };
        let label = self.label.as_deref().map(str::parse::<LabelPattern>).transpose()?;
        let name = system.as_ref().and_then(|found| found.name.clone());
        let name = name.or_else(|| context.system().filter(|_| is_named));
        let tag = "v1".parse::<Tag>()?;
        // The other machine adds its system and its processor, and chooses nothing else.
        let label = label.map(|label| LabelPattern {
            tag: label.tag.clone().or(Some(tag)),
            system: label.system.clone().or(name.map(SystemPattern::Is)),
            ..label
        });
        if let Some(label) = &label
            && (label.name.is_none() || label.version.is_none() || label.namespace.is_some())
        {
            let message = format!("`{label}` does not name an image");
            return Err(Report::new(Kind::BadInput, message).hinted(
                "give at least `name/version`; `name/version:tag@system%uarch` is all".to_owned(),
            ));
        }
        let absolute =
            std::path::absolute(&self.recipe).or_failed(|| "find the recipe".to_owned())?;
        let (epoch, is_set) = context.epoch()?;
        let order = Order {
            label: label.as_ref().map(ToString::to_string),
            format: self.format.map(|format| format.name().to_owned()),
            has_system: system.is_some(),
            has_mirrors: self.mirrors.is_some(),
            origin: format!("{}:{}", host(), absolute.display()),
            epoch: is_set.then_some(epoch),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        // Not in /tmp, which may be small.
        let all = context.settings.cache_directory.directory()?.join("elsewhere");
        let scratch = std::fs::create_dir_all(&all).and_then(|()| Scratch::new_in(&all));
        let scratch = scratch.or_failed(|| format!("write in {}", shown(&all)))?;
        let path = scratch.path().join("parcel");
        let writing = || format!("write {}", shown(&path));
        let file = File::create_new(&path).or_failed(writing)?;
        let mut packer = Packer::new(BufWriter::new(file));
        packer.file(Path::new("request.json"), &serde_json::to_vec(&order).unwrap_or_default())?;
        packer.directory(&self.recipe, Path::new("recipe"))?;
        if let Some(system) = &system {
            packer.directory(&system.directory, Path::new("system"))?;
        }
        if let Some(mirrors) = &self.mirrors {
            let text = std::fs::read(mirrors).or_failed(|| format!("read {}", shown(mirrors)))?;
            packer.file(Path::new("mirrors.yaml"), &text)?;
        }
        let file = packer.end()?.into_inner().map_err(io::IntoInnerError::into_error);
        let length = file.and_then(|mut file| file.stream_position()).or_failed(writing)?;
        let id = self.id(&path, output)?;
        let is_whole = self.is_whole(&recipe.engine, system.is_some());
        Ok(Packed { id, label, length, is_whole, path, _scratch: scratch })
    }

    /// Fails if the recipe needs a directory outside of it, which is not copied.
    fn check_inside(&self, engine: &EngineConfig) -> Result<()> {
        let (what, directories) = match engine {
            EngineConfig::Tree(tree) => ("tree", std::slice::from_ref(&tree.source)),
            EngineConfig::EasyBuild(easybuild) => {
                ("directory of sources", easybuild.sources.as_slice())
            }
            _ => return Ok(()),
        };
        let Ok(root) = self.recipe.canonicalize() else { return Ok(()) };
        let is_outside = |directory: &&PathBuf| {
            let end = self.recipe.join(directory).canonicalize();
            !directory.is_absolute() && end.is_ok_and(|end| !end.starts_with(&root))
        };
        let Some(outside) = directories.iter().find(is_outside) else { return Ok(()) };
        let outside = shown(outside);
        let message =
            format!("the {what} {outside} is outside of the recipe, and only the recipe is copied");
        Err(Report::new(Kind::BadInput, message).hinted(format!(
            "copy the {what} into the recipe, or write its absolute path if the other machine has it"
        )))
    }

    /// Returns whether the image depends on nothing but what is carried. Otherwise the same request may
    /// build another image later: files outside of the recipe change, and branches and tags move.
    fn is_whole(&self, engine: &EngineConfig, has_system: bool) -> bool {
        let root = self.recipe.canonicalize();
        let is_inside = |path: &PathBuf| {
            let end = self.recipe.join(path).canonicalize();
            matches!((&root, end), (Ok(root), Ok(end)) if end.starts_with(root))
        };
        let is_commit = |source: &GitSource| {
            let commit = source.commit.as_deref().unwrap_or_default();
            matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_carried = match engine {
            // The configuration of a system changes nothing in it.
            EngineConfig::Tree(tree) => return is_inside(&tree.source),
            EngineConfig::Python(python) => {
                let (PythonSource::Requirements(source) | PythonSource::Project(source)) =
                    &python.source;
                is_inside(source)
                    && python.wheels.iter().all(is_inside)
                    && !matches!(python.interpreter, InterpreterRequest::Path(_))
            }
            EngineConfig::Spack(spack) => {
                is_commit(&spack.source)
                    && spack.package_repositories.iter().all(|found| is_commit(&found.source))
            }
            // Sources have checksums.
            EngineConfig::EasyBuild(_) => true,
            EngineConfig::Container(_) => false,
        };
        is_carried && (has_system || matches!(self.place, Place::Slurm(_)))
    }

    /// Names the build by what is built, where, and for which file: two files are two builds, so that each
    /// command gets its image.
    fn id(&self, parcel: &Path, output: Option<&Path>) -> Result<ImageId> {
        let sum = sum::file(parcel, &mut |_, _| ())?;
        let mut text = sum.as_str().as_bytes().to_vec();
        // Partitions may have different processors.
        let _ = write!(text, "\n{}\n", self.place);
        text.extend_from_slice(output.map_or(b"", |output| output.as_os_str().as_bytes()));
        Ok(sum::bytes(&text).id())
    }
}

impl Order {
    /// Returns the variables that the process of the build needs beside its own.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let epoch = self.epoch.iter();
        epoch.map(|epoch| (env_vars::SOURCE_DATE_EPOCH.to_owned(), epoch.to_string())).collect()
    }

    /// Returns the options of the build in its directory.
    pub(crate) fn options(&self, directory: &WorkDirectory, jobs: Option<usize>) -> BuildOptions {
        let of = |is_there: bool, name: &str| is_there.then(|| directory.file(name));
        let formats = [ImageFormat::Squashfs, ImageFormat::Erofs];
        BuildOptions {
            recipe: directory.file("recipe"),
            label: self.label.clone(),
            install: None,
            replace: false,
            format: formats
                .into_iter()
                .find(|format| Some(format.name()) == self.format.as_deref()),
            system: of(self.has_system, "system"),
            mirrors: of(self.has_mirrors, "mirrors.yaml"),
            build_dir: None,
            variant: None,
            origin: Some(self.origin.clone()),
            pins: Pins::default(),
            jobs,
            from: None,
            until: None,
            keep: false,
            debug_symbols: false,
            workers: Vec::new(),
        }
    }
}

/// Returns the words that run this program, with the options that were typed here.
pub(crate) fn own_words(context: &Context) -> Result<Vec<OsString>> {
    let mut words = context.own_program()?;
    // What it prints is read from a file.
    words.retain(|word| !word.to_string_lossy().starts_with("--color"));
    words.push("--color=never".into());
    words.extend(context.typed_options());
    Ok(words)
}

/// Returns the words that run the build in a directory, with the options that were typed here.
pub(crate) fn words_of_run(
    context: &Context,
    directory: &Path,
    jobs: Option<usize>,
) -> Result<Vec<OsString>> {
    let mut words = own_words(context)?;
    words.extend(
        [OsStr::new("build-worker"), OsStr::new("run"), directory.as_os_str()].map(OsString::from),
    );
    if let Some(jobs) = jobs {
        words.push(format!("--jobs={jobs}").into());
    }
    Ok(words)
}
