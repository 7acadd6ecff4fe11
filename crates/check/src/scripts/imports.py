# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Imports the modules of distributions. Arguments: their names. Prints for each module that fails: exit code,
# name, and a message. At the end: `end`, and how many were tried.
import importlib
import importlib.metadata as metadata
import os
import sys


def modules(distribution):
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        return listed.split()
    names = set()
    for file in distribution.files or ():
        first = file.parts[0]
        if len(file.parts) > 1 and file.name == "__init__.py" and len(file.parts) == 2:
            names.add(first)
        elif len(file.parts) == 1 and first.endswith(".py"):
            names.add(first[: -len(".py")])
        elif len(file.parts) == 1 and (first.endswith(".so") or first.endswith(".pyd")):
            names.add(first.split(".")[0])
    return sorted(names)


def line(*fields):
    print(*(" ".join(str(field).split()) for field in fields), sep="\t", file=out, flush=True)


# What modules print is no answer.
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
count = 0
for name in sys.argv[1:]:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        count += 1
        line(1, name, "it is not installed")
        continue
    for module in modules(distribution):
        if not module.isidentifier() or module.startswith("_"):
            continue
        count += 1
        try:
            importlib.import_module(module)
        except BaseException as error:
            line(1, module, f"{type(error).__name__}: {error}")
line("end", count)
