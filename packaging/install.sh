#!/bin/sh
# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Installs Cabane from the directory of this file. Uses no network, and runs nothing but `cabane` itself.
#
#     ./install.sh                      below /usr/local as root, and otherwise below ~/.local
#     ./install.sh --prefix DIRECTORY   below another directory
#     ./install.sh --uninstall          removes what was installed, except a policy that you have changed
#
# Root also installs the set-uid helper, its policy, and the plugins for Slurm. Variables:
#
#     IMAGE_OWNERS   whose images the kernel may read: `root`, `any`, or numbers of users
#     MOUNT_POINTS   where images may be mounted: /user-environment /user-tools /user-environment-debug
#     HELPER=no      installs neither the helper nor its policy
#     UENV=yes       makes links, by which the command is called uenv and squashfs-mount; UENV=no removes them
#     DESTDIR        installs for the root file system in this directory

set -eu
umask 022
export LC_ALL=C
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
destination=${DESTDIR:-}
prefix=${PREFIX:-}
action=install

fail() {
    echo "error: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -gt 1 ] || fail "--prefix needs a directory"; prefix=$2; shift ;;
        --prefix=*) prefix=${1#*=} ;;
        --uninstall) action=uninstall ;;
        -h | --help) sed -n '5,18s/^# \{0,1\}//p' "$0"; exit ;;
        *) fail "unknown argument $1; \`$0 --help\` lists them" ;;
    esac
    shift
done
if [ "$(id -u)" -eq 0 ]; then
    root=yes prefix=${prefix:-/usr/local}
else
    root=no prefix=${prefix:-${HOME:?}/.local}
fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
prefix=${prefix%/}
policy=/etc/cabane/mount.policy
# What was installed: one kind and path a line, without $DESTDIR.
manifest=$prefix/lib/cabane/installed
work=$(mktemp -d)
trap 'keep_manifest; rm -rf "$work"' EXIT
touch "$work/new"
# Not empty, since an empty list of patterns is everything for BusyBox.
echo - >"$work/gone"

# Also after an error: a later `--uninstall` finds what was installed before it.
keep_manifest() {
    [ -s "$work/new" ] && [ -d "$destination$prefix/lib/cabane" ] || return 0
    [ ! -f "$destination$manifest" ] || grep -vFxf "$work/gone" "$destination$manifest" >>"$work/new" || true
    sort -u "$work/new" >"$destination$manifest"
}

# Makes a directory, and those above it.
directory() {
    [ ! -d "$destination$1/" ] || return 0
    directory "${1%/*}"
    mkdir -m 0755 "$destination$1"
    own "$destination$1"
    echo "directory $1" >>"$work/new"
}

# Also where a directory gives its group to what is made in it.
own() { [ "$root" = no ] || chown 0:0 "$@"; }

# put FILE PATH MODE: replaces a file by renaming. Programs that run keep the old one.
put() {
    directory "${2%/*}"
    echo "file $2" >>"$work/new"
    rm -f "$destination$2.new"
    cp "$1" "$destination$2.new"
    own "$destination$2.new"
    chmod "$3" "$destination$2.new"
    mv -f "$destination$2.new" "$destination$2"
}

verify() {
    (cd "$here" && sha256sum -c SHA256SUMS) >"$work/sums" 2>&1 || {
        grep -v ': OK$' "$work/sums" >&2
        fail "these files are not as they were packed, and nothing was installed; get the archive again"
    }
    [ -n "$destination${INSTALL_COMMAND:-}" ] || "$here/bin/cabane" --version >/dev/null ||
        fail "$here/bin/cabane does not run here ($(uname -sm)), and nothing was installed"
    sed 's/^[0-9a-f]*  //' "$here/SHA256SUMS" >"$work/files"
}

# Manual pages, completions, documentation, examples: whole directories at once.
install_shared() {
    grep '^share/' "$work/files" | while read -r file; do
        if [ -x "$here/$file" ]; then echo "0755 ${file%/*} ${file##*/}"; else echo "0644 ${file%/*} ${file##*/}"; fi
    done | sort >"$work/shared"
    cut -d ' ' -f 1,2 "$work/shared" | uniq | while read -r mode place; do
        directory "$prefix/$place"
        to=$destination$prefix/$place
        sed -n "s|^$mode $place ||p" "$work/shared" >"$work/names"
        # shellcheck disable=SC2016  # the inner shell expands it
        (cd "$here/$place" && xargs sh -c 'cp -f "$@" "$0/"' "$to" <"$work/names")
        (cd "$to" && xargs chmod "$mode" <"$work/names")
        [ "$root" = no ] || (cd "$to" && xargs chown 0:0 <"$work/names")
    done
    sed -n "s|^share/|file $prefix/&|p" "$work/files" >>"$work/new"
}

# The command is what it is called.
install_links() {
    directory "$prefix/bin"
    for name in uenv squashfs-mount; do
        link=$destination$prefix/bin/$name
        [ ! -e "$link" ] || [ -L "$link" ] ||
            fail "$link is another program; remove it, or install without UENV=yes"
        echo "file $prefix/bin/$name" >>"$work/new"
        ln -sfn cabane "$link"
    done
    ln -s "$here/bin/cabane" "$work/uenv"
    for place in bash-completion/completions/uenv zsh/site-functions/_uenv fish/vendor_completions.d/uenv.fish; do
        shell=${place%%/*}
        "$work/uenv" completion "${shell%-completion}" >"$work/completion"
        put "$work/completion" "$prefix/share/$place" 0644
    done
}

install_helper() {
    put "$here/libexec/cabane/cabane-mount" "$prefix/libexec/cabane/cabane-mount" 4755
    echo "installed the set-uid helper $prefix/libexec/cabane/cabane-mount"
    points=
    for point in ${MOUNT_POINTS:-/user-environment /user-tools /user-environment-debug}; do
        directory "$point"
        points="$points\\nmount-point $point"
    done
    if [ -e "$destination$policy" ]; then
        echo "kept its policy $policy"
        return
    fi
    sed -e "s|@MOUNT_POINTS@|${points#??}|" -e "s|@IMAGE_OWNERS@|${IMAGE_OWNERS:-root}|" \
        "$here/mount.policy" >"$work/policy"
    put "$work/policy" "$policy" 0644
    sed -i "s|^file $policy\$|policy $(sha256sum <"$work/policy" | cut -c 1-64)|" "$work/new"
    echo "installed its policy $policy: image-owners ${IMAGE_OWNERS:-root}"
}

install_plugins() {
    sed -n 's|^lib/cabane/slurm/||p' "$work/files" | while read -r plugin; do
        put "$here/lib/cabane/slurm/$plugin" "$prefix/lib/cabane/slurm/$plugin" 0644
        echo "installed the plugin for Slurm ${plugin%/*}"
    done
}

install_all() {
    directory "$prefix/lib/cabane"
    install_shared
    # For hints of the command.
    echo "${INSTALLED_BY:-archive $here}" >"$work/by"
    put "$work/by" "$prefix/share/cabane/installed-by" 0644
    if [ "${UENV:-no}" = yes ] || { [ -z "${UENV:-}" ] && installed "$prefix/bin/uenv"; }; then install_links; fi
    echo "installed cabane below $prefix"
    if [ "$root" = no ]; then
        echo "not installed, because that needs root: the set-uid helper, and the plugins for Slurm"
        echo "You can build and start images without them: they are mounted through FUSE, for you alone."
        echo "For all users, and for \`srun --uenv=IMAGE\`, an administrator types: sudo ${INSTALL_COMMAND:-$here/install.sh}"
    else
        [ "${HELPER:-yes}" = no ] || install_helper
        install_plugins
    fi
    # The command comes last: an update that is killed before leaves the old one, which updates again.
    put "$here/bin/cabane" "$prefix/bin/cabane" 0755
    remove_old
    case :$PATH: in
        *:"$prefix/bin":*) ;;
        *) [ -n "$destination" ] || echo "hint: export PATH=$prefix/bin:\$PATH" ;;
    esac
}

# Root removes nothing because of a list that another user could write, and nothing elsewhere.
check_manifest() {
    [ -f "$destination$manifest" ] || return 0
    [ "$root" = no ] || [ "$(stat -c %u "$destination$manifest")" = 0 ] ||
        fail "$manifest does not belong to root; its owner types: $0 --prefix $prefix --uninstall"
    while read -r kind path; do
        case $kind:$path in
            */../*) fail "$manifest has a path with ..: $path" ;;
            file:"$prefix"/* | file:"$policy" | directory:* | policy:*) ;;
            *) fail "$manifest has a path that is not below $prefix: $path" ;;
        esac
    done <"$destination$manifest"
}

installed() { grep -qsFx "file $1" "$destination$manifest"; }

# Removes files that this version has no more. Slurm may still use a plugin for another release.
remove_old() {
    [ -f "$destination$manifest" ] || return 0
    sed -n 's/^file //p' "$destination$manifest" | while read -r path; do
        case $path in "$prefix"/lib/cabane/slurm/* | "$prefix/libexec/"*) continue ;; esac
        if ! grep -qFx "file $path" "$work/new"; then
            rm -f "$destination$path"
            echo "file $path" >>"$work/gone"
        fi
    done
}

uninstall() {
    [ -f "$destination$manifest" ] || fail "there is no $manifest: Cabane was not installed there in this way"
    # With such a line and no plugin, Slurm starts no job.
    ! grep -qs "^[^#]*$prefix/lib/cabane/slurm/" "$destination/etc/slurm/plugstack.conf" \
        "$destination/etc/slurm/plugstack.conf.d"/* ||
        fail "Slurm loads the plugin; first type: $prefix/bin/cabane slurm install --remove"
    [ -n "$destination" ] || [ "$root" = no ] || "$prefix/bin/cabane" clean --mounts >/dev/null 2>&1 || true
    sort -r "$destination$manifest" >"$work/old"
    rm -f "$destination$manifest"
    while read -r kind path; do
        case $kind in
            file) rm -f "$destination$path" ;;
            policy)
                if echo "$path  $destination$policy" | sha256sum -c >/dev/null 2>&1; then
                    rm -f "$destination$policy"
                elif [ -e "$destination$policy" ]; then
                    echo "kept $policy, which was changed"
                fi
                ;;
        esac
    done <"$work/old"
    # Those below come before those above.
    sed -n 's/^directory //p' "$work/old" | while read -r path; do
        rmdir "$destination$path" 2>/dev/null || true
    done
    echo "removed cabane from $prefix"
}

check_manifest
if [ "$action" = uninstall ]; then
    uninstall
else
    verify
    [ -z "$destination" ] || mkdir -p "$destination"
    install_all
fi
