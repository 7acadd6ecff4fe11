// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv image inspect`.

use cabane_environment::{fill_in_metadata, find_image};
use cabane_label::{ImageDescription, escape};
use cabane_report::Result;
use cabane_repository::Record;
use cabane_resolve::LocatedImage;
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::fill::{Fields, fill};
use super::records::date;
use super::words;
use crate::setup::Setup;

pub(super) fn inspect(setup: &Setup, args: &InspectArgs) -> Result<()> {
    let image: ImageDescription = args.uenv.parse().map_err(|error| {
        words::headed("invalid uenv specification".to_owned(), cabane_report::Report::from(error))
    })?;
    let mut located =
        find_image(setup, &image).map_err(|error| words::not_found(&args.uenv, error))?;
    fill_in_metadata(setup, &mut located)?;
    let record = record_of(setup, &located)?;
    let all = everything(&located, record.as_ref());
    if args.json {
        setup.printer.json(&all);
    } else if let Some(template) = &args.format {
        setup.printer.data(fill(template, &fields(&all))? + "\n");
    } else {
        setup.printer.data(text(&located));
    }
    Ok(())
}

/// Returns what the repository knows of an image that was found there.
fn record_of(setup: &Setup, located: &LocatedImage) -> Result<Option<Record>> {
    let (Some(name), Some(digest)) = (&located.repository, &located.digest) else {
        return Ok(None);
    };
    let repositories = setup.repositories()?;
    let Some(named) = repositories.iter().find(|named| named.name == *name) else {
        return Ok(None);
    };
    let records = named.repository.by_digest(digest)?;
    let labeled = records.iter().find(|record| Some(&record.label) == located.label.as_ref());
    Ok(labeled.or(records.first()).cloned())
}

/// All that `--json` prints.
fn everything(located: &LocatedImage, record: Option<&Record>) -> Value {
    let label = record.map(|record| &record.label);
    let meta = located.meta.as_ref();
    let directory = located.path.parent().unwrap_or(&located.path);
    let beside = Some(directory.join("meta")).filter(|path| path.join("env.json").is_file());
    let views = meta.iter().flat_map(|meta| &meta.views).map(|(name, view)| {
        json!({"name": name, "description": view.description.as_deref().unwrap_or_default()})
    });
    let name = label.map(|label| label.name.as_str()).or(meta.map(|meta| meta.name.as_str()));
    json!({
        "name": name,
        "version": label.map(|label| &label.version),
        "tag": label.map(|label| &label.tag),
        "system": label.map(|label| &label.system),
        "uarch": label.map(|label| &label.uarch),
        "digest": record.map(|record| &record.digest),
        "id": record.map(|record| record.digest.id()),
        "date": record.map(|record| date(Some(record.date))),
        "description": meta.and_then(|meta| meta.description.as_deref()),
        "mount": meta.and_then(|meta| meta.mount.as_ref()),
        "path": directory,
        "sqfs": located.path,
        "meta": beside,
        "views": views.collect::<Vec<_>>(),
    })
}

/// The values for a template; what is not known is `none`.
fn fields(all: &Value) -> Fields {
    const KEYS: [(&str, &str); 15] = [
        ("name", "name"),
        ("version", "version"),
        ("tag", "tag"),
        ("id", "id"),
        ("digest", "digest"),
        ("sha256", "digest"),
        ("date", "date"),
        ("system", "system"),
        ("uarch", "uarch"),
        ("path", "path"),
        ("sqfs", "sqfs"),
        ("meta", "meta"),
        ("mount", "mount"),
        ("description", "description"),
        ("views", "views"),
    ];
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let view = |view: &Value| format!("{} ({})", text(&view["name"]), text(&view["description"]));
    let value = |key: &str| match all[key].as_array() {
        Some(views) => views.iter().map(view).collect::<Vec<_>>().join(", "),
        None => text(&all[key]),
    };
    KEYS.into_iter().map(|(key, of)| (key, escape(&value(of)).into_owned())).collect()
}

fn text(located: &LocatedImage) -> String {
    let label = located.label.as_ref().map(ToString::to_string);
    let label = label.unwrap_or_else(|| located.path.display().to_string());
    let Some(meta) = &located.meta else {
        return format!("{label} can be mounted, but it has no set mount point or views\n");
    };
    let mut text = match &meta.mount {
        Some(mount) => format!("{label} mount at {mount}\n"),
        None => format!("{label} has no set mount point\n"),
    };
    text += if meta.views.is_empty() { "views: none\n" } else { "views:\n" };
    for (name, view) in &meta.views {
        let description = view.description.as_deref().unwrap_or_default();
        text += &format!("  {name}: {}\n", escape(description));
    }
    text
}
