// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! HTTP as registries speak it: credentials go to the registry and to no one else, what
//! fails for a moment is tried again, and nothing waits for ever.

mod agents;
mod answer;
mod backing;
mod body;
mod challenge;
mod client;
mod collector;
#[cfg(feature = "fuzzing")]
mod fuzzed;
mod prove;
mod scope;
mod tokens;
pub(crate) mod url;

pub(crate) use answer::Answer;
pub use backing::{Backing, BackingAnswer, BackingBody, BackingRequest, BaseImage};
pub(crate) use body::{Body, FilePart};
pub(crate) use client::{Client, Request, in_parentheses};
pub use collector::{give_to_collector, is_address_of_collector};
#[cfg(feature = "fuzzing")]
pub use fuzzed::answer_with;
pub(crate) use scope::Scope;
