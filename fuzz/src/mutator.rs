// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How an input is damaged.

use std::ops::Range;

use crate::random::Random;

/// The largest number of bytes in an input, a little more than words may have.
const MAX_LENGTH: usize = 80 * 1024;

/// Returns a damaged copy of one input of the pool.
///
/// The pool must not be empty.
pub(crate) fn mutate(pool: &[Vec<u8>], dictionary: &[&str], random: &mut Random) -> Vec<u8> {
    let mut input = pool[random.below(pool.len())].clone();
    for _ in 0..=random.below(5) {
        let other = &pool[random.below(pool.len())];
        damage(&mut input, other, dictionary, random);
    }
    input.truncate(MAX_LENGTH);
    input
}

/// Does one kind of damage.
fn damage(input: &mut Vec<u8>, other: &[u8], dictionary: &[&str], random: &mut Random) {
    let range = some_range(input.len(), random);
    match random.below(10) {
        0 => flip_bit(input, random),
        1 => replace(input, range, &[random.byte()]),
        2 => replace(input, range.start..range.start, &[random.byte()]),
        3 => replace(input, range, &[]),
        4 => input.truncate(range.start),
        5 => {
            let piece = input[range.clone()].to_vec();
            replace(input, range.end..range.end, &piece);
        }
        6 => replace(input, range, &other[some_range(other.len(), random)]),
        7 if random.below(20) == 0 => {
            // Rarely, since it makes long inputs, which are slow.
            let times = 1 << random.below(12);
            let piece = input[range.clone()].repeat(times);
            replace(input, range, &piece);
        }
        8 => replace(input, range, token(dictionary, random)),
        _ => replace(input, range.start..range.start, token(dictionary, random)),
    }
}

/// Returns a range inside of a length; mostly a short one.
fn some_range(length: usize, random: &mut Random) -> Range<usize> {
    let start = random.below(length + 1);
    let rest = length - start;
    let limit = if random.below(4) == 0 {
        rest
    } else {
        rest.min(8)
    };
    start..start + random.below(limit + 1)
}

fn flip_bit(input: &mut [u8], random: &mut Random) {
    let place = random.below(input.len());
    if let Some(byte) = input.get_mut(place) {
        *byte ^= 1 << random.below(8);
    }
}

fn replace(input: &mut Vec<u8>, range: Range<usize>, piece: &[u8]) {
    input.splice(range, piece.iter().copied());
}

fn token<'a>(dictionary: &[&'a str], random: &mut Random) -> &'a [u8] {
    dictionary
        .get(random.below(dictionary.len()))
        .map_or(b"", |token| token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let pool = [b"prgenv-gnu/24.11:v1".to_vec(), b"@daint".to_vec()];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..1000)
                .map(|_| mutate(&pool, &["::", "%"], &mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
    }

    #[test]
    fn inputs_stay_bounded() {
        let mut pool = vec![b"abc".to_vec()];
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            pool[0] = mutate(&pool, &["token"], &mut random);
            if pool[0].is_empty() {
                pool[0] = b"abc".to_vec();
            }
        }
        assert!(pool[0].len() <= MAX_LENGTH);
    }
}
