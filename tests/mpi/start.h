// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

// Starts MPI, and lets all ranks leave `MPI_Init` before there is a message.
//
// Open MPI ends a rank that a message reaches while it waits there for ranks of other nodes
// (github.com/open-mpi/ompi/issues/12495). On a busy machine that happens to one start in ten,
// whatever is swapped or mounted, and it is not what our tests are about.

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
#ifdef OPEN_MPI
    const char *nodes = getenv("SLURM_NNODES");
    if (nodes && strcmp(nodes, "1") != 0)
        sleep(1);
#endif
}
