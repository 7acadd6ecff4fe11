# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need before their first block, and which commands cannot run in a test, with the reason.

A page that is not here runs in an empty directory of a user who has nothing.
"""

from dataclasses import dataclass, field


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

# Images that pages begin with: the files of their recipes. `prepare` is a script that runs before the build.
IMAGES = {
    "analysis/2026.1": {
        "config.yaml": ANALYSIS + "    env_vars:\n      set:\n        - OMP_NUM_THREADS: '1'\n",
        "requirements.txt": "numpy==2.4.5\n",
    },
    "analysis/2026.2": {
        "config.yaml": ANALYSIS
        + "    env_vars:\n      set:\n        - OMP_NUM_THREADS: '4'\n"
        + "  develop:\n    description: with what developers need\n",
        "requirements.txt": "numpy==2.4.6\nmatplotlib\n",
    },
    "tools/1.0": {
        "config.yaml": """\
name: tools
version: 3
engine: tree
store: /user-tools
description: tools of our group
default-view: default
tree:
  source: ./install
views:
  default:
    description: the tools in PATH
""",
        "install/bin/inspect-it": "#!/bin/sh\necho inspecting\n",
    },
    "solver/1.0": {
        "config.yaml": """\
name: solver
version: 3
engine: tree
store: /user-environment
description: the solver of our group
default-view: default
tree:
  source: ./install
views:
  default:
    description: the solver in PATH
""",
        "prepare": "mkdir -p install/lib install/share\n",
        "install/bin/solve": "#!/bin/sh\necho solving\n",
    },
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
            "cabane start mpi-python": Step(),
            "cabane run mpi<Tab>": not_run("needs a person who presses Tab"),
        },
    ),
    "docs/guides/pack-a-directory.md": Page(quick=True, files=("config.yaml",)),
    "docs/guides/finding-out.md": Page(quick=True, images=("analysis/2026.1", "analysis/2026.2", "tools/1.0")),
    "docs/guides/environment-files.md": Page(quick=True, images=("analysis/2026.2", "tools/1.0")),
    "docs/guides/repositories.md": Page(quick=True),
    "docs/guides/several-images.md": Page(
        quick=True, images=("analysis/2026.1", "analysis/2026.2", "tools/1.0", "solver/1.0")
    ),
    "docs/guides/python-environment.md": Page(
        quick=True, directory="~/analysis", files=("config.yaml", "requirements.txt")
    ),
}
