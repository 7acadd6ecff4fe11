// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who gave a variable its value, and who each element of a list.
//!
//! The caller's variables from before are not known inside. But the changes of the
//! views are: they are made once more, on a list of which only the place of the
//! caller's elements is known.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use cabane_resolve::{Effect, effect};
use cabane_view::{Change, ListOperation};
use serde::Serialize;

use super::ProcessEnvironment;
use crate::loaded::{CABANE_LOADED, UENV_MOUNT_LIST, UENV_VIEW};

/// Lists by their nature, also where no view changes them.
const LISTS: [&str; 9] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "MANPATH",
    "PYTHONPATH",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
    "CPATH",
    "XDG_DATA_DIRS",
];

/// Who a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Origin {
    /// A view.
    View {
        /// `IMAGE:VIEW`.
        view: String,
        /// The label of the image, or its file.
        image: String,
    },
    /// An environment file, after the views.
    EnvironmentFile,
    /// Cabane itself.
    Cabane,
    /// The caller; or it was set later, inside.
    Caller,
}

/// One element of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Element {
    /// The element.
    pub text: String,
    /// Who put it there.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A value that was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The value; none if it was removed.
    pub value: Option<String>,
    /// Who set it.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A variable and where its value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VariableOrigin {
    /// The name.
    pub name: String,
    /// The value; none if it is not set.
    pub value: Option<String>,
    /// The elements, where it is a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<Element>,
    /// Who set or removed it, where it is no list.
    pub set_by: Option<Origin>,
    /// Whether the value is no longer the one that the view set.
    pub changed_since: bool,
    /// What was set before, the last one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replaced>,
}

impl ProcessEnvironment {
    /// Returns the origin that is a view, or behind the last one the environment file.
    pub(super) fn view_origin(&self, view: usize) -> Origin {
        let Some(view) = self.views.get(view) else {
            return Origin::EnvironmentFile;
        };
        let image = self.images.get(view.image);
        Origin::View {
            view: view.name.clone(),
            image: image.map(super::InsideImage::title).unwrap_or_default(),
        }
    }

    /// Tells where a variable comes from; `None` if it neither exists nor is changed
    /// by a view.
    pub fn variable(&self, name: &str) -> Option<VariableOrigin> {
        let value = self.variables.get(OsStr::new(name));
        let effects = self.effects(name);
        if value.is_none() && effects.is_empty() {
            return None;
        }
        let text = value.map(|value| value.to_string_lossy().into_owned());
        let mut origin =
            VariableOrigin { name: name.to_owned(), value: text, ..VariableOrigin::default() };
        let is_list =
            LISTS.contains(&name) || effects.iter().any(|(_, one)| matches!(one, Effect::Added(_)));
        if is_list && value.is_some() {
            origin.elements = self.elements(name);
        } else {
            self.tell_scalar(&mut origin, effects);
        }
        Some(origin)
    }

    /// Returns what each view does to a variable, in the order of the views, and last
    /// what environment files do.
    fn effects(&self, name: &str) -> Vec<(usize, Effect)> {
        let of_patch = |(place, changes): (usize, &[Change])| Some((place, effect(changes)?));
        self.changes(name).filter_map(of_patch).collect()
    }

    fn changes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (usize, &'a [Change])> {
        let views = self.views.iter().map(|view| &view.patch);
        let patches = views.chain([&self.settings]).enumerate();
        patches.filter_map(move |(place, patch)| {
            let (_, changes) = patch.iter().find(|(variable, _)| *variable == name)?;
            Some((place, changes))
        })
    }

    fn tell_scalar(&self, origin: &mut VariableOrigin, mut effects: Vec<(usize, Effect)>) {
        let value_of = |effect: &Effect| match effect {
            Effect::Set(value) => Some(value.clone()),
            Effect::Added(values) => Some(values.join(":")),
            Effect::Unset => None,
        };
        let is_value = |(_, effect): &(usize, Effect)| value_of(effect) == origin.value;
        let is_of_file = |(place, _): &(usize, Effect)| *place == self.views.len();
        if effects.last().is_some_and(|last| is_of_file(last) && !is_value(last))
            && effects.iter().any(is_value)
        {
            // In an environment inside another, a view may come after the outer file.
            effects.pop();
        }
        let is_callers = self.replaced.get(&origin.name) == origin.value.as_ref();
        if is_callers && origin.value.is_some() && !effects.iter().any(is_value) {
            // A virtual environment of the user's wins over the views.
            origin.set_by = Some(Origin::Caller);
            return;
        }
        let Some((last, effect)) = effects.pop() else {
            let ours = [CABANE_LOADED, UENV_MOUNT_LIST, UENV_VIEW];
            let is_ours = ours.contains(&origin.name.as_str()) && !self.images.is_empty();
            origin.set_by = Some(if is_ours { Origin::Cabane } else { Origin::Caller });
            return;
        };
        let set = value_of(&effect);
        // Into what a value of the caller's was put is not known any more.
        let is_known = set.as_ref().is_none_or(|set| !set.contains("${@"));
        origin.changed_since = is_known && set != origin.value;
        origin.set_by = Some(self.view_origin(last));
        for (view, effect) in effects.iter().rev() {
            origin
                .replaced
                .push(Replaced { value: value_of(effect), origin: self.view_origin(*view) });
        }
        let before = self.replaced.get(&origin.name);
        let is_told = |value: &String| {
            let same = |one: &Replaced| one.value.as_ref() == Some(value);
            origin.replaced.iter().any(same)
        };
        if let Some(value) = before.filter(|value| !is_told(value)).cloned() {
            origin.replaced.push(Replaced { value: Some(value), origin: Origin::Caller });
        }
    }

    /// Returns the elements of a list and who put each there.
    pub(super) fn elements(&self, name: &str) -> Vec<Element> {
        let Some(value) = self.variables.get(OsStr::new(name)) else {
            return Vec::new();
        };
        let parts = value.as_bytes().split(|&byte| byte == b':');
        let parts: Vec<String> =
            parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        let model = self.model(name);
        let place_of = |part: &str| model.iter().position(|one| one.text() == Some(part));
        let callers = model.iter().position(|one| one.text().is_none());
        let last_of_caller = parts.iter().rposition(|part| place_of(part).is_none());
        let origin = |(position, part): (usize, &String)| match place_of(part) {
            // What a view put behind those of the caller precedes one of them only
            // if the caller had it already.
            Some(place) if callers < Some(place) && last_of_caller > Some(position) => {
                Origin::Caller
            }
            Some(place) => match model.get(place) {
                Some(Piece::Of { view, .. }) => self.view_origin(*view),
                _ => Origin::Caller,
            },
            None => Origin::Caller,
        };
        let origins: Vec<Origin> = parts.iter().enumerate().map(origin).collect();
        let elements = parts.into_iter().zip(origins);
        elements.map(|(text, origin)| Element { text, origin }).collect()
    }

    /// Makes the changes of all views once more.
    fn model(&self, name: &str) -> Vec<Piece> {
        let mut list = VecDeque::from([Piece::OfCaller]);
        for (view, changes) in self.changes(name) {
            for change in changes {
                change_list(&mut list, view, change);
            }
        }
        let mut seen = BTreeSet::new();
        list.retain(|piece| piece.text().is_none_or(|text| seen.insert(text.to_owned())));
        list.into()
    }
}

/// A part of a list while it changes.
enum Piece {
    /// An element of a view.
    Of { view: usize, text: String },
    /// Whatever the caller had.
    OfCaller,
}

impl Piece {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Of { text, .. } => Some(text),
            Self::OfCaller => None,
        }
    }
}

fn change_list(list: &mut VecDeque<Piece>, view: usize, change: &Change) {
    let pieces = |values: &[String]| -> Vec<Piece> {
        let parts = values.iter().flat_map(|value| value.split(':'));
        let piece = |text: &str| Piece::Of { view, text: text.to_owned() };
        parts.filter(|part| !part.is_empty()).map(piece).collect()
    };
    match change {
        Change::Unset => list.clear(),
        Change::Set(value) => *list = pieces(std::slice::from_ref(value)).into(),
        Change::List { operation, values } => match operation {
            ListOperation::Unset => list.clear(),
            ListOperation::Set => *list = pieces(values).into(),
            ListOperation::Append => list.extend(pieces(values)),
            ListOperation::Prepend => {
                for piece in pieces(values).into_iter().rev() {
                    list.push_front(piece);
                }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inside::InsideView;
    use crate::inside::mounts::Mounts;
    use cabane_view::EnvPatch;

    fn list(operation: ListOperation, value: &str) -> Change {
        Change::List { operation, values: vec![value.to_owned()] }
    }

    /// Views that change `LIST`, and its value now.
    fn process_environment(views: &[&[Change]], value: &str) -> ProcessEnvironment {
        let view = |(place, changes): (usize, &&[Change])| {
            let mut patch = EnvPatch::new();
            for change in *changes {
                patch.push("LIST", change.clone());
            }
            InsideView { image: 0, name: place.to_string(), root: None, patch }
        };
        ProcessEnvironment {
            images: Vec::new(),
            views: views.iter().enumerate().map(view).collect(),
            variables: [("LIST".into(), value.into())].into(),
            settings: EnvPatch::new(),
            replaced: [("LIST".to_owned(), "before".to_owned())].into(),
            mounts: Mounts::default(),
        }
    }

    /// The view of each element, `-` for the caller.
    fn origins(views: &[&[Change]], value: &str) -> String {
        let elements = process_environment(views, value).elements("LIST");
        let origin = |one: Element| match one.origin {
            Origin::View { view, .. } => view,
            Origin::EnvironmentFile => "e".to_owned(),
            Origin::Cabane | Origin::Caller => "-".to_owned(),
        };
        elements.into_iter().map(origin).collect()
    }

    #[test]
    fn elements_belong_to_the_view_that_put_them_there() {
        let first = list(ListOperation::Prepend, "/a");
        let second = [list(ListOperation::Prepend, "/b:/c"), list(ListOperation::Append, "/z")];
        assert_eq!(origins(&[&[first], &second], "/b:/c:/a:/usr:/z"), "110-1");
    }

    #[test]
    fn an_element_that_both_put_in_front_belongs_to_the_later_one() {
        let same = [list(ListOperation::Prepend, "/a")];
        assert_eq!(origins(&[&same, &same], "/a:/usr"), "1-");
    }

    #[test]
    fn an_element_that_the_caller_had_before_it_was_appended_stays_the_callers() {
        let view = list(ListOperation::Append, "/bin");
        assert_eq!(origins(&[&[view]], "/bin:/usr"), "--");
    }

    #[test]
    fn what_a_later_view_sets_belongs_to_it_alone() {
        let first = list(ListOperation::Prepend, "/a");
        let second = list(ListOperation::Set, "/a:/b");
        assert_eq!(origins(&[&[first], &[second]], "/a:/b"), "11");
    }

    #[test]
    fn an_environment_file_comes_after_the_views() {
        let view = [list(ListOperation::Prepend, "/a")];
        let mut process_environment = process_environment(&[&view], "/e:/a:/usr");
        let change = list(ListOperation::Prepend, "/e");
        process_environment.settings.push("LIST", change);
        let elements = process_environment.elements("LIST");
        assert_eq!(elements[0].origin, Origin::EnvironmentFile);
    }

    #[test]
    fn a_value_that_was_kept_against_a_view_is_the_callers() {
        let view = [Change::Set("view".to_owned())];
        let origin = process_environment(&[&view], "before").variable("LIST").unwrap();
        assert_eq!(origin.set_by, Some(Origin::Caller));
    }

    #[test]
    fn a_scalar_shows_the_earlier_views_and_the_caller_in_the_order_of_replacement() {
        let [one, other] = ["one", "other"].map(|value| Change::Set(value.to_owned()));
        let origin = process_environment(&[&[one], &[other]], "other").variable("LIST");
        let replaced = origin.unwrap().replaced.into_iter();
        let values: Vec<_> = replaced.filter_map(|one| one.value).collect();
        assert_eq!(values, ["one", "before"]);
    }
}
