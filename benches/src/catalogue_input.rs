// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The input of a catalogue of a large site that does not exist.

use std::error::Error;

use cabane_catalogue::{
    BuiltImage, CatalogueImage, CatalogueInput, Figure, ImageEvidence, Source, TestResult,
};
use cabane_evidence::{Measured, Outcome};
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
        evidence: Some(evidence(number, system, start)?),
    })
}

/// Results of two test runs, the newer one after the system changed, and of a build. Every ninth image fails.
fn evidence(number: u64, system: &str, start: Timestamp) -> Result<ImageEvidence, Box<dyn Error>> {
    let at = |days: u64| -> Result<Timestamp, Box<dyn Error>> {
        let minutes = i64::try_from(number * 50 + days * 1440)?;
        Ok(start.checked_add(SignedDuration::from_mins(minutes))?)
    };
    let result = |generation: u64| -> Result<TestResult, Box<dyn Error>> {
        let has_failed = number.is_multiple_of(9) && generation == 2;
        let names = ["bandwidth", "latency", "import", "triad"];
        let figures = names.iter().zip(1_u32..).map(|(name, factor)| Figure {
            test: format!("hpc-tests/{name}@{system}:remote+default"),
            measured: Measured {
                variable: (*name).to_owned(),
                value: f64::from(factor) * 1.5 + f64::from(u32::try_from(number % 97).unwrap_or(0)),
                unit: "MB/s".to_owned(),
                reference: Some(50.0),
                lower: Some(-0.1),
                upper: None,
            },
        });
        let reason = || ("libraries".to_owned(), "this host has no libcxi.so.1".to_owned());
        Ok(TestResult {
            system: Some(system.to_owned()),
            outcome: if has_failed { Outcome::Failed } else { Outcome::Passed },
            finished: Some(at(generation)?),
            generation: Some(format!("25.{generation}")),
            runner: "cabane 0.2.0, ReFrame 4.10.4".to_owned(),
            passed: 24,
            failed: has_failed.then(reason).into_iter().collect(),
            is_partial: false,
            figures: figures.collect(),
            key: "tests".to_owned(),
        })
    };
    let recipe = ("https://git.example.org/recipes".to_owned(), format!("{number:040x}"));
    let built = BuiltImage {
        recipe: Some(recipe),
        finished: Some(at(0)?),
        bases: Vec::new(),
        key: "builds".to_owned(),
    };
    Ok(ImageEvidence { results: vec![result(2)?, result(1)?], built: vec![built], ignored: 0 })
}

/// A site without images.
pub(crate) fn empty_site() -> Result<CatalogueInput, Box<dyn Error>> {
    Ok(CatalogueInput {
        title: "Software images".to_owned(),
        source: Source::Registry("https://registry.example.org/uenv".to_owned()),
        base: None,
        day: "2026-11-26".parse()?,
        images: Vec::new(),
        packages: PackageIndex::default(),
        channels: Vec::new(),
        upgrades: Vec::new(),
    })
}

fn add(index: &mut PackageIndex, numbers: &mut Numbers, images: &[CatalogueImage], packages: u64) {
    for some in images.chunks(500) {
        let texts: Vec<(Digest, String)> =
            some.iter().map(|image| (image.digest.clone(), lines(numbers, packages))).collect();
        index.add(texts.iter().map(|(digest, text)| (digest.clone(), Some(text.as_str()))));
    }
}

/// A site with so many images, of so many packages each.
pub(crate) struct LargeSite {
    pub(crate) input: CatalogueInput,
    numbers: Numbers,
    packages: u64,
}

impl LargeSite {
    pub(crate) fn new(images: u64, packages: u64) -> Result<Self, Box<dyn Error>> {
        let mut numbers = Numbers(1);
        let mut input = empty_site()?;
        input.images = (0..images).map(image).collect::<Result<_, _>>()?;
        add(&mut input.packages, &mut numbers, &input.images, packages);
        Ok(Self { input, numbers, packages })
    }

    /// Adds an image.
    pub(crate) fn add_one(&mut self) -> Result<(), Box<dyn Error>> {
        let new = image(self.input.images.len() as u64)?;
        let one = std::slice::from_ref(&new);
        add(&mut self.input.packages, &mut self.numbers, one, self.packages);
        self.input.images.push(new);
        Ok(())
    }
}
