# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares two ways of doing the same work on a machine that is not quiet.

Each round measures the other way, ours, and the other way again, in an order that changes from round to round. The
second measurement of the other way is the control: its ratio to the first shows what the machine does to two equal
things. A difference that the control also shows is none.

What a program of the suite measured is a line of its output:

    figure: NAME VALUE UNIT
    left out: ROW: REASON

A row ROW of the page has the figures ROW (the median ratio of ours to the other way), ROW_low and ROW_high (its
quartiles), ROW_control_low and ROW_control_high (the quartiles of the control), ROW_ours and ROW_other (the medians),
and ROW_rounds.
"""

import re
import statistics
import subprocess
import sys
import time

LOW, HIGH = "_low", "_high"
CONTROL = "_control"


def figure(name, value, unit=""):
    """Prints a figure. VALUE is a finite number; UNIT has no spaces, and a ratio has none."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"{name!r} is not the name of a figure")
    print(f"figure: {name} {value:.6g} {unit}".rstrip(), flush=True)


def left_out(row, reason):
    """Says why a row of the page has no figures here."""
    print(f"left out: {row}: {' '.join(str(reason).split())}", flush=True)


def quartiles(values):
    """Returns the first quartile, the median, and the third quartile of some numbers."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def compare(row, ours, other, rounds, unit="s"):
    """Measures OURS beside OTHER in ROUNDS rounds, and prints the figures of ROW.

    Both are functions that do the work once and return what it took: in seconds, or in another UNIT. Returns the
    median ratio.
    """
    return compare_several({row: unit}, lambda: [ours()], lambda: [other()], rounds)[0]


def compare_several(rows, ours, other, rounds):
    """Measures OURS beside OTHER in ROUNDS rounds, and prints the figures of several rows.

    ROWS gives each row its unit. Both are functions that do the work once and return a number for each row. Returns
    the median ratios.
    """
    measured = {"ours": [], "other": [], "control": []}
    work = {"ours": ours, "other": other, "control": other}
    # Caches, programs, and directories are warm for each alike.
    other()
    ours()
    names = list(work)
    for turn in range(rounds):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            measured[name].append(work[name]())
    by_row = [{name: [numbers[place] for numbers in measured[name]] for name in names} for place in range(len(rows))]
    return [report(row, numbers, unit) for (row, unit), numbers in zip(rows.items(), by_row)]


def report(row, measured, unit):
    """Prints the figures of ROW, and returns the median ratio."""
    ratios = [a / b for a, b in zip(measured["ours"], measured["other"])]
    control = [a / b for a, b in zip(measured["control"], measured["other"])]
    low, middle, high = quartiles(ratios)
    figure(row, middle)
    figure(row + LOW, low)
    figure(row + HIGH, high)
    low, _, high = quartiles(control)
    figure(row + CONTROL + LOW, low)
    figure(row + CONTROL + HIGH, high)
    figure(row + "_ours", statistics.median(measured["ours"]), unit)
    figure(row + "_other", statistics.median(measured["other"] + measured["control"]), unit)
    figure(row + "_rounds", len(measured["ours"]))
    return middle


def seconds(command, **options):
    """Runs a command, and returns how many seconds it took. Its output is discarded."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options}
    begun = time.perf_counter()
    done = subprocess.run(command, check=False, **options)
    took = time.perf_counter() - begun
    if done.returncode != 0:
        said = (done.stderr or b"").decode(errors="replace").strip().splitlines()[-3:]
        # Reports cut long messages: what the command has said comes first.
        sys.exit(f"{' / '.join(said) or 'no message'} (exit code {done.returncode} of {' '.join(map(str, command))})")
    return took


def timed(*command, **options):
    """Returns a function for `compare` that runs a command."""
    return lambda: seconds(command, **options)
