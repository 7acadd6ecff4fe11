// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking a registry many things at once.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::Error;

/// How many requests run at the same time.
const AT_ONCE: usize = 16;

/// Asks several questions at once, of which one may fail without the others.
///
/// What would be the same for all is the error of the whole.
pub(crate) fn each_by_itself<Q: Sync, A: Send>(
    questions: &[Q],
    ask: impl Fn(&Q) -> Result<A, Error> + Sync,
) -> Result<Vec<Result<A, Error>>, Error> {
    side_by_side(questions, |question| match ask(question) {
        Err(error) if error.is_about_connection() => Err(error),
        outcome => Ok(outcome),
    })
}

/// Asks several questions at once; the answers come in the order of the questions.
pub(crate) fn side_by_side<Q: Sync, A: Send>(
    questions: &[Q],
    ask: impl Fn(&Q) -> Result<A, Error> + Sync,
) -> Result<Vec<A>, Error> {
    each_of(AT_ONCE, questions, ask)
}

/// Does something with several things, so many at once; what comes of it is in their order.
/// After a failure nothing new is begun.
///
/// # Errors
///
/// Those of one of them.
pub fn each_of<Q: Sync, A: Send, E: Send>(
    at_once: usize,
    things: &[Q],
    work: impl Fn(&Q) -> Result<A, E> + Sync,
) -> Result<Vec<A>, E> {
    let next = AtomicUsize::new(0);
    let work_on = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(index) else {
                return Ok(done);
            };
            let failed = |_: &E| next.store(things.len(), Ordering::Relaxed);
            done.push((index, work(thing).inspect_err(failed)?));
        }
    };
    let outcomes: Result<Vec<Vec<(usize, A)>>, E> = thread::scope(|scope| {
        let start = |_| scope.spawn(work_on);
        let threads: Vec<_> = (0..at_once.min(things.len())).map(start).collect();
        let outcomes = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        outcomes.collect()
    });
    let mut done: Vec<(usize, A)> = outcomes?.into_iter().flatten().collect();
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, answer)| answer).collect())
}
