# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Solves the heat equation on one processor, through the library of the parallel program."""

import ctypes
from pathlib import Path

_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("libequation.so")))
_LIBRARY.heat_error.restype = ctypes.c_double
_LIBRARY.heat_error.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int]


def error(points, steps, half=2):
    """Returns how far the computed temperatures are from the exact answer of the scheme."""
    found = _LIBRARY.heat_error(points, steps, half)
    if found < 0:
        raise ValueError(f"cannot solve for {points} points and stencils of {half}")
    return found
