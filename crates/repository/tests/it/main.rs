// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tests of the repository from outside.

mod adding;
mod damaged;
mod full_disk;
mod incoming;
mod killed;
mod listing;
mod model;
mod opening;
mod racing;
mod removing;
mod restricted;
mod retention;
mod support;
