// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keys of build caches: which signatures are trusted, and who signs.
//!
//! The ring of keys is in memory, inside of the sandbox that needs it, and ends with it;
//! the user's own is never looked at. The key that signs is shown to the command that puts
//! packages into the cache and to no other: packages are built by programs of strangers.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::{BuildCache, Mirrors};
use cabane_spack::{Key, KeyPurpose};

use super::session::{self, INPUTS, spack_program};
use super::{SpackEngine, guarded, inputs};
use crate::build_context::BuildContext;
use crate::layout::{Inside, Layout};
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, Result, disk};

/// Where keys are shown in the sandbox.
const SHOWN: &str = "/cabane/keys";
/// Where the ring is, there.
const RING: &str = "/cabane/ring";
/// Where a sandbox has programs.
const PROGRAMS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Takes keys into the ring, trusts them, and runs a command.
const SCRIPT: &str = "\
#!/bin/sh
# $1: a mirror whose own keys are trusted, if it is not empty; $2: Spack; then a command.
set -e
export GNUPGHOME=\"$SPACK_GNUPGHOME\"
chmod 700 \"$GNUPGHOME\"
# Before anything is started: Spack makes it later, and then no one finds what runs already.
mkdir -p -m 700 \"/run/user/$(id -u)\"
trap 'gpgconf --kill all' EXIT
for key in /cabane/keys/*; do
    if [ -e \"$key\" ]; then gpg --batch --quiet --import \"$key\"; fi
done
if [ -n \"$1\" ]; then
    # Before Spack 1.2 it asks nothing, and knows neither of the arguments.
    \"$2\" ${FURTHER_SCOPE:+-C \"$FURTHER_SCOPE\"} buildcache keys --install --trust --yes-to-all \"$1\" 2>/dev/null ||
        \"$2\" ${FURTHER_SCOPE:+-C \"$FURTHER_SCOPE\"} buildcache keys --install --trust
fi
gpg --batch --quiet --with-colons --list-keys | awk -F: '$1 == \"fpr\" { print $10 \":6:\" }' |
    gpg --batch --quiet --import-ownertrust
shift 2
\"$@\"
";
/// The variable that names a further scope of Spack to it.
const SCOPE: &str = "FURTHER_SCOPE";
/// Its name, beside what Spack gets.
const SCRIPT_NAME: &str = "with-keys";
/// Where Spack wants to make a directory for the sockets of gpg.
const SOCKETS: &str = "/run/user";

/// The keys of a build.
pub(super) struct Keys {
    /// The build cache, if its packages are signed.
    cache: Option<Signed>,
    /// Keys that are written in a file and are not in one.
    directory: PathBuf,
}

struct Signed {
    mirror: String,
    verify: Option<PathBuf>,
    /// Not a file before it is used.
    sign: Option<Source>,
}

/// Where a key is: a file, or the text that was in the place of its name.
#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// Makes sure that the keys of a system are there, and what uses them. `directory` is that
/// of the file that names them.
pub(super) fn check(keys: &[Key], directory: &Path) -> Result<()> {
    for key in keys {
        find(key, directory)?;
    }
    if keys.is_empty() || has_gpg() {
        return Ok(());
    }
    Err(BuildError::missing_program("gpg"))
}

fn find(key: &Key, directory: &Path) -> Result<Source> {
    let path = directory.join(&key.source);
    if path.is_file() {
        let real = path.canonicalize();
        return real.map(Source::File).map_err(BuildError::file("find", &path));
    }
    // As long as a key is no name of a file, and is not shown to anyone.
    let is_name = key.source.len() < 256;
    if let Some(bytes) = decoded(&key.source).filter(|bytes| is_key(bytes)) {
        return Ok(Source::Bytes(bytes));
    }
    let name = match key.purpose {
        KeyPurpose::Sign => "private_key",
        KeyPurpose::Verify => "public_key",
    };
    let what = if is_name {
        format!("does not exist: {}", shown(&path))
    } else {
        "is not a key".to_owned()
    };
    Err(BuildError::refused(
        format!("the `{name}` of the mirror `{}` {what}", escape(&key.mirror)),
        "name a file, relative to mirrors.yaml, or write the key itself in base 64",
    ))
}

impl Keys {
    /// Gets the keys ready. What they leave goes when this does, and what a build left
    /// that was killed goes now.
    pub(super) fn open(engine: &SpackEngine) -> Result<Self> {
        let directory = directory(&engine.layout);
        disk::remove(&directory)?;
        let mut keys = Self { cache: None, directory };
        let Some(cache) = signed_cache(&engine.system.mirrors) else {
            return Ok(keys);
        };
        let mut signed = Signed { mirror: cache.name.clone(), verify: None, sign: None };
        for key in &engine.stack().keys {
            let found = find(key, &engine.mirrors_dir)?;
            match key.purpose {
                KeyPurpose::Sign => signed.sign = Some(found),
                KeyPurpose::Verify => signed.verify = Some(keys.file(key.purpose, &found)?),
            }
        }
        keys.cache = Some(signed);
        let script = inputs::directory(&engine.layout).join(SCRIPT_NAME);
        disk::put_executable(&script, SCRIPT)?;
        Ok(keys)
    }

    fn file(&self, purpose: KeyPurpose, source: &Source) -> Result<PathBuf> {
        let bytes = match source {
            Source::File(path) => return Ok(path.clone()),
            Source::Bytes(bytes) => bytes,
        };
        let path = self.directory.join(format!("{purpose:?}").to_lowercase());
        let failed = || BuildError::file("write", &path);
        let private = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        private.map_err(failed())?;
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&path);
        opened.and_then(|mut file| file.write_all(bytes)).map_err(failed())?;
        Ok(path)
    }

    /// Makes a command that builds trust the signatures of the build cache.
    pub(super) fn trusting(
        &self,
        engine: &SpackEngine,
        sandbox: &mut Sandbox,
        command: Invocation,
    ) -> Invocation {
        // It does not know a guarded one.
        if guarded::is_cache_guarded(engine) {
            return command;
        }
        self.with_trust(sandbox, command)
    }

    /// As [`Self::trusting`], for a command that knows the guarded mirrors and builds
    /// nothing.
    pub(super) fn trusting_guarded(
        &self,
        sandbox: &mut Sandbox,
        command: Invocation,
    ) -> Invocation {
        sandbox.set(SCOPE, session::guarded_scope());
        self.with_trust(sandbox, command)
    }

    fn with_trust(&self, sandbox: &mut Sandbox, command: Invocation) -> Invocation {
        let Some(signed) = &self.cache else {
            return command;
        };
        // A key that the site names is better than one that is beside what it signs.
        let from_cache = signed.verify.is_none().then_some(signed.mirror.as_str());
        with_ring(sandbox, &[signed.verify.as_deref()], from_cache, command)
    }

    /// Runs a command that writes into the build cache, if there is one, with the key that
    /// signs.
    pub(super) fn run_to_cache(
        &self,
        engine: &SpackEngine,
        command: Option<Invocation>,
        bench: &mut BuildContext<'_>,
    ) -> Result<()> {
        let Some(mut command) = command else {
            return Ok(());
        };
        let mut sandbox = session::sandbox(engine);
        if let Some(directory) = push_directory(&engine.system.mirrors, &engine.store) {
            disk::make_directory(&directory)?;
            sandbox.bind(&directory, &directory, false);
        }
        if guarded::pushes(engine) {
            engine.guarded.admit(&mut sandbox);
        }
        let Some(signed) = &self.cache else {
            return guarded::put(engine, &sandbox, &command, bench);
        };
        let sign = signed.sign.as_ref();
        let sign = sign.map(|source| self.file(KeyPurpose::Sign, source));
        let sign = sign.transpose()?;
        let keys = [signed.verify.as_deref(), sign.as_deref()];
        command = with_ring(&mut sandbox, &keys, None, command);
        let ended = guarded::put(engine, &sandbox, &command, bench);
        // The packages of the next environment are built beside it otherwise.
        if let Some(written) = sign.filter(|path| path.starts_with(&self.directory)) {
            disk::remove(&written)?;
        }
        ended
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // The next build removes what cannot be removed now.
        let _ = disk::remove(&self.directory);
    }
}

fn directory(layout: &Layout) -> PathBuf {
    // Beside the home: in memory, if the build is.
    layout.home().with_file_name("keys")
}

/// The build cache, if Spack looks for signatures there.
fn signed_cache(mirrors: &Mirrors) -> Option<&BuildCache> {
    let cache = mirrors.build_cache.as_ref()?;
    let is_named = cache.private_key.is_some() || cache.public_key.is_some();
    let is_signed = cache.flags.signed != Some(false) && has_gpg();
    (is_named || is_signed).then_some(cache)
}

fn has_gpg() -> bool {
    let mut places = PROGRAMS.iter();
    places.any(|place| Path::new(place).join("gpg").is_file())
}

fn with_ring(
    sandbox: &mut Sandbox,
    keys: &[Option<&Path>],
    from_cache: Option<&str>,
    command: Invocation,
) -> Invocation {
    for (number, key) in keys.iter().enumerate() {
        if let Some(key) = key {
            sandbox.bind(*key, Path::new(SHOWN).join(number.to_string()), true);
        }
    }
    sandbox.in_memory(RING);
    sandbox.in_memory(SOCKETS);
    sandbox.set("SPACK_GNUPGHOME", RING);
    let script = Inside::work(INPUTS).join(SCRIPT_NAME);
    let mut wrapped = Invocation::new(script, &command.directory);
    wrapped = wrapped.with([from_cache.unwrap_or_default()]);
    wrapped = wrapped.with([&spack_program(), &command.program]);
    wrapped = wrapped.with(&command.arguments);
    wrapped.speed = command.speed;
    wrapped
}

/// The command that puts the packages of an environment into the build cache, if they go
/// there.
pub(super) fn push(engine: &SpackEngine, environment: &str) -> Option<Invocation> {
    let mirror = guarded::push_mirror(engine)?;
    let push = ["buildcache", "push", "--with-build-dependencies", mirror];
    let spack = guarded::spack_for_push(engine);
    Some(session::entering(spack, environment).with(push))
}

/// The command that lists the keys in the build cache, if there are any, for those who
/// trust what it carries: that they are there is not enough, they must be listed.
pub(super) fn publish(engine: &SpackEngine) -> Option<Invocation> {
    let mirror = guarded::push_mirror(engine)?;
    let cache = engine.system.mirrors.build_cache.as_ref()?;
    cache.private_key.as_ref()?;
    let publish = ["gpg", "publish", "--update-index", "--mirror-name", mirror];
    Some(guarded::spack_for_push(engine).with(publish))
}

/// Where packages go, if that is a directory of this machine.
fn push_directory(mirrors: &Mirrors, store: &Path) -> Option<PathBuf> {
    let cache = mirrors.build_cache.as_ref()?;
    let url = cache.push.as_ref()?.url.as_str();
    let path = url.strip_prefix("file://").unwrap_or(url);
    if !path.starts_with('/') {
        return None;
    }
    let below = store.strip_prefix("/").unwrap_or(store);
    let path = Path::new(path);
    Some(if cache.mount_specific { path.join(below) } else { path.to_owned() })
}

/// Whether bytes begin as keys do: in letters, or with the mark of a packet.
fn is_key(bytes: &[u8]) -> bool {
    bytes.starts_with(b"-----BEGIN PGP") || bytes.first().is_some_and(|first| first & 0x80 != 0)
}

/// Reads base 64.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0_u32);
    for character in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(source: &str) -> Key {
        Key { mirror: "site".to_owned(), purpose: KeyPurpose::Sign, source: source.to_owned() }
    }

    #[test]
    fn base_64_is_read_with_and_without_its_end() {
        let texts = ["aGVsbG8=", "aGVsbG8", "aGVs\nbG8=", "a.b"].map(decoded);
        let hello = Some(b"hello".to_vec());
        assert_eq!(texts, [hello.clone(), hello.clone(), hello, None]);
    }

    #[test]
    fn a_key_is_a_file_beside_the_mirrors_or_a_text() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("site.gpg"), "key").unwrap();
        let text = "LS0tLS1CRUdJTiBQR1AgUFJJVkFURSBLRVkgQkxPQ0stLS0tLQ==";
        let found = ["site.gpg", text].map(|source| find(&key(source), directory.path()).unwrap());
        let seen = matches!(&found[0], Source::File(path) if path.ends_with("site.gpg"));
        assert!(seen && matches!(&found[1], Source::Bytes(_)), "{found:?}");
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let secret = "c2VjcmV0".repeat(40);
        let error = find(&key(&secret), Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "the `private_key` of the mirror `site` is not a key");
    }
}
