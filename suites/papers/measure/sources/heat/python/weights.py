# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the weights of central differences for the second derivative, as a header for C++."""

import sys
from fractions import Fraction
from math import factorial


def weight(half, distance):
    """Returns the weight of a point in a stencil that reaches HALF points to each side."""
    if distance == 0:
        return -2 * sum(weight(half, other) for other in range(1, half + 1))
    sign = -1 if distance % 2 == 0 else 1
    both = factorial(half - distance) * factorial(half + distance)
    return Fraction(2 * sign * factorial(half) ** 2, distance**2 * both)


def main():
    lines = ["// Written by weights.py.", "#pragma once", "", "template <int half> struct Weights;"]
    for half in range(1, 5):
        numbers = ", ".join(f"{w.numerator}. / {w.denominator}." for w in (weight(half, d) for d in range(half + 1)))
        lines.append(f"template <> struct Weights<{half}> {{ static constexpr double of[] = {{{numbers}}}; }};")
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


main()
