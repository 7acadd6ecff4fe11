# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a program with every compiler of the image that PATH has, and runs it.
# $1: where the image is mounted, and then the names of compilers that are left out. Prints for each that fails:
# exit code, path, and a line of a message. At the end: `without`, and how many were left out, and `end`, and
# how many were tried.
printf 'int main(void) { return 0; }\n' >hello.c
printf '#include <iostream>\nint main() { std::cout << "hello" << std::endl; }\n' >hello.cpp
printf 'program hello\nprint *, "hello"\nend program\n' >hello.f90
try() {
    source=$1
    shift
    for name; do
        compiler=$(command -v "$name") || continue
        case $compiler in "$mount"/*) ;; *) continue ;; esac
        case " $except " in
            *" $name "*)
                without=$((without + 1))
                continue
                ;;
        esac
        rm -f hello
        "$compiler" -o hello "$source" </dev/null >output 2>&1 && ./hello >>output 2>&1
        code=$?
        count=$((count + 1))
        if [ "$code" != 0 ]; then
            said=$(grep -i -m 1 -e error -e cannot output || head -n 1 output)
            printf '%s\t%s\t%s\n' "$code" "$compiler" "$said"
        fi
    done
}
mount=$1
shift
except=$*
count=0
without=0
try hello.c gcc clang icx nvc amdclang
try hello.cpp g++ clang++ icpx nvc++ amdclang++
try hello.f90 gfortran flang ifx nvfortran amdflang
printf 'without\t%s\n' "$without"
printf 'end\t%s\n' "$count"
