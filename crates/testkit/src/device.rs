// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A device of a made-up vendor: a driver that answers, and a program that asks it.

use std::path::Path;

use crate::Tree;
use crate::compiler::compile;

/// Makes the library of a driver, whose soname is `libfake.so.1`.
///
/// # Panics
///
/// If the compiler fails, like every function here.
pub fn driver(library: &Path, answer: u32) {
    let text = format!("int fake(void) {{ return {answer}; }}");
    let options = ["-shared", "-fPIC", "-Wl,-soname,libfake.so.1"];
    compile(&text, library, options);
}

impl Tree {
    /// Adds `usr/bin/uses-fake`, which prints what the driver answers. The library of a driver is
    /// needed to link it and is not added.
    #[must_use]
    pub fn user_of_driver(self, library: &Path) -> Self {
        let text =
            "#include <stdio.h>\nint fake(void);\nint main(void) { printf(\"%d\\n\", fake()); }";
        compile(text, &self.root().join("usr/bin/uses-fake"), [library]);
        self
    }
}
