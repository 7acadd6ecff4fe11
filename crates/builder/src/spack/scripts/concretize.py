# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Concretizes the active environment as `spack concretize --force` does, in less time.

Spack gives its solver each package that the specs could ever need, with all its versions,
variants, and dependencies: hundreds of packages, of which an answer uses a few. Here most
packages are *deferred*: the solver knows their versions and variants, but not their
dependencies. If the best answer builds a deferred package, the package is deferred no longer,
and the solver is asked again.

The last answer is also optimal for the whole problem. Without some dependencies there are fewer
constraints and fewer packages that count, so the best answer of the smaller problem is at least
as good as that of the whole. And an answer that builds no deferred package uses nothing that was
left out. What a variant, a virtual package, or a package to reuse depends on is never left out.

If a smaller problem has no answer, the whole problem is solved, so errors are those of Spack.
"""

import argparse
import types

import spack.cmd.concretize as command
import spack.compilers.config
import spack.config
import spack.deptypes
import spack.error
import spack.package_base
import spack.repo
import spack.solver.asp as asp
import spack.spec
import spack.version

tty = command.tty
# A package without its compiler could not meet what is required of compilers.
LANGUAGES = {"c", "cxx", "fortran"}
NOTHING = spack.spec.Spec()
# Packages that compilers add, and that no package names as a dependency.
ADDED_BY_COMPILERS = ("compiler-wrapper", "gcc-runtime")


def named_dependencies(spec):
    """Returns the names of the packages and virtual packages that a spec depends on."""
    edges = spec.edges_to_dependencies()
    return {name for edge in edges for name in (edge.virtuals or (edge.spec.name,))}


class Unproven(Exception):
    """The answer of a smaller problem might not be optimal for the whole."""


class Deferred:
    """Which packages have all of their dependencies, and which only some."""

    def __init__(self, specs, reuse):
        self.repo = spack.repo.PATH
        self.packages = spack.config.get("packages")
        self.host = spack.spec.ArchSpec.default_arch()
        # What is expected to be built, and so is not deferred.
        self.expected = {}
        # When a package requires a dependency that was left out.
        self.loosened = {}
        # What a deferred package needs, if it is to be reused.
        self.reused = {}
        for spec in [*reuse, *spack.compilers.config.all_compilers(init_config=False)]:
            for one in spec.traverse():
                names = (dependency.name for dependency in one.dependencies())
                self.reused.setdefault(one.name, set()).update(names)
        self.expect([*(spec.name for spec in specs), *ADDED_BY_COMPILERS], specs)
        if not all(self.names_what_it_needs(spec, spec) for spec in specs):
            raise Unproven("a spec asks for what no package in it needs itself")

    def names_what_it_needs(self, asked, spec):
        """Returns whether what is asked for with `^` is needed by a package that a spec names.

        Otherwise it could be reached through dependencies that were left out.
        """
        edges = [edge for edge in asked.traverse_edges(root=False) if not edge.direct]
        names = [edge.spec.name for edge in edges if not edge.spec.name.endswith("-runtime")]
        packages = [one.name for one in spec.traverse() if self.repo.exists(one.name)]
        needed = {
            name
            for package in (packages if names else ())
            for dependencies in self.repo.get_pkg_class(package).dependencies.values()
            for name in dependencies
        }
        return all(needed & {name, *self.provided_by(name)} for name in names)

    def provided_by(self, name):
        """Returns the names of the virtual packages that a package may provide."""
        if not self.repo.exists(name):
            return ()
        return self.repo.get_pkg_class(name).provided_virtual_names()

    def __contains__(self, name):
        return name not in self.expected

    def keeps(self, package):
        """Returns the names of the dependencies that a deferred package keeps."""
        names = set().union(*map(named_dependencies, (*package.variants, *package.provided)))
        virtuals = map(self.provided_by, names)
        return LANGUAGES.union(self.reused.get(package.name, ()), names, *virtuals)

    def expect(self, names, asked=()):
        """Defers packages no longer, nor what they need by default. A wrong guess only costs time."""
        new = [name for name in names if name in self and self.repo.exists(name)]
        self.expected.update((name, self.wanted(name)) for name in new)
        todo = [*asked]
        for name in new:
            todo += self.needs(self.expected[name])
        while todo:
            asked = todo.pop()
            todo += [edge.spec for edge in asked.edges_to_dependencies()]
            if self.repo.is_virtual(asked.name):
                todo += map(spack.spec.Spec, self.first_provider(asked.name))
                continue
            is_new = asked.name in self
            if is_new:
                if self.is_there(asked) or not self.repo.exists(asked.name):
                    continue
                self.expected[asked.name] = self.wanted(asked.name)
            spec = self.expected[asked.name]
            if constrain(spec, asked) or is_new:
                todo += self.needs(spec)

    def needs(self, spec):
        """Returns what a package is expected to need."""
        package = self.repo.get_pkg_class(spec.name)
        return [
            dependency.spec
            for when, dependencies in package.dependencies.items()
            if when == NOTHING or self.is_expected(package, spec, when)
            for name, dependency in dependencies.items()
            if name not in LANGUAGES and dependency.depflag & ~spack.deptypes.TEST
        ]

    def is_there(self, asked):
        """Returns whether the system has a package."""
        there = self.packages.get(asked.name, {}).get("externals") or []
        return any(spack.spec.Spec(one["spec"]).intersects(asked) for one in there)

    def wanted(self, name):
        """Returns what the configuration asks of a package."""
        spec = spack.spec.Spec(name)
        section = self.packages.get(name, {})
        for one in listed(section.get("require")) + listed(section.get("prefer")):
            text = one.get("spec") if isinstance(one, dict) else one
            # An alternative, as `one_of`, is not decided here.
            if text:
                constrain(spec, spack.spec.Spec(text))
        return spec

    def is_expected(self, package, spec, when):
        """Returns whether a condition is met by what is asked for, or else by defaults."""
        here = when.architecture is None or when.architecture.intersects(self.host)
        if not here or not spec.intersects(when) or not self.has_version(spec, when.versions):
            return False
        for edge in when.edges_to_dependencies():
            needed = edge.spec
            if any(needed.name not in self.first_provider(virtual) for virtual in edge.virtuals):
                return False
            expected = self.expected.get(needed.name) or self.of_system(needed.name)
            if expected and not self.has_version(expected, needed.versions):
                return False
        return all(
            spec.variants[name].satisfies(value)
            if name in spec.variants
            else any(one.make_default().satisfies(value) for one in defaults(package, name))
            for name, value in when.variants.items()
        )

    def has_version(self, spec, versions):
        """Returns whether the version of a package is expected to be one of these."""
        if spec.versions != spack.version.any_version or versions == spack.version.any_version:
            return spec.versions.intersects(versions)
        package = self.repo.get_pkg_class(spec.name)
        if not package.versions:
            return True
        return spack.package_base.preferred_version(package).satisfies(versions)

    def of_system(self, name):
        """Returns the first package with this name that the system has."""
        there = self.packages.get(name, {}).get("externals") or []
        return spack.spec.Spec(there[0]["spec"]) if there else None

    def first_provider(self, virtual):
        """Returns the package that provides a virtual one by preference, in a list."""
        section = self.packages.get(virtual, {})
        named = [one for one in listed(section.get("require")) if isinstance(one, str)]
        named += self.packages.get("all", {}).get("providers", {}).get(virtual, [])
        found = [spack.spec.Spec(one).name for one in named[:1]]
        return found or [spec.name for spec in self.repo.providers_for(virtual)[:1]]


def constrain(spec, asked):
    """Adds what is asked for to a spec, and returns whether that changed it."""
    try:
        return spec.constrain(asked.copy(deps=False))
    except spack.error.SpackError:
        return False  # Others ask for something else.


def listed(value):
    """Returns a value of the configuration that may be one or many as a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def defaults(package, name):
    """Returns the definitions of a variant that have a default."""
    return [one for _, one in package.variant_definitions(name) if one.default is not None]


class Reduced:
    """The class of a package that is deferred: it has the dependencies that it keeps."""

    def __init__(self, package, kept):
        self._package = package
        reduced = {
            when: {name: one for name, one in dependencies.items() if name in kept}
            for when, dependencies in package.dependencies.items()
        }
        self.dependencies = {when: found for when, found in reduced.items() if found}

    def __getattr__(self, name):
        found = getattr(self._package, name)
        # Methods of the class count these dependencies, too.
        if getattr(found, "__self__", None) is self._package:
            return types.MethodType(found.__func__, self)
        return found


class Repository:
    """The package repositories, with deferred packages."""

    def __init__(self, repo, reduced):
        self._repo = repo
        self._reduced = reduced

    def get_pkg_class(self, pkg_name):
        return self._reduced(self._repo.get_pkg_class(pkg_name))

    def __getattr__(self, name):
        return getattr(self._repo, name)


def smaller(setup, deferred):
    """Returns what sets the problem up without the dependencies of deferred packages."""
    made = type(setup)(tests=setup.tests)
    made.concretize_everything = setup.concretize_everything

    def reduced(package):
        if package.name in deferred:
            return Reduced(package, deferred.keeps(package))
        return package

    graph, parser = made.possible_graph, made.requirement_parser
    graph.repo = Repository(graph.repo, reduced)
    dependency_rules, requirement_rules = made.package_dependencies_rules, parser.rules

    def rules(package):
        found = requirement_rules(package)
        if package.name not in deferred:
            this = spack.spec.Spec(package.name)
            asked = [spec for one in found for spec in one.requirements]
            if all(deferred.names_what_it_needs(one, this) for one in asked):
                return found
            raise Unproven(f"{package.name} requires what it does not need itself")
        kept = deferred.keeps(package)
        left_out = [
            one
            for one in found
            if not all(named_dependencies(spec) <= kept for spec in one.requirements)
        ]
        deferred.loosened[package.name] = [one.condition for one in left_out]
        return [one for one in found if one not in left_out]

    made.package_dependencies_rules = lambda package: dependency_rules(reduced(package))
    parser.rules = rules
    return made


def missing(result, setup, deferred):
    """Returns the names of the packages that an answer uses without what it needs of them."""
    return {
        spec.name
        for _, _, answer in result.answers
        for spec in answer.values()
        if spec.name in deferred
        and (
            any(spec.satisfies(when) for when in deferred.loosened.get(spec.name, ()))
            or not (spec.external or spec.dag_hash() in setup.reusable_and_possible)
        )
    }


def asks_dependencies_of_virtuals():
    """Returns whether the configuration asks of a virtual package what depends on others."""
    packages = spack.config.get("packages")
    virtuals = [one for name, one in packages.items() if spack.repo.PATH.is_virtual(name)]
    asked = str([(one.get("require"), one.get("prefer"), one.get("conflict")) for one in virtuals])
    return any(sign in asked for sign in "^%")


def solve_smaller(driver, setup, specs, reuse, settings):
    """Solves smaller problems, until an answer builds nothing that is deferred."""
    deferred = Deferred(specs, reuse)
    while True:
        part = smaller(setup, deferred)
        answer = solve_whole(driver, part, specs, reuse=list(reuse), **settings)
        tty.msg(f"Solved with {len(part.pkgs)} packages, {len(deferred.expected)} of them whole")
        names = missing(answer[0], part, deferred)
        if not names:
            return answer
        deferred.expect(sorted(names))


def solve(driver, setup, specs, reuse=None, **settings):
    """Solves a problem, as the method of Spack that this replaces."""
    if not asks_dependencies_of_virtuals():
        try:
            return solve_smaller(driver, setup, specs, reuse or [], settings)
        except (Unproven, spack.error.SpackError) as error:
            # Spack explains what has no answer better about the whole problem.
            reason = error if isinstance(error, Unproven) else "the smaller one has no answer"
            tty.msg(f"Solving the whole problem: {reason}")
        except Exception as error:  # Another Spack has other parts.
            tty.msg(f"Solving the whole problem: {type(error).__name__}: {error}")
    return solve_whole(driver, setup, specs, reuse=reuse, **settings)


solve_whole = asp.PyclingoDriver.solve
asp.PyclingoDriver.solve = solve

parser = argparse.ArgumentParser()
parser.set_defaults(subparser=parser)
command.setup_parser(parser)
command.concretize(parser, parser.parse_args(["--force"]))
