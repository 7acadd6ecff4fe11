// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compressing with gzip by several threads at once.
//!
//! What comes is cut into pieces of one size, each of which is compressed by itself, and which
//! become one member, as every reader knows it. So the result is the same however many threads
//! there are.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cabane_label::Digest;
use flate2::{Compress, Crc, FlushCompress};
use sha2::{Digest as _, Sha256};

use super::compression::{Compressed, Failure};
use crate::digest::Summing;

/// The size of a piece before it is compressed: the larger, the fewer repetitions are missed
/// at its beginning.
pub(super) const PIECE: usize = 2 * 1024 * 1024;
/// A header without a name and a time, from an unknown system.
const GZIP_HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// A last block of nothing.
const GZIP_END: &[u8] = &[3, 0];
/// What `gzip` takes by default.
const GZIP_LEVEL: flate2::Compression = flate2::Compression::new(6);

/// A piece, compressed.
struct Piece {
    bytes: Vec<u8>,
    plain: u64,
    crc: Crc,
}

/// A piece to be compressed, and where it goes then.
type Order = (Vec<u8>, SyncSender<Piece>);

/// Compresses with so many threads.
pub(super) fn gzip(
    source: impl Read + Send,
    jobs: usize,
    output: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<Compressed, Failure> {
    let jobs = jobs.max(1);
    let (orders, work) = sync_channel::<Order>(jobs);
    let (turns, in_order) = sync_channel::<Receiver<Piece>>(2 * jobs);
    let work = Mutex::new(work);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let order = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((plain, place)) = order else { return };
                    // The waiting process may have given up.
                    let _ = place.send(piece(&plain));
                }
            });
        }
        let reader = scope.spawn(move || read_all(source, &orders, &turns));
        let written = write_all(&in_order, output, go_on);
        // The reader ends when no one takes what it has.
        drop(in_order);
        let read = reader.join();
        let (digest, size) = written?;
        let read = read.map_err(|_| io::Error::other("the thread that reads has ended"));
        let diff_id = read.and_then(|read| read).map_err(Failure::Read)?;
        Ok(Compressed { diff_id, digest, size })
    })
}

/// Reads piece by piece, and sums; ends early where no one wants more.
fn read_all(
    mut source: impl Read,
    orders: &SyncSender<Order>,
    turns: &SyncSender<Receiver<Piece>>,
) -> io::Result<Digest> {
    let mut sum = Sha256::new();
    loop {
        let mut plain = Vec::with_capacity(PIECE);
        (&mut source).take(PIECE as u64).read_to_end(&mut plain)?;
        if plain.is_empty() {
            break;
        }
        sum.update(&plain);
        let (place, piece) = sync_channel(1);
        if turns.send(piece).is_err() || orders.send((plain, place)).is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
    Ok(Digest::from_bytes(sum.finalize().into()))
}

fn write_all(
    pieces: &Receiver<Receiver<Piece>>,
    output: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<(Digest, u64), Failure> {
    let mut output = Summing::new(output);
    let (mut crc, mut plain) = (Crc::new(), 0);
    output.write_all(GZIP_HEADER).map_err(Failure::Write)?;
    for piece in pieces {
        let Ok(piece) = piece.recv() else {
            return Err(Failure::Interrupted);
        };
        output.write_all(&piece.bytes).map_err(Failure::Write)?;
        crc.combine(&piece.crc);
        plain += piece.plain;
        if !go_on(plain) {
            return Err(Failure::Interrupted);
        }
    }
    // Of the length only the lower half is written.
    let length = plain.to_le_bytes();
    let length = length.get(..4).unwrap_or_default();
    let end = [GZIP_END, &crc.sum().to_le_bytes(), length];
    output.write_all(&end.concat()).map_err(Failure::Write)?;
    let (digest, size) = output.finish().map_err(Failure::Write)?;
    Ok((digest, size))
}

fn piece(plain: &[u8]) -> Piece {
    let mut crc = Crc::new();
    crc.update(plain);
    Piece { bytes: deflate(plain), plain: plain.len() as u64, crc }
}

/// Compresses a piece such that another one can follow.
fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(GZIP_LEVEL, false);
    // More than what cannot be compressed becomes, so that one call does it.
    let mut bytes = Vec::with_capacity(plain.len() + plain.len() / 64 + 1024);
    while compress.total_in() < plain.len() as u64 {
        let done = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        let rest = plain.get(done..).unwrap_or_default();
        // Only calls in a wrong order are an error.
        let _ = compress.compress_vec(rest, &mut bytes, FlushCompress::Sync);
        bytes.reserve(1024);
    }
    bytes
}
