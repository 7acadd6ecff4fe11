// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `python`: an environment from requirements or a project, through
//! `uv`.
//!
//! Packages are installed at the mount point, so that every path in the image is
//! right; only what the lock file names with its hash is installed.

mod inside;
mod install;
mod interpreter;
mod lock;
mod relock;
mod requirements;
mod tool_environment;
mod uv;
mod watch;
pub(crate) mod written_lock;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_recipe::{PythonConfig, Recipe};
use cabane_view::{Change, InterpreterNeed, Needs};

use crate::build_context::BuildContext;
use crate::engine::{Engine, Facts, RecipeDir, StepDraft};
use crate::fingerprint::{Inputs, digest_of, texts_of};
use crate::layout::{Inside, Layout};
use crate::lock_packages::{LockWish, Locked};
use crate::metadata::directories_patch;
use crate::pack::Tree;
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildRequest, Result, StepName};

pub(crate) use interpreter::{Interpreter, find as find_interpreter};
pub(crate) use requirements::Requirements;
pub(crate) use tool_environment::ToolEnvironment;
pub(crate) use uv::{TOOLS, Uv};

/// The environment in the store.
const ENVIRONMENT: &str = "env/default";

/// A Python environment that becomes an image.
#[derive(Debug)]
pub(crate) struct PythonEngine {
    request: BuildRequest,
    layout: Layout,
    recipe_dir: RecipeDir,
    name: String,
    /// Where the environment will be in the image.
    environment: PathBuf,
    store: PathBuf,
    store_here: PathBuf,
    source: lock::Source,
    lock_inputs: Inputs,
    bytecode: bool,
    uv: Uv,
    interpreter: Interpreter,
}

/// Where programs are in the sandbox.
#[derive(Clone, Debug)]
struct Tools {
    uv: PathBuf,
    interpreter: PathBuf,
}

impl Tools {
    fn uv(&self, directory: &str) -> Invocation {
        Invocation::new(&self.uv, directory)
    }
}

impl PythonEngine {
    pub(crate) fn prepare(
        request: &BuildRequest,
        recipe: &Recipe,
        config: &PythonConfig,
        directory: &RecipeDir,
        layout: &Layout,
    ) -> Result<Self> {
        let source = lock::Source::find(directory, config)?;
        let uv = Uv::find(request)?;
        let interpreter = interpreter::find(request, &config.interpreter)?;
        let store = recipe.store.as_path().to_owned();
        let mut engine = Self {
            request: request.clone(),
            recipe_dir: directory.clone(),
            name: recipe.name.to_string(),
            environment: store.join(ENVIRONMENT),
            store,
            store_here: layout.store(),
            layout: layout.clone(),
            lock_inputs: source.inputs()?,
            source,
            bytecode: config.bytecode,
            uv,
            interpreter,
        };
        let tools = engine.tool_inputs();
        engine.lock_inputs.extend(tools);
        Ok(engine)
    }

    fn tool_inputs(&self) -> Inputs {
        let interpreter =
            format!("{} {}", self.interpreter.path.display(), self.interpreter.version);
        let mut inputs = Inputs::from([
            ("uv".to_owned(), self.uv.version.clone()),
            ("interpreter".to_owned(), interpreter),
        ]);
        let settings = self.index_settings();
        inputs.extend(settings.map(|digest| ("package index".to_owned(), digest)));
        inputs
    }

    /// Where packages come from, as a digest: addresses may hold passwords.
    fn index_settings(&self) -> Option<String> {
        let mut settings = self.request.passed_variables.clone();
        settings.retain(|name, _| decides_about_packages(name));
        (!settings.is_empty()).then(|| digest_of(texts_of(&settings)).to_string())
    }

    /// Makes the sandbox in which `uv` works.
    fn sandbox(&self, request: &BuildRequest) -> (Sandbox, Tools) {
        let mut sandbox = Sandbox::new(request, &self.layout);
        let uv = self.uv.show(&mut sandbox);
        sandbox.keep(&self.interpreter.prefix);
        if !self.interpreter.path.starts_with(&self.interpreter.prefix) {
            sandbox.keep(&self.interpreter.path);
        }
        sandbox.bind(&self.recipe_dir.path, Inside::RECIPE, true);
        sandbox.bind(self.layout.work(), Inside::WORK, false);
        sandbox.bind(&request.cache_dir, Inside::CACHE, false);
        let jobs = request.jobs.to_string();
        let settings = [
            ("UV_CACHE_DIR", Inside::UV_CACHE),
            ("UV_LINK_MODE", "copy"),
            ("UV_NO_CONFIG", "1"),
            ("UV_NO_PROGRESS", "1"),
            ("UV_PYTHON_DOWNLOADS", "never"),
            ("UV_SYSTEM_CERTS", "1"),
            ("UV_CONCURRENT_BUILDS", &jobs),
            ("CMAKE_BUILD_PARALLEL_LEVEL", &jobs),
        ];
        for (variable, value) in settings {
            sandbox.set(variable, value);
        }
        let tools = Tools { uv, interpreter: self.interpreter.path.clone() };
        (sandbox, tools)
    }

    fn environment_here(&self) -> PathBuf {
        self.store_here.join(ENVIRONMENT)
    }
}

/// Whether a variable decides which packages are found.
fn decides_about_packages(variable: &str) -> bool {
    const PARTS: [&str; 6] =
        ["INDEX", "FIND_LINKS", "PRERELEASE", "RESOLUTION", "EXCLUDE_NEWER", "CONSTRAINT"];
    variable.starts_with("UV_") && PARTS.iter().any(|part| variable.contains(part))
}

impl Engine for PythonEngine {
    fn name(&self) -> &'static str {
        "python"
    }

    fn steps(&self) -> Result<Vec<StepDraft>> {
        let (_, tools) = self.sandbox(&self.request);
        let lock: Vec<_> = self.source.invocation(&tools).into_iter().collect();
        let bytecode = Inputs::from([("bytecode".to_owned(), self.bytecode.to_string())]);
        let mut steps = vec![
            StepDraft::new(StepName::Lock, self.source.what())
                .running(&lock)
                .from(self.lock_inputs.clone()),
            StepDraft::new(StepName::Install, "install the packages at the mount point")
                .running(&install::invocations(self, &tools))
                .from(bytecode),
        ];
        if self.bytecode {
            let compiler = digest_of([install::COMPILE]).to_string();
            steps.push(
                StepDraft::new(StepName::Bytecode, "compile the Python modules")
                    .running(&[install::compiler(self)])
                    .from(Inputs::from([("compiler".to_owned(), compiler)])),
            );
        }
        Ok(steps)
    }

    fn execute(&self, step: StepName, bench: &mut BuildContext<'_>) -> Result<()> {
        match step {
            StepName::Lock => lock::execute(self, bench),
            StepName::Install => install::execute(self, bench),
            StepName::Bytecode => install::compile(self, bench),
            _ => Ok(()),
        }
    }

    fn check_lock(&self) -> Result<()> {
        lock::check(self)
    }

    fn lock(&self, bench: &mut BuildContext<'_>, wish: &LockWish) -> Result<Locked> {
        relock::lock(self, bench, wish)
    }

    fn has_result(&self, step: StepName) -> bool {
        let result = match step {
            StepName::Lock => lock::path(&self.layout),
            _ => self.environment_here().join("pyvenv.cfg"),
        };
        result.exists()
    }

    fn tree(&self) -> Tree<'_> {
        Tree { path: &self.store_here, ours: true }
    }

    fn facts(&self) -> Result<Facts> {
        let root = self.environment.to_string_lossy().into_owned();
        let mut patch = directories_patch(&self.environment_here(), &root);
        patch.push("VIRTUAL_ENV", Change::Set(root.clone()));
        // It would make the interpreter look for its library elsewhere.
        patch.push("PYTHONHOME", Change::Unset);
        let interpreter = InterpreterNeed {
            path: self.interpreter.path.clone(),
            version: self.interpreter.version.clone(),
        };
        Ok(Facts {
            activate: Some(format!("{root}/bin/activate")),
            view_root: root,
            patch,
            needs: Needs { interpreter: Some(interpreter), ..Needs::default() },
            parts: inside::parts(&self.environment_here()),
            files: vec![(lock::LOCK.to_owned(), lock::path(&self.layout))],
            ..Facts::default()
        })
    }

    fn tools(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("uv".to_owned(), self.uv.version.clone())])
    }

    fn outside_recipe(&self) -> Vec<PathBuf> {
        self.source.project().map(Path::to_owned).into_iter().collect()
    }

    fn named_files(&self) -> Vec<PathBuf> {
        self.source.files().cloned().collect()
    }

    fn needs_visible(&self) -> Vec<PathBuf> {
        let interpreter = [self.interpreter.path.clone(), self.interpreter.prefix.clone()];
        interpreter.into_iter().chain(self.uv.needs_visible()).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let home = self.request.effective_home();
        let is_private = home.is_some_and(|home| self.interpreter.path.starts_with(home));
        let warning = || {
            format!(
                "the image needs {}, which other users may not have",
                shown(&self.interpreter.path)
            )
        };
        is_private.then(warning).into_iter().collect()
    }
}
