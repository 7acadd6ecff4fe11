# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compiles every module below a directory, so that the same sources give the same bytes.

Called as: compile.py DIRECTORY JOBS

What the interpreter writes for a module depends a little on what it compiled before
(which strings it shares). So the modules are cut into pieces of fixed size, and each
piece is compiled by a fresh copy of this process, however many run at a time.
"""
import os
import py_compile
import sys
import warnings

PIECE = 64


def modules(root):
    """Returns the paths of all modules, in an order that does not depend on the disk."""
    found = []
    for directory, names, files in os.walk(root):
        names.sort()
        found += [os.path.join(directory, name) for name in sorted(files) if name.endswith(".py")]
    return found


def compile_piece(paths):
    """Compiles some modules; those that are not Python of this version are left out."""
    warnings.simplefilter("ignore")
    for path in paths:
        try:
            py_compile.compile(
                path,
                doraise=True,
                optimize=0,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except (py_compile.PyCompileError, RecursionError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            print(f"left out {path}: {reason[-1]}", flush=True)


def wait_for_one():
    """Waits until a piece is done."""
    _, status = os.wait()
    if status != 0:
        sys.exit("a process that compiled modules failed")


def main():
    """Compiles the pieces, a few at a time."""
    paths = modules(sys.argv[1])
    jobs = max(1, int(sys.argv[2]))
    running = 0
    for start in range(0, len(paths), PIECE):
        if running == jobs:
            wait_for_one()
            running -= 1
        if os.fork() == 0:
            status = 1
            try:
                compile_piece(paths[start : start + PIECE])
                status = 0
            except OSError as error:
                print(f"cannot compile: {error}", flush=True)
            finally:
                os._exit(status)
        running += 1
    for _ in range(running):
        wait_for_one()
    print(f"compiled {len(paths)} modules")


main()
