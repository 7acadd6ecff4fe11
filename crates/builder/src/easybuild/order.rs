// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The step `concretize`: which packages are built, in which order, with what they need.

use serde::{Deserialize, Serialize};

use cabane_label::{enumerate, escape};
use cabane_recipe::nearest;
use cabane_report::{Kind, Report};

use super::{EasyBuildEngine, install, session};
use crate::build_context::{BuildContext, Listener};
use crate::layout::Layout;
use crate::modules::ModuleViews;
use crate::sandbox::Invocation;
use crate::{Failure, Progress, Result, disk};

const RESULT: &str = "packages-of-easybuild.json";
/// The most that is read of the result, in bytes.
const MOST: u64 = 16 << 20;

/// A package that is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Planned {
    /// The name of its easyconfig: `zlib-1.3.1.eb`.
    pub(super) easyconfig: String,
    /// The name of its module: `zlib/1.3.1`.
    pub(super) module: String,
}

/// The command that decides.
pub(super) fn invocation(engine: &EasyBuildEngine) -> Invocation {
    session::eb(engine, &["--dry-run-short"])
}

/// Finds out what is built, and whether the views can have their modules.
pub(super) fn execute(engine: &EasyBuildEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    install::begin(engine)?;
    let mut sandbox = session::sandbox(engine);
    sandbox.without_network();
    let mut list = List::default();
    bench.run_heard(&sandbox, &invocation(engine), &mut list)?;
    if list.planned.is_empty() {
        let message = "cannot read from EasyBuild which packages it builds";
        let hint = format!("the whole log is in {}", cabane_label::shown(&bench.log()));
        return Err(Report::new(Kind::Build, message).hinted(hint).into());
    }
    check_views(engine, &list.planned)?;
    disk::write_json(&engine.layout.work().join(RESULT), &list.planned)
}

/// Returns what is built, if that is known.
pub(super) fn read(layout: &Layout) -> Option<Vec<Planned>> {
    disk::read_json(&layout.work().join(RESULT), MOST)
}

/// Fails if a view loads a module that is not built.
fn check_views(engine: &EasyBuildEngine, planned: &[Planned]) -> Result<()> {
    let modules: Vec<&str> = planned.iter().map(|one| one.module.as_str()).collect();
    let is_built = |wanted: &str| {
        let of_name = |module: &&str| {
            module.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        modules.iter().any(of_name)
    };
    for (view, load) in engine.modules.iter().flat_map(ModuleViews::loaded) {
        let Some(missing) = load.iter().find(|module| !is_built(module)) else { continue };
        let message =
            format!("the view `{view}` loads `{}`, but no such module is built", escape(missing));
        return Err(Report::new(Kind::Build, message).hinted(offer(missing, &modules)).into());
    }
    Ok(())
}

/// Offers modules in the place of one that is not built.
pub(super) fn offer(missing: &str, modules: &[&str]) -> String {
    match nearest(missing, modules) {
        Some(meant) => format!("did you mean `{}`?", escape(meant)),
        None => format!("the modules that are built are {}", enumerate(modules, "and")),
    }
}

/// Reads the list that EasyBuild prints.
#[derive(Debug, Default)]
struct List {
    planned: Vec<Planned>,
    errors: Vec<String>,
}

impl Listener for List {
    fn line(&mut self, line: &str, _: &mut dyn Progress) -> bool {
        if let Some(error) = line.strip_prefix("ERROR: ") {
            self.errors.push(error.to_owned());
        }
        let planned = planned(line);
        let is_one = planned.is_some();
        self.planned.extend(planned);
        is_one
    }

    fn blame(&mut self, failure: &mut Failure) {
        if !self.errors.is_empty() {
            failure.tail = std::mem::take(&mut self.errors);
        }
    }
}

/// Reads ` * [ ] $CFGS/z/zlib/zlib-1.3.1.eb (module: zlib/1.3.1)`.
fn planned(line: &str) -> Option<Planned> {
    let (_, rest) = line.strip_prefix(" * [")?.split_once("] ")?;
    let (path, module) = rest.split_once(" (module: ")?;
    let easyconfig = path.rsplit('/').next()?.to_owned();
    // In a hierarchy, the path of the module is before it.
    let module = module.strip_suffix(')')?;
    let module = module.rsplit(" | ").next()?.to_owned();
    Some(Planned { easyconfig, module })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_names_an_easyconfig_and_a_module() {
        let lines = [
            " * [ ] $CFGS/z/zlib/zlib-1.3.1.eb (module: zlib/1.3.1)",
            " * [x] /a/GCC-13.2.0.eb (module: Core | GCC/13.2.0)",
            "CFGS=/cabane/recipe",
        ];
        let pair = |easyconfig: &str, module: &str| {
            Some(Planned { easyconfig: easyconfig.to_owned(), module: module.to_owned() })
        };
        let expected =
            [pair("zlib-1.3.1.eb", "zlib/1.3.1"), pair("GCC-13.2.0.eb", "GCC/13.2.0"), None];
        assert_eq!(lines.map(planned), expected);
    }
}
