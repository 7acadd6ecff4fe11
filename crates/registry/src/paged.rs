// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A list that comes in pages. The registry says where the next page is, so it must not be able
//! to keep a client busy forever.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use ureq::http::Uri;

/// The most pages of one list. Some registries put no more than 100 names on a page.
const MAX_PAGES: usize = 10_000;
/// The most names in one list.
const MAX_NAMES: usize = 1_000_000;
/// The most bytes that all names of one list have together.
const MAX_BYTES: usize = 128 * 1024 * 1024;

/// The names of a list, as far as they were read. Errors say what is odd about the registry.
#[derive(Debug)]
pub(crate) struct PagedList {
    pages: HashSet<String>,
    pub(crate) names: Vec<String>,
    known: HashSet<String>,
    bytes: usize,
    start: Instant,
    time_limit: Duration,
}

impl PagedList {
    pub(crate) fn new(time_limit: Duration) -> Self {
        Self {
            pages: HashSet::new(),
            names: Vec::new(),
            known: HashSet::new(),
            bytes: 0,
            start: Instant::now(),
            time_limit,
        }
    }

    /// Notes that a page is about to be read.
    pub(crate) fn open(&mut self, page: &Uri) -> Result<(), String> {
        if !self.pages.insert(page.to_string()) {
            return Err("its list leads back to a page that was already read".to_owned());
        }
        if self.pages.len() > MAX_PAGES {
            return Err(format!("its list has more than {MAX_PAGES} pages, which is the limit"));
        }
        if self.start.elapsed() > self.time_limit {
            let seconds = self.time_limit.as_secs();
            return Err(format!(
                "its list is not complete after {seconds} seconds, which is the limit"
            ));
        }
        Ok(())
    }

    /// Whether no page was read before the present one.
    pub(crate) fn is_first(&self) -> bool {
        self.pages.len() == 1
    }

    /// Adds the names of a page, after which others may follow.
    pub(crate) fn add(&mut self, names: Vec<String>, continues: bool) -> Result<(), String> {
        let is_empty = names.is_empty();
        let before = self.names.len();
        for name in names {
            if self.known.contains(&name) {
                continue;
            }
            self.bytes += name.len();
            self.known.insert(name.clone());
            self.names.push(name);
        }
        if self.names.len() > MAX_NAMES || self.bytes > MAX_BYTES {
            return Err(format!(
                "its list has more than {MAX_NAMES} names or {MAX_BYTES} bytes, which is the limit"
            ));
        }
        if continues && !is_empty && self.names.len() == before {
            return Err("a page of its list repeats earlier pages".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> PagedList {
        PagedList::new(Duration::from_secs(60))
    }

    #[test]
    fn a_list_with_too_many_pages_is_refused() {
        let mut list = list();
        let outcome = (0..=MAX_PAGES).try_for_each(|number| {
            let page = format!("http://localhost/{number}").parse().unwrap();
            list.open(&page)
        });
        assert_eq!(outcome.unwrap_err(), "its list has more than 10000 pages, which is the limit");
    }

    #[test]
    fn a_list_with_too_many_names_is_refused() {
        let mut list = list();
        let page = |number: usize| (0..1000).map(|name| format!("{number}-{name}")).collect();
        let outcome = (0..=MAX_NAMES / 1000).try_for_each(|number| list.add(page(number), true));
        assert!(outcome.unwrap_err().contains("more than 1000000 names"));
    }

    #[test]
    fn a_list_that_takes_too_long_is_refused() {
        let mut list = PagedList::new(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(2));
        let outcome = list.open(&"http://localhost/".parse().unwrap());
        assert!(outcome.unwrap_err().contains("not complete after 0 seconds"));
    }
}
