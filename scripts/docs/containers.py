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
import struct
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ["sh", "bash", "cat", "ls", "id", "env", "readlink", "touch"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# How SIF files name them.
SIF_ARCHITECTURES = {"x86_64": b"02", "aarch64": b"04"}


def root_of(place, program, script):
    """Fills a root file system."""
    for name in ("bin", "etc", "tmp", "proc", "dev", "sys", "root"):
        (place / name).mkdir()
    (place / "usr").mkdir()
    (place / "usr/bin").symlink_to("../bin")
    libraries = set()
    for name in PROGRAMS:
        source = Path(shutil.which(name)).resolve()
        shutil.copy(source, place / "bin" / name)
        listed = subprocess.run(["ldd", source], stdout=subprocess.PIPE, text=True, check=True).stdout
        libraries |= set(re.findall(r"(/\S+)", listed))
    for library in libraries:
        there = place / library.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), there)
    (place / "etc/os-release").write_text('NAME="Ubuntu"\nVERSION="22.04"\nID=ubuntu\n')
    (place / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
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
    """Pushes an image to the registry in its name; `script` is what its program does."""
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

        layer = blob(gzip.compress(tar.stdout, 1, mtime=0), "layer.v1.tar+gzip")

        def manifest(architecture):
            config = {
                "architecture": architecture,
                "os": "linux",
                "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": [program], "Cmd": ["--help"]},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar.stdout).hexdigest()}"]},
            }
            content = {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": blob(json.dumps(config).encode(), "config.v1+json"),
                "layers": [layer],
            }
            entry = blob(json.dumps(content).encode(), "manifest.v1+json")
            return entry | {"platform": {"architecture": architecture, "os": "linux"}}

        # For two platforms, as many images are. The scripts in them are the same.
        content = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest(architecture) for architecture in ARCHITECTURES.values()],
        }
        index = {"schemaVersion": 2, "manifests": [blob(json.dumps(content).encode(), "index.v1+json")]}
        (layout / "index.json").write_text(json.dumps(index))
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        subprocess.run(
            ["skopeo", "copy", "--quiet", "--insecure-policy", "--all", f"oci:{layout}", f"docker://{name}"],
            stdout=subprocess.DEVNULL, check=True,
        )


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
    machine = os.uname().machine
    header = bytearray(4096)
    for place, layout, *values in (
        (0, "32s10s3s", b"#!/usr/bin/env run-singularity\n", b"SIF_MAGIC", b"01"),
        (88, "<QQ", 1, 128),
        (128, "<iB", 0x4004, 1),
        (128 + 17, "<QQ", 4096, len(content)),
        (128 + 201, "<ii2s", 1, 2, SIF_ARCHITECTURES[machine]),
    ):
        struct.pack_into(layout, header, place, *values)
    file.write_bytes(bytes(header) + content)
