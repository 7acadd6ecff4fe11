/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Conjugate gradients on a box of points that all have 26 neighbors. Usage: conjugate [POINTS [ITERATIONS]]
 *
 * Each rank has POINTS layers of POINTS x POINTS points, and gets one layer from each neighbor in every iteration. The
 * matrix has 26 on its diagonal and -1 for each neighbor; the right side is such that the answer is 1 everywhere.
 * Prints the seconds of the iterations and the largest error; exits with 1 if the error does not become small. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size, n;

/* A layer above and one below those of this rank, and a border of zeros around each: no neighbor is a special case. */
static size_t at(int z, int y, int x) {
    size_t width = (size_t)n + 2;
    return ((size_t)(z + 1) * width + (size_t)(y + 1)) * width + (size_t)(x + 1);
}

static double *vector(void) {
    double *values = calloc((size_t)(n + 2) * (size_t)(n + 2) * (size_t)(n + 2), sizeof *values);
    if (!values) {
        fprintf(stderr, "conjugate: there is too little memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return values;
}

static void exchange(double *values) {
    int count = (n + 2) * (n + 2), below = rank ? rank - 1 : MPI_PROC_NULL;
    int above = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    double *first = values, *layer = values + count;
    MPI_Sendrecv(layer, count, MPI_DOUBLE, below, 1, layer + (size_t)n * (size_t)count, count, MPI_DOUBLE, above, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(layer + (size_t)(n - 1) * (size_t)count, count, MPI_DOUBLE, above, 2, first, count, MPI_DOUBLE, below, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void multiply(double *from, double *to) {
    exchange(from);
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                double sum = 27 * from[at(z, y, x)];
                for (int dz = -1; dz <= 1; dz++)
                    for (int dy = -1; dy <= 1; dy++) {
                        const double *row = from + at(z + dz, y + dy, x);
                        sum -= row[-1] + row[0] + row[1];
                    }
                to[at(z, y, x)] = sum;
            }
}

static double product(const double *one, const double *other) {
    double sum = 0, all = 0;
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) sum += one[at(z, y, x)] * other[at(z, y, x)];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* to = one + factor * other */
static void add(double *to, const double *one, double factor, const double *other) {
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) to[at(z, y, x)] = one[at(z, y, x)] + factor * other[at(z, y, x)];
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    n = argc > 1 ? atoi(argv[1]) : 48;
    int most = argc > 2 ? atoi(argv[2]) : 500;
    if (n < 2 || n > 1000 || most < 1) {
        if (rank == 0) fprintf(stderr, "usage: conjugate [POINTS [ITERATIONS]]\n");
        MPI_Finalize();
        return 2;
    }
    double *x = vector(), *ones = vector(), *r = vector(), *p = vector(), *ap = vector();
    for (int z = 0; z < n; z++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) ones[at(z, i, j)] = 1;
    multiply(ones, r);
    add(p, r, 0, r);
    double old = product(r, r), begin = old;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    int iteration = 0;
    for (; iteration < most && old > begin * 1e-20; iteration++) {
        multiply(p, ap);
        double step = old / product(p, ap);
        add(x, x, step, p);
        add(r, r, -step, ap);
        double now = product(r, r);
        add(p, r, now / old, p);
        old = now;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime() - begun, error = 0, largest = 0;
    for (int z = 0; z < n; z++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) error = fmax(error, fabs(x[at(z, i, j)] - 1));
    MPI_Allreduce(&error, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ranks %d\niterations %d\nerror %.3g\nseconds %.9g\n", size, iteration, largest, took);
        /* Some libraries hang at their end. */
        fflush(stdout);
        if (largest > 1e-6) fprintf(stderr, "conjugate: the answer is wrong\n");
    }
    MPI_Finalize();
    return largest > 1e-6;
}
