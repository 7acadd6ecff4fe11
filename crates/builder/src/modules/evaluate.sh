# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Loads modules as the function `module` does, and writes the variables before and after:
#     evaluate.sh MODULE-COMMAND DIRECTORY MODULE…
# Only builtins run after the modules are loaded: they may have changed PATH and LD_LIBRARY_PATH.
# shellcheck shell=bash

cabane_command=$1
cabane_out=$2
shift 2

cabane_variables() {
    local name
    for name in $(compgen -e); do printf '%s=%s\0' "$name" "${!name}"; done
}

cabane_code=$("$cabane_command" bash load "$@" 2>"$cabane_out/errors")
cabane_status=$?
printf '%s\n' "$(<"$cabane_out/errors")" >&2
printf '%s\n' "$cabane_code" >"$cabane_out/code"
cabane_variables >"$cabane_out/before"
eval "$cabane_code"
cabane_status=$((cabane_status | $?))
cabane_variables >"$cabane_out/after"
compgen -a >"$cabane_out/aliases"
compgen -A function | while read -r name; do
    case $name in cabane_*) ;; *) printf '%s\n' "$name" ;; esac
done >"$cabane_out/functions"
printf '%s\n' "$cabane_status" >"$cabane_out/status"
