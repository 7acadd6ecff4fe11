// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "output.hpp"

#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {
// Rounding adds up with the steps; a halo that is late costs far more.
const double TOLERANCE = 1e-12;
}

bool tell(const Problem &problem, const Answer &answer, int ranks) {
    std::ostringstream seconds, error;
    seconds << std::setprecision(9) << answer.seconds;
    error << std::setprecision(3) << std::scientific << answer.error;
    const std::vector<std::pair<std::string, std::string>> lines = {
        {"ranks", std::to_string(ranks)},
        {"points", std::to_string(problem.points)},
        {"error", error.str()},
        {"seconds", seconds.str()}};
    for (const auto &[name, value] : lines) std::cout << name << ' ' << value << '\n';
    // Some libraries hang at their end.
    std::cout.flush();
    const bool is_right = answer.error < TOLERANCE * problem.steps;
    if (!is_right) std::cerr << "heat: the temperatures are wrong\n";
    return is_right;
}
