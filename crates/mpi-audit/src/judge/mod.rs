// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what was seen of every installation to its class. Pure.
//!
//! Installations that work are compared by the latencies of four sizes: with what the node does
//! without MPI, and with the median of their healthy peers at the same distance between the ranks,
//! with a reference, or with results of earlier audits. Bandwidths and times of collective operations are shown and never
//! judged: where others compute as well they vary several times as much as what they would show.

mod classes;
mod floor;
mod history;
mod kept;
mod peers;
mod places;
mod reference;
mod sentence;
mod spread;
mod transport;
mod verdict;

pub use classes::{Against, Class, Comparison, Outcome, Reason, Verdict};
pub use floor::Floor;
pub use history::{AuditChange, ComparedInstallation, EarlierAudit};
pub use kept::KeptAudits;
pub use peers::{Change, LATENCIES, Latencies, Latency, change};
pub use places::shared_processors;
pub use reference::Reference;
pub use sentence::{percent, short, size};
pub use spread::{Spread, is_settled, spread};
pub use transport::{Way, way};
pub use verdict::{Yardsticks, judge};
