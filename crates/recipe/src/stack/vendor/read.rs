// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The manifest, from a tree of values to data.

use super::paths::{placed, source, target, target_file};
use super::{
    Placed, Replacement, VendorCompiler, VendorEdit, VendorFiles, VendorGpu, VendorLanguage,
    VendorManifest, VendorPackage, VendorWrapper, keys,
};
use crate::ask::{Field, Section, each, instead};
use crate::diagnostic::quote;
use crate::node::{Entry, Node, Value};
use crate::report::Report;
use crate::stack::keys::names;
use crate::stack::mirrors::{part, text};
use crate::stack::spec_fields::{Wanted, spec, texts_of};

const EXAMPLE: &str = "begin with the name of the package in Spack: `name: vendor-mpich`";
const ARCHES: &[(&str, &str)] = &[("x86_64", "x86_64"), ("aarch64", "aarch64")];
const LANGUAGES: &[(&str, VendorLanguage)] =
    &[("c", VendorLanguage::C), ("cxx", VendorLanguage::Cxx), ("fortran", VendorLanguage::Fortran)];
/// The programs of compilers that Spack knows.
const PROGRAMS: &[(&str, [&str; 3])] = &[
    ("gcc", ["gcc", "g++", "gfortran"]),
    ("llvm", ["clang", "clang++", "flang"]),
    ("llvm-amdgpu", ["amdclang", "amdclang++", "amdflang"]),
    ("nvhpc", ["nvc", "nvc++", "nvfortran"]),
    ("intel-oneapi-compilers", ["icx", "icpx", "ifx"]),
    ("cce", ["craycc", "crayCC", "crayftn"]),
    ("aocc", ["clang", "clang++", "flang"]),
];

pub(in crate::stack) fn read(report: &mut Report<'_>, root: &Node) -> Option<VendorManifest> {
    let file = report.file(root, EXAMPLE)?;
    file.refuse_unknown(report, &names(keys::MANIFEST), |key| match key {
        "wrappers" => instead("it belongs to a compiler, below `compilers:`"),
        "compiler" => instead("did you mean `compilers`?"),
        _ => None,
    });
    let name = file.needed(report, "name", EXAMPLE, package);
    let version =
        file.needed(report, "version", "add the version of the MPI: `version: 8.1.32`", version);
    let arch = file.needed(
        report,
        "arch",
        "add for which processors it is: `arch: x86_64`",
        |report, field| report.choice(field, ARCHES),
    );
    let (description, homepage) =
        (line(report, &file, "description"), line(report, &file, "homepage"));
    let url = part(&file, "url", |field| url(report, field));
    let packages = packages(report, &file);
    let common = Common {
        files: files(report, &file),
        edits: edits(report, &file),
        links: links(report, &file),
    };
    let compilers = compilers(report, &file, &common);
    let depends = texts_of(report, &file, "depends", Wanted::Package);
    let conflicts = file.chosen(report, "conflicts", conflict);
    let gpu = file.chosen(report, "gpu", gpu);
    Some(VendorManifest {
        name: name?,
        version: version?,
        arch: arch?.to_owned(),
        description: description?,
        homepage: homepage?,
        url: url?,
        packages: packages?,
        compilers: compilers?,
        depends: depends?,
        conflicts: conflicts?,
        gpu: gpu?,
        path: report.source.file.to_owned(),
        text: report.source.text.to_owned(),
    })
}

/// What all compilers get.
struct Common {
    files: Option<Vec<VendorFiles>>,
    edits: Option<Vec<VendorEdit>>,
    links: Option<Vec<(Placed<String>, String)>>,
}

fn package(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_package = |text: &str| {
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        starts && text.chars().all(is_word) && !text.ends_with('-') && !text.contains("--")
    };
    let hint = "such a name has lower-case letters, digits and `-`, and begins with a letter";
    report.text_if(field, is_package, "is not the name of a package in Spack", hint)
}

fn version(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_version =
        |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_word);
    let hint = "a version has digits, letters, `.`, `_` and `-`, and begins with a digit";
    report.text_if(field, is_version, "is not a version", hint)
}

/// Reads a text of one line if it is given; the outer `None` says that it is wrong.
#[expect(clippy::option_option, reason = "missing is right, wrong is not")]
fn line(report: &mut Report<'_>, section: &Section<'_>, key: &str) -> Option<Option<String>> {
    part(section, key, |field| {
        let text = report.text(field)?.trim();
        if !text.contains(char::is_control) {
            return Some(text.to_owned());
        }
        let message = format!("{} must be a single line", field.name);
        report.refuse(field.place(), &message, "write one sentence")
    })
}

fn url(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let is_address = |text: &str| {
        let schemes = ["https://", "http://", "file:///", "s3://", "oci://"];
        !text.contains(|c: char| c.is_control() || c.is_whitespace())
            && schemes.iter().any(|scheme| text.starts_with(scheme))
    };
    let hint = "write the address below which the files lie: `url: https://…`";
    let url = report.text_if(field, is_address, "is not an address", hint)?;
    Some(url.trim_end_matches('/').to_owned())
}

fn packages(report: &mut Report<'_>, file: &Section<'_>) -> Option<Vec<VendorPackage>> {
    let hint = "add the packages:\npackages:\n  - file: cray-mpich-8.1.32.rpm\n    sha256: …";
    let field = file.require(report, "packages", hint)?;
    let packages = items(report, &field, "a package", package_of)?;
    if packages.is_empty() {
        return report.refuse(field.key_place, "there are no packages", hint);
    }
    Some(packages)
}

fn package_of(report: &mut Report<'_>, section: &Section<'_>) -> Option<VendorPackage> {
    section.refuse_unknown(report, &names(keys::PACKAGE), |_| None);
    let file = section
        .require(report, "file", "add its name: `file: cray-mpich-8.1.32.rpm`")
        .and_then(|field| {
            let path = target_file(report, &field)?;
            if !path.value.contains('/') {
                return Some(path);
            }
            let message = "the packages lie in one directory, so this is a name without `/`";
            let hint = "write the name; `--packages` says where the directory is";
            report.refuse(field.place(), message, hint)
        });
    let sha256 = section.needed(report, "sha256", "add what `sha256sum` prints for it", sha256);
    let url = part(section, "url", |field| url(report, field));
    Some(VendorPackage { file: file?, sha256: sha256?, url: url? })
}

fn sha256(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let is_sum = |text: &str| text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
    let hint = "it has 64 digits, as `sha256sum` prints them";
    report.text_if(field, is_sum, "is not a sha256", hint).map(|sum| sum.to_ascii_lowercase())
}

fn files(report: &mut Report<'_>, section: &Section<'_>) -> Option<Vec<VendorFiles>> {
    section.given_or(report, "files", Vec::new(), |report, field| {
        items(report, field, "files", files_of)
    })
}

fn files_of(report: &mut Report<'_>, section: &Section<'_>) -> Option<VendorFiles> {
    section.refuse_unknown(report, &names(keys::FILES), |_| None);
    let hint = "add what is taken: `from: usr/lib/libmpi.so*`";
    let from = section.require(report, "from", hint).and_then(|field| {
        if let Value::List(_) = field.node.value {
            return sources(report, &field);
        }
        source(report, &field).map(|one| vec![one])
    });
    let to = section
        .require(report, "to", "add where it goes in the tarball: `to: lib/`")
        .and_then(|field| Some((target(report, &field)?, field)));
    let except = section.given_or(report, "except", Vec::new(), sources);
    let (from, (to, field)) = (from?, to?);
    let is_directory = to.value.is_empty() || to.value.ends_with('/');
    let several = from.len() > 1 || from.iter().any(|one| one.value.contains(['*', '?']));
    if several && !is_directory {
        let message = "several files cannot all get one name";
        let hint = format!("write {} for a directory", quote(&format!("to: {}/", to.value)));
        return report.refuse(field.place(), message, hint.as_str());
    }
    Some(VendorFiles { from, to: to.value, except: except? })
}

fn sources(report: &mut Report<'_>, field: &Field<'_>) -> Option<Vec<Placed<String>>> {
    each(report.list(field)?, |item| source(report, &Field::item("a path", item)))
}

fn edits(report: &mut Report<'_>, section: &Section<'_>) -> Option<Vec<VendorEdit>> {
    section.chosen(report, "edit", |report, entry| {
        let file = key(report, entry, target_file)?;
        let field = Field::named("what is replaced in", entry);
        Some(VendorEdit { file, replace: items(report, &field, "a replacement", replacement)? })
    })
}

fn links(report: &mut Report<'_>, section: &Section<'_>) -> Option<Vec<(Placed<String>, String)>> {
    section.chosen(report, "links", |report, entry| {
        let name = key(report, entry, target_file)?;
        let is_name = |leads: &str| {
            !leads.starts_with('/') && !leads.is_empty() && !leads.contains(char::is_control)
        };
        let hint = "write the name of a file beside it, or a path relative to it";
        let field = Field::of(entry);
        Some((name, report.text_if(&field, is_name, "is not a name in the tarball", hint)?))
    })
}

/// Reads a key as if it were a value.
fn key<T>(
    report: &mut Report<'_>,
    entry: &Entry,
    read: impl FnOnce(&mut Report<'_>, &Field<'_>) -> Option<T>,
) -> Option<T> {
    use crate::node::{Kind, Scalar};
    let node = Node {
        place: entry.key_place,
        value: Value::Scalar(Scalar { text: entry.key.clone(), kind: Kind::Bare }),
    };
    read(report, &Field::item(quote(&entry.key), &node))
}

fn replacement(report: &mut Report<'_>, section: &Section<'_>) -> Option<Replacement> {
    section.refuse_unknown(report, &names(keys::REPLACEMENT), |key| {
        matches!(key, "replace" | "to" | "by").then(|| (None, "did you mean `with`?".to_owned()))
    });
    let find = section
        .require(report, "find", "add the text that is replaced: `find: prefix=/usr`")
        .and_then(|field| {
            let text = report.text(&field)?;
            if text.is_empty() {
                let hint = "write the text that is replaced";
                return report.refuse(field.place(), "there is nothing to find", hint);
            }
            Some(placed(&field, text))
        });
    let hint = "add what stands there instead: `with: prefix=$mpi_prefix`";
    let with = section.needed(report, "with", hint, Report::string);
    Some(Replacement { find: find?, with: with? })
}

fn compilers(
    report: &mut Report<'_>,
    file: &Section<'_>,
    common: &Common,
) -> Option<Vec<VendorCompiler>> {
    let hint = "add for which compilers it is:\ncompilers:\n  gcc:\n    wrappers: …";
    let field = file.require(report, "compilers", hint)?;
    let compilers = named(report, &field, |report, entry| compiler(report, entry, common))?;
    if compilers.is_empty() {
        return report.refuse(field.key_place, "there are no compilers", hint);
    }
    Some(compilers)
}

fn compiler(report: &mut Report<'_>, entry: &Entry, common: &Common) -> Option<VendorCompiler> {
    let name =
        key(report, entry, |report, field| package(report, field).map(|name| placed(field, &name)));
    let section =
        report.section_with(&Field::named("the compiler", entry), &names(keys::COMPILER))?;
    let versions = part(&section, "versions", |field| versions(report, field));
    let programs = programs(report, &section, &entry.key);
    let files = files(report, &section);
    let hint =
        "add its wrappers:\nwrappers:\n  mpicc: {from: usr/bin/mpicc, language: c, replace: []}";
    let wrappers =
        section.needed(report, "wrappers", hint, |report, field| named(report, field, wrapper));
    let (edits, links) = (edits(report, &section), links(report, &section));
    let [c, cxx, fortran] = programs?;
    Some(VendorCompiler {
        name: name?,
        versions: versions?,
        c,
        cxx,
        fortran,
        files: joined(common.files.as_ref(), files)?,
        wrappers: wrappers?,
        edits: joined(common.edits.as_ref(), edits)?,
        links: joined(common.links.as_ref(), links)?,
    })
}

/// What all compilers get, and what this one gets.
fn joined<T: Clone>(common: Option<&Vec<T>>, own: Option<Vec<T>>) -> Option<Vec<T>> {
    let mut all = common?.clone();
    all.extend(own?);
    Some(all)
}

fn versions(report: &mut Report<'_>, field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | ',' | '_' | '-');
    let is_range = |text: &str| !text.is_empty() && text.chars().all(is_word);
    let hint = "write one as in a spec: `versions: 12:`";
    report.text_if(field, is_range, "is no range of versions", hint)
}

/// Returns the compilers of the three languages: what is reported, or what is known.
fn programs(report: &mut Report<'_>, section: &Section<'_>, name: &str) -> Option<[String; 3]> {
    let known = PROGRAMS.iter().find(|(known, _)| *known == name);
    let mut configured = |key| text(report, section, key);
    let configured = [configured("c"), configured("cxx"), configured("fortran")];
    let mut programs: [String; 3] = Default::default();
    for (index, configured) in configured.into_iter().enumerate() {
        programs[index] = match (configured?, known) {
            (Some(configured), _) if is_program(&configured) => configured,
            (Some(configured), _) => {
                let message = format!("{} is not the name of a program", quote(&configured));
                return report.refuse(section.place, &message, "write one such as `c: gcc`");
            }
            (None, Some((_, known))) => known[index].to_owned(),
            (None, None) => {
                let message = format!("the names of the programs of {} are unknown", quote(name));
                let hint = "add them: `c: icc`, `cxx: icpc`, `fortran: ifort`";
                return report.refuse(section.place, &message, hint);
            }
        };
    }
    Some(programs)
}

fn is_program(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '/');
    !text.is_empty() && text.chars().all(is_word)
}

fn wrapper(report: &mut Report<'_>, entry: &Entry) -> Option<VendorWrapper> {
    let name = key(report, entry, |report, field| {
        let name = target_file(report, field)?;
        if !name.value.contains('/') {
            return Some(name);
        }
        let message = "a wrapper lies in `bin`, so this is a name without `/`";
        report.refuse(field.place(), message, None)
    });
    let section =
        report.section_with(&Field::named("the wrapper", entry), &names(keys::WRAPPER))?;
    let from = section
        .require(report, "from", "add its path in the packages: `from: usr/bin/mpicc`")
        .and_then(|field| {
            let path = source(report, &field)?;
            if !path.value.contains(['*', '?']) {
                return Some(path);
            }
            report.refuse(field.place(), "a wrapper is one file, without `*` and `?`", None)
        });
    let language = section.needed(
        report,
        "language",
        "add the language of its compiler: `language: c`",
        |report, field| report.choice(field, LANGUAGES),
    );
    let hint = "add what must not stay as it is:\nreplace:\n  - find: prefix=/usr\n    with: prefix=$mpi_prefix";
    let replace = section.needed(report, "replace", hint, |report, field| {
        items(report, field, "a replacement", replacement)
    });
    Some(VendorWrapper { name: name?, from: from?, language: language?, replace: replace? })
}

fn conflict(report: &mut Report<'_>, entry: &Entry) -> Option<(String, String)> {
    let spec = key(report, entry, |report, field| {
        let field = Field::item("a spec", field.node);
        spec(report, field, Wanted::Anything).map(|item| item.text.to_owned())
    })?;
    let why = report.text(&Field::of(entry))?.trim().to_owned();
    Some((spec, why))
}

fn gpu(report: &mut Report<'_>, entry: &Entry) -> Option<VendorGpu> {
    let name = key(report, entry, package);
    let section = report.section_with(&Field::named("the variant", entry), &names(keys::GPU))?;
    let depends = texts_of(report, &section, "depends", Wanted::Package);
    let files = section.given_or(report, "files", Vec::new(), sources);
    let link = section.given_or(report, "link", Vec::new(), libraries);
    Some(VendorGpu { name: name?.replace('-', "_"), depends: depends?, files: files?, link: link? })
}

fn libraries(report: &mut Report<'_>, field: &Field<'_>) -> Option<Vec<String>> {
    each(report.list(field)?, |item| {
        let field = Field::item("a library", item);
        let text = report.text(&field)?;
        let meant = text.strip_prefix("-l").or_else(|| text.strip_prefix("lib"));
        let meant = meant.map(|name| name.split(".so").next().unwrap_or(name));
        if meant.is_none() && is_program(text) && !text.contains('/') {
            return Some(text.to_owned());
        }
        let message = format!("{} is not the name of a library", quote(text));
        let hint = meant.map_or_else(
            || "write it as behind `-l`".to_owned(),
            |meant| format!("write it as behind `-l`: {}", quote(meant)),
        );
        report.refuse(field.place(), &message, hint.as_str())
    })
}

/// Reads a list of sections.
fn items<T>(
    report: &mut Report<'_>,
    field: &Field<'_>,
    name: &str,
    read: impl Fn(&mut Report<'_>, &Section<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    each(report.list(field)?, |item| {
        let section = report.section(&Field::item(name, item))?;
        read(report, &section)
    })
}

/// Reads a section with names that the author chose.
fn named<T>(
    report: &mut Report<'_>,
    field: &Field<'_>,
    read: impl Fn(&mut Report<'_>, &Entry) -> Option<T>,
) -> Option<Vec<T>> {
    let section = report.section(field)?;
    let entries = section.entries;
    each(entries, |entry| read(report, entry))
}
