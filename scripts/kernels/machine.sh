# shellcheck shell=bash
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Part of `scripts/test-kernels` and `scripts/test-slurm`: virtual machines with the kernels of Debian.
# They expect `place`, where the kernels are, and `seconds`, how long a machine may run.

# Its own disk, with what `scripts/setup kernels` has put there.
# shellcheck disable=SC2034  # for those who source this
disk=(-m 2048 -drive "if=virtio,format=raw,snapshot=on,cache=unsafe,file=${place:?}/root.ext4")
# The files of this machine, and its network; what is written goes to memory.
# shellcheck disable=SC2034  # for those who source this
machine=(-m 6144 -nic "user,model=virtio-net-pci" -virtfs
    "local,path=/,mount_tag=machine,security_model=passthrough,readonly=on,multidevs=remap")

# The names of the kernels that are wanted.
chosen() {
    while read -r version suite _; do
        [ -n "${KERNELS:-}" ] || echo "$version"
        for word in ${KERNELS:-}; do
            case $version:$suite in
                "$word":* | "$word".* | *:"$word") echo "$version" ;;
            esac
        done
    done <"$place/list"
}

# What a virtual machine finds beside its disk: the modules of its kernel, and what `furnish` puts into
# a directory, among it `settings`, a script that sets `TESTS`, the command.
pack() {
    local there=$place/$1 tree
    tree=$there/tree
    rm -rf "$tree/cabane"
    mkdir "$tree/cabane"
    install -m 755 scripts/kernels/start "$tree/cabane/"
    furnish "$tree/cabane"
    tar -C "$tree" --owner=0 --group=0 --numeric-owner -cf "$there/tree.tar" cabane lib
    install -m 755 scripts/kernels/boot "$there/initrd/init"
    mkdir -p "$there/initrd"/{dev,disk,lower,proc,sys,upper}
    (cd "$there/initrd" && find . | cpio --quiet -o -H newc -R 0:0) >"$there/initrd.cpio"
}

# Runs the tests in one kernel, with what more the emulator is to have: `"${disk[@]}"` or
# `"${machine[@]}"`. Whatever is written is gone when the virtual machine is.
run() {
    local there=$place/$1 begin=$SECONDS emulator
    rm -f "$there/log" "$there/console"
    # A kernel that reports a mistake of its own ends. The processor is one whose kernel copies in
    # words and not with `rep movsb`, which the emulator does byte by byte.
    timeout --kill-after=5 "${seconds:?}" qemu-system-x86_64 \
        -accel tcg,thread=multi -cpu Nehalem,+rdrand -smp 2 \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$there/vmlinuz" -initrd "$there/initrd.cpio" \
        -append 'console=ttyS0 quiet loglevel=5 panic=-1 oops=panic mitigations=off tsc=reliable' \
        -drive "if=virtio,format=raw,readonly=on,file=$there/tree.tar" \
        -device virtio-rng-pci \
        -serial "file:$there/console" -serial "file:$there/log" "${@:2}" </dev/null >"$there/emulator" 2>&1 &
    emulator=$!
    trap 'kill "$emulator"' TERM
    wait "$emulator"
    echo "$?" >"$there/status"
    echo "$((SECONDS - begin))" >"$there/seconds"
}

# Tells how it went in one kernel, in a line, after what failed. Prints two numbers last.
report() {
    local there=$place/$1 ended result passed failed left_out
    ended=$(sed -n 's/^the virtual machine ends with status //p' "$there/log")
    {
        grep -aE '^test .* \.\.\. FAILED$' "$there/log" | sort -u
        case $ended in 0 | 101) ;; *) how_it_ended "$there" "$ended" ;; esac
        grep -aE 'BUG:|WARNING:|Oops|Kernel panic|blocked for more than' "$there/console" | sort -u
    } | sed 's/^/    /' >&2
    # A test starts itself again, and what it says then comes before the last result.
    result=$(grep -a '^test result: ' "$there/log" | tail -n 1)
    case $ended in
        0 | 101) read -r passed failed < <(CI='' count_cargo_tests "$ended" <<<"$result") ;;
        *)
            passed=$(grep -acE '^test .* \.\.\. ok$' "$there/log")
            failed=$(grep -aE '^test .* \.\.\. FAILED$' "$there/log" | sort -u | wc -l)
            failed=$((failed + 1))
            ;;
    esac
    left_out=$(grep -aoE 'not run: .*' "$there/log" | sed 's/^not run: //' | sort | uniq -c |
        awk '{ n = $1; $1 = ""; sum += n; reasons = reasons (reasons ? ";" : "") $0 }
             END { printf "%d left out%s", sum, (sum ? " (" substr(reasons, 2) ")" : "") }')
    echo "kernel $1: $passed passed, $failed failed, $left_out; $(cat "$there/seconds") s" >&2
    [ "$failed" -eq 0 ] || echo "    the output of the tests is in $there/log" >&2
    echo "$passed $failed"
}

# Why there is no result.
how_it_ended() {
    case $(cat "$1/status"):$2 in
        124:* | 137:*) echo "the tests took longer than $seconds s, and were ended" ;;
        0:) echo "the kernel stopped; its last output is in $1/console" ;;
        0:*) echo "the tests ended with status $2" ;;
        *) echo "the emulator failed: $(tail -n 1 "$1/emulator")" ;;
    esac
}
