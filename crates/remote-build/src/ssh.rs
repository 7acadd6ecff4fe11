// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A connection to the worker on a host, through the user's `ssh`.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_process::installation;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::settings::find_program;
use cabane_site::{Context, env_vars};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::event::escape_lines;
use crate::wire::{Answer, Ask, GREETING, Hello, LONGEST, PROTOCOL, read_line, write_line};

/// How long the other end may be silent: it gives a sign of life every five seconds.
const SILENCE: Duration = Duration::from_secs(60);
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// The most bytes that shells may print before the worker greets.
const MOST_BEFORE_GREETING: u64 = 64 << 10;
/// The exit code of `ssh` for errors of its own, and of shells without the program.
const OF_SSH: i32 = 255;
const OF_SHELL: [i32; 2] = [126, 127];

/// How a host is reached.
#[derive(Clone, Debug)]
pub(crate) struct Ssh {
    client: PathBuf,
    pub(crate) host: String,
    /// The program there.
    pub(crate) program: String,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection was cut. Another one may get the answer.
    Cut(String),
    /// Nothing changes by asking again.
    Final(Report),
}

impl From<Report> for Trouble {
    fn from(report: Report) -> Self {
        Self::Final(report)
    }
}

/// Something that was read or written fails with the connection, unless it is malformed.
impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => {
                let message = "the other machine sent an invalid message";
                Self::Final(Report::caused(Kind::Failure, message, error))
            }
            _ => Self::Cut(error.to_string()),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    child: Child,
    input: Option<Watched<ChildStdin>>,
    pub(crate) output: BufReader<Watched<ChildStdout>>,
    errors: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Ssh {
    /// Finds `ssh`, and checks the path of the program on the host.
    ///
    /// # Errors
    ///
    /// There is no `ssh` in `PATH`, or the path has characters that a shell may misread.
    pub(crate) fn new(context: &Context, host: &str, program: Option<&str>) -> Result<Self> {
        let path = context.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
        let client = find_program("ssh", path).ok_or_else(|| {
            Report::new(Kind::NotFound, "`ssh` is not in PATH").hinted(installation::hint("ssh"))
        })?;
        let program = program.unwrap_or("cabane");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-~".contains(c);
        let is_program = !program.starts_with('-') && !program.is_empty();
        if !is_program || !program.chars().all(is_plain) {
            let message = format!("`{}` is not the path of a program", escape(program));
            return Err(Report::new(Kind::Usage, message).hinted(
                "use a path of letters, digits, and `/._+-~`, as in `/opt/cabane/bin/cabane`"
                    .to_owned(),
            ));
        }
        Ok(Self { client, host: host.to_owned(), program: program.to_owned() })
    }

    /// Returns the command that runs the program on the host with these arguments. Nothing secret, and nothing
    /// that a shell could misread, is in them.
    pub(crate) fn words(&self, arguments: &[&str]) -> Vec<OsString> {
        // A connection that is dead is noticed while something is sent, too.
        let options = ["-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "--"];
        let mut words = vec![self.client.clone().into_os_string()];
        words.extend(options.map(OsString::from));
        words.extend([&self.host, &self.program].map(OsString::from));
        words.extend(arguments.iter().map(OsString::from));
        words
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let words = self.words(arguments);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Connects, and waits for the greeting of the worker.
    pub(crate) fn connect(&self, interrupt: &Arc<AtomicBool>) -> Result<Connection, Trouble> {
        let starting = || format!("start {}", self.client.display());
        let mut child = self.command(&["build-worker", "serve"]).spawn().or_failed(starting)?;
        let (input, output, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(stderr)) = (input, output, stderr) else {
            return Err(Trouble::Cut("no pipes".to_owned()));
        };
        // It may take nothing: then this process waits for it, and not in the kernel.
        rustix::io::ioctl_fionbio(&input, true).map_err(io::Error::from)?;
        let input = Some(Watched { pipe: input, interrupt: Arc::clone(interrupt) });
        let errors = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&errors);
        let reader = std::thread::spawn(move || keep_end(stderr, &kept));
        let output = BufReader::new(Watched { pipe: output, interrupt: Arc::clone(interrupt) });
        let mut connection = Connection { child, input, output, errors, reader: Some(reader) };
        match connection.greeting() {
            Ok(Some(hello)) => self.check(&hello).map(|()| connection),
            Ok(None) => Err(self.without_greeting(connection, interrupt)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.into()),
            Err(error) => Err(Trouble::Cut(error.to_string())),
        }
    }

    fn check(&self, hello: &Hello) -> Result<(), Trouble> {
        let ours = env!("CARGO_PKG_VERSION");
        let (theirs, host) = (escape(&hello.version), &self.host);
        let parts = |version: &str| -> Vec<u64> {
            version.split('.').take(2).map(|part| part.parse().unwrap_or(0)).collect()
        };
        if hello.protocol == PROTOCOL && parts(&hello.version) >= parts(ours) {
            return Ok(());
        }
        let is_older = hello.protocol < PROTOCOL || parts(&hello.version) < parts(ours);
        Err(Trouble::Final(if is_older {
            self.too_old(&theirs)
        } else {
            let message = format!("this cabane {ours} is too old for cabane {theirs} on {host}");
            Report::new(Kind::Failure, message).hinted(format!(
                "install cabane {theirs} here, or select another one there with `--remote-program PATH`"
            ))
        }))
    }

    fn too_old(&self, theirs: &str) -> Report {
        let (ours, host) = (env!("CARGO_PKG_VERSION"), &self.host);
        let message = format!("cabane {theirs} on {host} is too old: this is cabane {ours}");
        Report::new(Kind::Failure, message).hinted(format!(
            "install cabane {ours} on {host}, or select another one there with `--remote-program PATH`"
        ))
    }

    /// Says why the worker did not greet.
    fn without_greeting(&self, mut connection: Connection, interrupt: &Arc<AtomicBool>) -> Trouble {
        let (code, errors) = connection.end();
        let host = &self.host;
        match code {
            Some(OF_SSH) | None => Trouble::Cut(errors),
            Some(code) if OF_SHELL.contains(&code) => {
                let message = format!("there is no `{}` on {host}", self.program);
                Trouble::Final(Report::new(Kind::NotFound, message).detailed(errors).hinted(format!(
                    "install Cabane on {host}; if it is installed, set its path with `--remote-program PATH`; \
                     `ssh {host} 'command -v cabane'` shows what `ssh` finds in PATH"
                )))
            }
            Some(code) => {
                // One that does not know the worker is old.
                let version = self.version(interrupt);
                let old = version.map(|version| self.too_old(&version));
                Trouble::Final(old.unwrap_or_else(|| {
                    let message = format!("`{}` on {host} exited with code {code}", self.program);
                    Report::new(Kind::Failure, message).detailed(errors).hinted(format!(
                        "`ssh {host} {} --version` shows whether it works",
                        self.program
                    ))
                }))
            }
        }
    }

    /// Asks for the version of the program, safe to show.
    fn version(&self, interrupt: &Arc<AtomicBool>) -> Option<String> {
        let mut child = self.command(&["--version"]).stderr(Stdio::null()).spawn().ok()?;
        drop(child.stdin.take());
        let output = child.stdout.take()?;
        let mut text = Vec::new();
        let mut output =
            Watched { pipe: output, interrupt: Arc::clone(interrupt) }.take(MOST_BEFORE_GREETING);
        let read = output.read_to_end(&mut text);
        let _ = child.kill();
        let _ = child.wait();
        read.ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("cabane "))?;
        Some(escape(line.trim()).chars().take(40).collect())
    }
}

impl Connection {
    /// Reads the greeting; `None` if the program ends without one.
    fn greeting(&mut self) -> io::Result<Option<Hello>> {
        let mut left = MOST_BEFORE_GREETING;
        loop {
            let mut line = Vec::new();
            let count = (&mut self.output).take(left).read_until(b'\n', &mut line)?;
            left -= count as u64;
            if count == 0 && left > 0 {
                return Ok(None);
            }
            if let Some(hello) = line.strip_prefix(GREETING.as_bytes()) {
                return Ok(serde_json::from_slice(hello)?);
            }
            if left == 0 {
                let message =
                    "the shell on the other machine prints too much before the worker starts";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }

    /// Asks something, with bytes that follow, and returns the answer.
    pub(crate) fn ask(
        &mut self,
        ask: &Ask,
        bytes: Option<&mut dyn Read>,
    ) -> Result<Answer, Trouble> {
        self.send(ask, bytes).map_err(|error| self.cut(&error))?;
        self.answer()
    }

    fn send(&mut self, ask: &Ask, bytes: Option<&mut dyn Read>) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        write_line(input, ask)?;
        if let Some(bytes) = bytes {
            io::copy(bytes, input)?;
        }
        input.flush()
    }

    /// Reads the next answer.
    pub(crate) fn answer(&mut self) -> Result<Answer, Trouble> {
        match read_line::<Answer>(&mut self.output) {
            Ok(Some(Answer::Failed(failed))) => Err(Trouble::Final(failed.report(None))),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.cut(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.into()),
            Err(error) => Err(self.cut(&error)),
        }
    }

    /// Reads bytes that follow an answer.
    pub(crate) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Trouble> {
        if count > LONGEST {
            let message = "the other machine sent too much data";
            return Err(Report::new(Kind::Failure, message).into());
        }
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        self.output.read_exact(&mut bytes).map_err(|error| self.cut(&error))?;
        Ok(bytes)
    }

    /// Says how the connection ended, in the words of `ssh` if it has some.
    fn cut(&mut self, error: &io::Error) -> Trouble {
        let (_, errors) = self.end();
        Trouble::Cut(if errors.is_empty() { error.to_string() } else { errors })
    }

    /// Ends `ssh`. Returns its exit code, and the end of what it printed, safe to show.
    fn end(&mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let begin = Instant::now();
        let mut status = None;
        while status.is_none() && begin.elapsed() < Duration::from_secs(1) {
            status = self.child.try_wait().ok().flatten();
            if status.is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A connection that others share may keep the pipe open: nothing waits for it.
        if let Some(reader) = self.reader.take().filter(|_| status.is_some()) {
            let begin = Instant::now();
            while !reader.is_finished() && begin.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let errors = self.errors.lock().map(|errors| errors.clone()).unwrap_or_default();
        let code = status.and_then(|status| status.code());
        (code, escape_lines(String::from_utf8_lossy(&errors).trim()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the end of what is printed.
fn keep_end(mut errors: impl Read, kept: &Mutex<Vec<u8>>) {
    const MOST: usize = 4096;
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        if let Ok(mut kept) = kept.lock() {
            kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let excess = kept.len().saturating_sub(MOST);
            kept.drain(..excess);
        }
    }
}

/// A pipe to or from a program that may not be silent for long, and that is used until the user interrupts.
#[derive(Debug)]
pub(crate) struct Watched<P> {
    pipe: P,
    interrupt: Arc<AtomicBool>,
}

impl<P: AsFd> Watched<P> {
    /// Waits until there is something to read, or space to write.
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            // First, because a machine that always sends something may not keep the user.
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let mut wanted = [PollFd::new(&self.pipe, flags)];
            match poll(&mut wanted, Some(&TICK)) {
                Ok(1..) => return Ok(()),
                Ok(0) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if begin.elapsed() > SILENCE {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the other machine does not answer",
                ));
            }
        }
    }
}

impl Read for Watched<ChildStdout> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        self.pipe.read(buffer)
    }
}

impl Write for Watched<ChildStdin> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            match self.pipe.write(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}
