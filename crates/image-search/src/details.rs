// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the metadata of images say to people, kept like their needs: a line of JSON for each image.

use cabane_label::Digest;
use cabane_view::{LineIndex, LineKind, Lines, Meta};
use serde::{Deserialize, Serialize};

/// The most characters of a text. A site has thousands of images.
const LONGEST: usize = 4000;
/// The most views and needs.
const MOST: usize = 100;

/// What the metadata of an image say to people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ImageDetails {
    /// What it is for.
    pub description: Option<String>,
    /// Where it must be mounted.
    pub mount: Option<String>,
    /// The view that is loaded without a choice.
    pub default_view: Option<String>,
    /// The views: their names, and what they are for.
    pub views: Vec<(String, Option<String>)>,
    /// What built it.
    pub engine: Option<String>,
    /// What it needs of the host, a short text each.
    pub needs: Vec<String>,
}

/// Lines of details.
#[derive(Clone, Copy, Debug)]
pub enum DetailLines {}

impl LineKind for DetailLines {
    const MAGIC: &'static str = "cabane-details 1";

    fn is_line(line: &str) -> bool {
        line.starts_with('{')
    }
}

/// The details of many images.
pub type DetailIndex = LineIndex<DetailLines>;

impl ImageDetails {
    /// Returns what the metadata say.
    fn of(meta: &Meta) -> Self {
        let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
        let views = meta.views.iter().take(MOST);
        Self {
            description: meta.description.as_deref().map(short),
            mount: meta.mount.as_ref().map(ToString::to_string),
            default_view: meta.default_view.as_ref().map(ToString::to_string),
            views: views
                .map(|(name, view)| (name.to_string(), view.description.as_deref().map(short)))
                .collect(),
            engine: meta.engine.as_deref().map(short),
            needs: meta.needs.texts().iter().take(MOST).map(|text| short(text)).collect(),
        }
    }

    /// Returns what an `env.json` says; `None` if it cannot be read.
    #[must_use]
    pub fn from_json(text: &[u8]) -> Option<Self> {
        Meta::from_json(text).ok().map(|meta| Self::of(&meta))
    }

    /// Returns the details of an image; nothing of one whose metadata say nothing.
    #[must_use]
    pub fn in_index(index: &DetailIndex, lines: &[&str], image: &Digest) -> Self {
        let Lines::Numbers(mut numbers) = index.in_image(image) else { return Self::default() };
        let line = numbers.next().and_then(|number| lines.get(number));
        line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }
}

/// Returns what an `env.json` says, as a line; `None` if it cannot be read.
pub(crate) fn detail_line(text: &[u8]) -> Option<String> {
    serde_json::to_string(&ImageDetails::from_json(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_can_be_read_again() {
        let text = r#"{"name": "app", "description": "two\nlines \u2028 <b>",
            "mount": "/user-environment",
            "views": {"default": {"description": "all of it"}, "modules": {}},
            "cabane": {"version": 1, "needs": {"glibc": "2.34"}}}"#;
        let line = detail_line(text.as_bytes()).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let (known, silent) = ("a".repeat(64).parse().unwrap(), "b".repeat(64).parse().unwrap());
        let mut index = DetailIndex::default();
        index.add([(Digest::clone(&known), Some(line.as_str())), (Digest::clone(&silent), None)]);
        let lines = index.lines();
        let details = ImageDetails::in_index(&index, &lines, &known);
        assert_eq!(details.description.as_deref(), Some("two\nlines \u{2028} <b>"));
        assert_eq!(details.mount.as_deref(), Some("/user-environment"));
        assert_eq!(details.needs, ["glibc 2.34"]);
        let views = [("default", Some("all of it")), ("modules", None)];
        let views = views.map(|(name, text)| (name.to_owned(), text.map(str::to_owned)));
        assert_eq!(details.views, views);
        assert_eq!(ImageDetails::in_index(&index, &lines, &silent), ImageDetails::default());
        assert_eq!(detail_line(b"no JSON"), None);
    }
}
