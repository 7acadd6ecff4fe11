// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From TOML to an [`EnvironmentFile`].

use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_label::{ImageDescription, ParseError, UenvDescription, container_in};
use cabane_view::{VariableSetting, VariableSettings, ViewDescription, is_variable_name};

use super::{
    BaseReference, EnvironmentFile, EnvironmentReference, FileContext, Part, below, engine,
    template,
};
use crate::ask::{Elsewhere, Field, Section, instead};
use crate::diagnostic::{Mistakes, quote};
use crate::file;
use crate::language::Language;
use crate::node::Value;
use crate::report::Report;

const KEYS: &[&str] = &[
    "base",
    "base_environment",
    "image",
    "entrypoint",
    "writable",
    "annotations",
    "images",
    "views",
    "default-views",
    "mounts",
    "devices",
    "workdir",
    "env",
    "description",
];
const VARIABLE_KEYS: &[&str] = &["set", "prepend", "append"];

/// Reads an environment file; an empty one says nothing.
pub fn parse_environment_file(
    path: &Path,
    text: &[u8],
    file_context: &FileContext<'_>,
) -> Result<EnvironmentFile, Mistakes> {
    file::read(path, text, Language::Toml, |report, root| {
        let file = report.file(root, "")?;
        let is_edf = engine::KEYS.iter().any(|key| file.get(key).is_some());
        let directory =
            if is_edf { file_context.working_directory } else { file_context.directory };
        Reader { report, file_context, directory, is_edf }.file(&file)
    })
    .map_err(Mistakes::in_the("the environment file"))
}

/// What users of container engines write, and what there is in its place.
fn known_elsewhere(key: &str) -> Option<Elsewhere> {
    let hint = match key {
        "view" => "write `views = [\"…\"]`",
        _ => return None,
    };
    instead(hint)
}

pub(super) struct Reader<'r, 'a> {
    pub(super) report: &'r Report<'a>,
    file_context: &'r FileContext<'r>,
    /// Where relative paths begin.
    directory: &'r Path,
    /// Whether the file is an environment definition file of a container engine.
    pub(super) is_edf: bool,
}

impl Reader<'_, '_> {
    /// Reads what can be read; what is missing in the result has been noted.
    fn file(&self, file: &Section<'_>) -> Option<EnvironmentFile> {
        file.refuse_unknown(KEYS, known_elsewhere);
        let mut read = EnvironmentFile {
            description: Self::text(file, "description"),
            bases: self.bases(file),
            entrypoint: file.get("entrypoint").and_then(|field| field.truth()),
            writable: file.get("writable").and_then(|field| field.truth()),
            annotations: self.annotations(file),
            default_views: file.get("default-views").and_then(|field| field.truth()),
            ..EnvironmentFile::default()
        };
        if let Some(field) = file.get("image")
            && let Some(image) = self.container(&field)
        {
            read.places.note(Part::Image(image.clone()), &field);
            read.container = Some(image);
        }
        for item in file.items("images", "an image") {
            if let Some(image) = self.image(&item) {
                read.places.note(Part::Image(image.clone()), &item);
                read.images.push(image);
            }
        }
        for item in file.items("views", "a view") {
            let text = item.text().map(str::to_owned);
            let view = text.and_then(|text| Self::word::<ViewDescription>(&item, &text, &text));
            if let Some(view) = view {
                read.places.note(Part::View(view.clone()), &item);
                read.views.push(view);
            }
        }
        for item in file.items("mounts", "a mount") {
            self.mount(&item, &mut read);
        }
        for item in file.items("devices", "a device") {
            if let Some(device) = Self::device(&item) {
                read.places.note(Part::Device(device.clone()), &item);
                read.devices.push(device);
            }
        }
        if let Some(field) = file.get("workdir") {
            read.workdir = self.path(&field);
            read.places.note(Part::WorkingDirectory, &field);
        }
        if let Some(section) = file.get("env").and_then(|field| field.section()) {
            read.env = self.variables(&section);
        }
        Some(read)
    }

    fn text(section: &Section<'_>, key: &str) -> Option<String> {
        section.get(key)?.string()
    }

    /// Returns the items of a list; a text is a list of one.
    fn one_or_more<'n>(section: &Section<'n>, key: &str, name: &str) -> Vec<Field<'n>> {
        match section.get(key) {
            Some(field) if matches!(field.node.value, Value::Scalar(_)) => vec![field],
            _ => section.items(key, name),
        }
    }

    /// Returns a text with its variables replaced.
    pub(super) fn filled(&self, field: &Field<'_>) -> Option<String> {
        let text = field.text()?;
        self.filled_part(field, 0, text)
    }

    /// Replaces the variables in a part of a text that begins at a byte of it.
    pub(super) fn filled_part(
        &self,
        field: &Field<'_>,
        start: usize,
        text: &str,
    ) -> Option<String> {
        match template::expand(text, self.file_context.variable) {
            Ok(text) if text.contains('\0') => {
                field.refuse("a variable brings a NUL character", None)
            }
            Ok(text) => Some(text),
            Err(problem) => {
                let place = field.place_within(start + problem.place.start);
                self.report.refuse(place, &problem.message, problem.hint.as_deref())
            }
        }
    }

    /// Replaces a `~` at the beginning of a path.
    pub(super) fn at_home(&self, field: &Field<'_>, text: String) -> Option<String> {
        let Some(rest) = text.strip_prefix('~') else {
            return Some(text);
        };
        if !rest.is_empty() && !rest.starts_with('/') {
            let message =
                format!("{} begins with the home directory of another user", quote(&text));
            return field.refuse(&message, "write the whole path");
        }
        let home = (self.file_context.variable)("HOME").and_then(|home| home.into_string().ok());
        let Some(home) = home.filter(|home| home.starts_with('/')) else {
            let message = "`~` means nothing: the variable `HOME` is not set";
            return field.refuse(message, None);
        };
        Some(home + rest)
    }

    /// Returns a path, seen from the directory of the file.
    pub(super) fn path(&self, field: &Field<'_>) -> Option<PathBuf> {
        let text = self.filled(field)?;
        self.finished_path(field, text)
    }

    pub(super) fn finished_path(&self, field: &Field<'_>, text: String) -> Option<PathBuf> {
        if text.is_empty() {
            return field.refuse("a path is missing here", None);
        }
        let text = self.at_home(field, text)?;
        Some(below(self.directory, Path::new(&text)))
    }

    /// Reads a word of another grammar. If variables were replaced in it, the place of
    /// a mistake in what was written is not known.
    pub(super) fn word<T: FromStr<Err = ParseError>>(
        field: &Field<'_>,
        written: &str,
        text: &str,
    ) -> Option<T> {
        Self::word_by(field, written, text, str::parse)
    }

    /// As [`Self::word`], for words that are not read in the usual way.
    pub(super) fn word_by<T>(
        field: &Field<'_>,
        written: &str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Option<T> {
        match parse(text) {
            Ok(word) => Some(word),
            Err(error) if written == text => {
                field.parse_error(text, &error);
                None
            }
            Err(error) => {
                let hint = error.hint();
                field.refuse(&error.to_string(), hint.as_deref())
            }
        }
    }

    fn bases(&self, file: &Section<'_>) -> Vec<BaseReference> {
        let keys = ["base_environment", "base"];
        let fields = keys.iter().flat_map(|key| Self::one_or_more(file, key, "a base"));
        fields.filter_map(|field| self.base(&field)).collect()
    }

    fn base(&self, field: &Field<'_>) -> Option<BaseReference> {
        let text = self.filled(field)?;
        if text.is_empty() {
            let hint = "write the name or the path of an environment file";
            return field.refuse("a base is missing here", hint);
        }
        let text = self.at_home(field, text)?;
        let (line, column) = self.report.source.position(field.place().start);
        Some(BaseReference { file: EnvironmentReference::new(&text, self.directory), line, column })
    }

    fn image(&self, field: &Field<'_>) -> Option<UenvDescription> {
        let written = field.text()?;
        let text = self.filled(field)?;
        let text = self.at_home(field, text)?;
        if text.contains(',') {
            let message = format!("{} cannot be one image", quote(&text));
            let hint = "write each image in a text of its own: `[\"app\", \"tools\"]`";
            return field.refuse(&message, hint);
        }
        let image: UenvDescription = Self::word(field, written, &text)?;
        Some(self.anchored(image))
    }

    /// Makes the path of an image absolute.
    pub(super) fn anchored(&self, mut image: UenvDescription) -> UenvDescription {
        match &mut image.image {
            ImageDescription::Path(path) => *path = below(self.directory, path),
            ImageDescription::Container(text) => *text = container_in(text, self.directory),
            _ => {}
        }
        image
    }

    fn variables(&self, section: &Section<'_>) -> VariableSettings {
        let mut settings = VariableSettings::default();
        for entry in section.entries {
            let field = Field::of(self.report, entry);
            if !is_variable_name(&entry.key) {
                let message = format!("{} cannot be the name of a variable", quote(&entry.key));
                self.report.problem(entry.key_place, &message);
            } else if let Some(setting) = self.variable(&field) {
                settings.0.insert(entry.key.clone(), setting);
            }
        }
        settings
    }

    fn variable(&self, field: &Field<'_>) -> Option<VariableSetting> {
        match field.node.value {
            Value::Section(_) => {}
            Value::List(_) => {
                let hint = "write `{ prepend = [\"…\"] }` to put it before what is there";
                return field.wrong_type("text", Some(hint));
            }
            _ if self.is_edf => return self.engine_variable(field),
            _ => return Some(VariableSetting::to(&self.filled(field)?)),
        }
        let section = field.section_with(VARIABLE_KEYS)?;
        let set = section.get("set");
        Some(VariableSetting {
            set: set.map_or(Some(None), |field| self.filled(&field).map(Some))?,
            prepend: self.elements(&section, "prepend")?,
            append: self.elements(&section, "append")?,
        })
    }

    /// Reads what is added to a list: one text or several.
    fn elements(&self, section: &Section<'_>, key: &str) -> Option<Vec<String>> {
        let fields = Self::one_or_more(section, key, "an element");
        fields.iter().map(|field| self.element(field)).collect()
    }

    /// The elements of lists are paths, mostly.
    fn element(&self, field: &Field<'_>) -> Option<String> {
        let text = self.filled(field)?;
        if text == "~" || text.starts_with("~/") {
            return self.at_home(field, text);
        }
        Some(text)
    }
}
