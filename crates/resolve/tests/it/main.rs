// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tests of resolving from outside, on small repositories.

mod environments;
mod images;
mod mount_points;
mod paths;
mod roots;
mod support;
mod views;
