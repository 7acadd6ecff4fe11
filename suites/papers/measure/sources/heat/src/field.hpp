// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// The rows of a periodic square that one rank has, with a halo of rows above and below.
#pragma once

#include <cstddef>
#include <vector>

class Field {
public:
    Field(int points, int first, int rows, int halo);

    int points() const { return points_; }
    int first() const { return first_; }
    int rows() const { return rows_; }
    int halo() const { return halo_; }

    // Rows from -halo to rows + halo - 1, columns from -halo to points + halo - 1.
    double *row(int number);
    const double *row(int number) const;

    // Copies the edges of each row to the other side: the square is periodic.
    void wrap_columns();
    void set_wave(double amplitude);
    // The largest difference from a wave of this amplitude.
    double difference_from_wave(double amplitude) const;
    void swap(Field &other) noexcept;

private:
    double wave(int row, int column) const;

    int points_, first_, rows_, halo_;
    std::size_t stride_;
    std::vector<double> values_;
};
