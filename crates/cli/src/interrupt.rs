// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signals that stop long work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cabane_report::{IoContext, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;

/// How long a build may take to end its programs before a second signal ends it. Some
/// senders, `timeout` among them, send theirs twice at once.
const TO_CLEAN_UP: Duration = Duration::from_secs(2);
/// How long work that looks at the flag may take to notice it on a busy machine.
const FOR_AN_ANSWER: Duration = Duration::from_secs(5);

/// A build that is interrupted ends its programs before it ends itself. A signal that
/// comes later than that does what it always does.
pub(crate) fn stop_when_interrupted() -> Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let is_late = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let later = flag::register_conditional_default(signal, Arc::clone(&is_late));
        let first = flag::register(signal, Arc::clone(&interrupt));
        later.and(first).or_failed(|| "watch for signals".to_owned())?;
    }
    some_time_after(&interrupt, TO_CLEAN_UP, move || is_late.store(true, Ordering::Relaxed));
    Ok(interrupt)
}

/// As [`stop_when_interrupted`], for work that may wait for a registry, and not look at the flag: then
/// the process ends as it would without this.
pub(crate) fn end_when_interrupted() -> Result<Arc<AtomicBool>> {
    let interrupt = stop_when_interrupted()?;
    // It does not return: the signal ends the process.
    some_time_after(&interrupt, FOR_AN_ANSWER, || drop(emulate_default_handler(SIGINT)));
    Ok(interrupt)
}

fn some_time_after(
    interrupt: &Arc<AtomicBool>,
    time: Duration,
    action: impl FnOnce() + Send + 'static,
) {
    let seen = Arc::clone(interrupt);
    std::thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        std::thread::sleep(time);
        action();
    });
}
