# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need that run container images."""

from kinds import DOCS, Page, Step, not_run

PAGES = {
    "docs/guides/coming-from-apptainer.md": Page(
        containers={
            "quay.io/biocontainers/samtools:1.19.2--h50ea8bc_1": ("samtools", "echo samtools 1.19.2"),
            "~/pytorch.sif": ("python", 'test -e "$1"'),
            "~/tool.sif": ("tool", "exit 0"),
        },
        before="touch train.py",
        steps={
            # Its shell reads no startup file.
            "cabane shell": Step(before="export PS0 PS1 PROMPT_COMMAND"),
        },
    ),
    "docs/guides/coming-from-pyxis.md": Page(
        slurm=True,
        containers={
            "quay.io/biocontainers/samtools:1.19.2--h50ea8bc_1": ("samtools", "echo samtools 1.19.2"),
            "nvcr.io/nvidia/pytorch:25.01-py3": ("python", 'test -e "$1"'),
        },
        before="mkdir ~/.edf && export SCRATCH=/shared && touch train.py && printf '%s\\n' "
        "'image = \"nvcr.io#nvidia/pytorch:25.01-py3\"' "
        "'mounts = [\"${SCRATCH}:${SCRATCH}\"]     # where SCRATCH is set' '' '[annotations]' "
        "'com.hooks.aws_ofi_nccl.enabled = \"true\"' > ~/.edf/pytorch.toml",
    ),
    "docs/guides/coming-from-shifter.md": Page(
        containers={
            "docker.io/library/ubuntu:22.04": ("true", "exit 0"),
            "docker.io/my-lab/tool:2.1": ("tool", 'cat "$1"'),
        },
        slurm=True,
        before="echo input > input.dat",
    ),
    "docs/guides/containers.md": Page(
        slurm=True,
        containers={
            f"ghcr.io/my-lab/tool:{version}": ("tool", f'case $1 in --version) echo tool {version} ;; --help) ;; *) cat "$1" ;; esac')
            for version in ("2.1", "2.2")
        }
        | {f"ghcr.io/my-lab/solver:{version}": ("solver", "exit 0") for version in ("2.1", "2024")}
        | {"~/tool.sif": ("tool", "echo tool 2.1")},
        files_of=("tools/1.0",),
        files=("solver/config.yaml",),
        as_root="groupadd --users alice solver-users && install -d -o alice /scratch/input && echo data > /scratch/input/a.dat",
        before="echo input > input.dat && mkdir -p solver/site/bin && touch solver/solver.conf && "
        "printf '#!/bin/sh\\n' > solver/site/bin/start && chmod +x solver/site/bin/start && "
        f"cabane image add tools/24.11 {DOCS}/images/tools-1.0",
        steps={
            "cabane import --check": Step(
                before="skopeo copy --quiet --insecure-policy --all docker://ghcr.io/my-lab/tool:2.2 docker://ghcr.io/my-lab/tool:2.1",
                fails=True,
            ),
            "cabane build ./solver solver/2.1#2": not_run("needs a container with a distribution"),
            "srun -N4 --uenv=tool/2.1 tool": Step(before="exit"),
            "cabane run tool/2.1,prgenv-gnu": not_run("needs an image built with Spack"),
            "cabane run --writable": not_run("needs a container with a distribution"),
            "cabane system devices": not_run("needs a GPU"),
            "cabane run --device": not_run("needs a GPU"),
            "srun -N4 --uenv=tool/2.1 --uenv-device": not_run("needs a GPU"),
            "srun -N4 --mpi=pmi2": not_run("needs a container with MPI"),
            "cabane export": not_run("needs an image built with Spack"),
            "podman": not_run("needs podman, and an image built with Spack"),
        },
    ),
    "docs/guides/environment-files.md": Page(
        images=("analysis/2026.2", "tools/1.0"),
        slurm=True,
        containers={"nvcr.io/nvidia/pytorch:25.01-py3": ("python", 'test -e "${1:-/}"')},
        files=("climate.toml",),
        steps={
            "cabane environment check": Step(before="sed -i 's/^mounts/mount/' climate.toml"),
            "srun": Step(
                before="mkdir ~/.edf && touch train.py && echo 'image = \"nvcr.io#nvidia/pytorch:25.01-py3\"' > pytorch.toml && "
                "cp pytorch.toml ~/.edf"
            ),
        },
    ),
}
