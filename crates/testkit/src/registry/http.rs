// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! As much of HTTP/1.1 as a registry needs: requests are read, answers are described.
//!
//! What goes wrong on the way is left to `connection`.

use std::io::{self, BufRead, ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;

/// The longest line of a head.
const LONGEST_LINE: u64 = 64 * 1024;
/// The size of one piece of a body.
const PIECE: usize = 64 * 1024;

/// A request as it was received, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET` and so on.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in their order; their names are in lower case.
    pub headers: Vec<(String, String)>,
    /// How many bytes of its body were received.
    pub received: usize,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// How many bytes of the body of the answer were sent.
    pub sent: usize,
}

impl Request {
    /// The value of a header, whose name may be in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The path without its query.
    pub fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The values of a parameter of the query.
    pub fn query(&self, name: &str) -> Vec<String> {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        parameters(query, name)
    }

    /// The first value of a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.query(name).into_iter().next()
    }

    /// Whether the caller would like to keep the connection.
    pub(super) fn keeps_connection(&self) -> bool {
        let connection = self.header("connection").unwrap_or_default();
        !connection.eq_ignore_ascii_case("close")
    }

    /// Reads the head of the next request, if there is one.
    pub(super) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let line = read_line(reader)?;
        let mut fields = line.split(' ');
        let (Some(method), Some(path), Some(_)) = (fields.next(), fields.next(), fields.next())
        else {
            let nothing = line.is_empty().then_some(None);
            return nothing.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, line));
        };
        let mut request =
            Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() };
        loop {
            let line = read_line(reader)?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok(Some(request));
            };
            let header = (name.to_ascii_lowercase(), value.trim().to_owned());
            request.headers.push(header);
        }
    }

    /// Reads the body, and hands it on in pieces until `take` wants no more.
    pub(super) fn read_body(
        &self,
        reader: &mut impl BufRead,
        mut take: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        if let Some(length) = self.header("content-length") {
            let length = length.parse();
            let length = length.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            read_pieces(reader, length, &mut take)?;
        } else if self.header("transfer-encoding").is_some() {
            loop {
                let line = read_line(reader)?;
                let length = usize::from_str_radix(line.trim(), 16);
                let length =
                    length.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                if !read_pieces(reader, length, &mut take)? {
                    break;
                }
                // The end of the chunk, and of all of them.
                read_line(reader)?;
                if length == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The values of a parameter in a query or a form.
pub(super) fn parameters(text: &str, name: &str) -> Vec<String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let named = pairs.filter(|(key, _)| *key == name);
    named.map(|(_, value)| decode(value)).collect()
}

/// Replaces `%41` and `+` by what they stand for.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3);
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (meant, length) = match (byte, code) {
            (b'%', Some(code)) => (code, 3),
            (b'+', _) => (b' ', 1),
            _ => (byte, 1),
        };
        decoded.push(meant);
        at += length;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Reads a line without its end; an empty one also where nothing comes any more.
fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads so many bytes in pieces. Returns whether all of them were wanted.
fn read_pieces(
    reader: &mut impl BufRead,
    length: usize,
    take: &mut impl FnMut(&[u8]) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut piece = vec![0; PIECE.min(length)];
    let mut missing = length;
    while missing > 0 {
        let wanted = missing.min(PIECE);
        let got = reader.read(&mut piece[..wanted])?;
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        missing -= got;
        if !take(&piece[..got])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An answer before it is sent.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content: Arc<Vec<u8>>,
    /// Which part of the content is the body.
    pub(super) part: Range<usize>,
}

impl Answer {
    /// An answer without a body.
    pub(super) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), content: Arc::default(), part: 0..0 }
    }

    /// A failure as registries tell it.
    pub(super) fn failure(status: u16, code: &str, message: &str) -> Self {
        let error = serde_json::json!({"code": code, "message": message});
        Self::new(status).json(&serde_json::json!({"errors": [error]}))
    }

    /// With a header, which replaces one of the same name.
    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self = self.without_header(name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Without a header.
    pub(super) fn without_header(mut self, name: &str) -> Self {
        let is_other = |(key, _): &(String, String)| !key.eq_ignore_ascii_case(name);
        self.headers.retain(is_other);
        self
    }

    /// With a body.
    pub(super) fn body(mut self, content: impl Into<Arc<Vec<u8>>>) -> Self {
        self.content = content.into();
        self.part = 0..self.content.len();
        self
    }

    /// With a body of JSON.
    pub(super) fn json(self, value: &serde_json::Value) -> Self {
        let body = value.to_string().into_bytes();
        self.header("Content-Type", "application/json").body(body)
    }

    /// The head as it is sent.
    pub(super) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200..=299 => "Fine",
        300..=399 => "Elsewhere",
        400..=499 => "Not So",
        _ => "Broken",
    }
}
