// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Measures what this node does without MPI: messages through shared memory and through TCP.
//!
//! Two threads exchange them. The memory that one writes and the other reads takes the same way
//! through the caches as memory that two processes share, and threads need neither a compiler nor
//! a launcher. As in the program of the ranks, every operation is timed alone.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::node::{allowed_processors, waited_by_this_thread};
use crate::benchmark::{Figure, Kind};
use crate::judge::{Floor, LATENCIES};

/// How long one size is measured.
const TIME: Duration = Duration::from_millis(6);
/// How often an operation is timed at least, and after how long that is enough anyway: on a busy
/// node one may take a hundred milliseconds.
const FEWEST: usize = 20;
const LONGEST: Duration = Duration::from_millis(150);
/// How often an operation is timed at most.
const MOST: usize = 20_000;

/// How much is copied at once, and how many such pieces are on the way.
const SLOT: usize = 2048;
const SLOTS: usize = 4;

/// How often to look before the processor is given back.
const LOOKS: u32 = 10_000;

/// A number with cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU64);

/// What both threads look at: whether the other one is done.
#[derive(Default)]
struct End(AtomicBool);

/// That the other thread is done.
struct Ended;

impl End {
    fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Word {
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn wait_for(&self, value: u64, end: &End) -> Result<(), Ended> {
        let mut looks = 0;
        while self.0.load(Ordering::Acquire) != value {
            looks += 1;
            if looks > LOOKS {
                if end.is_here() {
                    return Err(Ended);
                }
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// One end of a connection.
trait Line {
    fn send(&mut self, message: &[u8], end: &End) -> Result<(), Ended>;
    fn receive(&mut self, message: &mut [u8], end: &End) -> Result<(), Ended>;
}

/// A word in each direction.
struct WordLine<'a> {
    to: &'a Word,
    from: &'a Word,
    sent: u64,
    received: u64,
}

impl Line for WordLine<'_> {
    fn send(&mut self, _: &[u8], _: &End) -> Result<(), Ended> {
        self.sent += 1;
        self.to.set(self.sent);
        Ok(())
    }

    fn receive(&mut self, _: &mut [u8], end: &End) -> Result<(), Ended> {
        self.received += 1;
        self.from.wait_for(self.received, end)
    }
}

/// Slots of memory in one direction. The word of a slot is odd while it holds a piece.
#[derive(Default)]
struct Slots {
    words: [Word; SLOTS],
    pieces: [Mutex<Vec<u8>>; SLOTS],
}

/// Slots in each direction.
struct SlotLine<'a> {
    to: &'a Slots,
    from: &'a Slots,
    sent: usize,
    received: usize,
}

impl Slots {
    /// The word and the memory of a slot, and the value of the word before the piece is there.
    fn at(&self, number: usize) -> Option<(&Word, &Mutex<Vec<u8>>, u64)> {
        let (place, lap) = (number % SLOTS, number / SLOTS);
        Some((self.words.get(place)?, self.pieces.get(place)?, u64::try_from(2 * lap).ok()?))
    }
}

impl Line for SlotLine<'_> {
    fn send(&mut self, message: &[u8], end: &End) -> Result<(), Ended> {
        for piece in message.chunks(SLOT) {
            let (word, memory, value) = self.to.at(self.sent).ok_or(Ended)?;
            word.wait_for(value, end)?;
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.resize(SLOT, 0);
            memory.get_mut(..piece.len()).ok_or(Ended)?.copy_from_slice(piece);
            drop(memory);
            word.set(value + 1);
            self.sent += 1;
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut [u8], end: &End) -> Result<(), Ended> {
        for piece in message.chunks_mut(SLOT) {
            let (word, memory, value) = self.from.at(self.received).ok_or(Ended)?;
            word.wait_for(value + 1, end)?;
            let memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            piece.copy_from_slice(memory.get(..piece.len()).ok_or(Ended)?);
            drop(memory);
            word.set(value + 2);
            self.received += 1;
        }
        Ok(())
    }
}

/// Polls as libraries of MPI do: a thread that sleeps takes longer to wake up than a message.
struct TcpLine(TcpStream);

impl Line for TcpLine {
    fn send(&mut self, message: &[u8], end: &End) -> Result<(), Ended> {
        let mut done = 0;
        while let Some(rest) = message.get(done..).filter(|rest| !rest.is_empty()) {
            done += polled(self.0.write(rest), end)?;
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut [u8], end: &End) -> Result<(), Ended> {
        let mut done = 0;
        while let Some(rest) = message.get_mut(done..).filter(|rest| !rest.is_empty()) {
            done += polled(self.0.read(rest), end)?;
        }
        Ok(())
    }
}

fn polled(answer: io::Result<usize>, end: &End) -> Result<usize, Ended> {
    match answer {
        Ok(0) => Err(Ended),
        Ok(count) => Ok(count),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && !end.is_here() => Ok(0),
        Err(_) => Err(Ended),
    }
}

/// The processors of both threads. Without them, both begin on one.
type Pair = [usize; 2];

/// Measures once, in about a tenth of a second. Another `turn` takes other processors: those of
/// the last one may be busy.
pub(super) fn measure(turn: usize) -> Floor {
    let mut floor = Floor::default();
    let Some(pair) = pair(&allowed_processors(), turn) else {
        return floor;
    };
    for bytes in LATENCIES {
        let before = distance(pair);
        let figure = if bytes <= 8 { word(pair, bytes) } else { shared(pair, bytes) };
        let distance = distance(pair).into_iter().chain(before).reduce(f64::min);
        floor.shared.extend(figure.map(|figure| Figure { distance, ..figure }));
    }
    floor.tcp.extend(LATENCIES.into_iter().filter_map(|bytes| tcp(pair, bytes)));
    floor
}

/// Two processors next to each other; `None` if there is only one.
fn pair(allowed: &[usize], turn: usize) -> Option<Pair> {
    let at = |turn: usize| allowed.get(turn.checked_rem(allowed.len())?).copied();
    let pair = [at(turn)?, at(turn + 1)?];
    (allowed.len() > 1).then_some(pair)
}

/// Keeps this thread on a processor. Where that is forbidden, the kernel decides.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}

/// How long a word of memory takes from one thread to the other, in microseconds.
fn distance(pair: Pair) -> Option<f64> {
    word(pair, 8).map(|figure| figure.p10)
}

fn word(pair: Pair, bytes: u64) -> Option<Figure> {
    let (to, from) = <(Word, Word)>::default();
    let here = WordLine { to: &to, from: &from, sent: 0, received: 0 };
    round_trips(pair, bytes, here, WordLine { to: &from, from: &to, sent: 0, received: 0 })
}

fn shared(pair: Pair, bytes: u64) -> Option<Figure> {
    let (to, from) = <(Slots, Slots)>::default();
    let here = SlotLine { to: &to, from: &from, sent: 0, received: 0 };
    round_trips(pair, bytes, here, SlotLine { to: &from, from: &to, sent: 0, received: 0 })
}

fn tcp(pair: Pair, bytes: u64) -> Option<Figure> {
    let (here, there) = connected().ok()?;
    round_trips(pair, bytes, TcpLine(here), TcpLine(there))
}

fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    for stream in [&here, &there] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    Ok((here, there))
}

/// Sends a message to and fro until the time is over.
fn round_trips(
    pair: Pair,
    bytes: u64,
    mut here: impl Line + Send,
    mut there: impl Line + Send,
) -> Option<Figure> {
    let length = usize::try_from(bytes).ok()?;
    let end = End::default();
    let [first, second] = pair;
    let (times, waited) = thread::scope(|scope| {
        let other = scope.spawn(|| {
            stay_on(second);
            answer(&mut there, length, &end)
        });
        // The affinity of the calling thread is that of all that it starts later.
        let one = scope.spawn(|| {
            stay_on(first);
            let seen = ask(&mut here, length, &end);
            end.0.store(true, Ordering::Relaxed);
            seen
        });
        let (times, mine) = one.join().unwrap_or_default();
        let theirs = other.join().ok().flatten();
        (times, mine.into_iter().chain(theirs).reduce(f64::max))
    });
    Figure::of_times(Kind::Latency, bytes, times, waited)
}

/// Sends back what comes. Returns in which part of the time this thread had no processor.
fn answer(line: &mut impl Line, length: usize, end: &End) -> Option<f64> {
    let mut message = vec![0; length];
    let (begin, before) = (Instant::now(), waited_by_this_thread());
    while line.receive(&mut message, end).and_then(|()| line.send(&message, end)).is_ok() {}
    share(before, waited_by_this_thread(), begin)
}

/// Times messages that come back, in microseconds for one way. Returns also in which part of the
/// time this thread had no processor.
fn ask(line: &mut impl Line, length: usize, end: &End) -> (Vec<f64>, Option<f64>) {
    let mut message = vec![1; length];
    let mut there_and_back =
        || line.send(&message, end).and_then(|()| line.receive(&mut message, end)).is_ok();
    // The other thread begins on this processor, and needs a moment to move.
    let is_there = there_and_back() && there_and_back();
    let (begin, before) = (Instant::now(), waited_by_this_thread());
    let mut times = Vec::new();
    while is_there && is_not_enough(times.len(), begin.elapsed()) {
        let start = Instant::now();
        if !there_and_back() {
            break;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
    }
    (times, share(before, waited_by_this_thread(), begin))
}

fn is_not_enough(count: usize, elapsed: Duration) -> bool {
    count < MOST && elapsed < LONGEST && (count < FEWEST || elapsed < TIME)
}

/// Which part of the time since `begin` a thread has waited for a processor.
fn share(before: Option<Duration>, after: Option<Duration>, begin: Instant) -> Option<f64> {
    let waited = after?.saturating_sub(before?);
    let elapsed = begin.elapsed().as_secs_f64();
    (elapsed > 0.0).then(|| (waited.as_secs_f64() / elapsed).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_measured_through_shared_memory_and_through_tcp() {
        let floor = measure(0);
        let sizes = |figures: &[Figure]| figures.iter().map(|one| one.bytes).collect::<Vec<_>>();
        let expected: &[u64] = if allowed_processors().len() > 1 { &LATENCIES } else { &[] };
        assert_eq!((&*sizes(&floor.shared), &*sizes(&floor.tcp)), (expected, expected));
        let is_sound = |one: &Figure| one.p10 > 0.0 && one.p10 <= one.p50 && one.count > 0;
        assert!(floor.shared.iter().chain(&floor.tcp).all(is_sound), "{floor:?}");
    }

    #[test]
    fn another_turn_takes_other_processors() {
        let pairs = [0, 1, 2].map(|turn| pair(&[4, 5, 7], turn));
        assert_eq!(pairs, [Some([4, 5]), Some([5, 7]), Some([7, 4])]);
        assert_eq!((pair(&[3], 0), pair(&[], 0)), (None, None));
    }

    #[test]
    fn a_message_arrives_through_slots_as_it_was_sent() {
        let (to, from) = <(Slots, Slots)>::default();
        let mut here = SlotLine { to: &to, from: &from, sent: 0, received: 0 };
        let mut there = SlotLine { to: &from, from: &to, sent: 0, received: 0 };
        let message: Vec<u8> = (0..=255).cycle().take(10 * SLOT + 7).collect();
        let mut arrived = vec![0; message.len()];
        let end = End::default();
        thread::scope(|scope| {
            scope.spawn(|| here.send(&message, &end).is_ok());
            assert!(there.receive(&mut arrived, &end).is_ok());
        });
        assert_eq!(arrived, message);
    }
}
