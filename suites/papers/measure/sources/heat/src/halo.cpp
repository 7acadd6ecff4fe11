// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "halo.hpp"

#include <array>
#include <vector>

Halo::Halo(MPI_Comm ranks) : ranks_(ranks) {
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &size_);
    above_ = (rank_ + size_ - 1) % size_;
    below_ = (rank_ + 1) % size_;
}

int Halo::first(int points) const {
    return static_cast<int>(static_cast<long>(points) * rank_ / size_);
}

int Halo::rows(int points) const {
    return static_cast<int>(static_cast<long>(points) * (rank_ + 1) / size_) - first(points);
}

void Halo::exchange(Field &field) const {
    const int halo = field.halo(), rows = field.rows();
    // Whole rows with their edges lie one behind the other.
    const int count = halo * (field.points() + 2 * halo);
    const auto edge = [&](int number) { return field.row(number) - halo; };
    std::array<MPI_Request, 4> requests{};
    MPI_Irecv(edge(-halo), count, MPI_DOUBLE, above_, 1, ranks_, &requests[0]);
    MPI_Irecv(edge(rows), count, MPI_DOUBLE, below_, 2, ranks_, &requests[1]);
    MPI_Isend(edge(rows - halo), count, MPI_DOUBLE, below_, 1, ranks_, &requests[2]);
    MPI_Isend(edge(0), count, MPI_DOUBLE, above_, 2, ranks_, &requests[3]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

double Halo::largest(double mine) const {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, ranks_);
    return all;
}
