// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! All files of a site.

use std::fmt;

use cabane_label::Digest;
use sha2::Digest as _;

use crate::events::{Event, events};
use crate::html::Frame;
use crate::input::{CatalogueInput, InputSum};
use crate::model::Model;
use crate::pages::package::PackageView;
use crate::pages::{changes, image, list, package, upgrades};
use crate::{api, search_data};

/// The layout of the pages and of the API. A test says when it has to be raised: pages whose input is
/// the same are not written again.
const LAYOUT: u32 = 1;
/// How many events the page of changes has.
const MOST_EVENTS: usize = 500;

const SEARCH: &str = include_str!("assets/search.js");
const STYLE: &str = include_str!("assets/style.css");

/// A file of a site.
pub(crate) struct File<'a> {
    /// Its path below the directory of the site.
    pub(crate) path: String,
    /// The sum of the content, or of all that it is made from.
    pub(crate) sum: Digest,
    content: Content<'a>,
}

enum Content<'a> {
    Ready(Vec<u8>),
    Made(Box<dyn Fn() -> Vec<u8> + Send + Sync + 'a>),
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .field("sum", &self.sum)
            .finish_non_exhaustive()
    }
}

impl File<'_> {
    /// Returns what is in it.
    pub(crate) fn bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        match &self.content {
            Content::Ready(bytes) => bytes.into(),
            Content::Made(make) => make().into(),
        }
    }
}

/// Collects the files, and passes them on: they borrow from what is made of the input.
pub(crate) fn with_files<R>(input: &CatalogueInput, take: impl FnOnce(&[File<'_>]) -> R) -> R {
    let texts = input.packages.lines();
    let model = Model::new(input, &texts);
    let frame = Frame::of(input);
    let mut files = Files(Vec::new());
    files.add_lists(&frame, &model);
    files.add_images(&frame, &model);
    files.add_packages(&frame, &model);
    files.0.sort_by(|one, other| one.path.cmp(&other.path));
    // The same change of the host may have been named twice.
    files.0.dedup_by(|one, other| one.path == other.path);
    take(&files.0)
}

struct Files<'a>(Vec<File<'a>>);

impl<'a> Files<'a> {
    fn ready(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        let sum = Digest::from_bytes(sha2::Sha256::digest(&bytes).into());
        self.0.push(File { path: path.into(), sum, content: Content::Ready(bytes) });
    }

    fn made(&mut self, path: String, sum: Digest, make: impl Fn() -> Vec<u8> + Send + Sync + 'a) {
        self.0.push(File { path, sum, content: Content::Made(Box::new(make)) });
    }

    fn add_lists(&mut self, frame: &Frame, model: &Model<'_>) {
        self.ready("style.css", format!("{}\n{STYLE}", cabane_web_page::STYLE).into_bytes());
        self.ready("search.js", SEARCH.into());
        self.ready("index.html", list::search(frame, model));
        self.ready("images.html", list::images(frame, model));
        self.ready("packages.html", package::list(frame, model));
        self.ready("systems/index.html", list::systems(frame, model));
        for (system, rows) in model.systems() {
            let path = format!("systems/{}.html", list::system_file(system));
            self.ready(path, list::system(frame, model, system, &rows));
        }
        let events: Vec<Event> = events(model, MOST_EVENTS);
        let input = model.input;
        self.ready("changes.html", changes::page(frame, &events));
        self.ready("changes.atom", changes::feed(frame, input.base.as_deref(), &events));
        if !input.upgrades.is_empty() {
            self.ready("upgrades/index.html", upgrades::list(frame, &input.upgrades));
        }
        for assessment in &input.upgrades {
            let path = format!("upgrades/{}.html", upgrades::name_of(assessment).1);
            self.ready(path, upgrades::page(frame, model, assessment));
        }
        self.ready("data/images.js", search_data::images(model));
        self.ready("data/names.js", search_data::names(model));
        self.ready("api/v1/index.json", api::index(frame, model));
        self.ready("api/v1/images.json", api::images(model));
        self.ready("api/v1/packages.json", api::packages(model));
        self.ready("api/v1/channels.json", api::channels(model));
        self.ready("api/v1/changes.json", api::bytes(&events));
    }

    fn add_images(&mut self, frame: &'a Frame, model: &'a Model<'a>) {
        for (number, page) in model.pages.iter().enumerate() {
            let sum = Digest::from_bytes(InputSum::of(&(LAYOUT, frame, model.image_view(number))));
            let html = move || image::page(frame, &model.image_view(number));
            self.made(format!("i/{}.html", page.name), sum.clone(), html);
            let json = move || api::image(&model.image_view(number));
            self.made(format!("api/v1/images/{}.json", page.name), sum, json);
        }
    }

    fn add_packages(&mut self, frame: &'a Frame, model: &'a Model<'a>) {
        let pages = sums_of_pages(model);
        for package in &model.packages {
            let view = PackageView::of(model, package);
            let sum = Digest::from_bytes(InputSum::of(&(LAYOUT, frame, &view)));
            let html = move || PackageView::of(model, package).page(frame);
            self.made(format!("p/{}.html", package.file), sum, html);
            let data = search_data::package(package);
            // With the numbers of the rows and what they mean, all is said.
            let last = package.specs.iter().filter_map(|spec| spec.rows.last()).max();
            let meaning = last.and_then(|last| pages.get(*last));
            let sum = Digest::from_bytes(InputSum::of(&(LAYOUT, &data, meaning)));
            let json = move || api::package(model, package);
            self.made(format!("api/v1/packages/{}.json", package.file), sum, json);
            self.ready(format!("data/p/{}.js", package.file), data);
        }
    }
}

/// Returns for each row a sum of its page and the pages of all rows before it.
fn sums_of_pages(model: &Model<'_>) -> Vec<[u8; 32]> {
    let mut before = [0; 32];
    let numbers = 0..model.rows.len();
    numbers
        .map(|number| {
            before = InputSum::of(&(before, model.page_name(number)));
            before
        })
        .collect()
}
