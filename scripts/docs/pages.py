# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need before their first block, and which commands cannot run in a test, with the reason.

A page that is not here runs in an empty directory of a user who has nothing.
"""

import os
from pathlib import Path

import container_pages
import dist
import registry_pages
import slurm_pages
import spack_pages
import ssh
from kinds import BUILD, DOCS, ON_CLUSTER, Page, Step, compiles_cabane, not_run
from registry_pages import UENV

# The client of CernVM-FS mounts it, if the machine has one.
EESSI = Path("/cvmfs/software.eessi.io/versions/2023.06/init/bash")


def may_sample():
    """Whether the kernel lets users sample their programs."""
    limit = Path("/proc/sys/kernel/perf_event_paranoid")
    return limit.exists() and int(limit.read_text()) <= 2


def kernel_key(**words):
    """A command that gives a key to the kernel, if it has a keyring for that. Linux 7.0 brings it."""
    # It is known once dm-verity is there.
    if not Path("/sys/module/dm_verity/parameters/keyring_unsealed").exists():
        return not_run("needs Linux 7.0, such as that of scripts/kernels/exec")
    return Step(**words)


HELPER = """
install -D /run/docs/programs/cabane-mount /usr/local/libexec/cabane/cabane-mount
mkdir -p /etc/cabane /user-environment
printf 'mount-point /user-environment\\nimage-owners any\\n' >/etc/cabane/mount.policy
"""
# A program with a build system as Autotools make it.
SOURCES_OF_READER = r"""
mkdir ~/hello-1.0 && cd ~/hello-1.0 &&
printf '%s\n' '#!/bin/sh' 'for word; do case $word in --prefix=*) prefix=${word#*=} ;; esac; done' \
    'sed "s|@prefix@|${prefix:-/usr/local}|" Makefile.in > Makefile' > configure && chmod +x configure &&
printf '%s\n' 'prefix = @prefix@' 'hello: hello.c' 'install: hello' > Makefile.in &&
printf '\tinstall -D hello $(DESTDIR)$(prefix)/bin/hello\n' >> Makefile.in &&
printf '%s\n' '#include <stdio.h>' 'int main(void) { return puts("hello") < 0; }' > hello.c
"""

# Where `eb` is.
EASYBUILD = os.path.dirname(os.environ.get("CABANE_TEST_EASYBUILD", ""))
NO_EASYBUILD = not_run("needs EasyBuild, which CABANE_TEST_EASYBUILD names")
LOADS_EASYBUILD = (
    ". /usr/share/modules/init/bash && export EASYBUILD_MODULES_TOOL=EnvironmentModules EASYBUILD_MODULE_SYNTAX=Tcl "
    f"EB_PYTHON={EASYBUILD}/python PATH=$PATH:{EASYBUILD}"
)
# A pipeline that has built and released an image with a package from PyPI, for a system that the reader is on.
RELEASES_NUMPY = """\
printf '%s\\n' 'system_name = "daint"' 'default_uarch = "gh200"' '[registry]' 'url = "https://registry.example.org/uenv"' |
    sudo install -D -m 644 /dev/stdin /etc/cabane/config.toml &&
mkdir -p recipes/app/1.0 && echo numpy==2.4.5 > recipes/app/1.0/requirements.txt &&
printf '%s\\n' 'name: app' 'version: 3' 'engine: python' 'python:' '  interpreter: /usr/bin/python3' \\
    '  requirements: requirements.txt' 'checks: [{name: numpy, command: python -c "import numpy"}]' > recipes/app/1.0/config.yaml &&
(cd recipes/app/1.0 && cabane lock) && printf '%s\\n' 'clusters:' '  daint:' '    targets:' '      - {uarch: gh200, partition: normal}' '' \\
    'uenvs:' '  app:' '    "1.0":' '      recipes: {gh200: "1.0"}' '      deploy: {daint: [gh200]}' '      tag: v7' '' \\
    'promote:' '  namespace: deploy' > pipeline.yaml &&
cabane image key new tests.key && cabane pipeline run --key tests.key
"""

PAGES = {
    "README.md": Page(
        quick=True,
        network=True,
        containers={"ghcr.io/my-lab/solver:2.1": ("solver", "exit 0")},
        dist="archive",
        steps={
            "make demo": BUILD,
            "make test": BUILD,
            "tar -xf": Step(before=dist.ARCHIVE),
            # The one that was installed.
            "cabane init": Step(before="sudo rm /usr/local/bin/cabane"),
        },
        on_cluster=slurm_pages.README,
    ),
    "docs/guides/first-environment.md": Page(
        quick=True,
        registry=True,
        network=True,
        dist="archive",
        steps={
            "tar -xf": Step(before=dist.ARCHIVE),
            # The one that was installed.
            "cabane doctor": Step(before="sudo rm /usr/local/bin/cabane"),
            "cabane image push": Step(before="export CABANE_REGISTRY=https://registry.example.org/uenv"),
            "cabane start mpi-python#2": Step(before="echo 'source <(cabane completion bash)' >> ~/.bashrc && unset CABANE_REGISTRY"),
            # The label is complete only if Tab completes it.
            "cabane run mpi<Tab>": Step(typed="cabane run mpi\t -- true"),
        },
    ),
    "docs/guides/pack-a-directory.md": Page(
        quick=True,
        files=("config.yaml",),
        steps={
            "./configure": Step(before=SOURCES_OF_READER),
        },
    ),
    "docs/guides/easybuild.md": Page(
        quick=True,
        files=("config.yaml",),
        steps={
            "eb": Step(before="sudo install -d -o alice /apps/easybuild && " + LOADS_EASYBUILD) if EASYBUILD else NO_EASYBUILD,
            # The one that Cabane downloads.
            "uv pip compile": Step(before="PATH=$PATH:$(echo ~/.cache/cabane/tools/uv-*)"),
            **({} if EESSI.exists() else dict.fromkeys(
                ("cabane start apps", "source /cvmfs", "module load GROMACS"), not_run("needs EESSI, which CernVM-FS mounts")
            )),
        },
    ),
    "docs/guides/native-packages.md": Page(
        quick=True,
        files=("config.yaml",),
        steps={
            "sudo apt-get remove": Step(keys="y\n"),
            "dpkg-query": Step(before="sudo apt-get install ./cabane-image-site-tools_1.0-1_all.deb"),
            "rpm --query": Step(
                before="cabane package site-tools/1.0 --format rpm && "
                "sudo rpm --install --nodeps --replacefiles cabane-image-site-tools-1.0-1.noarch.rpm"
            ),
        },
    ),
    "docs/guides/finding-out.md": Page(
        quick=True,
        examples=True,
        images=("analysis/2026.1", "analysis/2026.2", "mpi-python/1.0", "tools/1.0"),
        before="cabane run mpi-python -- sh -c 'cmake -S examples/heat -B build && cmake --build build'",
        steps={
            "cabane diff ./last-year.toml": Step(
                before="echo 'images = [\"analysis/2026.1\"]' > last-year.toml; "
                "echo 'images = [\"analysis/2026.2\"]' > climate.toml"
            ),
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
        examples=True,
        before="mkdir -p systems && cabane system probe --output systems/eiger && cp -r examples/tools analysis && "
        "printf '%s\\n' gcc: '  version: system' lvm: '  version: 19' > analysis/compilers.yaml && "
        "printf '%s\\n' tools: '  compiler: [gcc]' '  network:' '    mpi: mpihc@4.1' '  specs: [tree]' > analysis/environments.yaml",
    ),
    "docs/guides/coming-from-modules.md": Page(
        images=("analysis/2026.2",),
        files_of=("prgenv-gnu/24.11+modules",),
        steps={
            "cabane start prgenv-gnu": Step(
                before="echo . /usr/share/modules/init/bash >> ~/.bashrc && export MODULES_PAGER= && "
                f"cabane image add prgenv-gnu/24.11 {DOCS}/images/prgenv-gnu-24.11+modules"
            ),
        },
    ),
    "docs/guides/coming-from-uenv.md": Page(
        dist="archive",
        files_of=("app/42.0", "app/43.0"),
        as_root="install -d -o alice /scratch/alice",
        before=UENV + f"cabane --repo=uenv image add app/42.0:v1@arapiles%zen3 {DOCS}/images/app-42.0 && "
        f"cabane --repo=uenv image add app/43.0:v1@arapiles%zen3 {DOCS}/images/app-43.0",
        steps={"tar -xf": Step(before=dist.ARCHIVE + " && sudo rm /usr/local/bin/cabane")},
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
        },
        on_cluster=slurm_pages.PROFILING,
    ),
    "docs/guides/jupyter-and-editors.md": Page(
        images=("analysis/2026.2+ipykernel", "tools/1.0"),
        as_root=ssh.SERVER + "install -d -o alice /scratch/input",
        files_of=("analysis/2026.1", "julia/1.10"),
        steps={
            "cabane build .": Step(before=f"cp {DOCS}/recipes/analysis-2026.2+ipykernel/* ."),
            "cabane kernel install plain/1.0": Step(
                before=f"cabane image add plain/1.0 {DOCS}/images/analysis-2026.1"
            ),
            "cabane kernel install prgenv-gnu": Step(
                before="for label in prgenv-gnu/24.11:v1 pytorch/2.9; do "
                f"cabane image add $label {DOCS}/images/analysis-2026.2+ipykernel || break; done"
            ),
            "cabane kernel install -e climate": Step(
                before="mkdir -p ~/.config/cabane/environments && "
                "echo 'images = [\"analysis/2026.2\"]' > ~/.config/cabane/environments/climate.toml"
            ),
            # The program is not started.
            "cabane kernel install julia/1.10": Step(before=f"cabane image add julia/1.10 {DOCS}/images/julia-1.10"),
            "cabane kernel ls": Step(
                before="for name in climate julia-1.10 prgenv pytorch-2.9; do cabane kernel remove $name; done"
            ),
            **(
                {"ssh cluster cabane run analysis/2026.2 -- python": Step(
                    before=ssh.to("cluster") + "echo 'print(6 * 7)' > solver.py && printf 'b\\na\\n' > big.txt"
                )}
                if ssh.IS_THERE
                else {"ssh": ssh.MISSING, "exit": ssh.MISSING}
            ),
            "rsync": Step(before="mkdir ~/results ~/copy && echo 42 > ~/results/answer && cd ~/copy"),
            "cat ~/bin/python-analysis": Step(
                before="[ $(cat results/answer) = 42 ] && cd && mkdir ~/bin && printf '%s\\n' '#!/bin/sh' "
                "'exec cabane run analysis/2026.2 -- python \"$@\"' > ~/bin/python-analysis"
            ),
        },
    ),
    "docs/guides/papers.md": Page(
        files_of=("mpi-python/1.0",),
        files=("~/.config/cabane/config.toml",),
        # As `make install` does.
        as_root=f"install -d /usr/local/share/cabane && cp -r {DOCS}/clone/suites /usr/local/share/cabane\n",
        before=f"python3 -m venv reframe && . reframe/bin/activate && cabane image add prgenv-gnu/25.6 {DOCS}/images/mpi-python-1.0",
        # In the short form. `Builds` needs Spack.
        steps={
            "cabane check prgenv-gnu/25.6 --suite papers --only papers --reframe=-Sshort=yes": Step(
                typed="cabane check prgenv-gnu/25.6 --suite papers --only papers --reframe=-Sshort=yes "
                "'--reframe=-x=Builds|Start|Sizes' --key tests.key",
            ),
            **{
                f"cabane check prgenv-gnu/25.6 --suite papers --only papers --reframe=-n={section}": Step(
                    typed=f"cabane check prgenv-gnu/25.6 --suite papers --only papers --reframe=-n={section} "
                    "--reframe=-Sshort=yes --key tests.key"
                )
                for section in ("Start", "Sizes")
            },
            "sudo make papers": not_run("makes an image of Debian with compilers, and measures for minutes"),
        },
    ),
    "docs/guides/pipelines-ci.md": Page(
        directory="~/examples/pipeline",
        examples=True,
        before="git init --quiet .",
    ),
    "docs/guides/site-installation.md": Page(
        directory="~/cabane",
        clone=True,
        dist="packages",
        files=("/etc/cabane/config.toml",),
        registry=True,
        network=True,
        files_of=("solver/1.0", "mpi-python/1.0"),
        as_root="install -d -o alice /shared/cabane /scratch/alice",
        steps={
            "tar -xf": Step(before=dist.ARCHIVE),
            f"sudo cabane-{dist.VERSION}-linux-x86_64/install.sh": Step(before="sudo rm -f /usr/local/bin/cabane"),
            "sudo cabane self update": Step(
                before=dist.next_release(), typed=f"sudo cabane self update cabane-{dist.NEXT}-linux-$(uname -m).tar.gz"
            ),
            "sudo apt install": dist.packages(Step(
                before=f"[ \"$(cabane --version)\" = 'cabane {dist.NEXT}' ] && sudo cabane-{dist.VERSION}-linux-$(uname -m)/install.sh --uninstall && "
                f"cp {dist.THERE}/*.deb {dist.THERE}/*.whl ."
            )),
            # Its list of installed packages is empty, and it replaces what dpkg has installed.
            "sudo dnf install": dist.packages(Step(
                before=f"sudo apt-get -qq install -y dnf >/dev/null && cp {dist.THERE}/*.rpm .", keys="y\r"
            )),
            # Not the one of the clone.
            "uv tool install": dist.packages(Step(
                before=f"[ \"$(command -v cabane)\" = /usr/bin/cabane ] && cp {DOCS}/programs/uv ~ && PATH=$PATH:$HOME && hash -r"
            )),
            "spack repo add": Step(spack=True, before=spack_pages.OWN_SPACK),
            "spack install": Step(spack=True, before=spack_pages.RUST_OF_MACHINE, any_output=True),
            "git archive": Step(before=spack_pages.IN_GIT + "mkdir -p dist"),
            # There is no module for the Rust of the machine.
            f"eb packaging/easybuild/cabane-{dist.VERSION}.eb": compiles_cabane(
                LOADS_EASYBUILD,
                typed=f"eb packaging/easybuild/cabane-{dist.VERSION}.eb --sourcepath dist --filter-deps=Rust",
            ) if EASYBUILD else NO_EASYBUILD,
            f"eb packaging/easybuild/cabane-{dist.VERSION}-archive.eb": Step(before=f"(cd dist && {dist.ARCHIVE}) && " + LOADS_EASYBUILD)
            if EASYBUILD else NO_EASYBUILD,
            # The programs there are those of the test.
            "make build": compiles_cabane("sudo umount target/release/cabane target/release/cabane-mount && sudo rm -r target"),
            "cabane config#2": Step(
                before="mkdir -p ~/.config/cabane && printf '%s\\n' '[[repositories]]' 'name = \"mine\"' "
                "'path = \"/scratch/alice/repository\"' 'priority = \"5\"' '[build]' 'job = 4' > ~/.config/cabane/config.toml"
            ),
            "cabane repo create": Step(before="rm ~/.config/cabane/config.toml"),
            "sudo cabane image trust": Step(before=f"cp {DOCS}/images/solver-1.0 /scratch/alice/app.squashfs"),
            "cabane image sign": Step(before=f"cabane image add app/1.2 {DOCS}/images/solver-1.0"),
            "cabane image push": Step(before="export CABANE_REGISTRY=https://registry.example.org/uenv"),
            "cat /etc/modprobe.d": kernel_key(before="echo 'options dm-verity keyring_unsealed=1' | "
                "sudo tee /etc/modprobe.d/cabane.conf"),
            "keyring=": kernel_key(),
            "openssl x509": kernel_key(any_output=True),
            "sudo keyctl": kernel_key(),
            "cabane doctor#3": Step(
                # The number is one of each user namespace, and the helper has no rights in another one.
                before="sudo rm /usr/local/libexec/cabane/cabane-mount /etc/cabane/mount.policy",
                typed="unshare --user --map-current-user --keep-caps sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && "
                "exec setpriv --ambient-caps=-all --inh-caps=-all cabane doctor'",
                fails=True,
            ),
            "mpirun": Step(before=f"cabane image add mpi-python/1.0 {DOCS}/images/mpi-python-1.0 && "
                "cabane run mpi-python -- mpicc -o solver tests/mpi/hello.c && sudo ln -sf mpirun.mpich /usr/bin/mpirun"),
        },
    ),
    "docs/guides/troubleshooting.md": Page(
        images=("solver/1.0",),
        as_root=HELPER.replace("image-owners any", "image-owners root")
        + "chmod 755 /usr/local/libexec/cabane/cabane-mount",
        steps={
            "cabane doctor": Step(fails=True),
            "mpiexec": Step(
                typed="mpiexec.mpich -n 4 cabane run solver -- sh -c 'readlink /proc/self/ns/user; sleep 2' | tee seen; "
                "[ $(sort -u seen | wc -l) = 1 ]"
            ),
            "cabane build analysis": Step(
                before=f"cp -r {DOCS}/recipes/analysis-2026.1 analysis && echo nosuchpackage==1.0 > analysis/requirements.txt"
            ),
        },
        files_of=("analysis/2026.1",),
    ),
    "docs/guides/upgrading-the-system.md": Page(
        images=("mpi-python/1.0",),
        registry=True,
        network=True,
        steps={
            "cabane impact --from": Step(before="cp node.json new-node.json"),
            "cabane impact --package": Step(before=RELEASES_NUMPY),
            "cabane doctor mpi-python": Step(
                before="sudo rm /etc/cabane/config.toml /usr/lib/*-linux-gnu/libibverbs.so.1* /usr/lib/*-linux-gnu/libstdc++.so.6*; sudo ldconfig",
                fails=True,
            ),
            "cabane run mpi-python -- ninja": Step(fails=True
            ),
        },
    ),
    **container_pages.PAGES,
    **registry_pages.PAGES,
    **slurm_pages.PAGES,
    **spack_pages.PAGES,
}
PAGES |= {name + ON_CLUSTER: page.on_cluster for name, page in PAGES.items() if page.on_cluster}
