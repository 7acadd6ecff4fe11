/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What an MPI library does between its ranks: whether they find each other, whether what
 * is sent arrives, and how long it takes. Usage:
 *
 *     PROGRAM RANKS SECONDS [LIMIT]
 *
 * RANKS is how many there must be, SECONDS how long to measure (0: not at all), LIMIT after
 * how many seconds the program ends, however far it is. The first and the last rank send
 * messages to each other, and every operation is timed alone: where others compute as well,
 * the fastest tenth still tells what the library can do, and an average tells nothing.
 * Every line of the output is a word and its values; times are microseconds, rates MB/s.
 * Before and after each latency the two ranks hand a word of memory to each other without the
 * library: how far apart their processors are changes while a host moves its guests around.
 * A figure ends with its quartiles, and with the part of the time in which a rank that measured had
 * no processor; -1 where the kernel does not say it.
 * A line "way" tells after each latency what the first rank's library did for it: how many round
 * trips, how often it gave its processor back, how often it had the kernel copy from process to
 * process, how many bytes came over its TCP sockets.
 * Exit codes: 3 another number of ranks, 4 over the limit, 5 wrong data. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WINDOW = 64, MOST = 20000, FEWEST = 20, BATCH = 10, LARGEST = 4 << 20, PARTS = 12 };

static int rank, size;
static double seconds;
static char *sent, *received;
static double taken[MOST];

/* What a library asks of the system is counted on the way: its calls find these functions
 * before those of the C library. */
static unsigned long yields, copies;

int sched_yield(void) {
    __atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_sched_yield);
}

ssize_t process_vm_readv(pid_t process, const struct iovec *mine, unsigned long here, const struct iovec *its,
                         unsigned long there, unsigned long flags) {
    __atomic_fetch_add(&copies, 1, __ATOMIC_RELAXED);
    return syscall(SYS_process_vm_readv, process, mine, here, its, there, flags);
}

ssize_t process_vm_writev(pid_t process, const struct iovec *mine, unsigned long here, const struct iovec *its,
                          unsigned long there, unsigned long flags) {
    __atomic_fetch_add(&copies, 1, __ATOMIC_RELAXED);
    return syscall(SYS_process_vm_writev, process, mine, here, its, there, flags);
}

/* How many bytes have come over the TCP sockets of this process. The kernel's structure has the
 * number since 4.1, and headers may be older than that. */
static unsigned long long over_tcp(void) {
    enum { TCP = 6, INFO = 11, RECEIVED = 128 };
    unsigned long long all = 0, one;
    for (int file = 3; file < 1024; file++) {
        char info[256];
        socklen_t length = sizeof info;
        if (getsockopt(file, TCP, INFO, info, &length) != 0 || length < RECEIVED + sizeof one) continue;
        memcpy(&one, info + RECEIVED, sizeof one);
        all += one;
    }
    return all;
}

/* Does nothing that is not allowed while anything else happens. */
static void too_late(int signal) {
    (void)signal;
    if (write(1, "late\n", 5) < 0) _exit(6);
    _exit(4);
}

static void wrong(const char *what, long bytes) {
    printf("wrong %s %ld\n", what, bytes);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 5);
    exit(5);
}

/* What a byte of a message is, so that neither old messages nor gaps pass for new ones. */
static char byte_at(long place, int turn) { return (char)(place * 31 + place / 4096 + turn * 7 + 1); }

static void stamp(char *message, long bytes, int turn) {
    memcpy(message, &turn, sizeof turn);
    memcpy(message + bytes - sizeof turn, &turn, sizeof turn);
}

static void check(const char *what, const char *message, long bytes, int turn) {
    if (memcmp(message, &turn, sizeof turn) || memcmp(message + bytes - sizeof turn, &turn, sizeof turn))
        wrong(what, bytes);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Tells the times of an operation; for a rate, what is moved in one. */
static void tell(const char *word, long bytes, int count, double moved, double before, double after, double waited) {
    qsort(taken, (size_t)count, sizeof *taken, by_size);
    int places[] = {count / 10, count / 4, count / 2, count * 3 / 4};
    double parts[4];
    for (int i = 0; i < 4; i++) {
        double time = taken[places[i]] * 1e6;
        parts[i] = moved > 0 ? moved / time : time;
    }
    printf("%s %ld %.3f %.3f %d %.3f %.3f %.3f %.3f %.4f\n", word, bytes, parts[0], parts[2], count, before, after,
           parts[1], parts[3], waited);
    fflush(stdout);
}

static int last(void) { return size - 1; }

/* Messages to and fro; whoever is not the first or the last rank has nothing to do. */
static void round_trips(long bytes, int first_turn, int count, double *times) {
    for (int turn = first_turn; turn < first_turn + count; turn++) {
        stamp(sent, bytes, turn);
        if (rank == 0) {
            double begin = MPI_Wtime();
            MPI_Send(sent, (int)bytes, MPI_BYTE, last(), 1, MPI_COMM_WORLD);
            MPI_Recv(received, (int)bytes, MPI_BYTE, last(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            times[turn - first_turn] = (MPI_Wtime() - begin) / 2;
        } else {
            MPI_Recv(received, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(sent, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        check("message", received, bytes, turn);
    }
}

/* The same with every byte checked, and not timed. */
static void whole_messages(long bytes) {
    for (int turn = 0; turn < 2; turn++) {
        double ignored;
        for (long place = 0; place < bytes; place++) sent[place] = byte_at(place, turn);
        round_trips(bytes, turn, 1, &ignored);
        for (long place = sizeof turn; place < bytes - (long)sizeof turn; place++)
            if (received[place] != byte_at(place, turn)) wrong("message", bytes);
    }
}

static void windows(long bytes, int first_turn, int count, double *times) {
    MPI_Request requests[WINDOW];
    for (int turn = first_turn; turn < first_turn + count; turn++) {
        char done = 0;
        for (int i = 0; i < WINDOW; i++) stamp((rank ? received : sent) + i * bytes, bytes, rank ? -1 : turn * WINDOW + i);
        double begin = MPI_Wtime();
        for (int i = 0; i < WINDOW; i++)
            if (rank == 0)
                MPI_Isend(sent + i * bytes, (int)bytes, MPI_BYTE, last(), 2, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(received + i * bytes, (int)bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) {
            MPI_Recv(&done, 1, MPI_BYTE, last(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            times[turn - first_turn] = MPI_Wtime() - begin;
        } else {
            MPI_Send(&done, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
            for (int i = 0; i < WINDOW; i++) check("window", received + i * bytes, bytes, turn * WINDOW + i);
        }
    }
}

static void sums(long bytes, int first_turn, int count, double *times) {
    long values = bytes / (long)sizeof(double);
    double *mine = (double *)sent, *all = (double *)received;
    for (int turn = first_turn; turn < first_turn + count; turn++) {
        for (long i = 0; i < values; i++) mine[i] = (double)(rank + i % 7 + turn % 5);
        double begin = MPI_Wtime();
        MPI_Allreduce(mine, all, (int)values, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        times[turn - first_turn] = MPI_Wtime() - begin;
        for (long i = 0; i < values; i++)
            if (all[i] != (double)size * (size - 1) / 2 + (double)size * (double)(i % 7 + turn % 5)) wrong("sum", bytes);
    }
}

static void exchanges(long bytes, int first_turn, int count, double *times) {
    for (int turn = first_turn; turn < first_turn + count; turn++) {
        for (int other = 0; other < size; other++) stamp(sent + other * bytes, bytes, turn * size + rank + other);
        double begin = MPI_Wtime();
        MPI_Alltoall(sent, (int)bytes, MPI_BYTE, received, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
        times[turn - first_turn] = MPI_Wtime() - begin;
        for (int other = 0; other < size; other++) check("exchange", received + other * bytes, bytes, turn * size + rank + other);
    }
}

/* Two words of memory that the first and the last rank see; none on different nodes. */
static volatile int *words;

static void share_words(void) {
    char path[600] = "", host[64] = "", first[64] = "";
    int file = -1;
    gethostname(host, sizeof host - 1);
    memcpy(first, host, sizeof host);
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/words-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        file = mkstemp(path);
        if (file < 0 || ftruncate(file, 4096)) path[0] = 0;
    }
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == last() && path[0] && !strcmp(host, first)) file = open(path, O_RDWR);
    if (file >= 0) {
        void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (place != MAP_FAILED) words = place;
        close(file);
    }
    int mine = words != NULL || (rank != 0 && rank != last()), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) words = NULL;
    if (rank == 0 && path[0]) unlink(path);
}

static int wait_for(int place, int old) {
    for (int turn = 0; words[place] == old; turn++)
        if (turn > 10000) sched_yield();
    __sync_synchronize();
    return words[place];
}

/* How long a word takes from one rank to the other; 0 for nobody knows. */
static double distance(void) {
    static int value;
    static double times[2000];
    if (!words) return 0;
    if (rank != 0) {
        while ((value = wait_for(0, value)) > 0) words[64] = value;
        value = words[0] = 0;
        words[64] = -1;
        return 0;
    }
    double end = MPI_Wtime() + 0.002;
    int count = 0;
    while (count < 20 || (count < 2000 && MPI_Wtime() < end)) {
        double begin = MPI_Wtime();
        words[0] = value + 1;
        value = wait_for(64, value);
        times[count++] = (MPI_Wtime() - begin) / 2;
    }
    words[0] = -1;
    wait_for(64, value);
    value = words[64] = 0;
    qsort(times, (size_t)count, sizeof *times, by_size);
    return times[count / 10] * 1e6;
}

/* How many seconds this process could have run and had no processor; -1 where the kernel does not
 * say it. */
static double waiting(void) {
    unsigned long long ran, waited;
    FILE *file = fopen("/proc/self/schedstat", "r");
    int count = file ? fscanf(file, "%llu %llu", &ran, &waited) : 0;
    if (file) fclose(file);
    return count == 2 ? (double)waited * 1e-9 : -1;
}

typedef void operation(long bytes, int first_turn, int count, double *times);

/* Repeats an operation for its part of the time. Ranks that have no part in it sleep: where
 * there are fewer processors than ranks, they would be in the way. */
static void measure(const char *word, operation *run, long bytes, int everybody, double moved) {
    double before = 0, after = 0, waited = -1;
    unsigned long yielded = 0, copied = 0;
    unsigned long long came = 0;
    int count = 0, more = 1;
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    if (everybody || rank == 0 || rank == last()) {
        run(bytes, 0, 2, taken);
        if (!everybody) before = distance();
        yielded = yields, copied = copies, came = over_tcp();
        double waited_before = waiting(), begin = MPI_Wtime(), end = begin + seconds / PARTS;
        while (more) {
            run(bytes, 2 + count, BATCH, taken + count);
            count += BATCH;
            more = count + BATCH <= MOST && (count < FEWEST || MPI_Wtime() < end);
            if (everybody)
                MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
            else if (rank == 0)
                MPI_Send(&more, 1, MPI_INT, last(), 4, MPI_COMM_WORLD);
            else
                MPI_Recv(&more, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        yielded = yields - yielded, copied = copies - copied, came = over_tcp() - came;
        waited = waited_before < 0 ? -1 : (waiting() - waited_before) / (MPI_Wtime() - begin);
        if (!everybody) after = distance();
        double theirs = waited;
        if (rank == last())
            MPI_Send(&theirs, 1, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD);
        else if (rank == 0)
            MPI_Recv(&theirs, 1, MPI_DOUBLE, last(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (theirs > waited) waited = theirs;
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; !done;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) usleep(200);
    }
    if (rank != 0) return;
    tell(word, bytes, count, moved, before, after, waited);
    if (run == round_trips) printf("way %ld %d %lu %lu %llu\n", bytes, count, yielded, copied, came), fflush(stdout);
}

/* The type of the first rank's node: its processors, and their model. On Arm, the file has numbers only. */
static void tell_node_type(void) {
    char line[256], *model = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !model && fgets(line, sizeof line, file))
        if (!strncmp(line, "model name", 10) || !strncmp(line, "CPU part", 8)) model = strchr(line, ':');
    if (file) fclose(file);
    if (model) printf("node-type %ld %s\n", sysconf(_SC_NPROCESSORS_ONLN), model + 1);
}

/* Where each rank is and where it may be: two on one processor take turns. Returns whether those
 * that measure have only one. */
static int tell_places(void) {
    if (rank == 0) tell_node_type();
    struct { char host[64], allowed[960]; int now; } place, *all = calloc((size_t)size, sizeof place);
    cpu_set_t set;
    size_t used = 0;
    memset(&place, 0, sizeof place);
    gethostname(place.host, sizeof place.host - 1);
    place.now = sched_getcpu();
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE && used + 16 < sizeof place.allowed; cpu++)
            if (CPU_ISSET(cpu, &set)) {
                int end = cpu;
                while (end + 1 < CPU_SETSIZE && CPU_ISSET(end + 1, &set)) end++;
                used += (size_t)sprintf(place.allowed + used, "%s%d-%d", used ? "," : "", cpu, end);
                cpu = end;
            }
    MPI_Gather(&place, sizeof place, MPI_BYTE, all, sizeof place, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        printf("rank %d %s %d %s\n", i, all[i].host, all[i].now, all[i].allowed[0] ? all[i].allowed : "-");
    int low = 0, high = 1, is_one = 0;
    if (rank == 0 && !strcmp(all[0].host, all[last()].host) && !strcmp(all[0].allowed, all[last()].allowed))
        is_one = sscanf(all[0].allowed, "%d-%d", &low, &high) == 2 && low == high && !strchr(all[0].allowed, ',');
    fflush(stdout);
    free(all);
    MPI_Bcast(&is_one, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return is_one;
}

static void tell_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    for (char *c = text; *c; c++)
        if (*c == '\t') *c = ' ';
    printf("library %.*s\n", (int)strcspn(text, "\n"), text);
}

/* Before anything else: a library that is not the right one may not let us come further. */
static void tell_loaded(void) {
    char line[4096], before[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/'), *name = path ? strrchr(path, '/') : NULL;
        if (!name || strncmp(name, "/libmpi", 7) || !strcmp(path, before)) continue;
        strcpy(before, path);
        printf("loaded %s", path);
    }
    if (maps) fclose(maps);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    signal(SIGALRM, too_late);
    alarm(argc > 3 ? (unsigned)atoi(argv[3]) : 60);
    tell_loaded();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seconds = atof(argv[2]);
    if (rank == 0) {
        tell_library();
        printf("size %d\n", size);
        fflush(stdout);
    }
    if (size != atoi(argv[1])) {
        MPI_Finalize();
        return 3;
    }
    /* What two ranks on one processor take says nothing about the library. */
    if (tell_places()) seconds = 0;
    long space = (long)WINDOW << 20, shared = (long)size * 4096;
    sent = malloc((size_t)(space > shared ? space : shared));
    received = malloc((size_t)(space > shared ? space : shared));
    if (!sent || !received) wrong("memory", space);
    sums(8, 0, 1, taken);
    if (rank == 0) printf("sum ok\n"), fflush(stdout);
    static const long sizes[] = {8, 4096, 32768, 1 << 20, LARGEST}, rates[] = {64, 4096, 1 << 20};
    if (size > 1 && (rank == 0 || rank == last()))
        for (int i = 0; i < 5; i++) whole_messages(sizes[i]);
    if (seconds > 0 && size > 1) {
        share_words();
        for (int i = 0; i < 5; i++) measure("latency", round_trips, sizes[i], 0, 0);
        for (int i = 0; i < 3; i++) measure("bandwidth", windows, rates[i], 0, (double)(rates[i] * WINDOW));
        for (int i = 0; i < 2; i++) measure("allreduce", sums, sizes[i], 1, 0);
        for (int i = 0; i < 2; i++) measure("alltoall", exchanges, sizes[i], 1, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("done\n"), fflush(stdout);
    MPI_Finalize();
    return 0;
}
