// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What holds whatever was measured.

use cabane_mpi_audit::judge::{Class, Outcome};
use proptest::prelude::*;

use crate::made::{classes, ran};

/// Installations that differ from each other as healthy ones do.
fn healthy() -> impl Strategy<Value = Vec<[f64; 4]>> {
    let one = [0.21..0.75_f64, 0.8..1.6_f64, 2.2..6.3_f64, 33.0..80.0_f64];
    prop::collection::vec(one, 3..20)
}

fn outcomes(rows: &[[f64; 4]]) -> Vec<Outcome> {
    rows.iter().map(|row| ran(*row)).collect()
}

proptest! {
    #[test]
    fn one_that_is_slow_everywhere_changes_no_other(
        rows in healthy(), times in 10.1..1000.0_f64, place in 0_usize..20,
    ) {
        let before = classes(&outcomes(&rows));
        let mut all = rows.clone();
        let place = place.min(rows.len());
        let slowest = [0, 1, 2, 3].map(|size| {
            rows.iter().map(|row| row[size]).fold(0.0, f64::max) * times
        });
        all.insert(place, slowest);
        let mut after = classes(&outcomes(&all));
        prop_assert_eq!(after.remove(place), Class::NonPerformant);
        prop_assert_eq!(after, before);
    }

    #[test]
    fn the_order_of_installations_changes_nothing(
        (rows, shuffled) in healthy().prop_flat_map(|rows| {
            let places: Vec<usize> = (0..rows.len()).collect();
            (Just(rows), Just(places).prop_shuffle())
        }),
    ) {
        let before = classes(&outcomes(&rows));
        let other: Vec<_> = shuffled.iter().map(|place| rows[*place]).collect();
        let after = classes(&outcomes(&other));
        let expected: Vec<_> = shuffled.iter().map(|place| before[*place]).collect();
        prop_assert_eq!(after, expected);
    }

    #[test]
    fn a_machine_that_is_slower_as_a_whole_changes_no_class(
        rows in healthy(), times in 0.1..50.0_f64,
    ) {
        let slower: Vec<_> = rows.iter().map(|row| row.map(|value| value * times)).collect();
        prop_assert_eq!(classes(&outcomes(&slower)), classes(&outcomes(&rows)));
    }

    #[test]
    fn the_better_half_of_the_healthy_is_never_called_slow(rows in healthy()) {
        let found = classes(&outcomes(&rows));
        let median = |size: usize| {
            let mut values: Vec<_> = rows.iter().map(|row| row[size]).collect();
            values.sort_by(f64::total_cmp);
            values[(values.len() - 1) / 2]
        };
        for (row, class) in rows.iter().zip(found) {
            if (0..4).all(|size| row[size] <= median(size)) {
                prop_assert_eq!(class, Class::Working);
            }
        }
    }
}
