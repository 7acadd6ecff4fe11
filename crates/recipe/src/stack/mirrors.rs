// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `mirrors.yaml`: where packages and sources come from, and where they go.
//!
//! Nothing is looked up: whether a key or a directory exists is for the build to
//! find out, and so is what variables in paths stand for.

use super::keys;
use crate::ask::{Field, Section, instead};
use crate::diagnostic::quote;
use crate::node::{Entry, Node, Value};
use crate::report::Report;

/// Mirrors and caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Where Spack finds what it needs itself: an address, or a directory.
    pub bootstrap: Option<String>,
    /// Where packages that are built come from and go.
    pub build_cache: Option<BuildCache>,
    /// Where sources come from.
    pub source_mirrors: Vec<SourceMirror>,
    /// The directory in which sources are kept that were fetched.
    pub source_cache: Option<String>,
    /// The directory in which results of the concretizer are kept.
    pub concretizer_cache: Option<String>,
}

/// A build cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildCache {
    /// Its name.
    pub name: String,
    /// Whether each mount point has a directory of its own in it.
    pub mount_specific: bool,
    /// The key that signs: a path, relative to the file, or the key itself.
    pub private_key: Option<String>,
    /// The key that verifies: a path, relative to the file, or the key itself.
    pub public_key: Option<String>,
    /// What it holds.
    pub flags: MirrorFlags,
    /// How it is read.
    pub fetch: Option<Connection>,
    /// How it is written.
    pub push: Option<Connection>,
}

/// A mirror with sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMirror {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub flags: MirrorFlags,
    /// How it is read.
    pub fetch: Option<Connection>,
    /// How it is written.
    pub push: Option<Connection>,
}

/// What a mirror holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorFlags {
    /// Sources.
    pub source: bool,
    /// Packages that are built.
    pub binary: bool,
    /// Whether these must be signed, if stated.
    pub signed: Option<bool>,
    /// Whether they go there as soon as they are built, if stated.
    pub autopush: Option<bool>,
}

/// How a mirror is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Its address.
    pub url: String,
    /// The view of the index.
    pub view: Option<String>,
    /// The profile of the account for S3.
    pub profile: Option<String>,
    /// The address of another S3 service.
    pub endpoint_url: Option<String>,
    /// The variable that holds a token.
    pub access_token_variable: Option<String>,
    /// The account and its secret.
    pub access_pair: Option<AccessPair>,
}

/// An account and where its secret is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPair {
    /// The name of the account.
    pub id: Option<String>,
    /// The variable that holds the name of the account.
    pub id_variable: Option<String>,
    /// The variable that holds the secret.
    pub secret_variable: String,
}

const EXAMPLE: &str = "begin with a mirror:\nsourcemirror:\n  local:\n    url: file:///opt/sources";

pub(super) fn read(report: &Report<'_>, root: &Node) -> Option<Mirrors> {
    // A file without mirrors is what someone leaves who removes the last one.
    if matches!(root.value, Value::Null) {
        return Some(Mirrors::default());
    }
    let file = report.file_with(root, EXAMPLE, &keys::names(keys::MIRRORS))?;
    let bootstrap = file.optional("bootstrap", |field| {
        let section = field.section_with(&["description", "url"])?;
        section.needed("url", "add its address: `url: https://…`", Field::string)
    });
    let build_cache = file.optional("buildcache", build_cache);
    let source_mirrors = file.chosen("sourcemirror", source_mirror);
    let source_cache = file.optional("sourcecache", cache);
    let concretizer_cache = file.optional("concretizer", cache);
    Some(Mirrors {
        bootstrap: bootstrap?,
        build_cache: build_cache?,
        source_mirrors: source_mirrors?,
        source_cache: source_cache?,
        concretizer_cache: concretizer_cache?,
    })
}

fn build_cache(field: &Field<'_>) -> Option<BuildCache> {
    let section = field.section()?;
    section.refuse_unknown(&keys::names(keys::BUILD_CACHE), |key| match key {
        "key" => instead("did you mean `private_key`?"),
        "root" => instead("did you mean `url`?"),
        _ => None,
    });
    let name = section.optional("name", mirror_name);
    let mount_specific = section.optional("mount_specific", Field::truth);
    let private_key = section.optional("private_key", Field::string);
    let public_key = section.optional("public_key", Field::string);
    let flags = flags(&section, false);
    let connections = connections(&section);
    let (fetch, push) = connections?;
    Some(BuildCache {
        name: name?.unwrap_or_else(|| "buildcache".to_owned()),
        mount_specific: mount_specific?.unwrap_or(false),
        private_key: private_key?,
        public_key: public_key?,
        flags: flags?,
        fetch,
        push,
    })
}

fn mirror_name(field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name =
        |text: &str| !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_word);
    let hint = "such a name has letters, digits, `_`, `-`, and `.`";
    field.text_if(is_name, "is not the name of a mirror", hint)
}

fn source_mirror(report: &Report<'_>, entry: &Entry) -> Option<SourceMirror> {
    let section = Field::named(report, "the mirror", entry).section()?;
    section.refuse_unknown(&keys::names(keys::SOURCE_MIRROR), |key| match key {
        "private_key" | "public_key" | "mount_specific" => {
            instead("only a build cache has it: remove it")
        }
        _ => None,
    });
    let flags = flags(&section, true);
    let (fetch, push) = connections(&section)?;
    Some(SourceMirror { name: entry.key.clone(), flags: flags?, fetch, push })
}

fn flags(section: &Section<'_>, source: bool) -> Option<MirrorFlags> {
    let flag = |key| section.optional(key, Field::truth);
    let (sources, binary) = (flag("source"), flag("binary"));
    let (signed, autopush) = (flag("signed"), flag("autopush"));
    Some(MirrorFlags {
        source: sources?.unwrap_or(source),
        binary: binary?.unwrap_or(!source),
        signed: signed?,
        autopush: autopush?,
    })
}

/// Reads how a mirror is read and written: both as the mirror itself says, where
/// neither is given.
fn connections(section: &Section<'_>) -> Option<(Option<Connection>, Option<Connection>)> {
    let own = match section.given("url") {
        None => Some(None),
        Some(_) => connection(section).map(Some),
    };
    let one = |key| section.optional(key, fetch_or_push);
    let (fetch, push) = (one("fetch"), one("push"));
    let (own, fetch, push) = (own?, fetch?, push?);
    if own.is_none() && fetch.is_none() && push.is_none() {
        let message = "this mirror has no address";
        return section.report.refuse(section.place, message, "add it: `url: file:///opt/mirror`");
    }
    Some((fetch.or_else(|| own.clone()), push.or(own)))
}

fn fetch_or_push(field: &Field<'_>) -> Option<Connection> {
    if let Value::Scalar(_) = field.node.value {
        return url(field).map(|url| Connection { url, ..Connection::default() });
    }
    let section = field.section_with(&keys::names(keys::CONNECTION))?;
    connection(&section)
}

fn connection(section: &Section<'_>) -> Option<Connection> {
    let url = section.needed("url", "add its address: `url: https://…`", url);
    let word = |key| section.optional(key, Field::string);
    let (view, profile) = (word("view"), word("profile"));
    let endpoint_url = word("endpoint_url");
    let access_token_variable = word("access_token_variable");
    let access_pair = section.optional("access_pair", access_pair);
    Some(Connection {
        url: url?,
        view: view?,
        profile: profile?,
        endpoint_url: endpoint_url?,
        access_token_variable: access_token_variable?,
        access_pair: access_pair?,
    })
}

fn url(field: &Field<'_>) -> Option<String> {
    const SCHEMES: &[&str] = &["file", "http", "https", "s3", "gs", "oci", "oci+http", "ssh"];
    let text = field.text()?;
    let (scheme, path) = match text.split_once("://") {
        Some((scheme, path)) => (scheme, path),
        None => ("file", text),
    };
    let hint = match scheme {
        _ if path.is_empty() => "write one such as `file:///opt/mirror`".to_owned(),
        "file" if !path.starts_with(['/', '$']) => {
            "write an absolute path, with three slashes: `file:///opt/mirror`".to_owned()
        }
        scheme if SCHEMES.contains(&scheme) => return Some(text.to_owned()),
        _ => format!("addresses begin with {}", SCHEMES.join("://, ") + "://"),
    };
    let message = format!("{} is not the address of a mirror", quote(text));
    field.refuse(&message, hint.as_str())
}

fn access_pair(field: &Field<'_>) -> Option<AccessPair> {
    let section = field.section()?;
    section.refuse_unknown(&["id", "id_variable", "secret_variable"], |key| {
        (key == "secret").then(|| {
            (
                Some("a secret does not belong into a file".to_owned()),
                "name the variable that holds it: `secret_variable: MIRROR_SECRET`".to_owned(),
            )
        })
    });
    let id = section.optional("id", Field::string);
    let id_variable = section.optional("id_variable", Field::string);
    let hint = "name the variable that holds it: `secret_variable: MIRROR_SECRET`";
    let secret = section.needed("secret_variable", hint, Field::string);
    let (id, id_variable) = (id?, id_variable?);
    if id.is_some() == id_variable.is_some() {
        let message = "the account is named either by `id` or by `id_variable`";
        return field.report.refuse(section.place, message, "keep one of the two");
    }
    Some(AccessPair { id, id_variable, secret_variable: secret? })
}

fn cache(field: &Field<'_>) -> Option<String> {
    let section = field.section()?;
    section.refuse_unknown(&["description", "path"], |key| {
        (key == "url").then(|| (None, "it is a directory: write `path: /opt/cache`".to_owned()))
    });
    let field = section.require("path", "add its directory: `path: /opt/cache`")?;
    let path = field.text()?;
    if path.starts_with(['/', '$']) {
        return Some(path.to_owned());
    }
    let message = "the directory of a cache must be absolute";
    field.refuse(message, "write one such as `path: /opt/cache`")
}
