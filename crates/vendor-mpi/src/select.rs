// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a compiler gets: from what the packages hold to a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cabane_recipe::{Diagnostic, Placed, VendorCompiler, VendorFiles, VendorManifest};
use cabane_report::Result;
use serde::Serialize;

use crate::archive::resolve;
use crate::contents::{Contents, FileId, Item};
use crate::glob;
use crate::program::{self, Programs};
use crate::tree::{Content, Node, Tree, relative};
use crate::wrapper::{self, LIBRARY_DIRECTORIES};
use crate::{failed, misfit};

/// Where a tarball says what the package for Spack must know of it.
pub(crate) const ABOUT: &str = "share/cabane/vendor-mpi.json";

/// What goes where, before its bytes are there.
#[derive(Debug)]
pub(crate) struct Selection<'m> {
    manifest: &'m VendorManifest,
    compiler: &'m VendorCompiler,
    files: BTreeMap<String, FileId>,
    links: BTreeMap<String, String>,
    wrappers: BTreeMap<String, FileId>,
}

/// What the package for Spack must know of a tarball.
#[derive(Serialize)]
struct About<'a> {
    compiler: &'a str,
    /// The language of each wrapper.
    wrappers: BTreeMap<&'a str, &'a str>,
    /// The file that a wrapper reads, if it is a program.
    data: BTreeMap<&'a str, String>,
    /// What programs need in their environment; `$mpi_prefix` is where the MPI is.
    environment: BTreeMap<&'a str, &'a str>,
    /// The directories with libraries.
    libraries: Vec<&'a str>,
    /// What belongs to variants for GPUs.
    gpu: BTreeMap<&'a str, AboutGpu<'a>>,
}

#[derive(Serialize)]
struct AboutGpu<'a> {
    files: Vec<&'a str>,
    link: &'a [String],
}

impl<'m> Selection<'m> {
    /// Decides what goes where; `Err` says what the packages do not have.
    pub(crate) fn new(
        manifest: &'m VendorManifest,
        compiler: &'m VendorCompiler,
        contents: &Contents,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut chooser = Chooser {
            manifest,
            contents,
            problems: Vec::new(),
            targets: BTreeMap::new(),
            sources: BTreeMap::new(),
        };
        for rule in &compiler.files {
            chooser.choose(rule);
        }
        let wrappers = chooser.wrappers(compiler);
        let (files, links) = chooser.files_and_links();
        if !chooser.problems.is_empty() {
            return Err(chooser.problems);
        }
        Ok(Self { manifest, compiler, files, links, wrappers })
    }

    /// Puts everything together.
    pub(crate) fn tree(&self, taken: &BTreeMap<FileId, Content>) -> Result<Tree> {
        let mut tree = Tree::default();
        for (path, file) in &self.files {
            let content = content(taken, file);
            let node = Node::File { content, is_executable: file.is_executable };
            tree.0.insert(path.clone(), node);
        }
        for (path, target) in &self.links {
            tree.0.insert(path.clone(), Node::Link(target.clone()));
        }
        let mut problems = Vec::new();
        let libraries: Vec<&str> =
            LIBRARY_DIRECTORIES.into_iter().filter(|name| tree.has(name)).collect();
        self.add_wrappers(&mut tree, taken, &libraries, &mut problems)?;
        self.edit(&mut tree, &mut problems)?;
        let programs = self.add_programs(&mut tree, taken, &mut problems)?;
        self.add_links(&mut tree, &mut problems);
        self.add_about(&mut tree, &libraries, programs, &mut problems);
        if problems.is_empty() { Ok(tree) } else { Err(misfit(&problems)) }
    }

    fn add_wrappers(
        &self,
        tree: &mut Tree,
        taken: &BTreeMap<FileId, Content>,
        libraries: &[&str],
        problems: &mut Vec<Diagnostic>,
    ) -> Result<()> {
        for wrapper in &self.compiler.wrappers {
            let path = format!("bin/{}", wrapper.name.value);
            let Some(file) = self.wrappers.get(&wrapper.name.value) else {
                continue;
            };
            self.refuse_taken(tree, &wrapper.name, &path, problems);
            let script = content(taken, file);
            let script = script.read().map_err(failed("read", Path::new(&path)))?;
            if program::is_program(&script) {
                continue;
            }
            match wrapper::parametrise(self.manifest, self.compiler, wrapper, &script, libraries) {
                Ok(script) => {
                    let node = Node::File { content: Content::Bytes(script), is_executable: true };
                    tree.0.insert(path, node);
                }
                Err(found) => problems.extend(found),
            }
        }
        Ok(())
    }

    /// Adds the wrappers that are programs, and returns the files that they read.
    fn add_programs(
        &self,
        tree: &mut Tree,
        taken: &BTreeMap<FileId, Content>,
        problems: &mut Vec<Diagnostic>,
    ) -> Result<BTreeMap<&'m str, String>> {
        let (mut programs, mut data) = (Programs::default(), BTreeMap::new());
        for wrapper in &self.compiler.wrappers {
            let path = format!("bin/{}", wrapper.name.value);
            let file = self.wrappers.get(&wrapper.name.value);
            let Some(file) = file.filter(|_| !tree.0.contains_key(&path)) else {
                continue;
            };
            let bytes = content(taken, file);
            let start = bytes.read().map_err(failed("read", Path::new(&path)))?;
            if !program::is_program(&start) {
                continue;
            }
            let from = (self.manifest, self.compiler);
            match programs.add(from, wrapper, (file, bytes), tree)? {
                Ok(()) => {
                    data.insert(wrapper.name.value.as_str(), program::data_of(wrapper));
                }
                Err(problem) => problems.push(problem),
            }
        }
        Ok(data)
    }

    fn edit(&self, tree: &mut Tree, problems: &mut Vec<Diagnostic>) -> Result<()> {
        for edit in &self.compiler.edits {
            let path = &edit.file.value;
            let Some(Node::File { content, .. }) = tree.0.get_mut(path) else {
                let message = format!("`{path}` is no file of the tarball");
                let hint = "`files` says what is taken; write where it goes there";
                problems.push(self.manifest.diagnostic(&edit.file, &message).with_hint(hint));
                continue;
            };
            let text = content.read().map_err(failed("read", Path::new(path)))?;
            match wrapper::replace(self.manifest, &edit.replace, &text) {
                Ok(text) => *content = Content::Bytes(text),
                Err(found) => problems.extend(found),
            }
        }
        Ok(())
    }

    fn add_links(&self, tree: &mut Tree, problems: &mut Vec<Diagnostic>) {
        for (name, target) in &self.compiler.links {
            self.refuse_taken(tree, name, &name.value, problems);
            if !tree.has_target(&name.value, target) {
                let message = format!("the link `{}` leads to nothing in the tarball", name.value);
                let hint = "write the name of a file beside it, or a path relative to it";
                problems.push(self.manifest.diagnostic(name, &message).with_hint(hint));
            }
            tree.0.insert(name.value.clone(), Node::Link(target.clone()));
        }
    }

    fn refuse_taken<T>(
        &self,
        tree: &Tree,
        at: &Placed<T>,
        path: &str,
        problems: &mut Vec<Diagnostic>,
    ) {
        if let Some(taken) = tree.in_the_way(path) {
            let message = format!("there is a `{taken}` in the tarball already");
            let hint = "take one of them under another name, or leave it out with `except`";
            problems.push(self.manifest.diagnostic(at, &message).with_hint(hint));
        }
    }

    fn add_about(
        &self,
        tree: &mut Tree,
        libraries: &[&str],
        data: BTreeMap<&str, String>,
        problems: &mut Vec<Diagnostic>,
    ) {
        let manifest = self.manifest;
        let mut all = BTreeMap::new();
        for gpu in &manifest.gpu {
            let mut files = Vec::new();
            for pattern in &gpu.files {
                let paths = tree.0.keys().map(String::as_str);
                let found: Vec<&str> =
                    paths.filter(|path| glob::matches(&pattern.value, path)).collect();
                if found.is_empty() {
                    let message = format!("nothing in the tarball matches `{}`", pattern.value);
                    let hint = "this is a path in the tarball, as `to` of `files` says";
                    problems.push(manifest.diagnostic(pattern, &message).with_hint(hint));
                }
                files.extend(found);
            }
            let link = &gpu.link;
            all.insert(gpu.name.as_str(), AboutGpu { files, link });
        }
        let wrappers = &self.compiler.wrappers;
        let wrappers = wrappers.iter().map(|one| (one.name.value.as_str(), one.language.name()));
        let about = About {
            compiler: &self.compiler.name.value,
            wrappers: wrappers.collect(),
            data,
            environment: manifest
                .environment
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            libraries: libraries.to_vec(),
            gpu: all,
        };
        // These types have nothing that JSON has not.
        let mut text = serde_json::to_vec_pretty(&about).unwrap_or_default();
        text.push(b'\n');
        let node = Node::File { content: Content::Bytes(text), is_executable: false };
        tree.0.insert(ABOUT.to_owned(), node);
    }
}

fn content(taken: &BTreeMap<FileId, Content>, file: &FileId) -> Content {
    let content = taken.get(file).cloned();
    content.unwrap_or_else(|| Content::Bytes(Vec::new()))
}

/// How many problems are reported. Who has more has something else.
const MOST_PROBLEMS: usize = 40;
/// How many names of a directory are shown.
const SHOWN: usize = 8;

/// Where something comes from, and the rule that took it.
struct Chosen<'m> {
    source: String,
    rule: &'m Placed<String>,
}

struct Chooser<'m, 'c> {
    manifest: &'m VendorManifest,
    contents: &'c Contents,
    problems: Vec<Diagnostic>,
    targets: BTreeMap<String, Chosen<'m>>,
    /// Where the first of each went.
    sources: BTreeMap<String, String>,
}

impl<'m> Chooser<'m, '_> {
    fn choose(&mut self, rule: &'m VendorFiles) {
        let contents = self.contents;
        for from in &rule.from {
            let is_left_out =
                |path: &str| rule.except.iter().any(|one| glob::matches(&one.value, path));
            let found = contents.matching(|path| glob::matches(&from.value, path));
            if found.is_empty() {
                self.nothing_matches(from);
            }
            for source in found {
                if is_left_out(source) {
                    continue;
                }
                let target = if rule.to.is_empty() || rule.to.ends_with('/') {
                    format!("{}{}", rule.to, glob::below(&from.value, source))
                } else {
                    rule.to.clone()
                };
                self.add(from, source, target);
            }
        }
    }

    fn add(&mut self, rule: &'m Placed<String>, source: &str, target: String) {
        if let Some(other) = self.targets.get(&target) {
            if other.source != source {
                let message = format!("`{source}` and `{}` would both be `{target}`", other.source);
                let hint = "give one of them another place, or leave it out with `except`";
                self.note(rule, &message, hint);
            }
            return;
        }
        self.sources.entry(source.to_owned()).or_insert_with(|| target.clone());
        let source = source.to_owned();
        self.targets.insert(target, Chosen { source, rule });
    }

    fn wrappers(&mut self, compiler: &'m VendorCompiler) -> BTreeMap<String, FileId> {
        let mut wrappers = BTreeMap::new();
        for wrapper in &compiler.wrappers {
            match self.contents.file(&wrapper.from.value) {
                Some(file) => {
                    wrappers.insert(wrapper.name.value.clone(), file.clone());
                    let target = format!("bin/{}", wrapper.name.value);
                    self.sources.entry(wrapper.from.value.clone()).or_insert(target);
                }
                None => self.nothing_matches(&wrapper.from),
            }
        }
        wrappers
    }

    fn nothing_matches(&mut self, from: &Placed<String>) {
        let message = format!("nothing in the packages matches `{}`", from.value);
        let (directory, names) = self.contents.nearest(&from.value);
        let more = if names.len() > SHOWN { ", …" } else { "" };
        let names: Vec<&str> = names.into_iter().take(SHOWN).collect();
        let hint = format!("in `/{directory}` there are: {}{more}", names.join(", "));
        self.note(from, &message, &hint);
    }

    /// Tells files from links, and turns links to where the files went.
    fn files_and_links(&mut self) -> (BTreeMap<String, FileId>, BTreeMap<String, String>) {
        let (mut files, mut links) = (BTreeMap::new(), BTreeMap::new());
        let targets = std::mem::take(&mut self.targets);
        for (target, Chosen { source, rule }) in &targets {
            let above = target.match_indices('/').map(|(at, _)| &target[..at]);
            if let Some(above) = above.into_iter().find(|above| targets.contains_key(*above)) {
                let message = format!("`{above}` would be a file and a directory");
                self.note(rule, &message, "give one of them another place");
            }
            match self.contents.item(source) {
                Some(Item::File(file)) => {
                    files.insert(target.clone(), file.clone());
                }
                Some(Item::Link(link)) => match self.link(source, link) {
                    Ok(leads) => {
                        links.insert(target.clone(), relative(target, &leads));
                    }
                    Err((message, hint)) => self.note(rule, &message, hint),
                },
                _ => {}
            }
        }
        (files, links)
    }

    /// Returns where the target of a link went.
    fn link(&self, source: &str, link: &str) -> Result<String, (String, &'static str)> {
        if link.starts_with('/') {
            let message = format!("`{source}` is an absolute link to `{link}`");
            return Err((message, "leave it out with `except`, and add it with `links`"));
        }
        let Some(leads) = resolve(source, link) else {
            let message = format!("`{source}` is a link that leads out of the package: `{link}`");
            return Err((message, "leave it out with `except`"));
        };
        let gone = self.sources.get(&leads).cloned();
        gone.ok_or_else(|| {
            let message = format!("`{source}` is a link to `{leads}`, which is not taken");
            (message, "take that as well, or leave out the link with `except`")
        })
    }

    fn note(&mut self, at: &Placed<String>, message: &str, hint: &str) {
        let problem = self.manifest.diagnostic(at, message).with_hint(hint);
        // A pattern can take many links of the same kind.
        if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// Returns the files whose bytes are wanted by any of several selections.
pub(crate) fn wanted(selections: &[Selection<'_>]) -> BTreeSet<FileId> {
    let wanted = selections.iter().flat_map(|one| one.files.values().chain(one.wrappers.values()));
    wanted.cloned().collect()
}
