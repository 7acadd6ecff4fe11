# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *

# The clone that this file is in.
CLONE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))


class Cabane(Package):
    """Software environments for users of HPC clusters, each in one read-only image.

    This has the command alone. The set-uid helper and the plugins for Slurm must belong to root, and are installed
    on each node. Ordinary users also need squashfuse to start images, and squashfs-tools to build them; they are
    taken from the system, or from PATH."""

    git = "file://" + CLONE
    license("Apache-2.0 OR MIT")

    version("main", branch="main")

    # The program is static. Its C parts are compiled by Cargo, which also fetches the crates in Cargo.lock.
    depends_on("c", type="build")
    depends_on("rust@1.89:", type="build")

    def install(self, spec, prefix):
        Executable("scripts/build")()
        Executable("scripts/install")("--prefix", prefix, extra_env={"HELPER": "no", "INSTALLED_BY": "spack"})

    @run_after("install")
    def command_runs(self):
        Executable(self.prefix.bin.cabane)("--version")
