# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends messages between ranks, and runs two applications: in the image and outside.

Three comparisons of the MPI that is first in the `PATH` of the image. `image`: beside the same files in a directory at
the same path: the same program and the same library, so that only the image differs. `own`: the image with its own MPI
beside the MPI of the host. `swapped`: the image with the MPI of the host in the place of its own, beside the MPI of the
host. `implementations.py` compares the other MPIs of the image. `version` is for one that has another version than that of
the host: its own beside that of the host in its place.

There are two ranks, and as many as processors, from 4 on, in the comparisons with `many`. In a job, `srun` starts them on several
nodes, one for each if there are enough, and `image` is left out.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pairs import figure
from ways import (FEWEST, MOST, MPI_VARIABLES, SOURCES, Failed, Image, Rows, in_directory, in_image, is_short,
                  last_lines, memory_directory, output, seconds_for, section, temporary, unpack)

MESSAGES = {"latency": "us", "bandwidth": "MB/s", "alltoall": "us", "allreduce": "us"}
APPLICATIONS = {"heat": "s", "conjugate": "s"}
UNITS = {**MESSAGES, **APPLICATIONS}
COLLECTIVE = {"alltoall": "us", "allreduce": "us", **APPLICATIONS}
# The comparisons of the first MPI, and those of others. What matters most comes first.
FIRST = {
    "image": UNITS, "own": UNITS, "swapped": UNITS,
    "many_image": COLLECTIVE, "many_own": COLLECTIVE, "many_swapped": COLLECTIVE,
}
OTHERS = {"version": UNITS, "openmpi_image": UNITS, "openmpi_swapped": UNITS, "openmpi_own": UNITS}
# How long all comparisons may take, in seconds, and each run of the messages in them.
BUDGET, SHORT_BUDGET = 620, 36
SECONDS, SHORT_SECONDS = 1.2, 0.2
# The compilers and launchers, which Debian calls after the library.
TOOLS = ("mpicc", "mpicxx", "mpiexec")
OPENMPI, MPICH = [tuple(f"{name}.{library}" for name in TOOLS) for library in ("openmpi", "mpich")]
OPENMPI_FAMILY = "open-mpi"
# The most ranks that exchange messages, and the least in the comparisons with many.
MOST_RANKS, LEAST_MANY = 16, 4
# A run that takes longer, in seconds, hangs.
LIMIT = 120
# How long ranks of a job may take to end after they have printed everything. MPICH before 4.2 can wait forever in
# `MPI_Finalize` if its messages go through UCX and TCP: https://github.com/pmodels/mpich/pull/6596
GRACE = 1
# What is printed last, before `MPI_Finalize`.
LAST = ("allreduce ", "seconds ")


def all_seconds():
    """Returns how long all comparisons may take."""
    return seconds_for(SHORT_BUDGET, BUDGET)


def programs(units, count):
    """Returns the programs that measure some rows, with their arguments, and what they print of each row."""
    # More ranks do more work together, and virtual nodes share processors.
    steps, points = (100, 56) if count == 2 else (40, 24)
    # A run is a small part of what there is time for.
    seconds = min(SHORT_SECONDS if is_short() else SECONDS, all_seconds() / 50)
    found = {f"messages {seconds}": [row for row in units if row in MESSAGES]}
    if "heat" in units:
        found[f"heat-run --points 768 --steps {steps} --half 4"] = ["seconds"]
    if "conjugate" in units:
        found[f"conjugate {points}"] = ["seconds"]
    return found


def compile_messages(run, cc, directory):
    """Compiles the program for messages; RUN runs a line of shell."""
    run(f"{cc} -O2 -o {directory}/messages {SOURCES}/messages.c")


def compile_applications(run, cc, cxx, directory):
    """Compiles the applications."""
    if is_short():
        return
    heat = " ".join(f"{SOURCES}/heat/src/{name}.cpp"
                    for name in ("main", "options", "output", "solver", "laplacian", "halo", "field"))
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


def sample(start, units, count):
    """Runs the programs once, and returns the number of each row. START runs one, and returns what it printed."""
    numbers = []
    for program, names in programs(units, count).items():
        numbers += numbers_in(start(program, count), names)
    return numbers


def loaded_by(start):
    """Finds the library that the ranks of `messages` load."""
    text = start(f"messages {SHORT_SECONDS}", 2)
    for line in text.splitlines():
        if line.startswith("loaded "):
            return line.split(None, 1)[1]
    raise Failed(f"the ranks did not print which library they loaded: {last_lines(text)}")


def run_here(command, directory):
    """Runs a command of this machine, and returns what it printed."""
    environment = {**os.environ, **MPI_VARIABLES}
    try:
        done = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"`{' '.join(command)}` did not end within {LIMIT} s") from None
    return checked(command, done.returncode, done.stdout, done.stderr)


def checked(command, code, text, errors):
    """Returns what a command printed, if it succeeded."""
    if code != 0:
        raise Failed(f"`{' '.join(command)}` ended with {code}: {last_lines(errors + text)}")
    return text


class Ranks:
    """How ranks are started here: by a launcher, or by `srun` in a job.

    `hung` counts the runs that were ended after they had printed everything."""

    def __init__(self):
        self.hung = 0
        self.is_job = "SLURM_JOB_ID" in os.environ
        self.nodes = int(os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1)
        self.processors = len(os.sched_getaffinity(0))

    @property
    def available(self):
        """Returns how many ranks have a processor of their own: one for each processor, in a job one for each node."""
        return self.nodes if self.is_job else self.processors

    @property
    def many(self):
        """Returns a number of ranks: as many as have a processor, and a power of two."""
        return 1 << (min(self.available, MOST_RANKS).bit_length() - 1)

    def command(self, launcher, kind, count):
        """Returns the arguments that start ranks whose library speaks a protocol of Slurm."""
        if self.is_job:
            nodes = min(self.nodes, count)
            return ["srun", f"--nodes={nodes}", f"--ntasks={count}", "--overcommit", f"--mpi={kind}"]
        return [launcher, "-n", str(count)]

    def run(self, command, directory):
        """Runs ranks, and returns what they printed. In a job, they may hang when everything is printed."""
        if not self.is_job:
            return run_here(command, directory)
        with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, cwd=directory, env={**os.environ, **MPI_VARIABLES},
                                       stdin=subprocess.DEVNULL, stdout=printed, stderr=errors)
            is_complete = wait_for(process, lambda: any(line.startswith(LAST) for line in lines_of(printed)))
            if process.returncode is None:
                # `srun` ends its ranks.
                process.terminate()
                try:
                    process.wait(LIMIT)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                if not is_complete:
                    raise Failed(f"`{' '.join(command)}` did not end within {LIMIT} s")
                self.hung += 1
                return "".join(lines_of(printed))
            return checked(command, process.returncode, "".join(lines_of(printed)), "".join(lines_of(errors)))


def lines_of(file):
    """Returns the whole lines of a file."""
    # Another process writes at its own place.
    return [line for line in os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace").splitlines(keepends=True)
            if line.endswith("\n")]


def wait_for(process, is_complete):
    """Waits until a process ends, or has had time to end after it was complete. Returns whether it was complete."""
    end, was_complete = time.monotonic() + LIMIT, False
    while process.poll() is None and time.monotonic() < end:
        if not was_complete and is_complete():
            end, was_complete = time.monotonic() + GRACE, True
        time.sleep(0.02)
    return was_complete


class Library:
    """The MPI that a program loads."""

    def __init__(self, image, program, inside):
        options = ["--in", str(image.path)] if inside else []
        found = json.loads(output([image.program, "mpi", "inspect", "--json", *options, str(program)]))
        library = found[0]["file"]["library"] if found else None
        if not library:
            raise Failed(f"`cabane mpi inspect` finds no MPI for {program}")
        self.family, self.version = library["family"], library["version"]
        self.name = f"{library['product']} {library['version'] or 'of unknown version'}"
        # What `srun --mpi` calls its protocol.
        self.kind = "pmix" if "pmix" in library["protocols"] else "pmi2"


def write_weights(directory):
    """Writes the header that the heat equation needs."""
    output([sys.executable, str(SOURCES / "heat/python/weights.py"), str(directory / "weights.hpp")])


class Host:
    """An MPI of this machine, with the programs for it."""

    def __init__(self, image, ranks, directory, tools):
        self.ranks, self.directory, self.has_all = ranks, directory, False
        self.cc, self.cxx, self.launcher = tools
        directory.mkdir()
        write_weights(directory)
        compile_messages(self.shell, self.cc, directory)
        self.library = Library(image, directory / "messages", inside=False)

    def shell(self, line):
        run_here(["/bin/sh", "-c", line], self.directory)

    def complete(self):
        """Compiles the applications, too."""
        if not self.has_all:
            compile_applications(self.shell, self.cc, self.cxx, self.directory)
            self.has_all = True
        return self

    def start(self, count):
        """Returns the arguments that start ranks."""
        return self.ranks.command(self.launcher, self.library.kind, count)

    def run(self, program, count):
        """Runs a program with this MPI."""
        name, *arguments = program.split()
        return self.ranks.run([*self.start(count), str(self.directory / name), *arguments], self.directory)


class Hosts:
    """The MPIs of this machine, of which the one for a family is looked for when it is needed."""

    def __init__(self, image, ranks, work):
        self.image, self.ranks, self.work = image, ranks, work
        self.untried, self.found, self.seen = [TOOLS, MPICH, OPENMPI], {}, []

    def of(self, family):
        """Returns the MPI of a family."""
        while family not in self.found and self.untried:
            tools = self.untried.pop(0)
            *compilers, launcher = tools
            if not (all(map(shutil.which, compilers)) and (self.ranks.is_job or shutil.which(launcher))):
                continue
            try:
                host = Host(self.image, self.ranks, self.work / f"host-{len(self.untried)}", tools)
            except Failed as reason:
                self.seen.append(f"{tools[0]}: {reason}")
                continue
            self.seen.append(f"{tools[0]} is for the family {host.library.family}")
            self.found.setdefault(host.library.family, host)
        if family not in self.found:
            seen = "; ".join(self.seen) or "no mpicc"
            raise Failed(f"this machine has no MPI of the family {family} that compiles: {seen}")
        return self.found[family].complete()


class Inside:
    """An MPI of the image, with the programs that its own compilers made."""

    def __init__(self, setting, name, tools):
        self.image, self.ranks, self.shell = setting.image, setting.ranks, setting.shell
        self.directory, self.checked = setting.work / name, False
        self.launcher = tools[2]
        self.directory.mkdir()
        write_weights(self.directory)
        shutil.copytree(SOURCES, self.directory / "sources")
        compile_messages(self.compile, tools[0], self.directory)
        compile_applications(self.compile, tools[0], tools[1], self.directory)
        self.library = Library(self.image, self.directory / "messages", inside=True)

    def compile(self, line):
        self.shell.run(f"cd {self.directory} && {line.replace(str(SOURCES), 'sources')}")

    def in_shell(self, shell):
        """Returns a function that runs a program in a shell, with the launcher there."""
        start = f"cd {self.directory} && {self.launcher}"
        return lambda program, count: shell.output(f"{start} -n {count} ./{program}", LIMIT)

    def own(self):
        """Returns a function that runs a program with this MPI."""
        if not self.ranks.is_job:
            return self.in_shell(self.shell)
        return lambda program, count: self.entering(self.ranks.command("", self.library.kind, count), [], program)

    def swapped(self, host):
        """Returns a function that runs a program with the MPI of the host, after a look at what the ranks load."""

        def start(program, count):
            return self.entering(host.start(count), ["--mpi", "host"], program)

        if not self.checked:
            before, now = loaded_by(self.own()), loaded_by(start)
            if before == now:
                raise Failed(f"the ranks loaded {now}, although another MPI was to take its place")
            self.checked = True
        return start

    def entering(self, start, options, program):
        """Runs a program whose ranks enter the image one by one."""
        name, *arguments = program.split()
        command = [*start, *self.image.command(*options), str(self.directory / name), *arguments]
        return self.ranks.run(command, self.directory)


class Setting:
    """The image, its MPIs, and those of the machine. Each is made when it is needed first."""

    def __init__(self, image, ranks, work, stack):
        self.image, self.ranks, self.stack = image, ranks, stack
        self.work = work / "inside"
        self.work.mkdir()
        self.shell = stack.enter_context(in_image(image, self.work))
        self.hosts = Hosts(image, ranks, work)
        self.made, self.tree = {}, None

    def same_files(self):
        """Returns a shell that sees the files of the image in a directory."""
        if self.tree is None:
            memory = self.stack.enter_context(memory_directory())
            unpack(self.image, memory / "tree")
            other = in_directory(self.image, memory / "tree", self.work, self.shell.environment())
            self.tree = self.stack.enter_context(other)
        return self.tree

    def inside(self, name, tools):
        """Returns an MPI of the image by its compilers and launcher."""
        if name not in self.made:
            paths = [self.image.own(self.shell, tool) for tool in tools]
            missing = [tool for tool, path in zip(tools, paths) if not path]
            if missing:
                raise Failed(f"the image has no {', '.join(missing)}")
            self.made[name] = Inside(self, name, paths)
        return self.made[name]

    def first(self):
        """Returns the MPI that the image has in its `PATH`."""
        return self.inside("first", TOOLS)

    def openmpi(self):
        """Returns the Open MPI of the image, if it is not the first MPI."""
        first = None
        with contextlib.suppress(Failed):
            first = self.first().library
        if first and first.family == OPENMPI_FAMILY:
            raise Failed(f"{first.name} is the first MPI of the image, and the rows without `openmpi` measure it")
        return self.inside("openmpi", OPENMPI)

    def all(self):
        """Returns functions for the first MPI of the image, and for those below /opt."""
        yield self.first
        # In an image without a root, these are directories of the machine.
        found = self.shell.output("ls -d /opt/*/bin/mpicc || true") if self.image.is_root else ""
        for number, path in enumerate(line for line in found.splitlines() if line.startswith("/opt/")):
            tools = [os.path.join(os.path.dirname(path), tool) for tool in TOOLS]
            yield lambda number=number, tools=tools: self.inside(f"opt-{number}", tools)

    def other_version(self):
        """Returns an MPI of the image, and that of the host that has another version."""
        seen = []
        for find in self.all():
            try:
                inside = find()
                host = self.hosts.of(inside.library.family)
            except Failed as reason:
                seen.append(str(reason))
                continue
            versions = {inside.library.version, host.library.version}
            if len(versions) == 2 and None not in versions:
                return inside, host
            seen.append(f"the image has {inside.library.name}, and this machine {host.library.name}")
        raise Failed("; ".join(seen))


def named(ending, units=UNITS):
    """Returns the rows of a comparison."""
    return [f"{row}_{ending}" for row in units]


def not_compared(ranks, ending):
    """Returns why a comparison is not possible in this place or form, if it is not."""
    if ranks.is_job and ending.endswith("image"):
        return "in a job, the ranks in the image are compared with the MPI of the host only"
    if is_short() and ending.startswith("many"):
        return "the short form starts two ranks"
    if ending.startswith("many") and ranks.available < LEAST_MANY:
        place = f"this job has {ranks.nodes} nodes" if ranks.is_job else f"this machine has {ranks.processors} processors"
        return f"{place}; ranks that share a processor would wait for each other"
    if is_short() and ending == "openmpi_own":
        return "the short form measures Open MPI with `image` and `swapped` only"
    return None


def ways(setting, ending):
    """Returns the two ways of a comparison: functions that run a program with a number of ranks."""
    if ending == "version":
        inside, host = setting.other_version()
        return inside.own(), inside.swapped(host)
    *which, kind = ending.split("_")
    inside = setting.openmpi() if which == ["openmpi"] else setting.first()
    if kind == "image":
        return inside.in_shell(setting.shell), inside.in_shell(setting.same_files())
    host = setting.hosts.of(inside.library.family)
    return inside.own() if kind == "own" else inside.swapped(host), host.run


def rounds_within(end, part, ours, other):
    """Returns how many rounds fit into a part of the time until END. A round measures OURS once, and OTHER twice."""
    times = []
    for measure_once in (ours, other):
        begun = time.monotonic()
        measure_once()
        times.append(max(time.monotonic() - begun, 0.001))
    # Before the rounds, both ways are measured once.
    fitting = (end - time.monotonic() - sum(times)) / (times[0] + 2 * times[1])
    # The short form has so few measurements that each comparison gets its own, also on a machine that is busy.
    if fitting < FEWEST and not is_short():
        raise Failed("no time is left for it: the comparisons before it took longer than usual")
    return max(FEWEST, min(MOST, int(fitting * part)))


def working(rows, ending, units, count, ours, other):
    """Returns the rows whose programs work in both ways: an application that fails does not cost the other rows."""
    for row in [row for row in units if row in APPLICATIONS]:
        with rows.excused(named(ending, [row])):
            for start in (other, ours):
                sample(start, [row], count)
    return {row: unit for row, unit in units.items() if f"{row}_{ending}" in rows.open}


def measure(setting, comparisons, rows, end):
    """Measures the comparisons one after the other, until END."""
    ranks = setting.ranks
    to_do = {}
    for ending, units in comparisons.items():
        if is_short():
            rows.leave_out(named(ending, APPLICATIONS), "the short form runs no application")
            units = {row: unit for row, unit in units.items() if row not in APPLICATIONS}
        reason = not_compared(ranks, ending)
        if reason:
            rows.leave_out(named(ending), reason)
        else:
            to_do[ending] = units
    for ending in list(to_do):
        part = 1 / len(to_do)
        units = to_do.pop(ending)
        count = ranks.many if ending.startswith("many") else 2
        with rows.excused(named(ending)):
            ours, other = ways(setting, ending)
            units = working(rows, ending, units, count, ours, other)
            starts = [lambda start=start: sample(start, units, count) for start in (ours, other)]
            rounds = rounds_within(end, part, *starts)
            by_row = dict(zip(named(ending, units), units.values()))
            rows.compare(by_row, *starts, rounds)
    if not is_short() and "many_own" in comparisons and ranks.available >= LEAST_MANY:
        figure("messages_many_ranks", ranks.many)
    if ranks.is_job:
        # Runs that hung in `MPI_Finalize`.
        figure("messages_hung", ranks.hung)


def main(comparisons):
    end = time.monotonic() + all_seconds()
    image, ranks = Image(), Ranks()
    rows = Rows([name for ending, units in comparisons.items() for name in named(ending, units)])
    # Every node of a job sees the directory in which the job runs.
    with temporary(Path.cwd()) as work, rows.excused(list(rows.open)), contextlib.ExitStack() as stack:
        measure(Setting(image, ranks, work, stack), comparisons, rows, end)


if __name__ == "__main__":
    section("messages", lambda: main(FIRST))
