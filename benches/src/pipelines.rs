// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What pipelines, signed results and the gate of a channel cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cabane_evidence::SignedStatement;
use cabane_registry::PublicKey;
use cabane_testkit::RealRegistry;

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::depot::start_registry;
use crate::goal::Goal;
use crate::listing::{only_entry, pair};
use crate::measure::{Candidate, NotMeasured, Rounds, finish};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::{impact, slurm_arrays};

/// As many cells as the largest public collection of recipes has.
const COLLECTION: usize = 146;
/// So many of them are really built, published and released.
const BUILT: usize = 150;
const SYSTEM: &str = "here";
const PLANNED: f64 = 1_000.0;
const AGAIN: f64 = 2_000.0;
const OVERHEAD: f64 = 500.0;
const DRY_RUN: f64 = 2_000.0;
const ATTACHED: f64 = 50.0;
const VERIFIED: f64 = 1.0;
/// The most bytes of a statement about so many checks.
const STATEMENT: f64 = 16_384.0;
const CHECKS: usize = 50;

const CELLS: &str = "\
Recipes of the engine `tree`, each with a small program and a check. *Planned* is a pipeline \
of 146 cells, as many as the largest public collection has, of which nothing was built. \
150 cells were built, checked, signed, and published to Debian's docker-registry; *again* runs \
that pipeline once more, and *dry-run* asks the gate of the channel about all 150 images. \
*One cell* is built and checked by the pipeline, over `cabane build` and `cabane check` that \
are typed; repository and caches are empty before each. The complete commands, output \
discarded.";

const STATEMENTS: &str = "\
The statement about an image with 50 checks, each with a figure. *Attached* pushes it to an \
image in Debian's docker-registry, reads it back, and verifies it: two commands. *Verified \
offline* takes the time inside of a process, without its start: the signature of the statement \
and all it says.";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let cells = match Site::make(bed, "pipelines") {
        Ok(site) => of_cells(&site, options),
        Err(reason) => Section::not_measured("Pipelines", &reason),
    };
    let statements = match Site::make(bed, "statements") {
        Ok(site) => of_statements(&site, options),
        Err(reason) => Section::not_measured("Signed results", &reason),
    };
    let mut sections = vec![cells, statements, slurm_arrays::section(bed, options)];
    sections.extend(impact::sections(bed, options));
    sections
}

fn of_cells(site: &Site<'_>, options: &Options) -> Section {
    let mut section = Section::new("Pipelines", CELLS);
    let mut times =
        Table::new(&["command", "ms: min / median [quartiles]", "target", "reached", "runs"]);
    let rounds = options.run_rounds();
    let run = |name: &str, arguments: &[&str]| Candidate::new(name, site.cabane(arguments));
    let measured = site.pipeline("collection", COLLECTION / 2, &[SYSTEM, "there"]).map(|file| {
        let file = file.to_string_lossy().into_owned();
        let plan = ["pipeline", "plan", "--offline", "--only", "@*", "--file", &file];
        let check = ["pipeline", "check", "--file", &file];
        let plan = run("`pipeline plan`, 146 cells, nothing built", &plan);
        let check = run("`pipeline check` of the same", &check);
        let planned = pair(&mut times, plan, check, rounds, [Some(PLANNED), None]).0;
        let goal = Goal::at_most("`pipeline plan` of 146 cells", PLANNED, "ms");
        section.goals.push(goal.reached_by("", planned));
    });
    note(&mut section, measured);
    let measured = site.published().map(|(file, images)| {
        let again = ["pipeline", "run", "--file", &file, "--key", &site.key];
        let again = run("`pipeline run` again, 150 cells", &again);
        let mut dry = vec!["channel", "promote", "stable", "--dry-run", "--key", &site.key];
        dry.extend(images.iter().map(String::as_str));
        let dry = run("`channel promote --dry-run`, 150 images", &dry);
        let few = Rounds { warm_up: 1, pairs: rounds.pairs };
        let found = pair(&mut times, again, dry, few, [Some(AGAIN), Some(DRY_RUN)]);
        let goal = Goal::at_most("`pipeline run` over unchanged inputs", AGAIN, "ms");
        section.goals.push(goal.reached_by("150 cells", found.0));
        let goal = Goal::at_most("`promote --dry-run`", DRY_RUN, "ms");
        section.goals.push(goal.reached_by("150 images", found.1));
    });
    note(&mut section, measured);
    let mut differences = Comparisons::differences(rounds);
    let measured = site.one_cell(&mut differences).map(|overhead| {
        let goal = Goal::at_most("a cell of a pipeline, minus the commands", OVERHEAD, "ms");
        section.goals.push(goal.reached_by("", overhead));
    });
    note(&mut section, measured);
    section.tables = vec![times, differences.table()];
    section
}

fn of_statements(site: &Site<'_>, options: &Options) -> Section {
    let mut section = Section::new("Signed results", STATEMENTS);
    let measured = site.tested().and_then(|tested| {
        let mut table =
            Table::new(&["command", "ms: min / median [quartiles]", "target", "reached", "runs"]);
        let name = "`evidence attach`, and `evidence verify --remote`";
        let both = Candidate::new(name, tested.attach_and_verify(site));
        let both = both.tidied_by(tested.detach(site)?);
        let find =
            Candidate::new("`image find`, beside it", site.cabane(&["image", "find", IMAGE]));
        let found = pair(&mut table, both, find, options.long_rounds(), [Some(ATTACHED), None]);
        let goal = Goal::at_most("attached, read back, and verified", ATTACHED, "ms");
        section.goals.push(goal.reached_by("", found.0));
        let verified = tested.verified(site, options.transfers(200))?;
        let goal = Goal::at_most("verified offline", VERIFIED, "ms");
        section.goals.push(goal.reached_by("", Some(verified)));
        let bytes = u32::try_from(tested.bytes.len()).map_err(|error| error.to_string())?;
        let bytes = Summary::of(&[f64::from(bytes)]);
        let goal = Goal::at_most("a signed statement about 50 checks", STATEMENT, "bytes");
        section.goals.push(goal.reached_by("", bytes));
        section.remarks.push(format!(
            "Verified offline: {:.3} ms, quartiles {:.3} and {:.3}.",
            verified.median, verified.lower_quartile, verified.upper_quartile
        ));
        section.remarks.push(format!("The statement has {} bytes.", tested.bytes.len()));
        section.tables.push(table);
        Ok(())
    });
    note(&mut section, measured);
    section
}

fn note(section: &mut Section, measured: Result<(), NotMeasured>) {
    if let Err(reason) = measured {
        section.remarks.push(format!("Not measured: {reason}."));
    }
}

/// A registry, a key that tests and releases, and a place for recipes.
struct Site<'a> {
    bed: &'a Bed,
    directory: PathBuf,
    registry: RealRegistry,
    key: String,
}

impl<'a> Site<'a> {
    fn make(bed: &'a Bed, name: &str) -> Result<Self, NotMeasured> {
        let directory = bed.directory(name)?;
        let registry = start_registry(&directory.join("registry"))?;
        let key = directory.join("release").to_string_lossy().into_owned();
        let site = Self { bed, directory, registry, key };
        site.write(
            "site.toml",
            &format!(
                "[registry]\nurl = \"{}\"\n[evidence]\ntesters = [\"{1}.pub\"]\n[[channel]]\nname = \"stable\"\n\
                 keys = [\"{1}.pub\"]\ntested_within = \"1d\"\n",
                site.registry.url(),
                site.key
            ),
        )?;
        finish(&mut site.cabane(&["image", "key", "new", &site.key])?)?;
        site.forget().and_then(|mut forget| finish(&mut forget))?;
        Ok(site)
    }

    fn write(&self, path: &str, text: &str) -> Result<PathBuf, NotMeasured> {
        let path = self.directory.join(path);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(&path, text)
        };
        write().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }

    fn repository(&self) -> PathBuf {
        self.directory.join("repository")
    }

    fn cabane(&self, arguments: &[&str]) -> Result<Command, NotMeasured> {
        let mut command = self.at_this_site(self.bed.cabane(&self.repository())?);
        command.args(arguments);
        Ok(command)
    }

    /// Prepares a script; `$1` is the program `cabane`.
    fn script(&self, text: &str, arguments: &[&Path]) -> Result<Command, NotMeasured> {
        let cabane = self.bed.cabane.as_ref().map_err(Clone::clone)?;
        let mut command = self.at_this_site(self.bed.command("/bin/sh"));
        command.args(["-euc", text, "sh"]).arg(cabane).args(arguments);
        Ok(command)
    }

    fn at_this_site(&self, mut command: Command) -> Command {
        let configuration = self.directory.join("site.toml");
        command.env("CABANE_SITE_CONFIG", configuration).env("CABANE_SYSTEM", SYSTEM);
        command
    }

    /// Prepares the command after which nothing was built here.
    fn forget(&self) -> Result<Command, NotMeasured> {
        let text = r#"cd "$2"; rm -rf repository one/.cabane-pipeline "$HOME/.cache/cabane"
            "$1" repo create repository"#;
        self.script(text, &[&self.directory])
    }

    /// Writes a pipeline with so many versions of one environment on each system.
    fn pipeline(
        &self,
        name: &str,
        versions: usize,
        systems: &[&str],
    ) -> Result<PathBuf, NotMeasured> {
        let mut text = String::from("publish: deploy\nclusters:\n");
        for system in systems {
            text += &format!("  {system}: {{targets: [{{uarch: x86_64}}]}}\n");
        }
        let deploy: Vec<String> =
            systems.iter().map(|system| format!("{system}: [x86_64]")).collect();
        let deploy = deploy.join(", ");
        text += "uenvs:\n  app:\n";
        for version in 1..=versions {
            let line = format!("recipes: {{x86_64: \"{version}\"}}, deploy: {{{deploy}}}");
            text += &format!("    \"{version}\": {{{line}}}\n");
            let below = format!("{name}/recipes/app/{version}");
            self.write(&format!("{below}/config.yaml"), &recipe(1))?;
            self.write(&format!("{below}/tree/share/version"), &version.to_string())?;
            self.write(&format!("{below}/tree/bin/app"), "#!/bin/sh\necho bandwidth 42.5\n")?;
            let program = self.directory.join(&below).join("tree/bin/app");
            executable(&program)?;
        }
        self.write(&format!("{name}/pipeline.yaml"), &text)
    }

    /// Runs a pipeline, and returns its file and the labels of the images.
    fn published(&self) -> Result<(String, Vec<String>), NotMeasured> {
        let file = self.pipeline("built", BUILT, &[SYSTEM])?;
        let file = file.to_string_lossy().into_owned();
        let run = ["pipeline", "run", "--file", &file, "--key", &self.key, "--jobs", "2"];
        finish(&mut self.cabane(&run)?)?;
        let find = ["image", "find", "app", "--format", "{label}", "--no-header"];
        let found = finish(&mut self.cabane(&find)?)?;
        let labels: Vec<String> =
            String::from_utf8_lossy(&found).lines().map(str::to_owned).collect();
        match labels.len() {
            BUILT => Ok((file, labels)),
            count => Err(format!("{count} of {BUILT} images were published")),
        }
    }

    /// A cell, by the pipeline and by hand.
    fn one_cell(&self, table: &mut Comparisons) -> Result<Option<Summary>, NotMeasured> {
        let file = self.pipeline("one", 1, &[SYSTEM])?.to_string_lossy().into_owned();
        let run = self.cabane(&["pipeline", "run", "--offline", "--file", &file]);
        let (repository, recipe) = (self.repository(), self.directory.join("one/recipes/app/1"));
        let text = r#""$1" --repo "$2" build "$3" app/1; "$1" --repo "$2" check app/1"#;
        let typed = self.script(text, &[&repository, &recipe]);
        let run = Candidate::new("`pipeline run` of one cell", run).tidied_by(self.forget()?);
        let typed = Candidate::new("`cabane build`, `cabane check`", typed);
        Ok(table.compare(run, typed.tidied_by(self.forget()?), Some(OVERHEAD)))
    }

    /// Makes an image with many checks, and the signed results.
    fn tested(&self) -> Result<Tested, NotMeasured> {
        self.write("many/config.yaml", &recipe(CHECKS))?;
        self.write("many/tree/bin/app", "#!/bin/sh\necho bandwidth 42.5\n")?;
        executable(&self.directory.join("many/tree/bin/app"))?;
        let recipe = self.directory.join("many").to_string_lossy().into_owned();
        finish(&mut self.cabane(&["build", &recipe, IMAGE])?)?;
        finish(&mut self.cabane(&["image", "push", IMAGE])?)?;
        finish(&mut self.cabane(&["check", IMAGE, "--key", &self.key])?)?;
        let exported = self.directory.join("exported");
        let path = exported.to_string_lossy().into_owned();
        finish(&mut self.cabane(&["evidence", "export", IMAGE, "--output", &path])?)?;
        let failed = |error: std::io::Error| format!("cannot find the statement: {error}");
        let file = exported.join(only_entry(&exported).map_err(failed)?);
        let bytes = fs::read(&file).map_err(failed)?;
        let kept = self.registry.data().with_file_name("kept");
        let mut copy = self.bed.command("/bin/cp");
        finish(copy.arg("-a").arg(self.registry.data()).arg(&kept))?;
        Ok(Tested { file, bytes, kept })
    }
}

const IMAGE: &str = "many/1:v1@here%x86_64";

/// A recipe of a directory with so many checks.
fn recipe(checks: usize) -> String {
    let mut text = String::from("name: app\nengine: tree\ntree: {source: tree}\nchecks:\n");
    for number in 0..checks {
        text += &format!(
            "  - name: check-{number}\n    command: app\n    figures:\n      - {{name: bandwidth, \
             pattern: 'bandwidth (\\S+)', unit: MB/s, reference: 40, lower: -10%}}\n"
        );
    }
    text
}

fn executable(path: &Path) -> Result<(), NotMeasured> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("cannot make a program: {error}"))
}

/// A signed statement, and a registry without it.
struct Tested {
    file: PathBuf,
    bytes: Vec<u8>,
    /// The files of the registry before something was attached.
    kept: PathBuf,
}

impl Tested {
    fn attach_and_verify(&self, site: &Site<'_>) -> Result<Command, NotMeasured> {
        let text = r#""$1" evidence attach "$2" "$3"; "$1" evidence verify "$2" --remote"#;
        site.script(text, &[Path::new(IMAGE), &self.file])
    }

    /// Prepares the command after which nothing is attached: the registry keeps nothing in memory.
    fn detach(&self, site: &Site<'_>) -> Result<Command, NotMeasured> {
        site.script(r#"rm -rf "$3"; cp -a "$2" "$3""#, &[&self.kept, &site.registry.data()])
    }

    /// Verifies the statement again and again.
    fn verified(&self, site: &Site<'_>, rounds: usize) -> Result<Summary, NotMeasured> {
        let key = Path::new(&site.key).with_extension("pub");
        let key = PublicKey::read(&key).map_err(|error| error.to_string())?;
        let keys = [key];
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let start = Instant::now();
            let signed = SignedStatement::from_bytes(&self.bytes).ok_or("it cannot be read")?;
            let opened = signed.open(&keys).map_err(|error| error.to_string())?;
            std::hint::black_box(opened);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Summary::of(&times).ok_or_else(|| "no rounds".to_owned())
    }
}
