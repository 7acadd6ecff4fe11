// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "laplacian.hpp"

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "weights.hpp"

namespace {

inline double add(double weight, double value, double sum) {
#ifdef HAVE_FMA
    return __builtin_fma(weight, value, sum);
#else
    return weight * value + sum;
#endif
}

template <int half> void whole_step(const Field &old, Field &next, double factor) {
    constexpr auto &weights = Weights<half>::of;
    for (int i = 0; i < old.rows(); i++) {
        const double *here = old.row(i);
        double *to = next.row(i);
        for (int j = 0; j < old.points(); j++) {
            double sum = 2 * weights[0] * here[j];
            for (int away = 1; away <= half; away++) {
                const double around = here[j - away] + here[j + away] + old.row(i - away)[j] + old.row(i + away)[j];
                sum = add(weights[away], around, sum);
            }
            to[j] = here[j] + factor * sum;
        }
    }
}

template <int half> double sum_of_wave(double angle) {
    constexpr auto &weights = Weights<half>::of;
    double sum = weights[0];
    for (int away = 1; away <= half; away++) sum += 2 * weights[away] * std::cos(away * angle);
    // Once for each direction.
    return 2 * sum;
}

template <int... halves> laplacian::Step choose(int half, std::integer_sequence<int, halves...>) {
    const std::map<int, laplacian::Step> known = {{halves + 1, whole_step<halves + 1>}...};
    const auto found = known.find(half);
    if (found == known.end()) throw std::invalid_argument("no stencil reaches " + std::to_string(half) + " points");
    return found->second;
}

template <int... halves> double wave(int half, double angle, std::integer_sequence<int, halves...>) {
    const std::map<int, double> known = {{halves + 1, sum_of_wave<halves + 1>(angle)}...};
    return known.at(half);
}

using Known = std::make_integer_sequence<int, 4>;

}

laplacian::Step laplacian::step(int half) {
    return choose(half, Known{});
}

double laplacian::of_wave(int half, int points) {
    return wave(half, 2 * std::acos(-1.0) / points, Known{});
}
