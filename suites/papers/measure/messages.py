# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends messages between ranks, and runs two applications: in the image and outside.

Three comparisons. The image beside the same files in a directory at the same path: the same program and the same
library, so that only the image differs. The image with its own MPI beside the MPI of the host. The image with the MPI
of the host in the place of its own, beside the MPI of the host. There are two ranks. In a job, `srun` starts them on
two nodes, and the first comparison is left out.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ways import (MPI_AS_ROOT, SOURCES, Failed, Image, Rows, in_directory, in_image, is_short, last_lines,
                  memory_directory, output, rounds_for, section, temporary, unpack)

MESSAGES = {"latency": "us", "bandwidth": "MB/s", "alltoall": "us", "allreduce": "us"}
APPLICATIONS = {"heat": "s", "conjugate": "s"}
UNITS = {**MESSAGES, **APPLICATIONS}
VARIANTS = ["image", "own", "swapped"]
# How long each comparison is measured, in seconds, and each run of the messages in it.
BUDGET, SHORT_BUDGET = 150, 9
SECONDS, SHORT_SECONDS = 2, 0.4
# The compilers and launchers of a host, which Debian calls after the library.
HOST = [("mpicc", "mpicxx", "mpiexec"), ("mpicc.mpich", "mpicxx.mpich", "mpiexec.mpich"),
        ("mpicc.openmpi", "mpicxx.openmpi", "mpiexec.openmpi")]
LIMIT = 240


def programs():
    """Returns the program of each kind, with its arguments."""
    messages = f"messages {SHORT_SECONDS if is_short() else SECONDS}"
    return [messages] if is_short() else [messages, "heat-run --points 768 --steps 150 --half 4", "conjugate 44"]


def units():
    """Returns the rows of a comparison, with their units."""
    return MESSAGES if is_short() else UNITS


def compile_all(run, cc, cxx, directory):
    """Compiles the programs; RUN runs a line of shell."""
    heat = " ".join(f"{SOURCES}/heat/src/{name}.cpp"
                    for name in ("main", "options", "output", "solver", "laplacian", "halo", "field"))
    run(f"{cc} -O2 -o {directory}/messages {SOURCES}/messages.c")
    if not is_short():
        run(f"{cc} -O2 -o {directory}/conjugate {SOURCES}/conjugate.c -lm")
        run(f"{cxx} -O2 -std=c++17 -I {directory} -o {directory}/heat-run {heat}")


def numbers_in(text, names):
    """Finds the numbers of some lines such as `latency 1.25`."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in names:
            found[words[0]] = float(words[1])
    if set(found) != set(names):
        raise Failed(f"the ranks did not print {', '.join(sorted(set(names) - set(found)))}: {last_lines(text)}")
    return [found[name] for name in names]


def sample(start):
    """Runs every program once, and returns the number of each row. START runs one, and returns what it printed."""
    numbers = []
    for program in programs():
        names = list(MESSAGES) if program.startswith("messages") else ["seconds"]
        numbers += numbers_in(start(program), names)
    return numbers


def loaded_by(text):
    """Finds the library that the ranks of `messages` loaded."""
    for line in text.splitlines():
        if line.startswith("loaded "):
            return line.split(None, 1)[1]
    raise Failed(f"the ranks did not print which library they loaded: {last_lines(text)}")


def run_here(command, directory):
    """Runs a command of this machine, and returns what it printed."""
    environment = {**os.environ, **MPI_AS_ROOT}
    try:
        done = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"`{' '.join(command)}` did not end within {LIMIT} s") from None
    if done.returncode != 0:
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}: {last_lines(done.stderr + done.stdout)}")
    return done.stdout


class Ranks:
    """How ranks are started here: by a launcher, or by `srun` in a job."""

    def __init__(self):
        self.is_job = "SLURM_JOB_ID" in os.environ
        nodes = int(os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1)
        # More ranks than processors measure the kernel: virtual nodes have those of one machine.
        self.count, self.nodes = 2, min(2, nodes)

    def command(self, launcher, kind):
        """Returns the arguments that start ranks whose library speaks a protocol of Slurm."""
        if self.is_job:
            return ["srun", f"--nodes={self.nodes}", f"--ntasks={self.count}", f"--mpi={kind}"]
        return [launcher, "-n", str(self.count)]


def described(image, program, inside):
    """Returns the family of the MPI of a program, and what `srun --mpi` calls its protocol."""
    options = ["--in", str(image.path)] if inside else []
    found = json.loads(output([image.program, "mpi", "inspect", "--json", *options, str(program)]))
    library = found[0]["file"]["library"] if found else None
    if not library:
        raise Failed(f"`cabane mpi inspect` finds no MPI for {program}")
    return library["family"], "pmix" if "pmix" in library["protocols"] else "pmi2"


class Host:
    """The MPI of this machine that has the family of the image's, with the programs for it."""

    def __init__(self, image, family, ranks, parent):
        seen = []
        for number, (cc, cxx, launcher) in enumerate(HOST):
            if not (shutil.which(cc) and shutil.which(cxx) and (ranks.is_job or shutil.which(launcher))):
                continue
            directory = parent / f"host-{number}"
            directory.mkdir()
            write_weights(directory)
            try:
                compile_all(lambda line: run_here(["/bin/sh", "-c", line], directory), cc, cxx, directory)
                other, kind = described(image, directory / "messages", inside=False)
            except Failed as reason:
                seen.append(f"{cc}: {reason}")
                continue
            if other == family:
                self.directory, self.start = directory, ranks.command(launcher, kind)
                return
            seen.append(f"{cc} is for the family {other}")
        raise Failed(f"this machine has no MPI of the family {family} that compiles: {'; '.join(seen) or 'no mpicc'}")

    def run(self, program):
        """Runs a program with the MPI of the host."""
        name, *arguments = program.split()
        return run_here([*self.start, str(self.directory / name), *arguments], self.directory)


def write_weights(directory):
    """Writes the header that the heat equation needs."""
    output([sys.executable, str(SOURCES / "heat/python/weights.py"), str(directory / "weights.hpp")])


class Inside:
    """The programs that the image's own compiler made."""

    def __init__(self, image, ranks, directory, shell):
        self.image, self.ranks, self.directory = image, ranks, directory
        write_weights(directory)
        shutil.copytree(SOURCES, directory / "sources")
        found = {name: image.own(shell, name) for name in ("mpicc", "mpicxx", "mpiexec")}
        missing = [name for name, path in found.items() if not path]
        if missing:
            raise Failed(f"the image has no {', '.join(missing)}")
        self.launcher = found["mpiexec"]
        local = f"cd {directory} && "
        compile_all(lambda line: shell.run(local + line.replace(str(SOURCES), "sources")), found["mpicc"],
                    found["mpicxx"], directory)
        self.family, self.kind = described(image, directory / "messages", inside=True)

    def in_shell(self, shell):
        """Returns a function that runs a program in a shell, with the launcher there."""
        start = f"cd {self.directory} && {self.launcher} -n {self.ranks.count}"
        return lambda program: shell.output(f"{start} ./{program}", LIMIT)

    def own(self, shell):
        """Returns a function that runs a program with the image's own MPI."""
        if not self.ranks.is_job:
            return self.in_shell(shell)
        return lambda program: self.entering([*self.ranks.command("", self.kind)], [], program)

    def swapped(self, host):
        """Returns a function that runs a program with the MPI of the host."""
        return lambda program: self.entering(host.start, ["--mpi", "host"], program)

    def entering(self, start, options, program):
        """Runs a program whose ranks enter the image one by one."""
        name, *arguments = program.split()
        command = [*start, *self.image.command(*options), str(self.directory / name), *arguments]
        return run_here(command, self.directory)


def named(variant):
    """Returns the rows of a comparison."""
    return [f"{row}_{variant}" for row in UNITS]


def compare(rows, variant, ours, other):
    """Measures one comparison."""
    if is_short():
        rows.leave_out([f"{row}_{variant}" for row in APPLICATIONS], "the short form runs no application")
    rounds = rounds_for(lambda: sample(other), SHORT_BUDGET if is_short() else BUDGET)
    by_row = {f"{row}_{variant}": unit for row, unit in units().items()}
    rows.compare(by_row, lambda: sample(ours), lambda: sample(other), rounds)


@contextlib.contextmanager
def same_files(image, shell, work):
    """Gives a shell that sees the files of the image in a directory."""
    with memory_directory() as memory:
        unpack(image, memory / "tree")
        with in_directory(image, memory / "tree", work, shell.environment()) as other:
            yield other


def measure(image, ranks, rows, work):
    """Measures the three comparisons."""
    directory = work / "inside"
    directory.mkdir()
    with in_image(image, directory) as shell:
        inside = Inside(image, ranks, directory, shell)
        with rows.excused(named("image")):
            if ranks.is_job:
                raise Failed("in a job, the ranks in the image are compared with the MPI of the host only")
            with same_files(image, shell, directory) as other:
                compare(rows, "image", inside.in_shell(shell), inside.in_shell(other))
        host = Host(image, inside.family, ranks, work)
        with rows.excused(named("own")):
            compare(rows, "own", inside.own(shell), host.run)
        with rows.excused(named("swapped")):
            swapped = inside.swapped(host)
            before, now = loaded_by(inside.own(shell)(programs()[0])), loaded_by(swapped(programs()[0]))
            if before == now:
                raise Failed(f"the ranks loaded {now}, although another MPI was to take its place")
            compare(rows, "swapped", swapped, host.run)


def main():
    image, ranks = Image(), Ranks()
    rows = Rows([name for variant in VARIANTS for name in named(variant)])
    # Every node of a job sees the directory in which the job runs.
    with temporary(Path.cwd()) as work, rows.excused(rows.open):
        measure(image, ranks, rows, work)


if __name__ == "__main__":
    section("messages", main)
