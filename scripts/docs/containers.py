# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes small container images, with programs of the machine and one that a page names."""

import gzip
import hashlib
import json
import os
import re
import shutil
import ssl
import stat
import struct
import subprocess
import tempfile
import urllib.request
from pathlib import Path

PROGRAMS = ["sh", "bash", "cat", "ls", "id", "env", "readlink", "touch"]
# What MPICH starts ranks with.
MPI_PROGRAMS = ["mpiexec", "hydra_pmi_proxy"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# How SIF files name them.
SIF_ARCHITECTURES = {"x86_64": b"02", "aarch64": b"04"}
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def of_mpich(name):
    """Returns a program of the MPICH that the page has in /opt, or else of the distribution."""
    return shutil.which(name, path="/opt/mpich/bin") or shutil.which(f"{name}.mpich") or shutil.which(name)


def libraries_of(program):
    """Returns the libraries that a program is linked with."""
    listed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return set(re.findall(r"(/\S+)", listed.stdout))


def find(name):
    """Returns where a program of the machine is."""
    return Path(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:/usr/local/bin")).resolve()


def copy(place, *files):
    """Copies files of the machine to their paths in a root file system."""
    for file in files:
        there = place / str(file).lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(file).resolve(), there)


def root_of(place, program, script, *more):
    """Fills a root file system. `more` are further programs of the machine."""
    for name in ("bin", "etc", "tmp", "proc", "dev", "sys", "root"):
        (place / name).mkdir()
    (place / "usr").mkdir()
    (place / "usr/bin").symlink_to("../bin")
    libraries = set()
    # A program for MPI is compiled with an MPICH of the machine, which the container then has.
    compiled = script.endswith(".c")
    if compiled:
        subprocess.run([of_mpich("mpicc"), "-w", "-o", place / "bin" / program, script], check=True)
        libraries |= libraries_of(place / "bin" / program)
    found = {name: find(name) for name in [*PROGRAMS, *more]}
    found |= {name: Path(of_mpich(name)).resolve() for name in MPI_PROGRAMS if compiled}
    for name, source in found.items():
        shutil.copy(source, place / "bin" / name)
        libraries |= libraries_of(source)
    # The other parts of the C library, which programs from elsewhere need.
    (c_library,) = (library for library in libraries if library.endswith("/libc.so.6"))
    libraries |= {f"{c_library[:-len('c.so.6')]}{name}" for name in ("dl.so.2", "pthread.so.0", "rt.so.1")}
    copy(place, *libraries)
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


class Registry:
    """Pushes to a repository of a registry."""

    def __init__(self, name):
        self.host, _, self.path = name.partition("/")
        handlers = [urllib.request.ProxyHandler({})]
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=CERTIFICATES)))
        self.opener = urllib.request.build_opener(*handlers)

    def ask(self, method, url, content=b"", media="application/octet-stream"):
        """Sends a request, and returns the headers of the answer."""
        request = urllib.request.Request(url, data=content, method=method, headers={"Content-Type": media})
        with self.opener.open(request, timeout=60) as answer:
            return answer.headers

    def blob(self, content, media):
        """Pushes a part of an image, and returns its description."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        started = self.ask("POST", f"https://{self.host}/v2/{self.path}/blobs/uploads/")["Location"]
        place = started if "://" in started else f"https://{self.host}{started}"
        self.ask("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", content)
        return {"mediaType": media, "digest": digest, "size": len(content)}

    def manifest(self, reference, content, media):
        """Pushes a manifest under its digest or a tag, and returns its description."""
        content = json.dumps(content | {"schemaVersion": 2, "mediaType": media}).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.ask("PUT", f"https://{self.host}/v2/{self.path}/manifests/{reference or digest}", content, media)
        return {"mediaType": media, "digest": digest, "size": len(content)}


def push(name, program, script, *more):
    """Pushes an image to the registry in its name; `script` is what its program does, or a C file for MPI."""
    oci = "application/vnd.oci.image"
    path, _, tag = name.rpartition(":")
    registry = Registry(path)
    with tempfile.TemporaryDirectory() as directory:
        root_of(Path(directory), program, script, *more)
        tar = subprocess.run(["tar", "-C", directory, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    layer = registry.blob(gzip.compress(tar, 1, mtime=0), f"{oci}.layer.v1.tar+gzip")
    manifests = []
    # For two platforms, as many images are. The programs in them are the same.
    for architecture in ARCHITECTURES.values():
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": [program], "Cmd": ["--help"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
        }
        described = registry.blob(json.dumps(config).encode(), f"{oci}.config.v1+json")
        manifest = registry.manifest("", {"config": described, "layers": [layer]}, f"{oci}.manifest.v1+json")
        manifests.append(manifest | {"platform": {"architecture": architecture, "os": "linux"}})
    registry.manifest(tag, {"manifests": manifests}, f"{oci}.index.v1+json")


def sif(file, program, script):
    """Writes an image in the format of Singularity: a header, one descriptor, and a squashfs image at 4096."""
    with tempfile.TemporaryDirectory() as directory:
        root, image = Path(directory) / "root", Path(directory) / "image"
        root.mkdir()
        root_of(root, program, script)
        (root / ".singularity.d").mkdir()
        runscript = root / ".singularity.d/runscript"
        runscript.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        runscript.chmod(0o755)
        subprocess.run(["mksquashfs", root, image, "-quiet", "-noappend"], stdout=subprocess.DEVNULL, check=True)
        content = image.read_bytes()
    header = bytearray(4096)
    for place, layout, *values in (
        (0, "32s10s3s", b"#!/usr/bin/env run-singularity\n", b"SIF_MAGIC", b"01"),
        (88, "<QQ", 1, 128),
        (128, "<iB", 0x4004, 1),
        (128 + 17, "<QQ", 4096, len(content)),
        (128 + 201, "<ii2s", 1, 2, SIF_ARCHITECTURES[os.uname().machine]),
    ):
        struct.pack_into(layout, header, place, *values)
    file.write_bytes(bytes(header) + content)
