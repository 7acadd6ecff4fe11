# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need that run container images."""

import os

from kinds import DOCS, Page, Step, not_run
from slurm_pages import FABRIC

TOOL = 'case $1 in --version) echo tool {version} ;; --help | --gpu) ;; *) cat "$1" ;; esac'
# A stack, and the debugger of the machine as an image.
DEBUGGERS = f"""
cabane image add prgenv-gnu/24.11 {DOCS}/images/prgenv-gnu-24.11 &&
mkdir -p debuggers/install/bin debuggers/install/lib && cp /usr/bin/gdb debuggers/install/bin &&
ldd /usr/bin/gdb | grep -o '/lib[^ ]*' | grep -v -e /ld- -e '/libc[.]' | xargs cp -Lt debuggers/install/lib &&
python=$(readlink -f /usr/bin/python3) && cp -r /usr/lib/${{python##*/}} debuggers/install/lib &&
rm -rf debuggers/install/lib/python3*/{{test,config-*,__pycache__}} &&
sed 's/^name: tools/name: debuggers/' {DOCS}/recipes/tools-1.0/config.yaml > debuggers/config.yaml &&
printf '%s\\n' '        - PYTHONHOME: $@mount@' '      prepend_path:' '        - LD_LIBRARY_PATH: $@mount@/lib' >> debuggers/config.yaml &&
cabane build debuggers debuggers/1.0
"""
# Podman that is unpacked and not installed, as the tests have it, in a world of its own. Pages have no session of
# systemd, so it runs as root.
UNPACKED = os.environ.get("CABANE_TEST_PODMAN", "").removesuffix("/usr/bin/podman")
PODMAN = f"""
sudo tee /usr/local/bin/podman >/dev/null <<'END'
#!/bin/sh
exec sudo unshare --mount sh -c '
set -e
mount --make-rprivate /
mount -t overlay -o lowerdir={UNPACKED}/usr:/usr overlay /usr
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
if [ -d /sys/fs/cgroup/unified ]; then mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup; fi
mkdir -p /etc/containers
echo "{{\\"default\\": [{{\\"type\\": \\"insecureAcceptAnything\\"}}]}}" >/etc/containers/policy.json
cat >/etc/containers/containers.conf <<CONF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
cgroups = "disabled"
netns = "none"
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
CONF
exec /usr/bin/podman --storage-driver vfs "$@"
' sh "$@"
END
sudo chmod +x /usr/local/bin/podman
"""
# The commands of a recipe and `--writable` put layers on an image. The disk of the cluster is such a layer itself, and
# cannot hold them.
DISK = """
mount -t tmpfs -o mode=1777 tmpfs /tmp
install -d -o alice ~alice/.cache/cabane/builds && mount -t tmpfs -o uid=$(id -u alice) tmpfs ~alice/.cache/cabane/builds
"""
GPU = f"sudo {DOCS}/clone/scripts/docs/gpu"
PYTORCH = {"nvcr.io/nvidia/pytorch:25.01-py3": ("python", 'test -e "${1:-/}"')}
# A recipe for sources that have no Makefile.
WITHOUT_MAKEFILE = """\
printf '%s\n' 'name: solver' 'engine: container' 'container:' '  from: ghcr.io/my-lab/debian:12' '  files:' \
    '    /opt/site: site' '  working-directory: /opt/site' '  run:' '    - make install' > solver/config.yaml
"""

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
            "ghcr.io/my-lab/tool:2.1": ("tool", TOOL.format(version="2.1"), "solver"),
            "ghcr.io/my-lab/tool:2.2": ("tool", TOOL.format(version="2.2")),
            "ghcr.io/my-lab/solver:2.1": ("solver", "exit 0"),
            "ghcr.io/my-lab/solver:2024": ("solver", "exit 0"),
            "ghcr.io/my-lab/debian:12": ("site-info", "echo site 12", "cp", "make"),
            "~/tool.sif": ("tool", "echo tool 2.1"),
        },
        files_of=("tools/1.0", "prgenv-gnu/24.11", "mpich/1.0"),
        files=("solver/config.yaml",),
        # A program with MPI for the container.
        as_root=FABRIC + DISK + "groupadd --users alice solver-users && install -d -o alice /scratch/input && echo data > /scratch/input/a.dat && "
        f"mpicc.mpich -o /usr/local/bin/solver {DOCS}/clone/tests/mpi/hello.c",
        before="echo input > input.dat && mkdir -p solver/site/bin && touch solver/solver.conf && "
        "printf '#!/bin/sh\\n' > solver/site/bin/start && chmod +x solver/site/bin/start && "
        f"cabane image add tools/24.11 {DOCS}/images/tools-1.0",
        steps={
            "cabane import --check": Step(
                before="skopeo copy --quiet --insecure-policy --all docker://ghcr.io/my-lab/tool:2.2 docker://ghcr.io/my-lab/tool:2.1",
                fails=True,
            ),
            "cabane build ./solver solver/2.1#2": Step(before=WITHOUT_MAKEFILE),
            "srun -N4 --uenv=tool/2.1 tool": Step(before="exit"),
            "cabane run tool/2.1,prgenv-gnu": Step(
                before=DEBUGGERS,
                # It would wait for a person.
                typed="cabane run tool/2.1,prgenv-gnu/24.11,debuggers -- gdb -batch -ex run --args cat input.dat",
            ),
            # The registry of the page has no packages.
            "cabane run --writable=/tmp/layer debian/12 -- sh": Step(
                before="cabane import ghcr.io/my-lab/debian:12 debian/12 && ! cabane run debian/12 -- jq --version",
                typed="cabane run --writable=/tmp/layer debian/12 -- cp /bin/site-info /usr/bin/jq",
            ),
            "cabane run --device": Step(before=GPU),
            "srun -N4 --uenv=tool/2.1 --uenv-device": Step(before=f"{GPU} nodes"),
            "podman": Step(before=PODMAN) if UNPACKED else not_run("needs podman, which CABANE_TEST_PODMAN names"),
        },
    ),
    "docs/guides/gpu.md": Page(
        containers=PYTORCH,
        steps={
            "cabane build . training/1.0": not_run("downloads gigabytes of packages"),
            "srun -N1": not_run("needs the image of the step before"),
            # Without a GPU, it runs with a warning.
            "cabane run --nv": Step(before="touch train.py"),
            "cabane system devices": Step(before=GPU),
        },
        on_cluster=Page(
            slurm=True,
            containers=PYTORCH,
            steps={
                "srun -N4": Step(
                    before=f"touch train.py && cabane import nvcr.io/nvidia/pytorch:25.01-py3 pytorch/25.01 && {GPU} nodes"
                ),
            },
        ),
    ),
    "docs/guides/environment-files.md": Page(
        images=("analysis/2026.2", "tools/1.0"),
        slurm=True,
        containers=PYTORCH,
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
