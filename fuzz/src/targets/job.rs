// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a job carries to its nodes: the list of its images, and the choice of an MPI.

use cabane_mount::{JobImages, JobMpi};

use super::{Verdict, compare};

/// Reads both variables; what is written is read as the same.
pub fn run(bytes: &[u8]) -> Verdict {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Verdict::Refused;
    };
    if let Some(mpi) = JobMpi::parse(text) {
        let printed = mpi.to_string();
        let again = JobMpi::parse(&printed).ok_or("it is malformed");
        if let wrong @ Verdict::Wrong(_) = compare(&mpi, &printed, again) {
            return wrong;
        }
    }
    match JobImages::parse(text) {
        Err(error) if error.text == 0 || error.text > text.split(',').count() => {
            Verdict::Wrong(format!("there is no such text: {error}"))
        }
        Err(_) => Verdict::Refused,
        Ok(list) => {
            if let Some(name) = unprintable(&list) {
                return Verdict::Wrong(format!("this cannot be shown: {name:?}"));
            }
            let places = vec![usize::MAX; list.images.len()];
            let _ = list.variables_for(&places);
            let printed = list.to_string();
            compare(&list, &printed, JobImages::parse(&printed))
        }
    }
}

/// Returns a text that root would write into a message.
fn unprintable(list: &JobImages) -> Option<&str> {
    let builds = list.images.iter().flatten();
    let mut texts = builds.flat_map(|build| {
        let texts = [build.label.as_str(), build.uarch.as_str()];
        texts.into_iter().chain(build.glibc.as_deref())
    });
    texts.find(|text| text.chars().any(char::is_control))
}
