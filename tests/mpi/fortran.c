// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Calls MPI as a program in Fortran does: every argument is an address, the handles are
// the numbers of the ABI of MPICH, and a text is followed by its length.

#include <stdio.h>
#include <string.h>

void mpi_init_(int *error);
void mpi_comm_rank_(int *communicator, int *rank, int *error);
void mpi_comm_size_(int *communicator, int *size, int *error);
void mpi_allreduce_(void *sent, void *got, int *count, int *type, int *operation,
                    int *communicator, int *error);
void mpi_get_library_version_(char *text, int *length, int *error, int size);
void mpi_finalize_(int *error);

int main(void) {
    int world = 0x44000000, integer = 0x4c00041b, sum_of = 0x58000003;
    int rank, size, sum = -1, one = 1, length, error;
    char version[8193] = "";
    mpi_init_(&error);
    mpi_comm_rank_(&world, &rank, &error);
    mpi_comm_size_(&world, &size, &error);
    mpi_allreduce_(&rank, &sum, &one, &integer, &sum_of, &world, &error);
    mpi_get_library_version_(version, &length, &error, sizeof version - 1);
    version[strcspn(version, "\r\n,(")] = 0;
    printf("rank %d of %d, %s, %.40s\n", rank, size, sum == size * (size - 1) / 2 ? "right" : "wrong",
           version);
    mpi_finalize_(&error);
    return 0;
}
