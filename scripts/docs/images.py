# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Images that pages begin with: the files of their recipes."""

import json
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ANALYSIS = """\
name: analysis
version: 3
engine: python
description: numpy and matplotlib for the analysis of my runs
default-view: default

python:
  interpreter: /usr/bin/python3
  requirements: requirements.txt

views:
  default:
    description: python with the packages
"""
DEVELOP = "  develop:\n    description: with what developers need\n"

TREE = """\
name: {name}
version: 3
engine: tree
store: {store}
description: {description}
default-view: default
tree:
  source: ./install
views:
  default:
    description: the programs in PATH
"""
# What the page has in /opt/NAME.
IN_OPT = """\
name: {name}
version: 3
engine: python
store: /opt/{name}
python:
  interpreter: /usr/bin/python3
  requirements: requirements.txt
"""
# Two figures of the machine, and the checks that read them.
MEASURE = """\
#!/bin/sh
python3 -c 'import os, time
pipe, begin = os.pipe(), time.perf_counter()
for _ in range({times}):
    {work}
seconds = (time.perf_counter() - begin) / {times}
print(round({figure}, 3), "{unit}")'
"""
FIGURES = {
    "install/bin/bandwidth": MEASURE.format(times=4, work="bytearray(1 << 26)[:]", figure="64 / seconds", unit="MB/s"),
    "install/bin/latency": MEASURE.format(
        times=1000, work="os.write(pipe[1], bytes(8)); os.read(pipe[0], 8)", figure="seconds * 1e6", unit="us"
    ),
}
CHECKS = """\
checks:
  - name: bandwidth
    command: bandwidth
    figures: [{name: bandwidth, pattern: '(\\S+) MB/s', unit: MB/s, reference: 1, lower: -10%}]
  - name: latency
    command: latency
    figures: [{name: latency, pattern: '(\\S+) us', unit: us, reference: 1000000, upper: 10%}]
"""
SOLVER = TREE.format(name="solver", store="/user-environment", description="the solver of our group")


def packages(*wanted):
    """Returns the list of packages of an image as a build with Spack writes it."""
    records = [
        {"name": name, "version": version, "variants": variants, "compilers": ["gcc@13.2.0"], "manager": "spack",
         "target": "zen3", "explicit": True}
        for name, _, version, variants in (
            (*package.split()[0].partition("@"), " ".join(package.split()[1:])) for package in wanted
        )
    ]
    return json.dumps({"version": 1, "packages": records})


IMAGES = {
    "analysis/2026.1": {
        "config.yaml": ANALYSIS + "    env_vars:\n      set:\n        - OMP_NUM_THREADS: '1'\n",
        "requirements.txt": "numpy==2.4.5\n",
    },
    "analysis/2026.2": {
        "config.yaml": ANALYSIS
        + "    env_vars:\n      set:\n        - OMP_NUM_THREADS: '4'\n"
        + DEVELOP,
        "requirements.txt": "numpy==2.4.6\nh5py\n",
    },
    "analysis/2026.2+ipykernel": {"config.yaml": ANALYSIS + DEVELOP, "requirements.txt": "numpy\nipykernel\n"},
    "mpi-python/1.0": "examples/mpi-python",
    **{
        f"{name}/1.0": {
            "config.yaml": IN_OPT.format(name=name),
            "requirements.txt": (SCRIPTS / f"{name}.txt").read_text(),
        }
        for name in ("mpich", "openmpi", "reframe")
    },
    "tools/1.0": {
        "config.yaml": TREE.format(name="tools", store="/user-tools", description="tools of our group")
        + "    env_vars:\n      set:\n        - CMAKE_GENERATOR: Unix Makefiles\n",
        "install/bin/inspect-it": "#!/bin/sh\necho inspecting\n",
        "install/bin/ninja": '#!/bin/sh\nexec /usr/bin/ninja "$@"\n',
    },
    "profilers/1.0": {
        "config.yaml": TREE.format(name="profilers", store="/user-profilers", description="profilers of our group"),
        "install/bin/sample-it": "#!/bin/sh\necho sampling\n",
    },
    **{
        f"{name}/{version}": {
            "config.yaml": TREE.format(
                name=name,
                store="/user-environment",
                description=f"{name} {version}, {'compilers and libraries' if contents else 'as a page names it'}",
            ).replace(": default", f": {view}").replace("  default:", f"  {view}:"),
            f"install/bin/{program}": f"#!/bin/sh\necho hello {program}\n",
            **({"install/meta/packages.json": packages(*contents)} if contents else {}),
        }
        for name, version, program, view, *contents in (
            ("prgenv-gnu", "24.11", "mpicc", "default", "hdf5@1.14.3 +mpi", "petsc@3.22.1 +mpi"),
            ("prgenv-gnu", "25.6", "mpicc", "default", "hdf5@1.14.3 +mpi", "petsc@3.23.4 +mpi"),
            ("prgenv-gnu", "26.1", "mpicc", "default", "hdf5@1.14.5 +mpi", "petsc@3.23.4 +mpi"),
            ("cp2k", "2025.1", "cp2k", "cp2k"),
            ("app", "42.0", "app", "app"),
            ("app", "43.0", "app", "app"),
            ("julia", "1.10", "julia", "default"),
        )
    },
    "prgenv-gnu/24.11+modules": {
        "config.yaml": TREE.format(name="prgenv-gnu", store="/user-environment", description="compilers and MPI")
        + "  modules:\n    description: the module files\n    env_vars:\n      prepend_path:\n"
        "        - MODULEPATH: $@mount@/modules\n",
        "install/bin/mpicc": "#!/bin/sh\nexec gcc \"$@\"\n",
        "install/modules/hdf5/1.14": "#%Module\nsetenv HDF5_ROOT /user-environment\n",
    },
    "solver/1.0": {
        "config.yaml": SOLVER,
        "install/bin/solve": "#!/bin/sh\necho solving\n",
        "install/lib/libsolver.so": "",
        "install/share/solver/data": "",
    },
    "solver/2.0": {"config.yaml": SOLVER, "install/bin/solve": "#!/bin/sh\necho solving faster\n"},
}
for version in "24.11", "25.6":
    plain = IMAGES[f"prgenv-gnu/{version}"]
    IMAGES[f"prgenv-gnu/{version}+figures"] = {**plain, **FIGURES, "config.yaml": plain["config.yaml"] + CHECKS}
