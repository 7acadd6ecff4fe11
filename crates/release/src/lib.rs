// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Release managers change a channel: each change is a new signed document.
//!
//! [`promote()`] adds images that fulfill the rules of the gate, [`rollback`] brings an earlier state
//! back, [`retire`], [`revoke`], [`waive`] and [`renew`] do what they say, and [`history()`] reads it all
//! again. Several may do so at once. [`compare_images`] compares the figures of an image with those of the
//! image before it. The design is in
//! `docs/design/0015-channels.md`.

#![forbid(unsafe_code)]

mod compare;
mod edits;
mod gate;
mod history;
mod manager;
mod promote;
mod publish;

pub use compare::{CompareRequest, ComparedImage, ImageComparison, compare_images};
pub use edits::{Retire, Waive, renew, retire, revoke, rollback, waive};
pub use gate::{GateRule, GateVerdict, Outcome, WaivedRule};
pub use history::{HistoryEntry, document, history};
pub use manager::{Manager, ManagerRequest};
pub use promote::{PromoteRequest, Promotion, plan_promotion, promote};
