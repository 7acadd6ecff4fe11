// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The border to Slurm: what it calls, and what of it is called.
//!
//! Declared by hand after `slurm/spank.h` (compared with it by a test), since these few
//! functions have been the same for all releases. Nothing that goes wrong in Rust crosses
//! the border: a panic would end `srun`, or `slurmstepd` with a node drained.

#![expect(unsafe_code, reason = "the functions of another program are called")]
#![expect(unreachable_pub, reason = "the linker reaches them")]

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use cabane_mount::JobOwner;

use crate::dispatch;
use crate::options;
use crate::spank::{Context, SlurmError, Spank, Step, node_name};

/// What Slurm takes for success.
const SUCCESS: c_int = 0;
const FAILURE: c_int = -1;
/// `ESPANK_ENV_NOEXIST`, before Slurm 21.08 and since.
const MISSING: [c_int; 2] = [5, 3004];
/// `ESPANK_NOSPACE`, likewise.
const NO_SPACE: [c_int; 2] = [6, 3005];

const S_JOB_UID: c_int = 0;
const S_JOB_GID: c_int = 1;
const S_JOB_ID: c_int = 2;
const S_JOB_STEPID: c_int = 3;
const S_JOB_NNODES: c_int = 4;
const S_JOB_NODEID: c_int = 5;
const S_JOB_TOTAL_TASK_COUNT: c_int = 7;
const S_JOB_ARGV: c_int = 9;
const S_TASK_ID: c_int = 11;
const S_TASK_EXIT_STATUS: c_int = 13;
const S_TASK_PID: c_int = 14;
const S_JOB_SUPPLEMENTARY_GIDS: c_int = 19;
const S_JOB_ARRAY_ID: c_int = 30;
const S_JOB_ARRAY_TASK_ID: c_int = 31;

const S_CTX_LOCAL: c_int = 1;
const S_CTX_REMOTE: c_int = 2;
const S_CTX_ALLOCATOR: c_int = 3;

/// A variable with which a job can come, in bytes.
const LONGEST_VARIABLE: usize = 1 << 20;

/// `struct spank_option`.
#[repr(C)]
struct SpankOption {
    name: *const c_char,
    arginfo: *const c_char,
    usage: *const c_char,
    has_arg: c_int,
    val: c_int,
    cb: extern "C" fn(c_int, *const c_char, c_int) -> c_int,
}

unsafe extern "C" {
    fn spank_context() -> c_int;
    fn spank_option_register(spank: *mut c_void, option: *const SpankOption) -> c_int;
    fn spank_get_item(spank: *mut c_void, item: c_int, ...) -> c_int;
    fn spank_getenv(
        spank: *mut c_void,
        name: *const c_char,
        buffer: *mut c_char,
        length: c_int,
    ) -> c_int;
    fn spank_setenv(
        spank: *mut c_void,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> c_int;
    fn spank_unsetenv(spank: *mut c_void, name: *const c_char) -> c_int;
    fn slurm_spank_log(format: *const c_char, ...);
    fn slurm_error(format: *const c_char, ...);
    fn _exit(status: c_int) -> !;
}

/// Read by the loader of plugins.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 7] = *b"cabane\0";
/// Read by the loader of plugins.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";
/// Read by the loader of plugins, which takes its own release only.
#[unsafe(no_mangle)]
pub static plugin_version: c_uint = crate::release::RELEASE;
/// The version of the interface; there is one.
#[unsafe(no_mangle)]
pub static spank_plugin_version: c_uint = 1;

/// Slurm tells its options.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init(
    spank: *mut c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: as Slurm hands them over.
        let arguments = unsafe { texts(count, arguments) };
        let has_shared = dispatch::has_shared_options(&arguments);
        dispatch::program_begins(&Slurm { spank });
        for (place, known) in options::ALL.iter().enumerate() {
            let is_shared = options::is_shared(place);
            if is_shared && !has_shared {
                continue;
            }
            let option = SpankOption {
                name: known.name.as_ptr(),
                arginfo: known.value.map_or(ptr::null(), CStr::as_ptr),
                usage: known.usage.as_ptr(),
                has_arg: c_int::from(known.value.is_some()),
                val: c_int::try_from(place).unwrap_or(c_int::MAX),
                cb: option_given,
            };
            // SAFETY: Slurm copies the structure; its texts are there for ever.
            let answer = unsafe { spank_option_register(spank, &raw const option) };
            // Another plugin has it, and Slurm says so: it is that plugin's.
            if answer != SUCCESS && !is_shared {
                let name = known.name.to_string_lossy();
                tell(&format!("cannot add the option --{name}: does another plugin have it?"));
                return Err(());
            }
        }
        Ok(())
    })
}

/// All options are known; in `slurmstepd`, before there are tasks.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init_post_opt(
    spank: *mut c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: as Slurm hands them over.
        let arguments = unsafe { texts(count, arguments) };
        dispatch::options_known(&Slurm { spank }, &arguments)
    })
}

/// In `srun`: the step has its nodes, and is about to be started.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_local_user_init(
    spank: *mut c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: as Slurm hands them over.
        let arguments = unsafe { texts(count, arguments) };
        dispatch::nodes_known(&Slurm { spank }, &arguments);
        Ok(())
    })
}

/// A task is about to start: a process of its own, still as root.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_task_init_privileged(
    spank: *mut c_void,
    _: c_int,
    _: *const *const c_char,
) -> c_int {
    guarded(|| dispatch::task_starts(&Slurm { spank }))
}

/// A task is about to start, with the rights of the user; `slurmstepd` knows of it.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_task_init(
    spank: *mut c_void,
    _: c_int,
    _: *const *const c_char,
) -> c_int {
    guarded(|| {
        dispatch::task_begins(&Slurm { spank });
        Ok(())
    })
}

/// A task was forked, and Slurm counts it among those of the step.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_task_post_fork(
    spank: *mut c_void,
    _: c_int,
    _: *const *const c_char,
) -> c_int {
    guarded(|| {
        dispatch::task_forked(&Slurm { spank });
        Ok(())
    })
}

/// A task has ended.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_task_exit(
    spank: *mut c_void,
    _: c_int,
    _: *const *const c_char,
) -> c_int {
    guarded(|| {
        dispatch::task_ended(&Slurm { spank });
        Ok(())
    })
}

/// The program ends; in `slurmstepd`, after all tasks.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_exit(spank: *mut c_void, _: c_int, _: *const *const c_char) -> c_int {
    guarded(|| {
        dispatch::program_ends(&Slurm { spank });
        Ok(())
    })
}

extern "C" fn option_given(place: c_int, value: *const c_char, is_step: c_int) -> c_int {
    guarded(|| {
        // SAFETY: Slurm hands over a text that lives until this returns, or none.
        let value = unsafe { text(value) };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let place = usize::try_from(place).map_err(drop)?;
        dispatch::option_given(place, value, is_step != 0);
        Ok(())
    })
}

fn guarded(act: impl FnOnce() -> Result<(), ()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(())) => FAILURE,
        Err(_) => {
            tell("there is a mistake in the plugin; please report it with the text above");
            FAILURE
        }
    }
}

/// Copies the arguments of a callback.
///
/// # Safety
///
/// There are so many texts, which live until this returns.
unsafe fn texts(count: c_int, arguments: *const *const c_char) -> Vec<OsString> {
    let count = usize::try_from(count).unwrap_or_default();
    // SAFETY: as the caller promises.
    (0..count).filter_map(|place| unsafe { text(*arguments.add(place)) }).collect()
}

/// Copies a text.
///
/// # Safety
///
/// The pointer is null, or leads to bytes up to a zero byte.
unsafe fn text(pointer: *const c_char) -> Option<OsString> {
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { copied(pointer) })
}

unsafe fn copied(pointer: *const c_char) -> OsString {
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    OsStr::from_bytes(bytes).to_owned()
}

fn tell(line: &str) {
    if let Some(line) = own_line(line) {
        // SAFETY: a format for one text, and the text.
        unsafe { slurm_error(c"%s".as_ptr(), line.as_ptr()) };
    }
}

/// On a node, a line says on which.
fn own_line(line: &str) -> Option<CString> {
    let line: String = line.chars().filter(|character| *character != '\0').collect();
    // SAFETY: takes nothing and returns a number.
    let is_node = unsafe { spank_context() } == S_CTX_REMOTE;
    let node = if is_node { node_name() + ": " } else { String::new() };
    CString::new(format!("cabane: {node}{line}")).ok()
}

fn own_text(text: &OsStr) -> Result<CString, SlurmError> {
    CString::new(text.as_bytes()).map_err(|_| SlurmError(FAILURE))
}

/// Slurm, by the handle of a callback.
struct Slurm {
    spank: *mut c_void,
}

impl Slurm {
    /// Returns an item that is a `uint32_t`.
    fn number(&self, item: c_int) -> Result<u32, SlurmError> {
        let mut number = 0_u32;
        // SAFETY: a place of the type that Slurm writes for the items requested here.
        match unsafe { spank_get_item(self.spank, item, &raw mut number) } {
            SUCCESS => Ok(number),
            error => Err(SlurmError(error)),
        }
    }
}

impl Spank for Slurm {
    fn context(&self) -> Context {
        // SAFETY: takes nothing and returns a number.
        match unsafe { spank_context() } {
            S_CTX_LOCAL => Context::Srun,
            S_CTX_ALLOCATOR => Context::Allocator,
            S_CTX_REMOTE => Context::Step,
            _ => Context::Other,
        }
    }

    fn variable(&self, name: &str) -> Result<Option<OsString>, SlurmError> {
        let name = CString::new(name).map_err(|_| SlurmError(FAILURE))?;
        let mut length = 4096;
        loop {
            let mut buffer = vec![0_u8; length];
            let size = c_int::try_from(length).map_err(|_| SlurmError(FAILURE))?;
            // SAFETY: the buffer has as many bytes as its length says.
            let answer = unsafe {
                spank_getenv(self.spank, name.as_ptr(), buffer.as_mut_ptr().cast(), size)
            };
            if answer == SUCCESS {
                let end = buffer.iter().position(|byte| *byte == 0);
                buffer.truncate(end.unwrap_or(0));
                return Ok(Some(OsString::from_vec(buffer)));
            }
            if MISSING.contains(&answer) {
                return Ok(None);
            }
            if !NO_SPACE.contains(&answer) || length >= LONGEST_VARIABLE {
                return Err(SlurmError(answer));
            }
            length *= 4;
        }
    }

    fn owner(&self) -> Result<JobOwner, SlurmError> {
        let (mut user, mut group) = (u32::MAX, u32::MAX);
        let (mut groups, mut count): (*const u32, c_int) = (ptr::null(), 0);
        // SAFETY: places of the types that Slurm writes for these items.
        let answers = unsafe {
            [
                spank_get_item(self.spank, S_JOB_UID, &raw mut user),
                spank_get_item(self.spank, S_JOB_GID, &raw mut group),
                spank_get_item(
                    self.spank,
                    S_JOB_SUPPLEMENTARY_GIDS,
                    &raw mut groups,
                    &raw mut count,
                ),
            ]
        };
        if let Some(error) = answers.into_iter().find(|answer| *answer != SUCCESS) {
            return Err(SlurmError(error));
        }
        let count = usize::try_from(count).unwrap_or_default();
        let groups = if groups.is_null() || count == 0 {
            Vec::new()
        } else {
            // SAFETY: Slurm keeps so many numbers there for the time of the step.
            unsafe { std::slice::from_raw_parts(groups, count) }.to_vec()
        };
        Ok(JobOwner { user, group, groups })
    }

    fn nodes(&self) -> Result<u32, SlurmError> {
        self.number(S_JOB_NNODES)
    }

    fn step(&self) -> Result<Step, SlurmError> {
        Ok(Step {
            job: self.number(S_JOB_ID)?,
            number: self.number(S_JOB_STEPID)?,
            array_job: self.number(S_JOB_ARRAY_ID)?,
            array_task: self.number(S_JOB_ARRAY_TASK_ID)?,
            nodes: self.nodes()?,
            node: self.number(S_JOB_NODEID)?,
            tasks: self.number(S_JOB_TOTAL_TASK_COUNT)?,
        })
    }

    fn arguments(&self) -> Result<Vec<OsString>, SlurmError> {
        let (mut count, mut arguments): (c_int, *const *const c_char) = (0, ptr::null());
        // SAFETY: places of the types that Slurm writes for this item.
        let answer =
            unsafe { spank_get_item(self.spank, S_JOB_ARGV, &raw mut count, &raw mut arguments) };
        if answer != SUCCESS {
            return Err(SlurmError(answer));
        }
        let count = usize::try_from(count).unwrap_or_default();
        if arguments.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: Slurm keeps so many texts there for the time of the step.
        let all = (0..count).map(|place| unsafe { text(*arguments.add(place)) });
        Ok(all.flatten().collect())
    }

    fn replace_program(&self, program: &OsStr) -> Result<(), SlurmError> {
        let program = own_text(program)?;
        let (mut count, mut arguments): (c_int, *mut *const c_char) = (0, ptr::null_mut());
        // SAFETY: places of the types that Slurm writes for this item.
        let answer =
            unsafe { spank_get_item(self.spank, S_JOB_ARGV, &raw mut count, &raw mut arguments) };
        if answer != SUCCESS || arguments.is_null() || count < 1 {
            return Err(SlurmError(answer));
        }
        // SAFETY: there is at least one argument in the list of which the process, that of one task,
        // is about to execute the first. The text is never freed.
        unsafe { *arguments = program.into_raw() };
        Ok(())
    }

    fn change_own_variable(&self, name: &OsStr, value: Option<&OsStr>) {
        // SAFETY: `srun`, `sbatch`, and `salloc` read their options at this time, with one
        // thread, and expect plugins to change their variables here.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }

    fn change_step_variable(&self, name: &OsStr, value: Option<&OsStr>) -> Result<(), SlurmError> {
        let name = own_text(name)?;
        let answer = match value {
            Some(value) => {
                let value = own_text(value)?;
                // SAFETY: Slurm copies both texts.
                unsafe { spank_setenv(self.spank, name.as_ptr(), value.as_ptr(), 1) }
            }
            // SAFETY: Slurm reads the text.
            None => unsafe { spank_unsetenv(self.spank, name.as_ptr()) },
        };
        if answer == SUCCESS { Ok(()) } else { Err(SlurmError(answer)) }
    }

    fn is_first_task(&self) -> bool {
        let mut task: c_int = -1;
        // SAFETY: a place of the type that Slurm writes for this item.
        let answer = unsafe { spank_get_item(self.spank, S_TASK_ID, &raw mut task) };
        answer == SUCCESS && task == 0
    }

    fn task_process(&self) -> Result<u32, SlurmError> {
        // A `pid_t`, of the same size.
        self.number(S_TASK_PID)
    }

    fn task_status(&self) -> Result<i32, SlurmError> {
        // An `int`, of the same size.
        Ok(self.number(S_TASK_EXIT_STATUS)?.cast_signed())
    }

    fn end_task(&self, code: u8) {
        // SAFETY: ends the process of a task without running what belongs to slurmstepd.
        unsafe { _exit(c_int::from(code)) }
    }

    fn note(&self, line: &str) {
        if let Some(line) = own_line(line) {
            // An error by its level, which alone reaches the user, and not by its text.
            // SAFETY: a format for one text, and the text.
            unsafe { slurm_spank_log(c"%s".as_ptr(), line.as_ptr()) };
        }
    }

    fn error(&self, line: &str) {
        tell(line);
    }
}
