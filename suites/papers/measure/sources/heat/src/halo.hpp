// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The neighbors of a rank in a ring of rows.
#pragma once

#include <mpi.h>

#include "field.hpp"

class Halo {
public:
    explicit Halo(MPI_Comm ranks);

    int rank() const { return rank_; }
    int size() const { return size_; }
    // The first row of a rank, and how many rows it has.
    int first(int points) const;
    int rows(int points) const;

    // Fills the rows above and below with those of the neighbors.
    void exchange(Field &field) const;
    double largest(double mine) const;

private:
    MPI_Comm ranks_;
    int rank_ = 0, size_ = 1, above_ = 0, below_ = 0;
};
