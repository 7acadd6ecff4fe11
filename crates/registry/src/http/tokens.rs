// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tokens that were got from where a registry sent us, kept while the process lives.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Scope;
use crate::credentials::Secret;

/// What the specification says a token lives when no one says how long.
const USUAL_LIFE: Duration = Duration::from_secs(60);
/// The longest that a token is kept, whatever the registry says.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
/// A token that ends while a request is on its way is of no use.
const MARGIN: Duration = Duration::from_secs(5);

/// What is sent in the header `Authorization`, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub(crate) header: Secret,
    pub(crate) user: Option<String>,
}

/// What has proved good for which scope, and until when.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<HashMap<Scope, (Proof, Option<Instant>)>>);

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, (Proof, Option<Instant>)>> {
        // What a thread that failed has left is still a map of tokens.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, scope: &Scope) -> Option<Proof> {
        let kept = self.lock();
        let (proof, end) = kept.get(scope)?;
        end.is_none_or(|end| Instant::now() < end).then(|| proof.clone())
    }

    /// Keeps what proves who asks; without an end it is good for ever.
    pub(crate) fn keep(&self, scope: &Scope, proof: Proof, life: Option<Duration>) {
        let end = life.map(|life| Instant::now() + life.min(LONGEST_LIFE).saturating_sub(MARGIN));
        self.lock().insert(scope.clone(), (proof, end));
    }

    pub(crate) fn forget(&self, scope: &Scope) {
        self.lock().remove(scope);
    }
}

/// Returns how long a token lives.
pub(crate) fn life(seconds: Option<u64>) -> Duration {
    seconds.map_or(USUAL_LIFE, Duration::from_secs)
}
