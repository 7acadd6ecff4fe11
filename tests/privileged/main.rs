// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Attacks on the set-uid helper, by an ordinary user, on the real kernel.
//!
//! Each must fail to get through, and leave nothing behind: no mount, loop device,
//! process or lock. Where it is cheap, the same test shows the harmless case that
//! works. `arena.rs` says where they take place, `docs/design/0005-the-helper.md` what
//! the helper promises.

mod arena;
mod attach;
mod command;
mod descriptors;
mod hostile;
mod kills;
mod left_over;
mod limits;
mod mount_points;
mod policy;
mod roots;
mod start;
mod surroundings;

use std::fs;
use std::path::Path;

#[test]
fn no_file_of_this_test_is_forgotten() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/privileged");
    let declared = fs::read_to_string(directory.join("main.rs")).unwrap();
    let forgotten: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem()?.to_str().map(str::to_owned)
        })
        .filter(|name| name != "main" && !declared.contains(&format!("mod {name};")))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new());
}
