# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What is below the line becomes package.py, with the directives of all versions.
# ---
# Written by `cabane vendor-mpi`, which writes it anew for every version.
import json
import os
import pathlib

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


def beside(name):
    """The address of a file beside this one."""
    return pathlib.Path(__file__).resolve().with_name(name).as_uri()


class VendorMpi(Package):
    "What it is."

    # directives

    @property
    def _about(self):
        """What the tarball says of itself."""
        path = os.path.join(self.prefix, "share", "cabane", "vendor-mpi.json")
        with open(path, encoding="utf-8") as text:
            return json.load(text)

    def _wrapper(self, language):
        """The first wrapper of a language, or nothing."""
        names = [name for name, of in self._about["wrappers"].items() if of == language]
        usual = {"c": ["mpicc"], "cxx": ["mpicxx", "mpic++"], "fortran": ["mpifort", "mpif90"]}
        names.sort(key=lambda name: (name not in usual[language], name))
        return os.path.join(self.prefix.bin, names[0]) if names else None

    def install(self, spec, prefix):
        tree = os.path.join(self.stage.source_path, "mpi")
        if not os.path.isdir(tree):
            raise InstallError("there is no tarball for this compiler and these processors")
        install_tree(tree, prefix)
        about = self._about
        libraries = []
        for variant, gpu in about["gpu"].items():
            if spec.satisfies("+" + variant):
                libraries += gpu["link"]
                continue
            for name in gpu["files"]:
                os.unlink(os.path.join(prefix, name))
        own = [os.path.join(prefix, name) for name in about["libraries"]]
        search = own + [path for path in self._library_directories() if path not in own]
        for name, language in about["wrappers"].items():
            if name in about["data"]:
                self._set_up_data(os.path.join(prefix, about["data"][name]), language, search, libraries)
            self._set_up_wrapper(os.path.join(prefix.bin, name), language, search, libraries)
        self._set_search_paths(prefix, search)

    def _library_directories(self):
        """Where the libraries of dependencies lie that the loader does not find itself."""
        found = []
        for dependency in self.spec.traverse(root=False, deptype="link"):
            if dependency.external and dependency.prefix in ("/usr", "/"):
                continue
            for name in ("lib", "lib64"):
                path = os.path.join(dependency.prefix, name)
                if os.path.isdir(path) and path not in found:
                    found.append(path)
        return found

    def _compiler(self, language):
        return getattr(self[language], {"c": "cc", "cxx": "cxx"}.get(language, "fortran"))

    def _set_up_data(self, path, language, search, libraries):
        """Fills in what a wrapper calls that is a program, and where it finds libraries."""
        link = " ".join(f"-L{place} -Wl,-rpath,{place}" for place in search)
        names = " ".join("-l" + name for name in libraries)
        with open(path, encoding="utf-8", errors="surrogateescape") as data:
            lines = data.read().split("\n")
        for number, line in enumerate(lines):
            key, _, value = line.partition("=")
            if key == "compiler":
                lines[number] = f"compiler={self._compiler(language)}"
            elif key == "linker_flags":
                lines[number] = f"linker_flags={value} {link}"
            elif key == "libs" and names:
                lines[number] = f"libs=-Wl,--no-as-needed {names} -Wl,--as-needed {value}"
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as data:
            data.write("\n".join(lines))

    def _set_up_wrapper(self, path, language, search, libraries):
        """Fills in what the wrapper calls, and where it finds libraries."""
        compiler = self._compiler(language)
        variable = {"c": "VENDOR_MPI_CC", "cxx": "VENDOR_MPI_CXX"}.get(language, "VENDOR_MPI_FC")
        link = [f"-L{place} -Wl,-rpath,{place}" for place in search]
        names = " ".join("-l" + name for name in libraries)
        lines = {
            "mpi_compiler=": f'"${{{variable}:-{compiler}}}"',
            "mpi_link=": '"' + " ".join([*link, "-Wl,--disable-new-dtags"]) + '"',
            # Nothing in a program names them, and the linker would leave them out.
            "mpi_gpu_libs=": f'"-Wl,--no-as-needed {names} -Wl,--as-needed"' if names else '""',
        }
        with open(path, encoding="utf-8", errors="surrogateescape") as script:
            old = script.read().split("\n")
        for number, line in enumerate(old):
            for start in [start for start in lines if line.startswith(start)]:
                old[number] = start + lines.pop(start)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as script:
            script.write("\n".join(old))

    def _set_search_paths(self, prefix, search):
        """Tells programs and libraries where the libraries are that they need."""
        patchelf = which("patchelf", required=True)
        for directory, _, names in os.walk(prefix):
            for name in names:
                path = os.path.join(directory, name)
                if os.path.islink(path) or not self._is_linked(path):
                    continue
                patchelf("--print-rpath", path, output=str, error=str, fail_on_error=False)
                # What is linked statically looks for nothing.
                if patchelf.returncode == 0:
                    patchelf("--force-rpath", "--set-rpath", ":".join(search), path)

    @staticmethod
    def _is_linked(path):
        """Whether a file is a program or a library, and not an object file."""
        with open(path, "rb") as binary:
            start = binary.read(18)
        # 2 is a program, 3 a library or a program that can be moved.
        return start[:4] == b"\x7fELF" and start[16] in (2, 3)

    def setup_run_environment(self, env):
        for variable, value in self._about["environment"].items():
            env.set(variable, value.replace("$mpi_prefix", str(self.prefix)))
        for variable, language in (
            ("MPICC", "c"),
            ("MPICXX", "cxx"),
            ("MPIF77", "fortran"),
            ("MPIF90", "fortran"),
        ):
            wrapper = self._wrapper(language)
            if wrapper:
                env.set(variable, wrapper)

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)
        # Wrappers call what Spack has put before the compiler of the dependent.
        for variable, name in (
            ("VENDOR_MPI_CC", "spack_cc"),
            ("VENDOR_MPI_CXX", "spack_cxx"),
            ("VENDOR_MPI_FC", "spack_fc"),
        ):
            compiler = getattr(dependent_spec.package.module, name, None)
            if compiler:
                env.set(variable, compiler)

    def setup_dependent_package(self, module, dependent_spec):
        for attribute, language in (
            ("mpicc", "c"),
            ("mpicxx", "cxx"),
            ("mpifc", "fortran"),
            ("mpif77", "fortran"),
        ):
            wrapper = self._wrapper(language)
            if wrapper:
                setattr(self.spec, attribute, wrapper)

    @property
    def headers(self):
        found = find_headers("mpi", self.prefix.include, recursive=True)
        found.directories = [os.path.dirname(found[0])] if found else [self.prefix.include]
        return found

    @property
    def libs(self):
        wanted = self.spec.last_query.extra_parameters
        of_languages = {"cxx": ("cxx",), "fortran": ("fort", "f77", "f90", "usempi", "mpifh")}
        left_out = ["java", "trace"]
        if "cxx" not in wanted:
            left_out += of_languages["cxx"]
        if not {"fortran", "f77", "f90"} & set(wanted):
            left_out += of_languages["fortran"]
        for gpu in self._about["gpu"].values():
            left_out += gpu["link"]
        found = []
        for name in self._about["libraries"]:
            directory = os.path.join(self.prefix, name)
            for file in sorted(os.listdir(directory)):
                is_mpi = file.startswith("lib") and "mpi" in file and file.endswith(".so")
                if is_mpi and not any(word in file for word in left_out):
                    found.append(os.path.join(directory, file))
        return LibraryList(found)
