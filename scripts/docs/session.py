# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A shell in a terminal, as a reader has it, which keeps its directory and variables from one command to the next."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

# Bash prints the first when it has read a command, the second before each prompt, with the exit code, and the third
# when a command needs another line. Shells that the commands start read the same file, so the session goes on in them.
BEGIN, END, MORE = "\x02", "\x03", "\x04"
BASHRC = r"""
PS1='\$ ' PS2=$'\x04' PS0=$'\x02'
PROMPT_COMMAND='printf "\x03%d\x03" $?'
HISTFILE=
"""
ENDED = re.compile(END + r"(\d+)" + END)


class Ended(Exception):
    """The shell ended, or a command did not: what it printed."""


class Session:
    """The shell of a user. It starts in a directory, with these variables only."""

    def __init__(self, user, directory, variables):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            if os.getuid() != user.pw_uid:
                os.initgroups(user.pw_name, user.pw_gid)
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            os.chdir(directory)
            os.umask(0o022)
            os.execve("/bin/bash", ["bash", "--noediting", "-i"], variables)
        # Wide, so that no table is folded.
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self._read(30)

    def run(self, command, limit=180, keys=""):
        """Types a command, and keys once it prints something. Returns its exit code and the lines that it prints."""
        os.write(self.terminal, command.encode() + b"\n")
        code, text = self._read(limit, command.count("\n") + 1, keys)
        # What a terminal shows of a line that is written over.
        lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.replace("\x1b[K", "").split("\n")]
        if lines and lines[-1] == "":
            lines.pop()
        return code, lines

    def _read(self, limit, typed=0, keys=""):
        """Reads up to the next prompt, after so many lines were typed. Returns the exit code and the output."""
        text, last = "", time.monotonic() + limit
        while True:
            before, begun, shown = text.partition(BEGIN)
            if not begun:
                # Before the first prompt, and of a command that it cannot parse, bash runs nothing. The terminal may
                # show what is typed before bash prints the prompt.
                shown = re.sub(r"^[$#] ", "", before.split("\n", typed)[-1])
            ended = ENDED.search(shown)
            if ended:
                return int(ended[1]), shown[: ended.start()].replace(BEGIN, "")
            if begun and shown and keys:
                os.write(self.terminal, keys.encode())
                keys = ""
            if not begun and typed and before.count(MORE) >= typed:
                self.end()
                raise Ended(f"the command is not complete, and the shell waits for another line:\n{before}")
            if not select.select([self.terminal], [], [], max(0, last - time.monotonic()))[0]:
                self.end()
                raise Ended(f"it did not end in {limit} s:\n{text}")
            try:
                part = os.read(self.terminal, 65536)
            except OSError:
                part = b""
            if not part:
                raise Ended(f"the shell ended:\n{text}")
            text += part.decode(errors="replace")

    def end(self):
        """Ends the shell."""
        process, self.process = self.process, None
        # Its number may belong to another process once it was waited for.
        if process is None:
            return
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(self.terminal)
