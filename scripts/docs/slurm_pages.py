# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need that are about jobs, and about MPI."""

import os
import shutil
from pathlib import Path

import dist
import ssh
from kinds import BUILD, DOCS, HELLO, WHEELS, Page, Step, cosign, in_opt, not_run

# The plugin where `make install` puts it, and no line for it.
PLUGIN = """
: >/etc/slurm/plugstack.conf
release=$(slurmd -V | sed 's/[^0-9]*\\([0-9]*\\.[0-9]*\\).*/\\1/')
install -D -m 644 /run/docs/programs/libcabane_slurm.so /usr/local/lib/cabane/slurm/$release/cabane-slurm.so
"""
# Two kinds of nodes, as the cluster has them in its configuration: each node sees another file.
UARCHS = """
touch /etc/cabane/uarch
for node in 1:zen3 2:zen3 3:zen2 4:zen2; do
    nsenter --target $(cat /run/cluster/n${node%:*}.pid) --mount -- \\
        sh -c "echo ${node#*:} >/run/uarch && mount --bind /run/uarch /etc/cabane/uarch"
done
"""
# The MPIs of a site, the first of which is what `host` means. The ranks of Debian's MPICH do not always end under the
# PMI-2 of Slurm 22.05.
FABRIC = in_opt("mpich") + """
printf '[[mpi]]\\nname = "fabric"\\nprefix = "/opt/mpich"\\nlauncher = "srun --mpi=pmi2"\\n' >>/etc/cabane/config.toml
"""
# Nothing is installed. Each node has its own place for it, and root reaches the nodes over ssh.
BARE = (
    """
rm -r /usr/local/bin/cabane /usr/local/libexec/cabane /usr/local/lib/cabane /etc/cabane /user-environment /user-tools
: >/etc/slurm/plugstack.conf
for node in 1 2 3 4; do
    nsenter --target $(cat /run/cluster/n$node.pid) --mount -- sh -ec '
        mount -t tmpfs -o mode=755 tmpfs /usr/local
        cp -r /etc/slurm /run/slurm && mount --bind /run/slurm /etc/slurm
        mkdir /run/cabane-site /run/sshd && mkdir -p /etc/cabane && mount --bind /run/cabane-site /etc/cabane'
done
mkdir -p /etc/clustershell/groups.d && echo 'all: n[1-4]' >/etc/clustershell/groups.d/local.cfg
"""
    + ssh.SERVER
    + (
        "cp -r /run/docs/programs/ssh /opt/ssh && usermod --password '*' root && export HOME=/root\n"
        + ssh.to("n*", enter=r"nsenter --target \$(cat /run/cluster/%h.pid) --all ", of="/opt/ssh")
        + "true\n"
        if ssh.IS_THERE
        else ""
    )
)
if not ssh.IS_THERE:
    CLUSH = ssh.MISSING
elif not shutil.which("clush"):
    CLUSH = not_run("needs clush, which `scripts/setup test` installs")
else:
    CLUSH = Step(before=f"cp -r cabane-{dist.VERSION}-linux-$(uname -m) /shared")
# Each node runs the program that was installed on it, with the plugin that is there.
INSTALLED = f"[ $(srun -N4 cabane --version | grep -c '^cabane {dist.VERSION}') = 4 ]"
# Another system than the name of the cluster.
DAINT = """
mkdir -p /etc/cabane
printf 'system_name = "daint"\\ndefault_uarch = "gh200"\\n' >/etc/cabane/config.toml
"""
# A suite with a test that passes, and one whose reference no machine reaches.
SUITE = """\
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Hello(rfm.RunOnlyRegressionTest):
    valid_systems, valid_prog_environs, tags = ["*"], ["*"], {"production"}
    executable = "cat"
    executable_opts = ["/etc/hostname"]

    @sanity_function
    def says(self):
        return sn.assert_found(".", self.stdout)

@rfm.simple_test
class Stream(rfm.RunOnlyRegressionTest):
    valid_systems, valid_prog_environs = ["*"], ["+uenv"]
    executable = "bandwidth"
    reference = {"*": {"triad": (1e6, -0.1, None, "MB/s")}}

    @sanity_function
    def measures(self):
        return sn.assert_found("MB/s", self.stdout)

    @performance_function("MB/s")
    def triad(self):
        return sn.extractsingle(r"(\\S+) MB/s", self.stdout, 1, float)
"""
CHECKED = f"""\
export PATH=$PATH:/opt/reframe/bin SCRATCH=/shared && mkdir hpc-tests && cat >hpc-tests/suite.py <<'END' &&
{SUITE}END
for v in v1:24.11 v2:25.6; do
    cabane image add prgenv-gnu/25.6:${{v%:*}}@daint%gh200 {DOCS}/images/prgenv-gnu-${{v#*:}}+figures &&
    cabane image push prgenv-gnu/25.6:${{v%:*}} || break
done
"""
# A recipe without packages, in a Git repository that has the address of the page.
RECIPE_IN_GIT = """\
mkdir prgenv-gnu && cd prgenv-gnu && touch requirements.txt && git init --quiet &&
printf '%s\\n' 'name: prgenv-gnu' 'version: 3' 'engine: python' 'python:' '  interpreter: /usr/bin/python3' \\
    '  requirements: requirements.txt' >config.yaml &&
git remote add origin https://github.com/eth-cscs/alps-uenv.git && git add . &&
git -c user.name=alice -c user.email=alice@example.org commit --quiet --message recipe && cd ..
"""
# A recipe whose figure is too low on the second system, a registry, and a channel.
PIPELINE = f"""\
export SCRATCH=/shared && mkdir -p recipes/app systems/daint systems/eiger &&
cp -r {DOCS}/recipes/prgenv-gnu-25.6+figures recipes/app/1.0 &&
sed -i 's/^name: .*/name: app/; s/reference: 1,/reference: {{daint: 1, eiger: 1000000}},/' recipes/app/1.0/config.yaml &&
cabane image key new tests.key && cabane image key new release.key &&
sudo tee -a /etc/cabane/config.toml >/dev/null <<END
[registry]
url = "https://registry.example.org/uenv"

[[channel]]
name = "stable"
keys = ["$PWD/release.key.pub"]
signed_by = ["$PWD/tests.key.pub"]
tested_within = "1d"

[evidence]
testers = ["$PWD/tests.key.pub"]
END
"""
# The recipe builds on a container, which then changes in the registry. What the engine before has left in the cache stays.
ON_DEBIAN = """\
rm -rf recipes/app/1.0/* &&
printf '%s\\n' 'name: app' 'version: 3' 'engine: container' 'container:' '  from: registry.example.org/debian:13' \\
    'checks: [{name: lists, command: ls /etc/os-release}]' >recipes/app/1.0/config.yaml
"""
ANOTHER_DEBIAN = f"""\
cabane pipeline run --key tests.key --channel-key release.key &&
sudo /usr/bin/python3 -B -c 'import sys; sys.path.insert(0, "{DOCS}/clone/scripts/docs"); import containers
containers.push("registry.example.org/debian:13", "true", "exit 00")'
"""

README = Page(
    slurm=True,
    containers={"ghcr.io/my-lab/solver:2.1": ("solver", HELLO)},
    files_of=("mpich/1.0",),
    as_root=FABRIC,
    before="cabane import ghcr.io/my-lab/solver:2.1 solver/2.1",
    steps={
        "srun": Step(
            typed="srun -N4 --mpi=pmi2 --uenv=solver/2.1 --uenv-mpi=host solver input.dat | tee seen; "
            "[ $(grep -c 'of 4, right' seen) = 4 ]"
        )
    },
)
PROFILING = Page(
    slurm=True,
    files=("wave.c", "wave/config.yaml"),
    steps={
        "srun": Step(
            before="mkdir -p wave/install/bin && gcc -g -O1 -fno-inline -o wave/install/bin/wave wave.c && "
            "cabane build --debug-symbols wave wave/1.0",
        )
    },
)

OLDER_ROOT = os.environ.get("CABANE_TEST_OLDER_ROOT", "")
# A program with MPI for Debian 11. The MPI of the host is that of Debian 12, as in a configuration that names none.
IN_OLDER = (
    Step(
        before=f"""\
sudo cp -r {OLDER_ROOT} older && sudo chown -R $USER older && triplet=$(uname -m)-linux-gnu &&
gcc -w -nodefaultlibs -Wl,--allow-shlib-undefined -I/usr/include/$triplet/mpich -o older/usr/bin/solver {HELLO} \
    older/usr/lib/$triplet/libmpich.so.12 older/lib/$triplet/libc.so.6 &&
cabane import dir:older solver/0.9 && rm -rf older && sudo mv /etc/cabane/config.toml /etc/cabane/kept.toml &&
sudo ln -sf mpiexec.mpich /usr/bin/mpiexec && path=$PATH && PATH=${{PATH//\\/opt\\/mpich\\/bin:/}}
"""
    )
    if OLDER_ROOT and Path(OLDER_ROOT, "etc/os-release").exists()
    else not_run("needs a root file system of Debian 11, which `scripts/setup test` unpacks")
)
BOTH = "/opt/mpich /opt/openmpi"


def audit(options):
    """An audit that measures for a short time, and says of a busy machine that it is not certain."""
    return Step(typed=f"cabane mpi audit --measure 0.05 {options} || [ $? = 19 ]", any_output=True)


# A shell of the reader on a node.
ON_NODE = (
    "sudo nsenter --target $(cat /run/cluster/{node}.pid) --all -- "
    "setpriv --reuid alice --regid alice --init-groups -- bash --noediting"
)

PAGES = {
    "docs/concepts/mounting.md": Page(
        slurm=True,
        images=("mpi-python/1.0",),
        before=f"cabane image add solver/1.0 {DOCS}/images/mpi-python-1.0 && "
        f"cabane run solver -- mpicc -w -o wave {HELLO}",
        steps={
            "mpiexec": Step(typed="mpiexec.mpich -n 4 cabane run solver -- ./wave | tee seen"),
            "srun": Step(
                before="[ $(grep -c '^rank . of 4, right' seen) = 4 ]",
                typed="srun --mpi=pmi2 -n 4 cabane run solver -- ./wave | tee seen",
            ),
        },
    ),
    "docs/guides/administration.md": Page(
        slurm=True,
        dist="archive",
        as_root=BARE + "install -d -o alice /shared/cabane\n",
        files=("/etc/cabane/config.toml",),
        files_of=("tools/1.0", "solver/1.0"),
        steps={
            "tar -xf": Step(before=dist.ARCHIVE),
            # Now as if root builds images for everybody.
            "cabane site init": Step(before="sudo rm -r /shared/cabane/repository"),
            "cabane image unpack stack/1.0": Step(
                before=("" if CLUSH.not_run else INSTALLED + " && ") + "sudo rm -r /shared/cabane/repository && "
                "cabane repo create /shared/cabane/repository && for n in tools:1.0 solver:2.0; do cabane image add stack/${n#*:} "
                f"{DOCS}/images/${{n%:*}}-1.0; done"
            ),
            "clush": CLUSH,
        },
    ),
    "docs/guides/checks.md": Page(
        slurm=True,
        registry=True,
        wheels="scripts/reframe.txt",
        files_of=("prgenv-gnu/24.11+figures", "prgenv-gnu/25.6+figures", "reframe/1.0"),
        as_root=DAINT + in_opt("reframe") + "scontrol create PartitionName=debug Nodes=ALL\n"
        "printf '[registry]\\nurl = \"https://registry.example.org/uenv\"\\n' >>/etc/cabane/config.toml",
        before=CHECKED,
        steps={
            "cabane check prgenv-gnu/25.6": Step(typed="cabane check prgenv-gnu/25.6:v2", any_output=True),
            "cabane check prgenv-gnu/25.6 --on slurm": Step(
                typed="cabane check prgenv-gnu/25.6:v2 --on slurm --srun=--partition=debug --work-directory $SCRATCH"
            ),
            "pip install ReFrame-HPC": Step(before=f"python3 -m venv ~/.reframe && . ~/.reframe/bin/activate && {WHEELS}"),
            "cabane check prgenv-gnu/25.6 --suite ~/hpc-tests": Step(
                typed="cabane check prgenv-gnu/25.6:v2 --suite ~/hpc-tests", fails=True
            ),
            "cabane check prgenv-gnu/25.6 --suite ~/hpc-tests --on slurm": Step(
                typed="cabane check prgenv-gnu/25.6:v2 --suite ~/hpc-tests --on slurm --srun=--partition=debug "
                "--work-directory $SCRATCH --reframe=--tag=production",
            ),
            "cabane check prgenv-gnu/25.6 --key": Step(
                before="printf '[evidence]\\ntesters = [\"/etc/cabane/keys/tests.pub\"]\\n"
                "builders = [\"/etc/cabane/keys/build.pub\"]\\nbuilder_id = \"https://example.org/builders/daint\"\\n' "
                "| sudo tee -a /etc/cabane/config.toml && "
                "cabane image key new build.key && sudo cp build.key.pub /etc/cabane/keys/build.pub",
                typed="cabane check prgenv-gnu/25.6:v2 --key tests.key --attach",
            ),
            # What the machine measures.
            "cabane check prgenv-gnu/25.6:v1": Step(any_output=True),
            "cabane evidence compare": Step(any_output=True),
            "cabane check prgenv-gnu/25.6 --suite ~/hpc-tests --html": Step(
                typed="cabane check prgenv-gnu/25.6:v2 --suite ~/hpc-tests --html results.html", fails=True
            ),
            "cabane evidence report": Step(
                before="cabane check prgenv-gnu/25.6:v2 --suite ~/hpc-tests --reframe=--tag=production --key tests.key",
                typed="cabane evidence report prgenv-gnu/25.6:v2 --suite ~/hpc-tests --html results.html",
                any_output=True,
            ),
            "cabane build --key": Step(before=RECIPE_IN_GIT),
            "cabane evidence ls": Step(typed="cabane evidence ls prgenv-gnu/25.6:v2 --remote", any_output=True),
            "cabane evidence verify prgenv-gnu/25.6 --since": Step(
                typed="cabane evidence verify prgenv-gnu/25.6:v2 --since 30d", any_output=True
            ),
            "cabane evidence attach": Step(
                before="cabane check prgenv-gnu/25.6:v2 --only starts --junit report.xml && "
                "reframe -c hpc-tests --run --report-file=report.json",
                typed="cabane evidence attach prgenv-gnu/25.6:v2 --junit report.xml --reframe report.json",
            ),
            "cabane evidence export": Step(
                typed="cabane evidence export prgenv-gnu/25.6:v2 --output results", any_output=True
            ),
            "cabane evidence add": Step(
                typed="cabane evidence add prgenv-gnu/25.6:v2 results/*.sigstore.json", any_output=True
            ),
            "cosign": cosign(any_output=True),
        },
    ),
    "docs/guides/host-mpi.md": Page(
        slurm=True,
        clone=True,
        files_of=("mpi-python/1.0", "mpich/1.0", "openmpi/1.0"),
        containers={"ghcr.io/my-lab/solver:1.0": ("solver", HELLO)},
        as_root=FABRIC + in_opt("openmpi"),
        before=f"export PATH=/opt/mpich/bin:$PATH; mpicc.mpich -w -o solver {HELLO} && "
        "cabane import ghcr.io/my-lab/solver:1.0 solver/1.0 && "
        "sudo unsquashfs -quiet -no-progress -dest /mnt/container $(cabane image inspect solver/1.0 --format '{sqfs}') && "
        f"cabane image add prgenv-gnu/24.11 {DOCS}/images/mpi-python-1.0",
        steps={
            "cabane mpi inspect ./solver": Step(any_output=True),
            "cabane mpi swap --with /opt/openmpi": Step(
                before=f"mpicc.openmpi -w -o solver {HELLO}",
                typed="cabane mpi swap --with /opt/openmpi --measure -- mpirun.openmpi -n 2 ./solver",
            ),
            "cabane mpi swap --with host --in solver/0.9": IN_OLDER,
            "cabane mpi swap --with host --in solver/1.0": Step(
                before="[ ! -e /etc/cabane/kept.toml ] || { sudo mv /etc/cabane/kept.toml /etc/cabane/config.toml && PATH=$path; }"
            ),
            "cabane mpi swap --mpi-program": Step(
                before=f"unsquashfs -quiet -no-progress -dest unpacked {DOCS}/images/mpi-python-1.0 env && "
                "ln -s unpacked/env/default venv && "
                "export PATH=$PWD/venv/bin:/opt/mpich/bin:$PATH && "
                "echo 'from mpi4py import MPI; print(MPI.COMM_WORLD.size, MPI.Get_library_version()[:14])' > solver.py"
            ),
        },
    ),
    "docs/guides/mpi-audit.md": Page(
        slurm=True,
        files_of=("mpich/1.0", "openmpi/1.0"),
        as_root=in_opt("mpich", "openmpi") + "install -d -o alice /etc/site\n",
        before="export SCRATCH=/shared",
        steps={
            "cabane mpi audit": audit(""),
            "cabane mpi audit /opt/mpich-4.3": audit("/opt/mpich"),
            "cabane mpi audit /opt/openmpi-5.0.8": audit("/opt/openmpi"),
            "cabane mpi audit --save-reference": audit(f"{BOTH} --save-reference /etc/site/mpi-reference.json"),
            "cabane mpi audit --reference": audit("/opt/openmpi --reference /etc/site/mpi-reference.json --strict"),
            "cabane mpi audit --json": audit("/opt/openmpi --json > 2026-10.json"),
            "cabane mpi audit --compare": audit("/opt/openmpi --compare 2026-10.json"),
            "cabane mpi audit --slurm": audit(f"{BOTH} --slurm --nodes 2 --work-directory $SCRATCH"),
        },
    ),
    "docs/guides/pipelines.md": Page(
        slurm=True,
        files_of=("prgenv-gnu/25.6+figures",),
        containers={"registry.example.org/debian:13": ("true", "exit 0")},
        files=("pipeline.yaml",),
        as_root=DAINT,
        before=PIPELINE,
        steps={
            "cabane pipeline run --on slurm": Step(
                before="echo '# another' >> recipes/app/1.0/install/bin/mpicc", any_output=True
            ),
            "cabane pipeline status": Step(
                before="cabane pipeline run --run $SCRATCH/pipeline --only @eiger --system eiger --key tests.key "
                "--channel-key release.key; [ $? = 16 ]",
                typed="cabane pipeline status --run $SCRATCH/pipeline --only '@*'",
                fails=True,
            ),
            "cabane pipeline logs": Step(typed="cabane pipeline logs --run $SCRATCH/pipeline app/1.0@eiger%zen2"),
            "cabane pipeline lock": Step(before=ON_DEBIAN),
            "cabane pipeline lock && cabane pipeline plan": Step(before=ANOTHER_DEBIAN),
        },
    ),
    "docs/guides/slurm-administration.md": Page(
        slurm=True,
        as_root=PLUGIN,
        steps={
            "scripts/build-slurm": BUILD,
            "sudo make install": not_run("the page on the installation of a site does it"),
            "cat /etc/cabane/uarch": Step(before="echo a100 zen3 ARCH | sed s/ARCH/$(uname -m)/ | sudo tee /etc/cabane/uarch"),
        },
    ),
    "docs/guides/slurm-records.md": Page(
        slurm=True,
        as_root=PLUGIN,
        images=("solver/1.0",),
        steps={"cabane slurm report": Step(
                before="srun --uenv=solver/1.0 true && "
                "until [ $(sudo grep -c . /var/log/cabane/steps.jsonl) -ge 2 ]; do sleep 0.1; done"
            )},
    ),
    "docs/guides/slurm.md": Page(
        slurm=True,
        images=("prgenv-gnu/24.11", "mpi-python/1.0"),
        files_of=("app/42.0", "app/43.0", "mpich/1.0", "openmpi/1.0"),
        containers={"ghcr.io/my-lab/solver:1.0": ("solver", HELLO)},
        as_root=FABRIC + in_opt("openmpi") + UARCHS + "echo stage-memory 64 >>/etc/cabane/mount.policy\n",
        before="printf '#!/bin/sh\\nmpicc --version\\n' > solver && chmod +x solver && "
        "cabane import ghcr.io/my-lab/solver:1.0 solver/1.0 && "
        f"for n in 42.0:zen2 43.0:zen3; do cabane image add app/1:v1@here%${{n#*:}} {DOCS}/images/app-${{n%:*}}; done && "
        "echo 'from mpi4py import MPI; print(MPI.COMM_WORLD.size, MPI.Get_library_version()[:14])' > solver.py",
        steps={
            # With fewer ranks: the nodes have the processors of one machine.
            "srun -N4 -n32 --mpi=pmi2": Step(typed="srun -N4 -n4 --mpi=pmi2 --uenv=solver/1.0 --uenv-mpi=host solver"),
            "srun -N4 -n32 --mpi=pmix": Step(
                before=f"mpicc.openmpi -w -o solver {HELLO}",
                typed="srun -N4 -n4 --mpi=pmix --uenv-mpi=/opt/openmpi ./solver",
            ),
            "srun -n8": Step(
                typed="srun -N4 -n4 --mpi=pmi2 --uenv=mpi-python --uenv-mpi=host --uenv-mpi-program=$file python3 solver.py | tee seen",
            ),
            "srun -C": Step(
                before="[ $(grep -c '^4 MPICH' seen) = 4 ] && printf '#!/bin/sh\\napp\\n' > solver",
                # The nodes say it in any order.
                typed="srun -C '[zen3*2&zen2*2]' -N4 --uenv=app/1:v1 ./solver 2>&1 | tee seen | grep takes | sort",
            ),
            "sbatch -N500": Step(
                before="grep -q 'n1: takes app/1:v1@here%zen3' seen && grep -q 'n4: takes app/1:v1@here%zen2' seen && "
                "[ $(grep -c 'hello app' seen) = 4 ] && printf '#!/bin/bash\\nsrun app\\n' > job.sh",
                typed="sbatch --wait -N4 --uenv=app/1:v1 --uenv-stage=memory job.sh",
            ),
            "cabane attach": Step(
                before="[ $(cat slurm-*.out | grep -c 'hello app') = 4 ] && srun -w n2 --uenv=prgenv-gnu/24.11 sleep 600 & "
                "until squeue --steps --noheader | grep -q sleep; do sleep 0.1; done; sleep 1; "
                f"export job=$(squeue --noheader --format=%A); {ON_NODE.format(node='n2')}",
                typed="exec cabane attach $job.0",
            ),
            "srun --jobid": Step(
                before="[ $(hostname) = n2 ] && mpicc && exit",
                typed="srun --jobid=$job -w n2 --overlap --pty cabane attach $job.0 -- mpicc",
            ),
        },
    ),
}
