// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The bill of material of an image: `sbom.spdx.json`, SPDX 2.3.
//!
//! The image is a package that contains what was built into it; what belongs to the
//! system is named and not contained. The same packages give the same document: its time
//! is that of the files in the image, and its name is made from what it says.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::fingerprint;
use crate::inside::{NeedKind, Part, SourceFile};

const NO_ASSERTION: &str = "NOASSERTION";
const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const IMAGE: &str = "SPDXRef-Image";

/// What the bill is for.
pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    /// Where it is mounted.
    pub(super) mount_point: &'a str,
    /// In seconds since 1970.
    pub(super) epoch: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "SPDX calls them so")]
struct Document<'a> {
    spdx_version: &'static str,
    data_license: &'static str,
    #[serde(rename = "SPDXID")]
    id: &'static str,
    name: &'a str,
    document_namespace: String,
    creation_info: CreationInfo,
    packages: Vec<Package<'a>>,
    relationships: Vec<Relationship>,
}

#[derive(Serialize)]
struct CreationInfo {
    created: String,
    creators: [String; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Package<'a> {
    #[serde(rename = "SPDXID")]
    id: String,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_info: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    primary_package_purpose: Option<&'static str>,
    download_location: &'a str,
    files_analyzed: bool,
    license_concluded: &'static str,
    license_declared: String,
    copyright_text: &'static str,
    supplier: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<Checksum<'a>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    source_info: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    comment: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_refs: Vec<ExternalRef>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checksum<'a> {
    algorithm: &'static str,
    checksum_value: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "SPDX calls them so")]
struct ExternalRef {
    reference_category: &'static str,
    reference_type: &'static str,
    reference_locator: String,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "SPDX calls them so")]
struct Relationship {
    spdx_element_id: String,
    relationship_type: &'static str,
    related_spdx_element: String,
}

/// Writes the bill, with a newline at the end.
pub(super) fn compose(subject: &Subject<'_>, parts: &[Part]) -> String {
    let mut sorted: Vec<&Part> = parts.iter().collect();
    sorted.sort_by(|one, other| one.record.cmp(&other.record));
    let ids = ids(&sorted);
    let mut packages = vec![image(subject)];
    packages.extend(sorted.iter().map(|part| package(part, &ids)));
    let relationships = relationships(&sorted, &ids);
    let mut document = Document {
        spdx_version: "SPDX-2.3",
        data_license: "CC0-1.0",
        id: DOCUMENT,
        name: subject.name,
        document_namespace: String::new(),
        creation_info: CreationInfo {
            created: created(subject.epoch),
            creators: [format!("Tool: cabane-{}", env!("CARGO_PKG_VERSION"))],
        },
        packages,
        relationships: relationships.into_iter().collect(),
    };
    document.document_namespace = namespace(&written(&document));
    let mut text = written(&document);
    text.push('\n');
    text
}

fn written(document: &Document<'_>) -> String {
    // Only maps with keys that are not text, and values that refuse, can fail.
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// A name that no other bill has, and every copy of this one.
fn namespace(text: &str) -> String {
    let digest = fingerprint::of_bytes(text.as_bytes());
    let hex = digest.as_str();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    // Eight stands for numbers that are made in a way of one's own.
    let (third, fourth) = (part(13, 16), part(17, 20));
    format!("urn:uuid:{}-{}-8{third}-8{fourth}-{}", part(0, 8), part(8, 12), part(20, 32))
}

fn created(epoch: u32) -> String {
    let time = jiff::Timestamp::from_second(epoch.into()).unwrap_or_default();
    format!("{time:.0}")
}

fn ids(parts: &[&Part]) -> BTreeMap<String, String> {
    let id = |part: &&Part| {
        let record = &part.record;
        let hash = record.hash.as_ref().map(|hash| format!("-{hash}"));
        let name = format!("{}-{}{}", record.name, record.version, hash.unwrap_or_default());
        let allowed = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }
        };
        let name: String = name.chars().map(allowed).collect();
        (part.key.clone(), format!("SPDXRef-Package-{name}"))
    };
    parts.iter().map(id).collect()
}

fn image<'a>(subject: &Subject<'a>) -> Package<'a> {
    Package {
        id: IMAGE.to_owned(),
        name: subject.name,
        version_info: None,
        primary_package_purpose: Some("CONTAINER"),
        download_location: NO_ASSERTION,
        files_analyzed: false,
        license_concluded: NO_ASSERTION,
        license_declared: NO_ASSERTION.to_owned(),
        copyright_text: NO_ASSERTION,
        supplier: NO_ASSERTION,
        checksums: Vec::new(),
        source_info: String::new(),
        comment: format!("an image that is mounted at {}", subject.mount_point),
        external_refs: Vec::new(),
    }
}

fn package<'a>(part: &'a Part, ids: &BTreeMap<String, String>) -> Package<'a> {
    let record = &part.record;
    let licence = part.licence.clone().filter(|text| is_expression(text));
    let sha256 = part.source.iter().filter_map(|one| one.sha256.as_deref());
    let checksum = |checksum_value| Checksum { algorithm: "SHA256", checksum_value };
    Package {
        id: ids.get(&part.key).cloned().unwrap_or_default(),
        name: &record.name,
        version_info: Some(&record.version),
        primary_package_purpose: None,
        download_location: part.source.as_ref().map_or(NO_ASSERTION, |one| &one.url),
        files_analyzed: false,
        license_concluded: NO_ASSERTION,
        license_declared: licence.unwrap_or_else(|| NO_ASSERTION.to_owned()),
        copyright_text: NO_ASSERTION,
        supplier: NO_ASSERTION,
        checksums: sha256.filter(|text| is_sha256(text)).map(checksum).collect(),
        source_info: source_info(part),
        comment: comment(part),
        external_refs: vec![ExternalRef {
            reference_category: "PACKAGE-MANAGER",
            reference_type: "purl",
            reference_locator: package_url(part),
        }],
    }
}

/// How the package was built.
fn source_info(part: &Part) -> String {
    let record = &part.record;
    let Some(hash) = record.hash.as_ref().filter(|_| !record.external) else {
        return String::new();
    };
    let target = record.target.as_deref().unwrap_or("any");
    let variants = &record.variants;
    format!("built by {} with {variants} target={target}, as /{hash}", record.manager)
}

fn comment(part: &Part) -> String {
    let outside = part.record.external;
    let prefix = part.record.prefix.as_deref().unwrap_or_default();
    let outside = outside.then(|| format!("belongs to the system, at {prefix}"));
    outside.unwrap_or_default()
}

/// Names the package as tools that look for vulnerabilities know it.
fn package_url(part: &Part) -> String {
    let record = &part.record;
    if record.manager == "python" {
        return format!("pkg:pypi/{}@{}", escaped(&part.key), escaped(&record.version));
    }
    let url = format!("pkg:generic/{}@{}", escaped(&record.name), escaped(&record.version));
    let Some(SourceFile { url: from, sha256 }) = &part.source else {
        return url;
    };
    let sha256 = sha256.iter().map(|sha256| format!("checksum=sha256:{sha256}&"));
    let sha256: String = sha256.collect();
    format!("{url}?{sha256}download_url={}", escaped(from))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn relationships(parts: &[&Part], ids: &BTreeMap<String, String>) -> BTreeSet<Relationship> {
    let relation = |one: &str, kind: &'static str, other: &str| Relationship {
        spdx_element_id: one.to_owned(),
        relationship_type: kind,
        related_spdx_element: other.to_owned(),
    };
    let mut all = BTreeSet::from([relation(DOCUMENT, "DESCRIBES", IMAGE)]);
    for part in parts {
        let Some(id) = ids.get(&part.key) else {
            continue;
        };
        if !part.record.external {
            all.insert(relation(IMAGE, "CONTAINS", id));
        }
        for need in &part.needs {
            // What only the build needed may not be there any more.
            let Some(other) = ids.get(&need.key) else {
                continue;
            };
            all.insert(match need.kind {
                NeedKind::Run => relation(id, "DEPENDS_ON", other),
                NeedKind::Build => relation(other, "BUILD_DEPENDENCY_OF", id),
                NeedKind::Test => relation(other, "TEST_DEPENDENCY_OF", id),
            });
        }
    }
    all
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a text has the form of a license expression: names with operators between them.
fn is_expression(text: &str) -> bool {
    let apart = text.replace('(', " ( ").replace(')', " ) ");
    let mut depth = 0_i32;
    let mut wants_name = true;
    for term in apart.split_whitespace() {
        let is_name = term.chars().all(|c| c.is_ascii_alphanumeric() || "-.+".contains(c));
        match term {
            "(" if wants_name => depth += 1,
            ")" if !wants_name => depth -= 1,
            "AND" | "OR" | "WITH" if !wants_name => wants_name = true,
            "AND" | "OR" | "WITH" => return false,
            _ if wants_name && is_name => wants_name = false,
            _ => return false,
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && !wants_name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_that_is_no_expression_is_not_asserted() {
        let good = [
            "MIT",
            "(GPL-2.0-only OR MIT) AND BSD-2-Clause",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
        ];
        let bad = ["", "see LICENSE", "MIT AND", "(MIT", "MIT)", "BSD, MIT"];
        let seen = good.iter().chain(&bad).map(|text| is_expression(text));
        assert_eq!(seen.collect::<Vec<_>>(), [[true; 3].as_slice(), &[false; 6]].concat());
    }

    #[test]
    fn a_bill_has_the_time_of_the_image() {
        assert_eq!(created(315_532_800), "1980-01-01T00:00:00Z");
    }

    #[test]
    fn what_a_package_url_may_not_hold_is_escaped() {
        assert_eq!(escaped("https://a/b c"), "https%3A%2F%2Fa%2Fb%20c");
    }
}
