// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the user reads when a text is wrong.
//!
//! Each test holds the message, the place and the hint together.

use cabane_label::{Label, MAX_TEXT_LENGTH, ParseError, parse_uenv_list};

/// The message, the two lines that point to the place, and the hint.
fn report(error: &ParseError) -> String {
    let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
    format!("{error}\n{}{hint}", error.pointer())
}

#[track_caller]
fn assert_refused(text: &str, expected: &str) {
    let error = parse_uenv_list(text).unwrap_err();
    assert_eq!(report(&error), expected.trim_matches('\n'));
}

#[test]
fn a_name_cannot_contain_a_blank() {
    assert_refused(
        "prgenv gnu",
        "
`prgenv gnu` is not a label: a name cannot contain ` `
prgenv gnu
      ^
hint: several are separated by `,` without spaces",
    );
}

#[test]
fn a_separator_promises_a_part() {
    assert_refused(
        "prgenv-gnu/24.11:",
        "
`prgenv-gnu/24.11:` is not a label: the tag is missing after `:`
prgenv-gnu/24.11:
                 ^",
    );
}

#[test]
fn a_name_cannot_start_like_an_option() {
    assert_refused(
        "-x",
        "
`-x` is not a label: a name cannot start with `-`
-x
^",
    );
}

#[test]
fn there_is_only_one_system() {
    assert_refused(
        "a@daint@eiger",
        "
`a@daint@eiger` is not a label: the system is given twice
a@daint@eiger
       ^",
    );
}

#[test]
fn parts_in_the_wrong_order_are_put_right() {
    assert_refused(
        "a%zen3:v1",
        "
`a%zen3:v1` is not a label: `:tag` comes before `%uarch`: \
the order is `name/version:tag@system%uarch`
a%zen3:v1
      ^
hint: write `a:v1%zen3`",
    );
}

#[test]
fn a_digest_in_upper_case_is_put_right() {
    let (upper, lower) = ("A3".repeat(32), "a3".repeat(32));
    assert_refused(
        &upper,
        &format!(
            "`{upper}` is not a digest: a digest is written in lower case\n{upper}\n^\nhint: write `{lower}`"
        ),
    );
}

#[test]
fn a_list_has_no_empty_elements() {
    assert_refused(
        "a,,b",
        "
`a,,b` is not a list of uenvs: the uenv is missing before `,`
a,,b
  ^",
    );
}

#[test]
fn only_the_wrong_element_of_a_list_is_quoted() {
    assert_refused(
        "cp2k,-x,b",
        "
`-x` is not a label: a name cannot start with `-`
cp2k,-x,b
     ^",
    );
}

#[test]
fn an_empty_text_names_nothing() {
    assert_refused(
        "",
        "
a list of uenvs is expected, but nothing is there

^",
    );
}

#[test]
fn a_mount_point_needs_an_image() {
    assert_refused(
        ":/mnt",
        "
`:/mnt` is not a uenv: the image is missing before `:`
:/mnt
^",
    );
}

#[test]
fn a_relative_mount_point_of_a_label_is_taken_for_a_tag() {
    assert_refused(
        "a:v1:mnt",
        "
`a:v1:mnt` is not a label: the tag is given twice
a:v1:mnt
    ^
hint: a mount point begins with `/`, as in `name:tag:/user-environment`",
    );
}

#[test]
fn a_relative_mount_point_of_a_path_is_refused() {
    assert_refused(
        "./a.squashfs:mnt",
        "
`./a.squashfs:mnt` is not a path: a path cannot contain `:`
./a.squashfs:mnt
            ^
hint: what follows `:` is the mount point, an absolute path: `./a.squashfs:/user-environment`",
    );
}

#[test]
fn a_path_through_directories_needs_a_beginning() {
    assert_refused(
        "images/gnu/a.squashfs",
        "
`images/gnu/a.squashfs` is not a label: the version is given twice
images/gnu/a.squashfs
          ^
hint: a path begins with `.` or `/`, as in `./image.squashfs`",
    );
}

#[test]
fn a_container_image_without_its_scheme_has_a_hint() {
    assert_refused(
        "ghcr.io/my-lab/tool:2.1",
        "
`ghcr.io/my-lab/tool:2.1` is not a label: the version is given twice
ghcr.io/my-lab/tool:2.1
              ^
hint: write `docker://ghcr.io/my-lab/tool:2.1` for a container image",
    );
    for text in ["localhost/my-lab/tool", "localhost:5000/tool:2", "registry:443/tool"] {
        let error = text.parse::<cabane_label::ImageDescription>().unwrap_err();
        let hint = error.hint().unwrap_or_default();
        assert_eq!(hint, format!("write `docker://{text}` for a container image"));
    }
    // What is a label by chance is one, until it is not found.
    let label: cabane_label::ImageDescription = "quay.io/tool:1".parse().unwrap();
    let hint = label.hint().unwrap_or_default();
    assert_eq!(hint, "write `docker://quay.io/tool:1` for a container image");
    for text in ["app/1.0:v1", "app/1.0", "build::app/1"] {
        assert_eq!(text.parse::<cabane_label::ImageDescription>().unwrap().hint(), None, "{text}");
    }
}

#[test]
fn a_star_only_stands_for_systems() {
    assert_refused(
        "prgenv*",
        "
`prgenv*` is not a label: a name cannot contain `*`
prgenv*
      ^
hint: a part that is left out matches everything; only the system can be `@*`",
    );
}

#[test]
fn control_characters_are_escaped_and_the_columns_still_line_up() {
    assert_refused(
        "\u{1b}[31ma",
        "
`\\u{1b}[31ma` is not a label: a name cannot contain `\\u{1b}`
\\u{1b}[31ma
^",
    );
}

#[test]
fn a_place_after_a_control_character_is_marked_in_the_escaped_text() {
    assert_refused(
        "./\u{7}a.squashfs\u{7}",
        "
`./\\u{7}a.squashfs\\u{7}` is not a path: a path cannot contain `\\u{7}`
./\\u{7}a.squashfs\\u{7}
  ^",
    );
}

#[test]
fn the_column_counts_characters_and_not_bytes() {
    assert_refused(
        "./zürich/東京.sqfs,x y",
        "
`x y` is not a label: a name cannot contain ` `
./zürich/東京.sqfs,x y
                  ^
hint: several are separated by `,` without spaces",
    );
}

#[test]
fn a_newline_does_not_break_the_message() {
    let error = parse_uenv_list("a\nb").unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1);
}

#[test]
fn of_a_long_text_the_surroundings_are_shown() {
    let text = format!("{},b c,{}", "a".repeat(60), "d".repeat(60));
    assert_refused(
        &text,
        &format!(
            "`b c` is not a label: a name cannot contain ` `\n\
             …{},b c,{}…\n{}^\nhint: several are separated by `,` without spaces",
            "a".repeat(46),
            "d".repeat(21),
            " ".repeat(49),
        ),
    );
}

#[test]
fn a_part_that_is_too_long_is_marked_behind_its_limit() {
    let error = "x".repeat(70).parse::<Label>().unwrap_err();
    assert_eq!(
        (error.kind().to_string().as_str(), error.position()),
        ("a name has at most 64 characters, but this has 70", 64),
    );
}

#[test]
fn a_digest_with_a_digit_too_many_is_counted() {
    let error = "a".repeat(65).parse::<Label>().unwrap_err();
    assert_eq!(error.hint().unwrap(), "a digest has 64 digits, and this has 65");
}

#[test]
fn a_huge_text_is_not_looked_at() {
    let error = parse_uenv_list(&"é".repeat(MAX_TEXT_LENGTH)).unwrap_err();
    assert_eq!(error.kind().to_string(), "it has 131072 bytes, and at most 65536 are read");
}

#[test]
fn the_message_about_a_huge_text_is_short() {
    let error = parse_uenv_list(&"\u{1b}".repeat(2 * MAX_TEXT_LENGTH)).unwrap_err();
    assert!(report(&error).len() < 2000);
}
