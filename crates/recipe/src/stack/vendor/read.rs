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

pub(in crate::stack) fn read(report: &Report<'_>, root: &Node) -> Option<VendorManifest> {
    let file = report.file(root, EXAMPLE)?;
    file.refuse_unknown(&names(keys::MANIFEST), |key| match key {
        "wrappers" => instead("it belongs to a compiler, below `compilers:`"),
        "compiler" => instead("did you mean `compilers`?"),
        _ => None,
    });
    let name = file.needed("name", EXAMPLE, package);
    let version = file.needed("version", "add the version of the MPI: `version: 8.1.32`", version);
    let arch = file.needed("arch", "add for which processors it is: `arch: x86_64`", |field| {
        field.choice(ARCHES)
    });
    let (description, homepage) = (line(&file, "description"), line(&file, "homepage"));
    let url = file.optional("url", url);
    let packages = packages(&file);
    let common = Common { files: files(&file), edits: edits(&file), links: links(&file) };
    let compilers = compilers(&file, &common);
    let environment = file.chosen("environment", variable);
    let depends = texts_of(&file, "depends", Wanted::Package);
    let conflicts = file.chosen("conflicts", conflict);
    let gpu = file.chosen("gpu", gpu);
    Some(VendorManifest {
        name: name?,
        version: version?,
        arch: arch?.to_owned(),
        description: description?,
        homepage: homepage?,
        url: url?,
        packages: packages?,
        compilers: compilers?,
        environment: environment?,
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

fn package(field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_package = |text: &str| {
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        starts && text.chars().all(is_word) && !text.ends_with('-') && !text.contains("--")
    };
    let hint = "such a name has lower-case letters, digits and `-`, and begins with a letter";
    field.text_if(is_package, "is not the name of a package in Spack", hint)
}

fn version(field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_version =
        |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_word);
    let hint = "a version has digits, letters, `.`, `_`, and `-`, and begins with a digit";
    field.text_if(is_version, "is not a version", hint)
}

/// Reads a text of one line if it is given; the outer `None` says that it is wrong.
#[expect(clippy::option_option, reason = "missing is right, wrong is not")]
fn line(section: &Section<'_>, key: &str) -> Option<Option<String>> {
    section.optional(key, |field| {
        let text = field.text()?.trim();
        if !text.contains(char::is_control) {
            return Some(text.to_owned());
        }
        let message = format!("{} must be a single line", field.name);
        field.refuse(&message, "write one sentence")
    })
}

fn url(field: &Field<'_>) -> Option<String> {
    let is_address = |text: &str| {
        let schemes = ["https://", "http://", "file:///", "s3://", "oci://"];
        !text.contains(|c: char| c.is_control() || c.is_whitespace())
            && schemes.iter().any(|scheme| text.starts_with(scheme))
    };
    let hint = "write the address below which the files lie: `url: https://…`";
    let url = field.text_if(is_address, "is not an address", hint)?;
    Some(url.trim_end_matches('/').to_owned())
}

fn packages(file: &Section<'_>) -> Option<Vec<VendorPackage>> {
    let hint = "add the packages:\npackages:\n  - file: cray-mpich-8.1.32.rpm\n    sha256: …";
    let field = file.require("packages", hint)?;
    let packages = items(&field, "a package", package_of)?;
    if packages.is_empty() {
        return file.report.refuse(field.key_place, "there are no packages", hint);
    }
    Some(packages)
}

fn package_of(section: &Section<'_>) -> Option<VendorPackage> {
    section.refuse_unknown(&names(keys::PACKAGE), |_| None);
    let file =
        section.require("file", "add its name: `file: cray-mpich-8.1.32.rpm`").and_then(|field| {
            let path = target_file(&field)?;
            if !path.value.contains('/') {
                return Some(path);
            }
            let message = "the packages are in one directory, so this is a name without `/`";
            let hint = "write the name; `--packages` says where the directory is";
            field.refuse(message, hint)
        });
    let sha256 = section.needed("sha256", "add what `sha256sum` prints for it", sha256);
    let url = section.optional("url", url);
    Some(VendorPackage { file: file?, sha256: sha256?, url: url? })
}

fn sha256(field: &Field<'_>) -> Option<String> {
    let is_sum = |text: &str| text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
    let hint = "it has 64 digits, as `sha256sum` prints them";
    field.text_if(is_sum, "is not a sha256", hint).map(|sum| sum.to_ascii_lowercase())
}

fn files(section: &Section<'_>) -> Option<Vec<VendorFiles>> {
    section.given_or("files", Vec::new(), |field| items(field, "files", files_of))
}

fn files_of(section: &Section<'_>) -> Option<VendorFiles> {
    section.refuse_unknown(&names(keys::FILES), |_| None);
    let hint = "add what is taken: `from: usr/lib/libmpi.so*`";
    let from = section.require("from", hint).and_then(|field| {
        if let Value::List(_) = field.node.value {
            return sources(&field);
        }
        source(&field).map(|one| vec![one])
    });
    let to = section
        .require("to", "add where it goes in the tarball: `to: lib/`")
        .and_then(|field| Some((target(&field)?, field)));
    let except = section.given_or("except", Vec::new(), sources);
    let (from, (to, field)) = (from?, to?);
    let is_directory = to.value.is_empty() || to.value.ends_with('/');
    let several = from.len() > 1 || from.iter().any(|one| one.value.contains(['*', '?']));
    if several && !is_directory {
        let message = "several files cannot all get one name";
        let hint = format!("write {} for a directory", quote(&format!("to: {}/", to.value)));
        return field.refuse(message, hint.as_str());
    }
    Some(VendorFiles { from, to: to.value, except: except? })
}

fn sources(field: &Field<'_>) -> Option<Vec<Placed<String>>> {
    each(field.items("a path")?, |item| source(&item))
}

fn edits(section: &Section<'_>) -> Option<Vec<VendorEdit>> {
    section.chosen("edit", |report, entry| {
        let file = key(report, entry, target_file)?;
        let field = Field::named(section.report, "what is replaced in", entry);
        Some(VendorEdit { file, replace: items(&field, "a replacement", replacement)? })
    })
}

fn links(section: &Section<'_>) -> Option<Vec<(Placed<String>, String)>> {
    section.chosen("links", |report, entry| {
        let name = key(report, entry, target_file)?;
        let is_name = |leads: &str| {
            !leads.starts_with('/') && !leads.is_empty() && !leads.contains(char::is_control)
        };
        let hint = "write the name of a file beside it, or a path relative to it";
        let field = Field::of(section.report, entry);
        Some((name, field.text_if(is_name, "is not a name in the tarball", hint)?))
    })
}

/// Reads a key as if it were a value.
fn key<T>(
    report: &Report<'_>,
    entry: &Entry,
    read: impl FnOnce(&Field<'_>) -> Option<T>,
) -> Option<T> {
    use crate::node::{Kind, Scalar};
    let node = Node {
        place: entry.key_place,
        value: Value::Scalar(Scalar { text: entry.key.clone(), kind: Kind::Bare }),
    };
    read(&Field::item(report, quote(&entry.key), &node))
}

fn replacement(section: &Section<'_>) -> Option<Replacement> {
    section.refuse_unknown(&names(keys::REPLACEMENT), |key| {
        matches!(key, "replace" | "to" | "by").then(|| (None, "did you mean `with`?".to_owned()))
    });
    let find = section
        .require("find", "add the text that is replaced: `find: prefix=/usr`")
        .and_then(|field| {
            let text = field.text()?;
            if text.is_empty() {
                let hint = "write the text that is replaced";
                return field.refuse("there is nothing to find", hint);
            }
            Some(placed(&field, text))
        });
    let hint = "add what is there instead: `with: prefix=$mpi_prefix`";
    let with = section.needed("with", hint, Field::string);
    Some(Replacement { find: find?, with: with? })
}

fn compilers(file: &Section<'_>, common: &Common) -> Option<Vec<VendorCompiler>> {
    let hint = "add for which compilers it is:\ncompilers:\n  gcc:\n    wrappers: …";
    let field = file.require("compilers", hint)?;
    let compilers = named(&field, |report, entry| compiler(report, entry, common))?;
    if compilers.is_empty() {
        return file.report.refuse(field.key_place, "there are no compilers", hint);
    }
    Some(compilers)
}

fn compiler(report: &Report<'_>, entry: &Entry, common: &Common) -> Option<VendorCompiler> {
    let name = key(report, entry, |field| package(field).map(|name| placed(field, &name)));
    let section =
        Field::named(report, "the compiler", entry).section_with(&names(keys::COMPILER))?;
    let versions = section.optional("versions", versions);
    let programs = programs(&section, &entry.key);
    let files = files(&section);
    let wrappers = wrappers(&section);
    let (edits, links) = (edits(&section), links(&section));
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

/// Reads the wrappers. Without any, nothing can be compiled with the MPI, so that must be wanted.
fn wrappers(section: &Section<'_>) -> Option<Vec<VendorWrapper>> {
    let is_wanted = section.given_or("runtime_only", false, Field::truth)?;
    let hint = "add them:\nwrappers:\n  mpicc: {from: usr/bin/mpicc, language: c}\n\
                or write `runtime_only: true` if programs are only run with this MPI";
    let Some(field) = section.given("wrappers") else {
        let message = "without `wrappers`, no program can be compiled with this MPI";
        return if is_wanted {
            Some(Vec::new())
        } else {
            section.report.refuse(section.place, message, hint)
        };
    };
    let wrappers = named(&field, wrapper)?;
    match (wrappers.is_empty(), is_wanted) {
        (true, false) => {
            let message = "without `wrappers`, no program can be compiled with this MPI";
            field.refuse(message, hint)
        }
        (false, true) => {
            let message = "`wrappers` contradict `runtime_only: true`";
            field.refuse(message, "remove one of the two")
        }
        _ => Some(wrappers),
    }
}

/// Reads a variable. Its value is written into scripts, between double quotes.
fn variable(report: &Report<'_>, entry: &Entry) -> Option<(String, String)> {
    let is_name = |text: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.chars().all(is_word) && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    let name = key(report, entry, |field| {
        let hint = "use letters, digits, and `_`, such as `OPAL_PREFIX`";
        field.text_if(is_name, "is not the name of a variable", hint)
    });
    let is_value = |text: &str| {
        let rest = text.replace("$mpi_prefix", "");
        !rest.contains(char::is_control) && !rest.contains(['$', '"', '`', '\\'])
    };
    let hint = "write it without `\"`, `` ` ``, and `\\`; the only variable in it is `$mpi_prefix`";
    let value = Field::of(report, entry).text_if(is_value, "cannot be the value", hint);
    Some((name?, value?))
}

/// What all compilers get, and what this one gets.
fn joined<T: Clone>(common: Option<&Vec<T>>, own: Option<Vec<T>>) -> Option<Vec<T>> {
    let mut all = common?.clone();
    all.extend(own?);
    Some(all)
}

fn versions(field: &Field<'_>) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | ',' | '_' | '-');
    let is_range = |text: &str| !text.is_empty() && text.chars().all(is_word);
    let hint = "write one as in a spec: `versions: 12:`";
    field.text_if(is_range, "is not a range of versions", hint)
}

/// Returns the compilers of the three languages: what is reported, or what is known.
fn programs(section: &Section<'_>, name: &str) -> Option<[String; 3]> {
    let known = PROGRAMS.iter().find(|(known, _)| *known == name);
    let configured = |key| section.optional(key, Field::string);
    let configured = [configured("c"), configured("cxx"), configured("fortran")];
    let mut programs: [String; 3] = Default::default();
    for (index, configured) in configured.into_iter().enumerate() {
        programs[index] = match (configured?, known) {
            (Some(configured), _) if is_program(&configured) => configured,
            (Some(configured), _) => {
                let message = format!("{} is not the name of a program", quote(&configured));
                return section.report.refuse(
                    section.place,
                    &message,
                    "write one such as `c: gcc`",
                );
            }
            (None, Some((_, known))) => known[index].to_owned(),
            (None, None) => {
                let message = format!("the names of the programs of {} are unknown", quote(name));
                let hint = "add them: `c: icc`, `cxx: icpc`, `fortran: ifort`";
                return section.report.refuse(section.place, &message, hint);
            }
        };
    }
    Some(programs)
}

fn is_program(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '/');
    !text.is_empty() && text.chars().all(is_word)
}

fn wrapper(report: &Report<'_>, entry: &Entry) -> Option<VendorWrapper> {
    let name = key(report, entry, |field| {
        let name = target_file(field)?;
        if !name.value.contains('/') {
            return Some(name);
        }
        let message = "a wrapper is in `bin`, so this is a name without `/`";
        field.refuse(message, None)
    });
    let section = Field::named(report, "the wrapper", entry).section_with(&names(keys::WRAPPER))?;
    let from = section
        .require("from", "add its path in the packages: `from: usr/bin/mpicc`")
        .and_then(|field| {
            let path = source(&field)?;
            if !path.value.contains(['*', '?']) {
                return Some(path);
            }
            field.refuse("a wrapper is one file, without `*` and `?`", None)
        });
    let language =
        section.needed("language", "add the language of its compiler: `language: c`", |field| {
            field.choice(LANGUAGES)
        });
    let replace =
        section.given_or("replace", Vec::new(), |field| items(field, "a replacement", replacement));
    let data = section.optional("data", target_file);
    Some(VendorWrapper {
        name: name?,
        from: from?,
        language: language?,
        replace: replace?,
        data: data?,
    })
}

fn conflict(report: &Report<'_>, entry: &Entry) -> Option<(String, String)> {
    let spec = key(report, entry, |field| {
        let field = Field::item(report, "a spec", field.node);
        spec(field, Wanted::Anything).map(|item| item.text.to_owned())
    })?;
    let why = Field::of(report, entry).text()?.trim().to_owned();
    Some((spec, why))
}

fn gpu(report: &Report<'_>, entry: &Entry) -> Option<VendorGpu> {
    let name = key(report, entry, package);
    let section = Field::named(report, "the variant", entry).section_with(&names(keys::GPU))?;
    let depends = texts_of(&section, "depends", Wanted::Package);
    let files = section.given_or("files", Vec::new(), sources);
    let link = section.given_or("link", Vec::new(), libraries);
    Some(VendorGpu { name: name?.replace('-', "_"), depends: depends?, files: files?, link: link? })
}

fn libraries(field: &Field<'_>) -> Option<Vec<String>> {
    each(field.items("a library")?, |field| {
        let text = field.text()?;
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
        field.refuse(&message, hint.as_str())
    })
}

/// Reads a list of sections.
fn items<T>(
    field: &Field<'_>,
    name: &str,
    read: impl Fn(&Section<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    each(field.items(name)?, |item| read(&item.section()?))
}

/// Reads a section with names that the author chose.
fn named<T>(field: &Field<'_>, read: impl Fn(&Report<'_>, &Entry) -> Option<T>) -> Option<Vec<T>> {
    each(field.section()?.entries, |entry| read(field.report, entry))
}
