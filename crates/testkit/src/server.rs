// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Servers that end with their test.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::time_limit;

/// How long a server may take to answer.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A program that serves while this value lives. It ends with the value, and with the
/// process of the tests, however that ends.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
    /// Keeps the thread that started the child: the kernel ends the child with it.
    _starter: mpsc::Sender<()>,
}

impl Server {
    /// Prepares a command for [`Server::start`].
    pub fn command(program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        command.arg(program.as_ref());
        command
    }

    /// Starts a command of [`Server::command`]; what it says goes to the file `log`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let output = File::create(log).expect("make a log");
        let errors = output.try_clone().expect("open a log twice");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let (to_us, from_starter) = mpsc::channel();
        let (to_starter, until_dropped) = mpsc::channel::<()>();
        // A thread of a test may end before what others of its tests share.
        thread::spawn(move || {
            // No one listens any more: then there is nothing to wait for.
            let _ = to_us.send(command.spawn());
            let _ = until_dropped.recv();
        });
        let child = from_starter.recv().expect("an answer of the starter");
        let child = child.unwrap_or_else(|error| panic!("cannot start setpriv: {error}"));
        Self { child, log: log.to_owned(), _starter: to_starter }
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        match fs::read(&self.log) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => panic!("cannot read {}: {error}", self.log.display()),
        }
    }

    /// Waits until it answers at a port of this machine.
    ///
    /// # Panics
    ///
    /// With what it printed, if it ends instead or takes longer than a minute.
    pub fn wait_for_port(&mut self, port: u16) {
        self.wait_for(|_| TcpStream::connect(("127.0.0.1", port)).ok());
    }

    /// Waits until `found` finds something in the log.
    ///
    /// # Panics
    ///
    /// With what it printed, if it ends instead or takes longer than a minute.
    pub fn wait_for<T>(&mut self, found: impl Fn(&str) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            let ended = self.child.try_wait().expect("ask for a server");
            let log = self.log();
            if let Some(status) = ended {
                panic!("a server ended with {status}:\n{log}");
            }
            if let Some(value) = found(&log) {
                return value;
            }
            assert!(started.elapsed() < time_limit(TIME_LIMIT), "a server does not answer:\n{log}");
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that no one listened at just now, for a server that cannot choose one itself.
///
/// # Panics
///
/// If there is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{World, is_running, wait_until};

    #[test]
    fn a_server_ends_with_its_value() {
        let world = World::new();
        let mark = "31536.25";
        let mut command = Server::command("sleep");
        command.arg(mark);
        let server = Server::start(command, &world.path("log"));
        wait_until(&format!("sleep {mark}"), true);
        drop(server);
        assert!(!is_running(&format!("sleep {mark}")));
    }

    #[test]
    #[should_panic(expected = "no such sound")]
    fn the_output_of_a_server_before_its_end_is_shown() {
        let world = World::new();
        let mut command = Server::command("sh");
        command.args(["-c", "echo no such sound; exit 3"]);
        let mut server = Server::start(command, &world.path("log"));
        server.wait_for(|_| None::<()>);
    }
}
