// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "field.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace {
const double PI = std::acos(-1.0);
}

Field::Field(int points, int first, int rows, int halo)
    : points_(points), first_(first), rows_(rows), halo_(halo),
      stride_(static_cast<std::size_t>(points + 2 * halo)) {
    if (points < 2 * halo || rows < halo)
        throw std::invalid_argument("a rank has fewer points than its stencil reaches");
    values_.resize(stride_ * static_cast<std::size_t>(rows + 2 * halo));
}

double *Field::row(int number) {
    return values_.data() + stride_ * static_cast<std::size_t>(number + halo_) + halo_;
}

const double *Field::row(int number) const {
    return values_.data() + stride_ * static_cast<std::size_t>(number + halo_) + halo_;
}

void Field::wrap_columns() {
    for (int number = -halo_; number < rows_ + halo_; number++) {
        double *values = row(number);
        std::copy(values, values + halo_, values + points_);
        std::copy(values + points_ - halo_, values + points_, values - halo_);
    }
}

double Field::wave(int row, int column) const {
    const double step = 2 * PI / points_;
    return std::sin(step * (first_ + row)) * std::sin(step * column);
}

void Field::set_wave(double amplitude) {
    for (int i = 0; i < rows_; i++)
        for (int j = 0; j < points_; j++) row(i)[j] = amplitude * wave(i, j);
}

double Field::difference_from_wave(double amplitude) const {
    double largest = 0;
    for (int i = 0; i < rows_; i++)
        for (int j = 0; j < points_; j++)
            largest = std::max(largest, std::abs(row(i)[j] - amplitude * wave(i, j)));
    return largest;
}

void Field::swap(Field &other) noexcept {
    std::swap(values_, other.values_);
}
