# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tries whether the concretizer takes what was found on a machine.

The first argument names the file for the answer, the second a file with what was found:

[{"ask": "gcc@12.2.0",                 what a recipe could ask for
  "spec": "gcc@12.2.0 languages=c",    the spec of the external
  "prefix": "/usr"}]

{"version": "1.3.0.dev0",              the version of Spack
 "solver": true,                       whether its Python has the solver
 "error": "TEXT",                      why nothing can be decided, or nothing
 "refused": [{"number": 0,             what is not taken, by its place in the list
              "reason": "TEXT"}]}
"""

import json
import sys
import traceback

import spack
import spack.concretize
import spack.config
from spack.spec import Spec

MANY = 12


def is_taken(spec, wanted):
    """Whether a concrete spec is the external that was wanted."""
    return spec.external and str(spec.external_path) == wanted["prefix"]


def reason(error):
    """The first lines of an error of Spack."""
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join([line for line in lines if line][:MANY]) or type(error).__name__


def why_not(wanted, chosen):
    """Why another spec was chosen."""
    name = Spec(wanted["ask"]).name
    try:
        with spack.config.override(f"packages:{name}:buildable", False):
            spec = spack.concretize.concretize_one(Spec(wanted["spec"]))
    except Exception as error:
        return reason(error)
    if spec.external and not is_taken(spec, wanted):
        return f"it takes the one in {spec.external_path}"
    if chosen.external:
        return f"it takes {chosen.format('{name}{@version}')} in {chosen.external_path}"
    return f"it prefers to build {chosen.format('{name}{@version}{variants}')}"


def main(target, source):
    with open(source, encoding="utf-8") as file:
        all_wanted = json.load(file)
    answer = {"version": spack.__version__, "solver": True, "error": None, "refused": []}
    try:
        import clingo  # noqa: F401
    except ImportError:
        answer["solver"] = False
        all_wanted = []
    try:
        pairs = [(Spec(wanted["ask"]), None) for wanted in all_wanted]
        found = spack.concretize.concretize_together_when_possible(pairs) if pairs else []
        chosen = {str(abstract): concrete for abstract, concrete in found}
        for number, wanted in enumerate(all_wanted):
            spec = chosen[str(Spec(wanted["ask"]))]
            if not is_taken(spec, wanted):
                refused = {"number": number, "reason": why_not(wanted, spec)}
                answer["refused"].append(refused)
    except Exception as error:
        traceback.print_exc()
        answer["error"] = reason(error)
    with open(target, "w", encoding="utf-8") as file:
        json.dump(answer, file)


main(*sys.argv[1:3])
