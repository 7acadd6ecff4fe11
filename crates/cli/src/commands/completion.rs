// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane completion`: what a shell reads when it starts.

use cabane_report::{IoContext, Result};
use clap::Args;

use crate::complete::{prompt, script};
use crate::setup::Setup;

/// Print shell code for tab completion and the prompt
#[derive(Debug, Args)]
#[command(after_help = "\
Add one line to the end of the file that your shell reads when it starts:
  ~/.bashrc                   source <(cabane completion bash)
  ~/.zshrc, after compinit    source <(cabane completion zsh)
  ~/.config/fish/config.fish  cabane completion fish | source
  ~/.tcshrc                   eval \"`cabane completion tcsh`\"

For tcsh, the code only shows the prompt.")]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "tcsh", "zsh"])]
    shell: String,
    /// Leave the prompt as it is
    #[arg(long)]
    no_prompt: bool,
}

pub(crate) fn completion(setup: &Setup, args: &CompletionArgs) -> Result<()> {
    let shell = &args.shell;
    let script = script(shell, "cabane", "cabane");
    let mut text =
        script.or_failed(|| format!("write the script for {shell}"))?.unwrap_or_default();
    if !args.no_prompt {
        text += &prompt(shell, "cabane");
    }
    setup.printer.data(text);
    Ok(())
}
