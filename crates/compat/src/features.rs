// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Features of the processor, by the names that the kernel has for them.
//!
//! The processor itself is queried: `/proc/cpuinfo` takes a millisecond on a large node,
//! and on older kernels ten.

/// Returns those of some features that this processor lacks. A feature that is not known
/// here counts as there; one that another architecture has, and this one cannot have, does
/// not.
#[must_use]
pub fn missing_features<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_missing = |name: &&str| !has(name).unwrap_or_else(|| !OF_OTHERS.contains(name));
    names.into_iter().filter(is_missing).collect()
}

/// Returns all features that this processor has and that can be missing elsewhere.
#[must_use]
pub fn present_features() -> Vec<&'static str> {
    KNOWN.iter().copied().filter(|name| has(name) == Some(true)).collect()
}

/// Returns whether a name is that of a feature that can be missing, on this architecture or another.
#[must_use]
pub fn is_known_feature(name: &str) -> bool {
    has(name).is_some() || OF_OTHERS.contains(&name)
}

/// Names that only processors of other architectures have.
#[cfg(target_arch = "x86_64")]
const OF_OTHERS: &[&str] = &[
    "fp", "asimd", "asimddp", "asimdrdm", "asimdhp", "fphp", "asimdfhm", "atomics", "crc32",
    "dcpop", "dcpodp", "evtstrm", "lrcpc", "ilrcpc", "pmull", "sha1", "sha2", "sha3", "sha512",
    "sve", "sve2", "bf16", "i8mm", "fcma", "jscvt", "flagm", "frint", "dit", "uscat",
];
/// Names that only processors of other architectures have.
#[cfg(target_arch = "aarch64")]
const OF_OTHERS: &[&str] = &[
    "mmx",
    "sse",
    "sse2",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "avx",
    "avx2",
    "bmi1",
    "bmi2",
    "f16c",
    "fma",
    "abm",
    "movbe",
    "popcnt",
    "cx16",
    "pclmulqdq",
    "rdrand",
    "rdseed",
    "adx",
    "xsave",
    "clflushopt",
    "clzero",
    "avx512f",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512vl",
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OF_OTHERS: &[&str] = &[];

/// Asks for each of a list of features: the name of the kernel, and that of the compiler.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detect {
    ($detected:ident, $($($kernel:literal)|+ => $compiler:tt,)*) => {
        /// The features that can be asked for.
        const KNOWN: &[&str] = &[$($($kernel),+),*];

        fn has(name: &str) -> Option<bool> {
            match name {
                $($($kernel)|+ => Some(std::arch::$detected!($compiler)),)*
                _ => None,
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
detect! {
    is_x86_feature_detected,
    "ssse3" => "ssse3",
    "sse4_1" => "sse4.1",
    "sse4_2" => "sse4.2",
    "sse4a" => "sse4a",
    "popcnt" => "popcnt",
    "cx16" => "cmpxchg16b",
    "aes" => "aes",
    "pclmulqdq" => "pclmulqdq",
    "sha_ni" => "sha",
    "rdrand" => "rdrand",
    "rdseed" => "rdseed",
    "adx" => "adx",
    "avx" => "avx",
    "avx2" => "avx2",
    "bmi1" => "bmi1",
    "bmi2" => "bmi2",
    "f16c" => "f16c",
    "fma" => "fma",
    "abm" => "lzcnt",
    "movbe" => "movbe",
    "xsave" => "xsave",
    "xsavec" => "xsavec",
    "xsaveopt" => "xsaveopt",
    "tbm" => "tbm",
    "gfni" => "gfni",
    "vaes" => "vaes",
    "vpclmulqdq" => "vpclmulqdq",
    "avx512f" => "avx512f",
    "avx512bw" => "avx512bw",
    "avx512cd" => "avx512cd",
    "avx512dq" => "avx512dq",
    "avx512vl" => "avx512vl",
    "avx512ifma" => "avx512ifma",
    "avx512vbmi" => "avx512vbmi",
    "avx512_vbmi2" => "avx512vbmi2",
    "avx512_vnni" => "avx512vnni",
    "avx512_bitalg" => "avx512bitalg",
    "avx512_bf16" => "avx512bf16",
    "avx512_vpopcntdq" => "avx512vpopcntdq",
}

#[cfg(target_arch = "aarch64")]
detect! {
    is_aarch64_feature_detected,
    "asimddp" => "dotprod",
    "asimdrdm" => "rdm",
    "asimdhp" | "fphp" => "fp16",
    "asimdfhm" => "fhm",
    "atomics" => "lse",
    "crc32" => "crc",
    "dcpop" => "dpb",
    "lrcpc" => "rcpc",
    "aes" => "aes",
    "pmull" => "pmull",
    "sha1" | "sha2" => "sha2",
    "sha3" | "sha512" => "sha3",
    "sve" => "sve",
    "sve2" => "sve2",
    "bf16" => "bf16",
    "i8mm" => "i8mm",
    "fcma" => "fcma",
    "jscvt" => "jsconv",
    "flagm" => "flagm",
    "frint" => "frintts",
    "dit" => "dit",
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KNOWN: &[&str] = &[];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has(_name: &str) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_present_is_known_and_not_missing() {
        let present = present_features();
        assert!(present.iter().all(|name| is_known_feature(name)), "{present:?}");
        assert_eq!(missing_features(present), Vec::<&str>::new());
    }

    #[test]
    fn what_is_not_known_is_not_missing() {
        assert_eq!(missing_features(["a_new_one", "clzero"]), [""; 0]);
    }

    #[test]
    fn what_only_another_architecture_has_is_missing() {
        let name = if cfg!(target_arch = "x86_64") { "sve" } else { "avx2" };
        assert_eq!(missing_features([name]), [name]);
    }

    #[test]
    fn what_the_kernel_says_is_there_is_not_missing() {
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("/proc");
        let line =
            text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
        let names = line.and_then(|line| line.split_once(':')).map_or("", |(_, rest)| rest);
        assert_eq!(missing_features(names.split_whitespace()), [""; 0]);
    }
}
