// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A list of images that a service keeps, or a file on a web server: in the form in which the listing
//! service of uenv 9 answers.
//!
//! ```json
//! {"results":[{"path":"deploy/daint/gh200/prgenv-gnu/24.11/v1","sha256":"…","size":4700000000,
//!   "created":"2024-12-01 08:00:00.000000+00:00"}]}
//! ```

use cabane_label::{Namespace, escape};
use cabane_report::{Kind, Report};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use ureq::http::{Method, Uri};

use crate::document::to_bytes;
use crate::http::{Request, Scope};
use crate::{Error, ErrorKind, Listed, Place, Registry, Result};

/// 100,000 images have about 25 MiB.
const MAX_LIST: u64 = 64 * 1024 * 1024;
/// What stands for the namespace in an address.
const NAMESPACE: &str = "{namespace}";

#[derive(Serialize, Deserialize)]
struct List {
    results: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    sha256: String,
    size: u64,
    #[serde(default)]
    created: Option<String>,
}

impl Registry {
    /// Lists the images of a namespace by the service. Lines of other namespaces, and those that name no
    /// image, are ignored.
    pub(crate) fn by_service(&self, url: &str, namespace: &Namespace) -> Result<Vec<Listed>> {
        let uri = address(url, namespace).ok_or_else(|| {
            let message = format!("`{}` is not the address of a list", escape(url));
            Error::from(Report::new(Kind::BadInput, message))
        })?;
        let shown = format!("the list {}", escape(url));
        let request = Request::new(Method::GET, uri, Scope::default());
        let answer = self.client.send(&request)?;
        if answer.status != 200 {
            let message = format!("{shown} is not available: {}", answer.status);
            return Err(refused(ErrorKind::Status(answer.status.as_u16()), message));
        }
        let bytes = self.client.read("list", answer, MAX_LIST)?;
        let list: List = serde_json::from_slice(&bytes).map_err(|source| {
            let message = format!("{shown} cannot be understood: {source}");
            refused(ErrorKind::Document, message)
        })?;
        let images = list.results.into_iter().filter_map(Line::image);
        Ok(images.filter(|image| image.namespace == *namespace).collect())
    }
}

fn refused(kind: ErrorKind, message: String) -> Error {
    let hint = "`listing_url` in the configuration names it; an image can also be pulled by its full \
                label: `name/version:tag@system%uarch`";
    Error::new(kind, Report::new(Kind::Registry, message).hinted(hint.to_owned()))
}

/// Fills the namespace in, or adds it as a parameter.
fn address(url: &str, namespace: &Namespace) -> Option<Uri> {
    let text = if url.contains(NAMESPACE) {
        url.replace(NAMESPACE, namespace.as_str())
    } else {
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}namespace={namespace}")
    };
    text.parse().ok()
}

impl Line {
    fn of(image: &Listed) -> Self {
        let (namespace, label) = (&image.namespace, &image.label);
        let path = format!(
            "{namespace}/{}/{}/{}/{}/{}",
            label.system, label.uarch, label.name, label.version, label.tag
        );
        Self {
            path,
            sha256: image.digest.to_string(),
            size: image.size,
            // uenv does not read `Z`.
            created: image.date.map(|date| date.strftime("%F %T.%6f+00:00").to_string()),
        }
    }

    fn image(self) -> Option<Listed> {
        let (repository, tag) = self.path.rsplit_once('/')?;
        let place = Place::of_repository(repository, tag.parse().ok()?)?;
        let created = self.created.map(|date| date.replacen(' ', "T", 1));
        Some(Listed {
            namespace: place.namespace,
            label: place.label,
            digest: self.sha256.parse().ok()?,
            size: self.size,
            date: created.and_then(|date| date.parse::<Timestamp>().ok()),
            manifest: None,
        })
    }
}

/// Writes a list for a web server, which [`Options::listing_url`](crate::Options) and uenv read.
#[must_use]
pub fn service_list(images: &[Listed]) -> Vec<u8> {
    to_bytes(&List { results: images.iter().map(Line::of).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Listed {
        Listed {
            namespace: "deploy".parse().unwrap(),
            label: "prgenv-gnu/24.11:v1@daint%gh200".parse().unwrap(),
            digest: "a".repeat(64).parse().unwrap(),
            size: 4_700_000_000,
            date: Some("2024-12-01T08:00:00.25Z".parse().unwrap()),
            manifest: None,
        }
    }

    #[test]
    fn a_list_can_be_read_again() {
        let bytes = service_list(&[image()]);
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(
            text,
            format!(
                r#"{{"results":[{{"path":"deploy/daint/gh200/prgenv-gnu/24.11/v1","sha256":"{}","size":4700000000,"created":"2024-12-01 08:00:00.250000+00:00"}}]}}"#,
                "a".repeat(64)
            )
        );
        let list: List = serde_json::from_slice(&bytes).unwrap();
        let images: Vec<_> = list.results.into_iter().filter_map(Line::image).collect();
        assert_eq!(images, [image()]);
    }

    #[test]
    fn lines_that_name_no_image_are_ignored() {
        for path in ["", "deploy/daint", "deploy/daint/gh200/a/1/v1/x", "deploy/daint/gh200/a/1/-"]
        {
            let line =
                Line { path: path.to_owned(), sha256: "a".repeat(64), size: 1, created: None };
            assert_eq!(line.image(), None, "{path}");
        }
    }

    #[test]
    fn the_namespace_is_in_the_address() {
        let namespace = "deploy".parse().unwrap();
        let of = |url: &str| address(url, &namespace).unwrap().to_string();
        assert_eq!(
            of("https://list.example.org/list"),
            "https://list.example.org/list?namespace=deploy"
        );
        assert_eq!(of("https://a.b/l?x=1"), "https://a.b/l?x=1&namespace=deploy");
        assert_eq!(of("https://a.b/{namespace}.json"), "https://a.b/deploy.json");
    }
}
