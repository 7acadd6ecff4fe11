// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What changes of the host do to the images: which break, which should be built again. Pure.

use std::fmt::Write as _;

use cabane_impact::{Assessment, ImageImpact, Verdict};
use cabane_web_page::{counted, line};

use crate::file_name::file_name;
use crate::html::{Frame, LONGEST_NAME, LONGEST_TEXT, begin_table, end_table, label};
use crate::model::Model;

/// Returns the name of a change, and that of its page.
pub(crate) fn name_of(assessment: &Assessment) -> (String, String) {
    let name = assessment.changes.join(", ");
    let file = format!("change-{}", file_name(&name));
    (name, file)
}

/// Writes the list of changes.
pub(crate) fn list(frame: &Frame, assessments: &[Assessment]) -> Vec<u8> {
    let mut body = "<h1>Upgrades</h1>\n\
        <p>The effects of changes of the systems on the images.</p>\n"
        .to_owned();
    let verdicts = Verdict::ALL.map(|verdict| verdict.to_string());
    let columns: Vec<&str> =
        ["change"].into_iter().chain(verdicts.iter().map(String::as_str)).collect();
    begin_table(&mut body, "Changes", &columns);
    for assessment in assessments {
        let (name, file) = name_of(assessment);
        let _ = write!(
            body,
            "<tr><th scope=\"row\"><a href=\"{file}.html\">{}</a></th>",
            line(&name, LONGEST_NAME)
        );
        for verdict in Verdict::ALL {
            let _ = write!(body, "<td>{}</td>", assessment.count(verdict));
        }
        body.push_str("</tr>\n");
    }
    end_table(&mut body);
    frame.page(1, "Upgrades", &body)
}

/// Writes the page of a change.
pub(crate) fn page(frame: &Frame, model: &Model<'_>, assessment: &Assessment) -> Vec<u8> {
    let (name, _) = name_of(assessment);
    let mut body = format!("<h1>Change: {}</h1>\n", line(&name, LONGEST_TEXT));
    for verdict in Verdict::ALL {
        let count = assessment.count(verdict);
        if count == 0 {
            continue;
        }
        let _ = writeln!(body, "<h2>{}: {verdict}</h2>", counted(count, "image"));
        // The others work as before, and there may be thousands.
        if verdict == Verdict::Unaffected {
            continue;
        }
        begin_table(&mut body, &format!("Images: {verdict}"), &["image", "reasons"]);
        for image in assessment.images.iter().filter(|image| image.verdict == verdict) {
            add(&mut body, model, image);
        }
        end_table(&mut body);
    }
    frame.page(1, &format!("Change: {name}"), &body)
}

fn add(body: &mut String, model: &Model<'_>, image: &ImageImpact) {
    let page = model.page_of_label(&image.label);
    let name = label(&image.label);
    let name = match page {
        Some(page) => format!("<a href=\"../i/{page}.html\">{name}</a>"),
        None => name,
    };
    let reasons = image.reasons.iter().map(|reason| line(&reason.to_string(), LONGEST_TEXT));
    let reasons: Vec<String> = reasons.collect();
    let _ = writeln!(
        body,
        "<tr><th scope=\"row\">{name}</th><td class=\"wrap\">{}</td></tr>",
        reasons.join("<br>")
    );
}
