// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs and libraries of the system that builds need.
//!
//! What no one wants for its own sake is taken from the system and never built. What
//! recipes hand to users may be built: Spack takes the system's where a recipe says
//! nothing else, and builds another version where it asks for one.

use crate::directories::{beside, prefix_of, program};
use crate::found::{External, Section};
use crate::machine::Machine;
use crate::python::{self, python};
use crate::version::{Version, signs};

/// How a tool is recognized.
pub(crate) struct Tool {
    package: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// What precedes the version. Someone else's program of the same name does
    /// not say it.
    mark: &'static str,
    /// Takes the version apart further; the variants that Spack would write.
    more: fn(&Machine, &str, &str) -> Option<String>,
    buildable: bool,
}

/// A tool that is never built.
const fn base(package: &'static str, program: &'static str, mark: &'static str) -> Tool {
    Tool {
        package,
        program,
        arguments: &["--version"],
        mark,
        more: |_, _, _| Some(String::new()),
        buildable: false,
    }
}

/// A tool that a recipe may want to have newer.
const fn wanted(package: &'static str, program: &'static str, mark: &'static str) -> Tool {
    Tool { buildable: true, ..base(package, program, mark) }
}

/// All tools, in the order in which they are written.
pub(crate) const TOOLS: &[Tool] = &[
    base("autoconf", "autoconf", "(GNU Autoconf) "),
    base("automake", "automake", "(GNU automake) "),
    base("bison", "bison", "bison (GNU Bison) "),
    wanted("cmake", "cmake", "cmake version "),
    base("coreutils", "md5sum", "(GNU coreutils) "),
    Tool { more: curl, ..wanted("curl", "curl", "curl ") },
    base("diffutils", "diff", "diff (GNU diffutils) "),
    base("file", "file", "file-"),
    base("findutils", "find", "find (GNU findutils) "),
    Tool { more: flex, ..base("flex", "flex", "flex ") },
    base("gawk", "gawk", "GNU Awk "),
    base("gettext", "gettext", "gettext (GNU gettext-runtime) "),
    Tool { more: git, ..wanted("git", "git", "git version ") },
    base("gmake", "make", "GNU Make "),
    base("groff", "groff", "GNU groff version "),
    base("libtool", "libtoolize", "(GNU libtool) "),
    base("m4", "m4", "(GNU M4) "),
    wanted("ninja", "ninja", ""),
    Tool { arguments: &["version"], more: openssl, ..wanted("openssl", "openssl", "OpenSSL ") },
    Tool { more: patchelf, ..wanted("patchelf", "patchelf", "patchelf ") },
    Tool { arguments: PERL, more: perl, ..base("perl", "perl", "version=") },
    Tool { more: is_pkgconf, ..base("pkgconf", "pkgconf", "") },
    Tool { more: is_pkg_config, ..base("pkg-config", "pkg-config", "") },
    Tool { more: python, arguments: python::VERSION, ..wanted("python", "python3", "Python ") },
    base("sed", "sed", "(GNU sed) "),
    base("tar", "tar", "tar (GNU tar) "),
    base("texinfo", "makeinfo", "(GNU texinfo) "),
];

/// Looks for one tool.
pub(crate) fn look(machine: &Machine, tool: &Tool) -> Option<External> {
    // Of Python there may be several, and the others are users' rather than the system's.
    let path = match tool.package {
        "python" => machine.program("/usr/bin/python3")?,
        _ => program(machine, tool.program)?,
    };
    let text = machine.ask(&path, tool.arguments)?;
    let version = Version::after(&text, tool.mark)?;
    let variants = (tool.more)(machine, &path, &text)?;
    Some(External {
        checks: checks(machine, tool.package, &version, &variants),
        variants,
        buildable: tool.buildable,
        ..External::new(Section::Tool, tool.package, version, path)
    })
}

/// Modules of Python that packages ask for.
const MODULES: [&str; 11] = [
    "bz2", "ctypes", "dbm", "lzma", "pyexpat", "readline", "sqlite3", "ssl", "tkinter", "uuid",
    "zlib",
];

fn checks(machine: &Machine, package: &str, version: &Version, variants: &str) -> Vec<String> {
    if package != "python" {
        return Vec::new();
    }
    let mut numbers = version.as_str().split('.');
    let (major, minor) = (numbers.next().unwrap_or("3"), numbers.next().unwrap_or("0"));
    let mut checks = vec![
        "a recipe that hands Python to its users names a version, such as python@3.13; \
         otherwise it gets this one, which is no part of the image"
            .to_owned(),
    ];
    if variants.contains("~pythoncmd") {
        let why = if machine.has("/usr/bin/python") {
            "/usr/bin/python is another Python"
        } else {
            "there is no /usr/bin/python"
        };
        checks.push(format!(
            "{why}, so packages that ask for python+pythoncmd, such as htop and bazel, build \
             another Python; install python-is-python3 or python-unversioned-command, and probe \
             again"
        ));
    }
    let is_missing = |module: &&str| variants.contains(&format!("~{module}"));
    let missing: Vec<&str> = MODULES.into_iter().filter(is_missing).collect();
    if let [first, ..] = missing.as_slice() {
        checks.push(format!(
            "it has no {}: packages that ask for python+{first} build another Python",
            missing.join(", ")
        ));
    }
    if !machine.has(&format!("/usr/include/python{major}.{minor}/Python.h")) {
        checks.push(
            "its headers are missing: install python3-dev or python3-devel, or remove this \
             entry if Python packages with C code are built"
                .to_owned(),
        );
    }
    checks
}

/// What Spack wants to know about a perl, in one query. It ends well in any case.
const PERL: &[&str] = &[
    "-MConfig",
    "-e",
    "printf qq{version=%vd\\nconfig=%s\\nopen=%d\\nopcode=%d\\n}, $^V, $Config{config_args}, \
     (eval q{use open OUT => qw(:raw); 1} ? 1 : 0), (eval q{use Opcode; 1} ? 1 : 0);",
];

fn perl(machine: &Machine, path: &str, text: &str) -> Option<String> {
    let has = |setting: &str| text.contains(setting);
    let parts = [
        ("cpanm", machine.has(&beside(path, "cpanm"))),
        ("opcode", has("opcode=1")),
        ("open", has("open=1")),
        ("shared", has("-Duseshrplib")),
        ("threads", has("-Dusethreads") || has("-Duseithreads") || has("-Duse5005threads")),
    ];
    Some(signs(&parts))
}

fn curl(machine: &Machine, path: &str, text: &str) -> Option<String> {
    if !has_header(machine, path, "curl/curl.h") {
        machine.note(path, "left out, its headers are missing: install libcurl's");
        return None;
    }
    let line = |begin: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>()
    };
    // Only what is there is listed; for the rest Spack's own defaults may be right.
    let parts = [
        ("+gssapi", line("Features:").contains(&"GSS-API")),
        ("+ldap", line("Protocols:").contains(&"ldap")),
        ("+nghttp2", text.contains("nghttp2")),
    ];
    Some(parts.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect())
}

fn openssl(machine: &Machine, path: &str, _: &str) -> Option<String> {
    if has_header(machine, path, "openssl/ssl.h") {
        return Some(String::new());
    }
    machine.note(path, "left out, its headers are missing: install libssl's");
    None
}

fn has_header(machine: &Machine, program: &str, header: &str) -> bool {
    let prefix = prefix_of(program);
    // Debian puts some of them below the name of the platform.
    let platforms = ["", "x86_64-linux-gnu/", "aarch64-linux-gnu/"];
    platforms.iter().any(|platform| machine.has(&format!("{prefix}/include/{platform}{header}")))
}

/// Release 0.18 misplaces what it moves: programs whose search path it has set do not
/// start any more.
fn patchelf(machine: &Machine, path: &str, text: &str) -> Option<String> {
    if text.contains("patchelf 0.18") {
        machine.note(path, "left out, patchelf 0.18 breaks programs");
        return None;
    }
    Some(String::new())
}

fn flex(machine: &Machine, path: &str, _: &str) -> Option<String> {
    Some(signs(&[("lex", machine.has(&beside(path, "lex")))]))
}

fn git(machine: &Machine, path: &str, _: &str) -> Option<String> {
    Some(signs(&[("tcltk", machine.has(&beside(path, "gitk")))]))
}

/// The two that go by the name `pkg-config` differ in how they help.
fn is_pkgconf(machine: &Machine, path: &str, _: &str) -> Option<String> {
    let help = machine.ask_anyway(path, &["--help"])?;
    help.text.contains("usage: pkgconf").then(String::new)
}

fn is_pkg_config(machine: &Machine, path: &str, _: &str) -> Option<String> {
    is_pkgconf(machine, path, "").is_none().then(String::new)
}
