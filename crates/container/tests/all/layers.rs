// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Layers on top of each other.

use tar::EntryType;

use crate::kit::{Flat, What, dir, file, flat, hard, layer, link, reason, special};

fn of(layers: &[&[crate::kit::Entry]]) -> Flat {
    let layers: Vec<_> = layers.iter().map(|one| layer(one)).collect();
    flat(&layers).unwrap()
}

#[test]
fn a_whiteout_hides_what_is_below() {
    let flat =
        of(&[&[dir("a/"), file("a/x", "1"), file("a/y", "2")], &[dir("a/"), file("a/.wh.x", "")]]);
    assert_eq!(flat.names(), ["a", "a/y"]);
}

#[test]
fn a_whiteout_hides_nothing_of_its_own_layer_wherever_it_stands() {
    let below: &[_] = &[file("a/x", "old"), file("a/y", "old")];
    let before: &[_] = &[file("a/.wh.x", ""), file("a/x", "new")];
    let after: &[_] = &[file("a/x", "new"), file("a/.wh.x", "")];
    let seen = [before, after].map(|above| of(&[below, above]).content("a/x"));
    assert_eq!(seen, ["new", "new"]);
}

#[test]
fn a_directory_that_was_hidden_and_made_anew_has_nothing_of_the_old_one() {
    let flat = of(&[&[file("a/b/old", "")], &[file("a/b/new", ""), file("a/.wh.b", "")]]);
    assert_eq!(flat.names(), ["a", "a/b", "a/b/new"]);
}

#[test]
fn an_opaque_directory_has_only_what_its_own_layer_and_those_above_put_there() {
    let flat = of(&[
        &[file("a/x", ""), file("a/b/y", "")],
        &[file("a/z", ""), file("a/.wh..wh..opq", ""), file("a/b/w", "")],
        &[file("a/v", "")],
    ]);
    assert_eq!(flat.names(), ["a", "a/b", "a/b/w", "a/v", "a/z"]);
}

#[test]
fn the_root_can_be_opaque() {
    let flat = of(&[&[file("a", "")], &[file("b", ""), file(".wh..wh..opq", "")]]);
    assert_eq!(flat.names(), ["b"]);
}

#[test]
fn a_whiteout_below_what_is_a_file_now_is_no_mistake() {
    let flat = of(&[
        &[dir("tree/"), file("tree/lower", "")],
        &[file("tree", "now a file"), file("tree/.wh.lower", "")],
    ]);
    assert_eq!(flat.content("tree"), "now a file");
}

#[test]
fn a_whiteout_of_what_is_not_there_is_no_mistake() {
    let flat = of(&[&[file("a/b", "")], &[file("c/.wh.d", ""), file("a/b/.wh.e", "")]]);
    assert_eq!(flat.names(), ["a", "a/b"]);
}

#[test]
fn a_whiteout_follows_links_inside_of_the_image() {
    let flat = of(&[
        &[file("usr/lib/x", ""), file("usr/lib/y", ""), link("lib", "usr/lib")],
        &[file("lib/.wh.x", "")],
    ]);
    assert_eq!(flat.names(), ["lib", "usr", "usr/lib", "usr/lib/y"]);
}

#[test]
fn a_whiteout_in_a_directory_that_replaces_a_link_hides_nothing_behind_the_link() {
    let flat = of(&[&[file("real/x", ""), link("a", "real")], &[file("a/.wh.x", ""), dir("a/")]]);
    assert_eq!(flat.names(), ["a", "real", "real/x"]);
}

#[test]
fn notes_of_old_tools_are_left_out_and_the_files_they_keep_are_found() {
    let flat = of(&[&[
        file(".wh..wh.aufs", ""),
        dir(".wh..wh.plnk/"),
        file(".wh..wh.plnk/1.2", "kept"),
        hard("a", ".wh..wh.plnk/1.2"),
    ]]);
    assert_eq!((flat.names(), flat.content("a").as_str()), (vec!["a"], "kept"));
}

#[test]
fn something_below_a_whiteout_is_refused() {
    let outcome = flat(&[layer(&[file("a/.wh.b/c", "")])]);
    assert_eq!(reason(outcome), "`a/.wh.b/c` hides nothing that there can be");
}

#[test]
fn a_whiteout_of_the_directory_above_is_refused() {
    let outcome = flat(&[layer(&[file("a/.wh...", "")])]);
    assert_eq!(reason(outcome), "`a/.wh...` hides nothing that there can be");
}

#[test]
fn a_file_replaces_a_directory_and_the_reverse() {
    let flat =
        of(&[&[file("a/x", ""), file("b", "")], &[file("a", "file"), dir("b/"), file("b/y", "")]]);
    assert_eq!(flat.names(), ["a", "b", "b/y"]);
}

#[test]
fn of_one_name_in_one_layer_the_last_entry_counts() {
    let flat = of(&[&[file("a", "1"), file("a", "2"), link("b", "x"), file("b", "3")]]);
    assert_eq!([flat.content("a"), flat.content("b")], ["2", "3"]);
}

#[test]
fn directories_that_are_not_named_are_made() {
    let flat = of(&[&[file("a/b/c", "")]]);
    assert_eq!((flat.mode("a"), flat.mode("a/b")), (0o755, 0o755));
}

#[test]
fn a_directory_that_is_named_again_keeps_what_is_in_it_and_gets_the_new_mode() {
    let flat = of(&[&[dir("a/").mode(0o700), file("a/x", "")], &[dir("a/").mode(0o775)]]);
    assert_eq!((flat.names(), flat.mode("a")), (vec!["a", "a/x"], 0o775));
}

#[test]
fn parents_that_are_links_are_followed_inside_of_the_image() {
    let flat = of(&[
        &[dir("usr/lib/"), link("lib", "/usr/lib"), link("up", "../../../usr")],
        &[file("lib/x", "1"), file("up/lib/y", "2")],
    ]);
    assert_eq!(flat.names(), ["lib", "up", "usr", "usr/lib", "usr/lib/x", "usr/lib/y"]);
}

#[test]
fn a_link_that_leads_out_of_the_image_leads_to_its_root() {
    let flat = of(&[&[link("out", "../../../../out2")], &[file("out/passwd", "inside")]]);
    assert_eq!(flat.content("out2/passwd"), "inside");
}

#[test]
fn links_are_kept_as_they_are() {
    let flat = of(&[&[link("a", "/etc/shadow"), link("b", "../../../etc/passwd")]]);
    let targets = ["a", "b"].map(|path| flat.entries[path].what.clone());
    let link = |target: &str| What::Link(target.to_owned());
    assert_eq!(targets, [link("/etc/shadow"), link("../../../etc/passwd")]);
}

#[test]
fn links_in_a_circle_are_refused_where_something_is_to_be_below_them() {
    let outcome = flat(&[layer(&[link("a", "b"), link("b", "a"), file("a/x", "")])]);
    assert_eq!(reason(outcome), "the name `a/x` leads through links without end");
}

#[test]
fn a_name_that_leads_upward_is_refused() {
    let outcome = flat(&[layer(&[file("a/../../x", "")])]);
    assert_eq!(reason(outcome), "the name `a/../../x` leads upward");
}

#[test]
fn an_absolute_name_is_below_the_root_of_the_image() {
    let flat = of(&[&[file("/a//./b", "x")]]);
    assert_eq!(flat.content("a/b"), "x");
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let flat = of(&[&[file("a", "x"), hard("b", "a"), hard("c/d", "./b")]]);
    let names = ["a", "b", "c/d"].map(|path| flat.entries[path].names);
    assert_eq!(names, [3, 3, 3]);
}

#[test]
fn a_hard_link_may_lead_to_a_file_of_a_lower_layer() {
    let flat = of(&[&[file("a", "x")], &[hard("b", "/a")]]);
    assert_eq!((flat.content("b").as_str(), flat.entries["b"].names), ("x", 2));
}

#[test]
fn a_hard_link_keeps_a_file_whose_first_name_is_gone() {
    let flat = of(&[&[file("a", "x"), hard("b", "a")], &[file(".wh.a", "")]]);
    assert_eq!((flat.names(), flat.content("b").as_str()), (vec!["b"], "x"));
}

#[test]
fn a_hard_link_may_stand_before_its_file() {
    let flat = of(&[&[hard("b", "a"), file("a", "x")]]);
    assert_eq!(flat.content("b"), "x");
}

#[test]
fn a_hard_link_to_nothing_names_both() {
    let outcome = flat(&[layer(&[hard("b", "a")])]);
    assert_eq!(reason(outcome), "`b` is a hard link to `a`, which does not exist");
}

#[test]
fn a_hard_link_to_a_directory_is_refused() {
    let outcome = flat(&[layer(&[dir("a/"), hard("b", "a")])]);
    assert_eq!(reason(outcome), "`b` is a hard link to `a`, which is a directory");
}

#[test]
fn a_hard_link_to_what_is_left_out_is_left_out() {
    let flat = of(&[&[special("a", EntryType::Char), hard("b", "a")]]);
    assert_eq!((flat.names(), flat.converted.report.changed.devices), (Vec::<&str>::new(), 2));
}

#[test]
fn the_root_cannot_be_a_file() {
    let outcome = flat(&[layer(&[file("./", "")]), layer(&[link("/", "x")])]);
    assert_eq!(reason(outcome), "the root of the image is not a directory in it");
}

#[test]
fn the_same_layers_give_the_same_image() {
    let make = || {
        let flat = of(&[&[file("a", "x"), hard("b", "a")], &[dir("c/"), link("d", "a")]]);
        cabane_container::digest::of(&flat.image)
    };
    let first = make();
    // The next second has another time.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(make(), first);
}
