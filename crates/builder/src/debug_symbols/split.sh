# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Separates the debug symbols of files, several at a time:
#     split.sh OBJCOPY LIST JOBS
# The list has pairs that end with a zero byte: a file, and the start of the names of the results.
# PATH and all other variables are fixed. What fails leaves only PATH.error.
# shellcheck shell=sh

export OBJCOPY="$1"
# shellcheck disable=SC2016 # The inner shell expands them.
exec xargs -0 -r -n 2 -P "$3" sh -c '
    "$OBJCOPY" --only-keep-debug -- "$1" "$2.debug" 2>"$2.error" &&
        "$OBJCOPY" --strip-debug -- "$1" "$2.rest" 2>"$2.error" &&
        exec rm -- "$2.error"
    rm -f -- "$2.debug" "$2.rest"
' split <"$2"
