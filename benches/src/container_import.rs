// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to make an image of a container image.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_testkit::RealRegistry;

use crate::bed::Bed;
use crate::comparison::{Comparisons, not_measured};
use crate::container_layout::{self, Layout};
use crate::depot::{skopeo, start_registry};
use crate::goal::Goal;
use crate::listing::only_entry;
use crate::measure::{NotMeasured, Pairs, Rounds, finish};
use crate::memory::peak_of;
use crate::options::Options;
use crate::peers;
use crate::processor::{Cost, cost_of_work, to_float};
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::users::as_ordinary_user;

/// What an import may take over the fastest of the others.
const TARGET: f64 = 0.5;
/// How large the files of the large image are.
const LARGE: u64 = 1_000_000_000;
pub(crate) const LABEL: &str = "bench/1:v1@here%any";

const TITLE: &str = "Containers: import";
const METHOD: &str = "\
Images of files that are installed on this machine, in six layers, compressed with gzip: a small \
root file system, programs, libraries, more libraries, documents, and a layer that hides 200 \
files and replaces 200. They are in Debian's docker-registry on loopback, without encryption, or \
in a directory as an OCI layout. Everything runs as an ordinary user. The result is a squashfs \
with zstd at level 3 in blocks of 128 KiB, written to disk: `cabane import` syncs it itself, and \
a `sync` of the file follows the other commands. *umoci and mksquashfs* is `umoci unpack \
--rootless` and `mksquashfs` of the result; from a registry, `skopeo copy` to a layout comes \
first. Other tools keep their result in their own storage. Charliecloud uses a registry with \
encryption, because it supports no other. The result of each sample is removed before the next \
one. Memory is the largest high-water mark of one process, sampled every 5 ms.";

pub(crate) fn section(
    bed: &Bed,
    options: &Options,
    small: &Result<Layout, NotMeasured>,
) -> Section {
    let (mut tables, mut remarks) = (Vec::new(), Vec::new());
    let mut goal =
        Goal::ratio("import of a container image, over the fastest of the others", TARGET);
    let mut costs = Table::new(&[
        "command",
        "image",
        "s: min / median",
        "user, s",
        "system, s",
        "memory, MiB",
        "result, MB",
    ])
    .captioned("What it takes".to_owned());
    let mut measure = |load: Load, layout: &Result<Layout, NotMeasured>| {
        let measured = layout.as_ref().map_err(Clone::clone).and_then(|layout| {
            let measured = measure(bed, load, layout, &mut costs)?;
            Ok((measured, layout.to_string()))
        });
        match measured {
            Ok(((ratio, more), layout)) => {
                goal.note(load.name, ratio);
                tables.extend(more);
                remarks.push(format!("{}: {layout}.", load.name));
            }
            Err(reason) => remarks.push(format!("{}: not measured: {reason}.", load.name)),
        }
    };
    let pairs = options.transfers(4);
    let load = Load { name: "100 MB", place: "small", pairs, has_layout: true };
    measure(load, small);
    if options.quick {
        remarks.push("A quick run leaves 1 GB out.".to_owned());
    } else {
        let large = container_layout::make(bed, "layout-large", LARGE);
        let load =
            Load { name: "1 GB", place: "large", pairs: options.transfers(3), has_layout: false };
        measure(load, &large);
    }
    tables.push(costs);
    Section { title: TITLE, method: METHOD.to_owned(), tables, goals: vec![goal], remarks }
}

/// An image, and how often it is imported.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// Where it is imported: Podman takes no long paths.
    place: &'static str,
    pairs: usize,
    /// Whether also from a layout.
    has_layout: bool,
}

/// Compares all ways with one image; returns the ratio from a registry, and the tables.
fn measure(
    bed: &Bed,
    load: Load,
    layout: &Layout,
    costs: &mut Table,
) -> Result<(Option<Summary>, Vec<Table>), NotMeasured> {
    let place = bed.directory(load.place)?;
    let registry = start_registry(&place.join("registry"))?;
    push(bed, layout, &registry)?;
    // Charliecloud speaks to no other.
    let with_tls = peers::CH_IMAGE.find().and_then(|_| {
        let registry = RealRegistry::options(&place.join("with-tls"));
        let registry = registry.with_tls().start();
        push(bed, layout, &registry).map(|()| registry)
    });
    let yard = Yard {
        bed,
        layout,
        place,
        address: format!("{}/bench/tool:1", registry.host()),
        with_tls: with_tls
            .as_ref()
            .map(|registry| format!("{}/bench/tool:1", registry.host()))
            .map_err(Clone::clone),
    };
    let mut tables = Vec::new();
    let mut ratio = None;
    let sources = [Source::Registry, Source::Layout];
    for from in sources.into_iter().take(1 + usize::from(load.has_layout)) {
        let caption = format!("{}, {}", load.name, from.name());
        let mut ways = vec![yard.cabane(from), yard.umoci(from)];
        if from == Source::Registry {
            ways.extend(yard.others());
        }
        let runs = as_ordinary_user(|| run_in_turn(&ways, load.pairs));
        let (table, fastest) = compared(&ways, &runs, load.pairs);
        tables.push(table.captioned(caption.clone()));
        if from == Source::Registry {
            ratio = fastest;
        }
        for (way, runs) in ways.iter().zip(&runs) {
            costs.push(way.row(&caption, runs));
        }
    }
    Ok((ratio, tables))
}

fn push(bed: &Bed, layout: &Layout, registry: &RealRegistry) -> Result<(), NotMeasured> {
    let arguments = [
        "--dest-tls-verify=false".to_owned(),
        format!("oci:{}:1", layout.path.display()),
        format!("docker://{}/bench/tool:1", registry.host()),
    ];
    let arguments = skopeo(&arguments)?;
    finish(bed.command(&arguments[0]).args(&arguments[1..])).map(drop)
}

/// Where an image comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Registry,
    Layout,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Registry => "from a registry",
            Self::Layout => "from a layout",
        }
    }
}

/// An image, and the place where the results are made.
struct Yard<'a> {
    bed: &'a Bed,
    layout: &'a Layout,
    place: PathBuf,
    address: String,
    /// The same image in a registry with encryption.
    with_tls: Result<String, NotMeasured>,
}

/// A way to make an image.
struct Way {
    name: String,
    script: Result<Script, NotMeasured>,
    /// Where what it makes is, to be removed after each run.
    place: PathBuf,
    /// The image below it, or everything.
    result: Option<PathBuf>,
}

/// A command, made anew for each run.
type Script = Box<dyn Fn() -> Command + Send + Sync>;

/// What one run took.
#[derive(Clone, Copy)]
struct Run {
    cost: Cost,
    /// In MiB.
    peak: f64,
    /// The size of the image, if it is one file.
    result: Option<u64>,
}

/// All runs of one way.
type Runs = Result<Vec<Run>, NotMeasured>;

impl Yard<'_> {
    fn cabane(&self, from: Source) -> Way {
        let place = self.place.join("repository");
        let source = match from {
            Source::Registry => format!("http://{}", self.address),
            Source::Layout => format!("oci:{}:1", self.layout.path.display()),
        };
        let text = r#""$1" repo create "$2"; exec "$1" --repo "$2" import "$3" "$4""#;
        let cabane = self.bed.cabane.as_ref().map_err(Clone::clone);
        let arguments = cabane
            .map(|cabane| vec![cabane.into(), place.clone().into(), source.into(), LABEL.into()]);
        self.way("`cabane import`", text, arguments, place, Some("images"))
    }

    fn umoci(&self, from: Source) -> Way {
        let place = self.place.join("umoci");
        let text = r#"place=$1 layout=$2 umoci=$3 mksquashfs=$4; shift 4
            mkdir "$place"
            if [ $# -gt 0 ]; then layout=$place/layout; "$@" "oci:$layout:1"; fi
            "$umoci" unpack --rootless --image "$layout:1" "$place/bundle"
            "$mksquashfs" "$place/bundle/rootfs" "$place/image" -noappend -no-progress -quiet \
                -all-root -comp zstd -Xcompression-level 3
            sync "$place/image""#;
        let arguments = || {
            let mut arguments: Vec<OsString> = vec![
                place.clone().into(),
                self.layout.path.clone().into(),
                peers::UMOCI.find()?.into(),
                peers::MKSQUASHFS.find()?.into(),
            ];
            if from == Source::Registry {
                let skopeo = peers::SKOPEO.find()?;
                arguments.push(skopeo.into());
                let options = ["copy", "--quiet", "--insecure-policy"];
                arguments.extend(options.map(Into::into));
                arguments.push("--src-tls-verify=false".into());
                arguments.push(format!("docker://{}", self.address).into());
            }
            Ok(arguments)
        };
        let name = match from {
            Source::Registry => "skopeo, umoci, and mksquashfs",
            Source::Layout => "umoci and mksquashfs",
        };
        self.way(name, text, arguments(), place.clone(), Some("image"))
    }

    /// Those that make something else that containers start from.
    fn others(&self) -> Vec<Way> {
        let address = self.address.as_str();
        let pull = |name: &str, peer: peers::Peer| {
            let place = self.place.join(peer.name);
            let text = r#"mkdir "$2"; "$1" --root "$2/root" --runroot "$2/run" --storage-driver vfs \
                pull --quiet --tls-verify=false "$3""#;
            let arguments = peer.find().map(|program| {
                vec![program.into(), place.clone().into(), format!("docker://{address}").into()]
            });
            self.way(name, text, arguments, place, None)
        };
        let place = self.place.join("apptainer");
        let text = r#"mkdir "$2"; export APPTAINER_CACHEDIR="$2/cache" APPTAINER_TMPDIR="$2"
            "$1" pull --no-https "$2/image.sif" "$3"; sync "$2/image.sif""#;
        let arguments = peers::APPTAINER.find().map(|program| {
            vec![program.into(), place.clone().into(), format!("docker://{address}").into()]
        });
        vec![
            pull("`podman pull`", peers::PODMAN),
            pull("`buildah pull`", peers::BUILDAH),
            self.charliecloud(),
            self.way("`apptainer pull`", text, arguments, place, Some("image.sif")),
        ]
    }

    fn charliecloud(&self) -> Way {
        let place = self.place.join("charliecloud");
        let text =
            r#"mkdir "$2"; "$1" --storage "$2/storage" --no-cache --tls-no-verify pull "$3""#;
        let arguments = || {
            let address = self.with_tls.clone()?;
            let program = peers::CH_IMAGE.find()?;
            Ok(vec![program.into(), place.clone().into(), address.into()])
        };
        self.way("`ch-image pull`", text, arguments(), place.clone(), None)
    }

    fn way(
        &self,
        name: &str,
        text: &'static str,
        arguments: Result<Vec<OsString>, NotMeasured>,
        place: PathBuf,
        result: Option<&str>,
    ) -> Way {
        let (home, variables) = (self.place.clone(), self.bed.command("/bin/sh"));
        let variables: Vec<(OsString, OsString)> = variables
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        Way {
            name: name.to_owned(),
            script: arguments.map(|arguments| -> Script {
                Box::new(move || {
                    let mut command = Command::new("/bin/sh");
                    command.env_clear().envs(variables.clone());
                    command.env("HOME", &home).env("USER", "bench");
                    command.args(["-euc", text, "sh"]).args(&arguments);
                    command
                })
            }),
            result: result.map(|result| place.join(result)),
            place,
        }
    }
}

impl Way {
    fn run(&self) -> Result<Run, NotMeasured> {
        let script = self.script.as_ref().map_err(Clone::clone)?;
        let quiet = || {
            let mut command = script();
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::null());
            command
        };
        let ran = cost_of_work(|| peak_of(&mut quiet()));
        let run = ran.map(|(cost, peak)| Run {
            cost,
            peak: to_float(peak) / 1024.0,
            result: self.result.as_deref().and_then(size_of),
        });
        self.tidy()?;
        // A failure has a reason.
        run.or_else(|reason| {
            let again = finish(&mut script());
            self.tidy()?;
            Err(again.err().unwrap_or(reason))
        })
    }

    /// Removes what a run has left, in which directories may be closed.
    fn tidy(&self) -> Result<(), NotMeasured> {
        let text = r#"[ ! -e "$1" ] || { chmod -R u+rwX "$1"; rm -rf "$1"; }"#;
        let mut command = Command::new("/bin/sh");
        finish(command.args(["-c", text, "sh"]).arg(&self.place)).map(drop)
    }

    /// Tells what it takes.
    fn row(&self, image: &str, runs: &Runs) -> Vec<String> {
        let mut row = vec![self.name.clone(), image.to_owned()];
        let summary = |of: &dyn Fn(&Run) -> f64| {
            let runs = runs.as_ref().ok()?;
            Summary::of(&runs.iter().map(of).collect::<Vec<_>>())
        };
        let (Some(wall), Some(user), Some(system), Some(peak)) = (
            summary(&|run| run.cost.wall),
            summary(&|run| run.cost.user),
            summary(&|run| run.cost.system),
            summary(&|run| run.peak),
        ) else {
            let reason = runs.as_ref().err().map_or("no runs", String::as_str);
            row.push(not_measured(reason));
            return row;
        };
        row.push(format!("{:.1} / **{:.1}**", wall.minimum, wall.median));
        row.push(format!("{:.1}", user.median));
        row.push(format!("{:.1}", system.median));
        row.push(format!("{:.0}", peak.median));
        let result = runs.as_ref().ok().and_then(|runs| runs.last()?.result);
        row.push(match result {
            Some(bytes) => format!("{:.1}", to_float(bytes) / 1e6),
            None => "a directory".to_owned(),
        });
        row
    }
}

/// The size of an image; in a repository, of the only one.
fn size_of(path: &Path) -> Option<u64> {
    if path.is_dir() {
        let only = only_entry(path).ok()?;
        return Some(fs::metadata(path.join(only).join("image")).ok()?.len());
    }
    Some(fs::metadata(path).ok()?.len())
}

/// Runs each way once in each round.
fn run_in_turn(ways: &[Way], rounds: usize) -> Vec<Runs> {
    let mut runs: Vec<Runs> = ways.iter().map(|_| Ok(Vec::new())).collect();
    for _ in 0..rounds {
        for (way, runs) in ways.iter().zip(&mut runs) {
            let Ok(done) = runs else { continue };
            match way.run() {
                Ok(run) => done.push(run),
                Err(reason) => *runs = Err(reason),
            }
        }
    }
    runs
}

/// Compares the first way with each of the others; returns the ratio over the fastest of them.
fn compared(ways: &[Way], runs: &[Runs], pairs: usize) -> (Table, Option<Summary>) {
    let mut table = Comparisons::ratios(Rounds { warm_up: 0, pairs });
    let mut fastest: Option<Summary> = None;
    let (Some(ours), Some(own)) = (ways.first(), runs.first()) else {
        return (table.table(), None);
    };
    for (way, others) in ways.iter().zip(runs).skip(1) {
        let both = own.clone().and_then(|own| Ok((own, others.clone()?)));
        let both = both.map(|(own, others)| {
            let milliseconds = |run: &Run| run.cost.wall * 1e3;
            let times = own.iter().zip(&others);
            Pairs::of(times.map(|(own, other)| (milliseconds(own), milliseconds(other))))
        });
        let names = (ours.name.clone(), way.name.clone());
        let ratio = table.add(names, both, Some(TARGET));
        // The larger the ratio, the faster is the other.
        fastest = match (fastest, ratio) {
            (Some(before), Some(ratio)) if before.median >= ratio.median => Some(before),
            (before, ratio) => ratio.or(before),
        };
    }
    (table.table(), fastest)
}
