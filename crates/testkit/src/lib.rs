// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What tests share: a frozen world, tiny real images, an ordinary user.
//!
//! A test that cannot run where it is says so with [`not_run!`]. That prints one
//! line, and fails when `CI` is set: there, nothing is left out silently.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "a test that cannot set the scene has failed")]

mod compiler;
mod device;
mod image;
pub mod mpi;
mod noise;
mod private;
mod process;
mod program;
mod registry;
mod root_tree;
mod server;
mod slowness;
mod user;
mod world;

pub use compiler::compile;
pub use device::driver;
pub use image::{Tree, erofs, squashfs};
pub use noise::noise;
pub use private::{
    again_in_private_world, can_have_private_world, furnish_private_world, run_as_root,
};
pub use process::{is_running, wait_until};
pub use program::{Program, is_registry_one_of};
pub use registry::{
    Bearer, Fault, HostileRegistry, Nginx, RealRegistry, RealRegistryOptions, Request, Settings,
    When, digest_of,
};
pub use server::{Server, free_port};
pub use slowness::{fewer, slowness, time_limit};
pub use user::{ORDINARY_USER, become_ordinary_user, is_root};
pub use world::{Finished, World};

/// Says that a test did not run and why, and returns from it; fails in CI.
#[macro_export]
macro_rules! not_run {
    ($($reason:tt)*) => {{
        let reason = format!($($reason)*);
        assert!(std::env::var_os("CI").is_none(), "a test did not run in CI: {reason}");
        $crate::say(&format!("not run: {reason}"));
        return;
    }};
}

/// Says that a test belongs to another command, which brings what it needs, and returns
/// from it. That is no failure, not even in CI.
#[macro_export]
macro_rules! belongs_to {
    ($command:literal) => {{
        $crate::say(concat!("not run: `", $command, "` runs it"));
        return;
    }};
}

/// Prints a line for the person who runs the tests, also where the output of a test
/// that passes is thrown away: what did not run must be seen.
pub fn say(line: &str) {
    use std::io::Write as _;
    // Without a reader it is lost.
    let _ = writeln!(std::io::stderr(), "{line}");
}
