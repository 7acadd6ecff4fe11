// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who called, and with whose rights the process acts.

use std::io;

use cabane_sys::privilege::{self, Numbers};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_gid, set_thread_res_gid, set_thread_res_uid,
    set_thread_uid,
};

const ROOT: Uid = Uid::ROOT;

/// The user and group that started the process.
pub(crate) struct Caller {
    user: Uid,
    group: Gid,
    users: Numbers,
}

impl Caller {
    pub(crate) fn identify() -> io::Result<Self> {
        let (users, groups) = (privilege::users()?, privilege::groups()?);
        Ok(Self {
            user: Uid::from_raw(users.real),
            group: Gid::from_raw(groups.real),
            users,
        })
    }

    /// Tells whether the program runs with the rights of root, as it does where it is
    /// installed set-uid and those are not withheld.
    pub(crate) fn is_privileged(&self) -> bool {
        self.users.effective == ROOT.as_raw()
    }

    /// Returns the number of the user.
    pub(crate) fn user(&self) -> u32 {
        self.user.as_raw()
    }

    /// Acts as the caller, able to take the rights of root back; no program that is
    /// started from now on can gain rights.
    pub(crate) fn lower(&self) -> io::Result<()> {
        set_no_new_privs(true)?;
        // Nobody looks in, whatever `fs.suid_dumpable` says; `exec` ends it.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        set_thread_res_gid(None, self.group, None)?;
        // With the effective user goes every effective capability.
        set_thread_res_uid(None, self.user, None)?;
        Ok(())
    }

    /// Takes the rights back and acts as root, in the eyes of others, too: whoever has the same real user could
    /// send signals, and stop the process while it holds a lock.
    pub(crate) fn raise() -> io::Result<()> {
        set_thread_res_uid(None, ROOT, None)?;
        set_thread_res_uid(ROOT, ROOT, ROOT)?;
        Ok(())
    }

    /// Becomes the caller, with no way back, and makes sure of it.
    pub(crate) fn drop_for_good(&self) -> io::Result<()> {
        clear_ambient_capability_set()?;
        for bit in CapabilitySet::all().iter() {
            match remove_capability_from_bounding_set(bit) {
                // One that this kernel does not know.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        set_thread_res_gid(self.group, self.group, self.group)?;
        set_thread_res_uid(self.user, self.user, self.user)?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none)?;
        self.verify()
    }

    fn verify(&self) -> io::Result<()> {
        let sets = capabilities(None)?;
        let has_none = (sets.effective | sets.permitted | sets.inheritable).is_empty()
            && CapabilitySet::all().iter().all(is_nowhere);
        let is_caller = privilege::file_system_user() == self.user.as_raw()
            && privilege::users()?.are_all(self.user.as_raw())
            && privilege::groups()?.are_all(self.group.as_raw());
        // Only root itself may still be able to become root.
        let is_final = self.user == ROOT
            || (set_thread_uid(ROOT).is_err() && set_thread_res_uid(None, ROOT, None).is_err());
        let group_is_final =
            self.user == ROOT || self.group == Gid::ROOT || set_thread_gid(Gid::ROOT).is_err();
        if has_none && is_caller && is_final && group_is_final && no_new_privs()? {
            Ok(())
        } else {
            Err(Errno::PERM.into())
        }
    }
}

/// Tells whether a capability cannot come back. One that the kernel does not know is in
/// no set. The ambient set holds nothing that is not permitted and inheritable, too
/// (capabilities(7)), so it need not be asked.
fn is_nowhere(bit: CapabilitySet) -> bool {
    !capability_is_in_bounding_set(bit).unwrap_or(false)
}
