# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs EasyBuild as `eb` does, and writes the packages that it finds into a file: in their order, with what each needs."""

import hashlib
import json
import os
import runpy
import sys

from easybuild.framework.easyconfig.easyconfig import ActiveMNS
from easybuild.tools import robot

RESULT = sys.argv.pop(1)


def described(found):
    easyconfig = found["ec"]
    with open(found["spec"], "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    # The toolchain is among them; external modules are files of the system.
    needs = [need for need in easyconfig.all_dependencies if not need.get("external_module")]
    return {
        "easyconfig": os.path.basename(found["spec"]),
        "module": found["full_mod_name"],
        "software": ActiveMNS().det_install_subdir(easyconfig),
        "links": ActiveMNS().det_module_symlink_paths(easyconfig),
        "digest": digest,
        "needs": sorted({need["full_mod_name"] for need in needs}),
    }


resolve_dependencies = robot.resolve_dependencies


def resolve(*arguments, **options):
    found = resolve_dependencies(*arguments, **options)
    packages = [described(one) for one in found if one["ec"] is not None]
    with open(RESULT, "w", encoding="utf-8") as file:
        json.dump(packages, file)
    return found


# `eb --dry-run` calls it, and prints only the order.
robot.resolve_dependencies = resolve
runpy.run_module("easybuild.main", run_name="__main__", alter_sys=True)
