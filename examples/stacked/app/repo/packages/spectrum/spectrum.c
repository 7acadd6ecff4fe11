/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Each rank has a part of a square wave of frequency 5 along one side. Prints the strongest frequency
 * along this side. */
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    enum { SIDE = 64, FREQUENCY = 5 };
    int rank, ranks, strongest = 0;
    ptrdiff_t rows, first, size;
    double largest = 0;

    MPI_Init(&argc, &argv);
    fftw_mpi_init();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size = fftw_mpi_local_size_2d(SIDE, SIDE, MPI_COMM_WORLD, &rows, &first);
    fftw_complex *wave = fftw_alloc_complex(size);
    fftw_plan plan =
        fftw_mpi_plan_dft_2d(SIDE, SIDE, wave, wave, MPI_COMM_WORLD, FFTW_FORWARD, FFTW_ESTIMATE);
    for (ptrdiff_t row = 0; row < rows; row++)
        for (int column = 0; column < SIDE; column++) {
            double height = sin(2 * 3.14159265358979 * FREQUENCY * (first + row) / SIDE);
            wave[row * SIDE + column][0] = height > 0 ? 1 : -1;
            wave[row * SIDE + column][1] = 0;
        }
    fftw_execute(plan);
    /* The rows of the result are the frequencies along the distributed side. */
    for (ptrdiff_t row = 0; row < rows && first + row < SIDE / 2; row++) {
        double power = hypot(wave[row * SIDE][0], wave[row * SIDE][1]);
        if (first + row > 0 && power > largest) {
            largest = power;
            strongest = (int)(first + row);
        }
    }
    struct { double power; int frequency; } mine = { largest, strongest }, all;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE_INT, MPI_MAXLOC, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: the strongest frequency is %d\n", ranks, all.frequency);
    fftw_destroy_plan(plan);
    fftw_free(wave);
    MPI_Finalize();
    return 0;
}
