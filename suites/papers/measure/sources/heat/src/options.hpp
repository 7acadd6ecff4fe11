// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#pragma once

#include <string>
#include <vector>

#include "solver.hpp"

// Reads `--points N`, `--steps N`, and `--half N`; throws what is wrong.
Problem read_options(const std::vector<std::string> &words);
