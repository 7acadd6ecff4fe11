// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The heat equation on a periodic square, whose answer for a wave is known.
#pragma once

#include "halo.hpp"

struct Problem {
    int points = 512;
    int steps = 200;
    int half = 2;
};

struct Answer {
    // The largest difference from what the scheme gives for a wave without rounding.
    double error = 0;
    double seconds = 0;
};

Answer solve(const Problem &problem, const Halo &halo);
