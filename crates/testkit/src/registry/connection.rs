// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One connection: requests come, faults befall them, answers go.

use std::io::{self, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use super::access::TOKENS;
use super::api::{self, Route};
use super::fault::{Fault, faults_for};
use super::hostile::Shared;
use super::http::{Answer, Request};
use super::store::digest_of;
use super::uploads;

/// How much goes through at once.
const PIECE: usize = 64 * 1024;
/// How many times a second a slow connection moves.
const STEPS: usize = 50;

/// Serves a connection until one side has had enough.
pub(super) fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read_head(&mut reader)? {
        let mut exchange = Exchange {
            shared,
            stream,
            number: shared.state().begin_request(),
            request,
            faults: Vec::new(),
        };
        exchange.record();
        if !exchange.execute(&mut reader)? {
            return Ok(());
        }
    }
    Ok(())
}

/// One request and its answer.
struct Exchange<'a> {
    shared: &'a Shared,
    stream: &'a TcpStream,
    number: usize,
    request: Request,
    faults: Vec<Fault>,
}

impl Exchange<'_> {
    /// Returns whether the connection goes on.
    fn execute(&mut self, reader: &mut BufReader<&TcpStream>) -> io::Result<bool> {
        let url = self.shared.url();
        let is_for_token = self.request.route() == TOKENS;
        let mut state = self.shared.state();
        let refusal = if is_for_token { None } else { state.access.refusal(&self.request, &url) };
        if refusal.is_none() {
            self.faults = faults_for(&self.request, &mut state.armed);
        }
        drop(state);
        let mut faults = self.faults.iter();
        let instead = refusal.or_else(|| faults.find_map(|fault| fault.instead(&self.request)));
        if self.is_early() {
            let answer = instead.unwrap_or_else(|| Answer::new(400));
            self.send(&answer.header("Connection", "close"))?;
            return Ok(false);
        }
        let body = self.receive(reader)?;
        if self.faults.contains(&Fault::Hang) {
            return Err(self.hang());
        }
        let answer = instead.unwrap_or_else(|| {
            let mut state = self.shared.state();
            if is_for_token {
                state.access.hand_out(&self.request, &body)
            } else {
                api::answer(&mut state, &self.request, body, &url)
            }
        });
        if self.faults.contains(&Fault::LoseAnswer) {
            return Ok(false);
        }
        let answer = self.spoilt(answer);
        self.send(&answer)?;
        let lied = |fault: &Fault| matches!(fault, Fault::AnnounceMore(_) | Fault::AnnounceLess(_));
        Ok(self.request.keeps_connection() && !self.faults.iter().any(lied))
    }

    /// Before the other side sees it: then a test may ask.
    fn record(&self) {
        self.shared.state().record(self.number, &self.request);
    }

    fn is_early(&self) -> bool {
        let is_early = |fault: &Fault| matches!(fault, Fault::AnswerEarly { .. });
        self.faults.iter().any(is_early)
    }

    /// Reads the body of the request, as far as the faults let it come.
    fn receive(&mut self, reader: &mut BufReader<&TcpStream>) -> io::Result<Vec<u8>> {
        let waits = self.request.header("expect").is_some();
        if waits {
            let mut stream = self.stream;
            stream.write_all(b"HTTP/1.1 100 Go On\r\n\r\n")?;
        }
        let mut pace = Pace::receiving(&self.faults);
        let mut body = Vec::new();
        let request = self.request.clone();
        let read = request.read_body(reader, |mut piece| {
            while !piece.is_empty() {
                let Step::Pass(length) = pace.step(piece.len()) else {
                    return Ok(false);
                };
                let (passed, rest) = piece.split_at(length);
                body.extend(passed);
                piece = rest;
                self.request.received += length;
                self.record();
            }
            Ok(true)
        });
        if let Err(error) = read {
            self.keep_part(&body);
            return Err(error);
        }
        match pace.reached() {
            None => Ok(body),
            Some(End::Hang) => Err(self.hang()),
            Some(End::Cut) => {
                self.keep_part(&body);
                Err(ErrorKind::ConnectionAborted.into())
            }
        }
    }

    /// Remembers what was received, or as much of it as the fault says.
    fn keep_part(&self, body: &[u8]) {
        let mut faults = self.faults.iter();
        let kept = faults.find_map(|fault| match fault {
            Fault::CutReceiving { kept, .. } => body.get(..*kept).or(Some(body)),
            _ => None,
        });
        if let Route::Upload { number, .. } = Route::of(self.request.route()) {
            let mut state = self.shared.state();
            uploads::keep(&mut state, number, &self.request, kept.unwrap_or(body));
        }
    }

    /// The answer with the faults that change what it says.
    fn spoilt(&self, mut answer: Answer) -> Answer {
        for fault in &self.faults {
            answer = match fault {
                Fault::IgnoreRange if answer.status == 206 => {
                    answer.status = 200;
                    answer.part = 0..answer.content.len();
                    answer.without_header("Content-Range")
                }
                Fault::WrongContentRange if answer.status == 206 => {
                    let (start, end) = (answer.part.start + 1, answer.part.end);
                    let size = answer.content.len();
                    answer.header("Content-Range", format!("bytes {start}-{end}/{size}"))
                }
                Fault::CorruptByte(at) if answer.part.contains(at) => {
                    let mut content = answer.content.to_vec();
                    content[*at] ^= 0xff;
                    answer.content = content.into();
                    answer
                }
                Fault::WrongDigest => {
                    answer.header("Docker-Content-Digest", digest_of(b"something else"))
                }
                Fault::Header(name, value) => answer.header(name, value.as_str()),
                Fault::NoHeader(name) => answer.without_header(name),
                _ => answer,
            };
        }
        answer
    }

    /// Sends an answer, as far as the faults let it go.
    fn send(&mut self, answer: &Answer) -> io::Result<()> {
        let mut length = answer.part.len();
        let mut cut = None;
        for fault in &self.faults {
            match fault {
                Fault::AnnounceMore(bytes) => length += bytes,
                Fault::AnnounceLess(bytes) => length = length.saturating_sub(*bytes),
                Fault::CutHead(bytes) => cut = Some(*bytes),
                _ => {}
            }
        }
        let mut head = answer.clone();
        if !matches!(answer.status, 204 | 304) {
            head = head.header("Content-Length", length.to_string());
        }
        let head = head.head();
        self.request.status = Some(answer.status);
        self.record();
        let mut stream = self.stream;
        if let Some(part) = cut.and_then(|cut| head.as_bytes().get(..cut)) {
            stream.write_all(part)?;
            return Err(ErrorKind::ConnectionAborted.into());
        }
        stream.write_all(head.as_bytes())?;
        if self.request.method == "HEAD" {
            return Ok(());
        }
        self.send_body(&answer.content[answer.part.clone()])
    }

    fn send_body(&mut self, mut body: &[u8]) -> io::Result<()> {
        let mut pace = Pace::sending(&self.faults);
        let mut stream = self.stream;
        while !body.is_empty() {
            if self.shared.is_stopped() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            match pace.step(body.len()) {
                Step::Pass(length) => {
                    let (passed, rest) = body.split_at(length);
                    self.request.sent += length;
                    self.record();
                    stream.write_all(passed)?;
                    body = rest;
                }
                Step::End(end) => return self.end(end),
            }
        }
        pace.reached().map_or(Ok(()), |end| self.end(end))
    }

    /// Ends a connection in the way of a fault.
    fn end(&self, end: End) -> io::Result<()> {
        Err(match end {
            End::Hang => self.hang(),
            End::Cut => ErrorKind::ConnectionAborted.into(),
        })
    }

    /// Does nothing until the registry ends or the caller hangs up.
    fn hang(&self) -> io::Error {
        let mut byte = [0];
        let _ = self.stream.set_nonblocking(true);
        // What the caller sends is left there; an end of it is seen.
        while !self.shared.is_stopped() && !matches!(self.stream.peek(&mut byte), Ok(0)) {
            sleep(Duration::from_millis(20));
        }
        ErrorKind::ConnectionAborted.into()
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Hang,
}

enum Step {
    /// So many bytes may pass.
    Pass(usize),
    End(End),
}

/// How far a body comes, and how fast.
struct Pace {
    done: usize,
    end: Option<(usize, End)>,
    rate: Option<usize>,
}

impl Pace {
    fn sending(faults: &[Fault]) -> Self {
        let ends = |fault: &Fault| match fault {
            Fault::CutSending(after) => Some((*after, End::Cut)),
            Fault::HangSending(after) => Some((*after, End::Hang)),
            _ => None,
        };
        Self::new(faults, ends)
    }

    fn receiving(faults: &[Fault]) -> Self {
        let ends = |fault: &Fault| match fault {
            Fault::CutReceiving { after, .. } => Some((*after, End::Cut)),
            Fault::HangReceiving(after) => Some((*after, End::Hang)),
            _ => None,
        };
        Self::new(faults, ends)
    }

    fn new(faults: &[Fault], ends: impl Fn(&Fault) -> Option<(usize, End)>) -> Self {
        let rate = |fault: &Fault| match fault {
            Fault::Slow(rate) => Some((*rate).max(1)),
            _ => None,
        };
        Self {
            done: 0,
            end: faults.iter().filter_map(ends).min_by_key(|(after, _)| *after),
            rate: faults.iter().find_map(rate),
        }
    }

    /// The end that it has come to, if it has.
    fn reached(&self) -> Option<End> {
        let end = self.end.filter(|(after, _)| self.done >= *after);
        end.map(|(_, end)| end)
    }

    /// What happens to the next bytes, of which there are so many.
    fn step(&mut self, wanted: usize) -> Step {
        let mut length = wanted.min(PIECE);
        if let Some(end) = self.reached() {
            return Step::End(end);
        }
        if let Some((after, _)) = self.end {
            length = length.min(after - self.done);
        }
        if let Some(rate) = self.rate {
            length = length.min((rate / STEPS).max(1));
            let share = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
            sleep(Duration::from_secs(1) * share(length) / share(rate));
        }
        self.done += length;
        Step::Pass(length)
    }
}
