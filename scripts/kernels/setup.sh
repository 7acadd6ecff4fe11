# shellcheck shell=sh
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Part of `scripts/setup`: Debian's kernels, and a root file system for an emulator.
#
#     .cabane/kernels/
#     ├── list                 one kernel a line: version, suite, release
#     ├── 6.1.158/             vmlinuz, initrd, the modules that tests need, and a log
#     ├── 6.12.57/
#     └── root.ext4            the disk of the virtual machine, the same for all kernels
#
# Nothing here needs root. Remove the directory to get newer kernels.

KERNEL_SUITES='bookworm trixie sid'

# What starts the machine, in the order that `boot` loads it; then what tests use.
BOOT_MODULES='virtio_pci virtio_blk virtio_rng crc32c_generic crc32c-intel ext4 9pnet_virtio 9p overlay'
TEST_MODULES='squashfs erofs overlay loop fuse dm-mod dm-verity dm-crypt nfs nfsv3 nfsv4 nfsd
    xfs btrfs isofs autofs4 binfmt_misc sha256_generic sha256-ssse3 reed_solomon veth bridge virtio_net'

# What the tests call, with what it needs. Perl and Python come whole.
GUEST_PACKAGES='acl attr base-files base-passwd bash bsdutils busybox-static coreutils cryptsetup-bin
    dash diffutils e2fsprogs erofs-utils findutils fuse3 gawk gcc gdb grep gzip hostname iproute2 keyutils kmod
    libc-bin libc6 libc6-dev libcap2-bin login mount ncurses-base openssl passwd perl procps psmisc python3 sed
    squashfs-tools squashfuse strace sudo sysvinit-utils tar util-linux util-linux-extra xz-utils zstd'

have_kernels() {
    case $(of_distribution ID):$(dpkg --print-architecture 2>/dev/null) in
        debian:amd64) ;;
        *) fail "this needs Debian for amd64, which finds the packages of its kernels" ;;
    esac
    kernels=${root:?}/.cabane/kernels
    mkdir -p "$kernels"
    [ -e "$kernels/root.ext4" ] || have_guest_root
    for suite in $KERNEL_SUITES; do
        grep -qs " $suite " "$kernels/list" && continue
        from_debian "$suite" unpack_kernel "$suite" ||
            say "note: there is no kernel of Debian $suite, and tests in it do not run"
    done
}

# Names of packages and their versions that would be installed on an empty system.
closure() {
    # shellcheck disable=SC2086  # options are words
    apt-get ${apt_options:?} --simulate --no-install-recommends install "$@" 2>>"${log:?}" |
        sed -n 's/^Inst \([^ ]*\) (\([^ ]*\).*/\1 \2/p'
}

# Unpacks the kernel that a suite of Debian has now, and keeps of its modules what tests need.
unpack_kernel() {
    found=$(closure linux-image-amd64 | grep -E '^linux-(image|modules|binary)-[0-9]')
    image=$(echo "$found" | grep -m 1 '^linux-image-')
    [ -n "$image" ] || return
    version=${image#* }
    version=${version%%-*}
    # shellcheck disable=SC2046  # one word is one package
    unpack_packages "kernels/$version.whole" $(echo "$found" | cut -d ' ' -f 1) >/dev/null || return
    # `unpack_packages` has places of its own.
    place=$kernels/$version
    whole=$place.whole
    [ -d "$whole/lib/modules" ] || { mkdir -p "$whole/lib" && mv "$whole/usr/lib/modules" "$whole/lib/"; }
    release=$(ls "$whole/lib/modules")
    find "$whole/lib/modules" -name '*.ko.xz' -exec xz -d {} +
    logged depmod -b "$whole" "$release"
    rm -rf "$place"
    mkdir -p "$place/initrd/bin" "$place/tree"
    copy_modules "$BOOT_MODULES" "$place/initrd" && copy_modules "$BOOT_MODULES $TEST_MODULES" "$place/tree" || return
    # Newer packages have the kernel beside its modules.
    for name in vmlinuz config; do
        for file in "$whole/boot/$name-$release" "$whole/lib/modules/$release/$name"; do
            [ ! -e "$file" ] || mv "$file" "$place/$name"
        done
    done
    [ -e "$place/vmlinuz" ] || return
    rm -rf "$whole"
    cp "$kernels/busybox" "$place/initrd/bin/"
    echo "$version $suite $release" >>"$kernels/list"
    say "unpacked the kernel $version of Debian $suite in .cabane"
}

# Copies modules with all that they need. A kernel without one of them is no mistake here: a test
# that misses it says so.
copy_modules() {
    there=$2/lib/modules/$release
    mkdir -p "$there"
    for module in $1; do
        modprobe -d "$whole" -S "$release" --show-depends "$module" 2>>"$log"
    done | sed -n "s|^insmod $whole/lib/modules/$release/\\([^ ]*\\).*|\\1|p" | awk '!seen[$0]++' >"$there/order"
    # shellcheck disable=SC2046  # one word is one file
    (cd "$whole/lib/modules/$release" && cp --parents $(cat "$there/order") "$there/") || return
    # Without these lists, which not each package has, depmod complains and works.
    for list in modules.builtin modules.builtin.modinfo modules.order; do
        : >"$there/$list"
        [ ! -e "$whole/lib/modules/$release/$list" ] || cp "$whole/lib/modules/$release/$list" "$there/"
    done
    logged depmod -b "$2" "$release"
}

# The disk of the virtual machine: this Debian, with what the tests call. The kernel alone differs
# from one run to the next.
have_guest_root() {
    from_debian "$(of_distribution VERSION_CODENAME)" unpack_guest ||
        fail "the root file system of the virtual machine cannot be made; see $log"
}

unpack_guest() {
    # shellcheck disable=SC2086  # one word is one package
    packages=$(closure $GUEST_PACKAGES | cut -d ' ' -f 1)
    [ -n "$packages" ] || return
    # shellcheck disable=SC2086
    unpack_packages kernels/guest $packages >/dev/null || return
    guest=$kernels/guest
    merge_usr "$guest"
    (cd "$guest/usr/share" && rm -rf doc info locale man)
    cp "$guest/usr/bin/busybox" "$kernels/busybox"
    furnish_guest "$guest" || return
    disk=$kernels/root.ext4
    rm -f "$disk.new"
    truncate -s 4G "$disk.new"
    # For an ordinary user: files belong to root all the same.
    as_mapped_root=
    [ "$(id -u)" -eq 0 ] || as_mapped_root='unshare --map-root-user'
    # shellcheck disable=SC2086  # a command of two words
    (logged $as_mapped_root mke2fs -q -t ext4 -L root -m 0 -E root_owner=0:0 -d "$guest" "$disk.new") || return
    rm -rf "$guest"
    mv "$disk.new" "$disk"
    say "made a root file system for virtual machines in .cabane"
}

# /bin and others are links, as on every system since Debian 12.
merge_usr() {
    for name in bin sbin lib lib64; do
        if [ -d "$1/$name" ] && [ ! -L "$1/$name" ]; then
            mkdir -p "$1/usr/$name"
            cp -a "$1/$name/." "$1/usr/$name/"
            rm -rf "${1:?}/$name"
        fi
        [ -L "$1/$name" ] || ln -s "usr/$name" "$1/$name"
        mkdir -p "$1/usr/$name"
    done
}

# What scripts of packages would do.
furnish_guest() {
    (
        cd "$1" || exit
        mkdir -p cabane dev proc sys run tmp mnt home/tester root etc/cabane var/tmp
        chmod 1777 tmp var/tmp
        chmod 700 root
        cp usr/share/base-passwd/passwd.master etc/passwd
        cp usr/share/base-passwd/group.master etc/group
        sed 's/:.*/:*:19000:0:99999:7:::/' etc/passwd >etc/shadow
        chmod 640 etc/shadow
        for user in 61234 61235 61236 61237; do
            echo "user$user:x:$user:$user::/tmp:/bin/bash" >>etc/passwd
            echo "user$user:x:$user:" >>etc/group
        done
        echo '127.0.0.1 localhost' >etc/hosts
        echo guest >etc/hostname
        : >etc/fstab
        echo user_allow_other >etc/fuse.conf
        ln -sf /proc/self/mounts etc/mtab
        [ -e usr/bin/awk ] || ln -s gawk usr/bin/awk
        [ -e usr/bin/cc ] || ln -s gcc usr/bin/cc
        chmod 4755 usr/bin/fusermount3 usr/bin/mount usr/bin/umount usr/bin/su
    )
}
