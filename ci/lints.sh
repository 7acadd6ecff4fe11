# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# Has cargo compile the workspace with the warnings of clippy and rustdoc. A compiler newer than the one this was last made
# clean with brings new opinions; those of the pedantic kind are no warnings there, so that a fresh machine can pass.

known=1.95
found=$(scripts/env rustc --version | sed -E 's/^rustc ([0-9]+\.[0-9]+).*/\1/')
CLIPPY_ARGS=
if [ "$(printf '%s\n%s\n' "$known" "$found" | sort -V | tail -n 1)" != "$known" ]; then
    CLIPPY_ARGS=-A__CLIPPY_HACKERY__clippy::pedantic__CLIPPY_HACKERY__
fi
# Where only cargo and rustc are in PATH.
PATH=$PATH:$(scripts/env rustc --print sysroot)/bin
export PATH CLIPPY_ARGS RUSTC_WORKSPACE_WRAPPER="$PWD/ci/lint-rustc"
