// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The texts of a request, one after the other.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::RequestError;
use crate::verity::hexadecimal;

#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    count: usize,
}

impl Writer {
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), RequestError> {
        self.count = self.count.saturating_add(1);
        if text.contains(&0) {
            return Err(RequestError { text: self.count, expected: "without a zero byte" });
        }
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        Ok(())
    }

    pub(crate) fn number(&mut self, number: impl fmt::Display) -> Result<(), RequestError> {
        self.text(number.to_string().as_bytes())
    }

    pub(crate) fn list(&mut self, texts: &[OsString]) -> Result<(), RequestError> {
        self.number(texts.len())?;
        texts.iter().try_for_each(|text| self.text(text.as_bytes()))
    }
}

pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) count: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn expected(&self, expected: &'static str) -> RequestError {
        RequestError { text: self.count, expected }
    }

    pub(crate) fn next(&mut self, expected: &'static str) -> Result<&'a [u8], RequestError> {
        self.count = self.count.saturating_add(1);
        let end = self.rest.iter().position(|byte| *byte == 0);
        let (text, rest) =
            end.and_then(|end| self.rest.split_at_checked(end)).ok_or(self.expected(expected))?;
        // Without the zero byte, which is there.
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    pub(crate) fn exactly(
        &mut self,
        text: &[u8],
        expected: &'static str,
    ) -> Result<(), RequestError> {
        if self.next(expected)? == text { Ok(()) } else { Err(self.expected(expected)) }
    }

    pub(crate) fn owned(&mut self, expected: &'static str) -> Result<OsString, RequestError> {
        Ok(OsString::from_vec(self.next(expected)?.to_vec()))
    }

    pub(crate) fn number<T: std::str::FromStr>(
        &mut self,
        expected: &'static str,
    ) -> Result<T, RequestError> {
        let text = self.next(expected)?;
        // One spelling for each number: digits, and no zero in front.
        let is_plain = !text.is_empty()
            && text.iter().all(u8::is_ascii_digit)
            && (text == b"0" || !text.starts_with(b"0"));
        std::str::from_utf8(text)
            .ok()
            .filter(|_| is_plain)
            .and_then(|text| text.parse().ok())
            .ok_or(self.expected(expected))
    }

    pub(crate) fn descriptor(&mut self) -> Result<RawFd, RequestError> {
        self.number("a descriptor")
    }

    pub(crate) fn count_up_to(
        &mut self,
        limit: usize,
        expected: &'static str,
    ) -> Result<usize, RequestError> {
        let count = self.number(expected)?;
        if count <= limit { Ok(count) } else { Err(self.expected(expected)) }
    }

    /// Space is made as texts are found, not as many as are announced.
    pub(crate) fn list(&mut self) -> Result<Vec<OsString>, RequestError> {
        let count = self.count_up_to(usize::MAX, "a number of texts")?;
        (0..count).map(|_| self.owned("a text of the list")).collect()
    }
}

/// Returns the bytes, if the text has their one spelling.
pub(crate) fn from_hexadecimal(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let pairs = (0..text.len()).step_by(2).map(|start| text.get(start..start.saturating_add(2)));
    let bytes = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<_>>>()?;
    (hexadecimal(&bytes) == text).then_some(bytes)
}
