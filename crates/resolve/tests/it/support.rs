// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories with images that hold nothing but a header.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::parse_uenv_list;
use cabane_report::Result;
use cabane_repository::{AddRequest, Repository, Transfer};
use cabane_resolve::{
    ConcreteEnvironment, DefaultView, LocatedImage, NamedRepository, RequestedImage, Resolver,
    assemble,
};
use cabane_view::parse_view_list;
use tempfile::TempDir;

/// Two repositories, `site` before `user`, on the system `daint`.
pub(crate) struct World {
    pub(crate) place: TempDir,
    pub(crate) system: Option<&'static str>,
}

const REPOSITORIES: [(&str, i32); 2] = [("user", 1), ("site", 2)];

impl World {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        for (name, _) in REPOSITORIES {
            Repository::create(&place.path().join(name)).unwrap();
        }
        Self { place, system: Some("daint") }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Adds an image; what its views set is `NAME_VIEW=1`, and each prepends itself to `ORDER`.
    pub(crate) fn add(&self, repository: &str, label: &str, content: u8) {
        self.add_with(repository, label, content, r#""mount": "/user-environment","#);
    }

    pub(crate) fn add_with(&self, repository: &str, label: &str, content: u8, keys: &str) {
        let (image, meta) = (self.file("image"), self.file("meta"));
        fs::write(&image, image_bytes(content)).unwrap();
        fs::create_dir_all(&meta).unwrap();
        let view = |view: &str| {
            format!(
                r#""{view}":{{"env":{{"version":1,"values":{{"scalar":{{}},"list":
                {{"ORDER":[{{"op":"append","value":["{content}-{view}"]}}]}}}}}}}}"#
            )
        };
        let views = [view("default"), view("modules"), view(&format!("only{content}"))].join(",");
        let json = format!(r#"{{{keys} "name":"a","default-view":"default","views":{{{views}}}}}"#);
        fs::write(meta.join("env.json"), json).unwrap();
        let repository = Repository::open(&self.file(repository)).unwrap();
        let label = label.parse().unwrap();
        let how = Transfer::Copy;
        repository
            .add(&AddRequest { label, image: &image, meta: &meta, how, replace: false })
            .unwrap();
    }

    fn resolver(&self) -> Resolver {
        let named = |(name, priority): (&str, i32)| NamedRepository {
            name: name.to_owned(),
            repository: Repository::open(&self.file(name)).unwrap(),
            priority,
        };
        let system = self.system.map(|system| system.parse().unwrap());
        Resolver::new(REPOSITORIES.map(named).into(), system)
    }

    pub(crate) fn locate(&self, text: &str) -> Result<LocatedImage> {
        let [description] = parse_uenv_list(text).unwrap().try_into().unwrap();
        self.resolver().locate(&description)
    }

    /// Returns the labels of the builds that a description means.
    pub(crate) fn builds(&self, text: &str) -> Result<Vec<String>> {
        let [description] = parse_uenv_list(text).unwrap().try_into().unwrap();
        let found = self.resolver().locate_builds(&description)?;
        Ok(found.iter().map(|one| one.label.as_ref().unwrap().to_string()).collect())
    }

    /// Returns the label that a description means.
    pub(crate) fn label(&self, text: &str) -> String {
        self.locate(text).unwrap().label.unwrap().to_string()
    }

    /// Returns error and hint as the user would see them.
    pub(crate) fn complaint(&self, text: &str) -> String {
        let error = self.locate(text).unwrap_err();
        let place = self.place.path().to_str().unwrap();
        let mut complaint = format!("error: {error}");
        for cause in error.causes().take(1) {
            complaint = format!("{complaint}\ncause: {cause}");
        }
        for hint in error.hints() {
            complaint = format!("{complaint}\nhint: {hint}");
        }
        complaint.replace(place, "PLACE")
    }

    /// Resolves images and views; without views the default views are used.
    pub(crate) fn assemble(&self, uenvs: &str, views: &str) -> Result<ConcreteEnvironment> {
        let default_view = match views {
            "" => DefaultView::Used,
            _ => DefaultView::UsedOfRoot,
        };
        self.assemble_with(uenvs, views, default_view)
    }

    /// Resolves images and views.
    pub(crate) fn assemble_with(
        &self,
        uenvs: &str,
        views: &str,
        default_view: DefaultView,
    ) -> Result<ConcreteEnvironment> {
        let views = if views.is_empty() { Vec::new() } else { parse_view_list(views).unwrap() };
        let resolver = self.resolver();
        let requested = parse_uenv_list(uenvs).unwrap().into_iter().map(|description| {
            let located = resolver.locate(&description).unwrap();
            RequestedImage { located, description, default_view, bases: Vec::new() }
        });
        let requested: Vec<_> = requested.collect();
        let all = requested.len();
        assemble(requested, all, &views)
    }
}

/// Returns error and hint as the user would see them.
pub(crate) fn complaint_of(outcome: Result<ConcreteEnvironment>) -> String {
    let error = outcome.unwrap_err();
    let hints = error.hints().iter().map(|hint| format!("\nhint: {hint}"));
    format!("error: {error}{}", hints.collect::<String>())
}

/// Returns the views that take effect, as `image:view`.
pub(crate) fn views_of(environment: &ConcreteEnvironment) -> Vec<String> {
    let view = |one: &cabane_resolve::ConcreteView| format!("{}:{}", one.image, one.name);
    environment.views.iter().map(view).collect()
}

pub(crate) fn image_bytes(content: u8) -> Vec<u8> {
    let mut bytes = vec![content; 200];
    bytes[..96].fill(0);
    bytes[..4].copy_from_slice(b"hsqs");
    bytes[28..30].copy_from_slice(&4_u16.to_le_bytes());
    bytes[40..48].copy_from_slice(&200_u64.to_le_bytes());
    bytes
}

pub(crate) fn write_image(path: &Path) {
    fs::write(path, image_bytes(9)).unwrap();
}
