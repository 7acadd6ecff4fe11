// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Two users on the same nodes.

use crate::arena::{Cluster, in_cluster};

/// What alice and bob, at once, get to see on node n1.
fn both(cluster: &Cluster, alice: &str, bob: &str) -> [String; 2] {
    std::thread::scope(|scope| {
        [("alice", alice), ("bob", bob)]
            .map(|(name, image)| {
                let script = format!(
                    "srun -w n1 --uenv={image} sh -c 'who; stat --format=%d /user-environment; sleep 0.7'"
                );
                scope.spawn(move || cluster.user(name).sh(&script).success().stdout)
            })
            .map(|thread| thread.join().unwrap())
    })
}

#[test]
fn two_users_with_one_image_share_what_the_kernel_holds_of_it() {
    in_cluster!(|cluster: &Cluster| {
        let [alice, bob] = both(cluster, "app/1:v1", "app/1:v1");
        assert_eq!(alice, bob);
    });
}

#[test]
fn two_users_with_different_images_have_their_own() {
    in_cluster!(|cluster: &Cluster| {
        let said = both(cluster, "app/1:v1", "/home/bob/own.squashfs");
        let said = said.map(|text| text.lines().next().unwrap_or_default().to_owned());
        assert_eq!(said, ["app 1", "app 2"]);
    });
}
