// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Limits with which the kernel can load a program give an error at most: no signal ends the
//! helper.
//!
//! Which limits these are is found out with two other set-uid programs: a copy of the helper that
//! ends at its first instruction, and a small static program of the same size. A helper that is
//! linked dynamically, as in a build for developers, cannot do better than its loader.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, compile};

use crate::arena::{Arena, in_private_world, root};
use crate::start::{REQUEST, Start};
use crate::traced::traced;

/// Exits with 7. It needs a little of the stack and of what is each thread's own, as every
/// program does.
const SMALL: &str = "static char data[DATA] = {1}; static const char text[TEXT] = {1};
    static __thread char own[8192] = {1};
    int main(void) {
        volatile char stack[1024];
        stack[0] = data[0] + text[0] + own[0];
        return stack[0] + 4;
    }";
const SMALL_CODE: i32 = 7;
const TRIES: usize = 12;

/// Ends a process with the exit code 7, in the instructions of the processor.
#[cfg(target_arch = "x86_64")]
const EXIT: &[u8] = &[0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
#[cfg(target_arch = "aarch64")]
const EXIT: &[u8] = &[0xe0, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// Closes the descriptors of a list, and starts a program.
const CLOSE: &str = "use POSIX; POSIX::close($_) for split(',', shift); exec @ARGV;";

/// The programs that show what is possible.
struct Yardsticks {
    copy: PathBuf,
    small: PathBuf,
    /// The small one as a command: it is not set-uid, and reads its variables.
    command: PathBuf,
}

/// A part of the file of a program that is loaded: its offset, address and size, and whether it
/// can be written to.
struct Segment {
    offset: usize,
    address: usize,
    size: usize,
    is_data: bool,
}

fn number(bytes: &[u8], place: usize, size: usize) -> usize {
    let bytes = bytes[place..place + size].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The parts of a program of 64 bits (`elf(5)`).
fn segments(program: &[u8]) -> Vec<Segment> {
    let (table, size, count) =
        (number(program, 32, 8), number(program, 54, 2), number(program, 56, 2));
    let headers = (0..count).map(|index| &program[table + index * size..][..size]);
    let loaded = headers.filter(|header| number(header, 0, 4) == 1);
    let segment = |header: &[u8]| Segment {
        offset: number(header, 8, 8),
        address: number(header, 16, 8),
        size: number(header, 40, 8),
        is_data: number(header, 4, 4) & 2 != 0,
    };
    loaded.map(segment).collect()
}

impl Yardsticks {
    fn new(arena: &Arena) -> Self {
        let mut program = fs::read(&arena.helper).unwrap();
        let segments = segments(&program);
        let entry = number(&program, 24, 8);
        let first = segments.iter().rfind(|part| part.address <= entry).unwrap();
        let place = entry - first.address + first.offset;
        program[place..place + EXIT.len()].copy_from_slice(EXIT);
        let copy = PathBuf::from("/mnt/ends-at-once");
        fs::write(&copy, program).unwrap();
        let size = |is_data| {
            let parts = segments.iter().filter(|part| part.is_data == is_data);
            parts.map(|part| part.size).sum::<usize>()
        };
        let (data, text) = (size(true), size(false));
        let small = PathBuf::from("/mnt/small");
        let options = [
            "-O1".to_owned(),
            // As the helper is linked: where memory is missing the C library already fails when
            // it makes what it has relocated read-only.
            "-static-pie".to_owned(),
            "-Wl,-z,relro,-z,now".to_owned(),
            format!("-DDATA={data}"),
            format!("-DTEXT={text}"),
        ];
        compile(SMALL, &small, options);
        let command = PathBuf::from("/mnt/command");
        fs::copy(&small, &command).unwrap();
        root("chmod 4755 /mnt/ends-at-once /mnt/small");
        Self { copy, small, command }
    }

    /// Tells whether the kernel can load programs, and a C library can begin.
    fn can_begin(&self, start: &Start<'_>) -> bool {
        // The kernel puts up to 8 KiB of the stack aside, another time more than this time.
        let programs = [&self.copy, &self.small, &self.command];
        (0..TRIES).all(|_| programs.iter().all(|program| works(start, program)))
    }
}

fn works(start: &Start<'_>, program: &Path) -> bool {
    start.finish_as(program, &REQUEST.to_string()).code == SMALL_CODE
}

/// Makes a start that works and one that is refused in some surroundings, and returns what is
/// wrong with their ends.
fn wrong(arena: &Arena, yardsticks: &Yardsticks, wrapper: &[&str]) -> Option<String> {
    let image = arena.any_image();
    let start = arena.start().through(wrapper);
    let refused = start.clone().image(&image, Path::new("/etc")).finish();
    let command = yardsticks.command.to_str().unwrap();
    let started = start.image(&image, arena.first()).command(&[command]).finish();
    // 126: the command is an image of a process of its own, and may have no space.
    let is_clean = |finished: &Finished| [SMALL_CODE, 125, 126].contains(&finished.code);
    let is_right = (refused.code == 125 && is_clean(&started)) || !begins(arena, wrapper);
    (!is_right).then(|| format!("{}: {refused:?} {started:?}", wrapper.join(" ")))
}

/// Tells whether the helper came to its first own instruction, which asks for a limit that no C
/// library asks for.
fn begins(arena: &Arena, wrapper: &[&str]) -> bool {
    let log = arena.world.path("limits");
    let start = arena.start();
    let traced = traced(&start, arena.user(), &["-e", "trace=prlimit64"], &log);
    traced.through(wrapper).finish();
    fs::read_to_string(log).unwrap().contains("RLIMIT_FSIZE")
}

/// Tries limits, some of which must be such that programs work.
fn try_all(arena: &Arena, limits: &[&str]) -> Vec<String> {
    let yardsticks = Yardsticks::new(arena);
    let limits = limits.iter().map(|limit| format!("--{limit}"));
    let possible: Vec<String> = limits
        .filter(|limit| yardsticks.can_begin(&arena.start().through(&["prlimit", limit])))
        .collect();
    assert!(!possible.is_empty());
    let wrong = possible.iter().filter_map(|limit| wrong(arena, &yardsticks, &["prlimit", limit]));
    wrong.collect()
}

#[test]
fn closed_descriptors_and_no_space_for_others_give_an_error_at_most() {
    in_private_world(|arena| {
        let yardsticks = Yardsticks::new(arena);
        let (mut found, mut possible) = (Vec::new(), 0);
        for limit in ["nofile=0", "nofile=1", "nofile=2", "nofile=3", "nofile=4"] {
            for closed in ["", "0", "1", "2", "0,1", "0,2", "1,2", "0,1,2"] {
                let option = format!("--{limit}");
                let wrapper = ["perl", "-e", CLOSE, closed, "prlimit", &option];
                // A C library opens what is closed in a set-uid program, and ends it by a signal
                // where that fails (glibc), or where it cannot look (musl, with less than 3):
                // before the first function of any program.
                if yardsticks.can_begin(&arena.start().through(&wrapper)) {
                    possible += 1;
                    found.extend(wrong(arena, &yardsticks, &wrapper));
                }
            }
        }
        assert!(possible > 8, "{possible}");
        assert!(found.is_empty(), "{found:#?}");
    });
}

#[test]
fn little_data_gives_an_error_at_most() {
    in_private_world(|arena| {
        let sizes = (0..64).map(|number| format!("data={}", number << 14));
        let limits: Vec<String> = sizes.collect();
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        let wrong = try_all(arena, &limits);
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn little_address_space_gives_an_error_at_most() {
    in_private_world(|arena| {
        let sizes = (1..80).map(|number| format!("as={}", number << 17));
        let limits: Vec<String> = sizes.collect();
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        let wrong = try_all(arena, &limits);
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn a_small_stack_gives_an_error_at_most() {
    in_private_world(|arena| {
        // With less than five pages it depends on chance whether a command has any space: the
        // kernel puts up to two of them aside, another time more than this time.
        let sizes = (5..40).map(|number| format!("stack={}", number << 12));
        let limits: Vec<String> = sizes.collect();
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        let wrong = try_all(arena, &limits);
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}
