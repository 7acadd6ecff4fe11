// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane-fuzz <target> [--seconds N] [--seed S] [file…]`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cabane_fuzz::campaign::{self, Failure};
use cabane_fuzz::targets::{TARGETS, Target};

const USAGE: &str = "usage: cabane-fuzz <target> [--seconds N] [--seed S] [file…]";

/// What was typed.
struct Arguments {
    target: Target,
    seconds: u64,
    seed: u64,
    /// Inputs to be fed once, instead of a campaign.
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match parse_arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            let names = TARGETS.map(|target| target.name).join(", ");
            eprintln!("error: {message}\n{USAGE}\ntargets: {names}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse_arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let name = words.next().ok_or("the target is missing")?;
    let target = TARGETS.into_iter().find(|target| target.name == name);
    let target = target.ok_or_else(|| format!("`{}` is not a target", name.escape_debug()))?;
    let mut arguments = Arguments {
        target,
        seconds: 5,
        seed: 1,
        files: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().unwrap_or_default();
            value
                .parse()
                .map_err(|_| format!("`{word}` needs a number"))
        };
        match word.as_str() {
            "--seconds" => arguments.seconds = number()?,
            "--seed" => arguments.seed = number()?,
            _ => arguments.files.push(PathBuf::from(word)),
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> Result<String, String> {
    let Arguments {
        target,
        seconds,
        seed,
        files,
    } = arguments;
    let keep = |failure: &Failure| keep_input(target, failure);
    if !files.is_empty() {
        for input in read_all(files)? {
            campaign::feed(target, &input).map_err(|failure| failure.to_string())?;
        }
        return Ok(format!("{}: {} files hold", target.name, files.len()));
    }
    // A stack that overflows ends the process before anything can be said.
    eprintln!("{}: feeding for {seconds} s with seed {seed}", target.name);
    let seeds = read_all(&list(&directory("seeds").join(target.name))?)?;
    let summary = campaign::run(target, seeds, *seed, Duration::from_secs(*seconds));
    let summary = summary.map_err(|failure| format!("{failure}\n{}", keep(&failure)))?;
    Ok(format!(
        "{}: {} inputs, {} accepted",
        target.name, summary.inputs, summary.accepted
    ))
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Lists the files of a directory by name, so that the order is always the same.
fn list(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let read = || directory.read_dir()?.map(|file| Ok(file?.path())).collect();
    let files: std::io::Result<Vec<PathBuf>> = read();
    let mut files =
        files.map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
    files.sort();
    Ok(files)
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let read = |file: &PathBuf| {
        std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    };
    files.iter().map(read).collect()
}

/// Keeps the input of a failure; returns what to type to feed it again.
fn keep_input(target: &Target, failure: &Failure) -> String {
    let file = directory("corpus").join(format!("{}-failure", target.name));
    let written = std::fs::create_dir_all(directory("corpus"))
        .and_then(|()| std::fs::write(&file, &failure.input));
    match written {
        Ok(()) => format!("hint: cargo run -- {} {}", target.name, file.display()),
        Err(error) => format!("cannot write {}: {error}", file.display()),
    }
}
