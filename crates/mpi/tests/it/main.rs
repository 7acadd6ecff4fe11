// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Real libraries of MPI: what is reported about them, and whether it is so.
//!
//! Each test of a substitution asks first and then runs two ranks: what is called possible
//! must work with the substitute, and what is refused must fail if it is done all the same.

mod containers;
mod families;
mod languages;
mod libraries;
mod probe;
mod substitutes;
mod support;
