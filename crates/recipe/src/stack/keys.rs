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
    Key {
        name,
        shape,
        is_required: false,
        default,
        about,
    }
}

pub(super) const fn needed(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key {
        name,
        shape,
        is_required: true,
        default: "",
        about,
    }
}

/// Where packages of Spack come from.
pub(crate) const PACKAGE_REPOSITORY: &[Key] = &[
    needed(
        "repo",
        Shape::Text,
        "the address of a Git repository, or the path of a clone",
    ),
    key(
        "commit",
        Shape::Text,
        "what the repository has by default",
        "a branch, a tag or a commit",
    ),
    key(
        "path",
        Shape::Text,
        "repos/spack_repo/ and its name",
        "where in there the package repository lies",
    ),
];

const SPACK: &[Key] = &[
    needed(
        "repo",
        Shape::Text,
        "the address of a Git repository, or the path of a clone",
    ),
    key(
        "commit",
        Shape::Text,
        "what the repository has by default",
        "a branch, a tag or a commit",
    ),
    needed(
        "packages",
        Shape::Packages,
        "the package repository, or several with names",
    ),
];

/// `config.yaml` of a recipe for Spack.
pub(crate) const CONFIG: &[Key] = &[
    needed("name", Shape::Text, "the name of the image"),
    key(
        "version",
        Shape::Choice(&["1", "2", "3"]),
        "1",
        "the version of the recipe format",
    ),
    key(
        "engine",
        Shape::Choice(&["spack"]),
        "spack",
        "who builds the image",
    ),
    key(
        "store",
        Shape::Text,
        "/user-environment",
        "where the image is mounted",
    ),
    key(
        "description",
        Shape::Text,
        "none",
        "a sentence for those who look for an image",
    ),
    key(
        "default-view",
        Shape::Text,
        "none",
        "the view that is entered when none is asked for",
    ),
    needed(
        "spack",
        Shape::Keys(SPACK),
        "where Spack and its packages come from",
    ),
    key(
        "modules",
        Shape::Truth,
        "whether there is a modules.yaml",
        "whether there are module files",
    ),
    key(
        "cleanup",
        Shape::Choice(&["none", "build", "runtime"]),
        "none",
        "what is removed after the build",
    ),
];

const COMPILER: &[Key] = &[
    needed("version", Shape::Text, "its version, such as `\"14.2\"`"),
    key(
        "spec",
        Shape::Text,
        "usual variants",
        "variants in the place of the usual ones",
    ),
];

const GCC: &[Key] = &[
    needed(
        "version",
        Shape::Text,
        "its version, such as `\"14.2\"`, or `system` for that of the system",
    ),
    key(
        "spec",
        Shape::Text,
        "+bootstrap",
        "variants in the place of the usual ones",
    ),
];

/// `compilers.yaml`.
pub(crate) const COMPILERS: &[Key] = &[
    needed(
        "gcc",
        Shape::Keys(GCC),
        "the GNU compilers; every recipe has them",
    ),
    key(
        "nvhpc",
        Shape::Keys(COMPILER),
        "none",
        "the compilers of NVIDIA",
    ),
    key("llvm", Shape::Keys(COMPILER), "none", "clang and flang"),
    key(
        "llvm-amdgpu",
        Shape::Keys(COMPILER),
        "none",
        "the compilers of AMD for GPUs",
    ),
    key(
        "intel-oneapi-compilers",
        Shape::Keys(COMPILER),
        "none",
        "the compilers of Intel",
    ),
];

const NETWORK: &[Key] = &[
    key(
        "mpi",
        Shape::Text,
        "no MPI",
        "the spec of the MPI; the system must have it",
    ),
    key(
        "specs",
        Shape::Texts,
        "those of the system",
        "what is installed beside the MPI",
    ),
];

const DUPLICATES: &[Key] = &[needed(
    "strategy",
    Shape::Choice(&["minimal", "full", "none"]),
    "how often a package may occur below one spec",
)];

const ENV_VARS: &[Key] = &[
    key(
        "set",
        Shape::Variables(true),
        "[]",
        "variables to set; without a value, to unset",
    ),
    key(
        "prepend_path",
        Shape::Variables(false),
        "[]",
        "paths to put before the others of a list",
    ),
    key(
        "append_path",
        Shape::Variables(false),
        "[]",
        "paths to put behind the others of a list",
    ),
];

/// `uenv:` of a view.
pub(crate) const VIEW_UENV: &[Key] = &[
    key(
        "add_compilers",
        Shape::Truth,
        "true",
        "whether the compilers of the environment are linked",
    ),
    key(
        "prefix_paths",
        Shape::NamedTexts,
        "{}",
        "variables that get directories of the view, if these exist",
    ),
    key(
        "env_vars",
        Shape::Keys(ENV_VARS),
        "{}",
        "other variables that the view changes",
    ),
];

/// A view of an environment.
pub(crate) const VIEW: &[Key] = &[
    key(
        "link",
        Shape::Choice(&["roots", "all", "run"]),
        "roots",
        "which packages are linked",
    ),
    key(
        "select",
        Shape::Texts,
        "all",
        "only packages that satisfy one of these specs",
    ),
    key(
        "exclude",
        Shape::Texts,
        "[]",
        "no packages that satisfy one of these specs",
    ),
    key(
        "projections",
        Shape::NamedText,
        "{}",
        "where packages are put, by spec",
    ),
    key(
        "uenv",
        Shape::Keys(VIEW_UENV),
        "{}",
        "what Cabane adds to the view",
    ),
];

/// An environment.
pub(crate) const ENVIRONMENT: &[Key] = &[
    needed(
        "compiler",
        Shape::Texts,
        "its compilers; the first is used where a spec says nothing",
    ),
    needed("specs", Shape::Texts, "what is installed"),
    key("network", Shape::Keys(NETWORK), "no MPI", "the MPI"),
    key(
        "unify",
        Shape::Choice(&["true", "false", "when_possible"]),
        "true",
        "whether packages are the same for all specs",
    ),
    key(
        "duplicates",
        Shape::Keys(DUPLICATES),
        "{strategy: minimal}",
        "how often a package may occur",
    ),
    key(
        "deprecated",
        Shape::Truth,
        "false",
        "whether deprecated versions may be used",
    ),
    key(
        "variants",
        Shape::Texts,
        "[]",
        "variants that all packages prefer",
    ),
    key(
        "prefer",
        Shape::Texts,
        "the first compiler",
        "what all packages prefer",
    ),
    key(
        "packages",
        Shape::Texts,
        "[]",
        "packages that are looked for on the system, in format 2",
    ),
    key("views", Shape::Named(VIEW), "{}", "its views"),
];

/// What environments have in format 1.
pub(crate) const ENVIRONMENT_ONE: &[&str] = &[
    "compiler",
    "specs",
    "mpi",
    "unify",
    "deprecated",
    "variants",
    "packages",
    "views",
];

/// `modules.yaml`.
pub(crate) const MODULES: &[Key] = &[needed(
    "modules",
    Shape::Anything,
    "what Spack understands below `modules:`",
)];

/// `packages.yaml` of a recipe or a system.
pub(crate) const PACKAGES: &[Key] = &[needed(
    "packages",
    Shape::Anything,
    "what Spack understands below `packages:`",
)];

const MPI: &[Key] = &[key(
    "specs",
    Shape::Texts,
    "[]",
    "what is installed beside this MPI",
)];

/// `network.yaml` of a system.
pub(crate) const SYSTEM_NETWORK: &[Key] = &[
    key("mpi", Shape::Named(MPI), "{}", "the MPIs of the system"),
    key(
        "packages",
        Shape::Anything,
        "{}",
        "packages of the network, as in packages.yaml",
    ),
];

/// `repos.yaml` of a system.
pub(crate) const SYSTEM_REPOS: &[Key] = &[needed(
    "repos",
    Shape::Texts,
    "package repositories, relative to the directory of the file",
)];

const ACCESS_PAIR: &[Key] = &[
    key("id", Shape::Text, "none", "the name of the account"),
    key(
        "id_variable",
        Shape::Text,
        "none",
        "the variable that holds the name of the account",
    ),
    needed(
        "secret_variable",
        Shape::Text,
        "the variable that holds the secret",
    ),
];

/// How a mirror is reached.
pub(crate) const CONNECTION: &[Key] = &[
    key(
        "url",
        Shape::Text,
        "none",
        "`file://`, `http://`, `https://`, `s3://` or `oci://`",
    ),
    key("view", Shape::Text, "none", "the view of the index"),
    key(
        "profile",
        Shape::Text,
        "none",
        "the profile of the account for S3",
    ),
    key(
        "endpoint_url",
        Shape::Text,
        "none",
        "the address of another S3 service",
    ),
    key(
        "access_token_variable",
        Shape::Text,
        "none",
        "the variable that holds a token",
    ),
    key(
        "access_pair",
        Shape::Keys(ACCESS_PAIR),
        "none",
        "the account and its secret",
    ),
];

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

const URL: &[Key] = &[
    key("description", Shape::Text, "none", "a sentence about it"),
    needed("url", Shape::Text, "an address, or the path of a directory"),
];

const CACHE: &[Key] = &[
    key("description", Shape::Text, "none", "a sentence about it"),
    needed("path", Shape::Text, "the absolute path of a directory"),
];

/// `mirrors.yaml`.
pub(crate) const MIRRORS: &[Key] = &[
    key(
        "bootstrap",
        Shape::Keys(URL),
        "none",
        "what Spack itself needs",
    ),
    key(
        "buildcache",
        Shape::Keys(BUILD_CACHE),
        "none",
        "packages that are built",
    ),
    key("sourcemirror", Shape::Named(SOURCE_MIRROR), "{}", "sources"),
    key(
        "sourcecache",
        Shape::Keys(CACHE),
        "none",
        "where sources are kept that were fetched",
    ),
    key(
        "concretizer",
        Shape::Keys(CACHE),
        "none",
        "where results of the concretizer are kept",
    ),
];
