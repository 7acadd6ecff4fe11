# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads the blocks of a page, and compares what commands print with what the page shows."""

import difflib
import re
import subprocess
from dataclasses import dataclass, field

FENCE = re.compile(r"^( *)```(\w*) *$")
PROMPT = re.compile(r"^(?:\([^)]*\) )?(?:\w+@[\w-]+:\S* ?)?\$ (.*)$")
# A comment in a file begins with a capital letter.
ROOT_PROMPT = re.compile(r"^# ([a-z./].*)$")


@dataclass
class Command:
    """A command of a console block, and the output that the page shows."""

    line: int
    text: str
    is_root: bool = False
    output: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A fenced block. `before` is the paragraph in front of it."""

    line: int
    language: str
    lines: list[str]
    before: str

    def commands(self):
        """Returns the commands of a console block."""
        found = []
        for number, line in enumerate(self.lines, self.line + 1):
            prompt, root_prompt = PROMPT.match(line), ROOT_PROMPT.match(line)
            if prompt or root_prompt:
                found.append(Command(number, (prompt or root_prompt)[1], root_prompt is not None))
            elif found and not found[-1].output and wants_more(found[-1].text):
                found[-1].text += "\n" + line.removeprefix("> ")
            elif found:
                found[-1].output.append(line)
        return found


# How bash says that a quote, a bracket, or a loop has no end.
INCOMPLETE = re.compile(r"unexpected (?:EOF|end of file)")


def wants_more(text):
    """Whether the shell waits for another line."""
    here = re.search(r"(?<!<)<<-?\s*['\"]?(\w+)", text)
    if here:
        return here[1] not in text.split("\n")[1:]
    if text.endswith("\\"):
        return True
    read = subprocess.run(
        ["/bin/bash", "-n", "-c", text], env={"LC_ALL": "C"}, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    return INCOMPLETE.search(read.stderr) is not None


def blocks_of(text):
    """Returns the fenced blocks of a page in their order."""
    blocks, paragraph, block = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if block is not None:
            if fence and not fence[2] and fence[1] == indent:
                block = None
                paragraph = []
            else:
                block.lines.append(line.removeprefix(indent))
        elif fence:
            indent = fence[1]
            block = Block(number, fence[2], [], " ".join(paragraph))
            blocks.append(block)
        elif line.strip():
            # The paragraph ends with an empty line, which may follow it in front of the block.
            if not paragraph or paragraph[-1] == "":
                paragraph = []
            paragraph.append(line.strip())
        elif paragraph:
            paragraph.append("")
    return blocks


# What differs from one machine, day, or run to another. On both sides it becomes the same word.
NORMALIZED = [
    (re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"), "DATE"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:B|kB|MB|GB|TB|KiB|MiB|GiB)(?![\w/])"), "SIZE"),
    # How much of a file is new depends on its size.
    (re.compile(r"SIZE of SIZE"), "SIZE"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h|(?:second|minute|hour|day)s?)\b"), "TIME"),
    (re.compile(r"\bhas \d+ bytes and should have \d+"), "has N bytes and should have N"),
    # Digests: also shortened ones.
    (re.compile(r"\b[0-9a-f]{8,}(?:…|\b)"), "DIGEST"),
    # Short hashes of packages from Spack, which depend on the machine.
    (re.compile(r"(@\S+ +)[a-z2-7]{7}(?= +SIZE\b)"), r"\1HASH"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    # What is installed on the machine, and the newest packages of today.
    (re.compile(r"\b\d+\.\d+\.\d+\b(?!/)"), "VERSION"),
    (re.compile(r"\b2\d\.(?:02|05|08|11)\b"), "RELEASE"),
    (re.compile(r"\bpython3\.\d+"), "python3"),
    (re.compile(r"\bcp3\d+\b"), "cp3"),
    (re.compile(r"\b\d+ (packages|files|written)\b"), r"N \1"),
    # Figures, with their deviation.
    (re.compile(r"\b\d+(?:\.\d+)? ± \d+(?:\.\d+)? "), "N ± N "),
    (re.compile(r"\bratio \d+\.\d+"), "ratio N"),
    # States of a channel.
    (re.compile(r"\bnumber \d+"), "number N"),
    # Measured times of a table.
    (re.compile(r"^((?:look up|open|mount|latency, us) +\d+) [\d. ]+$"), r"\1"),
    (re.compile(r"\byou are user \d+"), "you are user N"),
    (re.compile(r"\bcabane-build-\d+"), "cabane-build-N"),
    (re.compile(r"@[a-z]+%\w+"), "@SYSTEM%UARCH"),
    (re.compile(r"\b(?:x86_64|aarch64)\b"), "ARCH"),
    (re.compile(r"\b(?:ext4|xfs|btrfs|overlay|tmpfs|zfs)\b"), "FILESYSTEM"),
    (re.compile(r"[ \t]+"), " "),
]
# What a command says only where the machine has little memory, or the reader has no repository yet.
OF_THE_MACHINE = re.compile(r"^(?:building on the disk: |memory +/|made the repository )")
ELISION = re.compile(r"^ ?(?:…|\.\.\.)$")


def normalized(line):
    """Replaces what may differ in a line."""
    for pattern, word in NORMALIZED:
        line = pattern.sub(word, line)
    return line.rstrip()


def shows_failure(output):
    """Whether the page shows that the command fails."""
    return any(re.match(r"^(?:error|ls|cat|srun|bash): ", line) for line in output)


def difference(expected, seen):
    """Compares what a page shows with what was seen. Returns the lines of the difference, or nothing."""
    expected, seen = (
        [normalized(line) for line in strip_empty(lines) if not OF_THE_MACHINE.match(line)]
        for lines in (expected, seen)
    )
    pattern = ""
    for line in expected:
        if ELISION.match(line):
            pattern += r"(?:.*\n)*"
        else:
            pattern += re.escape(line).replace("…", ".*") + r"\n"
    if re.fullmatch(pattern, "".join(line + "\n" for line in seen)):
        return []
    return list(difflib.ndiff(expected, seen))


def strip_empty(lines):
    """Leaves out empty lines at the end."""
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines
