// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Every environment variable that Cabane reads or sets.
//!
//! `docs/reference/variables.md` is made from this file. Nothing else in the
//! workspace spells the name of a variable that is read.

use cabane_run::loaded;

/// An environment variable and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    /// The name.
    pub(crate) name: &'static str,
    /// Whether Cabane sets it for the commands it starts; otherwise it is read.
    pub(crate) is_set: bool,
    /// What it is for, a sentence or two.
    pub(crate) purpose: &'static str,
}

macro_rules! variables {
    ($($(#[doc = $purpose:literal])+ $name:ident;)+) => {
        $($(#[doc = $purpose])+ pub(crate) const $name: &str = stringify!($name);)+
        const READ: &[Variable] = &[
            $(Variable { name: $name, is_set: false, purpose: concat!($($purpose),+) }),+
        ];
    };
}

variables! {
    /// Repositories to use instead of the configured ones: a comma-separated list of names, absolute paths or `name=path`, the first one first. The option `--repo` wins over it.
    CABANE_REPO;
    /// The name of this system, as in `@system`. The option `--system` wins over it.
    CABANE_SYSTEM;
    /// The micro-architectures that commands take here where an image has several builds, the best first, with commas between them: `a100,zen3`. Jobs do not heed it. Default: what `/etc/cabane/uarch` says.
    CABANE_UARCH;
    /// How to mount: `auto`, `root`, `helper` or `user-namespace`. The option `--backend` wins over it.
    CABANE_BACKEND;
    /// The set-uid helper. Default: `libexec/cabane/cabane-mount` below the prefix of the command, `/usr/local` or `/usr`.
    CABANE_HELPER;
    /// The directory for what can be fetched or made again. Default: `cabane` in `XDG_CACHE_HOME`.
    CABANE_CACHE_DIR;
    /// The directory in which builds are kept. Default: `builds` in the cache directory.
    CABANE_BUILD_DIR;
    /// The directory, in memory, in which builds take place that fit there, unless `CABANE_BUILD_DIR` or anything else names a directory for builds. Default: `/dev/shm`.
    CABANE_MEMORY_DIR;
    /// The site's configuration file. Default: `/etc/cabane/config.toml`.
    CABANE_SITE_CONFIG;
    /// The directories in which environment files are looked for by name, separated by colons. Default: `cabane/environments` in `XDG_CONFIG_HOME`, then `/etc/cabane/environments`.
    CABANE_ENVIRONMENT_PATH;
    /// The directories in which configurations of systems are looked for by name, separated by colons. Default: `cabane/systems` in `XDG_CONFIG_HOME`, then `/etc/cabane/systems`.
    CABANE_SYSTEM_PATH;
    /// The `uv` program of the python engine. Default: the first one in `PATH`.
    CABANE_UV;
    /// A Python that has Spack's solver, the package `clingo`. Default: one that is made from the package index, in the cache.
    CABANE_SPACK_PYTHON;
    /// The address of the registry, such as `https://registry.example.org/uenv`. The option `--registry` wins over it.
    CABANE_REGISTRY;
    /// A file with a token for the registry, or a directory with a file `TOKEN`. The option `--token` wins over it.
    CABANE_REGISTRY_TOKEN;
    /// The name that belongs to the token. Default: `USER`. The option `--username` wins over it.
    CABANE_REGISTRY_USERNAME;
    /// A file with the passwords of registries, as `podman login` writes it. Default: `containers/auth.json` in `XDG_RUNTIME_DIR` and `XDG_CONFIG_HOME`, then `config.json` in `DOCKER_CONFIG`.
    REGISTRY_AUTH_FILE;
    /// The directory with what `docker login` was told. Default: `.docker` in the home directory.
    DOCKER_CONFIG;
    /// A file with passwords of machines. Default: `.netrc` in the home directory.
    NETRC;
    /// The proxy for registries that are reached through `https`; also in small letters, which win.
    HTTPS_PROXY;
    /// The proxy for registries that are reached through `http`; also in small letters, which win.
    HTTP_PROXY;
    /// The proxy where the two above name none; also in small letters, which win.
    ALL_PROXY;
    /// Hosts that are reached without a proxy, separated by commas; also in small letters, which win.
    NO_PROXY;
    /// The name of the user.
    USER;
    /// With whom a command shares its namespaces: `auto` (ranks of a launcher with each other), `no`, `yes` (everything of the same environment on the node), or a name. The options `--join` and `--no-join` win over it.
    CABANE_JOIN;
    /// The name of the cluster, read like `CABANE_SYSTEM` where that is not set.
    CLUSTER_NAME;
    /// If set, the default repository lies in `.cabane/repository` below this directory.
    SCRATCH;
    /// The home directory.
    HOME;
    /// The directory with the user's configuration. Default: `.config` in the home directory.
    XDG_CONFIG_HOME;
    /// The directory with the user's data, where the default repository lies. Default: `.local/share` in the home directory.
    XDG_DATA_HOME;
    /// The directory of the user's caches. Default: `.cache` in the home directory.
    XDG_CACHE_HOME;
    /// A directory of the user on this node, closed to others, in which processes that share namespaces find each other. Without it, `cabane-UID` in `/tmp` or `/dev/shm` serves.
    XDG_RUNTIME_DIR;
    /// The shell that `cabane start` starts.
    SHELL;
    /// Where programs are looked for.
    PATH;
    /// The interpreter of Lmod. `cabane mpi audit` asks it what modules set.
    LMOD_CMD;
    /// The interpreter of Environment Modules, where there is no Lmod.
    MODULES_CMD;
    /// The directories of modules in which `cabane mpi audit` looks for MPI.
    MODULEPATH;
    /// The environment of Python that is loaded; `cabane mpi audit` looks into it.
    VIRTUAL_ENV;
    /// If set to anything, output has no colour.
    NO_COLOR;
    /// The time, in seconds since 1970, that files in a built image get. Default: 1 January 1980.
    SOURCE_DATE_EPOCH;
    /// Set by Flux for the processes of a job: what is set marks a rank.
    FLUX_TASK_RANK;
    /// Set by Flux: the number of a rank among those of its node.
    FLUX_TASK_LOCAL_ID;
    /// Set by IBM's jsrun: marks a rank.
    JSM_NAMESPACE_RANK;
    /// Set by IBM's jsrun: the number of a rank among those of its node.
    JSM_NAMESPACE_LOCAL_RANK;
    /// Set by the launchers of MPICH and Intel MPI: marks a rank, and is its number among those of its node.
    MPI_LOCALRANKID;
    /// Set by the launcher of MVAPICH: marks a rank.
    MV2_COMM_WORLD_RANK;
    /// Set by the launcher of MVAPICH: the number of a rank among those of its node.
    MV2_COMM_WORLD_LOCAL_RANK;
    /// Set by the launcher of Open MPI: marks a rank.
    OMPI_COMM_WORLD_RANK;
    /// Set by the launcher of Open MPI: the number of a rank among those of its node.
    OMPI_COMM_WORLD_LOCAL_RANK;
    /// Set by PALS: marks a rank.
    PALS_RANKID;
    /// Set by PALS: the number of a rank among those of its node.
    PALS_LOCAL_RANKID;
    /// Set by launchers that speak `PMIx`: marks a rank.
    PMIX_RANK;
    /// Set by launchers that speak PMI, those of MPICH and Cray among them: marks a rank.
    PMI_RANK;
    /// Set by Slurm: the processors of a job on this node, for its memory.
    SLURM_CPUS_ON_NODE;
    /// Set by Slurm: the megabytes that a job may use for each processor. Builds take place in memory only within them.
    SLURM_MEM_PER_CPU;
    /// Set by Slurm: the megabytes that a job may use on a node. Builds take place in memory only within them.
    SLURM_MEM_PER_NODE;
    /// Set by Slurm: the number of a rank among those of its node.
    SLURM_LOCALID;
    /// Set by Slurm: marks a rank.
    SLURM_PROCID;
    /// Set by `bash -c`; `cabane start` refuses to start a shell where nobody types.
    BASH_EXECUTION_STRING;
}

/// Those by which the processes of a parallel launcher are known.
pub(crate) const RANKS: &[&str] = &[
    FLUX_TASK_RANK,
    JSM_NAMESPACE_RANK,
    MPI_LOCALRANKID,
    MV2_COMM_WORLD_RANK,
    OMPI_COMM_WORLD_RANK,
    PALS_RANKID,
    PMIX_RANK,
    PMI_RANK,
    SLURM_PROCID,
];

/// Those that number the processes of a launcher on each node.
pub(crate) const LOCAL_RANKS: &[&str] = &[
    FLUX_TASK_LOCAL_ID,
    JSM_NAMESPACE_LOCAL_RANK,
    MPI_LOCALRANKID,
    MV2_COMM_WORLD_LOCAL_RANK,
    OMPI_COMM_WORLD_LOCAL_RANK,
    PALS_LOCAL_RANKID,
    SLURM_LOCALID,
];

/// Those of the plugin of Slurm.
const SLURM: &[Variable] = &[
    Variable {
        name: "SBATCH_UENV",
        is_set: false,
        purpose: "Stands for the option `--uenv` of `sbatch`; for `salloc` it is `SALLOC_UENV`, for `srun` `SLURM_UENV`. Likewise `SBATCH_UENV_VIEW`, `SBATCH_UENV_REPO`, `SBATCH_UENV_ENVIRONMENT` and `SBATCH_UENV_PASSTHROUGH`.",
    },
    Variable {
        name: cabane_mount::JOB_IMAGES,
        is_set: true,
        purpose: "In a job: the images that its nodes mount.",
    },
    Variable {
        name: "SBATCH_UENV_STAGE",
        is_set: false,
        purpose: "Stands for the option `--uenv-stage` of `sbatch`; for `salloc` it is `SALLOC_UENV_STAGE`, for `srun` `SLURM_UENV_STAGE`.",
    },
    Variable {
        name: "SBATCH_UENV_DEVICE",
        is_set: false,
        purpose: "Stands for the option `--uenv-device` of `sbatch`; for `salloc` it is `SALLOC_UENV_DEVICE`, for `srun` `SLURM_UENV_DEVICE`.",
    },
    Variable {
        name: "SBATCH_UENV_MPI",
        is_set: false,
        purpose: "Stands for the option `--uenv-mpi` of `sbatch`; for `salloc` it is `SALLOC_UENV_MPI`, for `srun` `SLURM_UENV_MPI`.",
    },
    Variable {
        name: cabane_mount::JOB_MPI,
        is_set: true,
        purpose: "In a job: the MPI that programs of its steps get in place of their own.",
    },
    Variable {
        name: cabane_mount::JOB_STAGE,
        is_set: true,
        purpose: "In a job: where its nodes copy the images first, `memory` or `local`.",
    },
    Variable {
        name: "CABANE_SLURM_RELEASE",
        is_set: false,
        purpose: "When the plugin of Slurm is built: the release of Slurm, as `23.11`.",
    },
];

const SET: &[Variable] = &[
    Variable {
        name: cabane_check::run::MARK,
        is_set: true,
        purpose: "In what `cabane mpi audit` runs: the directory of the audit, by which what is left behind is found.",
    },
    Variable {
        name: loaded::CABANE_LOADED,
        is_set: true,
        purpose: "The images around a command, as JSON; what `cabane status` shows.",
    },
    Variable {
        name: loaded::UENV_MOUNT_LIST,
        is_set: true,
        purpose: "The mounted images: `FILE:MOUNT_POINT`, separated by commas.",
    },
    Variable {
        name: loaded::UENV_VIEW,
        is_set: true,
        purpose: "The views in use: `MOUNT_POINT:NAME:VIEW`, separated by commas.",
    },
    Variable {
        name: "UENV_SPACK_CONFIG_PATH",
        is_set: true,
        purpose: "In the view `spack` of a stack: the configuration with which Spack builds on top of the image.",
    },
    Variable {
        name: "UENV_SPACK_URL",
        is_set: true,
        purpose: "In the view `spack` of a stack: where the Spack comes from that built it.",
    },
    Variable {
        name: "UENV_SPACK_REF",
        is_set: true,
        purpose: "In the view `spack` of a stack: the branch, tag or commit of that Spack, as the recipe names it.",
    },
    Variable {
        name: "UENV_SPACK_COMMIT",
        is_set: true,
        purpose: "In the view `spack` of a stack: the commit of that Spack.",
    },
];

/// Variables that a build may see, because packages could not be fetched without
/// them: proxies, certificates and package indexes. Nothing else of the caller's
/// environment gets into a build.
pub(crate) const PASSED_TO_BUILDS: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_STRATEGY",
    "UV_INDEX_URL",
    "UV_INSECURE_HOST",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Returns every variable that is read or set.
pub(crate) fn all() -> impl Iterator<Item = &'static Variable> {
    READ.iter().chain(SLURM).chain(SET)
}
