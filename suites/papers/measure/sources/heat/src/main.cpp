// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
// The heat equation in parallel. Usage: heat [--points N] [--steps N] [--half N]
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "options.hpp"
#include "output.hpp"
#include "solver.hpp"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int code = 0;
    try {
        const Problem problem = read_options(std::vector<std::string>(words + 1, words + count));
        const Halo halo(MPI_COMM_WORLD);
        const Answer answer = solve(problem, halo);
        int is_right = halo.rank() == 0 ? tell(problem, answer, halo.size()) : 1;
        MPI_Bcast(&is_right, 1, MPI_INT, 0, MPI_COMM_WORLD);
        code = is_right ? 0 : 1;
    } catch (const std::exception &error) {
        std::cerr << "heat: " << error.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return code;
}
