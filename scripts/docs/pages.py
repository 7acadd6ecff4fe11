# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need before their first block, and which commands cannot run in a test, with the reason.

A page that is not here runs in an empty directory of a user who has nothing.
"""

from dataclasses import dataclass, field

# Where the world of a page shows what is prepared: programs, clone, images, recipes.
DOCS = "/run/docs"


@dataclass
class Step:
    """A command of a page that needs more than to be typed. It is found by how it begins."""

    not_run: str = ""
    """Why it is not run."""
    before: str = ""
    """A script that runs before it in the same shell: what the page says in words."""
    fails: bool = False
    """It fails, and the page shows no error."""
    any_output: bool = False
    """The output is another one each time."""


@dataclass
class Page:
    """What a page needs."""

    quick: bool = False
    """It is run by `scripts/test-docs quick`."""
    directory: str = "~"
    """Where the reader is."""
    clone: bool = False
    """The reader has a clone in `~/cabane`, in which `make build` was run."""
    images: tuple[str, ...] = ()
    """Images that the reader has."""
    files_of: tuple[str, ...] = ()
    """Images of which only the files and recipes are needed, in `/run/docs/images` and `/run/docs/recipes`."""
    files: tuple[str, ...] = ()
    """Files that the page shows: each is the next block after a paragraph that names it."""
    as_root: str = ""
    """A script that root runs before the page."""
    before: str = ""
    """A script that the reader runs before the page."""
    own_network: bool = False
    """The page uses no network but that of its world, in which services run."""
    steps: dict[str, Step] = field(default_factory=dict)
    """Commands, by how they begin."""
    not_run: str = ""
    """Why no command of it is run."""


def not_run(why):
    """A command that is not run."""
    return Step(not_run=why)


BUILD = not_run("the programs are built before the test")

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

# Images that pages begin with: the files of their recipes.
IMAGES = {
    "analysis/2026.1": {
        "config.yaml": ANALYSIS + "    env_vars:\n      set:\n        - OMP_NUM_THREADS: '1'\n",
        "requirements.txt": "numpy==2.4.5\n",
    },
    "analysis/2026.2": {
        "config.yaml": ANALYSIS
        + "    env_vars:\n      set:\n        - OMP_NUM_THREADS: '4'\n"
        + "  develop:\n    description: with what developers need\n",
        "requirements.txt": "numpy==2.4.6\nh5py\n",
    },
    "mpi-python/1.0": "examples/mpi-python",
    "tools/1.0": {
        "config.yaml": TREE.format(name="tools", store="/user-tools", description="tools of our group")
        + "    env_vars:\n      set:\n        - CMAKE_GENERATOR: Unix Makefiles\n",
        "install/bin/inspect-it": "#!/bin/sh\necho inspecting\n",
        "install/bin/ninja": '#!/bin/sh\nexec /usr/bin/ninja "$@"\n',
    },
    "solver/1.0": {
        "config.yaml": SOLVER,
        "install/bin/solve": "#!/bin/sh\necho solving\n",
        "install/lib/libsolver.so": "",
        "install/share/solver/data": "",
    },
    "solver/2.0": {"config.yaml": SOLVER, "install/bin/solve": "#!/bin/sh\necho solving faster\n"},
}

PAGES = {
    "README.md": Page(
        quick=True,
        directory="~/cabane",
        clone=True,
        steps={
            "make demo": BUILD,
            "make test": BUILD,
            "cabane import ghcr.io/my-lab/solver:2.1": not_run("needs this registry"),
            "srun": not_run("needs Slurm"),
            "tar -xf": not_run("scripts/test-packages tests the archive"),
            "cabane-0.2.0-linux-x86_64/install.sh": not_run("scripts/test-packages tests the archive"),
            "cabane doctor": not_run("scripts/test-packages tests the archive"),
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
}
