# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compiles with the compilers of the image, and with the same files in a directory at the same path.

The directory is in memory, on the local disk, on a shared directory, and on a slow disk. For the last two the image is
a file in the same place. Whatever is compiled is written to memory, so that only the place of the compiler differs.
"""

import contextlib
import shutil
from pathlib import Path

import media
from ways import (SOURCES, Failed, Image, Rows, copy, in_directory, in_image, is_short, memory_directory, output,
                  rounds_for, seconds_for, section, temporary, unpack)

HELLO = ["hello_c", "hello_cpp"]
APPLICATION = ["configure", "build"]
# How many compilations are one measurement: a short one is mostly noise.
REPEATED = {"hello_c": 5, "hello_cpp": 2}
# For how many seconds a medium is measured.
BUDGET = {"hello": 40, "application": 75, "cold": 60}
SHORT_BUDGET = 7


class Toolchain:
    """The compilers of the image and what an application needs beside them."""

    def __init__(self, image, shell):
        self.shell = shell
        self.languages = {"hello_c": image.own(shell, "gcc", "cc", "clang"),
                          "hello_cpp": image.own(shell, "g++", "c++", "clang++")}
        self.mpi = image.own(shell, "mpicxx", "mpic++", "mpiCC")

    def lacks(self, row):
        """Returns why a row cannot be measured with this image, if so."""
        if row in self.languages:
            language = {"hello_c": "C", "hello_cpp": "C++"}[row]
            return None if self.languages[row] else f"the image has no compiler for {language}"
        if is_short():
            return "the short form builds no application"
        missing = [name for name in ("cmake", "make", "python3") if not self.shell.has(name)]
        if not self.languages["hello_cpp"]:
            missing.append("a compiler for C++")
        if not self.mpi:
            missing.append("mpicxx")
        return f"the image lacks what the application needs: {', '.join(missing)}" if missing else None


class Work:
    """What is compiled, in a directory in memory that both ways see."""

    def __init__(self, directory, toolchain):
        self.directory = directory
        self.toolchain = toolchain
        shutil.copytree(SOURCES, directory, dirs_exist_ok=True)

    def hello(self, row, shell):
        """Compiles a small program some times, and returns the seconds for one time."""
        compiler, count = self.toolchain.languages[row], REPEATED[row]
        source = "hello.c" if row == "hello_c" else "hello.cpp"
        once = f"{compiler} -o hello {source}"
        took = shell.run(f"cd {self.directory} && for i in {' '.join(map(str, range(count)))}; do {once} || exit; done")
        return took / count

    def once(self, row, shell):
        """Compiles a small program once."""
        source = "hello.c" if row == "hello_c" else "hello.cpp"
        return shell.run(f"cd {self.directory} && {self.toolchain.languages[row]} -o hello {source}")

    def application(self, shell):
        """Configures and builds the application, and returns the seconds of both."""
        shell.run(f"rm -rf {self.directory}/heat-build")
        variables = f"CC={self.toolchain.languages['hello_c'] or 'cc'} CXX={self.toolchain.languages['hello_cpp']}"
        configure = f"cmake -G 'Unix Makefiles' -DMPI_CXX_COMPILER={self.toolchain.mpi} -S heat -B heat-build"
        configured = shell.run(f"cd {self.directory} && {variables} {configure}")
        return configured, shell.run(f"cd {self.directory} && cmake --build heat-build --parallel 2")

    def verify(self, shell):
        """Fails unless the application that was built computes what it should."""
        self.application(shell)
        shell.run(f"cd {self.directory}/heat-build && ctest --output-on-failure")


def measure(rows, suffix, session, ours, other, before=None):
    """Compares two shells for the rows that the image allows. BEFORE is done before each measurement."""
    work = session.work
    possible = []
    for row in rows:
        reason = work.toolchain.lacks(row)
        if reason:
            session.rows.leave_out([row + suffix], reason)
        else:
            possible.append(row)
    hello = work.once if before else work.hello

    def prepared(action):
        def run(shell):
            if before:
                before()
            return action(shell)
        return run

    def compare(names, action, seconds):
        rounds = rounds_for(lambda: action(other), seconds)
        units = {row + suffix: "s" for row in names}
        session.rows.compare(units, lambda: action(ours), lambda: action(other), rounds)

    for row in [row for row in possible if row in HELLO]:
        action = prepared(lambda shell, row=row: [hello(row, shell)])
        compare([row], action, seconds_for(SHORT_BUDGET, BUDGET["cold" if before else "hello"]) / len(HELLO))
    if set(APPLICATION) <= set(possible):
        compare(APPLICATION, prepared(work.application), BUDGET["cold" if before else "application"])


def named(rows, suffix):
    """Returns the names of rows with the place in them."""
    return [row + suffix for row in rows]


MEMORY, DISK = named(HELLO + APPLICATION, "_memory"), named(HELLO, "_disk")
SHARED, SHARED_COLD = named(HELLO + APPLICATION, "_shared"), named(HELLO, "_shared_cold")
SLOW = named(HELLO + APPLICATION, "_slow_cold")


class Session:
    """The image, the shell in it, and its files in memory."""

    def __init__(self, image, work, ours, rows):
        self.image, self.work, self.ours, self.rows = image, work, ours, rows
        self.variables = ours.environment()
        self.tree = work.directory.parent / "tree"

    def beside(self, tree):
        """Returns a shell that sees the files of a directory in the place of the image."""
        return in_directory(self.image, tree, self.work.directory, self.variables)

    def measure_all(self):
        """Measures every place that can be had."""
        with self.rows.excused(self.rows.open):
            unpack(self.image, self.tree)
            for rows, place in [(MEMORY, self.in_memory), (DISK, self.on_disk), (SHARED + SHARED_COLD, self.on_shared),
                                (SLOW, self.on_slow_disk)]:
                with self.rows.excused(rows):
                    place()

    def in_memory(self):
        """Measures the files in memory."""
        with self.beside(self.tree) as other:
            if not self.work.toolchain.lacks("build"):
                self.work.verify(self.ours)
                self.work.verify(other)
            measure(HELLO + APPLICATION, "_memory", self, self.ours, other)

    def on_disk(self):
        """Measures the files on the local disk."""
        with temporary(Path.cwd()) as place:
            copy(self.tree, place / "tree")
            with self.beside(place / "tree") as other:
                measure(HELLO, "_disk", self, self.ours, other)

    def on_shared(self):
        """Measures the files and the image in a shared directory, warm and cold."""
        with media.shared(Path.cwd()) as medium:
            medium.measure()
            self.fill(medium)
            with self.from_medium(medium) as (ours, other):
                measure(HELLO + APPLICATION, "_shared", self, ours, other)
                require_cold()
                measure(HELLO, "_shared_cold", self, ours, other, media.drop_caches)

    def on_slow_disk(self):
        """Measures the files and the image on a slow disk, with empty caches."""
        require_cold()
        used = int(output(["du", "--summarize", "--block-size=1", str(self.tree)]).split()[0])
        size = int(used * 1.3) + self.image.path.stat().st_size + (256 << 20)
        with media.slow_disk(Path.cwd(), size) as (medium, limit):
            self.fill(medium)
            limit()
            medium.measure()
            with self.from_medium(medium) as (ours, other):
                measure(HELLO + APPLICATION, "_slow_cold", self, ours, other, media.drop_caches)

    def fill(self, medium):
        """Puts the image and its files into a place."""
        copy(self.tree, medium.fill / "tree")
        shutil.copy(self.image.path, medium.fill / "image")

    @contextlib.contextmanager
    def from_medium(self, medium):
        """Gives a shell in the image of a place, and one that sees the directory there."""
        with in_image(self.image, self.work.directory, medium.path / "image") as ours:
            with self.beside(medium.path / "tree") as other:
                yield ours, other


def require_cold():
    """Fails where the caches cannot be emptied."""
    if is_short():
        raise Failed("the short form measures no empty caches")
    if not media.can_drop_caches():
        raise Failed("only root can empty the caches of the kernel")


def main():
    image, rows = Image(), Rows(MEMORY + DISK + SHARED + SHARED_COLD + SLOW)
    with memory_directory() as memory:
        directory = memory / "work"
        directory.mkdir()
        with in_image(image, directory) as ours:
            toolchain = Toolchain(image, ours)
            if any(toolchain.languages.values()):
                Session(image, Work(directory, toolchain), ours, rows).measure_all()
            else:
                rows.leave_out(list(rows.open), "the image has no compiler")


if __name__ == "__main__":
    section("compilers", main)
