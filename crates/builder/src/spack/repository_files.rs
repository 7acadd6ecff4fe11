// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of package repositories on this machine: in directories, and in clones of Git
//! without a work tree.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cabane_spack::RepositoryFiles;

use crate::disk;

/// The most that is read of a package recipe, in bytes.
const MOST: u64 = 4 << 20;

/// A directory that holds `packages/`.
#[derive(Debug)]
pub(super) struct Directory(pub(super) PathBuf);

impl RepositoryFiles for Directory {
    fn list(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(directory)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        let path = self.0.join(path);
        // Anything else may wait for somebody who writes into it.
        path.metadata().ok().filter(fs::Metadata::is_file)?;
        let bytes = disk::read_start(&path, MOST).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A directory of a commit in a clone. One process of Git answers all questions.
#[derive(Debug)]
pub(super) struct InCommit {
    git: PathBuf,
    clone: PathBuf,
    /// The commit and the directory, as Git writes them: `1e8cf05:repos/builtin`.
    place: String,
    process: RefCell<Option<Asked>>,
}

#[derive(Debug)]
struct Asked {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl InCommit {
    pub(super) fn new(git: &Path, clone: &Path, commit: &str, directory: &str) -> Self {
        let place = format!("{commit}:{}", directory.trim_matches('/'));
        Self { git: git.to_owned(), clone: clone.to_owned(), place, process: RefCell::default() }
    }

    fn name(&self, path: &str) -> String {
        let separator = if self.place.ends_with(':') { "" } else { "/" };
        format!("{}{separator}{path}", self.place)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.git);
        command.current_dir(&self.clone).stderr(Stdio::null()).stdin(Stdio::null());
        command
    }

    fn start(&self) -> Option<Asked> {
        let mut command = self.command();
        command.args(["cat-file", "--batch"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let questions = child.stdin.take()?;
        let answers = BufReader::new(child.stdout.take()?);
        Some(Asked { child, questions, answers })
    }
}

impl RepositoryFiles for InCommit {
    fn list(&self, directory: &str) -> Vec<String> {
        let mut command = self.command();
        command.args(["ls-tree", "-z", "--name-only", &self.name(directory)]);
        let output = command.output().map(|output| output.stdout).unwrap_or_default();
        let names = String::from_utf8_lossy(&output).into_owned();
        names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        let mut process = self.process.borrow_mut();
        if process.is_none() {
            *process = self.start();
        }
        let answer = process.as_mut()?.ask(&self.name(path));
        if answer.is_none() {
            *process = None;
        }
        answer?
    }
}

impl Asked {
    /// Asks for a file: nothing if Git ended, and no text if there is no such file.
    #[expect(clippy::option_option, reason = "no answer and no file are different")]
    fn ask(&mut self, name: &str) -> Option<Option<String>> {
        if name.contains('\n') {
            return Some(None);
        }
        writeln!(self.questions, "{name}").ok()?;
        self.questions.flush().ok()?;
        let mut head = String::new();
        self.answers.read_line(&mut head).ok().filter(|length| *length > 0)?;
        let mut words = head.trim_end().rsplit(' ');
        let size = words.next().and_then(|size| size.parse::<u64>().ok());
        let kind = words.next();
        let Some(size) = size else { return Some(None) };
        let mut text = Vec::new();
        let read = size.min(MOST);
        (&mut self.answers).take(read).read_to_end(&mut text).ok()?;
        // Behind the file there is a line end.
        let rest = size.checked_add(1)?.checked_sub(read)?;
        std::io::copy(&mut (&mut self.answers).take(rest), &mut std::io::sink()).ok()?;
        let text = (kind == Some("blob")).then(|| String::from_utf8_lossy(&text).into_owned());
        Some(text)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // It would end by itself, but only after the next question.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
