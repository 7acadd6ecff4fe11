// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The environment variables that Cabane reads or sets; those that override a setting are in
//! [`cabane_recipe::settings::table`].
//!
//! `docs/reference/variables.md` is made from this file. Nothing else in the
//! workspace spells the name of a variable that is read.

use cabane_run::loaded;

/// An environment variable and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name.
    pub name: &'static str,
    /// Whether Cabane sets it for the commands it starts; otherwise it is read.
    pub is_set: bool,
    /// What it is for, a sentence or two.
    pub purpose: &'static str,
}

macro_rules! variables {
    ($($(#[doc = $purpose:literal])+ $name:ident;)+) => {
        $($(#[doc = $purpose])+ pub const $name: &str = stringify!($name);)+
        const READ: &[Variable] = &[
            $(Variable { name: $name, is_set: false, purpose: concat!($($purpose),+) }),+
        ];
    };
}

variables! {
    /// Repositories to use instead of the configured ones: names, absolute paths, or `name=path`, separated by commas. The option `--repo` overrides it.
    CABANE_REPO;
    /// The microarchitectures to prefer when an image has several builds, the best first, separated by commas: `a100,zen3`. Jobs ignore it. Default: the content of `/etc/cabane/uarch`.
    CABANE_UARCH;
    /// How to mount images: `auto`, `root`, `helper`, or `user-namespace`. The option `--backend` overrides it.
    CABANE_BACKEND;
    /// The path of the set-uid helper. Default: `libexec/cabane/cabane-mount` below the prefix of the command, `/usr/local`, or `/usr`.
    CABANE_HELPER;
    /// The configuration file of the site. Default: `/etc/cabane/config.toml`.
    CABANE_SITE_CONFIG;
    /// The directories that contain environment files, separated by colons. Default: `cabane/environments` in `XDG_CONFIG_HOME`, then `/etc/cabane/environments`.
    CABANE_ENVIRONMENT_PATH;
    /// The directories that contain environment definition files (EDF) of container engines, separated by colons. They are searched before `/etc/cabane/environments`. Default: `.edf` in the home directory.
    EDF_PATH;
    /// The directories that contain system configurations, separated by colons. Default: `cabane/systems` in `XDG_CONFIG_HOME`, then `/etc/cabane/systems`.
    CABANE_SYSTEM_PATH;
    /// Set by the scripts of `cabane completion`: the shell that asks what may follow.
    CABANE_COMPLETE;
    /// For `cabane exec` and `cabane shell`: files and directories to show inside, as with `--bind`, separated by commas.
    APPTAINER_BIND;
    /// The same.
    APPTAINER_BINDPATH;
    /// For `cabane exec` and `cabane shell`: the beginning of variables to set inside, without it.
    APPTAINERENV_;
    /// As `APPTAINER_BIND`, which comes after it.
    SINGULARITY_BIND;
    /// The same.
    SINGULARITY_BINDPATH;
    /// As `APPTAINERENV_`, which overrides it.
    SINGULARITYENV_;
    /// In jobs of `cabane pipeline generate`: the file with the private key for results and images.
    CABANE_PIPELINE_KEY;
    /// In jobs of `cabane pipeline generate`: the file with the private key of the channel. Default: that of `CABANE_PIPELINE_KEY`.
    CABANE_PIPELINE_CHANNEL_KEY;
    /// The credentials file of `podman login`. Default: `containers/auth.json` in `XDG_RUNTIME_DIR` and `XDG_CONFIG_HOME`, then `config.json` in `DOCKER_CONFIG`.
    REGISTRY_AUTH_FILE;
    /// The directory with the credentials of `docker login`. Default: `.docker` in the home directory.
    DOCKER_CONFIG;
    /// A netrc file with credentials. Default: `.netrc` in the home directory.
    NETRC;
    /// The proxy for registries with `https`. The same name in lowercase overrides it.
    HTTPS_PROXY;
    /// The proxy for registries with `http`. The same name in lowercase overrides it.
    HTTP_PROXY;
    /// The proxy if the two variables above are not set. The same name in lowercase overrides it.
    ALL_PROXY;
    /// Hosts that need no proxy, separated by commas. The same name in lowercase overrides it.
    NO_PROXY;
    /// The name of the user.
    USER;
    /// Which processes share namespaces: `auto` (the ranks of a launcher), `no`, `yes` (all processes in the same environment on the node), or a name. The options `--join` and `--no-join` override it.
    CABANE_JOIN;
    /// The name of the cluster. It is used if `CABANE_SYSTEM` is not set.
    CLUSTER_NAME;
    /// If set, the default repository is `.cabane/repository` below this directory.
    SCRATCH;
    /// The uenv repository of the user. If there is none, Cabane looks for `.uenv-images` below `SCRATCH`, and then for `.uenv/repo` below `HOME`. It is searched after the default repository.
    UENV_REPO_PATH;
    /// The configuration file of the site for uenv, if Cabane is called by the name `uenv`. Default: `config.toml` or `config` in `/etc/uenv`.
    UENV_SYSTEM_CONFIG;
    /// The home directory.
    HOME;
    /// The directory for the configuration of the user. Default: `.config` in the home directory.
    XDG_CONFIG_HOME;
    /// The directory for the data of the user, including the default repository. Default: `.local/share` in the home directory.
    XDG_DATA_HOME;
    /// The directory for the caches of the user. Default: `.cache` in the home directory.
    XDG_CACHE_HOME;
    /// The directory for what must be remembered about the user's actions, such as the newest signed image of a label. Default: `.local/state` in the home directory.
    XDG_STATE_HOME;
    /// A private directory of the user on this node. Processes that share namespaces find each other there. Default: `cabane-UID` in `/tmp` or `/dev/shm`.
    XDG_RUNTIME_DIR;
    /// The shell that `cabane start` starts.
    SHELL;
    /// The directories that contain programs.
    PATH;
    /// The interpreter of Lmod. `cabane mpi audit` and builds with views from module files run it to read modules.
    LMOD_CMD;
    /// The interpreter of Environment Modules. It is used if there is no Lmod.
    MODULES_CMD;
    /// The module directories that `cabane mpi audit` searches for MPI.
    MODULEPATH;
    /// The active virtual environment of Python. `cabane mpi audit` searches it, and `cabane kernel --sys-prefix` uses it.
    VIRTUAL_ENV;
    /// The active environment of conda. `cabane kernel --sys-prefix` uses it if there is no `VIRTUAL_ENV`.
    CONDA_PREFIX;
    /// The directory of Jupyter for the data of the user, where `cabane kernel` installs kernels. Default: `jupyter` in `XDG_DATA_HOME`.
    JUPYTER_DATA_DIR;
    /// More directories with data of Jupyter, separated by colons. `cabane kernel ls` searches them.
    JUPYTER_PATH;
    /// The directory in which Jupyter writes connection files. Kernels in container images see it. Default: `runtime` in the data directory of Jupyter.
    JUPYTER_RUNTIME_DIR;
    /// If set to any value, output has no color.
    NO_COLOR;
    /// The time stamp of files in a built image, in seconds since 1970. Default: 1 January 1980.
    SOURCE_DATE_EPOCH;
    /// Set by Flux: it marks a rank.
    FLUX_TASK_RANK;
    /// Set by Flux: the number of a rank on its node.
    FLUX_TASK_LOCAL_ID;
    /// Set by IBM's jsrun: it marks a rank.
    JSM_NAMESPACE_RANK;
    /// Set by IBM's jsrun: the number of a rank on its node.
    JSM_NAMESPACE_LOCAL_RANK;
    /// Set by the launchers of MPICH and Intel MPI: it marks a rank and is its number on the node.
    MPI_LOCALRANKID;
    /// Set by the launcher of MVAPICH: it marks a rank.
    MV2_COMM_WORLD_RANK;
    /// Set by the launcher of MVAPICH: the number of a rank on its node.
    MV2_COMM_WORLD_LOCAL_RANK;
    /// Set by the launcher of Open MPI: it marks a rank.
    OMPI_COMM_WORLD_RANK;
    /// Set by the launcher of Open MPI: the number of a rank on its node.
    OMPI_COMM_WORLD_LOCAL_RANK;
    /// Set by PALS: it marks a rank.
    PALS_RANKID;
    /// Set by PALS: the number of a rank on its node.
    PALS_LOCAL_RANKID;
    /// Set by launchers with `PMIx`: it marks a rank.
    PMIX_RANK;
    /// Set by launchers with PMI, for example those of MPICH and Cray: it marks a rank.
    PMI_RANK;
    /// Set by Slurm: the number of a task of an array, for `cabane pipeline step --array`.
    SLURM_ARRAY_TASK_ID;
    /// Set by Slurm: the number of processors of a job on this node. Cabane calculates the memory limit from it.
    SLURM_CPUS_ON_NODE;
    /// Set by Slurm: the memory limit of a job per processor, in megabytes. Builds in memory stay below it.
    SLURM_MEM_PER_CPU;
    /// Set by Slurm: the memory limit of a job per node, in megabytes. Builds in memory stay below it.
    SLURM_MEM_PER_NODE;
    /// Set by Slurm: the number of a rank on its node.
    SLURM_LOCALID;
    /// Set by Slurm: it marks a rank.
    SLURM_PROCID;
    /// Set by Slurm in a job that was requeued. A build that was stopped by a signal then continues.
    SLURM_RESTART_COUNT;
    /// Set by `bash -c`. Then `cabane start` refuses to start an interactive shell.
    BASH_EXECUTION_STRING;
    /// Default of the option `--uenv` of `sbatch`. Use `SALLOC_UENV` for `salloc` and `SLURM_UENV` for `srun`. `SBATCH_UENV_VIEW`, `SBATCH_UENV_REPO`, `SBATCH_UENV_ENVIRONMENT`, and `SBATCH_UENV_PASSTHROUGH` work in the same way.
    SBATCH_UENV;
    /// Default of the option `--uenv-stage` of `sbatch`. Use `SALLOC_UENV_STAGE` for `salloc` and `SLURM_UENV_STAGE` for `srun`.
    SBATCH_UENV_STAGE;
    /// Default of the option `--uenv-device` of `sbatch`. Use `SALLOC_UENV_DEVICE` for `salloc` and `SLURM_UENV_DEVICE` for `srun`.
    SBATCH_UENV_DEVICE;
    /// Default of the option `--uenv-mpi` of `sbatch`. Use `SALLOC_UENV_MPI` for `salloc` and `SLURM_UENV_MPI` for `srun`.
    SBATCH_UENV_MPI;
    /// When you build the Slurm plugin: the release of Slurm, for example `23.11`.
    CABANE_SLURM_RELEASE;
}

/// Those by which the processes of a parallel launcher are known.
pub const RANKS: &[&str] = &[
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
pub const LOCAL_RANKS: &[&str] = &[
    FLUX_TASK_LOCAL_ID,
    JSM_NAMESPACE_LOCAL_RANK,
    MPI_LOCALRANKID,
    MV2_COMM_WORLD_LOCAL_RANK,
    OMPI_COMM_WORLD_LOCAL_RANK,
    PALS_LOCAL_RANKID,
    SLURM_LOCALID,
];

/// The variable by which `cabane mpi audit` finds the processes of a run.
pub const CABANE_CHECK_RUN: &str = "CABANE_CHECK_RUN";

const fn set(name: &'static str, purpose: &'static str) -> Variable {
    Variable { name, is_set: true, purpose }
}

const SET: &[Variable] = &[
    set(cabane_mount::JOB_IMAGES, "In a job: the images to mount on its nodes."),
    set(cabane_mount::JOB_FAILURES, "In a step: where `srun` collects the failures of its nodes."),
    set(
        cabane_mount::JOB_LOOKUP,
        "In a job: how long it took to look up the images, in microseconds.",
    ),
    set(cabane_mount::JOB_MPI, "In a job: the MPI that replaces that of the programs."),
    set(
        cabane_mount::JOB_STAGE,
        "In a job: where its nodes stage the images before they mount them, `memory` or `local`.",
    ),
    set(
        CABANE_CHECK_RUN,
        "For programs that `cabane mpi audit` starts: the directory of the audit, and the number of the run. Leftover processes are found by it.",
    ),
    set(loaded::CABANE_LOADED, "The loaded images and views, as JSON. `cabane status` shows them."),
    set(loaded::UENV_MOUNT_LIST, "The mounted images: `FILE:MOUNT_POINT`, separated by commas."),
    set(loaded::UENV_VIEW, "The loaded views: `MOUNT_POINT:NAME:VIEW`, separated by commas."),
    set(
        "UENV_SPACK_CONFIG_PATH",
        "In the view `spack` of a stack: the Spack configuration for building on top of the image.",
    ),
    set(
        "UENV_SPACK_URL",
        "In the view `spack` of a stack: the repository of the Spack that built it.",
    ),
    set(
        "UENV_SPACK_REF",
        "In the view `spack` of a stack: the branch, tag, or commit of that Spack, as in the recipe.",
    ),
    set(
        "CABANE_DEBUG_PATH",
        "In the view of an image of debug symbols: directories with debug files by build ID, separated by colons.",
    ),
    set("UENV_SPACK_COMMIT", "In the view `spack` of a stack: the commit of that Spack."),
];

/// Variables that a build may see, because packages could not be fetched without
/// them: proxies, certificates and package indexes. Nothing else of the caller's
/// environment gets into a build.
pub const PASSED_TO_BUILDS: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "PIP_CERT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_INDEX",
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
pub fn all() -> impl Iterator<Item = &'static Variable> {
    READ.iter().chain(SET)
}
