# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need before their first block, and which commands cannot run in a test, with the reason.

A page that is not here runs in an empty directory of a user who has nothing.
"""

from pathlib import Path

import slurm_pages
import spack_pages
from kinds import DOCS, Page, Step, not_run

INSTALLED = not_run("a package would be installed on the machine of the test")

EESSI = not_run("needs CernVM-FS and a network")

BUILD = not_run("the programs are built before the test")


def may_sample():
    """Whether the kernel lets users sample their programs."""
    limit = Path("/proc/sys/kernel/perf_event_paranoid")
    return limit.exists() and int(limit.read_text()) <= 2


# A repository of uenv where uenv has it.
UENV = "export SCRATCH=/scratch/alice CLUSTER_NAME=arapiles && cabane repo create --uenv $SCRATCH/.uenv-images && "
ARCHIVE = not_run("scripts/test-packages tests the archive and the packages")
HELPER = """
install -D /run/docs/programs/cabane-mount /usr/local/libexec/cabane/cabane-mount
mkdir -p /etc/cabane /user-environment
printf 'mount-point /user-environment\\nimage-owners any\\n' >/etc/cabane/mount.policy
"""
# Another system than `local`, as the pages on registries have it.
DAINT = """
mkdir -p /etc/cabane
printf 'system_name = "daint"\\ndefault_uarch = "gh200"\\n' >/etc/cabane/config.toml
"""

PAGES = {
    "README.md": Page(
        quick=True,
        directory="~/cabane",
        clone=True,
        steps={
            "make demo": BUILD,
            "make test": BUILD,
            "cabane import ghcr.io/my-lab/solver:2.1": not_run("needs this registry"),
            "srun": not_run("needs a cluster, and pages on the cluster do not download packages"),
            "tar -xf": ARCHIVE,
            "cabane-0.2.0-linux-x86_64/install.sh": ARCHIVE,
            "cabane doctor": ARCHIVE,
        },
    ),
    "docs/guides/first-environment.md": Page(
        quick=True,
        directory="~/cabane",
        clone=True,
        steps={
            "make build": BUILD,
            "cabane image push": not_run("needs the registry of a site"),
            "cabane share": not_run("needs the registry of a site"),
            "cabane run mpi<Tab>": not_run("needs a person who presses Tab"),
        },
    ),
    "docs/guides/pack-a-directory.md": Page(
        quick=True,
        files=("config.yaml",),
        steps={
            "./configure": not_run("needs the sources of the reader"),
            "make": not_run("needs the sources of the reader"),
            "make install": not_run("needs the sources of the reader"),
        },
    ),
    "docs/guides/easybuild.md": Page(
        quick=True,
        files=("config.yaml",),
        steps={
            "eb": not_run("needs EasyBuild and the sources of a large package"),
            "uv pip compile": not_run("the machine of the test has no uv in PATH"),
            "cabane start apps": EESSI,
            "source /cvmfs": EESSI,
            "module load": EESSI,
        },
    ),
    "docs/guides/native-packages.md": Page(
        quick=True,
        files=("config.yaml",),
        steps={
            "sudo": INSTALLED,
            ". /usr/share": INSTALLED,
            "check-node": INSTALLED,
            "dpkg-query": INSTALLED,
            "rpm --query": INSTALLED,
        },
    ),
    "docs/guides/finding-out.md": Page(
        quick=True,
        directory="~/cabane",
        clone=True,
        images=("analysis/2026.1", "analysis/2026.2", "mpi-python/1.0", "tools/1.0"),
        before="cabane run mpi-python -- sh -c 'cmake -S examples/heat -B build && cmake --build build'",
        steps={
            "cabane diff ./last-year.toml": Step(
                before="echo 'images = [\"analysis/2026.1\"]' > last-year.toml; "
                "echo 'images = [\"analysis/2026.2\"]' > climate.toml"
            ),
        },
    ),
    "docs/guides/environment-files.md": Page(
        quick=True,
        images=("analysis/2026.2", "tools/1.0"),
        files=("climate.toml",),
        steps={
            "cabane environment check": Step(before="sed -i 's/^mounts/mount/' climate.toml"),
            "srun": not_run("needs Slurm and this image"),
            "cabane run -e ./pytorch.toml": not_run("needs this image"),
        },
    ),
    "docs/guides/repositories.md": Page(
        quick=True,
        images=("solver/1.0",),
        files_of=("tools/1.0",),
        as_root="install -d -o alice /shared/cabane /scratch/alice",
        before=f"cp {DOCS}/images/tools-1.0 tools.squashfs; cp -r {DOCS}/recipes/solver-1.0 solver",
        files=("~/.config/cabane/config.toml",),
        steps={
            "cabane --repo=/scratch/alice/repository,site": Step(
                before="cabane repo create /scratch/alice/repository && "
                "cabane --repo=/scratch/alice/repository image add tools/1.0 ./tools.squashfs"
            ),
        },
    ),
    "docs/guides/several-images.md": Page(
        quick=True,
        images=("analysis/2026.2", "tools/1.0", "solver/1.0"),
        files_of=("analysis/2026.1", "solver/2.0"),
        steps={
            "cabane run solver/1.0,solver/2.0:/user-tools --view=solver:default": Step(
                before=f"cabane image add solver/2.0 {DOCS}/images/solver-2.0"
            ),
            "source venv/bin/activate": Step(before="python3 -m venv --without-pip venv"),
            "cabane run analysis/2026.2,tools -- cabane status": Step(before="deactivate"),
            "cabane run analysis -- true": Step(before=f"cabane image add analysis/2026.1 {DOCS}/images/analysis-2026.1"),
        },
    ),
    "docs/guides/python-environment.md": Page(
        quick=True,
        directory="~/analysis",
        files=("config.yaml", "requirements.txt"),
        steps={
            "cabane update --dry-run": Step(
                before="cp requirements.txt new && printf 'numpy==2.4.5\nmatplotlib==3.10.8\n' > requirements.txt && "
                "cabane lock && mv new requirements.txt && cabane lock",
            ),
        },
    ),
    "CONTRIBUTING.md": Page(not_run="these commands build and test for minutes; other tests are what they run"),
    "docs/concepts/building.md": Page(
        directory="~/analysis",
        before=f"cp {DOCS}/recipes/analysis-2026.1/config.yaml . && echo colorama==0.4.6 > requirements.txt && "
        "cabane lock && cabane build . analysis/2026.1 && echo tabulate==0.9.0 >> requirements.txt && cabane lock",
        files_of=("analysis/2026.1",),
    ),
    "docs/concepts/recipe-format.md": Page(
        before="mkdir analysis && printf '%s\\n' 'name: analysis' 'version: 2024.1' 'engine: python' "
        "'store: user-environment' python: '  requirments: requirements.txt' > analysis/config.yaml"
    ),
    "docs/concepts/spack-recipes.md": Page(
        clone=True,
        before="mkdir -p systems && cabane system probe --output systems/eiger && cp -r ~/cabane/examples/tools analysis && "
        "printf '%s\\n' gcc: '  version: system' lvm: '  version: 19' > analysis/compilers.yaml && "
        "printf '%s\\n' tools: '  compiler: [gcc]' '  network:' '    mpi: mpihc@4.1' '  specs: [tree]' > analysis/environments.yaml",
    ),
    "docs/guides/coming-from-apptainer.md": Page(
        containers={"quay.io/biocontainers/samtools:1.19.2--h50ea8bc_1": ("samtools", "echo samtools 1.19.2")},
        steps={
            "cabane exec --nv": not_run("needs a GPU, and this SIF file"),
            "cabane shell": not_run("needs this SIF file"),
        },
    ),
    "docs/guides/coming-from-modules.md": Page(
        images=("analysis/2026.2",),
        steps={
            "cabane start prgenv-gnu": not_run("needs an image built with Spack"),
            "module avail": not_run("needs an image built with Spack"),
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
            "docker.io/my-lab/tool:2.1": ("tool", "cat"),
        },
        steps={"srun": not_run("needs Slurm")},
    ),
    "docs/guides/coming-from-uenv.md": Page(
        directory="~/cabane",
        clone=True,
        files_of=("app/42.0", "app/43.0"),
        as_root="install -d -o alice /scratch/alice",
        before=UENV + f"cabane --repo=uenv image add app/42.0:v1@arapiles%zen3 {DOCS}/images/app-42.0 && "
        f"cabane --repo=uenv image add app/43.0:v1@arapiles%zen3 {DOCS}/images/app-43.0",
    ),
    "docs/guides/containers.md": Page(
        slurm=True,
        containers={
            f"ghcr.io/my-lab/tool:{version}": ("tool", f'case $1 in --version) echo tool {version} ;; --help) ;; *) cat "$1" ;; esac')
            for version in ("2.1", "2.2")
        }
        | {"ghcr.io/my-lab/solver:2.1": ("solver", "exit 0")},
        files_of=("tools/1.0",),
        files=("solver/config.yaml",),
        as_root="install -d -o alice /scratch/input && echo data > /scratch/input/a.dat",
        before="echo input > input.dat && mkdir -p solver/site/bin && touch solver/solver.conf && "
        "printf '#!/bin/sh\\n' > solver/site/bin/start && chmod +x solver/site/bin/start && "
        f"cabane image add tools/24.11 {DOCS}/images/tools-1.0",
        steps={
            "cabane run ./tool.sif": not_run("needs this SIF file"),
            "cabane import --platform": not_run("needs an image for this platform"),
            "cabane import --check": not_run("needs an image that has moved"),
            "cabane import ghcr.io/my-lab/solver:2024": not_run("needs this image and this group"),
            "cabane build ./solver solver/2.1#2": not_run("needs a container with a distribution"),
            "cabane start tool/2.1": not_run("the container has no prompt that the test knows"),
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
    "docs/guides/debugging.md": Page(
        images=("solver/1.0",),
        files_of=("tools/1.0", "profilers/1.0"),
        files=("wave.c", "wave/config.yaml"),
        # The number of a process is another one each time.
        before="cabane run solver -- sleep 600 & until pid=$(pgrep -u $USER -x -f 'sleep 600'); do sleep 0.1; done; export pid; "
        "mpiexec.mpich -n 2 cabane run solver -- sleep 601 & "
        "until ranks=($(pgrep -u $USER -x -f 'sleep 601')) && [ ${#ranks[@]} = 2 ]; do sleep 0.1; done",
        steps={
            "cabane run wave -- wave -1": Step(fails=True, any_output=True),
            "cabane run wave,wave-debug -- gdb -batch -ex backtrace": Step(
                # The machine may send cores elsewhere.
                before="[ -e core ] || cabane run wave -- gdb -nx -batch -ex run -ex 'generate-core-file core' "
                "--args /user-environment/bin/wave -1",
            ),
            "cabane attach 4711": Step(typed="cabane attach $pid"),
            "ps -u": Step(before="exit"),
            "cabane attach 4711 -- gdb": Step(typed="cabane attach $pid -- gdb -batch -p $pid"),
            "cabane attach 4711 --with debuggers -- gdb": Step(
                before=f"cabane image add debuggers/1.0 {DOCS}/images/tools-1.0",
                typed="cabane attach $pid --with debuggers -- gdb -batch -p $pid",
            ),
            "cabane attach 4711 --with debuggers,profilers": Step(
                before=f"cabane image add profilers/1.0 {DOCS}/images/profilers-1.0",
                typed="cabane attach $pid --with debuggers,profilers --view debuggers:default",
            ),
            "cabane attach 4711 -- gdb -p 4713": Step(
                before="inspect-it && ls /user-profilers/bin/sample-it && exit",
                typed="cabane attach ${ranks[0]} -- gdb -batch -p ${ranks[1]}",
            ),
        },
    ),
    "docs/guides/profiling.md": Page(
        images=("analysis/2026.2",),
        files=("wave.c", "wave/config.yaml", "profiler/config.yaml", "profiler/requirements.txt", "heat.py", "mpitrace/install/bin/trace-mpi",
               "mpitrace/install/bin/mpi-times", "mpitrace/config.yaml", "ring.c"),
        steps={
            **({} if may_sample() else {"cabane run wave -- perf": not_run("this kernel forbids users to sample")}),
            "srun": not_run("needs a cluster, and pages on the cluster do not download packages"),
        },
    ),
    "docs/guides/jupyter-and-editors.md": Page(
        images=("analysis/2026.2+ipykernel",),
        files_of=("analysis/2026.1",),
        steps={
            "cabane build .": Step(before=f"cp {DOCS}/recipes/analysis-2026.2+ipykernel/* ."),
            "cabane kernel install plain/1.0": Step(
                before=f"cabane image add plain/1.0 {DOCS}/images/analysis-2026.1"
            ),
            "cabane kernel install prgenv-gnu": not_run("needs an image built with Spack"),
            "cabane kernel install -e climate": Step(
                before="mkdir -p ~/.config/cabane/environments && "
                "echo 'images = [\"analysis/2026.2\"]' > ~/.config/cabane/environments/climate.toml"
            ),
            "cabane kernel install --bind": not_run("needs this image"),
            "cabane kernel install julia/1.10": not_run("needs this image"),
            "cabane kernel ls": Step(before="cabane kernel remove climate"),
            "ssh": not_run("needs another host"),
            "rsync": not_run("needs another host"),
            "cat ~/bin/python-analysis": Step(
                before="mkdir ~/bin && printf '%s\\n' '#!/bin/sh' "
                "'exec cabane run analysis/2026.2 -- python \"$@\"' > ~/bin/python-analysis"
            ),
        },
    ),
    "docs/guides/papers.md": Page(not_run="needs ReFrame, and an image with compilers; tests run the suite"),
    "docs/guides/pipelines-ci.md": Page(not_run="needs a pipeline; scripts/test-clients runs generated ones"),
    "docs/guides/looking-after-a-repository.md": Page(
        images=("solver/1.0",),
        registry=True,
        as_root="install -d -o alice /shared/cabane /scratch/alice /old /new && groupadd --users alice vaspusers",
        before="cabane repo create /shared/cabane/repository && cabane repo create /old/repository && "
        "cabane --repo=/old/repository,default image add solver/1.0 solver/1.0@* && export SCRATCH=/scratch/alice",
        files_of=("tools/1.0", "prgenv-gnu/24.11"),
        steps={
            "cabane repo gc": Step(any_output=True),
            # No image was unused for a week.
            "cabane repo deduplicate": Step(any_output=True),
            "cabane registry mirror": Step(
                before="cabane repo create /shared/cabane/mirror && "
                f"cabane image push --registry https://registry.example.org/uenv {DOCS}/images/tools-1.0 stack/1.0:v1@alpha%zen3",
                any_output=True,
            ),
            "ls -l vasp.squashfs": Step(
                before=f"cp {DOCS}/images/tools-1.0 vasp.squashfs && chmod 640 vasp.squashfs && "
                "sudo chgrp vaspusers vasp.squashfs",
                any_output=True,
            ),
            "cabane --repo=/shared/cabane/repository image pull": not_run("needs this image in a registry"),
            "cabane repo migrate": Step(any_output=True),
            "cabane run prgenv-gnu": Step(
                before=UENV + f"cabane --repo=uenv image add prgenv-gnu/24.11:v1@arapiles%zen3 {DOCS}/images/prgenv-gnu-24.11"
            ),
            "cabane --repo=uenv": not_run("needs this image in a registry"),
            "uenv image ls": Step(before="sudo ln -s cabane /usr/local/bin/uenv"),
            "cabane repo status $SCRATCH/.uenv-images": Step(any_output=True),
            "cabane repo import": Step(any_output=True),
            "cabane repo status /shared/cabane/repository --verify": not_run("needs a damaged repository"),
        },
    ),
    "docs/guides/catalogue.md": Page(
        registry=True,
        files_of=("prgenv-gnu/24.11",),
        as_root=DAINT + "install -d -o alice /srv/www",
        before="mkdir -p ~/.config/cabane && "
        "printf '[registry]\\nurl = \"https://registry.example.org/uenv\"\\n' > ~/.config/cabane/config.toml && "
        f"for v in 24.11 25.6 26.1; do cabane image push {DOCS}/images/prgenv-gnu-24.11 deploy::prgenv-gnu/$v:v1@daint%gh200 && "
        "cabane image push {DOCS}/images/prgenv-gnu-24.11 contrib::prgenv-gnu/$v:v1@daint%gh200 || break; done".format(DOCS=DOCS),
        steps={"cabane catalogue serve": not_run("serves until it is interrupted")},
    ),
    "docs/guides/releases.md": Page(
        registry=True,
        files_of=("prgenv-gnu/24.11", "prgenv-gnu/25.6", "prgenv-gnu/26.1", "cp2k/2025.1"),
        files=("/etc/cabane/config.toml",),
        # A release of an image, from its file to the channel.
        before="export CLUSTER_NAME=daint && cabane image key new build.key && "
        f"cabane image add prgenv-gnu/25.6:v2@daint%gh200 {DOCS}/images/prgenv-gnu-25.6\n"
        f"release() {{ cabane image add $1@daint%gh200 {DOCS}/images/$2 && cabane image push --sign build.key $1 && "
        "cabane channel promote testing $1 --key release.key && "
        "cabane channel waive stable $1 --rule age --reason 'a test' --until $(date -d '+30 days' +%F) --key release.key && "
        "cabane channel promote stable $1 --key release.key; }",
        steps={
            "srun": Step(
                before="sudo install -D -m 644 release.key.pub /etc/cabane/keys/release.pub && "
                "sudo install -D -m 644 build.key.pub /etc/cabane/keys/build.pub",
                typed="cabane system probe --facts daint.json",
            ),
            "cabane channel promote stable prgenv-gnu:testing --dry-run": Step(fails=True),
            "cabane channel promote stable prgenv-gnu/26.1:v1": not_run("needs the results of checks on two machines"),
            "cabane channel waive": Step(
                typed='cabane channel waive stable prgenv-gnu/25.6:v2 --rule age --reason "fixes a crash" '
                "--until $(date -d '+30 days' +%F) --key release.key"
            ),
            "cabane channel diff stable.41": not_run("needs a channel with 41 states"),
            "cabane channel rollback": Step(
                before="release cp2k/2025.1:v1 cp2k-2025.1 && release prgenv-gnu/24.11:v2 prgenv-gnu-24.11 && "
                "release prgenv-gnu/26.1:v1 prgenv-gnu-26.1"
            ),
            "cabane bundle create july.bundle": Step(
                before="cabane channel promote stable prgenv-gnu/26.1:v1 --key release.key"
            ),
            "cabane image pull prgenv-gnu:stable": Step(
                before="cabane repo create ~/other && export CABANE_REPO=$HOME/other && "
                "cabane channel rollback stable --reason 'a test' --key release.key"
            ),
            "cabane upgrade --dry-run": Step(
                before="cabane channel promote stable prgenv-gnu/26.1:v1 --key release.key", any_output=True
            ),
        },
    ),
    "docs/guides/share-images.md": Page(
        registry=True,
        files_of=("prgenv-gnu/24.11",),
        as_root=DAINT,
        files=("~/.config/cabane/config.toml",),
        before=f"export CABANE_REGISTRY=https://registry.example.org/uenv && cp {DOCS}/images/prgenv-gnu-24.11 image.squashfs && "
        "cabane image push ./image.squashfs deploy::prgenv-gnu/24.11:v2@daint%gh200 && "
        "cabane image push ./image.squashfs build::cp2k/2025.1:1234567890@daint%gh200 && unset CABANE_REGISTRY",
        steps={
            'cabane image pull "$(cabane image find --pick)"': not_run("waits for keys that a person types"),
            "cabane image find --package": not_run("needs images built with Spack"),
            "cabane search": not_run("needs images built with Spack"),
            "cabane info": not_run("needs images built with Spack"),
            "cosign": not_run("needs cosign; scripts/test-clients builds it"),
            "cabane registry check": not_run("needs a registry with a wrong list"),
        },
    ),
    "docs/guides/site-installation.md": Page(
        directory="~/cabane",
        clone=True,
        files=("/etc/cabane/config.toml",),
        files_of=("solver/1.0",),
        as_root="install -d -o alice /shared/cabane /scratch/alice",
        steps={
            "tar -xf": ARCHIVE,
            "sudo cabane-0.2.0-linux-x86_64/install.sh": ARCHIVE,
            "sudo cabane self update": ARCHIVE,
            "sudo apt install": ARCHIVE,
            "sudo dnf install": ARCHIVE,
            "uv tool install": ARCHIVE,
            "spack repo add": Step(spack=True, before=spack_pages.OWN_SPACK),
            "spack install": not_run("needs the sources of Rust for Spack, and compiles Rust"),
            "eb": not_run("needs EasyBuild"),
            "make build": BUILD,
            "cabane config#2": Step(
                before="mkdir -p ~/.config/cabane && printf '%s\\n' '[[repositories]]' 'name = \"mine\"' "
                "'path = \"/scratch/alice/repository\"' 'priority = \"5\"' '[build]' 'job = 4' > ~/.config/cabane/config.toml"
            ),
            "cabane repo create": Step(before="rm ~/.config/cabane/config.toml"),
            "sudo cabane image trust": Step(before=f"cp {DOCS}/images/solver-1.0 /scratch/alice/app.squashfs"),
            "cabane image sign": Step(before=f"cabane image add app/1.2 {DOCS}/images/solver-1.0"),
            "cabane image push": not_run("needs the registry of a site"),
            "cat /etc/modprobe.d": not_run("changes the keys of the kernel"),
            "keyring=": not_run("changes the keys of the kernel"),
            "openssl x509": not_run("changes the keys of the kernel"),
            "sudo keyctl": not_run("changes the keys of the kernel"),
            "cabane doctor": not_run("needs a node without user namespaces"),
            "mpirun": not_run("needs a program of the reader"),
        },
    ),
    "docs/guides/troubleshooting.md": Page(
        images=("solver/1.0",),
        as_root=HELPER.replace("image-owners any", "image-owners root")
        + "chmod 755 /usr/local/libexec/cabane/cabane-mount",
        steps={
            "cabane doctor": Step(fails=True),
            "mpiexec": not_run("needs an image of the reader"),
            "cabane build analysis": Step(
                before=f"cp -r {DOCS}/recipes/analysis-2026.1 analysis && echo nosuchpackage==1.0 > analysis/requirements.txt"
            ),
        },
        files_of=("analysis/2026.1",),
    ),
    "docs/guides/upgrading-the-system.md": Page(
        images=("mpi-python/1.0",),
        steps={
            "cabane impact --from": Step(before="cp node.json new-node.json"),
            "cabane impact --package": not_run("needs a pipeline that has built and pushed an image with packages"),
            "cabane doctor mpi-python": Step(
                before="sudo rm /usr/lib/*-linux-gnu/libibverbs.so.1* /usr/lib/*-linux-gnu/libstdc++.so.6*; sudo ldconfig",
                fails=True,
            ),
            "cabane run mpi-python -- ninja": Step(fails=True
            ),
        },
    ),
    "docs/guides/vendor-mpi.md": Page(not_run="needs the MPI of a vendor, and Spack"),
    **slurm_pages.PAGES,
    **spack_pages.PAGES,
}

