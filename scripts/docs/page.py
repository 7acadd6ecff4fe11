# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the console blocks of one page in its world, as root, with a shell of an ordinary user.

page.py PAGE: prints `ok`, `FAILED`, or `not run:` for each command.
page.py --image NAME: builds an image that pages begin with, in /run/docs/images.
"""

import os
import pwd
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import blocks
import containers
import images
import kinds
import pages
from session import BASHRC, Ended, Session

DOCS = Path(kinds.DOCS)
USER = "alice"
UID = "61234"
PATH = "/usr/local/bin:/usr/bin:/bin"
# What the interpreter of the machine is called.
PYTHON = Path("/usr/bin/python3").resolve().name
# Where the machine gets packages from. Nothing else of the caller is seen.
INHERITED = ["SSL_CERT_FILE", "UV_DEFAULT_INDEX", "PIP_INDEX_URL", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"]


def call(*command, **options):
    """Runs a command of the preparation."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}")


def show(source, *places):
    """Mounts a program where it is looked for."""
    for place in map(Path, places):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        call("mount", "--bind", source, place)


class World:
    """A user with a home, and the programs."""

    def __init__(self, page):
        self.page = page
        try:
            pwd.getpwnam(USER)
        except KeyError:
            call("useradd", "--uid", UID, "--create-home", "--shell", "/bin/bash", USER)
        if page.slurm:
            # The cache belongs to the same number as elsewhere.
            call("usermod", "--uid", UID, USER)
        self.user = pwd.getpwnam(USER)
        self.home = Path(self.user.pw_dir)
        self.home.chmod(0o755)
        (self.home / ".bashrc").write_text(BASHRC)
        if not page.slurm:
            shutil.copy(DOCS / "programs/cabane", "/usr/local/bin/cabane")
        shutil.copy(DOCS / "programs/sudo", "/usr/local/bin/sudo")
        Path("/usr/local/bin/sudo").chmod(0o4755)
        # Packages that were downloaded before. A build checks them as if they were new.
        self.keep("uv", "tools")
        if page.uses_spack:
            self.use_spack()
        if page.keeps_packages:
            self.keep("spack/packages")
        for place in (".bashrc", ".cache", ".cache/cabane", ".cache/cabane/spack"):
            if (self.home / place).exists():
                self.own(self.home / place)

    def keep(self, *names):
        """Shows directories of the cache as the last run has left them."""
        for name in names:
            place = self.home / ".cache/cabane" / name
            place.mkdir(parents=True)
            (DOCS / "cache" / name).mkdir(parents=True, exist_ok=True)
            self.own(DOCS / "cache" / name)
            call("mount", "--bind", DOCS / "cache" / name, place)

    def use_spack(self):
        """Lets Git use clones of this machine in the place of GitHub. They belong to another user."""
        spack, packages, _ = (os.environ[name] for name in kinds.SPACK)
        (self.home / ".gitconfig").write_text(
            "[safe]\n\tdirectory = *\n"
            f'[url "{spack}"]\n\tinsteadOf = https://github.com/spack/spack.git\n'
            f'[url "{packages}"]\n\tinsteadOf = https://github.com/spack/spack-packages.git\n'
        )
        self.own(self.home / ".gitconfig")

    def own(self, *places):
        """Gives files to the user."""
        for place in places:
            os.chown(place, self.user.pw_uid, self.user.pw_gid)

    def own_at_home(self, place):
        """Gives a file to the user if it is below the home."""
        if place.is_relative_to(self.home):
            self.own(place)

    def clone(self):
        """Copies the sources, with the programs where `make build` puts them."""
        there = self.home / "cabane"
        call("cp", "--archive", DOCS / "clone", there)
        call("chown", "--recursive", f"{USER}:", there)
        for name in ("cabane", "cabane-mount"):
            show(DOCS / "programs" / name, there / "target/release" / name)

    def examples(self):
        """Copies the examples, as a reader does."""
        call("cp", "--recursive", DOCS / "clone/examples", self.home)
        call("chown", "--recursive", f"{USER}:", self.home / "examples")

    def session(self, directory):
        """Starts a shell."""
        place = Path(directory.replace("~", str(self.home), 1))
        if not place.exists():
            place.mkdir(parents=True)
            self.own(place)
        inherited = [] if self.page.has_own_network else INHERITED
        variables = {name: os.environ[name] for name in inherited if name in os.environ}
        if self.page.has_registry and inherited:
            # The registry is reached without a proxy.
            names = [name for name in ("no_proxy", "NO_PROXY") if name in variables] or ["no_proxy"]
            for name in names:
                variables[name] = ",".join([*filter(None, [variables.get(name)]), "registry.example.org", "ghcr.io"])
        variables |= {"HOME": str(self.home), "USER": USER, "LOGNAME": USER, "SHELL": "/bin/bash", "PATH": PATH}
        return Session(self.user, place, variables | {"TERM": "dumb", "LANG": "C.UTF-8", "PWD": str(place)})


class Run:
    """The blocks of a page, one after the other."""

    def __init__(self, name):
        self.page = pages.PAGES.get(name, kinds.Page())
        self.is_part = name.endswith(kinds.ON_CLUSTER)
        self.name = name.removesuffix(kinds.ON_CLUSTER)
        self.blocks = blocks.blocks_of((DOCS / "clone" / self.name).read_text())
        self.world = None
        self.session = None
        self.files = list(self.page.files)
        self.typed = []
        # How long a command may take, in seconds.
        self.limit = (1800 if self.page.uses_spack or kinds.COMPILES else 180) * int(os.environ.get("CABANE_TEST_SLOWNESS", "1"))
        self.steps = dict(self.page.steps)

    def prepare(self):
        """Does what the page says that the reader has done."""
        self.world = World(self.page)
        if self.page.clone:
            self.world.clone()
        if self.page.examples:
            self.world.examples()
        if self.page.has_registry:
            # Other worlds may use the network of the machine at the same time.
            address = f"127.{os.getpid() % 250 + 2}.{secrets.randbelow(250)}.2" if self.page.network else ""
            call(DOCS / "clone/scripts/docs/registry", address)
        if self.page.as_root:
            call("bash", "-euc", self.page.as_root)
        for name, words in self.page.containers.items():
            if name.startswith("~"):
                file = self.world.home / name[2:]
                containers.sif(file, *words)
                self.world.own(file)
            else:
                containers.push(name, *words)
        self.session = self.world.session(self.page.directory)
        for label in self.page.images:
            self.quietly(f"cabane image add {label.split('+')[0]} {DOCS}/images/{label.replace('/', '-')}")
        if self.page.before:
            self.quietly(self.page.before)

    def quietly(self, script):
        """Runs a script in the shell of the reader that the page does not show."""
        file = self.world.home / ".before"
        file.write_text(script)
        code, lines = self.session.run(f". {file}", self.limit)
        if code:
            raise Ended("\n".join([f"before: {script}: exit code {code}", *lines]))
        file.unlink()

    def run(self):
        """Runs the page."""
        commands = [command for block in self.blocks if block.language == "console" for command in block.commands()]
        why = self.page.not_run
        if self.page.spack and not kinds.has_spack():
            why = kinds.NO_SPACK
        if why:
            for command in commands:
                self.leave_out(command, why)
            return
        at = None
        try:
            self.prepare()
            for block in self.blocks:
                at = block
                if block.language != "console":
                    self.write(block)
                    continue
                for command in block.commands():
                    at = command
                    self.one(command)
        except Ended as ended:
            rest = [command for command in commands if at is None or command.line >= at.line]
            print(f"FAILED {self.name}:{at.line if at else 1}: {ended}")
            for command in rest[1:]:
                print(f"FAILED {self.name}:{command.line}: not reached: {command.text}")
        for name in self.files:
            print(f"FAILED {self.name}: scripts/docs/pages.py names the file {name}, and no block shows it")
        for text in self.steps:
            print(f"FAILED {self.name}: scripts/docs/pages.py names the command `{text}`, and no block has it")

    def write(self, block):
        """Writes a file that the page shows, where the reader is."""
        shown = [name for name in self.files if f"`{name}`" in block.before]
        if not shown:
            return
        self.files.remove(shown[0])
        _, (here,) = self.session.run("pwd")
        file = Path(here) / shown[0].replace("~", str(self.world.home), 1)
        for parent in reversed(file.parents):
            if not parent.exists():
                parent.mkdir()
                self.world.own_at_home(parent)
        file.write_text("\n".join(block.lines) + "\n")
        self.world.own_at_home(file)

    def step(self, command):
        """Returns what pages.py says about a command. Returns nothing if another world runs it."""
        self.typed.append(command.text)
        exact = f"{command.text}#{self.typed.count(command.text)}"

        def found(page):
            return [text for text in page.steps if text == exact or command.text.startswith(text)]

        if self.page.on_cluster and found(self.page.on_cluster):
            return None
        texts = found(self.page)
        if not texts:
            return None if self.is_part else kinds.Step()
        text = max(texts, key=len)
        self.steps.pop(text, None)
        return self.page.steps[text]

    def leave_out(self, command, why):
        """Names a command that is not run."""
        print(f"not run: {self.name}:{command.line}: {why}")

    def one(self, command):
        """Runs a command, and compares."""
        step = self.step(command)
        if not step:
            return
        if step.spack and not kinds.has_spack():
            self.leave_out(command, kinds.NO_SPACK)
            return
        if step.before:
            self.quietly(step.before)
        if step.not_run:
            self.leave_out(command, step.not_run)
            return
        # Pages are written on a machine with this Python.
        text = (step.typed or command.text).replace("python3.11", PYTHON)
        code, seen = self.session.run(f"sudo bash -c {shlex.quote(text)}" if command.is_root else text, self.limit, step.keys)
        wrong = []
        fails = step.fails or blocks.shows_failure(command.output)
        if bool(code) != fails:
            wrong = [f"exit code {code}", *seen]
        elif command.output and not step.any_output:
            wrong = blocks.difference(command.output, seen)
        print(f"{'FAILED' if wrong else 'ok'} {self.name}:{command.line}: {command.text}")
        for line in wrong:
            print(f"    {line}")


def build_image(name):
    """Builds an image as the guides do, and keeps its recipe and its file."""
    world = World(kinds.Page())
    recipe = DOCS / "recipes" / name.replace("/", "-")
    files = images.IMAGES[name]
    if isinstance(files, str):
        shutil.copytree(DOCS / "clone" / files, recipe)
        files = {}
    for file, text in files.items():
        (recipe / file).parent.mkdir(parents=True, exist_ok=True)
        (recipe / file).write_text(text)
        (recipe / file).chmod(0o755 if text.startswith("#!") else 0o644)
    session = world.session("~")
    label = name.split("+")[0]
    code, lines = session.run(f"cabane build '{recipe}' {label}")
    if code:
        sys.exit("\n".join([f"the image {name} cannot be built", *lines]))
    _, (path,) = session.run(f"cabane image inspect {label} --format '{{sqfs}}'")
    shutil.copy(path, DOCS / "images" / recipe.name)
    session.end()


if __name__ == "__main__":
    if sys.argv[1] == "--image":
        build_image(sys.argv[2])
    else:
        Run(sys.argv[1]).run()
