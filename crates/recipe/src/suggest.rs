// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Words that were meant: the known word nearest to a misspelt one.

/// The fewest letters that are taken for the beginning of a word.
const SHORTEST_CUT: usize = 3;

/// Returns the known word that is most like the given one, if any is like it.
///
/// Upper and lower case, and `-` and `_`, are taken for the same.
#[must_use]
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // Longer words are not misspelt, they are something else; and comparing
    // costs the product of both lengths.
    const LONGEST: usize = 40;
    if word.chars().count() > LONGEST {
        return None;
    }
    let folded = fold(word);
    // A beginning of a word, or more than the word, is as near as a wrong letter.
    let is_cut = |candidate: &[char]| {
        folded.len() >= SHORTEST_CUT && candidate.starts_with(&folded)
            || candidate.len() >= SHORTEST_CUT && folded.starts_with(candidate)
    };
    known
        .iter()
        .map(|&candidate| {
            let letters = fold(candidate);
            let distance = if is_cut(&letters) { 1 } else { distance(&folded, &letters) };
            (distance, candidate)
        })
        .filter(|(distance, candidate)| {
            let length = folded.len().max(candidate.chars().count());
            *distance <= length.div_ceil(3).min(3) && *distance < length
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the hint for a word that is not known: the one that is meant, or all behind a beginning.
pub(crate) fn suggestion(word: &str, known: &[&str], all: &str) -> String {
    match nearest(word, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("{all} {}", cabane_label::enumerate(known, "and")),
    }
}

fn fold(word: &str) -> Vec<char> {
    let fold = |c: char| {
        if c == '_' { '-' } else { c.to_ascii_lowercase() }
    };
    word.chars().map(fold).collect()
}

/// Counts the letters to insert, remove, replace or swap with their neighbour
/// to come from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: &[&str] = &["name", "store", "description", "default-view", "views"];

    #[test]
    fn a_misspelt_word_is_recognised() {
        assert_eq!(nearest("descripton", KEYS), Some("description"));
    }

    #[test]
    fn swapped_letters_are_one_mistake() {
        assert_eq!(nearest("nmae", KEYS), Some("name"));
    }

    #[test]
    fn case_and_underscores_do_not_count() {
        assert_eq!(nearest("DEFAULT_VIEW", KEYS), Some("default-view"));
    }

    #[test]
    fn the_beginning_of_a_word_is_recognised() {
        assert_eq!(nearest("desc", KEYS), Some("description"));
    }

    #[test]
    fn another_word_is_not_a_misspelt_one() {
        assert_eq!(nearest("compiler", KEYS), None);
    }

    #[test]
    fn a_word_of_two_letters_is_like_nothing_of_four() {
        assert_eq!(nearest("ab", KEYS), None);
    }

    #[test]
    fn words_are_listed_as_a_person_would() {
        assert_eq!(cabane_label::enumerate(&["a", "b", "c"], "and"), "`a`, `b`, and `c`");
    }

    fn letters(word: &str) -> Vec<char> {
        word.chars().collect()
    }

    proptest! {
        #[test]
        fn the_distance_is_the_same_both_ways(a in "[abc]{0,8}", b in "[abc]{0,8}") {
            let (a, b) = (letters(&a), letters(&b));
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
        }

        #[test]
        fn only_the_same_word_is_at_distance_nought(a in "[abc]{0,8}", b in "[abc]{0,8}") {
            prop_assert_eq!(distance(&letters(&a), &letters(&b)) == 0, a == b);
        }

        #[test]
        fn the_distance_is_bounded_by_the_longer_word(a in "[abc]{0,8}", b in "[abc]{0,8}") {
            let longer = a.len().max(b.len());
            prop_assert!(distance(&letters(&a), &letters(&b)) <= longer);
        }
    }
}
