// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What holds for every text.

use std::path::Path;

use cabane_recipe::{
    ConfigText, Diagnostic, EngineConfig, PythonSource, parse_config, parse_settings,
};
use proptest::prelude::*;

use super::{accepted, parse};

/// Pieces from which something that is nearly a recipe can be made.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "name",
        "engine",
        "python",
        "tree",
        "spack",
        "views",
        "env_vars",
        "set",
        "prepend_path",
        "default",
        "version",
        "store",
        "source",
        "project",
        "wheels",
        "repo",
        "packages",
        ": ",
        ":",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\"",
        "'",
        "&a ",
        "*a",
        "<<",
        "#",
        "!x ",
        "|",
        ">",
        "? ",
        "---\n",
        "\t",
        "\r\n",
        "/opt",
        "$@mount@",
        "${@",
        "~",
        "null",
        "3",
        "yes",
        "true",
        "é",
        "東",
        "\u{1b}",
        "\u{202e}",
        "\u{feff}",
        "%",
        "@",
        "\\",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Checks what must be true of everything that is reported about a text.
fn assert_well_reported(diagnostics: &[Diagnostic], text: &str) -> Result<(), TestCaseError> {
    prop_assert!(!diagnostics.is_empty());
    let lines = text.replace("\r\n", "\n").matches(['\n', '\r']).count() + 1;
    for diagnostic in diagnostics {
        let shown = diagnostic.to_string();
        prop_assert!(diagnostic.line as usize <= lines, "{}", shown);
        prop_assert!(diagnostic.column >= 1, "{}", shown);
        prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{:?}", shown);
        prop_assert!(shown.lines().all(|line| line.chars().count() < 400), "{}", shown);
        prop_assert!(!diagnostic.message.ends_with('.'), "{}", shown);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_nearly_a_recipe_is_read_or_refused_with_places(text in pieces()) {
        if let Err(error) = parse(&text) {
            assert_well_reported(error.diagnostics(), &text)?;
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_config(&ConfigText { path: Path::new("f"), text: &bytes });
        let _ = parse_settings(Path::new("f"), &bytes);
    }

    #[test]
    fn what_is_nearly_a_configuration_is_read_or_refused_with_places(
        text in "((color|build|jobs|repositories|name|path)| |=|\\[|\\]|\"|'|\n|[1-9a-c/$~{}.,#\\\\é])*",
    ) {
        if let Err(error) = parse_settings(Path::new("f"), text.as_bytes()) {
            assert_well_reported(error.diagnostics(), &text)?;
        }
    }

    #[test]
    fn a_recipe_cut_off_anywhere_is_read_or_refused_with_places(cut in 0usize..300) {
        let whole = "name: mpi-python\nengine: python\npython:\n  requirements: \"r.txt\"\n  \
                     wheels: [a.whl, 'b.whl']\nviews:\n  default:\n    env_vars:\n      \
                     set:\n        - A: ${@HOME@}/b\n        - &c {C: $@mount@/d}\n        - *c\n";
        let text = &whole[..cut.min(whole.len())];
        if let Err(error) = parse(text) {
            assert_well_reported(error.diagnostics(), text)?;
        }
    }

    #[test]
    fn names_and_paths_come_out_as_they_went_in(
        name in "[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}",
        file in "[a-z0-9_]{1,10}(/[a-z0-9_.-]{1,10}){0,3}",
        value in "[ -~&&[^'$]]{0,40}",
    ) {
        let recipe = accepted(&format!(
            "name: '{name}'\nengine: python\npython: {{requirements: '{file}'}}\n\
             views: {{v: {{env_vars: {{set: [{{A: '{value}'}}]}}}}}}\n"
        ));
        prop_assert_eq!(recipe.name.as_str(), name);
        prop_assert_eq!(recipe.views["v"].env_vars.set[0].1.as_deref(), Some(value.as_str()));
        let EngineConfig::Python(python) = recipe.engine else { panic!("another engine") };
        prop_assert_eq!(python.source, PythonSource::Requirements(file.into()));
    }
}
