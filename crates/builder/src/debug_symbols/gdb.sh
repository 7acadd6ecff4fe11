#!/bin/sh
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Starts the next gdb in PATH with the debug files of the images that are loaded.
here=$(cd "${0%/*}/.." && pwd)
directories=${CABANE_DEBUG_PATH:-$here}

# What is found by build ID here need not be asked for again.
urls=
for url in $DEBUGINFOD_URLS; do
    case ":$directories:" in
    *":${url#file://}:"*) ;;
    *) urls="$urls${urls:+ }$url" ;;
    esac
done
if [ -n "$urls" ]; then
    export DEBUGINFOD_URLS="$urls"
else
    unset DEBUGINFOD_URLS
fi

IFS=:
for directory in $PATH; do
    # Directories like this one have no gdb of their own.
    if [ -x "$directory/gdb" ] && ! [ -d "$directory/../.build-id" ]; then
        unset IFS
        exec "$directory/gdb" -iex "set debug-file-directory $directories:/usr/lib/debug" "$@"
    fi
done
echo "gdb: not found in PATH; install it, or load an image that has it" >&2
exit 127
