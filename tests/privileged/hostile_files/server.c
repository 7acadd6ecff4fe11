// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// A FUSE server with one directory and one file in it, `image`. It lies about the file,
// and stops answering, as the options say.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY = 1, IMAGE = 2, LARGEST = 1 << 20 };

// What the server says, and when it says nothing more.
static struct {
    const char *image, *later, *hang, *log, *from;
    unsigned owner, mode;
    long grows;
    int flips;
} lie = {.mode = 0444};

// Set when the file is open: only then does the server become hostile.
static volatile int *armed;

static void fail(const char *step) {
    fprintf(stderr, "attacker: %s: %s\n", step, strerror(errno));
    exit(99);
}

static void record(const char *format, ...) {
    char line[200];
    va_list values;
    if (!lie.log) return;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    int log = open(lie.log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log < 0 || write(log, line, length) != length) fail("log");
    close(log);
}

// Where a file is named, not before that is there.
static int is_hostile(void) { return *armed && (!lie.from || !access(lie.from, F_OK)); }

static const char *name_of(unsigned operation) {
    switch (operation) {
    case FUSE_LOOKUP: return "lookup";
    case FUSE_GETATTR: return "getattr";
    case 52: return "statx"; // Newer than some headers.
    case FUSE_OPEN: return "open";
    case FUSE_OPENDIR: return "opendir";
    case FUSE_READ: return "read";
    case FUSE_STATFS: return "statfs";
    case FUSE_FLUSH: return "flush";
    case FUSE_ACCESS: return "access";
    case FUSE_GETXATTR: return "getxattr";
    case FUSE_READLINK: return "readlink";
    case FUSE_RELEASE: return "release";
    default: return "other";
    }
}

static struct fuse_attr attributes(unsigned long node) {
    static unsigned long asked;
    struct stat found;
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096, .uid = lie.owner, .gid = lie.owner};
    if (node == DIRECTORY) {
        attr.mode = S_IFDIR | 0755;
        return attr;
    }
    if (stat(lie.image, &found)) fail("look at the image");
    attr.mode = S_IFREG | lie.mode;
    attr.size = found.st_size;
    if (is_hostile()) {
        asked++;
        attr.size += lie.grows * (long)asked;
        if (lie.flips && asked > 1) attr.uid = 4321, attr.mtime = asked;
    }
    attr.blocks = (attr.size + 511) / 512;
    return attr;
}

static void answer(int fuse, const struct fuse_in_header *in, int error, const void *data, size_t size) {
    static char buffer[LARGEST + sizeof(struct fuse_out_header)];
    struct fuse_out_header out = {.len = sizeof out + (error ? 0 : size), .error = -error, .unique = in->unique};
    memcpy(buffer, &out, sizeof out);
    if (!error && size) memcpy(buffer + sizeof out, data, size);
    // The process that waits may have been killed.
    if (write(fuse, buffer, out.len) < 0 && errno != ENOENT) exit(0);
}

static void answer_read(int fuse, const struct fuse_in_header *in, const struct fuse_read_in *wanted) {
    static char part[LARGEST];
    int file = open(is_hostile() && lie.later ? lie.later : lie.image, O_RDONLY | O_CLOEXEC);
    ssize_t size = pread(file, part, wanted->size < LARGEST ? wanted->size : LARGEST, wanted->offset);
    close(file);
    answer(fuse, in, size < 0 ? EIO : 0, part, size < 0 ? 0 : size);
}

static void answer_one(int fuse, const struct fuse_in_header *in, const void *body) {
    const struct fuse_attr attr = attributes(in->nodeid);
    switch (in->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {.major = 7, .minor = 31, .max_readahead = 131072, .max_write = 131072,
                                    .max_background = 16, .congestion_threshold = 12, .time_gran = 1};
        return answer(fuse, in, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = IMAGE, .attr = attributes(IMAGE)};
        return answer(fuse, in, strcmp(body, "image") ? ENOENT : 0, &out, sizeof out);
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr = attr};
        return answer(fuse, in, 0, &out, sizeof out);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        struct fuse_open_out out = {.fh = 1};
        return answer(fuse, in, 0, &out, sizeof out);
    }
    case FUSE_READ: return answer_read(fuse, in, body);
    case FUSE_STATFS: {
        // Looks like a local file system to whoever only reads numbers.
        struct fuse_statfs_out out = {.st = {.blocks = 1 << 20, .bfree = 1 << 19, .bavail = 1 << 19, .files = 9,
                                             .ffree = 9, .bsize = 4096, .namelen = 255, .frsize = 4096}};
        return answer(fuse, in, 0, &out, sizeof out);
    }
    case FUSE_READDIR:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: return answer(fuse, in, 0, "", 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return;
    default: return answer(fuse, in, ENOSYS, "", 0);
    }
}

static void serve(int fuse) {
    static char request[LARGEST + 4096];
    for (;;) {
        if (read(fuse, request, sizeof request) < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT) continue;
            exit(0);
        }
        const struct fuse_in_header *in = (void *)request;
        if (is_hostile() && lie.hang && !strcmp(lie.hang, name_of(in->opcode))) {
            record("hang %s %u\n", name_of(in->opcode), in->pid);
            continue;
        }
        if (is_hostile()) record("asked %s %u\n", name_of(in->opcode), in->pid);
        answer_one(fuse, in, request + sizeof *in);
    }
}

// Serves in a process of its own, which ends with its parent.
static void start_server(int fuse) {
    pid_t server = fork();
    if (server < 0) fail("start the server");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "fuse-server");
        serve(fuse);
    }
    record("server %d\n", server);
    close(fuse);
}
