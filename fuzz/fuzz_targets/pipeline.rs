// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cabane_fuzz::feed(
    cabane_fuzz::targets::recipe::pipeline,
    input
));
