// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the set-uid helper is asked to do.

use cabane_privileged::Request;

use super::Verdict;

/// A request has one spelling: what is understood is what would be written.
pub fn run(bytes: &[u8]) -> Verdict {
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
