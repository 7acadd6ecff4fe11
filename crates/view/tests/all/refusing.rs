// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Metadata that is refused, and the place that is shown.

use cabane_view::Meta;

#[track_caller]
fn assert_refused(text: &str, expected: &str) {
    assert_eq!(Meta::from_json(text.as_bytes()).unwrap_err().to_string(), expected);
}

/// Metadata with one view `v` whose variables are changed like this.
fn with_values(values: &str) -> String {
    format!("{{\"views\": {{\"v\": {{\"env\": {{\"values\":\n{values}}}}}}}}}")
}

#[test]
fn an_unknown_operation_is_refused() {
    assert_refused(
        &with_values(r#"{"list": {"PATH": [{"op": "push", "value": ["/a"]}]}}"#),
        "line 2, column 27: `push` is not an operation on `PATH`: \
         it is `set`, `prepend`, `append`, or `unset`",
    );
}

#[test]
fn an_operation_needs_values() {
    assert_refused(
        &with_values(r#"{"list": {"PATH": [{"op": "set"}]}}"#),
        "line 2, column 20: an operation on `PATH` lacks `value`",
    );
}

#[test]
fn the_values_of_an_operation_are_an_array() {
    assert_refused(
        &with_values(r#"{"list": {"PATH": [{"op": "set", "value": "/a"}]}}"#),
        "line 2, column 43: `value` of an operation on `PATH` must be an array of texts",
    );
}

#[test]
fn every_value_of_an_operation_is_a_text() {
    assert_refused(
        &with_values(r#"{"list": {"PATH": [{"op": "set", "value": ["/a", 1]}]}}"#),
        "line 2, column 50: `value` of an operation on `PATH` must be an array of texts",
    );
}

#[test]
fn a_scalar_is_a_text_or_null() {
    assert_refused(
        &with_values(r#"{"scalar": {"A": 1}}"#),
        "line 2, column 18: the value of `A` must be a text or null",
    );
}

#[test]
fn a_variable_without_a_name_is_refused() {
    assert_refused(
        &with_values(r#"{"scalar": {"": "x"}}"#),
        "line 2, column 13: `` cannot be the name of a variable",
    );
}

#[test]
fn a_variable_with_an_equals_sign_is_refused() {
    assert_refused(
        &with_values(r#"{"list": {"A=B": []}}"#),
        "line 2, column 11: `A=B` cannot be the name of a variable",
    );
}

#[test]
fn a_variable_with_a_nul_is_refused() {
    assert_refused(
        &with_values(r#"{"scalar": {"A\u0000": "x"}}"#),
        "line 2, column 13: `A\\u{0}` cannot be the name of a variable",
    );
}

#[test]
fn a_value_with_a_nul_is_refused() {
    assert_refused(
        &with_values(r#"{"scalar": {"A": "x\u0000"}}"#),
        "line 2, column 18: the value of `A` contains a NUL character",
    );
}

#[test]
fn an_element_with_a_nul_is_refused() {
    assert_refused(
        &with_values(r#"{"list": {"A": [{"op": "set", "value": ["\u0000"]}]}}"#),
        "line 2, column 41: `value` of an operation on `A` contains a NUL character",
    );
}

#[test]
fn a_variable_that_comes_twice_is_refused_however_it_is_written() {
    assert_refused(
        &with_values(r#"{"scalar": {"A": "x", "\u0041": "y"}}"#),
        "line 2, column 23: `scalar` of view `v` has `A` twice",
    );
}

#[test]
fn a_view_that_comes_twice_is_refused() {
    assert_refused(r#"{"views": {"v": {}, "v": {}}}"#, "line 1, column 21: `views` has `v` twice");
}

#[test]
fn the_name_of_a_view_is_a_name() {
    assert_refused(
        r#"{"views": {"a b": {}}}"#,
        "line 1, column 12: `a b` is not the name of a view: the name of a view cannot contain ` `",
    );
}

#[test]
fn a_wrong_mount_point_is_refused() {
    assert_refused(
        "{\n  \"mount\": \"user-environment\"\n}",
        "line 2, column 12: `user-environment` is not a mount point: a mount point begins with `/`",
    );
}

#[test]
fn the_default_view_is_one_of_the_views_wherever_it_stands() {
    assert_refused(
        r#"{"default-view": "w", "views": {"v": {}}}"#,
        "line 1, column 18: the default view `w` is not one of the views",
    );
}

#[test]
fn a_version_from_the_future_is_refused() {
    assert_refused(
        r#"{"cabane": {"version": 2}}"#,
        "line 1, column 24: `cabane` has version 2, and only version 1 is known",
    );
}

#[test]
fn an_interpreter_is_an_absolute_path() {
    assert_refused(
        r#"{"cabane": {"needs": {"interpreter": {"path": "python3", "version": "3"}}}}"#,
        "line 1, column 47: `path` of `interpreter` must be an absolute path",
    );
}

#[test]
fn an_interpreter_has_a_version() {
    assert_refused(
        r#"{"cabane": {"needs": {"interpreter": {"path": "/p"}}}}"#,
        "line 1, column 38: `interpreter` lacks `version`",
    );
}

#[test]
fn the_root_is_an_object() {
    assert_refused("[]", "line 1, column 1: the file must be an object");
}

#[test]
fn an_error_of_syntax_is_shown_at_its_place() {
    assert_refused("{\n  \"name\" 1}", "line 2, column 10: the file is not JSON: expected `:`");
}

#[test]
fn something_after_the_end_is_refused() {
    assert_refused("{} {}", "line 1, column 4: the file is not JSON: trailing characters");
}

#[test]
fn half_of_a_surrogate_pair_is_refused() {
    assert_refused(
        r#"{"name": "\ud800"}"#,
        "line 1, column 10: the file is not JSON: unexpected end of hex escape",
    );
}

#[test]
fn an_empty_file_is_refused() {
    let expected = "line 1, column 1: the file is not JSON: EOF while parsing a value";
    assert_refused("", expected);
}

#[test]
fn columns_count_characters() {
    assert_refused(r#"{"é": "日本", "mount": 1}"#, "line 1, column 22: `mount` must be a text");
}

#[test]
fn columns_count_characters_in_errors_of_syntax_too() {
    assert_refused("{\n\"日本\" 1}", "line 2, column 6: the file is not JSON: expected `:`");
}

#[test]
fn what_comes_from_the_file_is_escaped() {
    assert_refused(
        &with_values(r#"{"list": {"\u001b[2J": 1}}"#),
        "line 2, column 24: the list of operations on `\\u{1b}[2J` must be an array",
    );
}

#[test]
fn what_is_not_text_is_refused() {
    let error = Meta::from_json(b"{\n\"\xff\"}").unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 2: the file is not UTF-8");
}

#[test]
fn a_file_nested_too_deep_is_refused() {
    let text = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_refused(&text, "line 1, column 133: values are nested more than 128 deep");
}

#[test]
fn a_file_nested_as_deep_as_allowed_is_read() {
    let text = format!("{{\"x\":{}{}}}", "[".repeat(127), "]".repeat(127));
    assert!(Meta::from_json(text.as_bytes()).is_ok());
}

#[test]
fn brackets_in_texts_do_not_nest() {
    let text = format!("{{\"name\": \"\\\"{}\"}}", "[".repeat(1000));
    assert!(Meta::from_json(text.as_bytes()).is_ok());
}

#[test]
fn a_file_that_is_too_large_is_not_looked_at() {
    let text = vec![b' '; usize::try_from(Meta::MAX_SIZE).unwrap() + 1];
    let error = Meta::from_json(&text).unwrap_err();
    let (bytes, limit) = (text.len(), Meta::MAX_SIZE);
    assert_eq!(error.reason, format!("the file has {bytes} bytes, and at most {limit} are read"));
}
