# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Images that pages begin with: the files of their recipes."""

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
SOLVER = TREE.format(name="solver", store="/user-environment", description="the solver of our group")

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
    "tools/1.0": {
        "config.yaml": TREE.format(name="tools", store="/user-tools", description="tools of our group")
        + "    env_vars:\n      set:\n        - CMAKE_GENERATOR: Unix Makefiles\n",
        "install/bin/inspect-it": "#!/bin/sh\necho inspecting\n",
        "install/bin/ninja": '#!/bin/sh\nexec /usr/bin/ninja "$@"\n',
    },
    **{
        f"{name}/{version}": {
            "config.yaml": TREE.format(
                name=name, store="/user-environment", description=f"{name} {version}, as a page names it"
            ).replace(": default", f": {view}").replace("  default:", f"  {view}:"),
            f"install/bin/{program}": f"#!/bin/sh\necho hello {program}\n",
        }
        for name, version, program, view in (
            ("prgenv-gnu", "24.11", "mpicc", "default"),
            ("prgenv-gnu", "25.6", "mpicc", "default"),
            ("prgenv-gnu", "26.1", "mpicc", "default"),
            ("cp2k", "2025.1", "cp2k", "cp2k"),
            ("app", "42.0", "app", "app"),
            ("app", "43.0", "app", "app"),
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
