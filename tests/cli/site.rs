// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane site init`: the first configuration of a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::cabane::{Cabane, Who, everybody};
use crate::machine::{Machine, needs_machines};

#[test]
fn the_first_configuration_is_printed_and_nothing_is_written() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let seen = cabane.run(&["site", "init"]).success();
        for text in ["# Settings of Cabane for all users", "# Linux ", "\nimage-owners root\n"] {
            assert!(seen.stdout.contains(text), "as {who:?}: {text}: {seen:?}");
        }
        assert_eq!(seen.stderr, "", "as {who:?}");
    }
}

#[test]
fn what_is_written_is_accepted_as_configuration() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.directory("home/.config/cabane");
    let directory = cabane.world.path("home/.config/cabane");
    let seen = cabane.run(&["site", "init", "--output", &directory.to_string_lossy()]);
    let place = "[WORLD]/home/.config/cabane";
    let expected = format!("wrote {place}/config.toml\nwrote {place}/mount.policy\n");
    assert_eq!(seen.success().stderr, expected);
    let mode = fs::metadata(directory.join("config.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    cabane.run(&["config"]).success();
    // An example is one only until its sign is removed.
    let path = directory.join("config.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\n#default_uarch = "), "{text}");
    fs::write(&path, text.replace("\n#default_uarch = ", "\ndefault_uarch = ")).unwrap();
    let seen = cabane.run(&["config"]).success();
    let row = seen.stdout.lines().find(|line| line.starts_with("default_uarch ")).unwrap();
    assert!(row.contains(" zen3 "), "{row}");
}

#[test]
fn files_that_are_there_stay_as_they_are() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let directory = cabane.world.directory("home/etc");
    let policy = directory.join("mount.policy");
    fs::write(&policy, "mount-point /mine\n").unwrap();
    let typed = ["site", "init", "--output", directory.to_str().unwrap()];
    let seen = cabane.run(&typed).success();
    let expected = "wrote [WORLD]/home/etc/config.toml\n\
                    kept the existing [WORLD]/home/etc/mount.policy\n";
    assert_eq!(seen.stderr, expected);
    let config = fs::read(directory.join("config.toml")).unwrap();
    let seen = cabane.run(&typed);
    let expected = "error: [WORLD]/home/etc has config.toml and mount.policy already\n\
                    hint: without `--output`, both are printed: compare them with your files\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (3, expected));
    assert_eq!(fs::read(directory.join("config.toml")).unwrap(), config);
    assert_eq!(fs::read_to_string(&policy).unwrap(), "mount-point /mine\n");
}

#[test]
fn root_writes_a_policy_that_the_helper_accepts() {
    needs_machines!();
    let wrong = "rm $policy\nenv -i PATH=/usr/bin:/bin CLUSTER_NAME=alps $bin site init --output \
                 /etc/cabane 2>/dev/null";
    let verdict = Machine::of(Who::OrdinaryUser, wrong).ask();
    let (found, _) = verdict.finding("policy");
    assert!(found.starts_with("ok: root's images; up to 16 for each user;"), "{found}");
    let (found, _) = verdict.finding("configuration");
    assert!(found.starts_with("ok: ") && found.contains("/etc/cabane/config.toml"), "{found}");
}

#[test]
fn the_name_of_the_system_is_that_of_slurm_or_of_the_variable() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let mut command = cabane.command(&["site", "init"]);
    let seen = cabane.finish(command.env("CLUSTER_NAME", "alps")).success();
    let of_variable = "# Found: the variable CLUSTER_NAME.\n";
    let has_slurm = seen.stdout.contains("# Found: ClusterName in ");
    assert!(has_slurm || seen.stdout.contains(of_variable), "{seen:?}");
    assert!(has_slurm || seen.stdout.contains("\nsystem_name = \"alps\"\n"), "{seen:?}");
}

/// A root file system that keeps nothing, since mount points are made in it, and a configuration that is not there yet.
const NEW: &str = "rm -r /etc/cabane
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
for directory in proc dev etc mnt; do mount --rbind /$directory /mnt/root/$directory; done
set_up() { chroot /mnt/root env -i PATH=/usr/bin:/bin $bin site init --apply \"$@\" >\"$OUT/said\" 2>&1; }
says() { grep -qFx -- \"$1\" \"$OUT/said\" || { cat \"$OUT/said\" >&2; exit 1; }; }
is() { [ \"$(stat -c '%u %a' \"/mnt/root$2\")\" = \"$1\" ] || { stat \"/mnt/root$2\" >&2; exit 1; }; }
";

#[test]
fn one_command_sets_a_machine_up_and_says_how_to_undo_it() {
    needs_machines!();
    let wrong = format!(
        "{NEW}
         umask 077
         set_up --repository /srv/site/repository
         umask 022
         says 'made the repository /srv/site/repository'
         says '  undo: rm -r /srv/site/repository'
         says 'wrote /etc/cabane/config.toml'
         says '  undo: rm /etc/cabane/config.toml'
         says 'wrote /etc/cabane/mount.policy'
         for place in /user-environment /user-tools /user-environment-debug /srv/site /srv/site/repository /etc/cabane
         do is '0 755' $place; done
         is '0 644' /etc/cabane/config.toml
         grep -qFx 'path = \"/srv/site/repository\"' /etc/cabane/config.toml
         set_up --repository /srv/site/repository
         for place in /srv/site/repository /etc/cabane/config.toml /etc/cabane/mount.policy
         do says \"kept the existing $place\"; done
         ! grep made \"$OUT/said\"
         set_up --repository /srv/site/another
         says 'warning: /etc/cabane/config.toml does not name /srv/site/another'
         set_up --repository '/srv/site/a space'
         says \"  undo: rm -r '/srv/site/a space'\"
         set_up --repository /srv/site/another
         says 'path = \"/srv/site/another\"'
         mv /mnt/root/srv/site /mnt/site
         mkdir -p /srv
         mount -t tmpfs tmpfs /srv
         mv /mnt/site /srv/site"
    );
    let verdict = Machine::of(Who::OrdinaryUser, &wrong).ask();
    let (found, _) = verdict.finding("policy");
    assert!(found.starts_with("ok: root's images"), "{found}");
    let (found, _) = verdict.finding("configuration");
    assert!(found.starts_with("ok: ") && found.contains("/etc/cabane/config.toml"), "{found}");
}

#[test]
fn an_ordinary_user_sets_nothing_up() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let path = cabane.world.path("home/repository");
    let seen = cabane.run(&["site", "init", "--apply", "--repository", path.to_str().unwrap()]);
    let expected = "error: only root can set a machine up for all users\n\
                    hint: type the same with `sudo`\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (1, expected));
    assert!(!path.exists());
}
