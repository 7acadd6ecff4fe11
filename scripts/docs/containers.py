# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes small container images, with programs of the machine and one that a page names."""

import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ["sh", "cat", "ls", "id", "env", "readlink", "touch"]
# What MPICH starts ranks with.
MPI_PROGRAMS = ["mpiexec", "hydra_pmi_proxy"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def of_mpich(name):
    """Returns a program of the MPICH that the page has in /opt, or else of the distribution."""
    return shutil.which(name, path="/opt/mpich/bin") or shutil.which(f"{name}.mpich") or shutil.which(name)


def root_of(place, program, script):
    """Fills a root file system."""
    for name in ("bin", "etc", "tmp", "proc", "dev", "sys", "root"):
        (place / name).mkdir()
    (place / "usr").mkdir()
    (place / "usr/bin").symlink_to("../bin")
    libraries = set()
    # A program for MPI is compiled with an MPICH of the machine, which the container then has.
    compiled = script.endswith(".c")
    if compiled:
        subprocess.run([of_mpich("mpicc"), "-w", "-o", place / "bin" / program, script], check=True)
    for name in [*PROGRAMS, *([*MPI_PROGRAMS, program] if compiled else [])]:
        there = place / "bin" / name
        if name != program:
            shutil.copy(Path(of_mpich(name) if name in MPI_PROGRAMS else shutil.which(name)).resolve(), there)
        source = there
        listed = subprocess.run(["ldd", source], stdout=subprocess.PIPE, text=True, check=True).stdout
        libraries |= set(re.findall(r"(/\S+)", listed))
    # The other parts of the C library, which programs from elsewhere need.
    (c_library,) = (library for library in libraries if library.endswith("/libc.so.6"))
    libraries |= {f"{c_library[:-len('c.so.6')]}{name}" for name in ("dl.so.2", "pthread.so.0", "rt.so.1")}
    for library in libraries:
        there = place / library.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), there)
    (place / "etc/os-release").write_text('NAME="Ubuntu"\nVERSION="22.04"\nID=ubuntu\n')
    (place / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    if not compiled:
        file = place / "bin" / program
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    # What an image for another tool has, and what imports change.
    for number in range(2):
        (place / f"etc/private{number}").touch(0o600)
        owned = place / f"etc/owned{number}"
        owned.touch()
        os.chown(owned, 1000, 1000)
        (place / f"bin/set-user-id{number}").touch()
        (place / f"bin/set-user-id{number}").chmod(0o4755)
        os.mknod(place / f"dev/device{number}", stat.S_IFCHR | 0o644, os.makedev(1, 3))


def push(name, program, script):
    """Pushes an image to the registry in its name; `script` is what its program does, or a C file for MPI."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        root, layout = place / "root", place / "layout"
        root.mkdir()
        (layout / "blobs/sha256").mkdir(parents=True)
        root_of(root, program, script)
        tar = subprocess.run(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE, check=True)

        def blob(content, media):
            digest = hashlib.sha256(content).hexdigest()
            (layout / "blobs/sha256" / digest).write_bytes(content)
            return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(content)}

        machine = subprocess.run(["uname", "-m"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        config = {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": [program], "Cmd": ["--help"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar.stdout).hexdigest()}"]},
        }
        layer = blob(gzip.compress(tar.stdout, 1, mtime=0), "layer.v1.tar+gzip")
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(json.dumps(config).encode(), "config.v1+json"),
            "layers": [layer],
        }
        index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), "manifest.v1+json")]}
        (layout / "index.json").write_text(json.dumps(index))
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        subprocess.run(
            ["skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{layout}", f"docker://{name}"],
            stdout=subprocess.DEVNULL, check=True,
        )
