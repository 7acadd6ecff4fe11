// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Benchmarks of others, where they are installed with a library: shown, never judged.
//!
//! Both report averages, which say little where others compute as well.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::runner::Runner;
use super::start::{Manner, ranks};
use crate::Installation;

/// Where the latency benchmark of OSU is below a prefix.
const OSU: [&str; 3] = [
    "bin/osu_latency",
    "libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency",
    "libexec/osu-micro-benchmarks/mpi/pt2pt/standard/osu_latency",
];
const IMB: &str = "bin/IMB-MPI1";

/// The output of a benchmark of others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherBenchmark {
    /// The program.
    pub program: PathBuf,
    /// Size of a message and average latency in microseconds.
    pub latencies: Vec<(u64, f64)>,
}

/// Runs the benchmarks of others that are in the prefix of an installation.
pub fn other_benchmarks(
    one: &Installation,
    runner: &Runner,
    manner: &Manner,
    pmi: Option<&str>,
) -> Vec<OtherBenchmark> {
    let directory = one.launcher.as_deref().or(one.wrapper.as_deref());
    let Some(prefix) = directory.and_then(Path::parent).and_then(Path::parent) else {
        return Vec::new();
    };
    let osu = OSU.iter().map(|name| (prefix.join(name), &["-m", "8:1048576"][..]));
    let imb = (prefix.join(IMB), &["PingPong", "-msglog", "3:20"][..]);
    let there = osu.chain([imb]).filter(|(program, _)| program.exists());
    let heard = there.filter_map(|(program, options)| {
        let mut command = ranks(one, manner, pmi, 2, &program)?;
        if let Some(library) = &one.library {
            command.env("LD_LIBRARY_PATH", library);
        }
        let ended = runner.run(command.args(options));
        let latencies = latencies(&ended.output);
        (!latencies.is_empty()).then_some(OtherBenchmark { program, latencies })
    });
    heard.collect()
}

/// Takes the rows from a table: the size first, and the time after it or after the number
/// of repetitions.
fn latencies(output: &str) -> Vec<(u64, f64)> {
    let row = |line: &str| {
        let values: Option<Vec<f64>> =
            line.split_whitespace().map(|field| field.parse().ok()).collect();
        let size = line.split_whitespace().next()?.parse().ok()?;
        match values?.as_slice() {
            [_, time] | [_, _, time, _] => Some((size, *time)),
            _ => None,
        }
    };
    output.lines().filter_map(row).filter(|(size, _)| *size > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_osu_is_read() {
        let output =
            "# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n8   0.33\n16  0.35\n";
        assert_eq!(latencies(output), [(8, 0.33), (16, 0.35)]);
    }

    #[test]
    fn the_table_of_intel_is_read() {
        let output = "\
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         0.24         0.00
            8         1000         0.26        30.77

# All processes entering MPI_Finalize
";
        assert_eq!(latencies(output), [(8, 0.26)]);
    }
}
