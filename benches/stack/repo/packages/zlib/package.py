# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

from spack.package import *
from spack_repo.builtin.packages.zlib.package import GenericBuilder, MakefileBuilder
from spack_repo.builtin.packages.zlib.package import Zlib as BuiltinZlib

__all__ = ["GenericBuilder", "MakefileBuilder", "Zlib"]


class Zlib(BuiltinZlib):
    """zlib from the tarball that Debian distributes."""

    version(
        "1.3.1",
        sha256="60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb",
        url="file:///nonexistent/zlib-1.3.1.tar.gz",
        preferred=True,
    )
