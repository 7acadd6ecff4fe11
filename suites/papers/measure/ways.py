# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Enters the same files in two ways: an image that Cabane mounts, and a directory at the same path.

One shell waits in each way and runs what it is asked to. So neither side pays for entering in a measurement, both
sides can be measured in turns, and the image is held as it is during a job.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pairs import compare_several, left_out

SOURCES = Path(__file__).resolve().parent / "sources"
# Open MPI refuses to start for root otherwise, and a mapped user is root in its namespace. It also refuses more ranks
# than cores: the last two are for versions 4 and 5.
MPI_VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
# Runs one line after the other, and answers with its exit code.
LOOP = 'while IFS= read -r line; do (eval "$line") >"$0" 2>&1 </dev/null; echo "ended $?"; done'
# How often something is measured at most and at least.
# Tests need each figure once.
MOST, FEWEST = 15, 1 if "CABANE_CHECK_SECONDS" in os.environ else 3
# How much larger the files of an image may be than the image, for a first look at the space.
UNPACKED = 5
# Prepares a mount namespace, and becomes the shell. The arguments: the directory, the mount point, the working
# directory, and the command. What it sees of the host is what `cabane run` shows.
ENTER_ROOT = """
set -e
tree=$1 work=$3
shift 3
for place in /proc /sys /dev /tmp "$work"; do
    mkdir -p "$tree$place"
    mount --rbind "$place" "$tree$place"
done
# Without the name of the host there, launchers wait for a name server.
for file in /etc/hosts /etc/resolv.conf; do
    [ -e "$tree$file" ] || [ -L "$tree$file" ] || : >"$tree$file"
    if [ -f "$file" ] && [ -f "$tree$file" ] && [ ! -L "$tree$file" ]; then mount --bind "$file" "$tree$file"; fi
done
exec chroot "$tree" /bin/sh -c 'cd "$0" && exec "$@"' "$work" "$@"
"""
ENTER_STACK = """
set -e
mount --bind "$1" "$2"
cd "$3"
shift 3
exec "$@"
"""


class Failed(Exception):
    """A command or a way did not work; the text says why."""


def section(name, main):
    """Runs a section. What it mounted is unmounted also where a time limit ends it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: it was ended from outside"))
    try:
        main()
    except Failed as reason:
        sys.exit(f"{name}: {reason}")


def is_short():
    """Returns whether this is the short form of the suite."""
    return os.environ.get("CABANE_CHECK_SHORT") == "1"


def seconds_for(short, full):
    """Returns how long a section measures. Tests set fewer seconds."""
    given = os.environ.get("CABANE_CHECK_SECONDS")
    return float(given) if given else (short if is_short() else full)


def last_lines(text):
    """Returns the end of what a program said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-400:] or "it printed nothing"


class Rows:
    """The rows of a section: each has figures or a reason, and only once."""

    def __init__(self, names):
        self.open = list(names)

    def leave_out(self, rows, reason):
        """Says why rows have no figures, unless they have an answer."""
        for row in [row for row in rows if row in self.open]:
            left_out(row, reason)
            self.open.remove(row)

    def compare(self, units, ours, other, rounds):
        """Measures rows with their units, as `compare_several` does."""
        compare_several(units, ours, other, rounds)
        for row in units:
            self.open.remove(row)

    @contextlib.contextmanager
    def excused(self, rows):
        """Leaves rows out whose way or place cannot be had, in a `with` block."""
        try:
            yield
        except (Failed, OSError) as reason:
            self.leave_out(rows, reason)


class Image:
    """The image that is checked, and the program that mounts it."""

    def __init__(self):
        self.program = required("CABANE_CHECK_PROGRAM")
        self.path = Path(required("CABANE_CHECK_IMAGE"))
        described = output([self.program, "image", "inspect", str(self.path), "--json"])
        self.mount = mount_point_in(json.loads(described))

    @property
    def is_root(self):
        """Whether the image has a root file system of its own."""
        return self.mount == "/"

    def command(self, *options, path=None):
        """Returns the arguments that start a command in the image, or in a copy of it."""
        return [self.program, "run", *options, str(path or self.path), "--"]


    def own(self, shell, *names):
        """Returns the path of the first program that is a file of the image, and not of the machine below it."""
        for name in names:
            if shell.has(name):
                path = shell.output(f"command -v {name}").strip()
                if self.is_root or path.startswith(self.mount + "/"):
                    return path
        return None


def required(name):
    """Returns the value of a variable that the suite sets."""
    value = os.environ.get(name)
    if not value:
        raise Failed(f"{name} is not set: `cabane check --suite` sets it")
    return value


def mount_point_in(described):
    """Finds the mount point in what `cabane image inspect --json` printed."""
    mount = described.get("mount")
    if not isinstance(mount, str) or not mount.startswith("/"):
        raise Failed("`cabane image inspect` names no mount point of the image")
    return mount


def output(command, **options):
    """Returns what a command prints."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}: {last_lines(done.stderr)}")
    return done.stdout


class Shell:
    """A shell that waits in one of the ways. It is closed at the end of a `with` block."""

    def __init__(self, start, work, environment=None):
        self.work = Path(work)
        self.log = Path(tempfile.mkstemp(prefix="log-", dir=work)[1])
        self.errors = tempfile.TemporaryFile()
        environment = {**(os.environ if environment is None else environment), **MPI_VARIABLES, "TMPDIR": str(work)}
        self.process = subprocess.Popen(
            [*start, "/bin/sh", "-c", LOOP, str(self.log)], cwd=work, env=environment, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True)
        self.run("true")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the shell, and whatever still runs in it."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        self.log.unlink(missing_ok=True)

    def run(self, command, limit=300):
        """Runs a line of shell, and returns how many seconds it took."""
        begun = time.perf_counter()
        code = self.ended(command, limit)
        took = time.perf_counter() - begun
        if code != 0:
            raise Failed(f"`{command}` ended with {code}: {last_lines(self.said())}")
        return took

    def output(self, command, limit=300):
        """Runs a line of shell, and returns what it printed."""
        self.run(command, limit)
        return self.said()

    def has(self, program):
        """Returns whether the shell finds a program."""
        return self.ended(f"command -v {program}", 60) == 0

    def said(self):
        """Returns what the last line printed."""
        return self.log.read_text(errors="replace")

    def ended(self, command, limit):
        """Runs a line of shell, and returns its exit code."""
        try:
            self.process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            pass
        answer, end = b"", time.monotonic() + limit
        while not answer.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise Failed(f"`{command}` did not end within {limit} s")
            part = os.read(self.process.stdout.fileno(), 4096)
            if not part:
                self.errors.seek(0)
                raise Failed(f"the shell ended: {last_lines(self.errors.read().decode(errors='replace'))}")
            answer += part
        found = re.fullmatch(rb"ended (\d+)\n", answer)
        if not found:
            raise Failed(f"the shell answered {answer!r}")
        return int(found[1])

    def environment(self):
        """Returns the variables that commands in the shell have."""
        words = self.output("cat /proc/self/environ").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)


def rounds_for(work, budget):
    """Returns how many rounds of three measurements fit, after doing the work once."""
    begun = time.monotonic()
    work()
    took = max(time.monotonic() - begun, 0.001)
    return max(FEWEST, min(MOST, int(budget / (3 * took))))


def in_image(image, work, path=None):
    """Returns a shell in the image, or in a copy of it."""
    return Shell(image.command(path=path), work)


def in_directory(image, tree, work, environment):
    """Returns a shell that sees the files of a directory at the place where the image would be mounted."""
    if not image.is_root and not Path(image.mount).is_dir():
        raise Failed(f"the directory cannot be at {image.mount}, since this machine has no such directory")
    unshare = [needed("unshare"), "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    script = ENTER_ROOT if image.is_root else ENTER_STACK
    # The programs that make the namespace are those of this machine, wherever they are.
    places = os.pathsep.join([environment.get("PATH", ""), "/usr/sbin:/usr/bin:/sbin:/bin"])
    entering = [needed("env"), f"PATH={places}", "/bin/sh", "-c", script, "sh", str(tree), image.mount, str(work)]
    return Shell([*unshare, *entering, "/usr/bin/env", f"PATH={environment.get('PATH', '')}"], work, environment)


def needed(program):
    """Returns the path of a program of this machine."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise Failed(f"this machine has no `{program}`")
    return path


def unpack(image, tree):
    """Writes the files of the image to a directory that does not exist yet."""
    with open(image.path, "rb") as file:
        if file.read(4) != b"hsqs":
            raise Failed("only images in the format squashfs can be unpacked to a directory")
    require_space(Path(tree).parent, image.path.stat().st_size * UNPACKED)
    command = [needed("unsquashfs"), "-no-xattrs", "-no-progress", "-quiet", "-dest", str(tree), str(image.path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    # 2: files that only root can make, such as devices, are missing.
    if done.returncode not in (0, 2):
        raise Failed(f"unsquashfs ended with {done.returncode}: {last_lines(done.stderr)}")
    # A directory that its owner cannot write to could not be removed afterwards.
    subprocess.run([needed("chmod"), "-R", "u+rwX", str(tree)], check=False, stderr=subprocess.DEVNULL)


def require_space(directory, size):
    """Fails if a directory has less free space than SIZE bytes."""
    free = shutil.disk_usage(directory).free
    if free < size:
        raise Failed(f"{directory} has {free / 1e9:.1f} GB of free space, and {size / 1e9:.1f} GB are needed")


def copy(tree, to):
    """Copies a directory with everything in it."""
    output([needed("cp"), "--archive", "--no-target-directory", str(tree), str(to)])


def memory_directory():
    """Returns a temporary directory in memory."""
    if not os.access("/dev/shm", os.W_OK):
        raise Failed("/dev/shm cannot be written to, and there is no other directory in memory")
    return temporary("/dev/shm")


@contextlib.contextmanager
def undisturbed():
    """Lets the end of a `with` block come before a signal that ends the section: nothing is left behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def temporary(parent):
    """Makes a temporary directory for a `with` block. Directories in it may be read-only."""
    path = Path(tempfile.mkdtemp(prefix="cabane-papers-", dir=parent))
    try:
        yield path
    finally:
        with undisturbed():
            shutil.rmtree(path, ignore_errors=True)
