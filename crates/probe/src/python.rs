// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The system's Python: which of its modules are there.

use crate::directories::beside;
use crate::machine::Machine;
use crate::version::{Version, signs};

/// What prints the version alone.
pub(crate) const VERSION: &[&str] = &["-I", "-S", "-V"];

/// Whether the program `python` beside an interpreter is the same version. It may be a link to an
/// older Python, and then packages that call `python` need another one.
pub(crate) fn has_python_command(machine: &Machine, path: &str, version: &Version) -> bool {
    let Some(python) = machine.program(&beside(path, "python")) else { return false };
    let text = machine.ask(&python, VERSION);
    text.and_then(|text| Version::after(&text, "Python ")).as_ref() == Some(version)
}

/// Says which modules can be imported. Each is tried alone: one may end the interpreter
/// only by an exception.
const SCRIPT: &str = "\
import sys
for n in 'readline sqlite3 dbm zlib bz2 lzma ctypes tkinter uuid ssl hashlib \
xml.parsers.expat xml.etree.ElementTree tkinter.tix compression.zstd crypt'.split():
    try:
        __import__(n)
        print('has', n)
    except Exception:
        pass
";

/// Returns the variants as Spack names them.
pub(crate) fn python(machine: &Machine, path: &str, text: &str) -> Option<String> {
    let version = Version::after(text, "Python ")?;
    let pythoncmd = has_python_command(machine, path, &version);
    let mut numbers = version.as_str().split('.').map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next()?, numbers.next()?);
    let answer = machine.ask(path, &["-I", "-W", "ignore", "-c", SCRIPT])?;
    let modules: Vec<&str> = answer.lines().filter_map(|line| line.strip_prefix("has ")).collect();
    let has = |name: &&str| modules.contains(name);
    let all = |names: &[&str]| names.iter().all(has);
    let mut parts = vec![
        ("bz2", has(&"bz2")),
        ("crypt", has(&"crypt")),
        ("ctypes", has(&"ctypes")),
        ("dbm", has(&"dbm")),
        ("freethreading", false),
        ("lzma", has(&"lzma")),
        ("pyexpat", all(&["xml.parsers.expat", "xml.etree.ElementTree"])),
        ("pythoncmd", pythoncmd),
        ("readline", has(&"readline")),
        ("sqlite3", has(&"sqlite3")),
        ("ssl", all(&["ssl", "hashlib"])),
        ("tix", has(&"tkinter.tix")),
        ("tkinter", has(&"tkinter")),
        ("uuid", has(&"uuid")),
        ("zlib", has(&"zlib")),
        ("zstd", has(&"compression.zstd")),
    ];
    // Variants that the package has not got in every version.
    parts.retain(|(name, _)| match *name {
        "crypt" => version < (3, 13),
        "freethreading" => version >= (3, 13),
        "tix" => has(&"tkinter"),
        "zstd" => version >= (3, 14),
        _ => true,
    });
    Some(signs(&parts))
}
