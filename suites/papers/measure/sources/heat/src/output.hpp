// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#pragma once

#include "solver.hpp"

// Prints what was computed, and returns whether it is right.
bool tell(const Problem &problem, const Answer &answer, int ranks);
