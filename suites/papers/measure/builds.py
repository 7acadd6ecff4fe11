# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds a stack with Spack: from source on a slow disk, on the local disk, and in memory, from the cache of packages,
and with another variant of a package that others need.

Only the build directory is in these places. Caches and images are in memory, and begin with Spack, its packages, and
its decision about the stack, which are the same for all. Two variables adapt it to a machine without the Internet:
CABANE_CHECK_MIRRORS names a file for `cabane build --mirrors`, and CABANE_CHECK_REPO a directory of packages for Spack
that replace its own.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import media
from pairs import figure, report
from ways import (SOURCES, Failed, Rows, is_short, last_lines, memory_directory, require_space, required, section,
                  temporary)

ROWS = {
    # The name of the row: ours, and what it is compared with.
    "stack_memory_slow": ("memory", "slow"),
    "stack_memory_disk": ("memory", "disk"),
    "stack_cache": ("cache", "memory"),
    "stack_changed": ("changed", "memory"),
}
IN_SHORT = {"stack_cache": ("cache", "memory")}
CHANGE = ("zlib@1.3.1", "zlib@1.3.1 ~optimize")
# For how many seconds a section may measure, and one build may take.
BUDGET, LIMIT = 540, 400
SPACE = 3 << 30


class Stack:
    """The recipes, the caches, and where builds are done."""

    def __init__(self, memory, disk):
        self.program = required("CABANE_CHECK_PROGRAM")
        self.memory = memory
        self.places = {"memory": memory / "builds", "disk": disk / "builds"}
        self.places["cache"] = self.places["changed"] = self.places["memory"]
        self.number = 0
        self.recipe = self.make_recipe("recipe", {})
        self.changed = None if is_short() else self.make_recipe("changed", dict([CHANGE]))
        self.options = []
        if os.environ.get("CABANE_CHECK_MIRRORS"):
            self.options += ["--mirrors", os.environ["CABANE_CHECK_MIRRORS"]]
        self.system = memory / "system"
        self.cabane("system", "probe", "--output", self.system)

    def make_recipe(self, name, changes):
        """Writes the recipe with some texts changed. The short form builds one package."""
        recipe = self.memory / name
        shutil.copytree(SOURCES / "stack", recipe)
        path = recipe / "environments.yaml"
        text = path.read_text()
        for old, new in changes.items():
            if old not in text:
                raise Failed(f"the recipe has no {old} to change")
            text = text.replace(old, new)
        if is_short():
            text = "".join(line for line in text.splitlines(True) if "lz4" not in line)
        path.write_text(text)
        packages = os.environ.get("CABANE_CHECK_REPO")
        if packages:
            shutil.copytree(packages, recipe / "repo")
        return recipe

    def cabane(self, *arguments, cache=None):
        """Runs Cabane, with a cache directory of its own, and returns how long it took."""
        variables = {**os.environ, "CABANE_CACHE_DIR": str(cache or self.memory / "base")}
        command = [self.program, *map(str, arguments)]
        begun = time.perf_counter()
        try:
            done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed(f"`cabane {arguments[0]}` did not end within {LIMIT} s") from None
        if done.returncode != 0:
            raise Failed(f"`cabane {arguments[0]}` ended with {done.returncode}: {last_lines(done.stderr)}")
        return time.perf_counter() - begun

    def prepare(self):
        """Fetches Spack and its packages, and lets Spack decide about the stacks."""
        took = 0
        for recipe in filter(None, [self.recipe, self.changed]):
            took += self.build(recipe, self.memory / "base", "memory", "--until", "concretize")
        figure("stack_concretize", took, "s")

    def build(self, recipe, cache, place, *options):
        """Builds a recipe in a new directory of a place, and returns how long it took."""
        self.number += 1
        parent = self.places[place]
        parent.mkdir(exist_ok=True)
        directory, image = parent / str(self.number), self.memory / "image"
        try:
            return self.cabane("build", recipe, "--output", image, "--replace", "--build-dir", directory, "--system",
                               self.system, *self.options, *options, cache=cache)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            image.unlink(missing_ok=True)

    def once(self, kind):
        """Does one of the builds that are measured, and returns how long it took."""
        full, cache = self.memory / "full", self.memory / "cache"
        packages_are_there = kind in ("cache", "changed")
        shutil.copytree(full if packages_are_there else self.memory / "base", cache, symlinks=True)
        try:
            took = self.build(self.changed if kind == "changed" else self.recipe, cache, kind)
            if kind == "memory" and not full.exists():
                cache.rename(full)
            return took
        finally:
            shutil.rmtree(cache, ignore_errors=True)


def measure(stack, wanted, rows):
    """Measures rounds of all builds until the time is over, and prints the rows."""
    kinds = {kind for pair in wanted.values() for kind in pair}
    beside = sorted({other for _, other in wanted.values()}, reverse=True)
    # What others are compared with is built twice; memory comes first, because its packages fill the cache.
    order = sorted(kinds, key=lambda kind: (kind != "memory", kind)) + beside
    measured = {row: {"ours": [], "other": [], "control": []} for row in wanted}
    begun = time.monotonic()
    turns, spent = 0, 0
    while turns == 0 or (not is_short() and spent * (turns + 1) / turns < BUDGET):
        taken = {}
        for kind in order:
            taken.setdefault(kind, []).append(stack.once(kind))
        for row, (ours, other) in wanted.items():
            measured[row]["ours"].append(taken[ours][0])
            measured[row]["other"].append(taken[other][0])
            measured[row]["control"].append(taken[other][1])
        order = order[:1] + order[:0:-1]
        turns, spent = turns + 1, time.monotonic() - begun
    for row in wanted:
        report(row, measured[row], "s")
        rows.open.remove(row)


def main():
    rows = Rows(ROWS)
    with rows.excused(list(ROWS)), memory_directory() as memory, temporary(Path.cwd()) as disk:
        for directory in (memory, disk):
            require_space(directory, SPACE)
        stack = Stack(memory, disk)
        stack.prepare()
        if is_short():
            rows.leave_out([row for row in ROWS if row not in IN_SHORT], "the short form builds one package")
            measure(stack, IN_SHORT, rows)
            return
        try:
            with media.slow_disk(disk, 2 * SPACE) as (medium, limit):
                limit()
                medium.measure()
                stack.places["slow"] = medium.path / "builds"
                measure(stack, ROWS, rows)
        except media.NoSlowDisk as reason:
            slow = [row for row, kinds in ROWS.items() if "slow" in kinds]
            rows.leave_out(slow, reason)
            measure(stack, {row: kinds for row, kinds in ROWS.items() if row not in slow}, rows)


if __name__ == "__main__":
    section("builds", main)
