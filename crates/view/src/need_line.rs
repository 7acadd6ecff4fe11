// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A need of an image on one line, for lists in which thousands are looked through.
//!
//! ```text
//! scanned      TAB <number of files>
//! architecture TAB <name>
//! page-size    TAB <bytes>
//! glibc        TAB <version>
//! root         TAB <version of its own C library>
//! base         TAB <container image> TAB <digest of its manifest> TAB <digest of its index>
//! interpreter  TAB <version> TAB <path>
//! processor    TAB <targets> TAB <features>
//! library      TAB <name> TAB <versions> TAB <number of users> TAB <`later` or nothing> TAB <users>
//! search-path  TAB <directory>
//! gpu          TAB <vendor> TAB <architectures> TAB <version of the toolkit>
//! external     TAB <name> TAB <version> TAB <prefix> TAB <number of dependents> TAB <dependents>
//! mpi          TAB <product> TAB <version> TAB <values of `srun --mpi`>
//! ```
//!
//! Lists have commas between their elements. What is not known is empty. An image without a line
//! `scanned` was not built by something that reads its files: what it does not say about libraries
//! is not known.

use std::fmt::{self, Write as _};

use crate::{Change, ContainerSource, HostNeeds, LineIndex, LineKind, Meta};

/// Lines of needs.
#[derive(Clone, Copy, Debug)]
pub enum NeedLines {}

impl LineKind for NeedLines {
    const MAGIC: &'static str = "cabane-needs 2";

    fn is_line(line: &str) -> bool {
        NeedLine::read(line).is_some()
    }
}

/// The needs of many images.
pub type NeedIndex = LineIndex<NeedLines>;

const LATER: &str = "later";

/// A need of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the needs")]
pub enum NeedLine<'a> {
    /// All programs and libraries of the image were read.
    Scanned { files: u64 },
    /// Files are for this architecture.
    Architecture(&'a str),
    /// Files can be loaded with pages of this size at most.
    PageSize(u64),
    /// The oldest C library that will do.
    Glibc(&'a str),
    /// It is mounted at `/` and has a C library of its own.
    Root { glibc: &'a str },
    /// The container image from which it was made.
    Base { reference: &'a str, manifest: &'a str, index: &'a str },
    /// The Python of the host that it needs.
    Interpreter { version: &'a str, path: &'a str },
    /// A processor for which it was built.
    Processor { targets: &'a str, features: &'a str },
    /// A library of the host.
    Library { name: &'a str, versions: &'a str, count: u64, later: bool, users: &'a str },
    /// A directory of the host in which libraries are looked for.
    SearchPath(&'a str),
    /// A GPU for which it was built.
    Gpu { vendor: &'a str, architectures: &'a str, toolkit: &'a str },
    /// A package of the host.
    External { name: &'a str, version: &'a str, prefix: &'a str, count: u64, dependents: &'a str },
    /// An MPI that it has.
    Mpi { product: &'a str, version: &'a str, srun: &'a str },
}

impl<'a> NeedLine<'a> {
    /// Takes a line apart; `None` if it is none.
    #[must_use]
    pub fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split('\t');
        let kind = fields.next()?;
        let mut next = || fields.next();
        let read = match kind {
            "scanned" => Self::Scanned { files: next()?.parse().ok()? },
            "architecture" => Self::Architecture(next()?),
            "page-size" => Self::PageSize(next()?.parse().ok()?),
            "glibc" => Self::Glibc(next()?),
            "root" => Self::Root { glibc: next()? },
            "base" => Self::Base { reference: next()?, manifest: next()?, index: next()? },
            "interpreter" => Self::Interpreter { version: next()?, path: next()? },
            "processor" => Self::Processor { targets: next()?, features: next()? },
            "library" => Self::Library {
                name: next().filter(|name| !name.is_empty())?,
                versions: next()?,
                count: next()?.parse().ok()?,
                later: match next()? {
                    "" => false,
                    LATER => true,
                    _ => return None,
                },
                users: next()?,
            },
            "search-path" => Self::SearchPath(next()?),
            "gpu" => Self::Gpu { vendor: next()?, architectures: next()?, toolkit: next()? },
            "external" => Self::External {
                name: next().filter(|name| !name.is_empty())?,
                version: next()?,
                prefix: next()?,
                count: next()?.parse().ok()?,
                dependents: next()?,
            },
            "mpi" => Self::Mpi { product: next()?, version: next()?, srun: next()? },
            _ => return None,
        };
        fields.next().is_none().then_some(read)
    }
}

/// Writes fields of a line. A field that would break lines apart is left empty.
struct Writer(String);

impl Writer {
    fn line(&mut self, kind: &str, fields: &[&dyn fmt::Display]) {
        self.0.push_str(kind);
        for field in fields {
            let start = self.0.len();
            // Writing to a string does not fail.
            let _ = write!(self.0, "\t{field}");
            if self.0[start + 1..].contains(['\t', '\n', '\r']) {
                self.0.truncate(start + 1);
            }
        }
        self.0.push('\n');
    }
}

/// Elements with commas between them, without those that have one.
struct List<'a>(&'a [String]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for one in self.0.iter().filter(|one| !one.is_empty() && !one.contains(',')) {
            write!(f, "{separator}{one}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl Meta {
    /// Writes what an image needs of the host as lines: what `env.json` says, and `needs.json` if the
    /// image has one.
    #[must_use]
    pub fn need_lines(&self, host: Option<&HostNeeds>) -> String {
        let mut lines = Writer(String::new());
        let needs = &self.needs;
        if let Some(container) = &self.container {
            let glibc = container.glibc.as_deref().unwrap_or_default();
            lines.line("root", &[&glibc]);
            container.source.iter().for_each(|source| source.lines(&mut lines));
            for (vendor, toolkit) in self.toolkits() {
                lines.line("gpu", &[&vendor, &"", &toolkit]);
            }
        }
        if let Some(glibc) = &needs.glibc {
            lines.line("glibc", &[glibc]);
        }
        if let Some(need) = &needs.interpreter {
            lines.line("interpreter", &[&need.version, &need.path.display()]);
        }
        if let Some(need) = &needs.processor {
            lines.line("processor", &[&List(&need.targets), &List(&need.features)]);
        }
        match host {
            Some(host) => host.lines(&mut lines),
            None => self.lines_without_scan(&mut lines),
        }
        lines.0
    }

    /// Returns the software for GPUs for which a container image says that it was made: a vendor, and a
    /// version. NVIDIA's images have it in `CUDA_VERSION`, AMD's in `ROCM_VERSION`. Where `NVIDIA_REQUIRE_CUDA`
    /// also permits older drivers, the version says nothing about drivers, and is left out.
    fn toolkits(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let view = self.default_view.as_ref().and_then(|name| self.views.get(name));
        let value = move |wanted: &str| {
            let mut variables = view?.patch.iter();
            let (_, changes) = variables.find(|(name, _)| *name == wanted)?;
            match changes.last()? {
                Change::Set(value) => Some(value.as_str()),
                _ => None,
            }
        };
        let permits_older = value("NVIDIA_REQUIRE_CUDA").is_some_and(|one| one.contains("driver<"));
        let cuda = value("CUDA_VERSION").map(|version| if permits_older { "" } else { version });
        let rocm = value("ROCM_VERSION");
        cuda.map(|one| ("nvidia", one)).into_iter().chain(rocm.map(|one| ("amd", one)))
    }

    fn lines_without_scan(&self, lines: &mut Writer) {
        for need in &self.needs.outside {
            let package = need.package.as_deref().and_then(|package| package.split_once('@'));
            if let Some((name, version)) = package {
                lines.line("external", &[&name, &version, &need.path.display(), &0, &""]);
            }
        }
        if let Some(need) = &self.needs.mpi {
            lines.line("mpi", &[&"", &"", &List(&need.srun)]);
        }
    }
}

impl ContainerSource {
    fn lines(&self, lines: &mut Writer) {
        let mut platform = self.platform.split('/').skip(1);
        if let Some(architecture) = platform.next() {
            let kernel = match architecture {
                "amd64" => "x86_64",
                "arm64" => "aarch64",
                other => other,
            };
            lines.line("architecture", &[&kernel]);
        }
        let (manifest, index) = (self.manifest.as_deref(), self.index.as_deref());
        let digests = (manifest.unwrap_or_default(), index.unwrap_or_default());
        lines.line("base", &[&self.reference, &digests.0, &digests.1]);
    }
}

impl HostNeeds {
    fn lines(&self, lines: &mut Writer) {
        if !self.incomplete {
            lines.line("scanned", &[&self.files]);
        }
        for name in &self.architectures {
            lines.line("architecture", &[name]);
        }
        if let Some(size) = self.page_size {
            lines.line("page-size", &[&size]);
        }
        for one in &self.libraries {
            let later = if one.later { LATER } else { "" };
            let (versions, users) = (List(&one.versions), List(&one.users));
            lines.line("library", &[&one.name, &versions, &one.count, &later, &users]);
        }
        for path in &self.search_paths {
            lines.line("search-path", &[path]);
        }
        for one in &self.gpu {
            let toolkit = one.toolkit.as_deref().unwrap_or_default();
            lines.line("gpu", &[&one.vendor, &List(&one.architectures), &toolkit]);
        }
        for one in &self.externals {
            let prefix = one.prefix.as_deref().unwrap_or_default();
            let dependents = List(&one.dependents);
            lines.line("external", &[&one.name, &one.version, &prefix, &one.count, &dependents]);
        }
        for one in &self.mpi {
            let version = one.version.as_deref().unwrap_or_default();
            lines.line("mpi", &[&one.product, &version, &List(&one.srun)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Container, InterpreterNeed, NeededLibrary, Needs};

    fn read(text: &str) -> Vec<NeedLine<'_>> {
        text.lines().map(|line| NeedLine::read(line).unwrap()).collect()
    }

    #[test]
    fn what_an_image_needs_can_be_read_from_its_lines() {
        let library = NeededLibrary {
            name: "libibverbs.so.1".to_owned(),
            versions: vec!["IBVERBS_1.0".to_owned(), "IBVERBS_1.1".to_owned()],
            users: vec!["lib/libfabric.so.1".to_owned()],
            count: 6,
            ..NeededLibrary::default()
        };
        let host = HostNeeds { files: 79, libraries: vec![library], ..HostNeeds::default() };
        let interpreter =
            InterpreterNeed { path: "/usr/bin/python3.11".into(), version: "3.11.2".to_owned() };
        let needs = Needs { interpreter: Some(interpreter), ..Needs::default() };
        let lines = Meta { needs, ..Meta::default() }.need_lines(Some(&host));
        assert_eq!(
            read(&lines),
            [
                NeedLine::Interpreter { version: "3.11.2", path: "/usr/bin/python3.11" },
                NeedLine::Scanned { files: 79 },
                NeedLine::Library {
                    name: "libibverbs.so.1",
                    versions: "IBVERBS_1.0,IBVERBS_1.1",
                    count: 6,
                    later: false,
                    users: "lib/libfabric.so.1",
                },
            ]
        );
    }

    #[test]
    fn a_root_image_names_its_base() {
        let source = ContainerSource {
            reference: "registry.example.org/library/debian:13".to_owned(),
            platform: "linux/arm64/v8".to_owned(),
            manifest: Some("sha256:ab".to_owned()),
            ..ContainerSource::default()
        };
        let container = Container { source: Some(source), ..Container::default() };
        let lines = Meta { container: Some(container), ..Meta::default() }.need_lines(None);
        let base = NeedLine::Base {
            reference: "registry.example.org/library/debian:13",
            manifest: "sha256:ab",
            index: "",
        };
        let root = NeedLine::Root { glibc: "" };
        assert_eq!(read(&lines), [root, NeedLine::Architecture("aarch64"), base]);
    }

    #[test]
    fn a_root_image_names_the_software_of_gpus_that_it_declares() {
        let lines = |variables: &[(&str, &str)]| {
            let mut view = crate::View::default();
            for (name, value) in variables {
                view.patch.push(name, Change::Set((*value).to_owned()));
            }
            let name: crate::ViewName = "container".parse().unwrap();
            let meta = Meta {
                container: Some(Container::default()),
                views: [(name.clone(), view)].into(),
                default_view: Some(name),
                ..Meta::default()
            };
            meta.need_lines(None)
        };
        let cuda = ("CUDA_VERSION", "12.4.1");
        let only = ("NVIDIA_REQUIRE_CUDA", "cuda>=12.4");
        assert_eq!(lines(&[cuda, only]), "root\t\ngpu\tnvidia\t\t12.4.1\n");
        let older = ("NVIDIA_REQUIRE_CUDA", "cuda>=12.4 brand=tesla,driver>=470,driver<471");
        assert_eq!(lines(&[cuda, older]), "root\t\ngpu\tnvidia\t\t\n");
        assert_eq!(lines(&[("ROCM_VERSION", "6.2")]), "root\t\ngpu\tamd\t\t6.2\n");
    }

    #[test]
    fn an_image_without_a_list_of_its_needs_is_not_called_scanned() {
        let needs = Needs { glibc: Some("2.34".to_owned()), ..Needs::default() };
        let lines = Meta { needs, ..Meta::default() }.need_lines(None);
        assert_eq!(read(&lines), [NeedLine::Glibc("2.34")]);
    }

    #[test]
    fn a_name_with_a_new_line_makes_no_line_of_its_own() {
        let library = NeededLibrary {
            name: "a\nscanned\t1".to_owned(),
            count: 1,
            ..NeededLibrary::default()
        };
        let host = HostNeeds { libraries: vec![library], incomplete: true, ..HostNeeds::default() };
        let lines = Meta::default().need_lines(Some(&host));
        assert_eq!(lines, "library\t\t\t1\t\t\n");
        assert_eq!(NeedLine::read(lines.trim_end_matches('\n')), None);
    }

    #[test]
    fn what_is_no_line_is_none() {
        for line in ["", "moon\tfull", "library\tlibz.so.1", "page-size\tlarge", "glibc\t2.3\tx"] {
            assert_eq!(NeedLine::read(line), None, "{line}");
        }
    }
}
