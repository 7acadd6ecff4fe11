// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Writes the catalogue of a large site that does not exist: `large DIR [IMAGES [PACKAGES]]`. What it measures is in
//! `docs/design/0020-catalogue.md`.

#![expect(clippy::print_stdout, reason = "it is a program for people")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use cabane_catalogue::{CatalogueImage, CatalogueInput, OtherEntries, Source, Written, build};
use cabane_image_search::ImageDetails;
use cabane_label::Digest;
use cabane_view::PackageIndex;
use jiff::{SignedDuration, Timestamp};

/// How many names of packages there are, and how many versions of each.
const NAMES: u64 = 2000;
const VERSIONS: u64 = 8;
const SYSTEMS: [&str; 6] = ["daint", "eiger", "clariden", "santis", "todi", "bristen"];
const UARCHS: [&str; 4] = ["gh200", "zen2", "zen3", "a100"];

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

fn line(name: u64, version: u64) -> String {
    format!(
        "package-{name}\t{}.{}.{version}\t{name:016x}{version:016x}\t+shared~static+mpi build_system=cmake \
         build_type=Release generator=ninja api=v{version}\tgcc@13.{}.0\tsles15\tneoverse_v2\tspack\t\n",
        name % 4,
        name % 23,
        name % 4
    )
}

fn lines(numbers: &mut Numbers, packages: u64) -> String {
    // Some packages are in nearly every image.
    let common = (0..packages / 3).map(|name| (name, numbers.0 % VERSIONS));
    let mut chosen: Vec<(u64, u64)> = common.collect();
    for _ in chosen.len() as u64..packages {
        chosen.push((packages / 3 + numbers.below(NAMES), numbers.below(VERSIONS)));
    }
    chosen.iter().map(|(name, version)| line(*name, *version)).collect()
}

fn image(number: u64) -> Result<CatalogueImage, Box<dyn Error>> {
    let at = |list: &[&'static str], number: u64| {
        usize::try_from(number)
            .ok()
            .and_then(|number| list.get(number % list.len()))
            .copied()
            .unwrap_or("x")
    };
    let (name, version) = (number % 120, number / 120 % 12);
    let (system, uarch) = (at(&SYSTEMS, number), at(&UARCHS, number / 7));
    let text = format!("environment-{name}/25.{version}:v{}@{system}%{uarch}", number / 1440 + 1);
    let digest = Digest::from_bytes(std::array::from_fn(|place| {
        u8::try_from((number.wrapping_mul(2_654_435_761) >> (place % 4 * 8)) & 0xff).unwrap_or(0)
    }));
    let start = Timestamp::from_second(1_700_000_000)?;
    let views = ["default", "modules", "spack"]
        .map(|view| (view.to_owned(), Some(format!("the view {view}"))));
    Ok(CatalogueImage {
        namespace: "deploy".parse()?,
        label: text.parse()?,
        digest,
        manifest: None,
        size: 1_000_000_000 + number * 1_234_567,
        date: Some(start.checked_add(SignedDuration::from_mins(i64::try_from(number)? * 50))?),
        details: ImageDetails {
            description: Some("Compilers, MPI, and libraries for simulations.".to_owned()),
            mount: Some("/user-environment".to_owned()),
            default_view: Some("default".to_owned()),
            views: views.into(),
            engine: Some("spack".to_owned()),
            needs: vec!["glibc 2.31".to_owned()],
        },
        signature: Some("no".to_owned()),
        evidence: None,
    })
}

fn add(index: &mut PackageIndex, numbers: &mut Numbers, images: &[CatalogueImage], packages: u64) {
    for some in images.chunks(500) {
        let texts: Vec<(Digest, String)> =
            some.iter().map(|image| (image.digest.clone(), lines(numbers, packages))).collect();
        index.add(texts.iter().map(|(digest, text)| (digest.clone(), Some(text.as_str()))));
    }
}

fn timed(what: &str, input: &CatalogueInput, directory: &Path) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let Written { files, written, removed } =
        build(input, directory, OtherEntries::Refuse).map_err(|report| report.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {seconds:.2} s, {files} files, {written} written, {removed} removed");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: large DIR [IMAGES [PACKAGES]]")?;
    let images: u64 = arguments.next().as_deref().unwrap_or("10000").parse()?;
    let packages: u64 = arguments.next().as_deref().unwrap_or("300").parse()?;
    let mut numbers = Numbers(1);
    let mut input = CatalogueInput {
        title: "Software images".to_owned(),
        source: Source::Registry("https://registry.example.org/uenv".to_owned()),
        base: None,
        day: "2026-11-26".parse()?,
        images: (0..images).map(image).collect::<Result<_, _>>()?,
        packages: PackageIndex::default(),
        channels: Vec::new(),
        upgrades: Vec::new(),
    };
    add(&mut input.packages, &mut numbers, &input.images, packages);
    let directory = Path::new(&directory);
    timed("everything", &input, directory)?;
    timed("nothing changed", &input, directory)?;
    let new = image(images)?;
    add(&mut input.packages, &mut numbers, std::slice::from_ref(&new), packages);
    input.images.push(new);
    timed("one new image", &input, directory)
}
