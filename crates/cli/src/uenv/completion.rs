// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv completion`: commands, options, files, and in bash also the images of the repositories.

use clap_complete::Shell;

use super::args;

/// Adds images where one is expected. A colon ends a word in bash, so tags are left out.
const IMAGES: &str = r#"
_uenv_images() {
    _uenv "$@"
    case " ${COMP_WORDS[*]:1:COMP_CWORD-1} " in
        *" -- "*) return ;;
        *" run "* | *" start "* | *" inspect "* | *" image rm "* | *" image push "*) ;;
        *) return ;;
    esac
    case $2 in
        "" | [a-z0-9]*)
            COMPREPLY+=($(compgen -W "$(uenv image ls --no-header --format='{name}/{version}' 2>/dev/null)" -- "$2"))
            ;;
    esac
}
complete -F _uenv_images -o bashdefault -o default uenv
"#;

/// Returns the script of a shell.
pub(super) fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::completed(), "uenv", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash { script + IMAGES } else { script }
}
