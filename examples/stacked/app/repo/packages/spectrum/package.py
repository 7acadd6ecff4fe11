# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

import os

from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Spectrum(Package):
    """Finds the frequencies in a wave, with one part of it on each rank."""

    has_code = False

    version("1.0")

    depends_on("c", type="build")
    depends_on("mpi")
    depends_on("fftw +mpi")

    def install(self, spec, prefix):
        source = os.path.join(self.package_dir, "spectrum.c")
        mkdirp(prefix.bin)
        fftw = spec["fftw"].prefix
        Executable(spec["mpi"].mpicc)(
            source,
            "-O2",
            f"-I{fftw.include}",
            f"-L{fftw.lib}",
            f"-Wl,-rpath,{fftw.lib}",
            "-lfftw3_mpi",
            "-lfftw3",
            "-lm",
            "-o",
            join_path(prefix.bin, "spectrum"),
        )
