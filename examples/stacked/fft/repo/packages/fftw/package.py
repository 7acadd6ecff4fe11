# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

from spack.package import *
from spack_repo.builtin.packages.fftw.package import Fftw as BuiltinFftw


class Fftw(BuiltinFftw):
    """FFTW without patches that have to be fetched one by one."""


Fftw.patches = {
    when: [patch for patch in patches if not hasattr(patch, "url")]
    for when, patches in Fftw.patches.items()
}
