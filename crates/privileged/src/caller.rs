// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! For whom images are mounted, and with whose rights the process acts.
//!
//! A file that the caller passed, or a place that they can furnish, is looked at with the
//! rights of the caller alone: see [`Caller::act`]. Then what they serve themselves can let no one
//! wait but a process that they can end, within their own limits.

use std::io;

use cabane_sys::privilege::{self, FileSystemUser, Numbers};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_gid, set_thread_res_gid, set_thread_res_uid,
    set_thread_uid,
};

use crate::Error;

const ROOT: Uid = Uid::ROOT;

/// The user for whom images are mounted.
#[derive(Debug)]
pub struct Caller {
    user: Uid,
    means: Means,
}

/// How the process takes the rights of the caller for a while.
#[derive(Debug)]
enum Means {
    /// It becomes the user, also in the eyes of others: the helper.
    Process { group: Gid, users: Numbers },
    /// The thread accesses files as the user: a process of root that serves others, too.
    Thread,
}

impl Caller {
    /// Returns who started this process.
    ///
    /// # Errors
    ///
    /// None that the kernel knows.
    pub fn of_process() -> io::Result<Self> {
        let (users, groups) = (privilege::users()?, privilege::groups()?);
        Ok(Self {
            user: Uid::from_raw(users.real),
            means: Means::Process { group: Gid::from_raw(groups.real), users },
        })
    }

    /// Names a user for whom a thread of a process of root acts. The thread has the groups
    /// of the user already.
    #[must_use]
    pub fn of_thread(user: u32) -> Self {
        Self { user: Uid::from_raw(user), means: Means::Thread }
    }

    /// Tells whether the program has the rights of root, as it does where it is installed
    /// set-uid and those are not withheld.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        match &self.means {
            Means::Process { users, .. } => users.effective == ROOT.as_raw(),
            Means::Thread => true,
        }
    }

    /// Returns the number of the user.
    #[must_use]
    pub fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// Does something with no other rights to files than those of the caller. In the helper the
    /// caller can end or stop the process meanwhile: of locks, only one for which others wait no
    /// longer than for a start that was stopped may be held.
    ///
    /// # Errors
    ///
    /// Those of `act`, and [`Error::Step`] where the rights cannot be changed.
    pub(crate) fn act<T>(&self, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let failed = |source| Error::Step {
            what: "take the rights of the caller in",
            path: "the process".into(),
            source,
        };
        match self.means {
            Means::Process { .. } => {
                self.lower().map_err(failed)?;
                let result = act();
                raise().map_err(failed)?;
                result
            }
            Means::Thread => {
                let _rights = FileSystemUser::become_user(self.user()).map_err(failed)?;
                act()
            }
        }
    }

    /// Becomes the caller, able to take the rights of root back; no program that is started
    /// from now on can gain rights.
    ///
    /// # Errors
    ///
    /// `EPERM` if the process has no rights to give up.
    pub fn lower(&self) -> io::Result<()> {
        set_no_new_privs(true)?;
        if let Means::Process { group, .. } = self.means {
            set_thread_res_gid(None, group, None)?;
        }
        // With the effective user goes every effective capability. The caller is the real one:
        // they can end the process.
        set_thread_res_uid(self.user, self.user, ROOT)?;
        hide()
    }

    /// Becomes the caller, with no way back, and makes sure of it.
    ///
    /// # Errors
    ///
    /// `EPERM` if anything of the rights is left.
    pub fn drop_for_good(&self) -> io::Result<()> {
        let Means::Process { group, .. } = self.means else {
            return Err(Errno::INVAL.into());
        };
        clear_ambient_capability_set()?;
        empty_bounding_set()?;
        // In two steps. After the first the process is hidden again before it is the caller in
        // every way, whom it would let in; the second changes nothing that shows it.
        self.lower()?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(self.user, self.user, self.user)?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none)?;
        self.verify(group)
    }

    fn verify(&self, group: Gid) -> io::Result<()> {
        let sets = capabilities(None)?;
        let has_none = (sets.effective | sets.permitted | sets.inheritable).is_empty()
            && CapabilitySet::all().iter().all(is_nowhere);
        let is_caller = privilege::file_system_user() == self.user.as_raw()
            && privilege::users()?.are_all(self.user.as_raw())
            && privilege::groups()?.are_all(group.as_raw());
        // Only root itself may still be able to become root.
        let is_final = self.user == ROOT
            || (set_thread_uid(ROOT).is_err() && set_thread_res_uid(None, ROOT, None).is_err());
        let group_is_final =
            self.user == ROOT || group == Gid::ROOT || set_thread_gid(Gid::ROOT).is_err();
        let is_hidden = matches!(dumpable_behavior()?, DumpableBehavior::NotDumpable);
        if has_none && is_caller && is_final && group_is_final && is_hidden && no_new_privs()? {
            Ok(())
        } else {
            Err(Errno::PERM.into())
        }
    }
}

/// Takes the rights of root back, in the eyes of others, too: anyone who has the same real user
/// could stop the process while it holds a lock.
///
/// # Errors
///
/// `EPERM` if they were given up for good.
pub fn raise() -> io::Result<()> {
    set_thread_res_uid(None, ROOT, None)?;
    set_thread_res_uid(ROOT, ROOT, ROOT)?;
    hide()
}

/// Empties the set of capabilities that programs of files can bring. What the process has
/// itself stays.
///
/// # Errors
///
/// `EPERM` without `CAP_SETPCAP`.
pub fn empty_bounding_set() -> io::Result<()> {
    for bit in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(bit) {
            // One that this kernel does not know.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Keeps everyone from looking into the process. Each change of who it is undoes that, to
/// whatever `fs.suid_dumpable` says; `exec` ends it.
fn hide() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    match dumpable_behavior()? {
        DumpableBehavior::NotDumpable => Ok(()),
        _ => Err(Errno::PERM.into()),
    }
}

/// Tells whether a capability cannot come back. One that the kernel does not know is in
/// no set. The ambient set holds nothing that is not permitted and inheritable, too
/// (capabilities(7)), so it need not be read.
fn is_nowhere(bit: CapabilitySet) -> bool {
    !capability_is_in_bounding_set(bit).unwrap_or(false)
}
