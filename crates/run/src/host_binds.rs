// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What of the host is seen in a root image.
//!
//! Beside the kernel's directories, which belong to the mounting of a root image, these are
//! the files of people and places where processes meet. Everything else is the image's. Why
//! is in `docs/design/0014-root-images.md`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use cabane_mount::{Layer, Operation};
use cabane_view::VariableSettings;
use rustix::process::{getegid, geteuid, getgroups};

use crate::loaded::{Additions, Bind};

/// How a root image is entered.
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootRequest {
    /// Where writing to it goes.
    pub layer: Layer,
    /// Whether the home directory is left out.
    pub without_home: bool,
    /// Whether home and temporary directories are empty ones in memory, and the working directory is
    /// not shown.
    pub contained: bool,
    /// What the site or the user always wants to see. What does not exist is left out.
    pub binds: Vec<Bind>,
    /// What devices of the machine bring.
    pub devices: Vec<DevicePlace>,
    /// The variables that they bring, which hold over all others.
    pub device_variables: VariableSettings,
    /// Whether the command is arguments of the image's entry point.
    pub entry_point: bool,
    /// Whether the caller's variables are those of the environment already.
    pub keeps_variables: bool,
}

/// A file or directory that comes with a device, and where it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlace {
    /// Where it is, an absolute path.
    pub source: PathBuf,
    /// Where it is seen, an absolute path.
    pub target: PathBuf,
    /// Whether writing is refused there. The files are the system's, and protected anyhow.
    pub read_only: bool,
}

/// Where programs of one node and of one person meet.
const COMMON: [&str; 2] = ["/tmp", "/var/tmp"];
/// How names of machines become addresses.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// Directories that are made for one person, or for the processes of one step.
const NAMED_BY: [&str; 2] = ["XDG_RUNTIME_DIR", "PMIX_SERVER_TMPDIR"];
/// Where a working directory of the host is not shown: the image has its own.
const OF_SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];

/// Variables that tell programs of the host where its files are, and programs of an image
/// nothing but nonsense.
const OF_HOST: [&str; 32] = [
    "CMAKE_PREFIX_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "FI_PROVIDER_PATH",
    "GI_TYPELIB_PATH",
    "INFOPATH",
    "I_MPI_ROOT",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LIBRARY_PATH",
    "LOADEDMODULES",
    "LUA_CPATH",
    "LUA_PATH",
    "MANPATH",
    "MODULEPATH",
    "OPAL_LIBDIR",
    "OPAL_PKGLIBDIR",
    "OPAL_PREFIX",
    "PERL5LIB",
    "PKG_CONFIG_PATH",
    "PMIX_INSTALL_PREFIX",
    "PMIX_PREFIX",
    "PRTE_PREFIX",
    "PYTHONHOME",
    "PYTHONPATH",
    "R_LIBS",
    "TCLLIBPATH",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "_LMFILES_",
];

/// Where programs are looked for in an image that does not say so.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the variables of the caller that mean something in a root image.
pub(crate) fn variables(calling: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let is_of_host = |name: &OsStr| OF_HOST.iter().any(|known| name == OsStr::new(known));
    let mut variables = calling.clone();
    variables.retain(|name, _| !is_of_host(name));
    variables.insert("PATH".into(), USUAL_PATH.into());
    variables
}

/// Says what of the host is seen in a root image beside what is named in `additions`, in the
/// order in which it is put in place.
pub fn seen_in_root(
    request: &RootRequest,
    additions: &Additions,
    calling: &BTreeMap<OsString, OsString>,
    working_directory: Option<&Path>,
) -> Vec<Operation> {
    let mut shown =
        Shown { taken: additions.binds.iter().map(target_of).collect(), operations: Vec::new() };
    for place in COMMON.into_iter().map(Path::new).filter(|path| path.is_dir()) {
        shown.same_or_empty(place, request.contained);
    }
    let directory = |name: &&str| {
        let path = PathBuf::from(calling.get(OsStr::new(name))?);
        (path.is_absolute() && path.is_dir()).then_some(path)
    };
    let home = directory(&"HOME").filter(|home| !request.without_home && home != Path::new("/"));
    if let Some(home) = &home {
        shown.same_or_empty(home, request.contained);
    }
    let [of_user, of_step] = NAMED_BY;
    for place in [Some(of_user).filter(|_| !request.contained), Some(of_step)] {
        if let Some(place) = place.as_ref().and_then(directory) {
            shown.same(&place);
        }
    }
    for bind in request.binds.iter().filter(|bind| bind.source.exists()) {
        shown.bind(&bind.source, bind.target.as_path(), bind.read_only);
    }
    for place in &request.devices {
        shown.device(place);
    }
    let working_directory = working_directory.filter(|_| !request.contained);
    if let Some(place) = working_directory.filter(|path| is_own(path)) {
        shown.same(place);
    }
    for file in FILES.into_iter().map(Path::new).filter(|path| path.is_file()) {
        shown.same(file);
    }
    if request.layer == Layer::None || geteuid().is_root() {
        shown.names(calling, home.as_deref());
    }
    shown.operations
}

fn target_of(bind: &Bind) -> PathBuf {
    bind.target.as_path().to_owned()
}

fn is_own(directory: &Path) -> bool {
    directory != Path::new("/") && !OF_SYSTEM.iter().any(|place| directory.starts_with(place))
}

/// What is seen so far.
struct Shown {
    /// Places at which the user wants something else.
    taken: Vec<PathBuf>,
    operations: Vec<Operation>,
}

impl Shown {
    /// Shows a place of the host where it is, unless it is seen already.
    fn same(&mut self, place: &Path) {
        self.bind(place, place, false);
    }

    /// Shows a directory of the host, or an empty one in its place.
    fn same_or_empty(&mut self, place: &Path, is_empty: bool) {
        if !is_empty {
            self.same(place);
        } else if !self.taken.iter().any(|taken| taken == place) {
            self.operations.push(Operation::Empty { directory: place.to_owned() });
        }
    }

    fn bind(&mut self, source: &Path, target: &Path, read_only: bool) {
        let is_seen = |operation: &Operation| match operation {
            Operation::Bind { source: around, target: place, read_only: false } => {
                around == place && !read_only && source == target && source.starts_with(around)
            }
            _ => false,
        };
        let is_taken = self.taken.iter().any(|taken| taken == target);
        if is_taken || self.operations.iter().any(is_seen) {
            return;
        }
        self.operations.push(Operation::Bind {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only,
        });
    }

    /// Shows what comes with a device, unless it is seen where it is already, or the user or the
    /// site wants something else there.
    fn device(&mut self, place: &DevicePlace) {
        let is_same = place.source == place.target;
        let is_seen = |operation: &Operation| match operation {
            Operation::Bind { source, target, .. } => {
                *target == place.target
                    || is_same && source == target && place.source.starts_with(source)
            }
            _ => false,
        };
        if !self.operations.iter().any(is_seen) {
            self.bind(&place.source, &place.target, place.read_only);
        }
    }

    /// Gives the user and his groups their names.
    fn names(&mut self, calling: &BTreeMap<OsString, OsString>, home: Option<&Path>) {
        let user = geteuid().as_raw();
        if user == 0 {
            return;
        }
        let text = |name: &str| calling.get(OsStr::new(name)).and_then(|value| value.to_str());
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let known = name_of(&passwd, user);
        let name = known.or_else(|| text("USER").filter(|name| is_word(name)));
        let name = name.map_or_else(|| format!("user{user}"), str::to_owned);
        let home = home.and_then(Path::to_str).filter(|home| is_word(home));
        let group = getegid().as_raw();
        let lines = format!("{name}:x:{user}:{group}::{}:/bin/sh\n", home.unwrap_or("/"));
        self.extend("/etc/passwd", lines);
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        let mut numbers: Vec<u32> = getgroups()
            .unwrap_or_default()
            .into_iter()
            .map(rustix::process::Gid::as_raw)
            .filter(|number| *number != group)
            .collect();
        numbers.insert(0, group);
        let lines = numbers.iter().filter_map(|number| {
            let own = (*number == group).then_some(name.as_str());
            let name = name_of(&groups, *number).or(own)?;
            Some(format!("{name}:x:{number}:\n"))
        });
        self.extend("/etc/group", lines.collect());
    }

    fn extend(&mut self, file: &str, lines: String) {
        if self.taken.iter().any(|taken| taken == Path::new(file)) {
            return;
        }
        self.operations.push(Operation::Extend { file: file.into(), lines });
    }
}

/// Looks a number up in the text of `/etc/passwd` or `/etc/group`.
fn name_of(text: &str, number: u32) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, found) = (fields.next()?, fields.nth(1)?);
        (found.parse() == Ok(number) && is_word(name)).then_some(name)
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == ':' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(request: &RootRequest, additions: &Additions, directory: &str) -> Vec<String> {
        let calling = BTreeMap::from([("HOME".into(), "/var/lib".into())]);
        let directory = Some(Path::new(directory)).filter(|path| *path != Path::new(""));
        seen_in_root(request, additions, &calling, directory)
            .iter()
            .map(|operation| operation.target().display().to_string())
            .filter(|target| !target.starts_with("/etc/"))
            .collect()
    }

    #[test]
    fn home_and_working_directory_are_seen_where_they_are() {
        assert_eq!(
            targets(&RootRequest::default(), &Additions::default(), "/srv"),
            ["/tmp", "/var/tmp", "/var/lib", "/srv"]
        );
    }

    #[test]
    fn what_is_seen_already_is_not_put_in_place_again() {
        assert_eq!(
            targets(&RootRequest::default(), &Additions::default(), "/tmp/x"),
            ["/tmp", "/var/tmp", "/var/lib"]
        );
    }

    #[test]
    fn directories_of_the_system_are_those_of_the_image() {
        assert!(
            !targets(&RootRequest::default(), &Additions::default(), "/usr/lib")
                .contains(&"/usr/lib".to_owned())
        );
    }

    #[test]
    fn the_home_directory_can_be_left_out() {
        let request = RootRequest { without_home: true, ..RootRequest::default() };
        assert!(!targets(&request, &Additions::default(), "").contains(&"/var/lib".to_owned()));
    }

    #[test]
    fn contained_directories_are_empty_and_those_of_the_user_stay() {
        let request = RootRequest { contained: true, ..RootRequest::default() };
        let bind =
            Bind { source: "/srv".into(), target: "/tmp".parse().unwrap(), read_only: false };
        let additions = Additions { binds: vec![bind], ..Additions::default() };
        let calling = BTreeMap::from([("HOME".into(), "/var/lib".into())]);
        let found = seen_in_root(&request, &additions, &calling, Some(Path::new("/srv")));
        let empty = found.iter().filter_map(|operation| match operation {
            Operation::Empty { directory } => Some(directory.as_path()),
            Operation::Bind { target, .. } if target.starts_with("/srv") => Some(target),
            _ => None,
        });
        assert_eq!(empty.collect::<Vec<_>>(), ["/var/tmp", "/var/lib"].map(Path::new));
    }

    #[test]
    fn what_the_user_puts_at_a_place_stays_there() {
        let additions = Additions {
            binds: vec![Bind {
                source: "/srv".into(),
                target: "/tmp".parse().unwrap(),
                read_only: true,
            }],
            ..Additions::default()
        };
        assert!(!targets(&RootRequest::default(), &additions, "").contains(&"/tmp".to_owned()));
    }

    #[test]
    fn what_the_site_shows_and_is_not_there_is_left_out() {
        let bind = |path: &str| Bind {
            source: path.into(),
            target: path.parse().unwrap(),
            read_only: false,
        };
        let request = RootRequest {
            binds: vec![bind("/nonexistent"), bind("/srv")],
            ..RootRequest::default()
        };
        let found = targets(&request, &Additions::default(), "");
        assert_eq!(found.last().map(String::as_str), Some("/srv"));
    }

    #[test]
    fn files_of_devices_are_seen_once() {
        let place = |source: &str, target: &str| DevicePlace {
            source: source.into(),
            target: target.into(),
            read_only: true,
        };
        let request = RootRequest {
            devices: vec![
                place("/tmp/driver", "/tmp/driver"),
                place("/srv", "/var/tmp"),
                place("/srv", "/opt/driver:0"),
            ],
            ..RootRequest::default()
        };
        assert_eq!(
            targets(&request, &Additions::default(), ""),
            ["/tmp", "/var/tmp", "/var/lib", "/opt/driver:0"]
        );
    }

    #[test]
    fn libraries_of_the_host_are_not_looked_for_in_the_image() {
        let calling = ["LD_LIBRARY_PATH", "OPAL_PREFIX", "PATH", "EDITOR"]
            .map(|name| (OsString::from(name), OsString::from("/x")));
        let inside = variables(&calling.into());
        assert_eq!(
            inside,
            BTreeMap::from([("EDITOR".into(), "/x".into()), ("PATH".into(), USUAL_PATH.into())])
        );
    }

    #[test]
    fn names_are_looked_up_by_number() {
        let passwd = "root:x:0:0::/:/bin/sh\nalice:x:1000:100::/:/bin/sh\n";
        assert_eq!([name_of(passwd, 1000), name_of(passwd, 100)], [Some("alice"), None]);
    }
}
