// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image unpack`: root unpacks images on a node, and all users start them from there.
//!
//! ```text
//! /mnt/unpacked/           the store, where the policy says
//! /mnt/a/                  a mount point of the policy
//! ```

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cabane_testkit::{Finished, Tree, needs, run_as_root, squashfs};
use serde_json::Value;

use crate::arena::with_helper;
use crate::cabane::{APP, Cabane, Who, finished};

const STORE: &str = "/mnt/unpacked";
/// What a process says about how its images are mounted.
const SAYS_HOW: &str = "$CABANE status | sed -n 's/^  mounted  *//p'";

/// The policy that is shipped, and a store of the test's own.
fn set_up() {
    run_as_root(&format!(
        "sed -i s/image-owners.*/image-owners\\ root/ /etc/cabane/mount.policy
         echo unpacked-images {STORE} >>/etc/cabane/mount.policy"
    ));
}

/// What root types.
fn root(cabane: &Cabane, arguments: &[&str]) -> Finished {
    cabane.finish(&mut cabane.command_of_root(arguments))
}

fn unpack(cabane: &Cabane, arguments: &[&str]) -> Finished {
    root(cabane, &[&["image", "unpack"], arguments].concat())
}

/// A script of the user in the image, with `$CABANE` in it.
fn inside(cabane: &Cabane, options: &[&str], image: &str, script: &str) -> Finished {
    let arguments = [&["run"], options, &[image, "--", "sh", "-c", script]].concat();
    let mut command = cabane.command(&arguments);
    cabane.finish(command.env("CABANE", cabane.program()))
}

fn how(cabane: &Cabane) -> String {
    inside(cabane, &[], "app", SAYS_HOW).success().stdout
}

fn unpacked(cabane: &Cabane) -> Vec<Value> {
    let listed = unpack(cabane, &["--list", "--json"]).success().stdout;
    serde_json::from_str::<Value>(&listed).unwrap().as_array().unwrap().clone()
}

/// The files of an unpacked image.
fn tree(cabane: &Cabane, label: &str) -> PathBuf {
    let listed = unpacked(cabane);
    let image = listed.iter().find(|image| image["label"] == label).unwrap();
    Path::new(STORE).join("trees").join(image["digest"].as_str().unwrap()).join("tree")
}

/// All files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Looks that the store has these images and nothing else: every object is in a tree.
#[track_caller]
fn assert_is_whole(images: usize) {
    let store = Path::new(STORE);
    let count = |name: &str| fs::read_dir(store.join(name)).map_or(0, Iterator::count);
    assert_eq!((count("trees"), count("staging"), count("removed")), (images, 0, 0));
    let lonely = files_below(&store.join("objects"));
    let lonely: Vec<_> =
        lonely.iter().filter(|path| path.metadata().unwrap().nlink() < 2).collect();
    assert!(lonely.is_empty(), "{lonely:?}");
}

/// Packs what is in a directory and adds it to the user's repository.
fn add(cabane: &Cabane, label: &str, tree: &Path) {
    let image = cabane.world.path("added.squashfs");
    let _ = fs::remove_file(&image);
    squashfs(tree, &image);
    cabane.run(&["image", "add", label, &image.to_string_lossy()]).success();
}

/// A version of a stack: two files of which the second is equal in all.
fn version(cabane: &Cabane, number: u32) -> String {
    let root = cabane.world.path(&format!("trees/stack-{number}"));
    let own: String =
        (0..20_000).flat_map(|line| [number.to_string(), format!(" {line}\n")]).collect();
    let equal: String =
        (0..50_000).flat_map(|line| ["line ".to_owned(), format!("{line}\n")]).collect();
    let tree = Tree::new(&root).file("own", &own).file("equal", &equal).meta("stack", "/mnt/a");
    run_as_root(&format!("find {} -exec touch -d 2020-01-01 {{}} +", tree.root().display()));
    let label = format!("stack/{number}.0:v1@here%x86_64");
    add(cabane, &label, tree.root());
    label
}

/// A start that lasts until its standard input is closed, and is in the image.
fn long_start(cabane: &Cabane, options: &[&str], image: &str) -> Child {
    let script = "echo started >started; read line; cat /mnt/a/name";
    let arguments = [&["run"], options, &[image, "--", "sh", "-c", script]].concat();
    let mut command = cabane.command(&arguments);
    let started = cabane.world.path("work/started");
    let _ = fs::remove_file(&started);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    while !started.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn end(mut child: Child) -> String {
    drop(child.stdin.take());
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn an_image_that_root_unpacks_is_used_by_all_starts_on_the_node() {
    with_helper(|cabane| {
        set_up();
        assert_eq!(how(cabane), "through FUSE\n");
        let said = unpack(cabane, &[APP]).success().stderr;
        assert!(said.contains(&format!("unpacked {APP}: 3 files of ")), "{said}");
        assert_eq!(how(cabane), "unpacked on this node, through the helper\n");
        let script = "hello; id -u; touch /mnt/a/new 2>&1; ls /mnt/a";
        let seen = inside(cabane, &[], "app", script).success().stdout;
        let refused = "touch: cannot touch '/mnt/a/new': Read-only file system\n";
        assert_eq!(seen, format!("hello from app\n61234\n{refused}bin\nmeta\nname\n"));
        let plan = cabane.run(&["run", "--dry-run", "app", "--", "hello"]).success().stdout;
        assert!(plan.contains("(squashfs, unpacked on this node) at /mnt/a"), "{plan}");
        let again = unpack(cabane, &[APP]).success().stderr;
        assert!(again.contains(&format!("{APP} is already unpacked")), "{again}");
        assert_is_whole(1);
    });
}

#[test]
fn it_is_used_without_the_helper_and_by_root() {
    with_helper(|cabane| {
        set_up();
        unpack(cabane, &[APP]).success();
        let flags = "grep ' /mnt/a ' /proc/self/mountinfo | cut -d' ' -f6 | cut -d, -f1-3";
        let script = format!("hello; {flags}; {SAYS_HOW}");
        let seen = inside(cabane, &["--backend", "user-namespace"], "app", &script);
        let said = "hello from app\nro,nosuid,nodev\nunpacked on this node, in a user namespace\n";
        assert_eq!(seen, finished(0, said, ""));
        let mut of_root = cabane.command_of_root(&["run", "app", "--", "sh", "-c", &script]);
        let seen = cabane.finish(of_root.env("CABANE", cabane.program()));
        assert_eq!(
            seen,
            finished(0, "hello from app\nro,nosuid,nodev\nunpacked on this node\n", "")
        );
        // Without a policy, the usual directory is looked at, where there is none.
        run_as_root("rm /etc/cabane/mount.policy");
        let seen = inside(cabane, &[], "app", SAYS_HOW);
        assert_eq!(seen, finished(0, "through FUSE, in a user namespace\n", ""));
    });
}

#[test]
fn an_unpacked_and_a_mounted_image_are_in_one_environment() {
    with_helper(|cabane| {
        set_up();
        unpack(cabane, &[APP]).success();
        let tool = cabane.image("tool", "/mnt/b");
        let names = "cat /mnt/a/name /mnt/b/name";
        for options in [&[][..], &["--backend", "user-namespace"]] {
            let seen = inside(cabane, options, &format!("{tool},app"), names);
            assert_eq!(seen, finished(0, "apptool", ""));
        }
        let images = format!("app,{tool}");
        let mut of_root = cabane.command_of_root(&["run", &images, "--", "sh", "-c", names]);
        assert_eq!(cabane.finish(&mut of_root), finished(0, "apptool", ""));
    });
}

#[test]
fn equal_files_of_two_versions_are_one_file_and_are_in_memory_once() {
    needs!("fincore");
    needs!("mkfs.ext4");
    with_helper(|cabane| {
        set_up();
        // A disk, since a file system in memory has every page anyway.
        let disk = cabane.world.path("disk");
        let mount = format!("mount -o loop {} {STORE}", disk.display());
        run_as_root(&format!(
            "truncate -s 256M {}; mkfs.ext4 -q {0}; mkdir {STORE}; {mount}",
            disk.display()
        ));
        let versions = [1, 2].map(|number| version(cabane, number));
        let count = "cat /mnt/a/own /mnt/a/equal >/dev/null";
        let in_memory = "for file in own equal; do
                 fincore -b -n -r -o PAGES,SIZE /mnt/a/$file
             done | awk '{ print $1 == int(($2 + 4095) / 4096) ? \"all\" : $1 == 0 ? \"none\" : $1 }'";
        let look = || {
            inside(cabane, &[], &versions[0], count).success();
            // The kernel tells only root what is in memory of files that one may not write to.
            root(cabane, &["run", &versions[1], "--", "sh", "-c", in_memory]).success().stdout
        };
        // Images that are mounted share nothing.
        assert_eq!(look(), "none\nnone\n");
        let said = unpack(cabane, &[&versions[0], &versions[1]]).success().stderr;
        let trees = versions.each_ref().map(|version| tree(cabane, version));
        let inode =
            |file: &str| trees.each_ref().map(|tree| tree.join(file).metadata().unwrap().ino());
        let [one, other] = inode("equal");
        assert_eq!(one, other, "{said}");
        let [one, other] = inode("own");
        assert_ne!(one, other);
        // Without what was written just now.
        run_as_root(&format!("umount {STORE}; {mount}"));
        assert_eq!(look(), "none\nall\n");
        run_as_root(&format!("umount {STORE}"));
    });
}

#[test]
fn files_belong_to_root_and_keep_nothing_but_ordinary_rights() {
    with_helper(|cabane| {
        set_up();
        let place = cabane.world.path("trees/odd");
        let _ =
            Tree::new(&place).program("bin/tool", "true").file("open", "a").meta("odd", "/mnt/a");
        run_as_root(&format!(
            "cd {}; chmod 6755 bin/tool; chmod 0666 open; chmod 1777 meta; ln open twin
                 ln -s ../open bin/link; mkdir empty; chmod 0700 empty; touch -d 2001-02-03 open
                 python3 -c 'import os, struct
os.setxattr(\"bin/tool\", \"security.capability\", struct.pack(\"<5I\", 0x02000001, 1 << 13, 0, 0, 0))
os.setxattr(\"open\", \"user.note\", b\"x\")'
                 touch -h -d 2001-02-04 bin/link; touch -d 2001-02-05 empty bin",
            place.display()
        ));
        add(cabane, "odd/1:v1@here%x86_64", &place);
        unpack(cabane, &["odd"]).success();
        let tree = tree(cabane, "odd/1:v1@here%x86_64");
        let found = |name: &str| tree.join(name).symlink_metadata().unwrap();
        let modes =
            ["bin/tool", "open", "meta", "empty", "bin"].map(|name| found(name).mode() & 0o7777);
        assert_eq!(modes, [0o755, 0o644, 0o755, 0o700, 0o755]);
        let names = files_below(&tree);
        assert!(names.iter().all(|path| path.symlink_metadata().unwrap().uid() == 0));
        assert_eq!(fs::read_link(tree.join("bin/link")).unwrap(), Path::new("../open"));
        let day = |name: &str| found(name).mtime() / 86_400 - found("open").mtime() / 86_400;
        assert_eq!([day("bin/link"), day("empty"), day("bin")], [1, 2, 2]);
        // The object, and two names in the image.
        assert_eq!((found("open").ino(), found("open").nlink()), (found("twin").ino(), 3));
        let list = "import os, sys\nprint([os.listxattr(one) for one in sys.argv[1:]])";
        let files = [tree.join("bin/tool"), tree.join("open")];
        let listed = Command::new("python3").args(["-c", list]).args(files).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&listed.stdout), "[[], []]\n");
    });
}

#[test]
fn what_no_store_can_have_is_refused_by_its_name_and_nothing_is_left() {
    with_helper(|cabane| {
        set_up();
        let cases = [
            ("mknod below/device c 1 3", "/below/device is a device"),
            ("mkfifo below/pipe", "/below/pipe is a pipe"),
            (
                "echo x >below/private; chown 61234 below/private; chmod 600 below/private",
                "/below/private may be read by user 61234 only",
            ),
            ("chgrp 61234 below; chmod 750 below", "/below may be read by group 61234 only"),
        ];
        unpack(cabane, &[APP]).success();
        for (number, (script, reason)) in cases.iter().enumerate() {
            let place = cabane.world.path(&format!("trees/bad-{number}"));
            let _ = Tree::new(&place).file("file", &format!("{number}")).file("below/file", "1");
            run_as_root(&format!("cd {}; {script}", place.display()));
            let image = cabane.world.path(&format!("bad-{number}.squashfs"));
            run_as_root(&format!(
                "mksquashfs {} {} -no-progress -quiet",
                place.display(),
                image.display()
            ));
            let label = format!("bad/{number}:v1@here%x86_64");
            cabane.run(&["image", "add", &label, &image.to_string_lossy()]).success();
            let refused = unpack(cabane, &[&label]);
            assert!(refused.code != 0 && refused.stderr.contains(reason), "{refused:?}");
            assert_is_whole(1);
        }
    });
}

#[test]
fn an_image_that_not_everyone_may_read_is_refused() {
    with_helper(|cabane| {
        set_up();
        let home = cabane.world.path("home");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        let refused = unpack(cabane, &[APP]);
        let reason = "not everyone may read the image app/1.0:v1@here%x86_64";
        assert!(refused.code != 0 && refused.stderr.contains(reason), "{refused:?}");
        assert!(refused.stderr.contains("`ls -ld [WORLD]/home`"), "{refused:?}");
        assert_is_whole(0);
    });
}

#[test]
fn an_image_that_is_not_what_its_digest_says_is_refused() {
    with_helper(|cabane| {
        set_up();
        let path = cabane.run(&["image", "ls", "--format={sqfs}", APP]).success().stdout;
        let path = cabane.world.path(path.trim().strip_prefix("[WORLD]/").unwrap());
        let bytes = fs::read(&path).unwrap();
        let mut other = bytes.clone();
        let middle = other.len() / 2;
        other[middle] ^= 1;
        // The file belongs to a user, who could exchange it at any time; then to root.
        for owner in ["61234", "0"] {
            run_as_root(&format!("chown {owner} {0}; chmod 644 {0}", path.display()));
            fs::write(&path, &other).unwrap();
            let refused = unpack(cabane, &[APP]);
            assert!(refused.code != 0 && refused.stderr.contains("is damaged"), "{refused:?}");
            assert_is_whole(0);
        }
        fs::write(&path, &bytes).unwrap();
        unpack(cabane, &[APP]).success();
        assert_is_whole(1);
    });
}

#[test]
fn an_image_that_is_not_signed_as_the_site_wants_is_refused() {
    with_helper(|cabane| {
        set_up();
        let key = cabane.world.path("work/site").to_string_lossy().into_owned();
        cabane.run(&["image", "key", "new", &key]).success();
        let rule = format!(
            "[[trust]]\nnamespace = \"*\"\nrequire = \"signature\"\nkeys = [\"{key}.pub\"]\n\
                 at_start = \"all\"\n"
        );
        cabane.world.file("site.toml", &rule);
        let refused = unpack(cabane, &[APP]);
        assert!(refused.code != 0 && refused.stderr.contains("is not trusted"), "{refused:?}");
        assert_is_whole(0);
    });
}

#[test]
fn an_image_in_use_stays_for_its_processes_and_is_removed_later() {
    with_helper(|cabane| {
        set_up();
        for options in [&[][..], &["--backend", "user-namespace"]] {
            unpack(cabane, &[APP]).success();
            let child = long_start(cabane, options, "app");
            assert_eq!(unpacked(cabane)[0]["in_use"], true);
            let unused = unpack(cabane, &["--remove", "--unused"]).success().stderr;
            assert!(unused.contains("every unpacked image is in use"), "{unused}");
            let said = unpack(cabane, &["--remove", "app"]).success().stderr;
            assert!(said.contains("a process uses it, so its files stay for now"), "{said}");
            // Later starts mount the image, and the process has all its files.
            assert!(how(cabane).starts_with("through FUSE"));
            unpack(cabane, &["--remove", "--unused"]).success();
            assert_eq!(fs::read_dir(format!("{STORE}/removed")).unwrap().count(), 1);
            assert_eq!(end(child), "app");
            unpack(cabane, &["--remove", "--unused"]).success();
            assert_is_whole(0);
            assert!(files_below(&Path::new(STORE).join("objects")).is_empty());
        }
    });
}

#[test]
fn removing_frees_what_no_other_image_has() {
    with_helper(|cabane| {
        set_up();
        let versions = [1, 2].map(|number| version(cabane, number));
        unpack(cabane, &[&versions[0], &versions[1]]).success();
        let listed = unpacked(cabane);
        let own: Vec<_> = listed.iter().map(|image| image["own_bytes"].as_u64().unwrap()).collect();
        let size = |name: &str| tree(cabane, &versions[0]).join(name).metadata().unwrap().len();
        // The metadata are the same.
        assert_eq!(own, [size("own"); 2]);
        assert_eq!(listed[0]["in_use"], false);
        let said = unpack(cabane, &["--remove", "stack/1.0"]).success().stderr;
        assert!(said.starts_with(&format!("removed {}: ", versions[0])), "{said}");
        assert_is_whole(1);
        let left = unpack(cabane, &["--list"]).success().stdout;
        assert!(left.contains(&versions[1]) && !left.contains(&versions[0]), "{left}");
        let missing = unpack(cabane, &["--remove", "stack/1.0"]);
        assert!(missing.code != 0 && missing.stderr.contains("no unpacked image matches"));
        unpack(cabane, &["--remove", "--unused"]).success();
        assert_is_whole(0);
        let seen = unpack(cabane, &["--list"]);
        assert_eq!(seen, finished(0, "", "no images are unpacked on this node\n"));
    });
}

#[test]
fn a_killed_command_leaves_nothing_that_a_later_one_trips_over() {
    with_helper(|cabane| {
        set_up();
        let place = cabane.world.path("trees/many");
        let mut many = Tree::new(&place).meta("many", "/mnt/a");
        for number in 0..400 {
            many = many.file(&format!("d{}/{number}", number % 20), &format!("content {number}"));
        }
        add(cabane, "many/1:v1@here%x86_64", many.root());
        unpack(cabane, &[APP]).success();
        let mut killed = 0;
        for step in 0..40_u32 {
            let mut command = cabane.command_of_root(&["image", "unpack", "many"]);
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(u64::from(step) * 2));
            child.kill().unwrap();
            killed += u32::from(!child.wait().unwrap().success());
            // A tree is there as a whole or not at all.
            if unpacked(cabane).len() == 2 {
                assert_eq!(files_below(&tree(cabane, "many/1:v1@here%x86_64")).len(), 401);
                unpack(cabane, &["--remove", "many"]).success();
            }
            assert_eq!(how(cabane), "unpacked on this node, through the helper\n");
        }
        assert!(killed > 10, "{killed}");
        unpack(cabane, &["many"]).success();
        assert_is_whole(2);
        unpack(cabane, &["--remove", "many"]).success();
        assert_is_whole(1);
    });
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_left() {
    with_helper(|cabane| {
        set_up();
        run_as_root(&format!("mkdir {STORE}; mount -t tmpfs -o size=300k,mode=755 tmpfs {STORE}"));
        let label = version(cabane, 1);
        let refused = unpack(cabane, &[&label]);
        let says =
            ["cannot write /mnt/unpacked/", "No space left", "image unpack --remove --unused"];
        assert!(says.iter().all(|text| refused.stderr.contains(text)), "{refused:?}");
        assert_is_whole(0);
        run_as_root(&format!("umount {STORE}"));
    });
}

#[test]
fn the_store_must_be_root_s_alone() {
    with_helper(|cabane| {
        set_up();
        let refused = cabane.run(&["image", "unpack", APP]);
        let reason = "only root can change the unpacked images of a node";
        assert!(refused.code != 0 && refused.stderr.contains(reason), "{refused:?}");
        run_as_root("mkdir -p /mnt/home/store; chown 61234 /mnt/home");
        run_as_root(
            "sed -i 's,^unpacked-images.*,unpacked-images /mnt/home/store,' /etc/cabane/mount.policy",
        );
        let refused = unpack(cabane, &[APP]);
        assert!(
            refused.code != 0 && refused.stderr.contains("does not belong to root"),
            "{refused:?}"
        );
        // A store that becomes a user's is none: the image is mounted.
        run_as_root("chown 0 /mnt/home");
        unpack(cabane, &[APP]).success();
        assert_eq!(how(cabane), "unpacked on this node, through the helper\n");
        run_as_root("chown 61234 /mnt/home");
        for options in [&[][..], &["--backend", "user-namespace"]] {
            let seen = inside(cabane, options, "app", SAYS_HOW).success().stdout;
            assert!(seen.starts_with("through FUSE"), "{seen}");
        }
        let said = cabane.run(&["doctor"]).stdout;
        assert!(said.contains("/mnt/home belongs to user 61234"), "{said}");
    });
}

#[test]
fn a_store_without_programs_is_refused() {
    with_helper(|cabane| {
        set_up();
        run_as_root(&format!("mkdir {STORE}; mount -t tmpfs -o noexec,mode=755 tmpfs {STORE}"));
        let refused = unpack(cabane, &[APP]);
        assert!(refused.code != 0 && refused.stderr.contains("`noexec`"), "{refused:?}");
        run_as_root(&format!("umount {STORE}"));
    });
}

#[test]
fn without_a_store_nothing_is_listed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["image", "unpack", "--list", "--json"]);
    assert_eq!((seen.code, seen.stdout.trim()), (0, "[]"));
    let wrong = cabane.run(&["image", "unpack", "--unused"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let nothing = cabane.run(&["image", "unpack"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
}
