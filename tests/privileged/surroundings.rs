// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whatever the caller prepares for the helper to stumble over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cabane_testkit::{Finished, slowness, time_limit};

use crate::arena::{in_arena, in_private_world, root};
use crate::start::assert_refused;

/// It worked, or it was refused with a message; it did not crash.
#[track_caller]
fn assert_clean(case: &str, finished: &Finished) {
    let started = finished.code == 0 && finished.stdout == "started\n";
    // 126: the command itself has no space to start.
    let refused = matches!(finished.code, 125..=127) && finished.stdout.is_empty();
    assert!(started || refused, "{case}: {finished:?}");
}

#[test]
fn tiny_limits_give_an_error_or_none() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first()).script("echo started");
        let mut worked = Vec::new();
        // With fewer descriptors some C libraries end any set-uid program: see `tiny_limits`.
        for limit in [
            "nofile=3",
            "nofile=4",
            "nofile=5",
            "nofile=8",
            "nofile=12",
            "as=1000000",
            "as=8000000",
            "as=30000000",
            "data=0",
            "data=100000",
            "stack=1",
            "stack=65536",
            "stack=unlimited",
            "fsize=0",
            "fsize=1",
            "cpu=1",
            "nproc=0",
            "nproc=1",
            "memlock=0",
            "core=0",
            "sigpending=0",
            "msgqueue=0",
            "locks=0",
            "rss=0",
            "nice=0",
            "rtprio=0",
            "rttime=1",
        ] {
            let option = format!("--{limit}");
            let finished = start.clone().through(&["prlimit", &option]).finish();
            // Too little for any program: then the kernel ends it.
            let is_hopeless =
                ["as=", "data=", "stack=1"].iter().any(|word| limit.starts_with(word));
            if !(is_hopeless && finished.code > 128 && finished.stdout.is_empty()) {
                assert_clean(limit, &finished);
            }
            if finished.code == 0 {
                worked.push(limit);
            }
        }
        for limit in ["cpu=1", "fsize=0", "memlock=0", "stack=unlimited"] {
            assert!(worked.contains(&limit), "{limit}: {worked:?}");
        }
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn reading_the_time_ends_no_helper_and_is_forbidden_to_the_command_as_before() {
    const FORBID: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.prctl(26, 2, 0, 0, 0) # PR_SET_TSC, PR_TSC_SIGSEGV
os.execv(sys.argv[1], sys.argv[1:])";
    // Ends with what PR_GET_TSC says. No library: those ask for the time before `main`.
    const ASK: &str = r#"
        static long call(long number, long a, long b) {
            long answer;
            __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(0L)
                             : "rcx", "r11", "memory");
            return answer;
        }
        void _start(void) {
            int allowed = 0;
            call(157, 25, (long)&allowed);
            call(60, allowed, 0);
        }"#;
    in_arena(|arena| {
        let program = arena.world.path("ask");
        cabane_testkit::compile(ASK, &program, ["-static", "-nostdlib"]);
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let start = start.command(&[&program.to_string_lossy()]);
        let forbidden = start.clone().through(&["/usr/bin/python3", "-c", FORBID]);
        let codes = [start, forbidden].map(|start| start.finish().code);
        assert_eq!(codes, [1, 2]);
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn signals_that_the_c_library_keeps_for_itself_are_held_back_too() {
    const SEND: &str = "use POSIX; my $number = shift;
# rt_sigprocmask, SIG_BLOCK
syscall(14, 0, my $all = pack('Q', ~0), 0, 8) == 0 or die;
kill $number, $$; exec @ARGV";
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        for number in ["32", "33"] {
            let sent = start.clone().through(&["perl", "-e", SEND, number]);
            let finished = sent.script("exit 7").finish();
            assert_eq!(finished.code, 7, "{number}: {finished:?}");
        }
    });
}

#[test]
fn closed_standard_descriptors_do_not_become_something_else() {
    in_arena(|arena| {
        let image = arena.any_image();
        let policy = fs::read(cabane_mount::Policy::PATH).unwrap();
        let start = arena.start().image(&image, arena.first());
        for closed in
            ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"]
        {
            let script = format!("exec \"$@\" {closed}");
            let start = start.clone().through_script(&script);
            // One that works, and one that has an error to tell.
            let good = start.clone().script("ls -l /proc/$$/fd >/dev/null; exit 7").finish();
            let bad = start.image_at(3, &crate::start::nowhere(), Path::new("/etc")).finish();
            assert_eq!((good.code, bad.code), (7, 125), "{closed}: {good:?} {bad:?}");
        }
        assert_eq!(fs::read(cabane_mount::Policy::PATH).unwrap(), policy);
    });
}

#[test]
fn a_timer_that_was_set_before_is_the_commands() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        // It goes off at once, and would end the helper in the middle.
        let perl = "use Time::HiRes 'ualarm'; ualarm(300); exec @ARGV;";
        for _ in 0..20 {
            let start = start.clone().through(&["perl", "-e", perl]);
            let finished = start.script("sleep 1; echo survived").finish();
            // 14 is SIGALRM. Early, it ends the user's own process before it becomes the helper.
            assert!(finished.code == 128 + 14 && finished.stdout.is_empty(), "{finished:?}");
        }
        let perl = format!("alarm({}); exec @ARGV;", slowness());
        let start = start.through(&["perl", "-e", &perl]);
        let finished = start.script(&format!("echo up; exec sleep {}", 5 * slowness())).finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (128 + 14, "up\n"));
    });
}

#[test]
fn signals_that_are_ignored_or_blocked_change_nothing() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first()).script("echo started");
        let ignoring = "trap '' HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD CONT TSTP; exec \"$@\"";
        let finished = start.clone().through_script(ignoring).finish();
        assert_eq!(finished.success().stdout, "started\n");
        let blocked = start.before(|| cabane_sys::privilege::hold_signals().map(drop));
        assert_eq!(blocked.finish().success().stdout, "started\n");
    });
}

#[test]
fn the_file_mode_mask_opens_nothing() {
    in_private_world(|arena| {
        let image = arena.any_image();
        for mask in ["000", "777"] {
            let script = format!("umask {mask}; exec \"$@\"");
            let start = arena.start().image(&image, arena.first()).through_script(&script);
            let finished = start.script("umask").finish();
            assert_eq!(finished.success().stdout.trim(), format!("0{mask}"));
            let mode = fs::metadata("/run/cabane").unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
        }
        // Two first starts at once.
        for _ in 0..30 {
            arena.start().clean();
            root("umount -l /run/cabane/cache/mount || true; rm -rf /run/cabane");
            let start = arena.start().image(&image, arena.first());
            let children = [start.spawn(), start.spawn(), start.spawn()];
            for child in children {
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{output:?}");
            }
        }
    });
}

#[test]
fn ten_thousand_arguments_and_megabytes_of_variables_arrive() {
    in_arena(|arena| {
        let image = arena.any_image();
        let mut start = arena.start().image(&image, arena.first());
        start = start.script("echo $# $(env | wc -c)");
        start.request.command.push("sh".into());
        start.request.command.extend((0..10_000).map(|number| format!("{number}").into()));
        let variable = |number: usize| format!("V{number}={}", "x".repeat(100_000)).into();
        start.request.variables.extend((0..15).map(variable));
        let arrived = start.clone().before(unlimited_stack).finish();
        assert!(
            arrived.code == 0 && arrived.stdout.starts_with("10000 1500"),
            "{}",
            arrived.stderr
        );
        // More than the kernel takes is an error of the command.
        start.request.variables.extend((15..70).map(variable));
        let finished = start.finish();
        assert!(
            finished.code == 126 && finished.stderr.contains("too long"),
            "{}",
            finished.stderr
        );
    });
}

fn unlimited_stack() -> std::io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Stack);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Stack, limit)?)
}

#[test]
fn wrong_arguments_and_none_are_refused() {
    in_arena(|arena| {
        let start = arena.start();
        let helper = arena.helper.display().to_string();
        let exec = |arguments: &str| {
            // `execve` itself, so that there may be no argument at all.
            let number = if cfg!(target_arch = "x86_64") { 59 } else { 221 };
            format!(
                "my $p = \"{helper}\"; my @a = ({arguments}); \
                     my $v = pack('p' x @a . 'x[8]', @a); \
                     syscall({number}, $p, @a ? $v : 0, 0); exit 1"
            )
        };
        let many = "('x') x 10000";
        for arguments in
            ["", "''", "'x'", "'x', ''", "'x', '-1'", "'x', '950', '951'", "'x', '--help'", many]
        {
            let perl = exec(arguments);
            let finished = start.finish_as(Path::new("/usr/bin/perl"), &format!("-e{perl}"));
            assert_refused(&finished, "cabane-mount");
        }
    });
}

#[test]
fn the_environment_of_the_helper_means_nothing() {
    in_arena(|arena| {
        let image = arena.any_image();
        let trap = arena.world.directory("trap");
        for name in ["mount", "sh", "modprobe", "losetup", "cabane-mount"] {
            let path = trap.join(name);
            fs::write(&path, "#!/bin/sh\necho trapped >&2\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let tunables = format!(
            "GLIBC_TUNABLES=glibc.malloc.mxfast=glibc.malloc.mxfast={}",
            "A".repeat(65_536)
        );
        let variables = [
            &format!("PATH={}", trap.display()),
            "LD_PRELOAD=/nonexistent.so",
            "LD_LIBRARY_PATH=/nonexistent",
            "LD_AUDIT=/nonexistent.so",
            "LD_SHOW_AUXV=1",
            "LD_DEBUG=all",
            &tunables,
            "RUST_BACKTRACE=full",
            "RUST_MIN_STACK=1",
            "MALLOC_PERTURB_=165",
            "MALLOC_TRACE=/etc/trace",
            "TMPDIR=/nonexistent",
            "LIBMOUNT_FSTAB=/nonexistent",
            "CABANE_HELPER=/nonexistent",
            "TZ=:/etc/shadow",
        ];
        let mut arguments = vec!["/usr/bin/env"];
        arguments.extend(variables);
        let start = arena.start().image(&image, arena.first());
        let finished = start.through(&arguments).script("echo started; env | grep -c LD_").finish();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("started\n0\n", ""));
    });
}

#[test]
fn a_copy_of_the_helper_has_no_rights_and_a_hard_link_is_the_helper() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let copy = arena.world.path("copy");
        fs::copy(&arena.helper, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let request = crate::start::REQUEST.to_string();
        assert_refused(&start.finish_as(&copy, &request), "cabane-mount has no rights to mount");
        // Most systems do not let users make links to files of others.
        let link = arena.helper.with_file_name("link");
        if arena.is_private() {
            fs::hard_link(&arena.helper, &link).unwrap();
            start.finish_as(&link, &request).success();
        } else {
            fs::hard_link(&arena.helper, &link).unwrap_err();
        }
    });
}

#[test]
fn where_rights_are_withheld_the_helper_says_so() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        for wrapper in [
            &["setpriv", "--no-new-privs"][..],
            &["unshare", "-r"],
            &["unshare", "-rm"],
            &["unshare", "-U"],
        ] {
            let finished = start.clone().through(wrapper).finish();
            assert_refused(&finished, "");
        }
    });
}

#[test]
fn with_fewer_capabilities_than_root_has_there_is_no_command_with_more() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let script = "grep -E '^(Uid|Gid|Cap...):' /proc/self/status | tr -s '\\t\\n' ' '";
        let zero = "0000000000000000";
        let harmless = format!(
            "Uid: 61234 61234 61234 61234 Gid: 61234 61234 61234 61234 \
             CapInh: {zero} CapPrm: {zero} CapEff: {zero} CapBnd: {zero} CapAmb: {zero} "
        );
        for missing in [
            "setuid",
            "setgid",
            "setpcap",
            "sys_admin",
            "dac_override",
            "sys_chroot",
            "sys_resource",
        ] {
            let bounding = format!("--bounding-set=-{missing}");
            let start = arena.start().user(0).image(&image, arena.first()).script(script);
            let start = start.through(&[
                "setpriv",
                "--reuid=61234",
                "--regid=61234",
                "--clear-groups",
                &bounding,
            ]);
            let finished = start.finish();
            let is_harmless = finished.stdout == harmless || finished.stdout.is_empty();
            assert!(is_harmless, "{missing}: {finished:?}");
        }
    });
}

#[test]
fn an_unread_error_keeps_no_process_of_root() {
    in_arena(|arena| {
        let image = arena.image("broken", cabane_mount::ImageFormat::Erofs);
        fs::write(&image, "no image").unwrap();
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let mut command = arena.start().image(&image, arena.first()).process();
        // A pipe that is full, before the helper writes to it.
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        let mut child = command.stderr(writer).spawn().unwrap();
        std::thread::sleep(time_limit(Duration::from_millis(300)));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let user = status.lines().find(|line| line.starts_with("Uid:"));
        let expected =
            ["Uid:".to_owned()].into_iter().chain(std::iter::repeat_n(arena.user().to_string(), 4));
        let expected: Vec<String> = expected.collect();
        assert_eq!(user, Some(expected.join("\t").as_str()));
    });
}
