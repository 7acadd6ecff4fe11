// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The other end of a connection: it answers questions about builds on this machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_label::{ImageId, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;

use crate::directory::{Lock, State, WorkDirectory};
use crate::ended::Failed;
use crate::request::{Order, words_of_run};
use crate::wire::{Answer, Ask, GREETING, Hello, LONGEST, PROTOCOL, read_line, write_line};

/// How often to look for what a build reports.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often the other end gets a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// How long a build that was started may take to take its lock.
const TO_BEGIN: Duration = Duration::from_secs(10);

/// Answers questions until the other end has none.
///
/// # Errors
///
/// The connection is cut, or what arrives is no question.
pub fn serve(context: &Context, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    let talk = || "talk to the other machine".to_owned();
    let hello = Hello { version: env!("CARGO_PKG_VERSION").to_owned(), protocol: PROTOCOL };
    output
        .write_all(GREETING.as_bytes())
        .and_then(|()| write_line(output, &hello))
        .or_failed(talk)?;
    while let Some(ask) = read_line::<Ask>(input).or_failed(talk)? {
        let answer = match answer(context, &ask, input, output) {
            Ok(answer) => answer,
            Err(Trouble::Connection(error)) => return Err(error).or_failed(talk),
            Err(Trouble::Here(report)) => Some(Answer::Failed(Failed::new(&report))),
        };
        if let Some(answer) = answer {
            write_line(output, &answer).or_failed(talk)?;
        }
    }
    Ok(())
}

/// Why a question has no answer.
enum Trouble {
    Connection(io::Error),
    Here(Report),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl From<Report> for Trouble {
    fn from(report: Report) -> Self {
        Self::Here(report)
    }
}

/// Answers a question; `None` if the answer is written.
fn answer(
    context: &Context,
    ask: &Ask,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<Option<Answer>, Trouble> {
    let of = |id: &ImageId| WorkDirectory::of(context, id);
    match ask {
        Ask::Look { id } => Ok(Some(Answer::State(of(id)?.state()?))),
        Ask::Start { id, bytes, jobs } => {
            let directory = of(id)?;
            let mut parcel = input.take(*bytes);
            let received = directory.receive(&mut parcel);
            // What is left of it is no question.
            io::copy(&mut parcel, &mut io::sink())?;
            received?;
            start(context, &directory, *jobs)?;
            Ok(Some(Answer::Done))
        }
        Ask::Resume { id, jobs } => {
            start(context, &of(id)?, *jobs)?;
            Ok(Some(Answer::Done))
        }
        Ask::Follow { id, offset } => follow(&of(id)?, *offset, output).map(Some),
        Ask::Image { id, offset } => send(&of(id)?, "image", *offset, output),
        Ask::Meta { id } => send(&of(id)?, "meta", 0, output),
        Ask::Cancel { id } => {
            let directory = of(id)?;
            if directory.state()? == State::Running {
                directory.cancel()?;
            }
            Ok(Some(Answer::Done))
        }
        Ask::Reset { id } => {
            let directory = of(id)?;
            if directory.state()? != State::Running {
                directory.reset();
            }
            Ok(Some(Answer::Done))
        }
        Ask::Forget { id } => {
            let directory = of(id)?;
            if directory.state()? == State::Running {
                let message = format!("the build {} still runs", id.as_str());
                return Err(Report::new(Kind::Failure, message)
                    .hinted(format!("`cabane build --cancel {}` stops it", id.as_str()))
                    .into());
            }
            directory.remove()?;
            Ok(Some(Answer::Done))
        }
    }
}

/// Starts the process of a build, which outlives this one and its connection.
fn start(context: &Context, directory: &WorkDirectory, jobs: Option<usize>) -> Result<()> {
    let order: Order = directory.json("request.json").ok_or_else(|| gone(directory))?;
    let words = words_of_run(context, directory.path(), jobs)?;
    let Some((program, arguments)) = words.split_first() else { return Err(gone(directory)) };
    let begin = Instant::now();
    // Held until the build has its own lock: another command may start the same.
    let _lock = loop {
        match directory.lock("start")? {
            Lock::Taken if begin.elapsed() > 2 * TO_BEGIN => return Err(not_begun(directory)),
            Lock::Taken => sleep(LOOK_AGAIN),
            lock => break lock,
        }
    };
    if matches!(directory.state()?, State::Running | State::Ended) {
        return Ok(());
    }
    directory.reset();
    let path = directory.file("output");
    let mut options = OpenOptions::new();
    let log = options.create(true).append(true).mode(0o600).open(&path);
    let log = log.or_failed(|| format!("write {}", shown(&path)))?;
    let again = log.try_clone().or_failed(|| "share a file".to_owned())?;
    let mut command = Command::new(program);
    // It makes a session of its own, so that no signal of this one reaches it.
    command.args(arguments).arg("--detach").envs(order.variables());
    command.current_dir(directory.path()).stdin(Stdio::null()).stdout(log).stderr(again);
    command.spawn().map(drop).or_failed(|| "start the build".to_owned())?;
    let begin = Instant::now();
    while begin.elapsed() < TO_BEGIN {
        if directory.file("process.json").exists() || directory.result().is_some() {
            return Ok(());
        }
        sleep(LOOK_AGAIN / 5);
    }
    Err(not_begun(directory))
}

fn not_begun(directory: &WorkDirectory) -> Report {
    let printed = directory.part("output", 0, 4096).unwrap_or_default();
    Report::new(Kind::Failure, "the build did not start")
        .detailed(String::from_utf8_lossy(&printed).into_owned())
}

/// Sends what a build reports until it ends.
fn follow(
    directory: &WorkDirectory,
    mut offset: u64,
    output: &mut dyn Write,
) -> Result<Answer, Trouble> {
    let mut last_sign = Instant::now();
    let mut last_look = Instant::now();
    loop {
        // First the result: what is read then is all.
        let result = directory.result();
        let events = directory.events(offset, LONGEST)?;
        if !events.is_empty() || last_sign.elapsed() > SIGN_OF_LIFE {
            write_line(output, &Answer::Events(events.len() as u64))?;
            output.write_all(&events)?;
            output.flush()?;
            offset += events.len() as u64;
            last_sign = Instant::now();
        }
        if let Some(result) = result.filter(|_| events.is_empty()) {
            return Ok(Answer::Ended(result));
        }
        if last_look.elapsed() > SIGN_OF_LIFE {
            match directory.state()? {
                State::Absent | State::Ready => return Ok(Answer::Lost),
                State::Running | State::Ended | State::Cancelled => last_look = Instant::now(),
            }
        }
        if events.is_empty() {
            sleep(LOOK_AGAIN);
        }
    }
}

/// Sends a file from an offset to its end.
fn send(
    directory: &WorkDirectory,
    name: &str,
    offset: u64,
    output: &mut dyn Write,
) -> Result<Option<Answer>, Trouble> {
    let path = directory.file(name);
    let open = || -> io::Result<(File, u64)> {
        let mut file = File::open(&path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(offset))?;
        Ok((file, size.saturating_sub(offset)))
    };
    let (file, size) = open().or_failed(|| format!("read {}", shown(&path)))?;
    write_line(output, &Answer::Bytes(size))?;
    if io::copy(&mut file.take(size), output)? != size {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    output.flush()?;
    Ok(None)
}

fn gone(directory: &WorkDirectory) -> Report {
    let message = format!("{} contains no build", shown(directory.path()));
    Report::new(Kind::NotFound, message)
}
