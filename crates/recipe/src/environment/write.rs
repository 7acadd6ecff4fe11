// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An environment file as TOML.

use std::fmt::Write as _;

use cabane_label::escape;
use cabane_view::VariableSetting;

use super::template::protect;
use super::{EnvironmentFile, MountEntry};

impl EnvironmentFile {
    /// Writes the file; reading it again gives the same, but for paths that are not
    /// UTF-8.
    ///
    /// `notes` are comments for the images, in their order; there may be fewer.
    #[must_use]
    pub fn to_toml(&self, notes: &[String]) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        line("description", self.description.as_deref().map(quoted));
        line("base", list(self.bases.iter().map(|base| (filled(&base.file.to_string()), ""))));
        line("image", self.container.as_ref().map(|image| filled(&image.to_string())));
        line("entrypoint", self.entrypoint.map(|is_run| is_run.to_string()));
        line("writable", self.writable.map(|is_writable| is_writable.to_string()));
        let notes = notes.iter().map(String::as_str).chain(std::iter::repeat(""));
        let images = self.images.iter().map(|image| filled(&image.to_string()));
        line("images", list(images.zip(notes)));
        line("views", list(self.views.iter().map(|view| (quoted(&view.to_string()), ""))));
        line("default-views", self.default_views.map(|is_used| is_used.to_string()));
        line("mounts", list(self.mounts.iter().map(|mount| (table_of(mount), ""))));
        line("devices", list(self.devices.iter().map(|device| (quoted(&device.to_string()), ""))));
        let workdir = self.workdir.as_ref();
        line("workdir", workdir.map(|workdir| filled(&workdir.to_string_lossy())));
        if !self.env.is_empty() {
            text += if text.is_empty() { "[env]\n" } else { "\n[env]\n" };
        }
        for (variable, setting) in &self.env.0 {
            let _ = writeln!(text, "{} = {}", key(variable), value_of(setting));
        }
        if !self.annotations.is_empty() {
            text += if text.is_empty() { "[annotations]\n" } else { "\n[annotations]\n" };
        }
        for (name, value) in &self.annotations {
            let _ = writeln!(text, "{} = {}", quoted(name), filled(value));
        }
        text
    }
}

/// An array, unless it is empty; with comments or several items, one in a line.
fn list<'a>(items: impl Iterator<Item = (String, &'a str)>) -> Option<String> {
    let items: Vec<(String, &str)> = items.collect();
    match items.as_slice() {
        [] => return None,
        [(item, "")] => return Some(format!("[{item}]")),
        _ => {}
    }
    let mut text = "[\n".to_owned();
    for (item, note) in items {
        let comment = if note.is_empty() { String::new() } else { format!(" # {}", escape(note)) };
        let _ = writeln!(text, "  {item},{comment}");
    }
    Some(text + "]")
}

fn table_of(mount: &MountEntry) -> String {
    let (source, target) = (filled(&mount.source.to_string_lossy()), filled(mount.target.as_str()));
    let read_only = if mount.read_only { ", read-only = true" } else { "" };
    format!("{{ source = {source}, target = {target}{read_only} }}")
}

fn value_of(setting: &VariableSetting) -> String {
    let set = setting.set.as_deref().map(filled);
    if setting.prepend.is_empty() && setting.append.is_empty() {
        return set.unwrap_or_else(|| "{}".to_owned());
    }
    let texts = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| filled(value)).collect();
        (!values.is_empty()).then(|| format!("[{}]", values.join(", ")))
    };
    let keys =
        [("set", set), ("prepend", texts(&setting.prepend)), ("append", texts(&setting.append))];
    let written = keys.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
    format!("{{ {} }}", written.collect::<Vec<_>>().join(", "))
}

/// A text in which variables would be replaced.
fn filled(text: &str) -> String {
    quoted(&protect(text))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // What a reader could not see, and what may not be in the file.
            _ if escape(character.encode_utf8(&mut [0; 4])).len() > character.len_utf8() => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}
