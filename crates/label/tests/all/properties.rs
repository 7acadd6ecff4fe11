// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What holds for every text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use cabane_label::{
    Digest, ImageDescription, ImageId, Label, LabelPattern, MountPoint, Name, ParseError,
    UenvDescription, escape, parse_uenv_list,
};
use proptest::prelude::*;

const PART: &str = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}";

/// Texts that are nearly descriptions: few characters, mostly separators.
fn near_descriptions() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-f0-9/:@%*.,~ -]{0,40}",
        "[a-fA-F0-9]{14,18}",
        "[a-fA-F0-9]{62,66}",
        ".{0,60}",
        proptest::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter),
    ]
}

/// Checks that what can be read is printed so that it can be read again, and
/// that every refusal can be shown.
fn check<T>(text: &str) -> Result<(), TestCaseError>
where
    T: FromStr<Err = ParseError> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(value) => prop_assert_eq!(value.to_string().parse::<T>(), Ok(value)),
        Err(error) => check_error(&error, text)?,
    }
    Ok(())
}

fn check_error(error: &ParseError, text: &str) -> Result<(), TestCaseError> {
    let (message, pointer) = (error.to_string(), error.pointer());
    prop_assert_eq!(error.input(), text);
    prop_assert!(error.position() <= text.chars().count());
    prop_assert!(!message.chars().any(char::is_control), "{:?}", message);
    let lines: Vec<&str> = pointer.split('\n').collect();
    prop_assert_eq!(lines.len(), 2);
    prop_assert!(lines[1].chars().count() <= lines[0].chars().count() + 1, "{:?}", pointer);
    Ok(())
}

proptest! {
    #[test]
    fn a_label_of_any_parts_is_read_as_it_is_printed(
        name in PART, version in PART, tag in PART, system in PART, uarch in PART,
    ) {
        let text = format!("{name}/{version}:{tag}@{system}%{uarch}");
        prop_assert_eq!(text.parse::<Label>().unwrap().to_string(), text);
    }

    #[test]
    fn what_is_read_is_printed_so_that_it_can_be_read_again(text in near_descriptions()) {
        check::<Name>(&text)?;
        check::<Label>(&text)?;
        check::<LabelPattern>(&text)?;
        check::<Digest>(&text)?;
        check::<ImageId>(&text)?;
        check::<MountPoint>(&text)?;
        check::<ImageDescription>(&text)?;
        check::<UenvDescription>(&text)?;
    }

    #[test]
    fn a_list_is_read_as_it_is_printed(text in near_descriptions()) {
        match parse_uenv_list(&text) {
            Ok(uenvs) => {
                let texts: Vec<String> = uenvs.iter().map(ToString::to_string).collect();
                prop_assert_eq!(parse_uenv_list(&texts.join(",")), Ok(uenvs));
            }
            Err(error) => check_error(&error, &text)?,
        }
    }

    #[test]
    fn a_mount_point_has_no_components_that_mean_nothing(text in "[/.ab]{0,20}") {
        if let Ok(mount_point) = format!("/{text}").parse::<MountPoint>()
            && !mount_point.is_root()
        {
            let mut components = mount_point.as_str().split('/').skip(1);
            prop_assert!(components.all(|c| !matches!(c, "" | "." | "..")), "{}", mount_point);
        }
    }

    #[test]
    fn escaped_text_stays_on_its_line(text in ".{0,60}") {
        prop_assert!(!escape(&text).chars().any(char::is_control));
    }
}
