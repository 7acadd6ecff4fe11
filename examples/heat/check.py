#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads a field that `heat` has written, checks it in parallel, and draws it.

Every rank reads a slab of rows through MPI-IO and compares it with the exact
solution; rank 0 collects a thinned copy and draws it with the error beside it.
"""

import argparse
import os
import sys
from contextlib import redirect_stderr
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

HEADER = np.dtype([
    ("magic", "S8"), ("points", "i8"), ("rank_rows", "i8"), ("rank_columns", "i8"),
    ("steps", "i8"), ("time", "f8"), ("error", "f8"), ("reserved", "i8"),
])


class Failure(Exception):
    """Something that every rank has noticed, and that rank 0 tells."""


def library():
    """The name and version of the MPI library, from the first line of what it tells."""
    first = MPI.Get_library_version().split("\n")[0].split(",")[0]
    return " ".join(first.replace("Version:", " ").split())


class Slab(NamedTuple):
    """The rows of the field that one rank has read."""

    first_row: int
    field: np.ndarray
    exact: np.ndarray


def parse_arguments(comm):
    parser = argparse.ArgumentParser(prog="check.py", description=__doc__.splitlines()[0])
    parser.add_argument("field", help="the file that heat has written")
    parser.add_argument("--plot", metavar="FILE", help="draw the field as a PNG")
    parser.add_argument("--ranks", type=int, metavar="N", help="fail unless there are N ranks")
    parser.add_argument("--tolerance", type=float, metavar="E",
                        help="largest error against the exact solution (default: h^2)")
    # Every rank parses the same words; one of them complains.
    with open(os.devnull, "w") as nowhere, redirect_stderr(sys.stderr if comm.rank == 0 else nowhere):
        return parser.parse_args()


def read_header(file, path):
    raw = bytearray(HEADER.itemsize)
    if file.Get_size() >= len(raw):
        file.Read_at_all(0, raw)
    header = np.frombuffer(raw, HEADER)[0]
    points = int(header["points"])
    if header["magic"] != b"heat-2d":
        raise Failure(f"'{path}' was not written by heat")
    if file.Get_size() != HEADER.itemsize + 8 * points**2:
        raise Failure(f"'{path}' is not complete")
    return header, points


def read_slab(comm, path):
    """Reads this rank's share of the rows, all ranks together."""
    try:
        file = MPI.File.Open(comm, path, MPI.MODE_RDONLY)
    except MPI.Exception as error:
        raise Failure(f"cannot open '{path}': {MPI.Get_error_string(error.Get_error_class())}") from error
    try:
        header, points = read_header(file, path)
        first_row = points * comm.rank // comm.size
        rows = points * (comm.rank + 1) // comm.size - first_row
        field = np.empty((rows, points))
        file.Read_at_all(HEADER.itemsize + 8 * points * first_row, field)
    finally:
        file.Close()
    x = np.arange(1, points + 1) / (points + 1)
    y = x[first_row:first_row + rows, np.newaxis]
    decay = np.exp(-2 * np.pi**2 * header["time"])
    return header, Slab(first_row, field, decay * np.sin(np.pi * x) * np.sin(np.pi * y))


def largest_error(comm, slab):
    # NaN must not hide behind a comparison that is always false.
    error = np.abs(np.nan_to_num(slab.field - slab.exact, nan=np.inf))
    return comm.allreduce(float(error.max(initial=0.0)), MPI.MAX)


def thinned(comm, slab, points, most=512):
    """Collects the field and its error on rank 0, with at most about `most` points a side."""
    every = -(-points // most)
    start = -slab.first_row % every
    rows = slice(start, None, every)
    parts = comm.gather((slab.field[rows, ::every], (slab.field - slab.exact)[rows, ::every]))
    if parts is None:
        return None
    return [np.vstack(fields) for fields in zip(*parts)]


def run(comm):
    arguments = parse_arguments(comm)
    if arguments.ranks not in (None, comm.size):
        raise Failure(f"there should be {arguments.ranks} ranks, but MPI says {comm.size}")
    header, slab = read_slab(comm, arguments.field)
    points = int(header["points"])
    tolerance = arguments.tolerance or 1 / (points + 1) ** 2
    error = largest_error(comm, slab)
    if comm.rank == 0:
        print(f"ranks    {comm.size}, mpi4py on {library()}")
        print(f"field    {points} x {points} points at t = {header['time']:.4g}")
        print(f"error    {error:.2e} against the exact solution, {tolerance:.2e} allowed")
    if arguments.plot:
        fields = thinned(comm, slab, points)
        if comm.rank == 0:
            import picture

            try:
                picture.draw(arguments.plot, header, *fields)
            except OSError as why:
                raise Failure(f"cannot draw '{arguments.plot}': {why.strerror}") from why
            print(f"picture  {arguments.plot}")
    if not error <= tolerance:
        raise Failure("the error is larger than allowed")


def main():
    comm = MPI.COMM_WORLD
    try:
        run(comm)
    except Failure as failure:
        if comm.rank == 0:
            print(f"check.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
