// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Questions with a time limit.

use std::time::Duration;

use cabane_process::child::ask_within;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::facts::{Answer, NoAnswer};

/// Asks a child of this process. Whatever it does to its namespaces ends with it.
pub(crate) fn within<T>(limit: Duration, look: impl FnOnce() -> T) -> Answer<T>
where
    T: Serialize + DeserializeOwned,
{
    let answer =
        ask_within(limit, || serde_json::to_vec(&look()).map_err(|error| error.to_string()));
    match answer {
        Ok(Ok(bytes)) => {
            serde_json::from_slice(&bytes).map_err(|error| NoAnswer::Failed(error.to_string()))
        }
        Ok(Err(reason)) => Err(NoAnswer::Failed(reason)),
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            Err(NoAnswer::Silent(limit.as_secs()))
        }
        Err(error) => Err(NoAnswer::Failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_given_up() {
        let answer: Answer<u32> = within(Duration::from_millis(20), || {
            std::thread::sleep(Duration::from_secs(60));
            1
        });
        assert_eq!(answer, Err(NoAnswer::Silent(0)));
    }

    #[test]
    fn what_crashes_is_no_crash_of_ours() {
        let answer: Answer<u32> = within(Duration::from_secs(60), || panic!("no"));
        assert!(matches!(answer, Err(NoAnswer::Failed(_))), "{answer:?}");
    }
}
