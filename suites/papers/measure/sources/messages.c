/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What messages between ranks take. Usage: messages [SECONDS]
 *
 * Prints the library, the ranks, and a line for each kind: latency and the collectives in microseconds, the bandwidth
 * in MB/s. Each is the first decile of many operations that are timed one by one: on a machine that also does other
 * work, it says what the library can do. Ranks of one node stay on different processors, if there are enough. Every kind is
 * checked once, and wrong data end with exit code 1. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100000, SMALL = 8, LARGE = 1 << 20, WINDOW = 16, PART = 4096 };

static int rank, size;
static double seconds = 1, times[MOST];
static unsigned char *sent, *received;

static void check(const unsigned char *data, size_t count, int from, int turn) {
    for (size_t i = 0; i < count; i += count > 64 ? 61 : 1)
        if (data[i] != (unsigned char)(from * 31 + turn * 7 + (int)i)) {
            fprintf(stderr, "messages: rank %d received wrong data from rank %d\n", rank, from);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static void fill(unsigned char *data, size_t count, int turn) {
    for (size_t i = 0; i < count; i++) data[i] = (unsigned char)(rank * 31 + turn * 7 + (int)i);
}

static void round_trip(int turn) {
    int other = size - 1;
    sent[0] = (unsigned char)turn;
    if (rank == 0) {
        MPI_Send(sent, SMALL, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        MPI_Recv(received, SMALL, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (received[0] != (unsigned char)turn) MPI_Abort(MPI_COMM_WORLD, 1);
    } else if (rank == other) {
        MPI_Recv(received, SMALL, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(received, SMALL, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}

/* Many large messages to the last rank, which answers once for all. */
static void window(int turn) {
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    int other = size - 1;
    char answer = 0;
    (void)turn;
    if (rank == 0) {
        for (int i = 0; i < WINDOW; i++) MPI_Isend(sent, LARGE, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, statuses);
        MPI_Recv(&answer, 1, MPI_BYTE, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == other) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(received + (size_t)i * LARGE, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, statuses);
        MPI_Send(&answer, 1, MPI_BYTE, 0, 4, MPI_COMM_WORLD);
    }
}

static void exchange(int turn) {
    (void)turn;
    MPI_Alltoall(sent, PART, MPI_BYTE, received, PART, MPI_BYTE, MPI_COMM_WORLD);
}

static void sum(int turn) {
    double mine = rank + turn, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (all != size * (size - 1) / 2. + (double)size * turn) MPI_Abort(MPI_COMM_WORLD, 1);
}

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Repeats an operation for its part of the time, and returns the first decile in seconds. The ranks agree after each
 * batch whether there is time for one more. */
static double measure(void (*operation)(int), int batch) {
    int count = 0, more = 1;
    for (int turn = 0; turn < batch; turn++) operation(turn);
    MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime() + seconds / 4;
    while (more) {
        for (int turn = 0; turn < batch; turn++) {
            double begun = MPI_Wtime();
            operation(turn);
            times[count++] = MPI_Wtime() - begun;
        }
        more = count + batch <= MOST && MPI_Wtime() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 10];
}

/* Each kind once with data that can be checked. */
static void verify(void) {
    size_t whole = (size_t)PART * (size_t)size;
    fill(sent, whole, 1);
    MPI_Alltoall(sent, PART, MPI_BYTE, received, PART, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < PART; i++)
            if (received[from * PART + i] != (unsigned char)(from * 31 + 7 + rank * PART + i)) {
                fprintf(stderr, "messages: rank %d received wrong data from rank %d\n", rank, from);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    fill(sent, LARGE, 2);
    memset(received, 0, (size_t)WINDOW * LARGE);
    window(0);
    if (rank == size - 1)
        for (int i = 0; i < WINDOW; i++) check(received + (size_t)i * LARGE, LARGE, 0, 2);
}

/* The file from which the library comes: another MPI may have the same version. */
static void report_loaded(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/'), *name = path ? strrchr(path, '/') : NULL;
        if (name && !strncmp(name, "/libmpi", 7)) {
            printf("loaded %s", path);
            break;
        }
    }
    if (maps) fclose(maps);
}

/* Two ranks that the kernel puts on one processor wait for its clock, and not for messages. So do those of two nodes that
 * are one machine. */
static void stay(void) {
    MPI_Comm node;
    cpu_set_t allowed, mine;
    int place = 0, count = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_size(node, &count);
    MPI_Comm_free(&node);
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < count) return;
    if (count == 1) place = rank % CPU_COUNT(&allowed);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == place) {
            CPU_ZERO(&mine);
            CPU_SET(cpu, &mine);
            sched_setaffinity(0, sizeof mine, &mine);
            return;
        }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) seconds = atof(argv[1]);
    size_t space = (size_t)WINDOW * LARGE, parts = (size_t)PART * (size_t)size;
    sent = malloc(space > parts ? space : parts);
    received = malloc(space > parts ? space : parts);
    if (!sent || !received || size < 2) {
        fprintf(stderr, "messages: %s\n", size < 2 ? "there is only one rank" : "there is too little memory");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(sent, 0, space);
    stay();
    verify();
    double latency = measure(round_trip, 50) / 2, moved = measure(window, 5);
    double all = measure(exchange, 50), one = measure(sum, 50);
    if (rank == 0) {
        char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
        int length = 0;
        MPI_Get_library_version(text, &length);
        report_loaded();
        printf("library %.*s\nranks %d\n", (int)strcspn(text, "\n"), text, size);
        printf("latency %.9g\nbandwidth %.9g\nalltoall %.9g\nallreduce %.9g\n", latency * 1e6,
               (double)WINDOW * LARGE / moved / 1e6, all * 1e6, one * 1e6);
        /* Some libraries hang at their end. */
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
