// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The MPI of an environment, and whether the system has it.

use super::context::Context;
use super::recipe::MpiRequest;
use super::spec_fields::{Wanted, place_of, spec, specs};
use super::written::SpecPurpose;
use super::{format_one, keys};
use crate::ask::{Elsewhere, Field, Section, instead};
use crate::node::Place;
use crate::recipe::FormatVersion;
use crate::report::Report;
use crate::suggest::nearest;

/// What an environment says about its network.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) mpi: Option<MpiRequest>,
    pub(super) specs: Option<Vec<String>>,
}

/// Reads `network:`, or `mpi:` of format 1.
pub(super) fn read(environment: &Section<'_>, context: &Context<'_>) -> Option<Network> {
    if context.format == FormatVersion::V1 {
        let mpi = format_one::mpi(environment)?;
        if let (Some(mpi), Some(field)) = (&mpi, environment.get("mpi")) {
            let place = spec_place(&field);
            check_mpi(environment.report, &mpi.package, place, context);
        }
        return Some(Network { mpi, specs: None });
    }
    let section = environment.inner("network")?;
    section.refuse_unknown(&["mpi", "specs"], |key| match key {
        "spec" => instead("write the spec of the MPI behind `mpi:`"),
        "gpu" => instead("write the GPU as a variant: `mpi: cray-mpich +cuda`"),
        _ => None,
    });
    let mpi = section.optional("mpi", |field| mpi(field.clone(), context));
    let specs = match section.given("specs") {
        None => Some(None),
        Some(field) => {
            if section.given("mpi").is_none() {
                let message = "`specs` of the network mean nothing without `mpi`";
                let hint = "add the MPI, or move them to `specs` of the environment";
                environment.report.remark(field.key_place, message, hint);
            }
            installed(&field).map(Some)
        }
    };
    Some(Network { mpi: mpi?, specs: specs?.filter(|specs| !specs.is_empty()) })
}

fn installed(field: &Field<'_>) -> Option<Vec<String>> {
    let specs = specs(field, Wanted::Package)?;
    for spec in &specs {
        spec.note(SpecPurpose::Install);
    }
    Some(specs.iter().map(|spec| spec.text.to_owned()).collect())
}

fn mpi(field: Field<'_>, context: &Context<'_>) -> Option<MpiRequest> {
    let item = spec(field, Wanted::Package)?;
    item.note(SpecPurpose::Install);
    let package = item.parts.package.clone()?;
    let start = item.text.len() - item.text.trim_start().len();
    let place = place_of(&item.field, start..start + package.len());
    check_mpi(item.field.report, &package, place, context);
    Some(MpiRequest { package, spec: item.text.trim().to_owned() })
}

/// Returns where the spec of a section stands.
fn spec_place(field: &Field<'_>) -> Place {
    field
        .section()
        .and_then(|section| section.get("spec"))
        .map_or(field.place(), |spec| spec.place())
}

fn check_mpi(report: &Report<'_>, package: &str, place: Place, context: &Context<'_>) {
    let Some(system) = context.system else { return };
    let known: Vec<&str> = system.mpis.iter().map(|mpi| mpi.package.as_str()).collect();
    if known.contains(&package) {
        return;
    }
    let message = format!("the system has no MPI `{package}`");
    let hint = match (known.as_slice(), nearest(package, &known)) {
        ([], _) => "it has none at all: describe it below `mpi:` in its network.yaml".to_owned(),
        (_, Some(meant)) => format!("did you mean `{meant}`?"),
        (_, None) => format!(
            "it has {}; another one is described below `mpi:` in its network.yaml",
            cabane_label::enumerate(&known, "and")
        ),
    };
    report.problem_with_hint(place, &message, &hint);
}

/// Says where a key belongs that an environment of this format does not have.
pub(super) fn elsewhere(key: &str, format: FormatVersion) -> Option<Elsewhere> {
    match (key, format) {
        ("mpi", FormatVersion::V2 | FormatVersion::V3) => Some((
            Some("`mpi` is of format 1, but this recipe is of a later one".to_owned()),
            "write `network:` and below it `mpi: cray-mpich +cuda`".to_owned(),
        )),
        (key, FormatVersion::V1) if keys::names(keys::ENVIRONMENT).contains(&key) => {
            Some(format_one::of_later_format(key))
        }
        _ => None,
    }
}
