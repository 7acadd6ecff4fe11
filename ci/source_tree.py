# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the checks share: the files of the project, and Rust code without comments and strings."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Not part of the project, where there is no git to tell.
FOREIGN = {".git", ".cabane", "target", "__pycache__"}


@functools.cache
def files():
    """The files that git keeps or would keep, as paths relative to the root."""
    # A clone may belong to another user than the one that runs the checks.
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
    listing = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if listing.returncode == 0:
        names = {Path(os.fsdecode(name)) for name in listing.stdout.split(b"\0") if name}
    else:
        names = {path.relative_to(ROOT) for path in ROOT.rglob("*")}
        names = {name for name in names if not FOREIGN & set(name.parts)}
    return sorted(name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink())


def text_of(name):
    """The text of a file, or None for something else than text."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def rust_files(under="crates"):
    """The Rust sources of the crates."""
    return [name for name in files() if name.suffix == ".rs" and name.parts[0] == under]


def crate_of(name):
    """`label` for crates/label/src/lib.rs."""
    return name.parts[1]


def line_of(text, position):
    """The number of the line at a position."""
    return text.count("\n", 0, position) + 1


# Comments, strings and characters of Rust; what is left over is code. A quote that
# begins a lifetime matches none of the alternatives.
WORDS = re.compile(
    r"""
      (?P<comment> //[^\n]* )
    | (?P<block> /\* )
    | (?P<raw> \b[bc]?r(?P<hashes>\#*)" .*? "(?P=hashes) )
    | (?P<string> \b[bc]?"(?:\\.|[^"\\])*" | "(?:\\.|[^"\\])*" )
    | (?P<char> \bb?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])' | '(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])' )
    """,
    re.VERBOSE | re.DOTALL,
)


def end_of_block_comment(text, start):
    """Block comments nest in Rust."""
    depth, position = 0, start
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        position = mark.end()
        if depth == 0:
            return position
    return len(text)


def split(text):
    """Returns the code, everything else blanked, and the string literals with their
    positions."""
    code, strings, position = list(text), [], 0
    while match := WORDS.search(text, position):
        start, end = match.span()
        if match.group("block"):
            end = end_of_block_comment(text, start)
        if match.group("raw") or match.group("string"):
            strings.append((start, match.group()))
        for i in range(start, end):
            if code[i] != "\n":
                code[i] = " "
        position = end
    return "".join(code), strings


def end_of_braces(code, start):
    """The position after the block that opens at or after `start`, or of the next `;`
    when that comes first."""
    depth = 0
    for i in range(start, len(code)):
        if code[i] == ";" and depth == 0:
            return i + 1
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0 and code[i] == "}":
            return i + 1
    return len(code)


def test_ranges(code):
    """Where the code is that is compiled for tests only."""
    return [(m.start(), end_of_braces(code, m.end()))
            for m in re.finditer(r"#\[cfg\(test\)\]", code)]


def is_test_file(name):
    """Integration tests, benches, and the file of a module of tests."""
    return bool({"tests", "benches"} & set(name.parts[2:])) or name.name == "tests.rs"


def without_tests(name, code):
    """The code that ends up in the product."""
    if is_test_file(name):
        return ""
    for start, end in test_ranges(code):
        code = code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]
    return code


def target_directory():
    """Where cargo puts what it builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def cargo_metadata(*options):
    """What cargo knows about the workspace."""
    answer = subprocess.run(
        [str(ROOT / "scripts/env"), "cargo", "metadata", "--format-version", "1", *options],
        stdout=subprocess.PIPE, cwd=ROOT, check=False)
    if answer.returncode != 0:
        sys.exit("cargo metadata failed")
    return json.loads(answer.stdout)


def report(problems, praise):
    """Prints the problems and exits with 1, or prints one line when there are none."""
    name = Path(sys.argv[0]).name
    problems = list(problems)
    for problem in problems:
        print(f"{name}: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"ok {name}: {praise}")


if __name__ == "__main__":
    # For the checks that are written in shell.
    print(*files(), sep="\n")
