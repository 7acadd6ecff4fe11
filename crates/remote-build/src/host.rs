// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds on a host. Each question is asked again over a new connection when one is cut.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cabane_builder::Progress;
use cabane_label::{ImageId, shown};
use cabane_registry::sum;
use cabane_report::{IoContext, Kind, Report, Result, Transfer, size};
use cabane_site::Context;

use crate::directory::State;
use crate::ended::{BuiltImage, Ended};
use crate::event::{LONGEST_LINE, replay};
use crate::parcel::{Limits, unpack};
use crate::request::Packed;
use crate::ssh::{Connection, Ssh, Trouble};
use crate::wire::{Answer, Ask};
use crate::worker::{Begun, Stopped, TO_STOP, Worker, still_runs};

/// The pauses before the next connection, in seconds; the last one repeats.
const PAUSES: [u64; 7] = [1, 2, 4, 8, 15, 30, 60];
/// How long to try, without the time in which this machine sleeps.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How often in a row a worker may greet and end before it answers.
const MOST_UNANSWERED: usize = 5;
/// The most bytes of the metadata of an image.
const LARGEST_META: u64 = 512 << 20;

/// Builds on a host.
pub(crate) struct Host<'a> {
    context: &'a Context,
    ssh: Ssh,
    jobs: Option<usize>,
    interrupt: &'a Arc<AtomicBool>,
    connection: Option<Connection>,
    /// Whether there ever was a connection. The first one has to work at once.
    is_known: bool,
    /// How often in a row there was no progress.
    failures: usize,
    /// Since when.
    since: Option<Instant>,
    /// How many workers in a row have greeted and not answered.
    unanswered: usize,
}

impl<'a> Host<'a> {
    pub(crate) fn new(
        context: &'a Context,
        ssh: Ssh,
        jobs: Option<usize>,
        interrupt: &'a Arc<AtomicBool>,
    ) -> Self {
        Self {
            context,
            ssh,
            jobs,
            interrupt,
            connection: None,
            is_known: false,
            failures: 0,
            since: None,
            unanswered: 0,
        }
    }

    /// Does something over a connection, and does it again over another one as often as one is cut.
    fn attempt<T>(
        &mut self,
        mut work: impl FnMut(&mut Self, &mut Connection) -> Result<T, Trouble>,
    ) -> Result<T> {
        loop {
            let connected = match self.connection.take() {
                Some(connection) => Ok(connection),
                None => self.ssh.connect(self.interrupt).inspect(|_| self.unanswered += 1),
            };
            let outcome = connected.and_then(|mut connection| {
                self.is_known = true;
                let value = work(self, &mut connection)?;
                self.connection = Some(connection);
                Ok(value)
            });
            match outcome {
                Ok(value) => {
                    self.progress();
                    return Ok(value);
                }
                Err(Trouble::Final(report)) => return Err(report),
                Err(Trouble::Cut(reason)) => self.pause(&reason)?,
            }
        }
    }

    /// Notes that something arrived.
    fn progress(&mut self) {
        self.failures = 0;
        self.since = None;
        self.unanswered = 0;
    }

    /// Waits before the next connection.
    fn pause(&mut self, reason: &str) -> Result<()> {
        self.check_interrupt()?;
        let host = &self.ssh.host;
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.is_known || since.elapsed() > PATIENCE {
            let again = if self.is_known { " any more" } else { "" };
            return Err(Report::new(Kind::Failure, format!("cannot reach {host}{again}"))
                .detailed(reason.to_owned())
                .hinted(format!(
                    "`ssh -o BatchMode=yes {host} true` shows why; it must work without a password"
                )));
        }
        if self.unanswered >= MOST_UNANSWERED {
            let program = &self.ssh.program;
            let message = format!("`{program}` on {host} ends before it answers");
            return Err(Report::new(Kind::Failure, message).detailed(reason.to_owned()).hinted(
                format!("`ssh {host} {program} doctor` shows whether Cabane works there"),
            ));
        }
        let seconds = PAUSES[self.failures.min(PAUSES.len() - 1)];
        self.failures += 1;
        let first = reason.lines().last().unwrap_or_default();
        self.context.note(format_args!(
            "the connection to {host} was cut ({first}); the build goes on; next attempt in {seconds} s"
        ));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            self.check_interrupt()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Report::new(Kind::Interrupted, "interrupted"));
        }
        Ok(())
    }

    fn look(&mut self, id: &ImageId) -> Result<State> {
        let ask = Ask::Look { id: id.clone() };
        self.attempt(|_, connection| match connection.ask(&ask, None)? {
            Answer::State(state) => Ok(state),
            _ => Err(confused()),
        })
    }

    /// Tidies up at the other end. What stays is removed there after a while: it is not worth waiting for
    /// another connection.
    fn settle(&mut self, ask: &Ask) -> Result<()> {
        let connected = self.connection.take().map_or_else(|| self.ssh.connect(self.interrupt), Ok);
        match connected.and_then(|mut connection| connection.ask(ask, None).map(drop)) {
            Err(Trouble::Final(report)) => Err(report),
            Ok(()) | Err(Trouble::Cut(_)) => Ok(()),
        }
    }

    fn fetch_image(&mut self, id: &ImageId, built: &BuiltImage, image: &Path) -> Result<()> {
        let writing = || format!("write {}", shown(image));
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(image);
        let mut file = file.or_failed(writing)?;
        let length = |file: &File| file.metadata().map(|found| found.len()).or_failed(writing);
        if length(&file)? > built.size {
            file.set_len(0).or_failed(writing)?;
        }
        self.check_space(built.size.saturating_sub(length(&file)?), image)?;
        let watched = self.context.transfer(&format!("copying the image from {}", self.ssh.host));
        let copied = self.attempt(|host, connection| {
            let mut offset = length(&file)?;
            if offset == built.size {
                return Ok(());
            }
            let ask = Ask::Image { id: id.clone(), offset };
            let Answer::Bytes(left) = connection.ask(&ask, None)? else { return Err(confused()) };
            if offset.checked_add(left) != Some(built.size) {
                let message = "the image on the other machine has changed";
                return Err(Report::new(Kind::Failure, message).into());
            }
            let mut buffer = vec![0; 256 << 10];
            while offset < built.size {
                let most =
                    buffer.len().min(usize::try_from(built.size - offset).unwrap_or(usize::MAX));
                let part = buffer.get_mut(..most).unwrap_or_default();
                let count = connection.output.read(part)?;
                if count == 0 {
                    return Err(Trouble::Cut("the end came too early".to_owned()));
                }
                file.write_all(part.get(..count).unwrap_or_default()).or_failed(writing)?;
                offset += count as u64;
                host.progress();
                watched.show(offset, built.size);
            }
            Ok(())
        });
        watched.end();
        copied
    }

    /// Fails if what is to come is larger than the free space: the other machine says how large it is.
    fn check_space(&self, bytes: u64, image: &Path) -> Result<()> {
        let place = image.parent().unwrap_or(image);
        let figures = rustix::fs::statvfs(place).map_err(std::io::Error::from);
        let figures = figures.or_failed(|| format!("find the free space in {}", shown(place)))?;
        let free = figures.f_bavail.saturating_mul(figures.f_frsize);
        if bytes <= free {
            return Ok(());
        }
        let (host, bytes, free) = (&self.ssh.host, size(bytes), size(free));
        let message = format!("the image from {host} needs {bytes} in {}", shown(place));
        Err(Report::new(Kind::Failure, message)
            .detailed(format!("  free are {free}"))
            .hinted("remove files there, or set `build.cache` to another directory".to_owned()))
    }

    fn fetch_meta(&mut self, id: &ImageId, meta: &Path) -> Result<()> {
        let copy = meta.with_extension("parcel");
        self.attempt(|_, connection| {
            let ask = Ask::Meta { id: id.clone() };
            let Answer::Bytes(size) = connection.ask(&ask, None)? else { return Err(confused()) };
            if size > LARGEST_META {
                return Err(Report::new(Kind::Failure, "the metadata are too large").into());
            }
            let mut options = OpenOptions::new();
            let file = options.create(true).write(true).truncate(true).mode(0o600).open(&copy);
            let mut file = file.or_failed(|| format!("write {}", shown(&copy)))?;
            let copied = std::io::copy(&mut (&mut connection.output).take(size), &mut file)?;
            if copied != size {
                return Err(Trouble::Cut("the end came too early".to_owned()));
            }
            Ok(())
        })?;
        unpack_meta(&copy, meta)?;
        let _ = fs::remove_file(&copy);
        Ok(())
    }
}

/// Reads, and shows how much was read.
struct Shown<'w, R> {
    bytes: R,
    done: u64,
    total: u64,
    watched: &'w dyn Transfer,
}

impl<R: Read> Read for Shown<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.done += count as u64;
        self.watched.show(self.done, self.total);
        Ok(count)
    }
}

/// Unpacks the metadata of an image into a directory.
pub(crate) fn unpack_meta(parcel: &Path, meta: &Path) -> Result<()> {
    let limits = Limits { bytes: LARGEST_META, links: false };
    let outer = meta.with_extension("unpacked");
    let _ = cabane_builder::remove_tree(&outer);
    let _ = cabane_builder::remove_tree(meta);
    File::open(parcel)
        .and_then(|file| unpack(&mut BufReader::new(file), &outer, limits))
        .and_then(|()| fs::rename(outer.join("meta"), meta))
        .and_then(|()| fs::remove_dir(&outer))
        .or_failed(|| "read the metadata of the image".to_owned())
}

fn confused() -> Trouble {
    Report::new(Kind::Failure, "the other machine sent an unexpected answer").into()
}

impl Worker for Host<'_> {
    fn begin(&mut self, id: &ImageId, packed: Option<&Packed>) -> Result<Begun> {
        let jobs = self.jobs;
        self.attempt(|host, connection| {
            let look = Ask::Look { id: id.clone() };
            let Answer::State(state) = connection.ask(&look, None)? else { return Err(confused()) };
            host.unanswered = 0;
            let answer = match (state, packed) {
                (State::Running | State::Ended, _) | (State::Cancelled, None) => {
                    return Ok(Begun::Found);
                }
                (State::Ready | State::Cancelled, _) => {
                    connection.ask(&Ask::Resume { id: id.clone(), jobs }, None)?
                }
                (State::Absent, None) => return Ok(Begun::Absent),
                (State::Absent, Some(packed)) => {
                    let watched = host.context.transfer("copying the recipe");
                    let (bytes, total) = (packed.open()?, packed.length);
                    let mut shown = Shown { bytes, done: 0, total, watched: &*watched };
                    let ask = Ask::Start { id: id.clone(), bytes: total, jobs };
                    let answer = connection.ask(&ask, Some(&mut shown));
                    watched.end();
                    answer?
                }
            };
            if matches!(answer, Answer::Done) { Ok(Begun::Started) } else { Err(confused()) }
        })
    }

    fn follow(&mut self, id: &ImageId, progress: &mut dyn Progress) -> Result<Ended> {
        let mut offset = 0;
        let context = self.context;
        self.attempt(|host, connection| {
            // A line that was cut arrives again.
            let mut rest: Vec<u8> = Vec::new();
            let mut answer = connection.ask(&Ask::Follow { id: id.clone(), offset }, None)?;
            loop {
                match answer {
                    Answer::Events(count) => {
                        rest.extend(connection.bytes(count)?);
                        host.progress();
                        let used = replay(&rest, context, progress);
                        rest.drain(..used);
                        offset += used as u64;
                        if rest.len() > LONGEST_LINE {
                            return Err(confused());
                        }
                    }
                    Answer::Ended(ended) => return Ok(ended),
                    Answer::Lost => {
                        let message = "the build has ended without a result";
                        let host = &host.ssh.host;
                        return Err(Report::new(Kind::Failure, message)
                            .hinted(format!(
                                "{host} may have been restarted; run the same command to continue after the \
                                 last finished step"
                            ))
                            .into());
                    }
                    _ => return Err(confused()),
                }
                answer = connection.answer()?;
            }
        })
    }

    fn fetch(
        &mut self,
        id: &ImageId,
        built: &BuiltImage,
        place: &Path,
    ) -> Result<(PathBuf, PathBuf)> {
        let (image, meta) = (place.join("image.partial"), place.join("meta"));
        // What an earlier attempt left may be damaged.
        for is_last in [false, true] {
            self.fetch_image(id, built, &image)?;
            if sum::file(&image, &mut |_, _| ())? == built.digest {
                self.fetch_meta(id, &meta)?;
                return Ok((image, meta));
            }
            fs::remove_file(&image).or_failed(|| format!("remove {}", shown(&image)))?;
            if is_last {
                break;
            }
            self.context
                .detail("the digest of the copied image is wrong; the image is copied again");
        }
        let message =
            format!("the image from {} does not have the digest of the build", self.ssh.host);
        Err(Report::new(Kind::Failure, message).detailed(format!("  expected {}", built.digest)))
    }

    fn cancel(&mut self, id: &ImageId) -> Result<Stopped> {
        match self.look(id)? {
            State::Absent => return Ok(Stopped::Absent),
            State::Running => {}
            State::Ready | State::Ended | State::Cancelled => {
                self.forget(id)?;
                return Ok(Stopped::Before);
            }
        }
        let ask = Ask::Cancel { id: id.clone() };
        self.attempt(|_, connection| connection.ask(&ask, None).map(drop))?;
        // The same command then begins another one.
        let begin = Instant::now();
        loop {
            match self.look(id)? {
                State::Running if begin.elapsed() > TO_STOP => {
                    return Err(still_runs(id, &self.place()));
                }
                State::Running => std::thread::sleep(Duration::from_millis(200)),
                State::Ended => {
                    self.forget(id)?;
                    return Ok(Stopped::Before);
                }
                State::Absent | State::Ready | State::Cancelled => return Ok(Stopped::Now),
            }
        }
    }

    fn reset(&mut self, id: &ImageId) -> Result<()> {
        self.settle(&Ask::Reset { id: id.clone() })
    }

    fn forget(&mut self, id: &ImageId) -> Result<()> {
        self.settle(&Ask::Forget { id: id.clone() })
    }

    fn place(&self) -> String {
        format!("on {}", self.ssh.host)
    }

    fn host(&self) -> Option<&str> {
        Some(&self.ssh.host)
    }
}
