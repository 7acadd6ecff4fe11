// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mirrors: `mirrors.yaml` and `bootstrap.yaml` of the system scope, and keys.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_recipe::{
    AccessPair, BuildCache, Connection, MirrorFlags, Mirrors, StackRecipe, Yaml, YamlMap,
};

use crate::places::Places;
use crate::stack::{Key, KeyPurpose};

/// The name of the cache that needs no set-up.
const LOCAL_CACHE: &str = "cabane-cache";
/// The name of the cache of others.
const SHARED_CACHE: &str = "cabane-shared";

/// The directory of the scope that only commands get that build nothing.
pub const GUARDED: &str = "guarded";

/// What describes a bootstrap mirror that has an address.
const BOOTSTRAP_METADATA: &str = "bootstrap/metadata.yaml";

/// Returns `mirrors.yaml`: what every command may know. What only some may reach is in
/// [`guarded_file`].
#[must_use]
pub fn mirrors_file(recipe: &StackRecipe, mirrors: &Mirrors, places: &Places) -> String {
    let mut all = YamlMap::new();
    if let Some(cache) = &places.binary_cache {
        for shared in &cache.shared {
            let name = shared.file_name().unwrap_or_default().to_string_lossy();
            all.insert(&format!("{SHARED_CACHE}{name}"), local(shared, None));
        }
        all.insert(LOCAL_CACHE, local(&cache.path, Some(cache.autopush)));
        for other in &cache.others {
            let name = other.file_name().unwrap_or_default().to_string_lossy();
            all.insert(&format!("{LOCAL_CACHE}{name}"), local(other, None));
        }
    }
    if let Some(cache) = &mirrors.build_cache
        && !is_guarded(cache.fetch.as_ref())
    {
        let push = cache.push.as_ref().map(without_secrets);
        all.insert(&cache.name, of_cache(recipe, cache, push.as_ref()));
    }
    for one in &mirrors.source_mirrors {
        if !is_guarded(one.fetch.as_ref()) {
            let push = one.push.as_ref().map(without_secrets);
            let text = mirror(one.flags, one.fetch.as_ref(), push.as_ref(), None);
            all.insert(&one.name, text);
        }
    }
    if let Some(older) = places.binary_cache.as_ref().and_then(|cache| cache.older.as_deref()) {
        all.insert(&format!("{LOCAL_CACHE}-older"), local(older, None));
    }
    // Two colons: what other scopes say does not count.
    let key = if places.only_named_mirrors { "mirrors:" } else { "mirrors" };
    Yaml::map([(key, all.into())]).to_string()
}

/// A directory with packages that nobody signed. Spack writes there if `autopush` is set.
fn local(directory: &Path, autopush: Option<bool>) -> Yaml {
    let flags = MirrorFlags { source: false, binary: true, signed: Some(false), autopush };
    let url = format!("file://{}", directory.display());
    let connection = Connection { url, ..Connection::default() };
    mirror(flags, Some(&connection), autopush.map(|_| &connection), None)
}

/// Returns the `mirrors.yaml` of those mirrors that only commands may reach that build
/// nothing; `None` if there are none.
#[must_use]
pub fn guarded_file(recipe: &StackRecipe, mirrors: &Mirrors) -> Option<String> {
    let mut all = YamlMap::new();
    if let Some(cache) = &mirrors.build_cache
        && (is_guarded(cache.fetch.as_ref()) || is_guarded(cache.push.as_ref()))
    {
        all.insert(&cache.name, of_cache(recipe, cache, cache.push.as_ref()));
    }
    for one in &mirrors.source_mirrors {
        if is_guarded(one.fetch.as_ref()) {
            let (fetch, push) = (one.fetch.as_ref(), one.push.as_ref());
            all.insert(&one.name, mirror(one.flags, fetch, push, None));
        }
    }
    (!all.is_empty()).then(|| Yaml::map([("mirrors", all.into())]).to_string())
}

/// Whether only commands may reach a mirror that build nothing: Spack writes the
/// variables of those that do into packages, and S3 needs another Python.
#[must_use]
pub fn is_guarded(connection: Option<&Connection>) -> bool {
    connection.is_some_and(|one| {
        one.access_pair.is_some() || one.access_token_variable.is_some() || is_s3(one)
    })
}

fn is_s3(connection: &Connection) -> bool {
    connection.url.starts_with("s3://")
}

fn without_secrets(connection: &Connection) -> Connection {
    Connection { access_pair: None, access_token_variable: None, ..connection.clone() }
}

/// Whether a mirror is in S3.
#[must_use]
pub fn has_s3(mirrors: &Mirrors) -> bool {
    connections(mirrors).any(is_s3)
}

/// Returns the variables that are needed to reach a mirror: a token, an account, a secret.
pub fn variables(connection: &Connection) -> impl Iterator<Item = &str> {
    let pair = connection.access_pair.as_ref();
    let variables = [
        connection.access_token_variable.as_deref(),
        pair.and_then(|pair| pair.id_variable.as_deref()),
        pair.map(|pair| pair.secret_variable.as_str()),
    ];
    variables.into_iter().flatten()
}

/// Returns every way to reach a mirror.
fn connections(mirrors: &Mirrors) -> impl Iterator<Item = &Connection> {
    let cache = mirrors.build_cache.iter();
    let cache = cache.flat_map(|one| [&one.fetch, &one.push]);
    let sources = mirrors.source_mirrors.iter().map(|one| &one.fetch);
    cache.chain(sources).flatten()
}

fn of_cache(recipe: &StackRecipe, cache: &BuildCache, push: Option<&Connection>) -> Yaml {
    let below = cache.mount_specific.then(|| recipe.config.store.as_str().trim_start_matches('/'));
    // Who signs, or has a secret, does so when all packages are there: what builds them is
    // kept away from it.
    let is_open = cache.flags.signed == Some(false) && !is_guarded(cache.push.as_ref());
    let flags = MirrorFlags { autopush: cache.flags.autopush.filter(|_| is_open), ..cache.flags };
    mirror(flags, cache.fetch.as_ref(), push, below)
}

fn mirror(
    flags: MirrorFlags,
    fetch: Option<&Connection>,
    push: Option<&Connection>,
    below: Option<&str>,
) -> Yaml {
    let mut map = YamlMap::new();
    map.insert("source", flags.source);
    map.insert("binary", flags.binary);
    for (key, connection) in [("fetch", fetch), ("push", push)] {
        map.insert_some(key, connection.map(|found| of_connection(found, below)));
    }
    for (key, flag) in [("signed", flags.signed), ("autopush", flags.autopush)] {
        map.insert_some(key, flag);
    }
    map.into()
}

fn of_connection(connection: &Connection, below: Option<&str>) -> Yaml {
    let mut map = YamlMap::new();
    let url = match below {
        Some(below) => format!("{}/{below}", connection.url.trim_end_matches('/')),
        None => connection.url.clone(),
    };
    map.insert("url", url);
    let texts = [
        ("view", &connection.view),
        ("profile", &connection.profile),
        ("endpoint_url", &connection.endpoint_url),
        ("access_token_variable", &connection.access_token_variable),
    ];
    insert_texts(&mut map, texts);
    if let Some(AccessPair { id, id_variable, secret_variable }) = &connection.access_pair {
        let mut pair = YamlMap::new();
        insert_texts(&mut pair, [("id", id), ("id_variable", id_variable)]);
        pair.insert("secret_variable", secret_variable.as_str());
        map.insert("access_pair", pair);
    }
    map.into()
}

fn insert_texts<const N: usize>(map: &mut YamlMap, texts: [(&str, &Option<String>); N]) {
    for (key, text) in texts {
        map.insert_some(key, text.as_deref());
    }
}

/// Adds `bootstrap.yaml`: without a mirror, Spack finds everything in the Python
/// that it is started with, and may not look elsewhere.
pub(crate) fn add_bootstrap(
    config: &mut BTreeMap<String, String>,
    mirrors: &Mirrors,
    places: &Places,
) {
    let mut sources = Vec::new();
    let mut add = |name: String, metadata: String| {
        let source = [("name", name.as_str().into()), ("metadata", metadata.into())];
        sources.push((name.clone(), Yaml::map(source)));
    };
    for directory in &places.bootstrap_metadata {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        add(format!("bootstrap-{name}"), directory.display().to_string());
    }
    let address = mirrors.bootstrap.as_deref();
    if let Some(url) = address.filter(|url| url.contains("://") && !url.starts_with("file://")) {
        let url = Yaml::map([("url", url.into())]);
        let metadata = Yaml::map([("type", "install".into()), ("info", url)]);
        config.insert(BOOTSTRAP_METADATA.to_owned(), metadata.to_string());
        let directory = places.config.join("bootstrap");
        add("bootstrap-mirror".to_owned(), directory.display().to_string());
    }
    let trusted: YamlMap = sources.iter().map(|(name, _)| (name.as_str(), true.into())).collect();
    let mut bootstrap = YamlMap::new();
    bootstrap.insert("enable", true);
    // Two colons, as in `mirrors.yaml`.
    let listed: Vec<Yaml> = sources.iter().map(|(_, source)| source.clone()).collect();
    bootstrap.insert("sources:", listed);
    if !trusted.is_empty() {
        bootstrap.insert("trusted", trusted);
    }
    let file = Yaml::map([("bootstrap", bootstrap.into())]).to_string();
    config.insert("bootstrap.yaml".to_owned(), file);
}

/// Returns the keys of the build cache.
pub(crate) fn keys(mirrors: &Mirrors) -> Vec<Key> {
    let Some(cache) = &mirrors.build_cache else {
        return Vec::new();
    };
    let keys = [(KeyPurpose::Sign, &cache.private_key), (KeyPurpose::Verify, &cache.public_key)];
    let keys = keys.into_iter().filter_map(|(purpose, source)| {
        let mirror = cache.name.clone();
        source.clone().map(|source| Key { mirror, purpose, source })
    });
    keys.collect()
}

/// Returns the mirror to which packages go: a build cache with a key that signs,
/// or one for which signatures are explicitly not wanted.
pub(crate) fn push_to(mirrors: &Mirrors) -> Option<String> {
    let cache = mirrors.build_cache.as_ref()?;
    let may_push = cache.private_key.is_some() || cache.flags.signed == Some(false);
    (may_push && cache.push.is_some()).then(|| cache.name.clone())
}
