// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The package for Spack: what differs is written here, and what installs it is always
//! the same text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_report::Result;

use crate::failed;
use crate::record::{Record, Recorded};

/// What installs a tarball.
const BODY: &str = include_str!("install.py");
/// What is reported of a tarball that is in a mirror only.
const NOWHERE: &str = "https://only-in-a-source-mirror.invalid";

/// Returns where the package of a name lies.
pub(crate) fn directory(repository: &Path, name: &str) -> PathBuf {
    repository.join("packages").join(name.replace('-', "_"))
}

/// Makes a directory a package repository if it is none and lies where Spack wants one,
/// in a directory `spack_repo`. Elsewhere it is of use to those who copy the packages.
pub(crate) fn save_repository(repository: &Path) -> Result<()> {
    let path = repository.join("repo.yaml");
    let repository = std::path::absolute(repository).map_err(failed("find", repository))?;
    let name = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
    let namespace = name(Some(&repository)).filter(|name| is_namespace(name));
    let (Some(namespace), Some("spack_repo"), false) =
        (namespace, name(repository.parent()).as_deref(), path.exists())
    else {
        return Ok(());
    };
    let text = format!("repo:\n  namespace: {namespace}\n  api: v2.0\n");
    fs::write(&path, text).map_err(failed("write", &path))
}

/// Tells whether a name is one of Python's.
fn is_namespace(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_word) && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns the package of all versions, the newest of which comes first.
pub(crate) fn package(records: &[Record]) -> String {
    let mut lines = Vec::new();
    let newest = records.first();
    let name = newest.map_or("", |record| &record.name);
    let description = newest.and_then(|record| record.description.clone());
    let description = description.unwrap_or_else(|| format!("{name}, as its vendor has built it"));
    if let Some(homepage) = newest.and_then(|record| record.homepage.as_ref()) {
        lines.push(format!("homepage = {}", quoted(homepage)));
        lines.push(String::new());
    }
    for record in records {
        version(&mut lines, record);
        lines.push(String::new());
    }
    variants(&mut lines, records);
    lines.push("provides(\"mpi\")".to_owned());
    // 0.18 breaks programs.
    lines.push("depends_on(\"patchelf@:0.17,0.19:\", type=\"build\")".to_owned());
    for record in records {
        lines.push(String::new());
        needs(&mut lines, record);
    }
    let directives: String = lines
        .iter()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    let body = BODY.split_once("# ---\n").map_or("", |(_, body)| body);
    body.replace("class VendorMpi(", &format!("class {}(", class(name)))
        .replace("\"What it is.\"", &quoted(&description))
        .replace("    # directives\n", &directives)
}

/// The version, whose source is the record, and its tarballs.
fn version(lines: &mut Vec<String>, record: &Record) {
    let version = &record.version;
    let digest = crate::contents::sha256(&mut std::io::Cursor::new(record.text()));
    let digest = digest.map(|(digest, _)| digest).unwrap_or_default();
    let file = record.file_name();
    lines.push(format!(
        "version({}, sha256=\"{digest}\", url=beside({}), expand=False)",
        quoted(version),
        quoted(&file)
    ));
    let place = record.url.as_deref().unwrap_or(NOWHERE);
    for (arch, tarballs) in &record.tarballs {
        for (compiler, tarball) in tarballs {
            let when =
                format!("@={version} target={arch}: {}", built_with(record, compiler, tarball));
            lines.push("resource(".to_owned());
            lines.push(format!("    name={},", quoted(&format!("{arch}-{compiler}"))));
            lines.push(format!("    when={},", quoted(&when)));
            lines.push(format!("    url={},", quoted(&format!("{place}/{}", tarball.file))));
            lines.push(format!("    sha256={},", quoted(&tarball.sha256)));
            lines.push("    placement=\"mpi\",".to_owned());
            lines.push(")".to_owned());
        }
    }
}

/// The compiler of the Fortran modules, or else the one of C.
fn built_with(record: &Record, compiler: &str, tarball: &Recorded) -> String {
    let language =
        if record.languages.iter().any(|one| one == "fortran") { "fortran" } else { "c" };
    match &tarball.versions {
        None => format!("%{language}={compiler}"),
        Some(versions) => format!("%{language}={compiler}@{versions}"),
    }
}

fn variants(lines: &mut Vec<String>, records: &[Record]) {
    let names: BTreeSet<&String> = records.iter().flat_map(|record| record.gpu.keys()).collect();
    for name in &names {
        let versions = records.iter().filter(|record| record.gpu.contains_key(*name));
        for record in versions {
            lines.push(format!(
                "variant({}, default=False, description=\"Transport between GPUs\", when=\"@={}\")",
                quoted(name),
                record.version
            ));
        }
    }
    for (at, one) in names.iter().enumerate() {
        for other in names.iter().skip(at + 1) {
            lines.push(format!(
                "conflicts(\"+{one}\", when=\"+{other}\", msg=\"it is either for {one} or for {other}\")"
            ));
        }
    }
    if !names.is_empty() {
        lines.push(String::new());
    }
}

fn needs(lines: &mut Vec<String>, record: &Record) {
    let when = format!("when=\"@={}\"", record.version);
    for language in &record.languages {
        lines.push(format!("depends_on(\"{language}\", type=\"build\", {when})"));
    }
    for spec in &record.depends {
        lines.push(format!("depends_on({}, type=\"link\", {when})", quoted(spec)));
    }
    for (name, specs) in &record.gpu {
        for spec in specs {
            lines.push(format!(
                "depends_on({}, type=\"link\", when=\"@={} +{name}\")",
                quoted(spec),
                record.version
            ));
        }
    }
    for (spec, why) in &record.conflicts {
        lines.push(format!("conflicts({}, {when}, msg={})", quoted(spec), quoted(why)));
    }
    let arches: Vec<String> =
        record.tarballs.keys().map(|arch| quoted(&format!("target={arch}:"))).collect();
    lines.push(format!(
        "requires({}, policy=\"any_of\", {when}, msg=\"there is no tarball for other processors\")",
        arches.join(", ")
    ));
    for (arch, tarballs) in &record.tarballs {
        let compilers: Vec<String> = tarballs
            .iter()
            .map(|(compiler, tarball)| quoted(&built_with(record, compiler, tarball)))
            .collect();
        lines.push(format!(
            "requires({}, policy=\"any_of\", when=\"@={} target={arch}:\", msg=\"there is no tarball for other compilers\")",
            compilers.join(", "),
            record.version
        ));
    }
}

/// Returns the name of the class: `VendorMpich` of `vendor-mpich`.
fn class(name: &str) -> String {
    let parts = name.split('-').map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    let class: String = parts.collect();
    if class.starts_with(|c: char| c.is_ascii_digit()) { format!("_{class}") } else { class }
}

/// Returns a text as it is written in Python, and in JSON as well.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
