// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Connections that lead nowhere: in programs for fuzzing the answers of all hosts are those
//! that were given before. Through sockets there would be a hundredth of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error};

/// The answers that are left, the next one last.
static ANSWERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Has each request, of any host, answered with the last of these that is left; and with "not
/// found" when there is none.
pub fn answer_with(answers: Vec<Vec<u8>>) {
    *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) = answers;
}

pub(super) fn agent(config: Config) -> Agent {
    Agent::with_parts(config, Nowhere, Nowhere)
}

#[derive(Debug)]
struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        Ok(addresses)
    }
}

impl Connector for Nowhere {
    type Out = Answer;

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Answer>, Error> {
        Ok(Some(Answer {
            buffers: LazyBuffers::new(1 << 16, 1 << 16),
            bytes: Vec::new(),
            given: 0,
            is_asked: false,
        }))
    }
}

/// One connection, which ends after one answer.
#[derive(Debug)]
struct Answer {
    buffers: LazyBuffers,
    bytes: Vec<u8>,
    /// How many of these were read.
    given: usize,
    is_asked: bool,
}

impl Transport for Answer {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, _: usize, _: NextTimeout) -> Result<(), Error> {
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        if !self.is_asked {
            let nothing =
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let next = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
            self.bytes = next.unwrap_or_else(|| nothing.to_vec());
            self.is_asked = true;
        }
        let rest = self.bytes.get(self.given..).unwrap_or_default();
        let space = self.buffers.input_append_buf();
        let count = rest.len().min(space.len());
        for (place, byte) in space.iter_mut().zip(rest) {
            *place = *byte;
        }
        self.buffers.input_appended(count);
        self.given += count;
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }
}
