# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

from spack.package import *
from spack_repo.builtin.packages.mpich.package import Mpich as BuiltinMpich


class Mpich(BuiltinMpich):
    """MPICH from the tarball that Debian distributes."""

    version(
        "4.0.2",
        sha256="b27039f964afeb6b8a3e009c56b441cbe368c26d6d6476ad3bb7190996875860",
        url="file:///nonexistent/mpich-4.0.2.tar.xz",
        preferred=True,
    )


# Debian's tarball has them, or they are for compilers that are not used here.
Mpich.patches = {
    when: [patch for patch in patches if not hasattr(patch, "url")]
    for when, patches in Mpich.patches.items()
}
