/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Says whether a rank can read the memory of another one of its node, which is how libraries
 * of MPI move large messages with a single copy. What is read is looked at.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIZE = 4 << 20 };

static const char *read_from(const long place[2])
{
    unsigned char *got = calloc(1, SIZE);
    struct iovec here = {got, SIZE}, there = {(void *)place[1], SIZE};
    if (process_vm_readv((pid_t)place[0], &here, 1, &there, 1, 0) != SIZE)
        return strerror(errno);
    for (int i = 0; i < SIZE; i++)
        if (got[i] != (unsigned char)(i % 251))
            return "other bytes";
    free(got);
    return "right";
}

int main(int argc, char **argv)
{
    int rank;
    long place[2] = {getpid(), 0};
    unsigned char *buffer = malloc(SIZE);
    /* Where a kernel asks for it, a process says by whom it may be read. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    for (int i = 0; i < SIZE; i++)
        buffer[i] = (unsigned char)(i % 251);
    place[1] = (long)buffer;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(place, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    if (rank == 1)
        printf("single copy: %s\n", read_from(place));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
