# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the console blocks of pages, each page in a world of its own; root only.

run.py PROGRAMS [quick] [PAGE…]: `scripts/test-docs` says what it does.
"""

import concurrent.futures
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dist
import kinds
import pages

HERE = Path(__file__).resolve().parent
CLONE = HERE.parent.parent
# Packages that builds have downloaded, for the next run.
KEPT = CLONE / ".cabane/test-docs"
SUDO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* In the world of a page, everybody may be root. */
int main(int count, char **words)
{
    if (count < 2 || setgid(0) || setuid(0)) return 1;
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    execvp(words[1], words + 1);
    perror(words[1]);
    return 127;
}
"""

# As `make slurm-shell` prepares its cluster: Cabane is installed on all nodes.
SLURM = """
mkdir -p /run/docs
mount --rbind {work} /run/docs
mount --bind {work}/../cache /run/docs/cache
install -m 755 /run/docs/programs/cabane /usr/local/bin/
install -D -m 4755 /run/docs/programs/cabane-mount /usr/local/libexec/cabane/cabane-mount
install -D -m 644 /run/docs/programs/libcabane_slurm.so /usr/local/lib/cabane/cabane-slurm.so
mkdir -p /etc/cabane /user-environment /user-tools
printf 'mount-point /user-environment\nmount-point /user-tools\nimage-owners any\nroot-images yes\n' >/etc/cabane/mount.policy
cabane slurm install --plugin /usr/local/lib/cabane/cabane-slurm.so >/dev/null 2>&1
exec {page}
"""


def names_of(words):
    """Returns the pages that are meant."""
    known = ["README.md", "CONTRIBUTING.md"]
    for directory in ("docs/guides", "docs/concepts", "docs"):
        known += sorted(f"{directory}/{page.name}" for page in (CLONE / directory).glob("*.md"))
    known = [name for name in known if "```console" in (CLONE / name).read_text()]
    gone = [name for name in pages.PAGES if name.removesuffix(kinds.ON_CLUSTER) not in known]
    if gone:
        sys.exit(f"test-docs: scripts/docs/pages.py names pages without console blocks: {' '.join(gone)}")
    if words == ["quick"]:
        return [name for name in known if pages.PAGES.get(name, kinds.Page()).quick]
    chosen = [name for name in known if not words or name in words or Path(name).stem in words]
    if not chosen:
        sys.exit(f"test-docs: there is no page {' '.join(words)}")
    return chosen + [name + kinds.ON_CLUSTER for name in chosen if name + kinds.ON_CLUSTER in pages.PAGES]


def prepare(work, programs):
    """Copies what the worlds show."""
    for name in ("programs", "images", "recipes", "clone", "roots", "cache", "dist"):
        (work / name).mkdir()
    for name in ("cabane", "cabane-mount", "libcabane_slurm.so"):
        # Without what only a debugger reads: a cluster has a copy.
        subprocess.run(["strip", "--strip-debug", "-o", work / "programs" / name, programs / name], check=True)
    registry = shutil.which(os.environ.get("CABANE_TEST_DOCKER_REGISTRY", "docker-registry"))
    if registry:
        shutil.copy(registry, work / "programs/docker-registry")
    if (CLONE / ".cabane/ssh").exists():
        shutil.copytree(CLONE / ".cabane/ssh/usr", work / "programs/ssh", symlinks=True)
    subprocess.run(["cc", "-x", "c", "-", "-o", work / "programs/sudo"], input=SUDO, text=True, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CLONE, stdout=subprocess.PIPE, check=True,
    ).stdout
    files = subprocess.Popen(
        ["tar", "-c", "--null", "-T", "-", "--ignore-failed-read"], cwd=CLONE,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )
    unpack = subprocess.Popen(["tar", "-x", "-C", work / "clone"], stdin=files.stdout)
    files.stdin.write(listed)
    files.stdin.close()
    if unpack.wait():
        sys.exit("test-docs: the clone cannot be copied")
    # Worlds show what is on the machine, too.
    os.environ["CABANE_TEST_OLDER_ROOT"] = str(CLONE / ".cabane/roots/bullseye")
    if kinds.has_spack():
        mirror = os.environ["CABANE_TEST_SPACK_MIRROR"]
        (work / "mirrors.yaml").write_text(f"sourcemirror:\n  here:\n    url: file://{mirror}\n")
    if kinds.has_spack() or kinds.COMPILES:
        # In a world, `rustc` is not in PATH.
        asked = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=True)
        os.environ["CABANE_TEST_RUST"] = asked.stdout.strip()


def in_a_world(work, words, own_network=False):
    """Runs a command of page.py in a world, and returns what it prints."""
    root = tempfile.mkdtemp(dir=work / "roots")
    command = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--kill-child", "--propagation", "private"]
    if own_network:
        command.append("--net")
    command += ["--", HERE / "inside", work, root, "/usr/bin/python3", "-B", "/run/docs/clone/scripts/docs/page.py"]
    done = subprocess.run(
        [*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        text += f"FAILED {' '.join(words)}: exit code {done.returncode}\n"
    return text


def in_a_cluster(work, words):
    """Runs a command of page.py at the head of a cluster of virtual nodes, and returns what it prints."""
    directory = tempfile.mkdtemp(dir=work / "roots")
    cluster = CLONE / "tests/slurm/cluster"
    server = subprocess.Popen(
        [cluster, "serve", directory, "4"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        lines = []
        for line in server.stdout:
            lines.append(line.decode(errors="replace"))
            if line == b"ready\n":
                break
        else:
            return f"FAILED {' '.join(words)}: the cluster did not start\n{''.join(lines)}"
        # A cluster forgets them.
        variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("CABANE_TEST_")]
        page = ["env", *variables, "/usr/bin/python3", "-B", "/run/docs/clone/scripts/docs/page.py", *words]
        done = subprocess.run(
            [cluster, "exec", directory, "sh", "-ec", SLURM.format(work=work, page=shlex.join(page))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
    finally:
        server.kill()
        server.wait()
    text = done.stdout.decode(errors="replace")
    return text + (f"FAILED {' '.join(words)}: exit code {done.returncode}\n" if done.returncode else "")


def dist_of(name):
    """Returns what of `make package` a page needs."""
    return pages.PAGES.get(name, kinds.Page()).dist


def download(names):
    """Keeps the wheels that pages need. pip checks their sums."""
    for name in names:
        words = ["pip", "download", "--quiet", "--require-hashes", "--requirement", CLONE / name]
        subprocess.run(
            [CLONE / ".cabane/bin/uv", "tool", "run", "--no-config", *words, "--dest", KEPT / "cache/wheels"],
            check=True,
        )


def images_of(name):
    """Returns the images that must be built for a page."""
    page = pages.PAGES.get(name, kinds.Page())
    return page.images + page.files_of


def length_of(name):
    """Returns the number of commands on a page, and so about how long it takes. Spack takes longest."""
    page = pages.PAGES.get(name, kinds.Page())
    if name.endswith(kinds.ON_CLUSTER):
        return len(page.steps)
    return (CLONE / name).read_text().count("\n$ ") + 1000 * page.uses_spack


def main(programs, words):
    """Runs pages, and prints the sum."""
    names = names_of(words)
    wanted = sorted({image for name in names for image in images_of(name)})
    passed = failed = left_out = 0
    (KEPT / "cache").mkdir(parents=True, exist_ok=True)
    lock = (KEPT / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"test-docs: another run uses {KEPT}")
    # A run that was killed left this.
    for left in KEPT.glob("tmp*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=KEPT) as place:
        work = Path(place)
        work.chmod(0o755)
        prepare(work, programs)
        download({pages.PAGES.get(name, kinds.Page()).wheels for name in names} - {""})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            images = {}

            def of_page(name):
                page = pages.PAGES.get(name, kinds.Page())
                text = "".join(images[image].result() for image in images_of(name))
                text += made.result() if page.dist else ""
                if text or not page.slurm:
                    return text or in_a_world(work, [name], page.has_own_network)
                return in_a_cluster(work, [name])

            # The longest first. Images are begun before the pages that wait for them.
            names.sort(key=length_of, reverse=True)
            waits = [name for name in names if images_of(name) or dist_of(name)]
            begun = [pool.submit(of_page, name) for name in names if name not in waits]
            kinds_of_dist = {dist_of(name) for name in waits}
            if any(kinds_of_dist):
                made = pool.submit(dist.make, work, CLONE, "packages" in kinds_of_dist)
            images |= {name: pool.submit(in_a_world, work, ["--image", name]) for name in wanted}
            begun += [pool.submit(of_page, name) for name in waits]
            for text in (future.result() for future in begun):
                print(text, end="", flush=True)
                lines = text.split("\n")
                passed += sum(line.startswith("ok ") for line in lines)
                failed += sum(line.startswith("FAILED ") for line in lines)
                left_out += sum(line.startswith("not run: ") for line in lines)
    count = len({name.removesuffix(kinds.ON_CLUSTER) for name in names})
    print(f"{left_out} commands of {count} pages are not run, for the reasons above", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
