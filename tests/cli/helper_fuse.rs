// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a user with the set-uid helper and the policy that is shipped: through FUSE, outside
//! of a user namespace.

use cabane_testkit::run_as_root;

use crate::arena::with_helper;
use crate::cabane::{Cabane, finished};

/// Runs a script of the user, with `$CABANE` in it, where the kernel may read root's images only.
fn run_script(cabane: &Cabane, script: &str) -> cabane_testkit::Finished {
    run_as_root("sed -i s/image-owners.*/image-owners\\ root/ /etc/cabane/mount.policy");
    cabane.finish(cabane.other("sh").args(["-c", script]))
}

/// How many FUSE programs the user has.
const COUNT: &str = "ps -u 61234 -o stat=,comm= | grep -c '^[^Z].*squashfuse_ll'";

#[test]
fn an_own_image_is_mounted_outside_of_a_user_namespace_and_the_reason_is_given() {
    with_helper(|cabane| {
        let script = "$CABANE -v run app -- sh -c 'hello; cut -c-40 /proc/self/uid_map
             $CABANE status | sed -n \"s/^  mounted  *//p\"'";
        let seen = run_script(cabane, script).success();
        let map = format!("{:>10} {:>10} {:>10}\n", 0, 0, u32::MAX);
        assert_eq!(seen.stdout, format!("hello from app\n{map}through FUSE\n"));
        let reason = "mounting through FUSE: the kernel may not read ";
        assert!(seen.stderr.starts_with(reason), "{}", seen.stderr);
    });
}

#[test]
fn starts_share_one_fuse_program_which_ends_with_the_last_of_them() {
    with_helper(|cabane| {
        let script = format!(
            "$CABANE run app -- sh -c 'until [ -e end ]; do sleep 0.05; done' &
             until [ \"$({COUNT})\" = 1 ]; do sleep 0.05; done
             sleep 0.2
             for i in 1 2 3 4 5 6; do
                 $CABANE run app -- sh -c 'hello; stat -c %d /mnt/a' &
             done | sort | uniq -c | sed 's/^ *//; s/ [0-9]*$//'
             {COUNT}
             touch end; wait; rm end
             until [ \"$({COUNT})\" = 0 ]; do sleep 0.05; done"
        );
        let seen = run_script(cabane, &script);
        assert_eq!(seen, finished(0, "6\n6 hello from app\n1\n", ""));
    });
}

#[test]
fn a_start_that_wants_no_company_has_a_program_of_its_own() {
    with_helper(|cabane| {
        let script = format!(
            "$CABANE run app -- sleep 2 &
             until [ \"$({COUNT})\" = 1 ]; do sleep 0.05; done
             $CABANE run --no-join app -- sh -c \"hello; {COUNT}\"
             wait"
        );
        assert_eq!(run_script(cabane, &script), finished(0, "hello from app\n2\n", ""));
    });
}

#[test]
fn many_short_starts_at_once_do_not_get_in_each_others_way() {
    with_helper(|cabane| {
        let script = "seq 200 | xargs -P 8 -I{} $CABANE run app -- hello | sort | uniq -c";
        let seen = run_script(cabane, script);
        assert_eq!(seen, finished(0, "    200 hello from app\n", ""));
    });
}

#[test]
fn a_damaged_image_is_reported_and_no_command_runs() {
    with_helper(|cabane| {
        let script = "head -c 100 $(ls -d $HOME/.local/share/cabane/repository/images/*/image) >cut
             head -c 8000 /dev/zero >>cut
             $CABANE run ./cut:/mnt/a -- echo ran";
        let seen = run_script(cabane, script);
        assert_eq!((seen.code, seen.stdout.as_str()), (125, ""));
        assert!(seen.stderr.contains("the FUSE program failed"), "{}", seen.stderr);
    });
}

#[test]
fn a_killed_program_is_named_with_the_way_out() {
    with_helper(|cabane| {
        let script = format!(
            "$CABANE run app -- sleep 3 &
             until [ \"$({COUNT})\" = 1 ]; do sleep 0.05; done
             sleep 0.3; pkill -KILL -u 61234 squashfuse_ll; sleep 0.1
             $CABANE run app -- hello
             $CABANE run --no-join app -- hello
             wait"
        );
        let seen = run_script(cabane, &script);
        assert_eq!(seen.stdout, "hello from app\n");
        assert!(seen.stderr.contains("`--no-join` starts another"), "{}", seen.stderr);
    });
}

#[test]
fn an_own_image_is_added_to_a_process_in_an_environment() {
    with_helper(|cabane| {
        let tool = cabane.image("tool", "/mnt/b");
        let script = format!(
            "$CABANE run app -- sleep 3 & process=$!
             until [ \"$({COUNT})\" = 1 ]; do sleep 0.05; done
             sleep 0.3
             $CABANE attach $process --with {tool} -- sh -c 'cat /mnt/a/name /mnt/b/name'
             wait"
        );
        let seen = run_script(cabane, &script);
        assert_eq!(seen, finished(0, "apptool", ""));
    });
}

#[test]
fn a_site_can_forbid_it() {
    with_helper(|cabane| {
        run_as_root("echo fuse-images no >>/etc/cabane/mount.policy");
        let script = "$CABANE run app -- sh -c '$CABANE status | sed -n \"s/^  mounted  *//p\"'";
        let seen = run_script(cabane, script);
        assert_eq!(seen, finished(0, "through FUSE, in a user namespace\n", ""));
    });
}
