# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Starts every program of the image that PATH has, with --version.
# $1: where the image is mounted. Prints for each: exit code, path, and the first line of a message.
limit=$(command -v timeout >/dev/null && echo 'timeout --kill-after=1 10')
IFS=:
for directory in $PATH; do
    case $directory/ in "$1"/*) ;; *) continue ;; esac
    unset IFS
    for program in "$directory"/*; do
        if [ ! -f "$program" ] || [ ! -x "$program" ]; then
            continue
        fi
        $limit "$program" --version </dev/null >output 2>&1
        code=$?
        said=
        case $code in
            124 | 137) code=0 ;;
            *) IFS= read -r said <output ;;
        esac
        printf '%s\t%s\t%s\n' "$code" "$program" "$said"
    done
    IFS=:
done
