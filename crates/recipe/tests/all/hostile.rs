// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files that are made to harm: they are refused for a reason, and cheaply.
//!
//! How cheaply is not measured here; the module `memory` runs these tests once
//! more with little memory, and a test that takes seconds is noticed.

use std::fmt::Write as _;
use std::path::Path;

use cabane_recipe::{ConfigText, MAX_FILE_SIZE, parse_config, parse_settings};

const LEVELS: usize = 50_000;
const TOO_DEEP: &str = "lists and sections are nested more than 32 deep";

/// Returns the first line that the author sees, without the file.
fn refusal(text: impl AsRef<[u8]>) -> String {
    let config = ConfigText { path: Path::new("config.yaml"), text: text.as_ref() };
    let reported = parse_config(&config).unwrap_err().to_string();
    let first = reported.lines().next().unwrap_or_default();
    first.splitn(4, ':').nth(3).unwrap_or_default().trim().to_owned()
}

fn assert_refused(text: impl AsRef<[u8]>, reason: &str) {
    assert_eq!(refusal(text), reason);
}

#[test]
fn fifty_thousand_open_lists_are_refused() {
    assert_refused("[".repeat(LEVELS), TOO_DEEP);
}

#[test]
fn fifty_thousand_closed_lists_are_refused() {
    assert_refused("[".repeat(LEVELS) + &"]".repeat(LEVELS), TOO_DEEP);
}

#[test]
fn fifty_thousand_lists_of_hyphens_are_refused() {
    assert_refused("- ".repeat(LEVELS), TOO_DEEP);
}

#[test]
fn fifty_thousand_sections_in_braces_are_refused() {
    assert_refused("{a: ".repeat(LEVELS), TOO_DEEP);
}

#[test]
fn fifty_thousand_question_marks_are_refused() {
    assert_refused("? ".repeat(LEVELS), "a list or a section cannot be a key");
}

#[test]
fn sections_indented_thousands_of_times_are_refused() {
    let mut text = String::new();
    for level in 0..2_000 {
        let _ = writeln!(text, "{:level$}a:", "");
    }
    assert_refused(text, TOO_DEEP);
}

#[test]
fn lists_and_sections_in_turns_are_refused() {
    assert_refused("[{a: ".repeat(1_000), TOO_DEEP);
}

#[test]
fn aliases_that_stand_for_billions_of_values_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{},", level - 1).repeat(9);
        let _ = writeln!(text, "a{level}: &a{level} [{alias}]");
    }
    assert_refused(text, "the file has more than 20000 values");
}

#[test]
fn aliases_of_a_long_text_are_refused() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(60_000), "*a,".repeat(15_000));
    assert_refused(text, "the texts of the file together have more than 4194304 bytes");
}

#[test]
fn aliases_nested_one_in_the_other_are_refused() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..100 {
        let _ = writeln!(text, "a{level}: &a{level} [*a{}]", level - 1);
    }
    assert_refused(text, TOO_DEEP);
}

#[test]
fn merges_of_merges_are_refused() {
    let mut text = "a0: &a0 {k: v}\n".to_owned();
    for level in 1..25 {
        let alias = format!("*a{},", level - 1).repeat(9);
        let _ = writeln!(text, "a{level}: &a{level} {{<<: [{alias}], k{level}: v}}");
    }
    assert_refused(text, "the file has more than 20000 values");
}

#[test]
fn thousands_of_merges_of_one_section_are_refused() {
    let mut text = "a: &a {".to_owned();
    for key in 0..1_000 {
        let _ = write!(text, "k{key}: v,");
    }
    let _ = writeln!(text, "}}\nb:\n{}", "  - {<<: *a}\n".repeat(10_000));
    assert_refused(text, "the file has more than 20000 values");
}

#[test]
fn a_file_of_a_hundred_megabytes_is_refused_unread() {
    assert_refused(vec![b'a'; 100_000_000], "the file has more than 4194304 bytes (4 MiB)");
}

#[test]
fn nul_bytes_are_refused() {
    assert_refused(vec![0; 1_000_000], "the file contains a NUL character");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    assert_refused(
        vec![0xe9; 1_000_000],
        "the file is not UTF-8: the byte 0xe9 is not part of a character",
    );
}

#[test]
fn a_text_of_megabytes_is_refused() {
    for (start, end) in [("a: ", ""), ("a: \"", "\""), ("a: '", "'"), ("a: |-\n  ", "\n")] {
        let text = format!("{start}{}{end}", "x".repeat(3_000_000));
        assert_refused(text, "this text has 3000000 bytes; the limit is 65536");
    }
}

#[test]
fn a_quote_that_is_never_closed_is_refused() {
    assert_refused(format!("a: '{}", "x ".repeat(2_000_000)), "this quote is never closed");
}

#[test]
fn a_key_of_megabytes_is_refused() {
    let reported = refusal(format!("{}: a", "k".repeat(4_000_000)));
    assert!(reported.len() < 200, "{reported}");
}

#[test]
fn a_thousand_anchors_are_refused() {
    let mut text = String::new();
    for anchor in 0..1_000 {
        let _ = writeln!(text, "- &a{anchor} x");
    }
    assert_refused(text, "the file has more than 200 anchors");
}

#[test]
fn a_hundred_thousand_keys_are_refused() {
    let mut text = String::new();
    for key in 0..100_000 {
        let _ = writeln!(text, "k{key}: v");
    }
    assert_refused(text, "the file has more than 20000 values");
}

#[test]
fn a_million_empty_values_are_refused() {
    assert_refused("- \n".repeat(1_000_000), "the file has more than 20000 values");
}

#[test]
fn thousands_of_problems_in_one_long_line_are_reported_in_part() {
    let line = format!("{{{}}}", "a: b, ".repeat(9_000));
    let config = ConfigText { path: Path::new("config.yaml"), text: line.as_bytes() };
    let reported = parse_config(&config).unwrap_err();
    let longest = reported.to_string().lines().map(str::len).max();
    assert_eq!((reported.diagnostics().len(), longest < Some(200)), (41, true));
}

#[test]
fn megabytes_of_nothing_are_refused() {
    for nothing in [" ", "\n", "\t", "# \n", "\r"] {
        let count = usize::try_from(MAX_FILE_SIZE).unwrap() / nothing.len();
        assert_ne!(refusal(nothing.repeat(count)), "");
    }
}

#[test]
fn long_tags_and_directives_are_refused() {
    for start in ["a: !", "%YAML ", "%TAG ! ", "a: &", "a: *", "--- ", "a: !<"] {
        assert_ne!(refusal(format!("{start}{}", "x".repeat(2_000_000))), "");
    }
}

#[test]
fn a_configuration_of_a_hundred_megabytes_is_refused_unread() {
    let reported = parse_settings(Path::new("config.toml"), &vec![b' '; 100_000_000]).unwrap_err();
    assert!(reported.to_string().contains("more than 4194304 bytes (4 MiB)"));
}

#[test]
fn a_configuration_that_is_nested_too_deep_is_refused() {
    for text in
        ["a = ".to_owned() + &"[".repeat(LEVELS), "a = ".to_owned() + &"{a = ".repeat(LEVELS)]
    {
        let reported = parse_settings(Path::new("config.toml"), text.as_bytes()).unwrap_err();
        assert!(reported.to_string().contains("nested too deep"), "{reported}");
    }
}

#[test]
fn a_configuration_with_a_key_of_thousands_of_parts_is_refused() {
    let text = format!("{}a = 1\n[{}b]\n", "a.".repeat(LEVELS), "b.".repeat(LEVELS));
    let reported = parse_settings(Path::new("config.toml"), text.as_bytes()).unwrap_err();
    assert!(reported.to_string().contains("nested too deep"), "{reported}");
}
