# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fetches and verifies the sources of packages, several at a time.

Runs as `spack -e ENV python fetch_sources.py QUESTION ANSWER`. QUESTION is a JSON file:
`hashes` of the packages, how many `jobs` work at a time, and whether there are `caches` from
which packages may come. ANSWER becomes a JSON file: the packages that `failed`, each with
its `package`, a `message`, and as far as they are known the `url`, and the checksums
`expected` and `found`.
"""

import concurrent.futures
import json
import multiprocessing
import sys

import spack.binary_distribution
import spack.environment
import spack.traverse
import spack.util.crypto


def specs_of(hashes):
    """Returns the packages in groups. Those of one name may have the same sources."""
    environment = spack.environment.active_environment()
    groups = {}
    for spec in spack.traverse.traverse_nodes(
        environment.all_specs(), key=spack.traverse.by_dag_hash
    ):
        if spec.dag_hash() in hashes and not spec.installed:
            groups.setdefault(spec.name, []).append(spec)
    return list(groups.values())


def is_in_cache(spec):
    try:
        return bool(spack.binary_distribution.get_mirrors_for_spec(spec))
    except Exception as error:
        # Whether it is there, the installation finds out.
        print(f"{spec.name}: {error}")
        return True


def describe(spec, error):
    failed = {"package": spec.format("{name}@{version}")}
    failed["message"] = getattr(error, "message", None) or str(error)
    details = getattr(error, "long_message", None) or ""
    failed["details"] = [line.strip() for line in details.splitlines() if line.strip()]
    try:
        stages = spec.package.stage
        for stage in getattr(stages, "_stages", stages):
            fetcher = stage.default_fetcher
            digest = getattr(fetcher, "digest", None)
            url = getattr(fetcher, "url", None)
            if not stage.archive_file:
                failed["url"] = url
                break
            if digest:
                checker = spack.util.crypto.Checker(digest)
                if not checker.check(stage.archive_file):
                    # Where it came from may be a mirror.
                    url = getattr(stage.fetcher, "url", None) or url
                    failed.update(url=url, expected=digest, found=checker.sum)
                    break
    except Exception as problem:
        print(f"{spec.name}: {problem}")
    return failed


def fetch(spec):
    package = spec.package
    try:
        with package.stage:
            package.do_fetch()
    except Exception as error:
        failed = describe(spec, error)
        package.stage.destroy()
        return [failed]
    return []


def fetch_group(group):
    failed = []
    for spec in GROUPS[group]:
        if not (QUESTION["caches"] and is_in_cache(spec)):
            failed += fetch(spec)
    return failed


with open(sys.argv[1]) as file:
    QUESTION = json.load(file)
GROUPS = specs_of(set(QUESTION["hashes"]))
failed = []
jobs = max(1, min(QUESTION["jobs"], len(GROUPS)))
context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
    for some in pool.map(fetch_group, range(len(GROUPS))):
        failed += some
with open(sys.argv[2], "w") as file:
    json.dump({"failed": failed}, file)
