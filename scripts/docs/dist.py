# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `make package` writes, of the programs that are tested."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from kinds import DOCS, not_run

# The version here, which `scripts/release` also writes into the pages, and the one after it.
VERSION = re.search(r'(?m)^version = "([\d.]+)"', (Path(__file__).parents[2] / "Cargo.toml").read_text())[1]
MAJOR, MINOR, _ = VERSION.split(".")
NEXT = f"{MAJOR}.{int(MINOR) + 1}.0"
# Where a page finds it.
THERE = f"{DOCS}/dist"
ARCHIVE = f"cp {THERE}/cabane-*-linux-*.tar.gz ."
NO_PACKAGES = not_run("needs the tools that `scripts/setup package` installs")


def packages(step):
    """Returns a step that needs packages, if they were made."""
    return step if list(Path(THERE).glob("*.deb")) else NO_PACKAGES


def stage(work, programs):
    """Copies programs to where `scripts/stage` looks for them. Returns variables that name the place."""
    built = work / "built/release"
    built.mkdir(parents=True)
    for name in ("cabane", "cabane-mount"):
        subprocess.run(["strip", "-o", built / name, programs / name], check=True)
    release = subprocess.run(["slurmd", "-V"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]
    plugin = built / "slurm" / ".".join(release.split(".")[:2]) / "cabane-slurm.so"
    plugin.parent.mkdir(parents=True)
    subprocess.run(["strip", "--strip-unneeded", "-o", plugin, programs / "libcabane_slurm.so"], check=True)
    # The programs of a test are not published.
    (built / "licenses.txt").write_text("not collected\n")
    return os.environ | {"CARGO_TARGET_DIR": str(work / "built"), "CABANE_PROFILE": "release", "DIST": str(work / "dist")}


def make(work, clone, has_packages):
    """Makes the archive, and packages if a page needs them. Returns what is wrong."""
    scripts = [["archive"]]
    if has_packages and (clone / ".cabane/packagers/bin/nfpm").exists():
        scripts += [["package", "deb"], ["package", "rpm"], ["package", "wheel"]]
        shutil.copy(clone / ".cabane/bin/uv", work / "programs")
    variables = stage(work, work / "programs")
    for script, *words in scripts:
        done = subprocess.run(
            [clone / "scripts" / script, *words], env=variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )
        if done.returncode:
            return f"FAILED scripts/{script}: exit code {done.returncode}\n{done.stdout}"
    return ""


def next_release():
    """Returns a script that makes the archive of the next release: the same one, with another version.

    Both have equally many characters, so that the program finds its texts.
    """
    name, new = f"cabane-{VERSION}-linux-$(uname -m)", f"cabane-{NEXT}-linux-$(uname -m)"
    old = VERSION.replace(".", r"\.")
    return f"""\
mkdir next && tar -xf {name}.tar.gz -C next && mv next/{name} next/{new} &&
LC_ALL=C sed -i 's/{old}/{NEXT}/g' next/{new}/bin/cabane &&
(cd next/{new} && cut -c 67- SHA256SUMS | xargs sha256sum > ../sums && mv ../sums SHA256SUMS) &&
tar -C next -c {new} | gzip -1 > {new}.tar.gz && rm -r next
"""
