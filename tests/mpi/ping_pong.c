/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Says where each rank lives, lets the first two send messages to and fro, and
 * prints how long one way takes for the fastest tenth of the round trips. Every
 * message is looked at. Large messages, and several of them on their way at once,
 * take other paths through an MPI library than a small one does: a program that
 * only says hello shows nothing about them.
 *
 * An argument says how many times as many messages are sent: what is measured must
 * take longer than other programs keep a processor busy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "start.h"

enum { STEP = 509, WINDOW = 8, WINDOW_SIZE = 1 << 20, WINDOWS = 10 };

static int rank;

static unsigned long long number_of(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 ? (unsigned long long)found.st_ino : 0;
}

static unsigned char byte_at(int position, int round, int sender)
{
    return (unsigned char)(position / STEP + 7 * round + 131 * sender);
}

static void fill(unsigned char *buffer, int size, int round, int sender)
{
    for (int i = 0; i < size; i += STEP)
        buffer[i] = byte_at(i, round, sender);
    buffer[size - 1] = byte_at(size - 1, round, sender);
}

static void check(const unsigned char *buffer, int size, int round, int sender)
{
    int good = buffer[size - 1] == byte_at(size - 1, round, sender);
    for (int i = 0; i < size - 1 && good; i += STEP)
        good = buffer[i] == byte_at(i, round, sender);
    if (!good) {
        fprintf(stderr, "rank %d: a message of %d bytes arrived damaged\n", rank, size);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static int compare(const void *left, const void *right)
{
    double first = *(const double *)left, second = *(const double *)right;
    return (first > second) - (first < second);
}

static void ping_pong(int size, int rounds)
{
    unsigned char *out = malloc(size), *in = malloc(size);
    double *times = malloc(rounds * sizeof *times);
    int other = 1 - rank;
    for (int round = 0; round < rounds; round++) {
        fill(out, size, round, rank);
        fill(in, size, round + 1, other);
        double start = MPI_Wtime();
        if (rank == 0)
            MPI_Send(out, size, MPI_BYTE, other, 0, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(out, size, MPI_BYTE, other, 0, MPI_COMM_WORLD);
        times[round] = MPI_Wtime() - start;
        check(in, size, round, other);
    }
    qsort(times, rounds, sizeof *times, compare);
    if (rank == 0)
        printf("%d bytes: %.3f us\n", size, times[rounds / 10] * 1e6 / 2);
    free(out), free(in), free(times);
}

static void windows(void)
{
    unsigned char *buffers[WINDOW];
    MPI_Request requests[WINDOW];
    for (int i = 0; i < WINDOW; i++)
        buffers[i] = calloc(1, WINDOW_SIZE);
    for (int round = 0; round < WINDOWS; round++) {
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0) {
                fill(buffers[i], WINDOW_SIZE, round + i, 0);
                MPI_Isend(buffers[i], WINDOW_SIZE, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
            } else {
                MPI_Irecv(buffers[i], WINDOW_SIZE, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
            }
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; rank == 1 && i < WINDOW; i++)
            check(buffers[i], WINDOW_SIZE, round + i, 0);
    }
    for (int i = 0; i < WINDOW; i++)
        free(buffers[i]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int more = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("hello from rank %d in %llu %llu\n", rank, number_of("/proc/self/ns/user"),
           number_of("/proc/self/ns/mnt"));
    if (rank < 2) {
        ping_pong(8, 1000 * more);
        ping_pong(4096, 1000 * more);
        ping_pong(1 << 20, 25 * more);
        ping_pong(4 << 20, 8 * more);
        windows();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all messages arrived\n");
    MPI_Finalize();
    return 0;
}
