// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What nodes of a step say when they fail, reported as one.
//!
//! The plugin in `srun` starts this process with a socket that listens, whose port the nodes know. Each of them that fails
//! connects and says why; equal reasons are printed once, with their names as Slurm
//! writes them. A node that gets no answer tells the user itself, so nothing depends on this.
//!
//! A node sends a text and closes its side: the secret, its name, and lines for the user, each
//! ended by a line feed. The answer is a byte.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_report::{IoContext, Result};
use cabane_slurm_report::node_list;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// After this time without another node, the known reasons are printed,
const QUIET: Duration = Duration::from_millis(500);
/// and after this time in any case.
const PATIENCE: Duration = Duration::from_secs(3);
/// A node sends its text at once.
const TIME_LIMIT: Duration = Duration::from_millis(500);
/// A node does not wait longer for a connection, nor for an answer.
const ANSWER: Duration = Duration::from_secs(2);
/// More of a text is not read.
const LONGEST: u64 = 16 * 1024;
/// How many different reasons are kept.
const MOST: usize = 32;

/// The first node to fail is asked to end the step.
const END_THE_STEP: &[u8] = b"e";
const HEARD: &[u8] = b"h";

/// Answers nodes until standard input is closed. The socket that listens is standard output, and
/// `place` is its port with the secret. Gives blocks of lines to `tell`.
///
/// # Errors
///
/// Standard output is no such socket.
pub fn collect_failures(place: &str, tell: impl Fn(&str)) -> Result<()> {
    // Whoever interrupts `srun` at a terminal does not interrupt this process.
    let _ = rustix::process::setsid();
    let failed = || "listen for the nodes".to_owned();
    let malformed = || io::Error::from(io::ErrorKind::InvalidInput);
    let (_, secret) = place.split_once(':').ok_or_else(malformed).or_failed(failed)?;
    let socket = io::stdout().as_fd().try_clone_to_owned().or_failed(failed)?;
    let listener = TcpListener::from(socket);
    listener.local_addr().or_failed(failed)?;
    listener.set_nonblocking(true).or_failed(failed)?;
    let mut failures = Failures::default();
    loop {
        let is_over = wait(&listener, failures.wait()).or_failed(failed)?;
        while let Ok((stream, _)) = listener.accept() {
            // What is no node of this step gets no answer.
            let _ = hear(stream, secret, &mut failures);
        }
        if is_over {
            failures.ended(&tell);
            return Ok(());
        }
        if failures.is_due() {
            failures.told(&tell);
        }
    }
}

/// On a node: says why it fails, in lines for the user, to whoever listens at the address with the
/// port and secret of `place`. Returns what is answered.
///
/// # Errors
///
/// No one is there, or answers.
pub fn tell_failure(address: IpAddr, place: &str, node: &str, lines: &[String]) -> Result<Vec<u8>> {
    let failed = || "tell why this node fails".to_owned();
    let malformed = || io::Error::from(io::ErrorKind::InvalidInput);
    let (port, secret) = place.split_once(':').ok_or_else(malformed).or_failed(failed)?;
    let port = port.parse().map_err(|_| malformed()).or_failed(failed)?;
    say(SocketAddr::new(address, port), &text_of(secret, node, lines)).or_failed(failed)
}

/// The secret, the node, and lines for the user.
fn text_of(secret: &str, node: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for line in [secret, node].into_iter().chain(lines.iter().map(String::as_str)) {
        text += &line.replace('\n', " ");
        text.push('\n');
    }
    text
}

fn say(place: SocketAddr, text: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&place, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Waits for a node, or for so long; tells whether standard input is closed.
fn wait(listener: &TcpListener, limit: Option<Duration>) -> io::Result<bool> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let input = io::stdin();
    let mut seen = [
        PollFd::new(listener, PollFlags::IN),
        PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
    ];
    match poll(&mut seen, limit.as_ref()) {
        Err(rustix::io::Errno::INTR) => return Ok(false),
        other => other?,
    };
    let [_, input] = seen;
    Ok(!input.revents().is_empty())
}

fn hear(mut stream: TcpStream, secret: &str, failures: &mut Failures) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    let mut text = String::new();
    (&stream).take(LONGEST).read_to_string(&mut text)?;
    let mut lines = text.lines();
    if lines.next() != Some(secret) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let node = lines.next().ok_or(io::ErrorKind::InvalidData)?;
    let is_first = failures.reasons.is_empty();
    stream.write_all(if is_first { END_THE_STEP } else { HEARD })?;
    stream.shutdown(Shutdown::Write)?;
    failures.add(node, lines.map(str::to_owned).collect());
    Ok(())
}

/// Reasons, and the nodes that have each.
#[derive(Debug, Default)]
struct Failures {
    reasons: Vec<Reason>,
    /// When the first and the last of those came that are not told yet.
    came: Option<(Instant, Instant)>,
    has_told: bool,
}

#[derive(Debug)]
struct Reason {
    lines: Vec<String>,
    first: String,
    nodes: BTreeSet<String>,
    is_told: bool,
}

impl Failures {
    fn add(&mut self, node: &str, lines: Vec<String>) {
        let now = Instant::now();
        self.came = Some((self.came.map_or(now, |(first, _)| first), now));
        let node = node.to_owned();
        let has_room = self.reasons.len() < MOST;
        let known = self.reasons.iter_mut().find(|reason| reason.lines == lines);
        if let Some(reason) = known {
            reason.nodes.insert(node);
            // A node that comes late is printed again, with all others.
            reason.is_told = false;
        } else if has_room {
            let nodes = BTreeSet::from([node.clone()]);
            self.reasons.push(Reason { lines, first: node, nodes, is_told: false });
        } else if let Some(last) = self.reasons.last_mut() {
            last.lines = vec!["these have other reasons, which are in their logs".to_owned()];
            last.nodes.insert(node);
            last.is_told = false;
        }
    }

    /// For how long nothing is to be done, if not for ever.
    fn wait(&self) -> Option<Duration> {
        let (first, last) = self.came?;
        let end = (first + PATIENCE).min(last + QUIET);
        Some(end.saturating_duration_since(Instant::now()))
    }

    fn is_due(&self) -> bool {
        self.wait() == Some(Duration::ZERO)
    }

    fn told(&mut self, tell: impl Fn(&str)) {
        for reason in self.reasons.iter_mut().filter(|reason| !reason.is_told) {
            for line in block(&reason.lines, &reason.nodes) {
                tell(&line);
            }
            reason.is_told = true;
            self.has_told = true;
        }
        self.came = None;
    }

    /// Tells what is not told yet, and otherwise once more why the step has ended, after what Slurm
    /// says of its tasks.
    fn ended(&mut self, tell: impl Fn(&str)) {
        let again = self.has_told;
        self.told(&tell);
        if let Some(reason) = self.reasons.first().filter(|_| again) {
            let line = reason.lines.first().map_or("", String::as_str);
            let first = escape(&reason.first);
            tell(&format!("the step ended because {first} failed first: {}", escape(line)));
        }
    }
}

/// The first line has the nodes.
fn block(lines: &[String], nodes: &BTreeSet<String>) -> Vec<String> {
    let names = node_list(nodes.iter().map(String::as_str));
    let mut block: Vec<String> = lines.iter().map(|line| escape(line).into_owned()).collect();
    match block.first_mut() {
        Some(first) => *first = format!("{}: {first}", escape(&names)),
        None => block.push(escape(&names).into_owned()),
    }
    block
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::Ipv4Addr;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn told(failures: &mut Failures) -> Vec<String> {
        let all = RefCell::new(Vec::new());
        failures.told(|line| all.borrow_mut().push(line.to_owned()));
        all.into_inner()
    }

    #[test]
    fn a_thousand_nodes_with_one_reason_are_one_block() {
        let mut failures = Failures::default();
        for node in 1..=1000 {
            failures.add(&format!("n{node}"), lines("no room\nhint: make some"));
        }
        assert_eq!(told(&mut failures), ["n[1-1000]: no room", "hint: make some"]);
        assert_eq!(told(&mut failures), [""; 0]);
        assert_eq!(failures.wait(), None);
    }

    #[test]
    fn other_reasons_are_told_apart_and_late_nodes_once_more() {
        let mut failures = Failures::default();
        failures.add("n2", lines("no room"));
        failures.add("n1", lines("no\u{1b}[2J policy"));
        assert_eq!(told(&mut failures), ["n2: no room", "n1: no\\u{1b}[2J policy"]);
        failures.add("n3", lines("no room"));
        assert_eq!(told(&mut failures), ["n[2-3]: no room"]);
        let end = RefCell::new(String::new());
        failures.ended(|line| end.borrow_mut().push_str(line));
        assert_eq!(end.into_inner(), "the step ended because n2 failed first: no room");
    }

    #[test]
    fn many_reasons_are_bounded() {
        let mut failures = Failures::default();
        for number in 0..1000 {
            failures.add(&format!("n{number}"), vec![number.to_string()]);
        }
        assert_eq!(told(&mut failures).len(), MOST);
        let last = failures.reasons.last().unwrap();
        assert_eq!(last.nodes.len(), 1000 - MOST + 1);
    }

    #[test]
    fn whoever_does_not_know_the_secret_is_not_heard() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let place = listener.local_addr().unwrap();
        let mut failures = Failures::default();
        let mut said = |secret: &str, node: &str| {
            let text = text_of(secret, node, &["no\nroom".to_owned()]);
            let node = std::thread::spawn(move || say(place, &text).unwrap());
            let is_heard = hear(listener.accept().unwrap().0, "secret", &mut failures).is_ok();
            (is_heard, node.join().unwrap())
        };
        assert_eq!(said("wrong", "n1"), (false, vec![]));
        assert_eq!(said("secret", "n1"), (true, END_THE_STEP.to_vec()));
        assert_eq!(said("secret", "n2"), (true, HEARD.to_vec()));
        assert_eq!(told(&mut failures), ["n[1-2]: no room"]);
    }
}
