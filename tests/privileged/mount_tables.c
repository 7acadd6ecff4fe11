// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Makes namespaces with very many mounts whose names are very long:
//
//     mount_tables NAMESPACES MOUNTS DIRECTORY
//
// It says `up` when they are there, and they go with its standard input.

#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int is_wrong, const char *step) {
    if (is_wrong) {
        perror(step);
        exit(99);
    }
}

static void write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    check(file < 0 || write(file, text, strlen(text)) < 0, path);
    close(file);
}

static void furnish(const char *directory, int mounts) {
    char users[40], groups[40], name[201];
    snprintf(users, sizeof users, "0 %u 1", getuid());
    snprintf(groups, sizeof groups, "0 %u 1", getgid());
    check(unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
    write_to("/proc/self/setgroups", "deny");
    write_to("/proc/self/uid_map", users);
    write_to("/proc/self/gid_map", groups);
    check(mount("none", directory, "tmpfs", 0, NULL) || chdir(directory), "tmpfs");
    // A name of a mount has 4000 letters, each of which is four in the table.
    memset(name, '\n', 200);
    name[200] = 0;
    for (int level = 0; level < 18; level++) check(mkdir(name, 0755) || chdir(name), "mkdir");
    check(mkdir("place", 0755), "mkdir");
    for (int number = 0; number < mounts; number++) check(mount("place", "place", NULL, MS_BIND, NULL), "bind");
}

int main(int count, char **words) {
    int pipes[2], namespaces = atoi(words[1]);
    char byte;
    check(pipe(pipes), "pipe");
    for (int number = 0; number < namespaces; number++) {
        if (fork() == 0) {
            furnish(words[3], atoi(words[2]));
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            check(write(pipes[1], "x", 1) != 1, "write");
            close(0), close(1), close(2), close(pipes[1]);
            for (;;) pause();
        }
    }
    close(pipes[1]);
    for (int number = 0; number < namespaces; number++) check(read(pipes[0], &byte, 1) != 1, "a namespace");
    puts("up");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
    return 0;
}
