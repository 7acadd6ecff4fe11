# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Places for files that are slower than the local disk, and what they do.

A shared directory is one on the file server of the site (`CABANE_CHECK_SHARED`), or one that this machine serves to
itself with `sftp-server` and mounts with `sshfs`: every opening of a file and every write is a request to another
process, without a network in between. A slow disk is a file system in a file, on a loop device whose requests and
bytes for each second are limited by the kernel, and on which every write is synchronous.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from pairs import figure
from ways import Failed, last_lines, needed, output, temporary, undisturbed

# What the slow disk does in a second: about what is left for one user of a busy file system.
REQUESTS, BYTES = 1000, 60_000_000
BLKIO = Path("/sys/fs/cgroup/blkio")
SFTP_SERVERS = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"]
FILES, BLOCK = 200, 16 << 20


class NoSlowDisk(Failed):
    """This machine cannot have a slow disk; the text says why."""


class Medium:
    """A directory, where its files are put, and the name of its kind in figures."""

    def __init__(self, kind, path, fill=None):
        self.kind = kind
        self.path = Path(path)
        # Files come here without the costs that are measured.
        self.fill = Path(fill or path)

    def measure(self):
        """Prints what the place does: a first look at a file, and reading without a cache."""
        directory = self.fill / "probe"
        directory.mkdir()
        for number in range(FILES):
            (directory / str(number)).write_text("x")
        (directory / "block").write_bytes(os.urandom(BLOCK))
        os.sync()
        if can_drop_caches():
            drop_caches()
        seen = self.path / "probe"
        times = []
        for number in range(FILES):
            begun = time.perf_counter()
            (seen / str(number)).stat()
            times.append(time.perf_counter() - begun)
        figure(f"{self.kind}_stat", statistics.median(times) * 1e6, "us")
        begun = time.perf_counter()
        with open(seen / "block", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(1 << 20):
                pass
        figure(f"{self.kind}_read", BLOCK / 1e6 / (time.perf_counter() - begun), "MB/s")
        shutil.rmtree(directory)


def can_drop_caches():
    """Returns whether this user can empty the caches of the kernel."""
    return os.geteuid() == 0 and os.access("/proc/sys/vm/drop_caches", os.W_OK)


def drop_caches():
    """Empties the caches of the kernel, as after a start of the machine."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


@contextlib.contextmanager
def shared(work):
    """Gives a shared directory for a `with` block."""
    site = os.environ.get("CABANE_CHECK_SHARED")
    if site:
        with temporary(site) as path:
            yield Medium("site", path)
        return
    with temporary(work) as base, served(base) as medium:
        yield medium


@contextlib.contextmanager
def served(base):
    """Serves a directory to this machine, and mounts it."""
    served_directory, mounted = base / "served", base / "mounted"
    served_directory.mkdir()
    mounted.mkdir()
    server = next((path for path in SFTP_SERVERS if os.access(path, os.X_OK)), None)
    missing = "CABANE_CHECK_SHARED names no directory, and this machine has no `{}` to make one"
    if not server:
        raise Failed(missing.format("sftp-server"))
    if not shutil.which("sshfs") or not os.access("/dev/fuse", os.W_OK):
        raise Failed(missing.format("sshfs"))
    # It speaks to the server directly, and not through ssh.
    start = base / "serve"
    start.write_text(f"#!/bin/sh\nexec {server}\n")
    start.chmod(0o755)
    # Pages stay in memory while the server says that the file is unchanged, as with a close-to-open file system.
    options = f"ssh_command={start},auto_cache,idmap=none" + (",allow_other" if os.geteuid() == 0 else "")
    # Newer ones refuse absolute links of a server that they need not trust. This one serves our own files.
    known = subprocess.run(["sshfs", "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if "no_contain_symlinks" in known.stdout + known.stderr:
        options += ",no_contain_symlinks"
    client = subprocess.Popen(["sshfs", "-f", f"here:{served_directory}", str(mounted), "-o", options],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        for _ in range(100):
            if os.path.ismount(mounted):
                break
            if client.poll() is not None:
                said = client.stderr.read().decode(errors="replace")
                raise Failed(f"sshfs cannot mount a directory here: {last_lines(said)}")
            time.sleep(0.05)
        else:
            raise Failed("sshfs did not mount a directory within 5 s")
        yield Medium("sshfs", mounted, served_directory)
    finally:
        with undisturbed():
            unmount(mounted)
            # Its server ends with it.
            client.terminate()
            client.wait()
            client.stderr.close()


@contextlib.contextmanager
def slow_disk(work, size):
    """Gives a directory on a slow disk of SIZE bytes for a `with` block."""
    if os.geteuid() != 0:
        raise NoSlowDisk("only root can limit a disk")
    if not (BLKIO / "blkio.throttle.read_iops_device").exists():
        raise NoSlowDisk("this machine has no control groups of version 1 with `blkio`, which limit a whole device")
    with temporary(work) as base:
        file, mounted = base / "disk", base / "mounted"
        mounted.mkdir()
        with open(file, "wb") as disk:
            disk.truncate(size)
        output([needed("mkfs.ext4"), "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(file)])
        # Its pages are not kept a second time by the file below.
        device = output([needed("losetup"), "--find", "--show", "--direct-io=on", str(file)]).strip()
        number = os.stat(device).st_rdev
        number = f"{os.major(number)}:{os.minor(number)}"
        try:
            output([needed("mount"), device, str(mounted)])
            yield Medium("slow_disk", mounted), lambda: limit(number, device, mounted)
        finally:
            with undisturbed():
                throttle(number, 0, 0)
                unmount(mounted)
                output([needed("losetup"), "--detach", device])


def limit(number, device, mounted):
    """Makes a disk slow. Before, it can be filled quickly."""
    os.sync()
    output([needed("mount"), "-o", "remount,sync,noatime", device, str(mounted)])
    throttle(number, REQUESTS, BYTES)


def throttle(number, requests, count):
    """Limits what a device does in a second; 0 for no limit."""
    for name, value in [("iops", requests), ("bps", count)]:
        for way in ("read", "write"):
            (BLKIO / f"blkio.throttle.{way}_{name}_device").write_text(f"{number} {value}\n")


def unmount(path):
    """Unmounts a directory, also one that a process still uses."""
    if not os.path.ismount(path):
        return
    if os.geteuid() == 0:
        command = [needed("umount"), "--lazy", str(path)]
    else:
        command = [shutil.which("fusermount3") or needed("fusermount"), "-u", "-z", str(path)]
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
