# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares the other MPI implementations of the image, as `messages.py` compares the first: another version, and Open MPI."""

from messages import OTHERS, main
from ways import section

if __name__ == "__main__":
    section("implementations", lambda: main(OTHERS))
