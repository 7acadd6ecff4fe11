// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Tells how many ranks there are, whether a sum and a large message are right, and which
// library does it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "start.h"

#define LARGE (2 << 20)

int main(int argc, char **argv) {
    int rank, size, sum = 0, length = 0, is_right = 1;
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    start(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n,(")] = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    char *sent = malloc(LARGE), *got = calloc(LARGE, 1);
    memset(sent, 'a' + rank, LARGE);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Request requests[2];
    MPI_Irecv(got, LARGE, MPI_CHAR, before, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, LARGE, MPI_CHAR, next, 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int place = 0; place < LARGE; place++) is_right &= got[place] == (char)('a' + before);
    is_right &= sum == size * (size - 1) / 2;
    printf("rank %d of %d, %s, %s\n", rank, size, is_right ? "right" : "wrong", version);
    MPI_Finalize();
    return is_right ? 0 : 1;
}
