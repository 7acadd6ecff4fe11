# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hosts of a page, which are the machine itself over ssh. No port is used."""

import os

from kinds import DOCS, not_run

IS_THERE = os.path.exists(f"{DOCS}/programs/ssh")
MISSING = not_run("needs the sshd of the tests, which `scripts/setup test` unpacks")
# `sshd` wants a directory, a user, and an account that is not locked. For the script of root.
SERVER = """
mkdir -p /run/sshd && usermod --password '*' alice
id sshd >/dev/null 2>&1 || useradd --system --home-dir /run/sshd --shell /usr/sbin/nologin sshd
"""


def to(*names, variables="", enter="", of=f"{DOCS}/programs/ssh"):
    """Returns a script of the reader that makes hosts with these names. Programs on them see the variables, too.

    A command that `enter` names starts the server elsewhere, where its programs are in the directory `of`.
    """
    sshd = f"LD_LIBRARY_PATH=$(echo {of}/lib/*-linux-gnu) {of}/sbin/sshd"
    return f"""\
mkdir -p -m 700 ~/.ssh && if [ ! -e ~/.ssh/host ]; then
    ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519 && cp ~/.ssh/id_ed25519 ~/.ssh/host &&
    cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys
fi &&
printf '%s\\n' "HostKey $HOME/.ssh/host" 'UsePAM no' 'PasswordAuthentication no' \
    'SetEnv PATH=/usr/local/bin:/usr/bin:/bin {variables}' > ~/.ssh/sshd-{names[0]} &&
printf '%s\\n' 'Host {" ".join(names)}' 'StrictHostKeyChecking no' 'LogLevel ERROR' \
    "ProxyCommand sudo {enter}env {sshd} -i -f $HOME/.ssh/sshd-{names[0]}" >> ~/.ssh/config &&
"""
