# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Ports a package repository to the package API 2, with Spack's own migration.

The first argument names the file for the answer, the second the directory of the repository. The
new one is written to `spack_repo/NAMESPACE` in that directory. What the packages need is looked up in it and in the other repositories of the configuration.

{"done": true,                    whether Spack could port everything
 "packages": ["NAME"],            its packages
 "messages": ["TEXT"],            what Spack says about files
 "broken": [{"package": "NAME", "message": "TEXT"}],       cannot be loaded
 "needs": [{"package": "NAME",                             needs what is not there:
            "dependency": "NAME",
            "versions": "CONSTRAINT", "known": ["VERSION"],    a version, of these
            "variant": "NAME"}]}                               or a variant, or the package
"""

import io
import json
import os
import re
import sys

import spack.main
import spack.repo
from spack import repo_migrate
from spack.util.naming import pkg_name_to_pkg_dir

# What Spack's migration leaves as it is: modules that have moved, and modules whose functions
# `spack.package` has.
MOVED = [
    (re.compile(pattern, re.MULTILINE), new)
    for pattern, new in (
        (r"\bspack\.build_systems\b", "spack_repo.builtin.build_systems"),
        (r"\bfrom spack import build_systems\b", "from spack_repo.builtin import build_systems"),
        (r"\bimport llnl\.util\.tty as tty\b", "from spack.package import tty"),
        (r"\bfrom llnl\.util import tty\b", "from spack.package import tty"),
        (r"\bfrom llnl\.util import (\w+)$", r"import spack.package as \1"),
        (r"(?<![\w.])llnl\.util\.(?!tty\b)\w+", "spack.package"),
    )
]


USED = re.compile(r"\bspack_repo\.builtin\.build_systems\.\w+(?=\.)")
SPACK_PACKAGE = re.compile(r"^from spack\.package import", re.MULTILINE)


def rewrite(text):
    """Replaces modules that have moved in the text of a package."""
    for module, moved in MOVED:
        text = module.sub(moved, text)
    # The whole of `spack` was there without an import.
    for module in sorted(set(USED.findall(text))):
        line = f"import {module}\n"
        if f"import {module}" not in text:
            text = SPACK_PACKAGE.sub(line + r"\g<0>", text, count=1)
    return text


def migrate(directory, messages):
    """Ports all packages; returns whether it could, and where they are."""
    repository = spack.repo.from_path(directory)
    done, _ = repo_migrate.migrate_v1_to_v2(repository, patch_file=None, err=messages)
    return done, os.path.join(directory, "spack_repo", *repository.namespace.split("."))


def complete(root):
    """Does what Spack's migration leaves out."""
    packages = os.path.join(root, "packages")
    ported = []
    for name in os.listdir(packages):
        # A package whose name begins with that of another.
        if "-" in name and os.path.isfile(os.path.join(packages, name, "package.py")):
            renamed = pkg_name_to_pkg_dir(name.replace("_", "-"), package_api=(2, 0))
            os.rename(os.path.join(packages, name), os.path.join(packages, renamed))
            name = renamed
        path = os.path.join(packages, name, "package.py")
        if not os.path.isfile(path) or os.path.islink(path):
            continue
        with open(path, encoding="utf-8", newline="") as file:
            old = file.read()
        new = rewrite(old)
        if new != old:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(new)
        ported.append(path)
    # Before Spack 1.0, what followed the compiler in a spec was of the package, and now it is of
    # the compiler.
    if ported:
        spack.main.SpackCommand("style")("--spec-strings", "--fix", *ported, fail_on_error=False)


def missing(name, cls, own, others):
    """Yields what a package needs and no repository has."""
    seen = set()
    for dependencies in cls.dependencies.values():
        for dependency, declared in dependencies.items():
            key = (dependency, str(declared.spec))
            if key in seen:
                continue
            seen.add(key)
            need = {"package": name, "dependency": dependency}
            repository = own if own.exists(dependency) else others
            if not repository.exists(dependency):
                if not others.is_virtual(dependency):
                    yield need
                continue
            try:
                found = repository.get_pkg_class(dependency)
            except Exception:  # it is reported for itself
                continue
            wanted = declared.spec.versions
            known = list(found.versions)
            if known and not any(version.satisfies(wanted) for version in known):
                yield {**need, "versions": str(wanted), "known": [str(one) for one in known]}
            for variant in declared.spec.variants:
                if variant not in found.variant_names() and variant not in (
                    "build_system",
                    "dev_path",
                    "patches",
                    "commit",
                ):
                    yield {**need, "variant": variant}


def main(target, directory):
    messages = io.StringIO()
    done, root = migrate(directory, messages)
    answer = {"done": done, "packages": [], "broken": [], "needs": []}
    answer["messages"] = [line.replace(root + os.sep, "") for line in messages.getvalue().splitlines()]
    if os.path.isfile(os.path.join(root, "repo.yaml")):
        complete(root)
        own = spack.repo.from_path(root)
        others = [one for one in spack.repo.PATH.repos if one.namespace != own.namespace]
        with spack.repo.use_repositories(own, *others) as path:
            without_own = spack.repo.RepoPath(*others)
            for name in sorted(own.all_package_names(include_virtuals=True)):
                answer["packages"].append(name)
                try:
                    cls = path.get_pkg_class(f"{own.namespace}.{name}")
                    answer["needs"].extend(missing(name, cls, own, without_own))
                except Exception as error:
                    message = str(error).splitlines()[-1] if str(error) else type(error).__name__
                    answer["broken"].append({"package": name, "message": message})
    with open(target, "w", encoding="utf-8") as file:
        json.dump(answer, file)


main(*sys.argv[1:3])
