# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Starts a shell whose settings do not put other directories before those of the environment.
#
# $0: the shell, if it is there. $1: the directories of the environment in PATH. $2: `bare` for a bash that
# reads no settings. The names begin with `_cabane`, since names without it may be exported variables.
for _cabane_shell in "$0" /bin/bash /bin/sh; do
    [ -x "$_cabane_shell" ] && break
done
export SHELL="$_cabane_shell"
if [ "${_cabane_shell##*/} $2" = "bash bare" ]; then
    exec "$_cabane_shell" --norc
fi

# The start of PATH, down to the last of these directories: a virtual environment may be before them.
_CABANE_PATH=
_cabane_before=
_cabane_left=$PATH:
while [ -n "$_cabane_left" ]; do
    _cabane_before=$_cabane_before:${_cabane_left%%:*}
    case ":$1:" in
    *":${_cabane_left%%:*}:"*) _CABANE_PATH=${_cabane_before#:} ;;
    esac
    _cabane_left=${_cabane_left#*:}
done
# Without a terminal, a shell reads no settings.
if [ -z "$_CABANE_PATH" ] || ! [ -t 0 ]; then
    unset _CABANE_PATH
    exec "$_cabane_shell"
fi
export _CABANE_PATH

case ${_cabane_shell##*/} in
bash)
    exec "$_cabane_shell" --rcfile /proc/self/fd/9 9<<'END'
exec 9<&-
[ ! -r ~/.bashrc ] || . ~/.bashrc
_cabane_path() {
    local all="$_CABANE_PATH" left="$PATH:" one
    while [ -n "$left" ]; do
        one="${left%%:*}" left="${left#*:}"
        case ":$_CABANE_PATH:" in *":$one:"*) ;; *) all="$all:$one" ;; esac
    done
    PATH="$all"
}
_cabane_path
unset -f _cabane_path
unset _CABANE_PATH
END
    ;;
zsh)
    # It reads its first settings from here, and all others from where it would read them.
    _cabane_place=$(mktemp -d) || exec "$_cabane_shell"
    cat >"$_cabane_place/.zshenv" <<'END'
command rm -f "$ZDOTDIR/.zshenv"
command rmdir "$ZDOTDIR"
if [[ -n "$_CABANE_ZDOTDIR" ]]; then ZDOTDIR=$_CABANE_ZDOTDIR; else unset ZDOTDIR; fi
unset _CABANE_ZDOTDIR
[[ ! -r "${ZDOTDIR:-$HOME}/.zshenv" ]] || . "${ZDOTDIR:-$HOME}/.zshenv"
# Before the first prompt, all settings have been read.
_cabane_path() {
    local all="$_CABANE_PATH" left="$PATH:" one
    while [[ -n "$left" ]]; do
        one="${left%%:*}" left="${left#*:}"
        case ":$_CABANE_PATH:" in *":$one:"*) ;; *) all="$all:$one" ;; esac
    done
    PATH="$all"
    precmd_functions=("${(@)precmd_functions:#_cabane_path}")
    unset _CABANE_PATH
    unset -f _cabane_path
}
precmd_functions=(_cabane_path $precmd_functions)
END
    export _CABANE_ZDOTDIR="${ZDOTDIR-}" ZDOTDIR="$_cabane_place"
    ;;
fish)
    exec "$_cabane_shell" --init-command '
begin
    set -l first (string split : -- "$_CABANE_PATH")
    set -l rest
    for one in $PATH
        contains -- $one $first; or set rest $rest $one
    end
    set -gx PATH $first $rest
    set -e _CABANE_PATH
end'
    ;;
*)
    unset _CABANE_PATH
    ;;
esac
exec "$_cabane_shell"
