// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack says about packages while it installs them, line by line.
//!
//! Two installers are understood: that of Spack 1.2 and later, which writes a line for
//! every phase, and the one before, which writes sentences. A line that is neither is
//! nothing, whatever it holds. Nothing is read or written here.

/// A line about a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstallerLine<'a> {
    /// The hash or its beginning; empty if the line has none.
    pub(super) hash: &'a str,
    /// The name; empty if the line has none.
    pub(super) name: &'a str,
    pub(super) what: What<'a>,
}

/// What happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// It is worked on.
    Phase(&'a str),
    /// It is there.
    Installed,
    /// It is a package of the system.
    External,
    /// It could not be installed. The file has what it wrote, as seen in the sandbox.
    Failed { log: Option<&'a str> },
    /// It was in a cache and could not be moved here.
    NotMoved,
}

/// The phase in which a package is looked for in caches.
pub(super) const FETCHING: &str = "fetching from build cache";
/// The phase in which a package from a cache gets its place.
pub(super) const RELOCATING: &str = "relocating";
/// The phase in which a package begins to be built.
pub(super) const STAGING: &str = "staging";

/// The errors of Spack about a package that cannot be moved to another path.
const NOT_MOVED: [&str; 2] = ["CannotGrowString:", "CannotShrinkCString:"];
/// The length of a hash in base 32.
const HASH: usize = 32;
/// The shortest beginning of one that Spack shows.
const SHORT: usize = 7;
/// The longest name of a phase; what is longer is prose.
const LONGEST_PHASE: usize = 40;

/// Reads one line.
pub(super) fn parse(line: &str) -> Option<InstallerLine<'_>> {
    if line.ends_with("/spack-build-out.txt") {
        return parse_log(line);
    }
    let mark = line.get(..4)?;
    let rest = line.get(4..)?;
    match mark {
        "[ ] " => parse_phase(rest),
        "[e] " => of(rest, |_| Some(What::External)),
        "[x] " => of(rest, |rest| {
            let log = without_time(rest).strip_prefix("failed")?;
            Some(What::Failed { log: log.strip_prefix(": ") })
        }),
        "[+] " if rest.starts_with('/') => parse_prefix(rest),
        "[+] " => of(rest, |_| Some(What::Installed)),
        "==> " => parse_sentence(rest),
        _ => None,
    }
}

/// `nnle3nx mpich@4.0.2 configure (3s)`
fn parse_phase(rest: &str) -> Option<InstallerLine<'_>> {
    of(rest, |rest| {
        let phase = without_time(rest);
        // `fetching: 34%`
        let phase = phase.split_once(": ").map_or(phase, |(phase, _)| phase);
        let is_phase = !phase.is_empty() && phase.len() <= LONGEST_PHASE;
        is_phase.then_some(What::Phase(phase))
    })
}

/// Splits `hash name@version …`.
fn of<'a>(
    rest: &'a str,
    what: impl FnOnce(&'a str) -> Option<What<'a>>,
) -> Option<InstallerLine<'a>> {
    let (hash, rest) = rest.split_once(' ')?;
    let (spec, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (name, _version) = spec.split_once('@')?;
    let is_package = is_hash(hash) && !name.is_empty();
    let what = is_package.then(|| what(rest))??;
    Some(InstallerLine { hash, name, what })
}

/// `configure (3s)`, `(1h02m)`
fn without_time(rest: &str) -> &str {
    let Some(open) = rest.rfind(" (") else {
        // Nothing but a time.
        return if rest.starts_with('(') { "" } else { rest };
    };
    if rest.ends_with(')') { &rest[..open] } else { rest }
}

/// `/user-environment/linux-zen3/mpich-4.0.2-q6u…`, `/usr (external glibc-2.36-zir…)`
fn parse_prefix(rest: &str) -> Option<InstallerLine<'_>> {
    if let Some((_, external)) = rest.split_once(" (external ") {
        return id(external.strip_suffix(')')?, What::External);
    }
    id(rest.rsplit('/').next()?, What::Installed)
}

/// Splits `name-version-hash`.
fn id<'a>(text: &'a str, what: What<'a>) -> Option<InstallerLine<'a>> {
    let (name, hash) = text.rsplit_once('-')?;
    // Where the name ends and the version begins, only the lock file knows.
    let is_package = hash.len() == HASH && is_hash(hash) && !name.contains(' ');
    is_package.then_some(InstallerLine { hash, name, what })
}

fn parse_sentence(rest: &str) -> Option<InstallerLine<'_>> {
    let first = |rest: &'_ str| rest.find(' ').unwrap_or(rest.len());
    if let Some(rest) = rest.strip_prefix("Installing ") {
        return id(&rest[..first(rest)], What::Phase(FETCHING));
    }
    if let Some(rest) = rest.strip_prefix("Extracting ") {
        return id(rest.strip_suffix(" from binary cache")?, What::Phase(RELOCATING));
    }
    if let Some(rest) = rest.strip_prefix("No binary for ") {
        return id(rest.strip_suffix(" found: installing from source")?, What::Phase(STAGING));
    }
    if let Some(rest) = rest.strip_prefix("Error: Failed to install ") {
        let (name, reason) = rest.split_once(" due to ")?;
        // What was written before may be read later: the name of the error alone is certain.
        let is_moved = NOT_MOVED.iter().any(|error| reason.starts_with(error));
        return named(name, if is_moved { What::NotMoved } else { What::Failed { log: None } });
    }
    let (name, phase) = rest.split_once(": Executing phase: '")?;
    named(name, What::Phase(phase.strip_suffix('\'')?))
}

fn named<'a>(name: &'a str, what: What<'a>) -> Option<InstallerLine<'a>> {
    let is_name = !name.is_empty() && !name.contains([' ', '/']);
    is_name.then_some(InstallerLine { hash: "", name, what })
}

fn is_hash(text: &str) -> bool {
    let is_digit = |c| matches!(c, 'a'..='z' | '2'..='7');
    (SHORT..=HASH).contains(&text.len()) && text.chars().all(is_digit)
}

/// `/tmp/stage/spack-stage-zlib-1.3.1-7yd…/spack-build-out.txt`: the installer before
/// 1.2 writes where the log of a package is when it has failed, and only then.
fn parse_log(line: &str) -> Option<InstallerLine<'_>> {
    let path = line.trim();
    let stage = path.strip_suffix("/spack-build-out.txt")?;
    let (_, stage) = stage.rsplit_once('/')?;
    let log = path.starts_with('/').then_some(path)?;
    id(stage.strip_prefix("spack-stage-")?, What::Failed { log: Some(log) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH_OF_ZLIB: &str = "7yd67ejnhjvxuscbc3qac43wi7xlnalv";

    fn what(line: &str) -> Option<What<'_>> {
        parse(line).map(|line| line.what)
    }

    #[test]
    fn a_phase_is_read_with_its_package() {
        assert_eq!(
            parse("[ ] nnle3nx mpich@4.0.2 configure (3s)"),
            Some(InstallerLine { hash: "nnle3nx", name: "mpich", what: What::Phase("configure") })
        );
    }

    #[test]
    fn a_phase_with_spaces_and_one_without_a_time_are_read() {
        assert_eq!(
            what("[ ] ern2rvi compiler-wrapper@1.1.0 fetching from build cache (1h02m)"),
            Some(What::Phase(FETCHING))
        );
        assert_eq!(what("[ ] ern2rvi lz4@1.10.0 staging"), Some(What::Phase(STAGING)));
    }

    #[test]
    fn how_much_was_fetched_is_left_out() {
        assert_eq!(
            what("[ ] ern2rvi lz4@1.10.0 fetching: 34% (2s)"),
            Some(What::Phase("fetching"))
        );
    }

    #[test]
    fn the_log_of_a_package_that_failed_is_read() {
        assert_eq!(
            what("[x] ern2rvi lz4@1.10.0 failed: /tmp/stage/spack-stage-lz4.log (2s)"),
            Some(What::Failed { log: Some("/tmp/stage/spack-stage-lz4.log") })
        );
    }

    #[test]
    fn packages_that_are_there_are_distinguished_from_those_of_the_system() {
        assert_eq!(what("[+] rowvn6w lz4@1.10.0 /user-environment/x (0s)"), Some(What::Installed));
        assert_eq!(what("[e] zirfsst glibc@2.36 /usr (0s)"), Some(What::External));
    }

    #[test]
    fn the_older_installer_is_understood() {
        let id = format!("zlib-1.3.1-{HASH_OF_ZLIB}");
        let line = format!("==> Installing {id} [3/10]");
        let parsed = parse(&line).unwrap();
        assert_eq!((parsed.hash, parsed.what), (HASH_OF_ZLIB, What::Phase(FETCHING)));
        for (line, expected) in [
            (format!("==> No binary for {id} found: installing from source"), What::Phase(STAGING)),
            (format!("==> Extracting {id} from binary cache"), What::Phase(RELOCATING)),
            ("==> zlib: Executing phase: 'build'".to_owned(), What::Phase("build")),
            (format!("[+] /store/linux-zen3/{id}"), What::Installed),
            (format!("[+] /usr (external {id})"), What::External),
            (
                "==> Error: Failed to install zlib due to ChildError: no".to_owned(),
                What::Failed { log: None },
            ),
        ] {
            assert_eq!(what(&line), Some(expected), "{line}");
        }
        let log = format!("/tmp/stage/spack-stage-{id}/spack-build-out.txt");
        let line = format!("  {log}");
        let parsed = parse(&line).unwrap();
        assert_eq!((parsed.hash, parsed.what), (HASH_OF_ZLIB, What::Failed { log: Some(&log) }));
    }

    #[test]
    fn the_older_installer_names_what_cannot_be_moved() {
        for error in ["CannotGrowString", "CannotShrinkCString"] {
            let line = format!("==> Error: Failed to install zlib due to {error}: Cannot replace");
            assert_eq!(what(&line), Some(What::NotMoved));
        }
    }

    #[test]
    fn everything_else_is_nothing() {
        for line in [
            "",
            "[ ]",
            "[ ] ",
            "[ ] é é é",
            "[ ] ern2rvi",
            "[ ] ern2rvi lz4",
            "[ ] ern2rvi lz4@1.10.0",
            "[ ] ERN2RVI lz4@1.10.0 build (0s)",
            "[ ] ern2rvi @1.10.0 build (0s)",
            "[x] ern2rvi lz4@1.10.0 gone",
            "[+] /usr/bin",
            "[+] /usr (external glibc",
            "[+] /usr/x-7yd67ejnhjvxuscbc3qac43wi7xlnal",
            "==> ",
            "/spack-build-out.txt",
            "/tmp/spack-stage-zlib/spack-build-out.txt",
            "==> Updating view at /user-environment/env/default",
            "==> Error: Failed to install due to",
            "==> a b: Executing phase: 'build'",
            "==> zlib: Executing phase: build",
            "é[x] ern2rvi lz4@1.10.0 failed",
            "checking for gcc... [+] yes",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_strange(line in "(\\[[ ex+]\\] |==> )?\\PC{0,80}") {
            let _ = parse(&line);
        }
    }
}
