// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The variables of a process as if no images were loaded around it, for one that is started
//! elsewhere without them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::loaded::{CABANE_LOADED, Loaded, UENV_MOUNT_LIST, UENV_VIEW};

/// Takes out of some variables what they say about the images that are loaded: their lists,
/// and paths in them. Where such a path has replaced a value of the caller, that one is back.
///
/// What a view has set and is no path in an image stays: no one knows any more whether it
/// was the view.
pub fn unload(variables: &mut BTreeMap<OsString, OsString>, loaded: &Loaded) {
    for name in [CABANE_LOADED, UENV_MOUNT_LIST, UENV_VIEW] {
        variables.remove(OsStr::new(name));
    }
    let is_inside = |path: &[u8]| {
        let path = Path::new(OsStr::from_bytes(path));
        let mut images = loaded.images.iter();
        images.any(|image| path.starts_with(&image.mount_point))
    };
    variables.retain(|name, value| {
        let parts = || value.as_bytes().split(|byte| *byte == b':');
        if !parts().any(is_inside) {
            return true;
        }
        let replaced = name.to_str().and_then(|name| loaded.replaced.get(name));
        let rest: Vec<_> = parts().filter(|part| !is_inside(part)).collect();
        *value = replaced.map_or_else(|| OsString::from_vec(rest.join(&b':')), Into::into);
        !value.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_loaded_is_in_no_variable_any_more() {
        let mut loaded = Loaded::from_mount_list("/images/app:/user-environment");
        loaded.replaced.insert("CC".to_owned(), "gcc".to_owned());
        let before = [
            ("CABANE_LOADED", "{}"),
            ("UENV_MOUNT_LIST", "/images/app:/user-environment"),
            ("PATH", "/user-environment/bin:/usr/bin:/user-environment-2/bin"),
            ("MANPATH", "/user-environment/man:"),
            ("APP_ROOT", "/user-environment/env/app"),
            ("CC", "/user-environment/bin/cc"),
            ("HOME", "/home/alice"),
        ];
        let mut variables = before.map(|(name, value)| (name.into(), value.into())).into();
        unload(&mut variables, &loaded);
        let after =
            [("PATH", "/usr/bin:/user-environment-2/bin"), ("CC", "gcc"), ("HOME", "/home/alice")];
        let after = after.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(variables, after.into());
    }
}
