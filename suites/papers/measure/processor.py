# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One application for several microarchitectures: images under one label, of which the node takes one.

The application solves the heat equation on a grid that fits into the cache, and multiplies matrices. One source and one
set of options: only the processor that the compiler may use differs.
"""

import json
import os
import platform
import shutil
import sys

from image import PROGRAM, SHORT, Image, NotHere, Work, attempt, program, text_of
from pairs import compare, figure, left_out

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sources", "grid.c")
# What the levels of the psABI add, by the names of the kernel: https://gitlab.com/x86-psABIs/x86-64-ABI
FEATURES = {
    "v2": ["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"],
    "v3": ["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"],
    "v4": ["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"],
}
LABEL = "grid/1:v1@here"
ROUNDS = 3 if SHORT else 15
STEPS = "2" if SHORT else "8"


def has(level):
    """Whether this processor has what a level and those below need."""
    with open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    levels = list(FEATURES)
    return all(name in flags for one in levels[: levels.index(level) + 1] for name in FEATURES[one])


def compiler(image):
    """The compiler of the image, or else that of this machine. Its programs need nothing of the image."""
    for command in (image.run("gcc"), image.run("cc"), ["gcc"], ["cc"]):
        try:
            text_of([*command, "--version"])
        except NotHere:
            continue
        return command
    raise NotHere("there is no C compiler in the image, and none on this machine")


class Images:
    """An image for each level, under one label that names none of them."""

    def __init__(self, work, image, mount_point):
        self.work = work
        self.mount_point = mount_point
        self.repository = work.place("repository")
        text_of([PROGRAM, "repo", "create", self.repository])
        self.command = compiler(image)
        shutil.copyfile(SOURCE, work.place("grid.c"))
        # Only what the processor has: a search for a missing build is no start.
        self.levels = [level for level in FEATURES if has(level)]
        for level in self.levels:
            self.add(level)

    def add(self, level):
        tree = self.work.place(f"tree-{level}")
        os.makedirs(f"{tree}/bin")
        options = ["-O3", "-ffast-math", f"-march=x86-64-{level}", "-static", "-o", f"{tree}/bin/grid", "grid.c"]
        text_of([*self.command, *options], cwd=self.work.path)
        levels = list(FEATURES)
        features = [name for one in levels[: levels.index(level) + 1] for name in FEATURES[one]]
        metadata = {
            "name": "grid",
            "mount": self.mount_point,
            "cabane": {"version": 1, "needs": {"processor": {"targets": [f"x86_64_{level}"], "features": features}}},
        }
        self.work.write(f"tree-{level}/meta/env.json", json.dumps(metadata))
        file = self.work.place(f"{level}.squashfs")
        text_of([program("mksquashfs"), tree, file, "-quiet", "-no-progress", "-all-root"])
        text_of([PROGRAM, f"--repo={self.repository}", "image", "add", f"{LABEL}%x86_64_{level}", file])

    def run(self, label):
        """Runs the application, and returns the level it was compiled for, and how long it computed."""
        command = [PROGRAM, f"--repo={self.repository}", "run", label, "--", f"{self.mount_point}/bin/grid", STEPS]
        try:
            level, heat, product = text_of(command).split()
        except NotHere as error:
            # The application was compiled here, so that a wrong result is no lack of the machine.
            sys.exit(str(error))
        return level, float(heat), float(product)


def measure(work, image):
    if platform.machine() != "x86_64":
        raise NotHere(f"the levels are those of x86-64, and this processor is {platform.machine()}")
    mount_point = work.place("mounted")
    os.makedirs(mount_point)
    images = Images(work, image, mount_point)
    taken, *_ = images.run(LABEL)
    if taken != images.levels[-1]:
        sys.exit(f"the node took the build for {taken}, and its processor has {images.levels[-1]}")
    figure("processor_level", int(taken[1:]))
    base = f"{LABEL}%x86_64_v2"
    for level in list(FEATURES)[1:]:
        for place, name in ((1, "heat"), (2, "product")):
            row = f"processor_{name}_{level}"
            if level not in images.levels:
                left_out(row, f"this processor has not what x86-64-{level} needs")
                continue
            label = f"{LABEL}%x86_64_{level}"
            compare(row, lambda: images.run(label)[place], lambda: images.run(base)[place], ROUNDS)
    # What the node takes by itself, beside the build that runs everywhere.
    compare("processor_taken", lambda: sum(images.run(LABEL)[1:]), lambda: sum(images.run(base)[1:]), ROUNDS)


def main():
    image = Image()
    rows = [f"processor_{name}_{level}" for level in ("v3", "v4") for name in ("heat", "product")]
    with Work() as work:
        attempt(" ".join([*rows, "processor_taken"]), measure, work, image)


if __name__ == "__main__":
    main()
