// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which image of an index is for a platform.

use crate::document::Descriptor;
use crate::{Error, Platform};

impl Platform {
    /// Chooses of an index what is for this platform.
    pub(crate) fn choose<'a>(&self, index: &'a [Descriptor]) -> Result<&'a Descriptor, Error> {
        let images = || index.iter().filter(|one| !one.is_attached);
        let fitting = images().filter_map(|one| Some((self.fitness(one.platform.as_ref()?)?, one)));
        // Of two that fit as well the first is taken, as others do.
        let best = fitting.rev_max();
        if let Some(best) = best {
            return Ok(best);
        }
        // One without a platform is for whatever its configuration says.
        let mut bare = images().filter(|one| one.platform.is_none());
        match (bare.next(), bare.next()) {
            (Some(one), None) => Ok(one),
            _ => {
                let there = images().filter_map(|one| Some(one.platform.as_ref()?.to_string()));
                Err(Error::no_platform(self, &there.collect::<Vec<_>>()))
            }
        }
    }
}

trait FirstOfBest<'a> {
    fn rev_max(self) -> Option<&'a Descriptor>;
}

impl<'a, I: Iterator<Item = (u32, &'a Descriptor)>> FirstOfBest<'a> for I {
    fn rev_max(self) -> Option<&'a Descriptor> {
        let better = |best: (u32, &'a Descriptor), one: (u32, &'a Descriptor)| {
            if one.0 > best.0 { one } else { best }
        };
        self.reduce(better).map(|(_, one)| one)
    }
}
