// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Measures Cabane beside its peers, prints every figure and writes
//! `docs/performance.md`. `README.md` says how to run it and what it needs.
//!
//! One module is one section of the report. A module builds what it measures in the
//! bed, makes candidates, and lets `measure` run them in turn; nothing but `main`
//! prints.

#![forbid(unsafe_code)]

mod bed;
mod busy;
mod catalogue;
mod catalogue_browser;
mod catalogue_input;
mod catalogue_recipes;
mod comparison;
mod container;
mod container_audit;
mod container_crowd;
mod container_import;
mod container_layout;
mod container_messages;
mod container_start;
mod containers;
mod crowd;
mod delta;
mod depot;
mod finding;
mod goal;
mod images;
mod impact;
mod keeper;
mod listing;
mod machine;
mod measure;
mod memory;
mod mpi;
mod options;
mod packing;
mod peer_starters;
mod peers;
mod pipelines;
mod prefixes;
mod processor;
mod python_tree;
mod ranks;
mod reading;
mod rebuild;
mod registry;
mod report;
mod request;
mod slurm;
mod slurm_arrays;
mod slurm_cluster;
mod slurm_copies;
mod slurm_ranks;
mod slurm_ways;
mod stack;
mod stack_site;
mod start;
mod start_python;
mod starters;
mod statistics;
mod storage;
mod storage_family;
mod storage_unpacked;
mod together;
mod tree;
mod uenv;
mod uenv_site;
mod users;
mod verified;
mod world;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use bed::Bed;
use machine::Machine;
use options::Options;
use report::{Report, Section};

/// The sections by name, in the order of the report.
type MakeSection = fn(&Bed, &Options) -> Vec<Section>;
const SECTIONS: &[(&str, MakeSection)] = &[
    ("start", start::sections),
    ("python", start_python::sections),
    ("ways", reading::sections),
    ("verified", verified::sections),
    ("storage", storage::sections),
    ("many", together::sections),
    ("busy", busy::sections),
    ("list", listing::sections),
    ("registry", registry::sections),
    ("pack", packing::sections),
    ("rebuild", rebuild::sections),
    ("mpi", mpi::sections),
    ("stack", stack::sections),
    ("pipeline", pipelines::sections),
    ("catalogue", catalogue::sections),
    ("slurm", slurm::sections),
    ("containers", containers::sections),
    ("uenv", uenv::sections),
    ("crowd", |bed, options| vec![container_crowd::section(bed, options)]),
];

fn main() -> ExitCode {
    if let Some(code) = world::run_inside() {
        return code;
    }
    match Options::from_arguments(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    if options.help {
        return say(options::HELP);
    }
    let bed = Bed::make(options)?;
    let mut machine = Machine::inspect(&bed);
    say(&bed.scrubbed(&machine.to_string()))?;
    let mut report = Report::default();
    for (name, sections) in SECTIONS {
        if !options.wants(name) {
            continue;
        }
        for section in sections(&bed, options) {
            say(&bed.scrubbed(&section.to_string()))?;
            report.sections.push(section);
        }
    }
    machine.note_load_after();
    say(&format!("\n{}\n", report.goals()))?;
    say(&format!("load after: {}\n", machine.load_after))?;
    if let Some(output) = options.output() {
        let text = bed.scrubbed(&report.page(&machine, options));
        fs::write(output, text)
            .map_err(|error| format!("cannot write {}: {error}", output.display()))?;
        say(&format!("wrote {}\n", output.display()))?;
    }
    Ok(())
}

fn say(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("cannot write to standard output: {error}"))
}
