// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the set-uid helper is asked to do.

use cabane_mount::Request;

use super::{Target, Verdict};

pub(super) const TARGET: Target = Target {
    name: "request",
    run,
    dictionary: &[
        "\0",
        "\0\0",
        "cabane-mount\0",
        "2\0",
        "ro\0",
        "rw\0",
        "start\0",
        "clean\0",
        "-\0",
        "0\0",
        "32\0",
        "33\0",
        "950\0",
        "4294967295\0",
        "2147483648\0",
        "18446744073709551615\0",
        "+1\0",
        "01\0",
        "squashfs\0",
        "erofs\0",
        "must\0",
        "may\0",
        "/user-environment\0",
        "/a/../b\0",
        "NAME=VALUE\0",
        "=\0",
    ],
};

/// A request has one spelling: what is understood is what would be written.
fn run(bytes: &[u8]) -> Verdict {
    match Request::decode(bytes) {
        Ok(request) => match request.encode() {
            Ok(again) if again == bytes => Verdict::Accepted,
            again => Verdict::Wrong(format!("{request:?} is written as {again:?}")),
        },
        Err(error) => {
            let texts = bytes.split(|byte| *byte == 0).count();
            if error.text > texts {
                return Verdict::Wrong(format!("{error}, of {texts}"));
            }
            if error.to_string().chars().any(char::is_control) {
                return Verdict::Wrong(format!("this cannot be shown: {error:?}"));
            }
            Verdict::Refused
        }
    }
}
