// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin declares by hand is what Slurm's own header says.

use std::fs;
use std::path::Path;

use cabane_testkit::{Finished, World, not_run};

const HEADER: &str = "/usr/include/slurm/spank.h";

/// The numbers that stand in the border of the plugin as `const S_…: c_int = …;`.
fn declared() -> Vec<(String, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slurm/src/ffi.rs");
    let text = fs::read_to_string(source).unwrap();
    let constant = |line: &str| {
        let (name, rest) = line.strip_prefix("const ")?.split_once(": c_int = ")?;
        let is_slurms = name.starts_with("S_");
        is_slurms.then(|| (name.to_owned(), rest.trim_end_matches(';').to_owned()))
    };
    text.lines().filter_map(constant).collect()
}

#[test]
fn numbers_and_the_form_of_options_are_those_of_the_header() {
    if !Path::new(HEADER).is_file() {
        not_run!("there is no {HEADER}: `scripts/setup test` brings it");
    }
    let declared = declared();
    assert!(declared.len() >= 6, "{declared:?}");
    let numbers = declared
        .iter()
        .map(|(name, value)| format!("_Static_assert({name} == {value}, \"{name}\");\n"));
    let text = format!(
        "#include <stddef.h>\n#include <stdint.h>\n#include <slurm/spank.h>\n{}\
         _Static_assert(ESPANK_ENV_NOEXIST == 3004 && ESPANK_NOSPACE == 3005, \"errors\");
         _Static_assert(offsetof(struct spank_option, has_arg) == 24, \"has_arg\");
         _Static_assert(offsetof(struct spank_option, cb) == 32, \"cb\");
         _Static_assert(sizeof(struct spank_option) == 40, \"option\");
         int (*init)(spank_t, int, char **) = slurm_spank_init_post_opt;
         int (*local)(spank_t, int, char **) = slurm_spank_local_user_init;
         int (*task)(spank_t, int, char **) = slurm_spank_task_init_privileged;
         int (*begin)(spank_t, int, char **) = slurm_spank_task_init;
         int (*end)(spank_t, int, char **) = slurm_spank_task_exit;
         spank_err_t (*get)(spank_t, const char *, char *, int) = spank_getenv;
         spank_err_t (*set)(spank_t, const char *, const char *, int) = spank_setenv;
         spank_err_t (*unset)(spank_t, const char *) = spank_unsetenv;
         void (*note)(const char *, ...) = slurm_spank_log;\n",
        numbers.collect::<String>()
    );
    let world = World::new();
    let source = world.file("border.c", &text);
    let mut command = world.command("cc");
    command.args(["-fsyntax-only", "-Werror"]).arg(source);
    let finished = Finished::of(&mut command);
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
}
