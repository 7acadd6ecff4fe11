// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Paths with wildcards: `?` and `*` stand for anything but `/`, `**` for directories too.

/// Returns the part of a path from the first wildcard on: for `include/**` and `include/a/b.h`,
/// `a/b.h`. Without wildcards it is the name.
pub(crate) fn below<'p>(pattern: &str, path: &'p str) -> &'p str {
    let fixed = pattern.split('/').take_while(|part| !part.contains(['*', '?'])).count();
    let all = path.split('/').count();
    let skipped = fixed.min(all - 1);
    let at = path.match_indices('/').nth(skipped.wrapping_sub(1)).map_or(0, |(at, _)| at + 1);
    &path[at..]
}

/// Tells whether a path is meant by a pattern.
///
/// Matches directory by directory. Each `**` is tried with as few as possible, and only
/// the last one is tried again, so the time is bounded by the product of both lengths.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    wild(
        &pattern,
        &path,
        |part| *part == "**",
        |part, name| {
            let (part, name): (Vec<char>, Vec<char>) =
                (part.chars().collect(), name.chars().collect());
            wild(&part, &name, |c| *c == '*', |c, found| *c == '?' || c == found)
        },
    )
}

fn wild<T>(
    pattern: &[T],
    found: &[T],
    is_any: impl Fn(&T) -> bool,
    is_same: impl Fn(&T, &T) -> bool,
) -> bool {
    let (mut p, mut f) = (0, 0);
    let mut again = None;
    while f < found.len() {
        if p < pattern.len() && is_any(&pattern[p]) {
            again = Some((p, f));
            p += 1;
        } else if p < pattern.len() && is_same(&pattern[p], &found[f]) {
            (p, f) = (p + 1, f + 1);
        } else if let Some((star, start)) = again {
            again = Some((star, start + 1));
            (p, f) = (star + 1, start + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_star_does_not_go_into_directories() {
        let found = ["lib/a.so", "lib/x/a.so", "lib/a.a"].map(|path| matches("lib/*.so", path));
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn two_stars_go_into_directories_or_into_none() {
        let found = ["inc/a.h", "inc/x/y/a.h", "a.h"].map(|path| matches("inc/**/a.h", path));
        assert_eq!(found, [true, true, false]);
    }

    #[test]
    fn what_is_kept_of_a_path_begins_with_the_first_wildcard() {
        let kept = [
            below("usr/include/**", "usr/include/a/b.h"),
            below("usr/*/b.h", "usr/include/b.h"),
            below("usr/bin/mpicc", "usr/bin/mpicc"),
            below("*", "mpicc"),
        ];
        assert_eq!(kept, ["a/b.h", "include/b.h", "mpicc", "mpicc"]);
    }

    proptest! {
        #[test]
        fn what_is_kept_of_a_path_is_its_end(pattern in "[a*?/]{1,12}", path in "[ab/]{1,12}") {
            prop_assert!(path.ends_with(below(&pattern, &path)));
        }

        #[test]
        fn every_path_matches_itself_and_two_stars(path in "[ab/.]{0,20}") {
            prop_assert!(matches(&path, &path) && matches("**", &path));
        }
    }
}
