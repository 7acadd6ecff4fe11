# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is said about a page, and about a command of it."""

import os
from dataclasses import dataclass, field

# What `scripts/test-docs` sets if there is Spack: two clones, and a mirror of sources.
SPACK = ("CABANE_TEST_SPACK", "CABANE_TEST_SPACK_PACKAGES", "CABANE_TEST_SPACK_MIRROR")
NO_SPACK = "needs Spack, which CABANE_TEST_SPACK names"
# Where the world of a page shows what is prepared: programs, clone, images, recipes.
DOCS = "/run/docs"
# What follows the name of a page whose steps on a cluster are meant.
ON_CLUSTER = " on a cluster"
# A program for MPI, which says what each rank sees.
HELLO = f"{DOCS}/clone/tests/mpi/hello.c"
# pip takes the wheels of the page, without a network.
WHEELS = f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={DOCS}/cache/wheels"


def in_opt(*names):
    """A script that root runs: it unpacks images with packages into /opt, each into a directory of its name."""
    return "".join(
        f"unsquashfs -quiet -no-progress -dest /opt/{name} {DOCS}/images/{name}-1.0 env >/dev/null; cd /opt/{name}; "
        # Programs name the interpreter with the path that it had.
        "mv env/default/* . && rm -rf env/default && ln -s .. env/default\n"
        for name in names
    )


@dataclass
class Step:
    """A command of a page that needs more than to be typed.

    It is found by how it begins, or by the whole command with `#1` for the first time that the page has it.
    """

    not_run: str = ""
    """Why it is not run."""
    before: str = ""
    """A script that runs before it in the same shell: what the page says in words."""
    fails: bool = False
    """It fails, and the page shows no error."""
    typed: str = ""
    """What is typed instead, if the page has a date, or a file of the reader."""
    keys: str = ""
    """What a person types once it has printed something."""
    any_output: bool = False
    """The output is another one each time."""
    spack: bool = False
    """It needs Spack."""


@dataclass
class Page:
    """What a page needs."""

    quick: bool = False
    """It is run by `scripts/test-docs quick`."""
    directory: str = "~"
    """Where the reader is."""
    clone: bool = False
    """The reader has a clone in `~/cabane`, in which `make build` was run."""
    examples: bool = False
    """The reader has copied the examples that are installed with Cabane into the home."""
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
    containers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Container images in registries, and SIF files in the home: a program in each, the script that it is or a C file
    for MPI, and further programs of the machine."""
    dist: str = ""
    """What of `make package` is in `/run/docs/dist`: `archive`, or `packages` for the archive and packages."""
    wheels: str = ""
    """A list of Python packages, whose wheels are in `/run/docs/cache/wheels`. `WHEELS` lets pip take them."""
    registry: bool = False
    """There is a registry, `registry.example.org`, and no other network unless `network` says so."""
    network: bool = False
    """Beside the registry, there is the network of the machine."""
    slurm: bool = False
    """The page runs on a cluster of four virtual nodes."""
    spack: bool = False
    """Its commands need Spack."""
    keeps_packages: bool = False
    """Packages that Spack has built are there in the next run."""
    steps: dict[str, Step] = field(default_factory=dict)
    """Commands that need more than to be typed."""
    not_run: str = ""
    """Why no command of it is run."""
    on_cluster: "Page | None" = None
    """The page again, for the steps that need a cluster: only these run in it."""

    @property
    def has_registry(self):
        """Whether a registry is started."""
        return self.registry or bool(self.containers)

    @property
    def has_own_network(self):
        """Whether the page has a network of its own."""
        return self.has_registry and not self.network

    @property
    def uses_spack(self):
        """Whether Git gets the clones of Spack in the place of GitHub."""
        return has_spack() and (self.spack or any(step.spack for step in self.steps.values()))


def has_spack():
    """Whether there are clones of Spack, and sources."""
    return all(os.environ.get(name) for name in SPACK)


def not_run(why):
    """A command that is not run."""
    return Step(not_run=why)


BUILD = not_run("the programs are built before the test")
# Whether Cabane is compiled.
COMPILES = bool(os.environ.get("CABANE_TEST_COMPILE"))
# The Rust of the machine, in a world that has none in PATH.
HAS_RUST = f"""\
[ -d /opt/rust ] || sudo sh -c 'mkdir /opt/rust && mount --bind {os.environ.get("CABANE_TEST_RUST", "")} /opt/rust' &&
"""


def compiles_cabane(before, **words):
    """A command that compiles Cabane, if that is wanted."""
    if not COMPILES:
        return not_run("compiles Cabane for minutes: CABANE_TEST_COMPILE=1 runs it")
    return Step(before=HAS_RUST + "PATH=$PATH:/opt/rust/bin && " + before, any_output=True, **words)


def cosign(**words):
    """A command of cosign, if there is one."""
    program = os.environ.get("CABANE_TEST_COSIGN")
    if not program:
        return not_run("needs cosign, which CABANE_TEST_COSIGN names")
    return Step(before=f"sudo install {program} /usr/local/bin/cosign", **words)
