// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "solver.hpp"

#include <chrono>
#include <cmath>
#include <memory>

#include "laplacian.hpp"

namespace {
// The explicit scheme is stable up to 1 / 8 for every stencil.
const double FACTOR = 0.1;
}

Answer solve(const Problem &problem, const Halo &halo) {
    const int points = problem.points;
    const auto make = [&] {
        return std::make_unique<Field>(points, halo.first(points), halo.rows(points), problem.half);
    };
    const auto now = make(), next = make();
    const laplacian::Step step = laplacian::step(problem.half);
    now->set_wave(1);
    halo.largest(0);
    const auto begun = std::chrono::steady_clock::now();
    for (int number = 0; number < problem.steps; number++) {
        now->wrap_columns();
        halo.exchange(*now);
        step(*now, *next, FACTOR);
        now->swap(*next);
    }
    halo.largest(0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    const double kept = std::pow(1 + FACTOR * laplacian::of_wave(problem.half, points), problem.steps);
    return {halo.largest(now->difference_from_wave(kept)), halo.largest(took.count())};
}
