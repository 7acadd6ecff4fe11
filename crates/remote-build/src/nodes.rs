// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The commands that start workers on the nodes of a job, or on hosts.

use std::ffi::{OsStr, OsString};

use cabane_builder::WorkerCommand;
use cabane_report::{Kind, Report, Result};
use cabane_site::settings::find_program;
use cabane_site::{Context, env_vars};

use crate::request::own_words;
use crate::ssh::Ssh;

/// Returns the command of a worker for each node of the job in which this runs; none for one node. `jobs` is
/// the number of parallel processes on each.
///
/// # Errors
///
/// There is no `srun` in `PATH`.
pub(crate) fn workers_of_job(
    context: &Context,
    nodes: usize,
    jobs: Option<usize>,
) -> Result<Vec<WorkerCommand>> {
    if nodes < 2 {
        return Ok(Vec::new());
    }
    let path = context.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
    let srun = find_program("srun", path)
        .ok_or_else(|| Report::new(Kind::NotFound, "`srun` is not in PATH on the node"))?;
    let worker = |number: usize| -> Result<WorkerCommand> {
        let mut words = vec![srun.clone().into()];
        // All processors of the job on that node.
        let options = ["--quiet", "--nodes=1", "--ntasks=1", "--cpu-bind=none"];
        words.extend(options.map(OsString::from));
        words.push(format!("--relative={number}").into());
        words.extend(words_of_worker(context, jobs)?);
        Ok(WorkerCommand { name: format!("node {} of the job", number + 1), words })
    };
    (0..nodes).map(worker).collect()
}

/// Returns the command of a worker on this machine, and of one on each of these hosts; none without hosts.
/// `program` is the path of `cabane` there.
///
/// # Errors
///
/// A host or a program has characters that a shell may misread, or there is no `ssh` in `PATH`.
pub fn workers_on_hosts(
    context: &Context,
    hosts: &[String],
    program: Option<&str>,
    jobs: Option<usize>,
) -> Result<Vec<WorkerCommand>> {
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let here =
        WorkerCommand { name: "this machine".to_owned(), words: words_of_worker(context, jobs)? };
    let mut workers = vec![here];
    for host in hosts {
        let ssh = Ssh::new(context, host, program)?;
        let jobs = jobs.map(|jobs| format!("--jobs={jobs}"));
        let words: Vec<&str> =
            ["build-worker", "packages"].into_iter().chain(jobs.as_deref()).collect();
        workers.push(WorkerCommand { name: host.clone(), words: ssh.words(&words) });
    }
    Ok(workers)
}

fn words_of_worker(context: &Context, jobs: Option<usize>) -> Result<Vec<OsString>> {
    let mut words = own_words(context)?;
    words.extend(["build-worker", "packages"].map(OsString::from));
    words.extend(jobs.map(|jobs| format!("--jobs={jobs}").into()));
    Ok(words)
}
