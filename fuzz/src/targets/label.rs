// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Labels, patterns, digests, mount points and lists of images.

use std::fmt::Display;
use std::str::FromStr;

use cabane_label::{
    Digest, ImageDescription, ImageId, Label, LabelPattern, MountPoint, ParseError,
    UenvDescription, parse_uenv_list,
};

use super::{Verdict, check_error, compare};

/// Reads a text as every word there is; it counts as accepted if the list of
/// images, which may hold most of them, was.
pub fn run(bytes: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(bytes);
    let arguments = [
        check::<Label>(&text),
        check::<LabelPattern>(&text),
        check::<Digest>(&text),
        check::<ImageId>(&text),
        check::<MountPoint>(&text),
        check::<ImageDescription>(&text),
        check::<UenvDescription>(&text),
    ];
    match arguments.into_iter().find(|verdict| matches!(verdict, Verdict::Wrong(_))) {
        Some(wrong) => wrong,
        None => check_list(&text),
    }
}

fn check<T>(text: &str) -> Verdict
where
    T: FromStr<Err = ParseError> + Display + PartialEq,
{
    match text.parse::<T>() {
        Err(error) => check_error(&error, text),
        Ok(value) => {
            let printed = value.to_string();
            compare(&value, &printed, printed.parse())
        }
    }
}

fn check_list(text: &str) -> Verdict {
    match parse_uenv_list(text) {
        Err(error) => check_error(&error, text),
        Ok(uenvs) => {
            let arguments: Vec<String> = uenvs.iter().map(ToString::to_string).collect();
            let printed = arguments.join(",");
            compare(&uenvs, &printed, parse_uenv_list(&printed))
        }
    }
}
