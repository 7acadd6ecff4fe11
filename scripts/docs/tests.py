# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of what `scripts/test-docs` reads and types; `ci/check-pages` runs them."""

import os
import pwd
import tempfile
import unittest
from pathlib import Path

import blocks
import kinds
import run
from session import BASHRC, Ended, Session


def typed(*lines):
    """Returns the commands of a console block, each with its output."""
    (block,) = blocks.blocks_of("\n".join(["```console", *lines, "```"]))
    return [(command.text, command.output) for command in block.commands()]


class Commands(unittest.TestCase):
    """Where a command of a block ends, and its output begins."""

    def test_quoted_text_over_two_lines_is_one_command(self):
        for quote in "'", '"':
            first, second = f"$ printf '%s\\n' {quote}a b", f"c d{quote}"
            self.assertEqual(typed(first, second, "a b", "c d"), [(f"{first[2:]}\n{second}", ["a b", "c d"])])

    def test_a_loop_over_three_lines_is_one_command(self):
        lines = ["$ for n in 1 2; do", "    echo $n", "done", "1", "2", "$ true"]
        self.assertEqual(typed(*lines), [("for n in 1 2; do\n    echo $n\ndone", ["1", "2"]), ("true", [])])

    def test_a_here_document_is_one_command_with_quotes_that_have_no_end(self):
        lines = ["$ cat <<EOF", "it's here", "EOF", "it's here"]
        self.assertEqual(typed(*lines), [("cat <<EOF\nit's here\nEOF", ["it's here"])])

    def test_a_here_string_is_no_here_document(self):
        self.assertEqual(typed("$ cat <<<word", "word"), [("cat <<<word", ["word"])])

    def test_a_line_that_ends_with_a_backslash_goes_on(self):
        self.assertEqual(typed("$ echo a \\", "> b", "a b"), [("echo a \\\nb", ["a b"])])

    def test_quotes_in_output_and_in_comments_open_nothing(self):
        lines = ["$ ls x  # it's gone", "ls: cannot access 'x", "$ echo it\\'s", "it's"]
        self.assertEqual(
            typed(*lines), [("ls x  # it's gone", ["ls: cannot access 'x"]), ("echo it\\'s", ["it's"])]
        )

    def test_what_bash_does_not_parse_ends_with_its_line(self):
        self.assertEqual(typed("$ cabane run mpi<Tab>", "output"), [("cabane run mpi<Tab>", ["output"])])

    def test_the_commands_of_all_pages_are_complete(self):
        # Some run a second time, on a cluster.
        pages = {name.removesuffix(kinds.ON_CLUSTER) for name in run.names_of([])}
        self.assertIn("README.md", pages)
        for name in pages:
            for block in blocks.blocks_of((run.CLONE / name).read_text()):
                for command in block.commands() if block.language == "console" else []:
                    with self.subTest(page=name, line=command.line):
                        self.assertFalse(blocks.wants_more(command.text), command.text)


class Comparing(unittest.TestCase):
    """What may differ from one machine to another."""

    def test_the_short_hash_of_a_package_may_differ_and_its_name_may_not(self):
        shown = "package bzip2@1.0.8         vjysts6  280 kB  2026-11-27  /user-environment"
        self.assertEqual(blocks.difference([shown], [shown.replace("vjysts6", "a2b3c4d")]), [])
        self.assertNotEqual(blocks.difference([shown], [shown.replace("bzip2", "bzip3")]), [])


class Typing(unittest.TestCase):
    """A real shell in a real terminal."""

    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = home.name
        (Path(self.home) / ".bashrc").write_text(BASHRC)
        variables = {"HOME": self.home, "PATH": "/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
        self.session = Session(pwd.getpwuid(os.getuid()), self.home, variables)
        self.addCleanup(self.session.end)

    def test_the_output_and_the_exit_code_of_a_command_are_seen(self):
        self.assertEqual(self.session.run("echo one; echo two; (exit 3)"), (3, ["one", "two"]))

    def test_keys_are_typed_once_a_command_prints_something(self):
        command = "stty -echo; printf 'choose: '; read -rn 1 key; stty echo; echo $key"
        self.assertEqual(self.session.run(command, keys="y"), (0, ["choose: y"]))
        self.assertEqual(self.session.run("echo after"), (0, ["after"]))

    def test_quoted_text_over_two_lines_is_typed(self):
        self.assertEqual(self.session.run("printf '%s\\n' 'one\ntwo'"), (0, ["one", "two"]))
        self.assertEqual(self.session.run("echo after"), (0, ["after"]))

    def test_a_here_document_and_a_loop_are_typed(self):
        self.assertEqual(self.session.run("cat <<EOF\nit's here\nEOF"), (0, ["it's here"]))
        self.assertEqual(self.session.run("for n in 1 2; do\necho $n\ndone"), (0, ["1", "2"]))

    def test_the_session_ends_at_once_if_a_quote_has_no_end(self):
        for command in "echo 'one", "echo 'one\ntwo":
            with self.assertRaisesRegex(Ended, "the shell waits for another line"):
                self.setUp()
                self.session.run(command)

    def test_a_command_that_bash_does_not_parse_fails_and_the_session_goes_on(self):
        code, lines = self.session.run("echo )")
        self.assertEqual(code, 2)
        self.assertRegex(lines[0], "^bash: syntax error near unexpected token")
        self.assertEqual(self.session.run("echo after"), (0, ["after"]))

    def test_the_directory_and_variables_are_kept_and_a_shell_in_the_shell_is_followed(self):
        self.session.run("mkdir there && cd there && export HERE=kept")
        self.assertEqual(self.session.run("bash --noediting"), (0, []))
        self.assertEqual(self.session.run('echo "${PWD##*/} $HERE"'), (0, ["there kept"]))
        self.assertEqual(self.session.run("exit"), (0, ["exit"]))
        self.assertEqual(self.session.run("echo $SHLVL"), (0, ["1"]))

    def test_a_line_that_is_written_over_is_seen_as_a_terminal_shows_it(self):
        self.assertEqual(self.session.run("printf 'half\\rall \\n'"), (0, ["all "]))
