// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking a registry many small things at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{Error, ErrorKind};

/// How many questions are asked at once.
const AT_ONCE: usize = 16;

/// Asks several questions at once, of which one may fail without the others.
///
/// What would be the same for all is the error of the whole.
pub(crate) fn each_by_itself<Q: Sync, A: Send>(
    questions: &[Q],
    ask: impl Fn(&Q) -> Result<A, Error> + Sync,
) -> Result<Vec<Result<A, Error>>, Error> {
    side_by_side(questions, |question| match ask(question) {
        Err(error) if is_about_connection(error.kind) => Err(error),
        outcome => Ok(outcome),
    })
}

fn is_about_connection(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unreachable(_) | ErrorKind::Silent | ErrorKind::Insecure)
}

/// Asks several questions at once; the answers come in the order of the questions.
pub(crate) fn side_by_side<Q: Sync, A: Send>(
    questions: &[Q],
    ask: impl Fn(&Q) -> Result<A, Error> + Sync,
) -> Result<Vec<A>, Error> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(questions.len()));
    let failure = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(questions.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(question) = questions.get(index) else {
                        return;
                    };
                    match ask(question) {
                        Ok(answer) => {
                            let mut answers =
                                answers.lock().unwrap_or_else(PoisonError::into_inner);
                            answers.push((index, answer));
                        }
                        Err(error) => {
                            let mut failure =
                                failure.lock().unwrap_or_else(PoisonError::into_inner);
                            failure.get_or_insert(error);
                            // No one needs the other answers.
                            next.store(questions.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
