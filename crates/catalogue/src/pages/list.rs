// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The page of the search, the list of all images, and the pages of the systems. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cabane_evidence::Outcome;
use cabane_label::{System, escape_html};
use cabane_web_page::counted;

use crate::file_name::file_name;
use crate::html::{COLUMNS, Frame, begin_table, end_table, row};
use crate::model::{Model, State};

/// How many images the first page has before anything is typed.
const NEWEST: usize = 20;

/// Writes the first page.
pub(crate) fn search(frame: &Frame, model: &Model<'_>) -> Vec<u8> {
    let mut body = "<h1>Find an image</h1>\n".to_owned();
    let _ = writeln!(
        body,
        "<p>{} with {}.</p>",
        counted(model.rows.len(), "image"),
        counted(model.packages.len(), "package")
    );
    add_form(&mut body, model);
    body.push_str(
        "<noscript><p>The search needs JavaScript. Without it, use the lists of \
         <a href=\"images.html\">images</a>, <a href=\"packages.html\">packages</a>, and \
         <a href=\"systems/index.html\">systems</a>.</p></noscript>\n\
         <p id=\"status\" role=\"status\"></p>\n<p id=\"packages\" hidden></p>\n",
    );
    body.push_str("<h2 id=\"heading\">Newest images</h2>\n");
    let mut table = String::new();
    begin_table(&mut table, "Images", &COLUMNS);
    // The script fills the same table.
    body.push_str(&table.replacen("<table>", "<table id=\"images\">", 1));
    for number in (0..model.rows.len()).rev().take(NEWEST) {
        row(&mut body, model, number, "");
    }
    end_table(&mut body);
    body.push_str("<p><button id=\"more\" type=\"button\" hidden>Show more</button></p>\n");
    let scripts = ["search.js", "data/images.js", "data/names.js"];
    frame.page_with_scripts(&frame.title, &body, &scripts)
}

fn add_form(body: &mut String, model: &Model<'_>) {
    body.push_str(
        "<form id=\"search\" role=\"search\" hidden>\n\
         <p><label for=\"q\">Images or packages</label>\n\
         <input id=\"q\" type=\"search\" autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" \
         maxlength=\"500\" list=\"names\" aria-describedby=\"help\"><datalist id=\"names\"></datalist></p>\n\
         <p id=\"help\" class=\"faint\">Such as <code>prgenv-gnu</code>, <code>@daint %gh200</code>, \
         <code>hdf5@1.14: +mpi</code>, or <code>hdf5 netcdf-c %gcc@13</code>.</p>\n<p class=\"filters\">\n",
    );
    let labels = || model.rows.iter().map(|row| row.image);
    let namespaces: BTreeSet<&str> = labels().map(|image| image.namespace.as_str()).collect();
    let systems: BTreeSet<&str> = labels().map(|image| image.label.system.as_str()).collect();
    let uarchs: BTreeSet<&str> = labels().map(|image| image.label.uarch.as_str()).collect();
    let states = State::ALL.iter().map(|state| state.words());
    if namespaces.len() > 1 {
        add_choice(body, "namespace", "Namespace", namespaces.into_iter());
    }
    add_choice(body, "system", "System", systems.into_iter());
    add_choice(body, "uarch", "Microarchitecture", uarchs.into_iter());
    add_choice(body, "state", "State", states);
    if labels().any(|image| image.evidence.is_some()) {
        add_choice(body, "tested", "Tested", Outcome::ALL.iter().map(|outcome| outcome.as_str()));
    }
    body.push_str("</p>\n</form>\n");
}

fn add_choice<'t>(body: &mut String, id: &str, name: &str, values: impl Iterator<Item = &'t str>) {
    let _ = write!(
        body,
        "<label for=\"{id}\">{name} <select id=\"{id}\"><option value=\"\">any</option>"
    );
    for value in values {
        let _ = write!(body, "<option>{}</option>", escape_html(value));
    }
    body.push_str("</select></label>\n");
}

/// Writes the list of all images, by label.
pub(crate) fn images(frame: &Frame, model: &Model<'_>) -> Vec<u8> {
    let mut body = format!("<h1>Images</h1>\n<p>{}.</p>\n", counted(model.rows.len(), "image"));
    let mut numbers: Vec<usize> = (0..model.rows.len()).collect();
    numbers.sort_by(|one, other| {
        let [one, other] = [one, other].map(|number| model.rows[*number].image);
        let (a, b) = (&one.label, &other.label);
        (&one.namespace, &a.name)
            .cmp(&(&other.namespace, &b.name))
            .then_with(|| b.version.natural_order(&a.version))
            .then_with(|| a.cmp(b))
    });
    add_rows(&mut body, model, &numbers, "");
    frame.page(0, "Images", &body)
}

fn add_rows(body: &mut String, model: &Model<'_>, numbers: &[usize], up: &str) {
    begin_table(body, "Images", &COLUMNS);
    for number in numbers {
        row(body, model, *number, up);
    }
    end_table(body);
}

/// Writes the list of systems.
pub(crate) fn systems(frame: &Frame, model: &Model<'_>) -> Vec<u8> {
    let systems = model.systems();
    let mut body =
        format!("<h1>Systems</h1>\n<p>{}.</p>\n<ul>\n", counted(systems.len(), "system"));
    for (system, rows) in systems {
        let _ = writeln!(
            body,
            "<li><a href=\"{}.html\">{}</a> <span class=\"faint\">{}</span></li>",
            system_file(system),
            escape_html(system.as_str()),
            counted(rows.len(), "image")
        );
    }
    body.push_str("</ul>\n");
    frame.page(1, "Systems", &body)
}

/// Returns the name of the page of a system. The list of systems has another one.
pub(crate) fn system_file(system: &System) -> String {
    format!("system-{}", file_name(system.as_str()))
}

/// Writes the page of a system: what is released first.
pub(crate) fn system(frame: &Frame, model: &Model<'_>, system: &System, rows: &[usize]) -> Vec<u8> {
    let mut body = format!("<h1>{}</h1>\n", escape_html(system.as_str()));
    let released =
        |number: &&usize| matches!(model.rows[**number].state, State::Released | State::Deprecated);
    let (first, rest): (Vec<usize>, Vec<usize>) = rows.iter().partition(|number| released(number));
    for (title, rows) in [("Released images", first), ("Other images", rest)] {
        if !rows.is_empty() {
            let _ = writeln!(body, "<h2>{title}</h2>\n<p>{}.</p>", counted(rows.len(), "image"));
            add_rows(&mut body, model, &rows, "../");
        }
    }
    frame.page(1, system.as_str(), &body)
}
