// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm collect`, which the Slurm plugin starts: failures of many nodes, reported as one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use crate::cabane::{Cabane, Who};

const SECRET: &str = "0123456789abcdef";

/// Starts it as the plugin does; returns the port, too.
fn started(cabane: &Cabane) -> (Child, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // Nodes connect at the same time.
    rustix::net::listen(&listener, 4096).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = cabane.command(&["slurm", "collect"]);
    command.env("SLURM_CABANE_FAILURES", format!("{port}:{SECRET}"));
    command.stdin(Stdio::piped()).stdout(OwnedFd::from(listener)).stderr(Stdio::piped());
    (command.spawn().unwrap(), port)
}

/// Says something as a node does; returns the answer.
fn say(port: u16, text: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// What it says when `srun` ends, however that happens.
fn last_words(mut process: Child) -> String {
    drop(process.stdin.take());
    String::from_utf8(process.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn a_thousand_nodes_are_one_block_also_if_srun_is_killed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (process, port) = started(&cabane);
    let nodes: Vec<u32> = (1..=1000).collect();
    let one = |node: &u32| say(port, &format!("{SECRET}\nnid{node:06}\nno room\nhint: wait\n"));
    let first: usize = std::thread::scope(|scope| {
        let one = &one;
        let threads = nodes.chunks(125).map(|nodes| {
            scope.spawn(move || nodes.iter().map(one).filter(|answer| answer == b"e").count())
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let told = last_words(process);
    // On a slow machine it may have lost its patience once.
    let last = "cabane: nid[000001-001000]: no room\ncabane: hint: wait\n";
    assert!(told.contains(last) && told.lines().count() <= 9, "{told}");
    assert_eq!(first, 1);
}

#[test]
fn strangers_are_neither_answered_nor_told() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (process, port) = started(&cabane);
    assert_eq!(say(port, "secret\nn1\nno room\n"), b"");
    assert_eq!(say(port, "\n\n"), b"");
    assert_eq!(say(port, &format!("{SECRET}\nn1\nno\u{1b}[2J room\n")), b"e");
    assert_eq!(last_words(process), "cabane: n1: no\\u{1b}[2J room\n");
}

#[test]
fn without_a_socket_it_ends() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let mut command = cabane.command(&["slurm", "collect"]);
    command.env("SLURM_CABANE_FAILURES", "1:secret");
    let finished = cabane.finish(&mut command);
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stderr.contains("cannot listen for the nodes"), "{finished:?}");
}
