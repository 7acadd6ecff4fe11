// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long to wait, and how often to try again.

use std::hash::{BuildHasher, RandomState};
use std::thread::sleep;
use std::time::Duration;

/// How long to wait for a registry, and how often to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often something is tried again that brings nothing forward.
    pub retries: u32,
    /// The first pause; each is twice as long as the one before.
    pub pause: Duration,
    /// The longest pause that is chosen here.
    pub longest_pause: Duration,
    /// The longest pause that a registry may ask for; when it asks for more, we give up.
    pub longest_request: Duration,
    /// How long a connection may take.
    pub connect: Duration,
    /// How long a connection may be silent.
    pub silence: Duration,
    /// How long one answer may take that is a document, a list, or an error.
    pub answer: Duration,
    /// How long all pages of a list may take.
    pub list: Duration,
    /// How long a registry may think about an upload that is complete: it reads it again.
    pub thinking: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 6,
            pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            longest_request: Duration::from_secs(180),
            connect: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            answer: Duration::from_secs(300),
            list: Duration::from_secs(1800),
            thinking: Duration::from_secs(900),
        }
    }
}

/// Counts the attempts at one thing.
#[derive(Debug)]
pub(crate) struct Retries {
    retry_policy: RetryPolicy,
    done: u32,
}

impl Retries {
    pub(crate) fn new(retry_policy: RetryPolicy) -> Self {
        Self { retry_policy, done: 0 }
    }

    /// Forgets the failures: something was brought forward.
    pub(crate) fn progress(&mut self) {
        self.done = 0;
    }

    /// Returns how long to wait before the next attempt; `None` when it is enough. A pause that the
    /// registry requests is the least; it may be 0.
    pub(crate) fn next_pause(&mut self, requested: Option<Duration>) -> Option<Duration> {
        if self.done >= self.retry_policy.retries {
            return None;
        }
        self.done += 1;
        let requested = requested.unwrap_or_default();
        if requested > self.retry_policy.longest_request {
            return None;
        }
        let doubled = self.retry_policy.pause.saturating_mul(1 << (self.done - 1).min(16));
        let pause = doubled.min(self.retry_policy.longest_pause);
        // Clients that failed at once must not return at once, also where all got the same `Retry-After`.
        let share = RandomState::new().hash_one(self.done) % 512;
        let own = pause / 2 + pause.mul_f64(f64::from(u16::try_from(share).unwrap_or(0)) / 1024.0);
        Some(requested + own)
    }

    /// Waits before the next attempt; `false` when it is enough.
    pub(crate) fn wait(&mut self, requested: Option<Duration>) -> bool {
        let pause = self.next_pause(requested);
        if let Some(pause) = pause {
            sleep(pause);
        }
        pause.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let mut retries = Retries::new(RetryPolicy::default());
        let pauses: Vec<_> = std::iter::from_fn(|| retries.next_pause(None)).collect();
        let (first, last) = (pauses[0], pauses[5]);
        assert_eq!(pauses.len(), 6);
        assert!(first <= Duration::from_millis(500) && first >= Duration::from_millis(250));
        assert!(last >= Duration::from_secs(8) && last <= Duration::from_secs(16));
    }

    #[test]
    fn a_registry_may_request_a_pause_but_not_for_any() {
        let mut retries = Retries::new(RetryPolicy::default());
        let minute = Duration::from_secs(60);
        let pause = retries.next_pause(Some(minute)).unwrap();
        assert!(pause >= minute && pause < minute + Duration::from_secs(1), "{pause:?}");
        assert_eq!(retries.next_pause(Some(minute * 10)), None);
    }

    #[test]
    fn a_registry_that_requests_no_pause_is_not_asked_again_at_once() {
        let mut retries = Retries::new(RetryPolicy::default());
        let pauses = std::iter::from_fn(|| retries.next_pause(Some(Duration::ZERO)));
        assert!(pauses.sum::<Duration>() > Duration::from_secs(15));
    }

    #[test]
    fn progress_gives_new_patience() {
        let retry_policy = RetryPolicy { retries: 1, ..RetryPolicy::default() };
        let mut retries = Retries::new(retry_policy);
        assert!(retries.next_pause(None).is_some());
        assert!(retries.next_pause(None).is_none());
        retries.progress();
        assert!(retries.next_pause(None).is_some());
    }
}
