# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

from spack.package import *
from spack_repo.builtin.packages.zstd.package import CMakeBuilder, MakefileBuilder
from spack_repo.builtin.packages.zstd.package import Zstd as BuiltinZstd

__all__ = ["CMakeBuilder", "MakefileBuilder", "Zstd"]


class Zstd(BuiltinZstd):
    """Zstandard from the tarball that Debian distributes."""

    version(
        "1.5.7",
        sha256="0c092ef267edce57ba7f3f2645c861f72eaf5e76273c6c3632869423464b90a5",
        url="file:///nonexistent/zstd-1.5.7.tar.xz",
        preferred=True,
    )
