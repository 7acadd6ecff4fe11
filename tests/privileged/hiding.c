// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Keeps a mount where no table of mounts shows it, in a process that no process waits for:
//
//     hiding DIRECTORY EMPTY-DIRECTORY LOG
//
// It ends when that is done, and the process goes on; its number is added to the log.

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(int is_wrong, const char *step) {
    if (is_wrong) {
        perror(step);
        exit(99);
    }
}

static void write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    check(file < 0 || write(file, text, strlen(text)) < 0, path);
    close(file);
}

static void hide(const char *directory, const char *empty, const char *log) {
    char users[40], groups[40], number[20];
    snprintf(users, sizeof users, "0 %u 1", getuid());
    snprintf(groups, sizeof groups, "0 %u 1", getgid());
    snprintf(number, sizeof number, "%d\n", getpid());
    check(unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
    write_to("/proc/self/setgroups", "deny");
    write_to("/proc/self/uid_map", users);
    write_to("/proc/self/gid_map", groups);
    int held = syscall(SYS_open_tree, AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    check(held < 0, "open_tree");
    write_to(log, number);
    // Another root, and away with everything else.
    check(mount("none", empty, "tmpfs", 0, NULL) || chdir(empty), "tmpfs");
    check(syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH), "pivot_root");
}

int main(int count, char **words) {
    int pipes[2];
    char byte;
    check(pipe(pipes), "pipe");
    if (fork() == 0) {
        setsid();
        hide(words[1], words[2], words[3]);
        check(write(pipes[1], "x", 1) != 1, "write");
        close(0), close(1), close(2), close(pipes[0]), close(pipes[1]);
        for (;;) pause();
    }
    close(pipes[1]);
    check(read(pipes[0], &byte, 1) != 1, "hide");
    return 0;
}
