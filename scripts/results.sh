# shellcheck shell=bash
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# How the scripts that run tests tell the result: one last line, the same everywhere.

# Prints the line, and fails if anything has failed.
summary() {
    echo "$1 passed, $2 failed"
    [ "$2" -eq 0 ]
}

# Adds up what `cargo test` has printed; reads its output, takes its exit code.
# Prints two numbers: passed and failed. In CI a test that was left out has failed.
count_cargo_tests() {
    awk -v status="$1" -v ci="${CI:+yes}" '
        /^test result: / {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) == "passed;") passed += $i
                if ($(i + 1) == "failed;") failed += $i
                if ($(i + 1) == "ignored;" && ci) failed += $i
            }
        }
        END {
            # What did not compile, or crashed, has printed no result.
            if (status != 0 && failed == 0) failed = 1
            if (passed == 0 && failed == 0) failed = 1
            printf "%d %d\n", passed, failed
        }'
}

# Reads the two numbers from the last line that `summary` has printed.
numbers_of_summary() {
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' | tail -n 1
}
