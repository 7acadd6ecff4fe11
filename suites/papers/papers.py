# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures what papers claim about images of software, on the machine at hand.

Each section is one test. It runs a program of `measure` beside the image, and its figures are performance variables.
`rows` describes what the figures mean. A section fails if its program does; a figure that is worse than that of a
paper fails nothing.
"""

import os
import re

import reframe as rfm
import reframe.utility.sanity as sn

FIGURE = re.compile(r"^figure: ([a-z][a-z0-9_]*) (\S+)(?: (\S+))?$")


class Section(rfm.RunOnlyRegressionTest):
    """A program of `measure`. Options: --reframe=-Sshort=yes, --reframe=-Sshared=/scratch/me, --reframe=-Snodes=8"""

    valid_systems = ["*"]
    valid_prog_environs = ["+host"]
    short = variable(bool, value=False)
    shared = variable(str, value="")
    nodes = variable(int, value=1)
    # A section keeps its figures and takes less time than this. A slow file server needs more.
    time_limit = "40m"

    @run_after("init")
    def describe(self):
        self.section = type(self).__name__.lower()
        self.sourcesdir = None

    @run_after("setup")
    def prepare(self):
        program = os.path.join(self.prefix, "measure", self.section + ".py")
        self.executable = "python3"
        self.executable_opts = ["-B", program]
        # Slurm without accounting keeps no exit codes.
        self.postrun_cmds = [f"[ $? = 0 ] && echo measured: {self.section}"]
        if self.short:
            self.env_vars["CABANE_CHECK_SHORT"] = "1"
        if self.shared:
            self.env_vars["CABANE_CHECK_SHARED"] = self.shared
        if "remote" in self.current_partition.features:
            self.num_tasks = self.nodes
            self.num_tasks_per_node = 1
            self.exclusive_access = True

    @sanity_function
    def has_measured(self):
        with open(os.path.join(self.stagedir, self.stderr.evaluate()), errors="replace") as messages:
            said = [line.strip() for line in messages if line.strip()] or ["it printed no message"]
        reason = f"the section {self.section} failed: {said[-1]}"
        return sn.assert_found(rf"^measured: {self.section}$", self.stdout, reason)

    @run_before("performance")
    def read_figures(self):
        with open(os.path.join(self.stagedir, self.stdout.evaluate())) as output:
            found = [FIGURE.match(line) for line in output]
        for name, value, unit in (one.groups() for one in found if one):
            self.perf_variables[name] = sn.make_performance_function(sn.defer(float(value)), unit or "")


@rfm.simple_test
class Builds(Section):
    """Builds from source, in memory, from a cache, and with a change in the middle."""


@rfm.simple_test
class Compilers(Section):
    """Compilers and configure from an image, memory, a shared directory, and a disk."""


@rfm.simple_test
class Implementations(Section):
    """Messages and applications with other MPI implementations of the image: another version, and Open MPI."""


@rfm.simple_test
class Messages(Section):
    """Messages and applications of MPI: native, in images, in containers, and with another MPI."""


@rfm.simple_test
class Processor(Section):
    """One application for several microarchitectures, chosen on the node."""


@rfm.simple_test
class Sizes(Section):
    """Size and metadata of the image beside a directory."""


@rfm.simple_test
class Start(Section):
    """Start-up of many processes, and what a file server is asked for."""
