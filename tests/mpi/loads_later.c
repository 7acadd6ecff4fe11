// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Loads its MPI while it runs, with an extension, as Python does.

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *extension = dlopen("./extension.so", RTLD_NOW | RTLD_LOCAL);
    if (!extension) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(extension, "extension");
    return run(argc, argv);
}
