// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sources of packages, which are fetched before the first is built.

use crate::cabane::Who;
use crate::spack::Stack;

#[test]
fn packages_without_usable_sources_are_named_and_nothing_is_built() {
    let stack = Stack::new(Who::OrdinaryUser);
    let answer = r#"{"failed": [
        {"package": "hello@1.0", "message": "checksum", "url": "https://example.org/h.tar.gz",
         "expected": "aa", "found": "bb"},
        {"package": "other@2", "message": "All fetchers failed", "url": "https://example.org/o",
         "details": ["file:///m: none", "https://example.org/o: E: GET https://example.org/o returned 404"]},
        {"package": "third@3\u001b[1m", "message": "Will not fetch third"}]}"#;
    stack.cabane.world.file("spack/answer", answer);
    stack.commit("spack");
    let failed = stack.build(&["stack/1.0"]);
    let expected = "error: the sources of 3 packages cannot be used; nothing was built\n\
                    \u{20} hello@1.0\n    https://example.org/h.tar.gz\n    expected: aa\n    \
                    found:    bb\n\
                    \u{20} other@2\n    https://example.org/o\n    returned 404\n\
                    \u{20} third@3\\u{1b}[1m\n    Will not fetch third\n\
                    hint: if the file is right, correct `sha256` in the package recipe";
    assert!(failed.code == 7 && failed.stderr.contains(expected), "{}", failed.stderr);
    assert_eq!(stack.called(), ["concretize"]);
}

#[test]
fn a_spack_that_cannot_fetch_beforehand_builds_all_the_same() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.fail("python");
    let built = stack.build(&["stack/1.0"]).success();
    let expected = "warning: Spack could not download the sources before the installation; see [WORLD]/build/logs/";
    assert!(built.stderr.contains(expected), "{}", built.stderr);
    assert_eq!(stack.called(), ["concretize", "install", "env"]);
}
