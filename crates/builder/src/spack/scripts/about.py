# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes what this Spack is into the file that the first argument names.

{"version": "1.3.0.dev0",   its version
 "lock": 7,                 the newest version of lock files that it writes
 "database": "8",           the version of its database
 "solutions": true}         whether its cache of solutions holds the answers of the
                            solver alone, and package hashes are computed each time
"""

import json
import sys

import spack
import spack.database
import spack.environment.environment as environment
import spack.solver.asp as asp

# Before 1.2 the constant had the other name.
lock = getattr(environment, "CURRENT_LOCKFILE_VERSION", None)
if lock is None:
    lock = getattr(environment, "lockfile_format_version", None)
answer = {
    "version": spack.__version__,
    "lock": lock,
    "database": str(getattr(spack.database, "_DB_VERSION", "unknown")),
    "solutions": hasattr(asp, "ConcretizationCache")
    and hasattr(asp, "post_process_concretization_result"),
}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(answer, file)
