// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The tree that layers make together, without what is in files.
//!
//! Layers are put on top of each other, the lowest first. In a layer the last entry of a
//! name wins. What a layer hides is what the layers below it have, wherever in the layer
//! that stands. Names are looked up inside of the tree: a link never leads out of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::LayerProblem;
use crate::error::bad_input;
use crate::layer::{Attributes, Found, LINKS, Special, What, push_part, shown, split_last};

/// More links in a row lead nowhere, as in Linux.
const MOST_LINKS: u32 = 40;
/// Implied by names below it.
const IMPLIED: Attributes = Attributes { mode: 0o755, mtime: 0, is_foreign: false, extended: 0 };

pub(crate) type NodeId = usize;
pub(crate) type Children = BTreeMap<Box<[u8]>, NodeId>;

/// A file, under however many names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) size: u64,
    pub(crate) layer: usize,
    pub(crate) entry: u32,
    pub(crate) attributes: Attributes,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Directory {
        children: Children,
        attributes: Attributes,
    },
    /// A number in [`Tree::files`].
    File(usize),
    Symlink {
        target: Box<[u8]>,
        attributes: Attributes,
    },
    Special(Special),
}

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    pub(crate) files: Vec<File>,
}

pub(crate) const ROOT: NodeId = 0;

/// A link whose file may follow it in the layer.
struct Waiting<'a> {
    found: &'a Found,
    target: &'a [u8],
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![directory(IMPLIED)], files: Vec::new() }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Fails if something in a layer is a directory and was none before, or the other way round.
    pub(crate) fn fits(&self, found: &[Found]) -> Result<(), LayerProblem> {
        for one in found {
            let is_directory = matches!(one.what, What::Directory);
            let ends = one.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let above = ends.map(|(end, _)| (end, true));
            for (end, is_directory) in above.chain([(one.path.len(), is_directory)]) {
                let path = one.path.get(..end).unwrap_or_default();
                let there = self.look_up(path, true).map(|id| &self.nodes[id]);
                let there = there.map(|node| matches!(node, Node::Directory { .. }));
                if there.is_none_or(|there| there == is_directory) {
                    continue;
                }
                return Err(other_kind(&shown(path), is_directory));
            }
        }
        Ok(())
    }

    /// Puts a layer on top.
    pub(crate) fn put(&mut self, layer: usize, found: &[Found]) -> Result<(), LayerProblem> {
        self.hide_all_of(found);
        let mut waiting = Vec::new();
        for one in found {
            self.put_one(layer, one, &mut waiting)?;
        }
        for Waiting { found, target } in waiting {
            if !self.link(found, target)? {
                return Err(bad_link(found, target, "does not exist"));
            }
        }
        if let Some(children) = self.children_mut(ROOT) {
            children.remove(LINKS);
        }
        Ok(())
    }

    fn put_one<'a>(
        &mut self,
        layer: usize,
        found: &'a Found,
        waiting: &mut Vec<Waiting<'a>>,
    ) -> Result<(), LayerProblem> {
        let attributes = found.attributes;
        let node = match &found.what {
            What::Whiteout | What::Opaque => return Ok(()),
            What::Directory => return self.put_directory(found),
            What::File { size } => {
                self.files.push(File { size: *size, layer, entry: found.number, attributes });
                Node::File(self.files.len() - 1)
            }
            What::Symlink(target) => Node::Symlink { target: target.clone(), attributes },
            What::Special(kind) => Node::Special(*kind),
            What::Link(target) => {
                if !self.link(found, target)? {
                    waiting.push(Waiting { found, target });
                }
                return Ok(());
            }
        };
        self.insert(&found.path, node)
    }

    fn put_directory(&mut self, found: &Found) -> Result<(), LayerProblem> {
        let new = found.attributes;
        let (parents, name) = split_last(&found.path);
        let parent = self.make(parents, &found.path)?;
        let there = if name.is_empty() { Some(ROOT) } else { self.child(parent, name) };
        match there.map(|id| &mut self.nodes[id]) {
            Some(Node::Directory { attributes, .. }) => *attributes = new,
            _ => self.set_child(parent, name, directory(new)),
        }
        Ok(())
    }

    /// Gives a file another name; `false` if there is no such file.
    fn link(&mut self, found: &Found, target: &[u8]) -> Result<bool, LayerProblem> {
        let Some(id) = self.look_up(target, false) else {
            return Ok(false);
        };
        let node = match &self.nodes[id] {
            Node::Directory { .. } => {
                return Err(bad_link(found, target, "is a directory"));
            }
            node => node.clone(),
        };
        self.insert(&found.path, node)?;
        Ok(true)
    }

    fn insert(&mut self, path: &[u8], node: Node) -> Result<(), LayerProblem> {
        let (parents, name) = split_last(path);
        if name.is_empty() {
            return Err(LayerProblem::refused("the root of the image is not a directory in it"));
        }
        let parent = self.make(parents, path)?;
        self.set_child(parent, name, node);
        Ok(())
    }

    fn set_child(&mut self, parent: NodeId, name: &[u8], node: Node) {
        let id = self.nodes.len();
        self.nodes.push(node);
        if let Some(children) = self.children_mut(parent) {
            children.insert(name.into(), id);
        }
    }

    fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.children(id).get(name).copied()
    }

    /// Takes away what a layer hides of those below it.
    fn hide_all_of(&mut self, found: &[Found]) {
        let is_hiding = |one: &&Found| matches!(one.what, What::Whiteout | What::Opaque);
        if !found.iter().any(|one| is_hiding(&one)) {
            return;
        }
        let is_directory = |one: &&Found| matches!(one.what, What::Directory);
        let own = found.iter().filter(is_directory);
        let own: BTreeSet<&[u8]> = own.map(|one| &*one.path).collect();
        for one in found.iter().filter(is_hiding) {
            let directory = match one.what {
                What::Opaque => &one.path,
                _ => split_last(&one.path).0,
            };
            if self.is_new(directory, &own) {
                continue;
            }
            if !matches!(one.what, What::Opaque) {
                self.hide(&one.path);
            } else if let Some(id) = self.look_up(&one.path, true)
                && let Some(children) = self.children_mut(id)
            {
                children.clear();
            }
        }
    }

    /// Whether a layer has a directory of its own where those below it have a link: what is
    /// hidden in it is not what the link leads to.
    fn is_new(&self, directory: &[u8], own: &BTreeSet<&[u8]>) -> bool {
        let mut rest = directory;
        while !rest.is_empty() {
            if own.contains(rest)
                && let Some(id) = self.look_up(rest, false)
                && matches!(self.nodes[id], Node::Symlink { .. })
            {
                return true;
            }
            rest = split_last(rest).0;
        }
        false
    }

    fn hide(&mut self, path: &[u8]) {
        let (parents, name) = split_last(path);
        let parent = self.look_up(parents, true);
        if let Some(children) = parent.and_then(|id| self.children_mut(id)) {
            children.remove(name);
        }
    }

    fn children_mut(&mut self, id: NodeId) -> Option<&mut Children> {
        match &mut self.nodes[id] {
            Node::Directory { children, .. } => Some(children),
            _ => None,
        }
    }

    /// Finds what has a name, inside of the tree; `follow` a link also where it is the last.
    pub(crate) fn look_up(&self, path: &[u8], follow: bool) -> Option<NodeId> {
        let (mut place, mut links) = (vec![ROOT], 0);
        let mut left: Vec<&[u8]> = parts(path).rev().collect();
        while let Some(name) = left.pop() {
            if name == b".." {
                if place.len() > 1 {
                    place.pop();
                }
                continue;
            }
            let id = self.child(place.last().copied()?, name)?;
            match &self.nodes[id] {
                Node::Symlink { target, .. } if follow || !left.is_empty() => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if target.starts_with(b"/") {
                        place.truncate(1);
                    }
                    left.extend(parts(target).rev());
                }
                _ => place.push(id),
            }
        }
        place.last().copied()
    }

    /// Finds a directory, and makes it where it is missing or something else.
    fn make(&mut self, path: &[u8], whole: &[u8]) -> Result<NodeId, LayerProblem> {
        let mut here = ROOT;
        for name in parts(path) {
            match self.child(here, name) {
                Some(id) if matches!(self.nodes[id], Node::Directory { .. }) => here = id,
                _ => return self.make_slowly(path, whole),
            }
        }
        Ok(here)
    }

    fn make_slowly(&mut self, path: &[u8], whole: &[u8]) -> Result<NodeId, LayerProblem> {
        let mut place = vec![ROOT];
        let mut links = 0;
        let mut left = reversed(path);
        while let Some(name) = left.pop() {
            let here = place.last().copied().unwrap_or(ROOT);
            if &*name == b".." {
                if place.len() > 1 {
                    place.pop();
                }
                continue;
            }
            let child = self.child(here, &name);
            match child.map(|id| (id, &self.nodes[id])) {
                Some((id, Node::Directory { .. })) => place.push(id),
                Some((_, Node::Symlink { target, .. })) => {
                    links += 1;
                    if links > MOST_LINKS {
                        let whole = shown(whole);
                        return Err(LayerProblem::refused(format!(
                            "the name `{whole}` leads through links without end"
                        )));
                    }
                    if target.starts_with(b"/") {
                        place.truncate(1);
                    }
                    left.extend(reversed(target));
                }
                _ => {
                    self.set_child(here, &name, directory(IMPLIED));
                    place.push(self.nodes.len() - 1);
                }
            }
        }
        Ok(place.last().copied().unwrap_or(ROOT))
    }

    /// Makes an empty directory where there is nothing yet; links on the way are followed.
    /// Returns whether there was nothing.
    pub(crate) fn add_directory(&mut self, path: &str) -> Result<bool, LayerProblem> {
        let path = path.as_bytes();
        match self.look_up(path, true).map(|id| &self.nodes[id]) {
            Some(Node::Directory { .. }) => Ok(false),
            _ => self.make(path, path).map(|_| true),
        }
    }

    /// Puts a file that comes from no layer in the place of whatever is there.
    pub(crate) fn add_file(&mut self, path: &str, file: File) -> Result<(), LayerProblem> {
        self.files.push(file);
        let node = Node::File(self.files.len() - 1);
        self.insert(path.as_bytes(), node)
    }

    /// Takes away what is in a place, and returns whether something was.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let path = path.as_bytes();
        let is_there = self.look_up(path, false).is_some();
        self.hide(path);
        is_there
    }

    /// Goes through everything but the root, directories before what is in them, in the
    /// order of names.
    pub(crate) fn visit<E>(
        &self,
        mut visit: impl FnMut(&[u8], &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = Vec::new();
        let mut open = vec![(0, self.children(ROOT).iter())];
        while let Some((length, children)) = open.last_mut() {
            path.truncate(*length);
            let Some((name, id)) = children.next() else {
                open.pop();
                continue;
            };
            push_part(&mut path, name);
            visit(&path, &self.nodes[*id])?;
            if let Node::Directory { children, .. } = &self.nodes[*id] {
                open.push((path.len(), children.iter()));
            }
        }
        Ok(())
    }

    pub(crate) fn children(&self, id: NodeId) -> &Children {
        static NONE: Children = Children::new();
        match &self.nodes[id] {
            Node::Directory { children, .. } => children,
            _ => &NONE,
        }
    }
}

/// A file in the place of a directory, or the other way round.
fn other_kind(path: &str, is_directory: bool) -> LayerProblem {
    let kind = |is_one| if is_one { "a directory" } else { "no directory" };
    let (there, here) = (kind(!is_directory), kind(is_directory));
    let report = bad_input(format!("`/{path}` is {there} in the image, and {here} here"));
    let hint = || format!("a file needs a name of its own there, such as `/{path}/NAME`");
    LayerProblem::Refused(report.hinted((!is_directory).then(hint)))
}

fn bad_link(found: &Found, target: &[u8], why: &str) -> LayerProblem {
    let (path, target) = (shown(&found.path), shown(target));
    LayerProblem::refused(format!("`{path}` is a hard link to `{target}`, which {why}"))
}

fn directory(attributes: Attributes) -> Node {
    Node::Directory { children: Children::new(), attributes }
}

/// Cuts a path into parts, of which `..` is one.
fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !matches!(*part, b"" | b"."))
}

fn reversed(path: &[u8]) -> Vec<Box<[u8]>> {
    parts(path).rev().map(Into::into).collect()
}
