# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes which variables views set into the file that the first argument names.

Each further argument is VIEW=DIRECTORY: a view, and the directory of its environment.

{"VIEW": {"PATH": "/store/env/VIEW/bin:/usr/bin"}}   whole values, with what the variables
                                                     held before; only those that change
"""

import json
import os
import sys

import spack.environment as environment
import spack.environment.shell as shell

answer = {}
for argument in sys.argv[2:]:
    view, _, directory = argument.partition("=")
    changes = shell.activate(environment.Environment(directory), view=view)
    environment.deactivate()
    values = dict(os.environ)
    changes.apply_modifications(values)
    answer[view] = {
        name: values[name]
        for name in changes.group_by_name()
        if name in values and values[name] != os.environ.get(name)
    }
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(answer, file)
