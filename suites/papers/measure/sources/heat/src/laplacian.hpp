// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// One step of the heat equation with central differences.
#pragma once

#include <functional>

#include "field.hpp"

namespace laplacian {

// Computes new = old + factor * (sum of the weighted neighbors of old), in all rows.
using Step = std::function<void(const Field &old, Field &next, double factor)>;

// The step whose stencil reaches this many points to each side: 1 to 4.
Step step(int half);

// What the sum of the weighted neighbors is for a wave, over its value there.
double of_wave(int half, int points);

}
