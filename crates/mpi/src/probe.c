// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Proves which library of MPI ranks get, that they find each other, and that messages
// arrive. It is compiled without any header of MPI, for the ABI that `FAMILY` names, and
// linked with a library that has nothing but the wanted name: so it is loaded with
// whatever that name leads to, as the program would be.
//
// Each rank says one line, the first one also what was measured:
//     probe RANK SIZE SUM LARGE LIBRARY-FILE | VERSION
//     latency BYTES MICROSECONDS
//     bandwidth BYTES MEGABYTES-A-SECOND

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if FAMILY == 1 // the ABI of MPICH: handles are numbers
typedef int handle;
#define WORLD 0x44000000
#define BYTE 0x4c00010d
#define INT 0x4c000405
#define SUM 0x58000003
#define IGNORE ((void *)1)
#elif FAMILY == 2 // Open MPI: handles are addresses of its objects
typedef void *handle;
extern char ompi_mpi_comm_world[], ompi_mpi_byte[], ompi_mpi_int[], ompi_mpi_op_sum[];
#define WORLD ((handle)ompi_mpi_comm_world)
#define BYTE ((handle)ompi_mpi_byte)
#define INT ((handle)ompi_mpi_int)
#define SUM ((handle)ompi_mpi_op_sum)
#define IGNORE ((void *)0)
#else // the standard ABI: handles are numbers in the form of addresses
typedef void *handle;
#define WORLD ((handle)0x101)
#define BYTE ((handle)0x247)
#define INT ((handle)0x209)
#define SUM ((handle)0x21)
#define IGNORE ((void *)0)
#endif

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Barrier(handle);
int MPI_Comm_rank(handle, int *);
int MPI_Comm_size(handle, int *);
int MPI_Get_library_version(char *, int *);
int MPI_Allreduce(const void *, void *, int, handle, handle, handle);
int MPI_Send(const void *, int, handle, int, int, handle);
int MPI_Recv(void *, int, handle, int, int, handle, void *);
int MPI_Isend(const void *, int, handle, int, int, handle, handle *);
int MPI_Irecv(void *, int, handle, int, int, handle, handle *);
int MPI_Waitall(int, handle *, void *);

enum { LARGE = 4 << 20, WINDOW = 8, TAG = 7, MOST = 2000 };

static int rank, size;

// Which file is mapped where a function is.
static void file_of(void *function, char *name, size_t length) {
    char line[8192];
    uintptr_t address = (uintptr_t)function;
    FILE *maps = fopen("/proc/self/maps", "r");
    snprintf(name, length, "unknown");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char *path = strchr(line, '/');
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= address && address < to && path) {
            path[strcspn(path, "\n")] = 0;
            snprintf(name, length, "%s", path);
        }
    }
    if (maps) fclose(maps);
}

// Sends a window of large messages around; every byte is looked at.
static int large_messages_arrive(void) {
    handle requests[2 * WINDOW];
    int next = (rank + 1) % size, before = (rank + size - 1) % size, is_right = 1;
    unsigned char *sent = malloc((size_t)LARGE * WINDOW), *got = calloc(WINDOW, LARGE);
    if (!sent || !got) return 0;
    for (size_t place = 0; place < (size_t)LARGE * WINDOW; place++)
        sent[place] = (unsigned char)(place / LARGE * 31 + place % 251 + rank);
    for (int i = 0; i < WINDOW; i++) {
        MPI_Irecv(got + (size_t)i * LARGE, LARGE, BYTE, before, TAG + i, WORLD, &requests[i]);
        MPI_Isend(sent + (size_t)i * LARGE, LARGE, BYTE, next, TAG + i, WORLD, &requests[WINDOW + i]);
    }
    MPI_Waitall(2 * WINDOW, requests, IGNORE);
    for (size_t place = 0; place < (size_t)LARGE * WINDOW; place++)
        is_right &= got[place] == (unsigned char)(place / LARGE * 31 + place % 251 + before);
    free(sent);
    free(got);
    return is_right;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

// The tenth percentile: what the library takes when nothing else is in its way.
static double fast(double *times, int count) {
    qsort(times, count, sizeof *times, ascending);
    return times[count / 10];
}

static void latency(int bytes, char *buffer) {
    static double times[MOST];
    int count = bytes < 65536 ? MOST : 200, warm = count / 10;
    for (int i = -warm; i < count; i++) {
        double start = now();
        if (rank == 0) {
            MPI_Send(buffer, bytes, BYTE, 1, TAG, WORLD);
            MPI_Recv(buffer, bytes, BYTE, 1, TAG, WORLD, IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, bytes, BYTE, 0, TAG, WORLD, IGNORE);
            MPI_Send(buffer, bytes, BYTE, 0, TAG, WORLD);
        }
        if (i >= 0) times[i] = (now() - start) / 2;
    }
    if (rank == 0) printf("latency %d %.2f\n", bytes, fast(times, count));
}

static void bandwidth(int bytes, char *buffer) {
    static double times[MOST];
    enum { MESSAGES = 16, WINDOWS = 30 };
    handle requests[MESSAGES];
    char answer;
    for (int i = -3; i < WINDOWS; i++) {
        double start = now();
        for (int message = 0; rank < 2 && message < MESSAGES; message++) {
            if (rank == 0)
                MPI_Isend(buffer, bytes, BYTE, 1, TAG, WORLD, &requests[message]);
            else
                MPI_Irecv(buffer, bytes, BYTE, 0, TAG, WORLD, &requests[message]);
        }
        if (rank < 2) MPI_Waitall(MESSAGES, requests, IGNORE);
        if (rank == 0) MPI_Recv(&answer, 1, BYTE, 1, TAG, WORLD, IGNORE);
        if (rank == 1) MPI_Send(buffer, 1, BYTE, 0, TAG, WORLD);
        if (i >= 0) times[i] = now() - start;
    }
    if (rank == 0) printf("bandwidth %d %.0f\n", bytes, (double)bytes * MESSAGES / fast(times, WINDOWS));
}

/*
 * Open MPI ends a rank that a message reaches while it waits in MPI_Init for those of other
 * nodes (github.com/open-mpi/ompi/issues/12495), which on busy nodes is one start in ten. A
 * program that first reads its input does not see that, and neither shall the probe.
 */
static void let_all_leave_init(const char *version) {
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *nodes = getenv("SLURM_STEP_NUM_NODES");
    char all[16];
    snprintf(all, sizeof all, "%d", size);
    int is_on_one_node = (here && strcmp(here, all) == 0) || (nodes && strcmp(nodes, "1") == 0);
    if (size > 1 && !is_on_one_node && strncmp(version, "Open MPI", 8) == 0) sleep(1);
}

int main(int argc, char **argv) {
    static char version[16384], name[8192];
    int length = 0, sum = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = 0;
    let_all_leave_init(version);
    file_of((void *)(uintptr_t)MPI_Init, name, sizeof name);
    MPI_Allreduce(&rank, &sum, 1, INT, SUM, WORLD);
    int is_sum = sum == size * (size - 1) / 2, is_large = large_messages_arrive();
    printf("probe %d %d %d %d %s | %.200s\n", rank, size, is_sum, is_large, name, version);
    fflush(NULL);
    MPI_Barrier(WORLD);
    if (size > 1 && argc > 1 && strcmp(argv[1], "measure") == 0) {
        const int sizes[] = {8, 4096, 32768, 1 << 20};
        char *buffer = calloc(LARGE, 1);
        for (int i = 0; buffer && i < 4; i++) latency(sizes[i], buffer);
        for (int i = 1; buffer && i < 4; i++) bandwidth(sizes[i], buffer);
        fflush(NULL);
        free(buffer);
    }
    MPI_Barrier(WORLD);
    MPI_Finalize();
    return is_sum && is_large ? 0 : 1;
}
