# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The image of a run, and the same files as a directory.

A command in the directory sees the files where it sees them in the image: at the mount point, or as its root.
"""

import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import figure, left_out

PROGRAM = os.environ.get("CABANE_CHECK_PROGRAM", "cabane")
IMAGE = os.environ.get("CABANE_CHECK_IMAGE", "")
SHORT = os.environ.get("CABANE_CHECK_SHORT") == "1"
SHARED = os.environ.get("CABANE_CHECK_SHARED", "")
MEMORY = "/dev/shm"


def ended(number, _):
    sys.exit(128 + number)


# A job that reaches its limit must leave no mounts and no files behind.
signal.signal(signal.SIGTERM, ended)


class NotHere(Exception):
    """Something that a figure needs is not to be had on this machine. The text is the reason."""


def text_of(command, **options):
    """Runs a command and returns its output. NotHere says why there is none."""
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **options
        )
    except OSError as error:
        raise NotHere(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotHere(f"{os.path.basename(command[0])} ended with {done.returncode}: {said[0] if said else 'no message'}")
    return done.stdout


def program(name):
    """Finds a program of this machine."""
    found = shutil.which(name)
    if found is None:
        raise NotHere(f"there is no {name} in PATH")
    return found


def free(directory):
    """Returns how many bytes a directory can take."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class Image:
    """The image that is measured."""

    def __init__(self):
        if not IMAGE:
            sys.exit("CABANE_CHECK_IMAGE names no image; `cabane check --suite papers` runs this program")
        self.path = IMAGE
        found = json.loads(text_of([PROGRAM, "image", "inspect", "--json", IMAGE]))
        self.mount_point = found["mount"]
        self.format = found["format"]
        self.is_root = self.mount_point == "/"

    def run(self, *command, path=None, options=()):
        """The command that starts another one in the image, or in a copy of its file."""
        return [PROGRAM, "run", *options, path or self.path, "--", *command]

    def has(self, *command):
        """Whether a command works in the image."""
        try:
            text_of(self.run(*command))
        except NotHere:
            return False
        return True

    @functools.cached_property
    def variables(self):
        """What the image sets, as a shell in it has it: the environment of a command in the directory."""
        names = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "CPATH", "LIBRARY_PATH", "PKG_CONFIG_PATH")
        script = "; ".join(f'printf "%s\\\\n" "${{{name}-}}"' for name in names)
        values = text_of(self.run("sh", "-c", script)).split("\n")
        return {name: value for name, value in zip(names, values) if value}

    def unpack(self, directory):
        """Unpacks the image into a new directory."""
        if self.format != "squashfs":
            raise NotHere(f"the image has the format {self.format}, and only squashfs can be unpacked")
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        size = 6 * os.path.getsize(self.path)
        if free(os.path.dirname(directory)) < size:
            raise NotHere(f"{os.path.dirname(directory)} has less than {size >> 20} MiB free for the unpacked image")
        options = ["-no-progress", "-no-xattrs", "-dest", directory]
        done = subprocess.run(
            [program("unsquashfs"), *options, self.path], check=False, capture_output=True, text=True, errors="replace"
        )
        # Users cannot make devices and foreign files: unsquashfs ends with 2, and the rest is there.
        if done.returncode not in (0, 2) or not os.path.isdir(directory):
            said = done.stderr.strip().splitlines()
            raise NotHere(f"unsquashfs ended with {done.returncode}: {said[-1] if said else 'no message'}")
        return directory

    def in_directory(self, directory, *command, files=None):
        """The command that starts another one with the files of a directory at their places in the image.

        The same kernel calls come before each, so that only the files differ: a mount namespace, and the mounts.
        FILES is a directory of this machine that the command needs as well; nothing is written to the directory.
        """
        place = shlex.quote(str(directory))
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in self.variables.items())
        words = exports + "exec " + shlex.join(map(str, command))
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        if not self.is_root:
            if not os.path.isdir(self.mount_point):
                raise NotHere(f"there is no directory {self.mount_point}, at which a directory could be mounted")
            script = f"mount --rbind {place} {shlex.quote(self.mount_point)} && {words}"
            return [program("unshare"), *rights, "--mount", "sh", "-c", script]
        binds = [f"mount --rbind /{name} {place}/{name}" for name in ("dev", "proc", "sys")]
        if files:
            binds.append(f"mount --rbind {shlex.quote(files)} {place}/mnt")
        script = f"{' && '.join(binds)} && exec chroot {place} /bin/sh -c {shlex.quote(words)}"
        return [program("unshare"), *rights, "--mount", "sh", "-c", script]


def exact(row, ours, other, unit):
    """Prints the figures of a row that is counted: it is the same each time, and so is the control."""
    ratio = ours / other
    for end in ("", "_low", "_high"):
        figure(row + end, ratio)
    for end in ("_control_low", "_control_high", "_rounds"):
        figure(row + end, 1)
    figure(row + "_ours", ours, unit)
    figure(row + "_other", other, unit)


def attempt(rows, measure, *arguments):
    """Measures rows, or says why they cannot be measured here. Rows are names in one text."""
    try:
        measure(*arguments)
    except NotHere as reason:
        for row in rows.split():
            left_out(row, reason)


class Work:
    """A directory for the files of a section, which is removed in the end."""

    def __init__(self, parent=None):
        self.path = tempfile.mkdtemp(prefix="cabane-papers-", dir=parent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def place(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text, mode=0o644):
        path = Path(self.place(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return str(path)
