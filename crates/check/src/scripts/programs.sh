# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Starts every program of the image that PATH has, with --version.
# $1: where the image is mounted, and then the names of programs that are left out. Prints for each that does
# not start: exit code, path, and the first line of a message. At the end: `without`, and how many were left
# out, and `end`, and how many were started.
limit=
if timeout --kill-after=1 10 true 2>/dev/null; then
    limit='timeout --kill-after=1 10'
fi
mount=$1
shift
is_left_out() {
    wanted=$1
    shift
    for name; do
        if [ "$name" = "$wanted" ]; then
            return 0
        fi
    done
    return 1
}
count=0
without=0
IFS=:
for directory in $PATH; do
    case $directory/ in "$mount"/*) ;; *) continue ;; esac
    unset IFS
    for program in "$directory"/*; do
        if [ ! -f "$program" ] || [ ! -x "$program" ]; then
            continue
        fi
        if is_left_out "${program##*/}" "$@"; then
            without=$((without + 1))
            continue
        fi
        count=$((count + 1))
        $limit "$program" --version </dev/null >output 2>&1
        code=$?
        said=
        # A program that rejects the option has started, and so has one that waits for something.
        if grep -q -e 'error while loading shared libraries' -e 'symbol lookup error' \
            -e "' not found (required by" output; then
            code=127
        fi
        case $code in
            126 | 127 | 132 | 134 | 135 | 136 | 139 | 159)
                IFS= read -r said <output
                printf '%s\t%s\t%s\n' "$code" "$program" "$said"
                ;;
        esac
    done
    IFS=:
done
printf 'without\t%s\n' "$without"
printf 'end\t%s\n' "$count"
