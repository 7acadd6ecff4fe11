// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The keys of the files: what they are called, what they hold, what holds
//! without them.
//!
//! The parser refuses every key that is not in these tables, and the schemas for
//! editors are made from them, so that the two cannot differ.

/// A key of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) is_required: bool,
    /// What holds without it, in words or as it would be written.
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Text,
    Truth,
    /// One of a few words, or `true` and `false`.
    Choice(&'static [&'static str]),
    Texts,
    /// Keys of their own.
    Keys(&'static [Key]),
    /// Names that the author chooses, each with these keys.
    Named(&'static [Key]),
    /// A text, or a list of texts.
    TextOrTexts,
    /// A list, each item of which has these keys.
    Items(&'static [Key]),
    /// Names that the author chooses, each with such a list.
    NamedItems(&'static [Key]),
    /// Names that the author chooses, each with a list of texts.
    NamedTexts,
    /// Names that the author chooses, each with a text.
    NamedText,
    /// A list of variables with their values; whether a value may be missing.
    Variables(bool),
    /// A text, or keys of their own.
    TextOrKeys(&'static [Key]),
    /// One package repository, or several with names.
    Packages,
    /// Whatever Spack understands.
    Anything,
}

/// Returns the names of keys.
pub(crate) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

pub(super) const fn key(
    name: &'static str,
    shape: Shape,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { name, shape, is_required: false, default, about }
}

/// Declares tables of keys: what a key is for, its name, its shape, and its default, or `required`.
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])* $visibility:vis const $table:ident = {
            $($(#[doc = $about:literal])+ $name:literal: $shape:expr, $($default:literal)? $($required:ident)?;)+
        };
    )+) => {
        $(
            $(#[doc = $doc])*
            $visibility const $table: &[$crate::stack::keys::Key] = {
                #[allow(clippy::enum_glob_use, unused_imports, reason = "tables name shapes only")]
                use $crate::stack::keys::Shape::*;
                &[$($crate::stack::keys::Key {
                    name: $name,
                    shape: $shape,
                    is_required: !stringify!($($required)?).is_empty(),
                    default: concat!($($default)?),
                    about: concat!($($about),+).trim_ascii_start(),
                }),+]
            };
        )+
    };
}
pub(crate) use keys;

keys! {
    /// Where packages of Spack come from.
    pub(crate) const PACKAGE_REPOSITORY = {
        /// the address of a Git repository, or the path of a clone
        "repo": Text, required;
        /// a branch, a tag or a commit
        "commit": Text, "what the repository has by default";
        /// where in there the package repository lies
        "path": Text, "repos/spack_repo/ and its name";
    };

    const SPACK = {
        /// the address of a Git repository, or the path of a clone
        "repo": Text, required;
        /// a branch, a tag or a commit
        "commit": Text, "what the repository has by default";
        /// the package repository, or several with names
        "packages": Packages, required;
    };

    const FIGURE = {
        /// its name, such as `bandwidth`
        "name": Text, required;
        /// a regular expression whose first group is the number
        "pattern": Text, required;
        /// its unit, such as `MB/s`
        "unit": Text, "none";
        /// a number, or a number for each system
        "reference": Anything, "the number is recorded only";
        /// how far below the reference it may be, such as `-10%`
        "lower": Text, "no limit";
        /// how far above the reference it may be, such as `10%`
        "upper": Text, "no limit";
    };

    const CHECK = {
        /// its name; needed without `builtin`
        "name": Text, "none";
        /// a command for the shell, or a program and its arguments; needed without `builtin`
        "command": TextOrTexts, "none";
        /// the built-in check that is changed
        "builtin": Text, "none";
        /// names that the built-in check leaves out
        "except": Texts, "[]";
        /// whether the built-in check is left out
        "skip": Truth, "false";
        /// why
        "reason": Text, "none";
        /// the view in which it runs
        "view": Text, "the default view";
        /// how many ranks run it
        "ranks": Text, "1";
        /// the exit code that it must have
        "exit-code": Text, "0";
        /// a regular expression that must match its output
        "expect": Text, "any output";
        /// after which time it is stopped, such as `5m`
        "limit": Text, "10m";
        /// numbers in its output
        "figures": Items(FIGURE), "[]";
    };

    /// `config.yaml` of a recipe for Spack.
    pub(crate) const CONFIG = {
        /// the name of the image
        "name": Text, required;
        /// the version of the recipe format
        "version": Choice(&["1", "2", "3"]), "1";
        /// who builds the image
        "engine": Choice(&["spack"]), "spack";
        /// where the image is mounted
        "store": Text, "/user-environment";
        /// a sentence for those who look for an image
        "description": Text, "none";
        /// the view that is entered when none is requested
        "default-view": Text, "none";
        /// commands that tell whether the image works
        "checks": Items(CHECK), "[]";
        /// whether debug symbols stay in the image, or can be in an image of their own
        "debug-symbols": Choice(&["keep", "separate"]), "keep";
        /// where Spack and its packages come from
        "spack": Keys(SPACK), required;
        /// whether there are module files
        "modules": Truth, "whether there is a modules.yaml";
        /// the image on which it is built, by its label or digest
        "base": Text, "none";
        /// what is removed after the build
        "cleanup": Choice(&["none", "build", "runtime"]), "none";
    };

    const COMPILER = {
        /// its version, such as `"14.2"`, or `system` for that of the system
        "version": Text, required;
        /// variants in the place of the usual ones
        "spec": Text, "usual variants";
    };

    /// `compilers.yaml`.
    pub(crate) const COMPILERS = {
        /// the GNU compilers; every recipe has them
        "gcc": Keys(COMPILER), required;
        /// the compilers of NVIDIA
        "nvhpc": Keys(COMPILER), "none";
        /// clang and flang
        "llvm": Keys(COMPILER), "none";
        /// the compilers of AMD for GPUs
        "llvm-amdgpu": Keys(COMPILER), "none";
        /// the compilers of Intel
        "intel-oneapi-compilers": Keys(COMPILER), "none";
        /// the compilers of Arm
        "acfl": Keys(COMPILER), "none";
        /// the compilers of AMD for processors
        "aocc": Keys(COMPILER), "none";
        /// the compilers of HPE Cray
        "cce": Keys(COMPILER), "none";
        /// the compilers of Fujitsu
        "fj": Keys(COMPILER), "none";
        /// the earlier compilers of Intel
        "intel-oneapi-compilers-classic": Keys(COMPILER), "none";
        /// the Fortran compiler of NAG
        "nag": Keys(COMPILER), "none";
        /// the compilers of IBM
        "xl": Keys(COMPILER), "none";
    };

    const NETWORK = {
        /// the spec of the MPI; the system must have it
        "mpi": Text, "no MPI";
        /// what is installed beside the MPI
        "specs": Texts, "those of the system";
    };

    const DUPLICATES = {
        /// how often a package may occur below one spec
        "strategy": Choice(&["minimal", "full", "none"]), required;
    };

    const ENV_VARS = {
        /// variables to set; without a value, to unset
        "set": Variables(true), "[]";
        /// paths to put before the others of a list
        "prepend_path": Variables(false), "[]";
        /// paths to put behind the others of a list
        "append_path": Variables(false), "[]";
    };

    /// `uenv:` of a view.
    pub(crate) const VIEW_UENV = {
        /// whether the compilers of the environment are linked
        "add_compilers": Truth, "true";
        /// variables that get directories of the view, if these exist
        "prefix_paths": NamedTexts, "{}";
        /// other variables that the view changes
        "env_vars": Keys(ENV_VARS), "{}";
    };

    /// A view of an environment.
    pub(crate) const VIEW = {
        /// which packages are linked
        "link": Choice(&["roots", "all", "run"]), "roots";
        /// only packages that satisfy one of these specs
        "select": Texts, "all";
        /// no packages that satisfy one of these specs
        "exclude": Texts, "[]";
        /// where packages are put, by spec
        "projections": NamedText, "{}";
        /// what Cabane adds to the view
        "uenv": Keys(VIEW_UENV), "{}";
    };

    /// An environment.
    pub(crate) const ENVIRONMENT = {
        /// its compilers; the first is used where a spec says nothing
        "compiler": Texts, required;
        /// what is installed
        "specs": Texts, required;
        /// the MPI
        "network": Keys(NETWORK), "no MPI";
        /// whether packages are the same for all specs
        "unify": Choice(&["true", "false", "when_possible"]), "true";
        /// how often a package may occur
        "duplicates": Keys(DUPLICATES), "{strategy: minimal}";
        /// whether deprecated versions may be used
        "deprecated": Truth, "false";
        /// variants that all packages prefer
        "variants": Texts, "[]";
        /// what all packages prefer
        "prefer": Texts, "the first compiler";
        /// packages that are looked for on the system, in format 2
        "packages": Texts, "[]";
        /// its views
        "views": Named(VIEW), "{}";
    };
}

/// What environments have in format 1.
pub(crate) const ENVIRONMENT_ONE: &[&str] =
    &["compiler", "specs", "mpi", "unify", "deprecated", "variants", "packages", "views"];

keys! {
    /// `modules.yaml`.
    pub(crate) const MODULES = {
        /// what Spack understands below `modules:`
        "modules": Anything, required;
    };

    /// `packages.yaml` of a recipe or a system.
    pub(crate) const PACKAGES = {
        /// what Spack understands below `packages:`
        "packages": Anything, required;
    };

    const MPI = {
        /// what is installed beside this MPI
        "specs": Texts, "[]";
    };

    /// `network.yaml` of a system.
    pub(crate) const SYSTEM_NETWORK = {
        /// the MPIs of the system
        "mpi": Named(MPI), "{}";
        /// packages of the network, as in packages.yaml
        "packages": Anything, "{}";
    };

    /// `repos.yaml` of a system.
    pub(crate) const SYSTEM_REPOS = {
        /// package repositories, relative to the directory of the file
        "repos": Texts, required;
    };

    const ACCESS_PAIR = {
        /// the name of the account
        "id": Text, "none";
        /// the variable that holds the name of the account
        "id_variable": Text, "none";
        /// the variable that holds the secret
        "secret_variable": Text, required;
    };

    /// How a mirror is reached.
    pub(crate) const CONNECTION = {
        /// `file://`, `http://`, `https://`, `s3://`, or `oci://`
        "url": Text, "none";
        /// the view of the index
        "view": Text, "none";
        /// the profile of the account for S3
        "profile": Text, "none";
        /// the address of another S3 service
        "endpoint_url": Text, "none";
        /// the variable that holds a token
        "access_token_variable": Text, "none";
        /// the account and its secret
        "access_pair": Keys(ACCESS_PAIR), "none";
    };
}

macro_rules! mirror_keys {
    ($($more:expr),* ; $source:literal, $binary:literal) => {
        &[
            $($more,)*
            key("description", Shape::Text, "none", "a sentence about it"),
            key("source", Shape::Truth, $source, "whether it holds sources"),
            key("binary", Shape::Truth, $binary, "whether it holds packages that are built"),
            key("signed", Shape::Truth, "as Spack has it", "whether packages must be signed"),
            key("autopush", Shape::Truth, "false", "whether packages go there as soon as they are built"),
            CONNECTION[0],
            CONNECTION[1],
            CONNECTION[2],
            CONNECTION[3],
            CONNECTION[4],
            CONNECTION[5],
            key("fetch", Shape::TextOrKeys(CONNECTION), "the keys above", "how it is read"),
            key("push", Shape::TextOrKeys(CONNECTION), "the keys above", "how it is written"),
        ]
    };
}

/// A build cache.
pub(crate) const BUILD_CACHE: &[Key] = mirror_keys![
    key("name", Shape::Text, "buildcache", "its name"),
    key("mount_specific", Shape::Truth, "false", "whether each mount point has a directory of its own"),
    key("private_key", Shape::Text, "none", "the key that signs what is put there; without it nothing is put there"),
    key("public_key", Shape::Text, "none", "the key that verifies what is fetched");
    "false", "true"
];

/// A mirror with sources.
pub(crate) const SOURCE_MIRROR: &[Key] = mirror_keys![; "true", "false"];

keys! {
    const URL = {
        /// a sentence about it
        "description": Text, "none";
        /// an address, or the path of a directory
        "url": Text, required;
    };

    const CACHE = {
        /// a sentence about it
        "description": Text, "none";
        /// the absolute path of a directory
        "path": Text, required;
    };

    /// `mirrors.yaml`.
    pub(crate) const MIRRORS = {
        /// what Spack itself needs
        "bootstrap": Keys(URL), "none";
        /// packages that are built
        "buildcache": Keys(BUILD_CACHE), "none";
        /// sources
        "sourcemirror": Named(SOURCE_MIRROR), "{}";
        /// where sources are kept that were fetched
        "sourcecache": Keys(CACHE), "none";
        /// where results of the concretizer are kept
        "concretizer": Keys(CACHE), "none";
    };
}
