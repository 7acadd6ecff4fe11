// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Opens a file on a file system of the user's making, and starts a program in the
// namespaces of the host with that descriptor:
//
//     attacker KEY=VALUE… -- PROGRAM ARGUMENT…
//
//     system=fuse|overlay|memory|disk   the file system on which the file is
//     mount=here|there|loose            mounted on the host, in a namespace of the user, nowhere
//     below=fuse-here|fuse-there|memory what is below an overlay
//     place=DIRECTORY                   an empty directory of the user
//     image=FILE                        what the file has in it
//     number=NUMBER                     of the descriptor
//     open=image|directory|place        how it is opened: the file, the directory, O_PATH
//     hang=OPERATION, owner=, mode=, grows=, flips=, later=, from=, log=   what the server does
//
// It is compiled together with server.c.

#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct {
    const char *system, *mount, *below, *place, *open;
    int number;
} plan = {.system = "fuse", .mount = "there", .below = "fuse-there", .open = "image", .number = 951};

static int is(const char *text, const char *other) { return !strcmp(text, other); }

static int fs_open(const char *kind) {
    int context = syscall(SYS_fsopen, kind, 1);
    if (context < 0) fail(kind);
    return context;
}

static void set(int context, const char *key, const char *value) {
    if (syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, value, 0)) fail(key);
}

// Makes the mount: attached nowhere.
static int fs_mount(int context) {
    if (syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0)) fail("make the file system");
    int mount = syscall(SYS_fsmount, context, 1, 0);
    if (mount < 0) fail("fsmount");
    return mount;
}

static void attach(int mount, const char *place) {
    if (syscall(SYS_move_mount, mount, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH)) fail("attach");
}

static void write_to(const char *path, const char *format, unsigned value) {
    char text[64];
    int file = open(path, O_WRONLY | O_CLOEXEC), length = snprintf(text, sizeof text, format, value);
    if (file < 0 || write(file, text, length) != length) fail(path);
    close(file);
}

// Enters namespaces in which the user is root.
static void enter_own_namespaces(void) {
    unsigned user = getuid(), group = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) fail("make a user namespace");
    write_to("/proc/self/setgroups", "deny", 0);
    write_to("/proc/self/uid_map", "0 %u 1", user);
    write_to("/proc/self/gid_map", "0 %u 1", group);
}

static void send_descriptor(int socket, int descriptor) {
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr header; } control = {0};
    struct iovec data = {.iov_base = "x", .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    if (sendmsg(socket, &message, 0) < 0) fail("send the descriptor");
}

static int receive_descriptor(int socket) {
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr header; } control = {0};
    char byte;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int descriptor;
    if (recvmsg(socket, &message, 0) <= 0 || control.header.cmsg_type != SCM_RIGHTS) exit(99);
    memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

// The set-uid program of libfuse mounts on the host.
static void serve_here(const char *place) {
    int pair[2];
    char number[16];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) fail("socketpair");
    pid_t mounter = fork();
    if (mounter == 0) {
        snprintf(number, sizeof number, "%d", pair[1]);
        setenv("_FUSE_COMMFD", number, 1);
        execlp("fusermount3", "fusermount3", "-o", "allow_other,fsname=local,subtype=disk", "--", place, NULL);
        fail("start fusermount3");
    }
    close(pair[1]);
    int fuse = receive_descriptor(pair[0]);
    waitpid(mounter, NULL, 0);
    start_server(fuse);
}

static int serve_loose(void) {
    char number[16];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), context = fs_open("fuse");
    if (fuse < 0) fail("/dev/fuse");
    snprintf(number, sizeof number, "%d", fuse);
    set(context, "source", "local");
    set(context, "fd", number);
    set(context, "rootmode", "40000");
    set(context, "user_id", "0");
    set(context, "group_id", "0");
    if (syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, "allow_other", NULL, 0)) fail("allow_other");
    int mount = fs_mount(context);
    start_server(fuse);
    return mount;
}

static int memory(void) {
    int context = fs_open("tmpfs");
    set(context, "mode", "0755");
    return fs_mount(context);
}

static void copy_image(int directory) {
    static char part[1 << 16];
    ssize_t size;
    int from = open(lie.image, O_RDONLY | O_CLOEXEC), to = openat(directory, "image", O_WRONLY | O_CREAT | O_CLOEXEC, lie.mode);
    if (from < 0 || to < 0) fail("copy the image");
    while ((size = read(from, part, sizeof part)) > 0)
        if (write(to, part, size) != size) fail("copy the image");
    close(from);
    close(to);
}

// A mount of an overlay; it takes two layers where there is none for writing.
static int overlay(const char *place) {
    char layers[8192];
    struct stat found;
    int empty = memory(), context;
    if (is(plan.below, "fuse-there")) attach(serve_loose(), place);
    if (is(plan.below, "memory")) {
        int mount = memory();
        copy_image(mount);
        attach(mount, place);
    }
    // Until its first request, the root of a FUSE file system is closed to all, and so is the overlay.
    if (stat(place, &found)) fail("look at what is below");
    attach(empty, "/mnt/c");
    context = fs_open("overlay");
    snprintf(layers, sizeof layers, "%s:/mnt/c", place);
    set(context, "source", "local");
    set(context, "lowerdir", layers);
    return fs_mount(context);
}

static int open_below(int directory) {
    int flags = O_CLOEXEC;
    if (is(plan.open, "directory")) return openat(directory, ".", flags | O_PATH | O_DIRECTORY);
    if (is(plan.open, "place")) flags |= O_PATH;
    return openat(directory, "image", flags);
}

// Returns the directory of the file, or -1 where its path is to be used.
static int make_file_system(void) {
    int mount = -1;
    const char *place = plan.place;
    if (is(plan.system, "fuse") && is(plan.mount, "here")) {
        serve_here(place);
        return open(place, O_PATH | O_CLOEXEC);
    }
    if (is(plan.system, "overlay") && is(plan.below, "fuse-here")) serve_here(place);
    if (!is(plan.mount, "here")) enter_own_namespaces();
    if (is(plan.system, "disk")) {
        char directory[4096];
        snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(lie.image, '/') - lie.image), lie.image);
        if (!is(plan.mount, "loose")) return open(directory, O_PATH | O_CLOEXEC);
        return syscall(SYS_open_tree, AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    }
    if (is(plan.system, "fuse")) mount = serve_loose();
    if (is(plan.system, "memory")) copy_image(mount = memory());
    if (is(plan.system, "overlay")) mount = overlay(place);
    if (is(plan.mount, "loose")) return mount;
    attach(mount, place);
    return open(place, O_PATH | O_CLOEXEC);
}

static void make_and_send(int socket) {
    int directory = make_file_system();
    // Entering the namespaces took this back.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int file = is(plan.system, "disk")
        ? openat(directory, strrchr(lie.image, '/') + 1, O_RDONLY | O_CLOEXEC)
        : open_below(directory);
    if (directory < 0 || file < 0) fail("open the file");
    *armed = 1;
    send_descriptor(socket, file);
    for (;;) pause();
}

static void understand(char *word) {
    char *value = strchr(word, '=');
    if (!value) fail(word);
    *value++ = 0;
    if (is(word, "system")) plan.system = value;
    else if (is(word, "mount")) plan.mount = value;
    else if (is(word, "below")) plan.below = value;
    else if (is(word, "place")) plan.place = value;
    else if (is(word, "open")) plan.open = value;
    else if (is(word, "number")) plan.number = atoi(value);
    else if (is(word, "image")) lie.image = value;
    else if (is(word, "later")) lie.later = value;
    else if (is(word, "hang")) lie.hang = value;
    else if (is(word, "from")) lie.from = value;
    else if (is(word, "log")) lie.log = value;
    else if (is(word, "owner")) lie.owner = atoi(value);
    else if (is(word, "mode")) lie.mode = strtol(value, NULL, 8);
    else if (is(word, "grows")) lie.grows = atol(value);
    else if (is(word, "flips")) lie.flips = 1;
    else fail(word);
}

int main(int count, char **words) {
    int pair[2], next = 1;
    while (next < count && strcmp(words[next], "--")) understand(words[next++]);
    armed = mmap(NULL, sizeof *armed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) fail("socketpair");
    pid_t maker = fork();
    if (maker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "maker");
        close(pair[0]);
        make_and_send(pair[1]);
    }
    close(pair[1]);
    int file = receive_descriptor(pair[0]);
    if (dup2(file, plan.number) < 0) fail("dup2");
    // The other stays open, too: at each close the server gets a request, and this is not whom it stops.
    execv(words[next + 1], words + next + 1);
    fail("start the program");
}
