// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane doctor` on machines that lack one thing each.
//!
//! Doctor says what would be chosen and whether it works, `cabane run` does it, and both
//! must be the same. `machine.rs` makes the machines.

use crate::cabane::{APP, Cabane, Who, everybody};
use crate::machine::{IN_USER_NAMESPACE, Machine, needs_machines};

/// Makes a machine for an ordinary user and returns one line of doctor's report on it,
/// after a look at whether the report is true.
#[track_caller]
fn diagnosis(wrong: &str, name: &str) -> (String, String) {
    let verdict = Machine::of(Who::OrdinaryUser, wrong).ask();
    verdict.is_what_happens(Who::OrdinaryUser);
    verdict.finding(name)
}

fn line(found: &str, command: &str) -> (String, String) {
    (found.to_owned(), command.to_owned())
}

#[test]
fn on_a_right_machine_everybody_has_the_best_way() {
    needs_machines!();
    for who in everybody() {
        let verdict = Machine::of(who, "").ask();
        verdict.is_what_happens(who);
        assert!(
            verdict.code == 0 && verdict.run.stdout.contains(" - squashfs "),
            "as {who:?}: {:#}",
            verdict.doctor
        );
    }
}

#[test]
fn with_and_without_helper_fuse_and_user_namespaces_the_best_way_is_named() {
    needs_machines!();
    let chroot = "mkdir /mnt/root; mount --rbind / /mnt/root; user=\"chroot /mnt/root $user\"";
    let lacking = [
        "rm $helper $policy",
        "copy_dev; rm /mnt/dev/fuse; mount --bind /mnt/dev /dev",
        // In a chroot the kernel makes no user namespace.
        chroot,
    ];
    for case in 0..8 {
        let has = [case & 1 == 0, case & 2 == 0, case & 4 == 0];
        let wrong = lacking.iter().zip(has).filter(|(_, has)| !has);
        let wrong: Vec<&str> = wrong.map(|(wrong, _)| *wrong).collect();
        let verdict = Machine::of(Who::OrdinaryUser, &wrong.join("\n")).ask();
        verdict.is_what_happens(Who::OrdinaryUser);
        let choice = &verdict.doctor["choice"];
        let seen = (choice["backend"].as_str(), choice["works"].as_bool());
        let [helper, fuse, namespaces] = has;
        let expected =
            if helper { ("helper", true) } else { ("user-namespace", fuse && namespaces) };
        assert_eq!(
            (seen, verdict.code),
            ((Some(expected.0), Some(expected.1)), if expected.1 { 0 } else { 10 }),
            "helper, FUSE, user namespaces: {has:?}"
        );
    }
}

#[test]
fn without_the_helper_a_user_namespace_is_used_and_nothing_is_broken() {
    needs_machines!();
    let wrong = "rm $helper $policy";
    let verdict = Machine::of(Who::OrdinaryUser, wrong).ask();
    verdict.is_what_happens(Who::OrdinaryUser);
    assert_eq!((verdict.code, verdict.finding("helper")), (0, line("note: is not installed", "")));
}

/// Installs the command with `install.sh` of an archive, and leaves out the helper.
const FROM_ARCHIVE: &str = "umount $bin
rm $helper $policy
archive='/mnt/cabane archive'
install -D -m 755 \"$PROGRAM\" \"$archive/bin/cabane\"
install -D -m 755 \"$HELPER\" \"$archive/libexec/cabane/cabane-mount\"
cp \"$PACKAGING/install.sh\" \"$PACKAGING/mount.policy\" \"$archive/\"
(cd \"$archive\" && find . -type f ! -name SHA256SUMS -printf '%P\\n' | xargs sha256sum >SHA256SUMS)
HELPER=no sh \"$archive/install.sh\" --prefix /mnt/prefix >/dev/null";

#[test]
fn the_command_that_installs_the_helper_is_that_of_the_archive_and_installs_it() {
    needs_machines!();
    let (found, command) = diagnosis(FROM_ARCHIVE, "helper");
    let installed = format!(
        "{FROM_ARCHIVE}\nMOUNT_POINTS=/mnt/env {} >/dev/null",
        command.replace("sudo ", "")
    );
    assert_eq!(
        (found.as_str(), command.as_str()),
        ("note: is not installed", "sudo '/mnt/cabane archive/install.sh' --prefix /mnt/prefix")
    );
    let (found, _) = diagnosis(&installed, "helper");
    assert!(found.starts_with("ok: "), "{found}");
}

#[test]
fn where_a_package_installed_the_command_its_package_manager_installs_the_helper() {
    needs_machines!();
    let record =
        "mkdir -p /mnt/prefix/share/cabane; echo deb >/mnt/prefix/share/cabane/installed-by";
    let missing = diagnosis(&format!("rm $helper $policy; {record}"), "helper").1;
    let broken = format!("cp /bin/false $helper; chmod 4755 $helper; {record}");
    let broken = diagnosis(&broken, "start of the helper").1;
    assert_eq!(
        (missing.as_str(), broken.as_str()),
        ("sudo apt-get install cabane-helper", "sudo apt-get install --reinstall cabane-helper")
    );
}

#[test]
fn a_helper_that_is_not_set_uid_is_named_with_the_command_that_mends_it() {
    needs_machines!();
    let path = "/mnt/prefix/libexec/cabane/cabane-mount";
    let repair = format!("sudo chown root:root {path} && sudo chmod 4755 {path}");
    let seen = [
        diagnosis("chmod 755 $helper", "helper"),
        diagnosis("chown 61234 $helper; chmod 4755 $helper", "helper"),
    ];
    assert_eq!(
        seen,
        [
            line(&format!("problem: {path} is not set-uid root"), &repair),
            line(&format!("problem: {path} does not belong to root"), &repair),
        ]
    );
}

#[test]
fn the_command_that_mends_a_helper_mends_it() {
    needs_machines!();
    let broken = "chown 61234 $helper; chmod 755 $helper";
    let (_, command) = diagnosis(broken, "helper");
    let repaired = format!("{broken}\n{}", command.replace("sudo ", ""));
    let (found, _) = diagnosis(&repaired, "helper");
    assert!(found.starts_with("ok: "), "{found}");
}

#[test]
fn a_helper_on_a_nosuid_file_system_is_named_with_the_file_system() {
    needs_machines!();
    let place = "/mnt/prefix/libexec";
    let wrong = format!(
        "cp -a {place} /mnt/copy; mount -t tmpfs -o nosuid,mode=755 tmpfs {place}; \
         cp -a /mnt/copy/cabane {place}/"
    );
    assert_eq!(
        diagnosis(&wrong, "helper"),
        line(
            "problem: /mnt/prefix/libexec/cabane/cabane-mount is on a file system mounted with \
             `nosuid`",
            &format!("sudo mount -o remount,suid {place}")
        )
    );
}

#[test]
fn a_helper_that_does_not_understand_is_seen_before_it_is_needed() {
    needs_machines!();
    // It is root's and set-uid, but something else.
    let wrong = "cp /bin/false $helper; chmod 4755 $helper";
    let (found, command) = diagnosis(wrong, "start of the helper");
    assert_eq!((found.as_str(), command.as_str()), ("problem: started, and failed", ""));
}

#[test]
fn a_policy_that_is_missing_void_or_open_is_reported_with_its_place() {
    needs_machines!();
    let seen = [
        diagnosis("rm $policy", "policy").0,
        diagnosis("printf '\\nmount-points /a\\n' >$policy", "policy").0,
        diagnosis("chmod o+w $policy", "policy").0,
        diagnosis("chown 61234 /etc/cabane", "policy").0,
        diagnosis("echo 'image-owners any' >$policy", "policy").0,
        diagnosis("echo 'root-images yes' >>$policy", "root images").0,
        diagnosis("true", "root images").0,
    ];
    assert_eq!(
        seen,
        [
            "problem: /etc/cabane/mount.policy is not there",
            "problem: /etc/cabane/mount.policy has a mistake in line 2",
            "problem: /etc/cabane/mount.policy cannot be trusted: others than root can write to \
             /etc/cabane/mount.policy (mode 0646)",
            "problem: /etc/cabane/mount.policy cannot be trusted: /etc/cabane belongs to user \
             61234",
            "problem: /etc/cabane/mount.policy lists no mount point",
            "ok: may be mounted by the helper, in the place of the root",
            "off: not by the helper; a user namespace is used",
        ]
    );
}

#[test]
fn the_command_against_a_missing_policy_writes_a_good_one() {
    needs_machines!();
    let (_, command) = diagnosis("rm -r /etc/cabane", "policy");
    let repaired = format!("rm -r /etc/cabane\n{}", command.replace("sudo ", ""));
    let verdict = Machine::of(Who::OrdinaryUser, &repaired).ask();
    let (found, _) = verdict.finding("policy");
    assert!(found.starts_with("ok: root's images"), "{found}");
}

#[test]
fn a_broken_policy_stops_root_as_well() {
    needs_machines!();
    let verdict = Machine::of(Who::Root, "echo nonsense >$policy").ask();
    verdict.is_what_happens(Who::Root);
    assert_eq!(
        verdict.finding("choice").0,
        "problem: `root` is chosen and does not work; `user-namespace` does"
    );
}

#[test]
fn mount_points_that_the_helper_would_refuse_are_named() {
    const LINK: &str = "rmdir /mnt/env /mnt/env2; ln -s home /mnt/env";
    needs_machines!();
    let name = "mount point /mnt/env";
    let seen = [
        diagnosis("rmdir /mnt/env /mnt/env2", name),
        diagnosis("chown 61234 /mnt/env; rmdir /mnt/env2", name),
        diagnosis("chmod 777 /mnt/env; rmdir /mnt/env2", name),
        // No way of mounting takes a link, so doctor's choice does not matter here.
        Machine::of(Who::OrdinaryUser, LINK).ask().finding(name),
    ];
    assert_eq!(
        seen,
        [
            line("problem: /mnt/env is not there", "sudo install -d -m 0755 /mnt/env"),
            line("problem: /mnt/env belongs to user 61234", "sudo chown root:root /mnt/env"),
            line(
                "problem: others than root can write to /mnt/env (mode 0777)",
                "sudo chmod go-w /mnt/env"
            ),
            line(
                "problem: /mnt/env is a link",
                "sudo rm /mnt/env && sudo install -d -m 0755 /mnt/env"
            ),
        ]
    );
}

#[test]
fn where_the_helper_would_refuse_the_mount_point_a_user_namespace_is_used() {
    needs_machines!();
    let verdict = Machine::of(Who::OrdinaryUser, "rmdir /mnt/env /mnt/env2").ask();
    verdict.is_what_happens(Who::OrdinaryUser);
    let (found, _) = verdict.finding("choice");
    assert_eq!(
        (verdict.run.code, found.as_str()),
        (0, "ok: images are mounted in a user namespace, through FUSE")
    );
}

#[test]
fn images_that_are_held_are_counted_for_root_and_hidden_from_others() {
    needs_machines!();
    let wrong = "sed -i 's,idle-seconds.*,idle-seconds 60,' $policy; \
                 $user $bin run app:/mnt/env -- true";
    let seen = everybody().into_iter().map(|who| {
        let verdict = Machine::of(who, wrong).ask();
        verdict.is_what_happens(who);
        let (found, _) = verdict.finding("on this node");
        found.split(", unused").next().unwrap().to_owned()
    });
    assert_eq!(seen.collect::<Vec<_>>(), ["ok: 1 of 1 users", "off: only root may look"]);
}

#[test]
fn a_place_for_held_images_that_is_not_roots_alone_is_reported() {
    needs_machines!();
    let name = "/run/cabane";
    let seen = [diagnosis("mkdir -m 755 /run/cabane", name).1, diagnosis("chmod 777 /run", name).1];
    assert_eq!(seen, ["sudo chmod 0700 /run/cabane", "sudo chmod go-w /run"]);
}

#[test]
fn without_the_helper_a_hidden_fuse_device_leaves_nothing() {
    needs_machines!();
    let name = "/dev/fuse";
    let without = |wrong: &str| diagnosis(&format!("rm $helper $policy; {wrong}"), name);
    let seen = [
        without("copy_dev; rm /mnt/dev/fuse; mount --bind /mnt/dev /dev"),
        without("copy_dev; chmod 600 /mnt/dev/fuse; mount --bind /mnt/dev /dev"),
        without("mount --bind /dev/null /dev/fuse"),
    ];
    assert_eq!(
        seen,
        [
            line("problem: is not there", "sudo modprobe fuse"),
            line("problem: is closed to you", "sudo chmod 0666 /dev/fuse"),
            line(
                "problem: is something else than the device of FUSE",
                "ls -l /dev/fuse; sudo umount /dev/fuse"
            ),
        ]
    );
}

#[test]
fn with_the_helper_a_missing_squashfuse_is_only_a_note() {
    needs_machines!();
    let hide = "for name in squashfuse squashfuse_ll; do for place in /usr/bin /usr/local/bin; do \
                [ ! -e $place/$name ] || mount --bind /dev/null $place/$name; done; done";
    let without_helper = format!("{hide}; rm $helper $policy");
    let seen = [diagnosis(hide, "squashfuse").0, diagnosis(&without_helper, "squashfuse").0];
    assert_eq!(seen, ["note: is not installed", "problem: is not installed"]);
}

#[test]
fn without_user_namespaces_the_helper_goes_on_to_work() {
    needs_machines!();
    // In a chroot the kernel makes no user namespace.
    let chroot = "mkdir /mnt/root; mount --rbind / /mnt/root; user=\"chroot /mnt/root $user\"";
    let without_helper = format!("rm $helper $policy; {chroot}");
    let seen =
        [diagnosis(chroot, "user namespace").0, diagnosis(&without_helper, "user namespace").0];
    assert_eq!(
        seen,
        [
            "note: cannot be made, or nothing can be mounted in it",
            "problem: cannot be made, or nothing can be mounted in it"
        ]
    );
}

#[test]
fn a_switch_against_user_namespaces_is_named() {
    needs_machines!();
    // The switch is one of each user namespace; this one is made for it.
    let machine = Machine {
        who: Who::OrdinaryUser,
        wrong: "rm $helper $policy; echo 0 >/proc/sys/user/max_user_namespaces",
        entry: IN_USER_NAMESPACE,
    };
    let verdict = machine.ask();
    verdict.is_what_happens(Who::OrdinaryUser);
    assert_eq!(
        verdict.finding("user namespace"),
        line(
            "problem: cannot be made, or nothing can be mounted in it",
            "sudo sysctl -w user.max_user_namespaces=10000"
        )
    );
}

#[test]
fn inside_an_environment_another_can_be_entered_in_a_user_namespace() {
    needs_machines!();
    for wrong in ["", "rm $helper $policy"] {
        let wrong = format!("{wrong}\ninside=\"$bin run app:/mnt/env2 --\"");
        let verdict = Machine::of(Who::OrdinaryUser, &wrong).ask();
        verdict.is_what_happens(Who::OrdinaryUser);
        let (found, _) = verdict.finding("environment");
        assert_eq!((verdict.code, found.as_str()), (0, "ok: inside: /mnt/env2"));
    }
}

#[test]
fn a_way_that_is_requested_and_does_not_work_is_a_problem() {
    needs_machines!();
    let wrong = "rm $helper; user=\"$user CABANE_BACKEND=helper\"";
    assert_eq!(
        diagnosis(wrong, "choice"),
        line(
            "problem: `helper` is chosen and does not work; `user-namespace` does",
            "export CABANE_BACKEND=user-namespace"
        )
    );
}

#[test]
fn a_file_system_that_hangs_blocks_only_its_own_check() {
    needs_machines!();
    // A FUSE file system whose server never answers.
    let wrong = "mkdir /mnt/dead; exec 9<>/dev/fuse; \
                 mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0,allow_other dead \
                 /mnt/dead; user=\"$user CABANE_REPO=/mnt/dead/repository\"";
    let verdict = Machine::of(Who::OrdinaryUser, wrong).ask();
    assert_eq!(
        verdict.finding("repository /mnt/dead/repository"),
        line(
            "problem: /mnt/dead/repository does not answer: no answer within 5 s",
            "timeout 5 df /mnt/dead/repository"
        )
    );
}

#[test]
fn probes_leave_no_mount_no_loop_device_and_no_process() {
    needs_machines!();
    // The trial images are written to a file system that is this machine's alone.
    let count = "cat /proc/[0-9]*/mountinfo | grep -c -e squashfs -e erofs; set -- /proc/[0-9]*; echo $#; \
                 losetup --list --noheadings --output BACK-MAJ:MIN | grep -c $device; \
                 ls -A /var/tmp";
    let wrong = format!(
        "set +e; mount -t tmpfs tmpfs /var/tmp; device=$(stat -c %Hd:%Ld /var/tmp); \
         count() {{ {count} || true; }}; before=$(count); \
         $user $bin doctor >/dev/null; ${{user#setpriv*groups}} $bin doctor >/dev/null; sleep 0.3; \
         after=$(count); [ \"$before\" = \"$after\" ] || \
         {{ echo \"$before and $after\" >&2; exit 1; }}"
    );
    Machine::of(Who::OrdinaryUser, &wrong).ask();
}

#[test]
fn a_mistake_in_the_configuration_is_reported_with_its_place_and_the_rest_is_looked_at() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        cabane.world.file("site.toml", "[build]\njob = 4\n");
        assert_eq!(cabane.run(&["doctor", "--json"]).code, 10);
        let seen = cabane.run(&["doctor"]);
        let says = |text: &str| seen.stdout.contains(text);
        assert!(
            seen.code == 10
                && says("problem  configuration: cannot be used, so no command works")
                && says("[WORLD]/site.toml:2:1: unknown key `job` in `build`")
                && says("user namespace: "),
            "as {who:?}: {seen:?}"
        );
    }
}

#[test]
fn a_repository_with_damage_is_reported_with_the_command_that_tidies_up() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let repository = cabane.world.path("home/.local/share/cabane/repository");
        let images = std::fs::read_dir(repository.join("images")).unwrap();
        let image = images.flatten().next().unwrap().path();
        std::fs::remove_dir_all(image).unwrap();
        let seen = cabane.run(&["doctor"]);
        assert!(
            seen.code == 10
                && seen.stdout.contains(&format!("of the label `{APP}` is missing"))
                && seen.stdout.contains(
                    "type   cabane repo update [WORLD]/home/.local/share/cabane/repository"
                ),
            "as {who:?}: {seen:?}"
        );
    }
}

#[test]
fn variables_of_another_tool_are_noted() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let mut command = cabane.command(&["doctor"]);
    let seen = cabane.finish(command.env("UENV_MOUNT_LIST", "/a:/b"));
    assert!(
        seen.stdout.contains("note     variables: UENV_MOUNT_LIST set by another tool\n"),
        "{seen:?}"
    );
}

#[test]
fn verbose_output_explains_more() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (short, long) = (cabane.run(&["doctor"]), cabane.run(&["doctor", "-v"]));
    let purpose = "for    mounting without privilege";
    assert!(
        !short.stdout.contains(purpose) && long.stdout.contains(purpose),
        "{short:?}\n{long:?}"
    );
}
