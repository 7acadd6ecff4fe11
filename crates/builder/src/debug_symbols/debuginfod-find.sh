#!/bin/sh
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Prints the path of a debug file of the images that are loaded; asks the next debuginfod-find in PATH for others.
IFS=:
if [ "$1" = debuginfo ]; then
    here=$(cd "${0%/*}/.." && pwd)
    rest=${2#??}
    for directory in ${CABANE_DEBUG_PATH:-$here}; do
        file=$directory/.build-id/${2%"$rest"}/$rest.debug
        if [ -f "$file" ]; then
            echo "$file"
            exit 0
        fi
    done
fi
for directory in $PATH; do
    if [ -x "$directory/debuginfod-find" ] && ! [ -d "$directory/../.build-id" ]; then
        unset IFS
        exec "$directory/debuginfod-find" "$@"
    fi
done
exit 1
