// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The proof: a small program that is loaded as the real one, and the output of its ranks.
//!
//! Two failures look like success: a search path that does nothing, and ranks under a
//! launcher that does not know them, each of them alone. So the probe tells which file was
//! loaded and how many ranks there are, adds a sum, and sends windows of large messages:
//! those are what breaks where small ones still arrive.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Family;

/// The program, in C.
pub const PROBE: &str = include_str!("probe.c");

/// Options for the compiler of the probe, beside the family.
///
/// Addresses of objects of a library are looked up, and not copied. The C library is given by
/// hand, see [`c_library`], so that nothing is put in that asks for more of it.
pub const PROBE_OPTIONS: [&str; 9] = [
    "-std=c99",
    "-O2",
    "-fPIC",
    "-pie",
    "-fno-builtin",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-D_POSIX_C_SOURCE=199309L",
    "-nodefaultlibs",
];

/// Returns the option of the compiler for the family.
#[must_use]
pub fn family_option(family: Family) -> &'static str {
    match family {
        Family::Mpich => "-DFAMILY=1",
        Family::OpenMpi => "-DFAMILY=2",
        Family::Mpi5Abi => "-DFAMILY=3",
    }
}

/// Returns a library, in C, that has the names which the probe needs and does nothing: it
/// is linked with, and never loaded.
#[must_use]
pub fn stub() -> String {
    const FUNCTIONS: [&str; 12] = [
        "Init",
        "Finalize",
        "Barrier",
        "Comm_rank",
        "Comm_size",
        "Get_library_version",
        "Allreduce",
        "Send",
        "Recv",
        "Isend",
        "Irecv",
        "Waitall",
    ];
    const OBJECTS: [&str; 4] = ["comm_world", "byte", "int", "op_sum"];
    let functions = FUNCTIONS.map(|name| format!("void MPI_{name}(void) {{}}\n"));
    let objects = OBJECTS.map(|name| format!("char ompi_mpi_{name}[512];\n"));
    functions.concat() + &objects.concat()
}

/// Returns a C library, in C, that has only names: it is linked with, and never loaded.
///
/// A program that is linked with a real one asks for the versions of functions that this one
/// has, and starts with none that is older. Without versions it gets whatever there is: the
/// probe runs in containers that are older than the system on which it was compiled.
#[must_use]
pub fn c_library() -> String {
    const FUNCTIONS: [&str; 27] = [
        "__cxa_finalize",
        "__isoc99_sscanf",
        "__libc_start_main",
        "calloc",
        "clock_gettime",
        "fclose",
        "fflush",
        "fgets",
        "fopen",
        "free",
        "getenv",
        "malloc",
        "memcpy",
        "memmove",
        "memset",
        "printf",
        "putchar",
        "puts",
        "qsort",
        "sleep",
        "snprintf",
        "sscanf",
        "strchr",
        "strcmp",
        "strcspn",
        "strlen",
        "strncmp",
    ];
    FUNCTIONS.map(|name| format!("void {name}(void) {{}}\n")).concat()
}

/// The output of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSeen {
    /// Its number.
    pub rank: u32,
    /// How many ranks it knows of.
    pub size: u32,
    /// Whether the sum was right.
    pub is_sum_right: bool,
    /// Whether the large messages arrived whole.
    pub is_large_right: bool,
    /// The library that was loaded.
    pub library: PathBuf,
    /// What the library says it is.
    pub version: String,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `latency` in microseconds or `bandwidth` in megabytes a second.
    pub kind: String,
    /// The size of the messages.
    pub bytes: u64,
    /// The tenth percentile.
    pub value: f64,
}

/// The output of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeSeen {
    /// Each rank, in their order.
    pub ranks: Vec<RankSeen>,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// What is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// Nothing was heard.
    #[error("no rank has reported anything")]
    Silence,
    /// The launcher and the library do not know each other.
    #[error("{count} ranks were started, and each believes to be the only one")]
    Alone {
        /// How many there are.
        count: usize,
    },
    /// Some are missing.
    #[error("{count} ranks have answered, and there should be {size}")]
    Incomplete {
        /// How many there are.
        count: usize,
        /// How many there should be.
        size: u32,
    },
    /// Another library was loaded.
    #[error("{} was loaded, and not {}", found.display(), wanted.display())]
    OtherLibrary {
        /// What was loaded.
        found: PathBuf,
        /// What should have been.
        wanted: PathBuf,
    },
    /// The numbers are wrong.
    #[error("a sum over all ranks was wrong")]
    WrongSum,
    /// The messages are wrong.
    #[error("large messages did not arrive whole")]
    WrongMessages,
}

impl ProbeSeen {
    /// Reads what the ranks printed; other lines belong to others.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut seen = Self::default();
        for line in text.lines() {
            seen.ranks.extend(rank(line));
            seen.figures.extend(figure(line));
        }
        seen.ranks.sort_by_key(|one| one.rank);
        seen
    }

    /// Compares with what should be; `library` is the file that should have been loaded,
    /// and `ranks` how many there should be, if that is known.
    ///
    /// # Errors
    ///
    /// The first thing that is not so.
    pub fn check(&self, library: &Path, ranks: Option<u32>) -> Result<(), ProbeFailure> {
        let first = self.ranks.first().ok_or(ProbeFailure::Silence)?;
        let count = self.ranks.len();
        let is_alone = self.ranks.iter().all(|one| one.size == 1);
        if is_alone && (count > 1 || ranks.is_some_and(|ranks| ranks > 1)) {
            return Err(ProbeFailure::Alone { count });
        }
        let size = ranks.unwrap_or(first.size);
        let mut numbers = self.ranks.iter().zip(0..);
        let is_whole = numbers.all(|(one, number)| one.rank == number && one.size == size);
        if !is_whole || u32::try_from(count) != Ok(size) {
            return Err(ProbeFailure::Incomplete { count, size });
        }
        if let Some(other) = self.ranks.iter().find(|one| one.library != library) {
            return Err(ProbeFailure::OtherLibrary {
                found: other.library.clone(),
                wanted: library.to_owned(),
            });
        }
        if !self.ranks.iter().all(|one| one.is_sum_right) {
            return Err(ProbeFailure::WrongSum);
        }
        if !self.ranks.iter().all(|one| one.is_large_right) {
            return Err(ProbeFailure::WrongMessages);
        }
        Ok(())
    }
}

fn rank(line: &str) -> Option<RankSeen> {
    let (fields, version) = line.strip_prefix("probe ")?.split_once(" | ")?;
    let mut fields = fields.splitn(5, ' ');
    let rank = fields.next()?.parse().ok()?;
    let size = fields.next()?.parse().ok()?;
    let is_sum_right = fields.next()? == "1";
    let is_large_right = fields.next()? == "1";
    let version = version.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(RankSeen {
        rank,
        size,
        is_sum_right,
        is_large_right,
        library: fields.next()?.into(),
        version,
    })
}

fn figure(line: &str) -> Option<Figure> {
    let mut fields = line.split(' ');
    let kind = fields.next().filter(|kind| matches!(*kind, "latency" | "bandwidth"))?;
    Some(Figure {
        kind: kind.to_owned(),
        bytes: fields.next()?.parse().ok()?,
        value: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), ProbeFailure> {
        ProbeSeen::read(text).check(Path::new("/lib/libmpi.so.12"), None)
    }

    #[test]
    fn ranks_that_know_each_other_are_a_proof() {
        let text = "probe 1 2 1 1 /lib/libmpi.so.12 | MPICH 5\nhello\n\
                    probe 0 2 1 1 /lib/libmpi.so.12 | MPICH 5\nlatency 8 0.34\n";
        assert_eq!(check(text), Ok(()));
        assert_eq!(ProbeSeen::read(text).figures.len(), 1);
    }

    #[test]
    fn ranks_that_are_alone_are_none() {
        let text = "probe 0 1 1 1 /lib/libmpi.so.12 | x\n".repeat(2);
        assert_eq!(check(&text), Err(ProbeFailure::Alone { count: 2 }));
    }

    #[test]
    fn a_rank_that_is_missing_is_noticed() {
        let text = "probe 0 2 1 1 /lib/libmpi.so.12 | x\n";
        let expected = ProbeFailure::Incomplete { count: 1, size: 2 };
        assert_eq!(check(text), Err(expected));
    }

    #[test]
    fn another_library_is_noticed() {
        let text = "probe 0 1 1 1 /usr/lib/libmpi.so.12 | x\n";
        assert!(matches!(check(text), Err(ProbeFailure::OtherLibrary { .. })));
    }

    #[test]
    fn a_wrong_sum_and_a_broken_message_are_noticed() {
        let text = "probe 0 1 0 1 /lib/libmpi.so.12 | x\n";
        assert_eq!(check(text), Err(ProbeFailure::WrongSum));
        let text = "probe 0 1 1 0 /lib/libmpi.so.12 | x\n";
        assert_eq!(check(text), Err(ProbeFailure::WrongMessages));
    }
}
