// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is sent with a request.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ureq::SendBody;

/// What is sent; it can be sent again.
#[derive(Clone, Debug, Default)]
pub(crate) enum Body {
    #[default]
    None,
    Bytes(Vec<u8>),
    Part(FilePart),
}

/// A part of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// How many bytes were read for sending; who sends again begins anew.
    pub(crate) sent: Arc<AtomicU64>,
}

impl Body {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(part) => part.length,
        }
    }

    pub(crate) fn to_send(&self) -> SendBody<'static> {
        match self {
            Self::None => SendBody::none(),
            Self::Bytes(bytes) => SendBody::from_owned_reader(Cursor::new(bytes.clone())),
            Self::Part(part) => {
                part.sent.store(0, Ordering::Relaxed);
                SendBody::from_owned_reader(part.clone())
            }
        }
    }
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let done = self.sent.load(Ordering::Relaxed);
        let left = usize::try_from(self.length - done).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.offset + done)?;
        if count == 0 && most > 0 {
            // The registry waits for as much as was announced.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.sent.store(done + count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
