// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Every setting: its key in `config.toml`, and the variable and the option that override it.
//!
//! To add a setting, add it here; the reference pages, `cabane config`, and the messages for
//! unknown keys follow. A setting with one value is read from files, variables, and options by its
//! entry alone.

#![allow(clippy::doc_markdown, reason = "the help is printed as text, too")]

use super::values::{self, Reader};

/// A setting, or a table of `config.toml` that contains settings.
#[derive(Debug)]
pub struct Setting {
    /// The key, with the tables that it is in: `build.jobs`.
    pub key: &'static str,
    /// A value as it is written in TOML; for a table, the line that begins it.
    pub example: &'static str,
    /// What it is for, and its default: lines for the reference page.
    pub help: &'static [&'static str],
    /// The variable that overrides the files.
    pub variable: Option<&'static str>,
    /// The option that overrides the variable.
    pub option: Option<&'static str>,
    /// How a file is read; none for what has a structure of its own.
    pub(super) reader: Option<Reader>,
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// `NAME: "key" = "example", reader ["VARIABLE"] {"--option"};`
macro_rules! settings {
    ($(
        $(#[doc = $help:literal])*
        $name:ident: $key:literal = $example:literal
        $(, $reader:path)? $([$variable:literal])? $({$option:literal})?;
    )+) => {
        $(
            $(#[doc = $help])*
            pub const $name: Setting = Setting {
                key: $key,
                example: $example,
                help: &[$($help),*],
                variable: optional!($($variable)?),
                option: optional!($($option)?),
                reader: optional!($($reader)?),
            };
        )+
        /// All settings, in the order of the reference page.
        pub const ALL: &[Setting] = &[$($name),+];
    };
}

settings! {
    /// When to color the output: "auto", "always", or "never".
    COLOR: "color" = "\"auto\"", values::color {"--color"};
    /// The name of this system, as in `@system`. Images for other systems are ignored unless you
    /// ask for them. Default: the variable CLUSTER_NAME.
    SYSTEM: "system_name" = "\"cluster\"", values::system ["CABANE_SYSTEM"] {"--system"};
    /// The default microarchitecture for builds. Default: the processor family, for example
    /// "x86_64".
    UARCH: "default_uarch" = "\"zen3\"", values::uarch;
    /// The repositories. The one with the highest priority is searched first. The repository of
    /// the user has priority 9.
    REPOSITORIES: "repositories" = "[[repositories]]" ["CABANE_REPO"] {"--repo"};
    /// The name, for `--repo` and messages.
    REPOSITORY_NAME: "repositories.name" = "\"site\"";
    /// The directory. It can start with ~ or contain variables: $SCRATCH/images.
    REPOSITORY_PATH: "repositories.path" = "\"/shared/cabane/repository\"";
    /// The priority. Default: 10.
    REPOSITORY_PRIORITY: "repositories.priority" = "10";
    /// The images that `cabane repo gc` removes from this repository. Default: the options of the
    /// command.
    RETENTION: "repositories.retention" = "[repositories.retention]";
    /// Remove images that no one has used for this time.
    OLDER_THAN: "repositories.retention.older_than" = "\"90d\"";
    /// Keep the newest images of each name, system, and microarchitecture. Without another limit,
    /// all others are removed.
    KEEP_LAST: "repositories.retention.keep_last" = "2";
    /// Remove the least recently used images until all others fit.
    MAX_SIZE: "repositories.retention.max_size" = "\"20T\"";
    /// Keep all images that were used or added within this time. Default: "2d".
    SPARE: "repositories.retention.spare" = "\"7d\"";
    /// Keep what images share once: `cabane repo gc` replaces the files of images that no one has used
    /// for this time with lists of their parts. They are assembled when they are used again. Default:
    /// never.
    DEDUPLICATE: "repositories.retention.deduplicate" = "\"14d\"";
    /// How to build.
    BUILD: "build" = "[build]";
    /// The file system of images: "squashfs" or "erofs".
    FORMAT: "build.format" = "\"squashfs\"", values::image_format;
    /// The number of parallel processes of a build. Default: all processors.
    JOBS: "build.jobs" = "16", values::jobs;
    /// The directory for builds. Default: `builds` in the cache directory.
    BUILD_DIRECTORY: "build.directory" = "\"/scratch/builds\"", values::path ["CABANE_BUILD_DIR"];
    /// The directory in memory for builds that fit there. It is used only if no directory for
    /// builds is set. Default: /dev/shm.
    MEMORY_DIRECTORY: "build.memory" = "\"/dev/shm\"", values::path ["CABANE_MEMORY_DIR"];
    /// The cache directory, for data that can be downloaded or created again. Default: `cabane` in
    /// XDG_CACHE_HOME.
    CACHE_DIRECTORY: "build.cache" = "\"/scratch/cache\"", values::path ["CABANE_CACHE_DIR"];
    /// The build cache of the site: a directory to which `cabane cache push` copies packages, or the cache
    /// directory of an account that builds stacks for everybody. Builds take packages from there, and never
    /// change it. Default: none.
    SHARED_CACHE: "build.shared_cache" = "\"/apps/cabane/packages\"", values::path;
    /// Public keys; a package of the shared cache needs a valid signature of one of them. Default: none are
    /// needed, if only the owner can write to the shared cache.
    SHARED_CACHE_KEYS: "build.shared_cache_keys" = "[\"/etc/cabane/keys/packages.pub\"]";
    /// The `uv` program for Python environments. Default: the version that all builds use, from PATH or from
    /// the package index.
    UV: "build.uv" = "\"/opt/uv/bin/uv\"", values::path ["CABANE_UV"];
    /// A Python interpreter with the package `clingo`, the solver of Spack. Default: Cabane creates
    /// one in the cache, from the package index.
    SPACK_PYTHON: "build.spack_python" = "\"/opt/spack/bin/python3\"", values::path ["CABANE_SPACK_PYTHON"];
    /// A Python interpreter with EasyBuild, of the version that recipes name. Default: Cabane creates one in
    /// the cache, from the package index.
    EASYBUILD_PYTHON: "build.easybuild_python" = "\"/opt/easybuild/bin/python3\"", values::path ["CABANE_EASYBUILD_PYTHON"];
    /// The index of Python packages, if there is one only.
    INDEX_URL: "build.index_url" = "";
    /// The indexes of Python packages, in this order. Default: those of `uv`.
    INDEX_URLS: "build.index_urls" = "[\"https://packages.example.org/simple\"]";
    /// Options of `sbatch` for `cabane build --on slurm`, separated by spaces.
    SBATCH: "build.sbatch" = "\"--partition=build --time=4:00:00\"", values::text;
    /// The path of `cabane` on the hosts of `cabane build --on HOST`. Default: the first one in PATH there.
    REMOTE_PROGRAM: "build.remote_program" = "\"/opt/cabane/bin/cabane\"", values::text;
    /// Whether commands of container recipes, and the step `fetch` of recipes for EasyBuild, may use the
    /// network: "allow" or "forbid". If one configuration file says "forbid", no other one can allow it.
    /// Default: "allow".
    COMMAND_NETWORK: "build.command_network" = "\"forbid\"", values::permission;
    /// The registry for sharing images: any registry that implements the OCI distribution
    /// specification.
    REGISTRY: "registry" = "[registry]";
    /// The address of the registry: host and prefix.
    REGISTRY_URL: "registry.url" = "\"https://registry.example.org/uenv\"", values::registry_url ["CABANE_REGISTRY"] {"--registry"};
    /// The default namespace, for names without one. `build::cp2k` has the namespace `build`.
    NAMESPACE: "registry.namespace" = "\"deploy\"", values::namespace;
    /// CA certificates to trust, in addition to those of the system.
    REGISTRY_CA: "registry.ca" = "\"/etc/pki/site.pem\"", values::path;
    /// The user name for the token. Default: USER.
    REGISTRY_USERNAME: "registry.username" = "\"builder\"", values::text ["CABANE_REGISTRY_USERNAME"] {"--username"};
    /// A file with a token for the registry, or a directory with a file `TOKEN`. Default: the
    /// credentials of `podman login`, `docker login`, and netrc.
    REGISTRY_TOKEN: "registry.token" = "\"~/.config/registry/TOKEN\"", values::path ["CABANE_REGISTRY_TOKEN"] {"--token"};
    /// How to list images: "index" reads the list that cabane updates when it pushes, copies, and
    /// deletes images; "catalog" asks the registry, with one request for each image; "auto" reads
    /// the list if there is one, and asks the registry otherwise.
    LISTING: "registry.listing" = "\"auto\"", values::listing;
    /// The address of a service or file that lists the images, in the format of uenv's listing service.
    /// `{namespace}` stands for the namespace; without it, `?namespace=…` is added. It is used if `listing`
    /// is "auto".
    LISTING_URL: "registry.listing_url" = "\"https://list.example.org/list\"", values::listing_url;
    /// Hosts that may get a password or a token of a registry, because they issue tokens for it. The
    /// registry itself needs no entry, nor do `example.org` and `auth.example.org` for
    /// `registry.example.org`.
    TOKEN_SERVICES: "registry.token_services" = "[\"auth.example.org\"]";
    /// Required signatures, a rule for each namespace. "*" is for all namespaces without a rule.
    /// The rules of all configuration files apply: users can add rules to those of the site, but
    /// not remove any.
    TRUST: "trust" = "[[trust]]";
    /// The namespace, or "*".
    TRUST_NAMESPACE: "trust.namespace" = "\"deploy\"";
    /// "signature" or "nothing".
    TRUST_REQUIRE: "trust.require" = "\"signature\"";
    /// Public keys; one valid signature is enough.
    TRUST_KEYS: "trust.keys" = "[\"/etc/cabane/keys/site.pub\"]";
    /// If the signature is for another label, or older than the one of the image that had the label
    /// before: "warn" (the default) or "refuse".
    TRUST_LABELS: "trust.labels" = "\"refuse\"";
    /// When to check signatures also at the start of an image: "never" (the default), "others" (for
    /// images of other users), or "all". The rule for "*" also applies to images that were built
    /// here, added by hand, or given by path.
    TRUST_AT_START: "trust.at_start" = "\"others\"";
    /// Channels, whose documents say which images are released. `image pull prgenv-gnu:stable` gets the
    /// image that the channel `stable` names.
    CHANNEL: "channel" = "[[channel]]";
    /// The name of the channel, which is used like a tag.
    CHANNEL_NAME: "channel.name" = "\"stable\"";
    /// The namespace. Default: that of the registry.
    CHANNEL_NAMESPACE: "channel.namespace" = "\"deploy\"";
    /// Public keys; one of them must have signed the document of the channel.
    CHANNEL_KEYS: "channel.keys" = "[\"/etc/cabane/keys/release.pub\"]";
    /// What to do with a document that has expired: "warn" (the default) or "refuse".
    CHANNEL_EXPIRED: "channel.expired" = "\"refuse\"";
    /// The lowest serial number to accept. Cabane also rejects numbers below the highest one that it
    /// has seen.
    CHANNEL_MINIMUM_SERIAL: "channel.minimum_serial" = "42";
    /// To be promoted, an image needs a signature for its label with one of these public keys.
    CHANNEL_SIGNED_BY: "channel.signed_by" = "[\"/etc/cabane/keys/build.pub\"]";
    /// To be promoted, an image must be in this channel.
    CHANNEL_FROM: "channel.from" = "\"testing\"";
    /// To be promoted, an image must have been in the other channel for this time.
    CHANNEL_AGE: "channel.age" = "\"7d\"";
    /// To be promoted, an image must have passed its checks on the system of the channel within this
    /// time. Only results of `evidence.testers` count.
    CHANNEL_TESTED_WITHIN: "channel.tested_within" = "\"30d\"";
    /// To be promoted, an image needs a provenance that one of `evidence.builders` signed, for a recipe in
    /// one of these Git repositories. "*" allows any recipe.
    CHANNEL_BUILT_FROM: "channel.built_from" = "[\"https://github.com/eth-cscs/alps-uenv\"]";
    /// What to do if a figure is worse than that of the image that the channel releases under the same
    /// name: "report", "refuse", or "refuse-unknown", which also rejects figures that cannot be compared.
    CHANNEL_REGRESSIONS: "channel.regressions" = "\"refuse\"";
    /// To be promoted, an image must run on these hosts, according to its metadata. `cabane system probe
    /// --facts FILE` writes the files.
    CHANNEL_RUNS_ON: "channel.runs_on" = "[\"/etc/cabane/hosts/daint.json\"]";
    /// To be promoted, an image must have passed these ReFrame suites: its newest results on the system of
    /// the channel name them, and a test of each passed.
    CHANNEL_SUITES: "channel.suites" = "[\"hpc-tests\"]";
    /// Evidence: signed statements about tests and builds.
    EVIDENCE: "evidence" = "[evidence]";
    /// Public keys of testers. Results that are signed with another key are shown and do not count.
    EVIDENCE_TESTERS: "evidence.testers" = "[\"/etc/cabane/keys/tests.pub\"]";
    /// Public keys of builders. A provenance that is signed with another key is shown and does not count.
    EVIDENCE_BUILDERS: "evidence.builders" = "[\"/etc/cabane/keys/build.pub\"]";
    /// The URI of this builder in the provenance that `cabane build --key` signs. Default: a URI with the
    /// fingerprint of the key.
    EVIDENCE_BUILDER_ID: "evidence.builder_id" = "\"https://example.org/builders/daint\"";
    /// A word that you change with each maintenance of the system. Results from before do not count then.
    EVIDENCE_GENERATION: "evidence.generation" = "\"2026-11-20\"";
    /// Checks of images.
    CHECK: "check" = "[check]";
    /// The `reframe` program, for `cabane check --suite`. Default: the first one in PATH.
    REFRAME: "check.reframe" = "\"/opt/reframe/bin/reframe\"", values::path ["CABANE_REFRAME"];
    /// The directory with the suites that `cabane check --suite NAME` finds by name. Default:
    /// `share/cabane/suites` below the prefix of the command.
    SUITES: "check.suites" = "\"/opt/site/suites\"", values::path ["CABANE_SUITES"];
    /// New releases of Cabane.
    UPDATE: "update" = "[update]";
    /// Where `cabane self update` finds new releases: a directory, or an https URL, with archives and their
    /// SHA256SUMS.
    UPDATE_SOURCE: "update.source" = "\"https://example.org/cabane\"", values::text;
    /// Public keys of releases. If there are any, SHA256SUMS.sig must be a signature by one of them.
    UPDATE_KEYS: "update.keys" = "[\"/etc/cabane/keys/releases.pub\"]";
    /// Images that only one Unix group can read after they are pulled: a namespace, a name, or
    /// both. The first matching rule applies, and the rules of the site come first.
    RESTRICTED: "restricted" = "[[restricted]]";
    /// The images: "licensed::", "vasp", or both.
    RESTRICTED_IMAGES: "restricted.images" = "\"licensed::vasp\"";
    /// The name of the group.
    RESTRICTED_GROUP: "restricted.group" = "\"vaspusers\"";
    /// Container images.
    CONTAINER: "container" = "[container]";
    /// Directories of this system to show in container images, in addition to the home directory,
    /// the working directory, and /tmp: SOURCE, SOURCE:TARGET, or SOURCE:TARGET:ro. Paths that do
    /// not exist, and paths with unset variables, are ignored.
    BINDS: "container.binds" = "[\"/scratch\", \"$PROJECT\", \"/opt/site/licenses:/licenses:ro\"]";
    /// Devices to give to container images, with their libraries, on machines that have them. To
    /// list the devices, use `cabane system devices`.
    DEVICES: "container.devices" = "[\"nvidia.com/gpu=all\"]";
    /// The registry of container images whose names have none: `docker://debian:12`. A host, with or
    /// without a prefix. Default: none; such a name is an error.
    DEFAULT_REGISTRY: "container.default_registry" = "\"docker.io\"", values::container_registry;
    /// MPI installations of this machine that can replace others: `cabane mpi swap --with fabric`.
    /// `--with host` uses the first one that fits the program.
    MPI: "mpi" = "[[mpi]]";
    /// The name.
    MPI_NAME: "mpi.name" = "\"fabric\"";
    /// The prefix, or the library.
    MPI_PREFIX: "mpi.prefix" = "\"/opt/mpich\"";
    /// Additional directories for the libraries it needs.
    MPI_LIBRARIES: "mpi.libraries" = "[\"/opt/libfabric/lib64\"]";
    /// Plug-ins to add, with the libraries they need: providers of libfabric, modules of UCX, and
    /// networks for NCCL and RCCL. Files, or directories of files.
    MPI_PLUGINS: "mpi.plugins" = "[\"/opt/site/lib/libnccl-net-ofi.so\"]";
    /// The command that starts its ranks. Default: the launcher beside the library.
    MPI_LAUNCHER: "mpi.launcher" = "\"srun --mpi=pmi2\"";
    /// Jobs of Slurm.
    SLURM: "slurm" = "[slurm]";
    /// Whether `srun`, `sbatch`, and `salloc` get the options of pyxis, such as `--container-image`: "auto"
    /// adds them unless pyxis is in the same plugstack.conf, "no" leaves them out. `cabane slurm install`
    /// writes it into plugstack.conf. Default: "auto".
    CONTAINER_OPTIONS: "slurm.container_options" = "\"auto\"", values::container_options;
}

impl Setting {
    /// Returns whether this is a table and not a value.
    pub fn is_table(&self) -> bool {
        self.example.starts_with('[') && !self.example.contains('"')
    }

    /// Returns the last part of the key.
    pub fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// Returns the key of the table that contains it; empty for the file.
    pub fn table(&self) -> &'static str {
        self.key.rsplit_once('.').map_or("", |(table, _)| table)
    }
}

/// Returns the settings of a table, in their order; the empty name is the file.
pub(super) fn settings_in(table: &str) -> impl Iterator<Item = &'static Setting> {
    ALL.iter().filter(move |setting| setting.table() == table)
}

/// Returns the text of a `config.toml` with every setting, its help, and an example.
pub fn example_file() -> String {
    let mut text = String::new();
    for setting in ALL.iter().filter(|setting| !setting.example.is_empty()) {
        if setting.is_table() {
            text.push('\n');
        }
        for line in setting.help {
            text += &format!("#{line}\n");
        }
        text += &if setting.is_table() {
            format!("{}\n", setting.example)
        } else {
            format!("{} = {}\n", setting.name(), setting.example)
        };
    }
    text
}
