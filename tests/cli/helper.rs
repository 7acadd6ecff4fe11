// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The command with the set-uid helper, as an ordinary user, on the real kernel.
//!
//! What the helper refuses whom is tested in `tests/privileged`; here it is shown that
//! everything people do works with it, and when the other way is taken.

use cabane_testkit::{Tree, erofs, run_as_root};

use crate::arena::{is_anything_held, with_helper};
use crate::cabane::{APP, Cabane, finished};

/// What a process says about how its images are mounted.
const SAYS_HOW: &str = "$CABANE status | sed -n 's/^  mounted  *//p'";
const HELPER: &str = "by the kernel, through the helper\n";
const FUSE: &str = "through FUSE, in a user namespace\n";

/// Runs a script in images, with `$CABANE` in it.
fn run_script(cabane: &Cabane, arguments: &[&str], script: &str) -> cabane_testkit::Finished {
    let mut command = cabane.command(&[arguments, &["--", "sh", "-c", script]].concat());
    cabane.finish(command.env("CABANE", cabane.program()))
}

/// An EROFS image with a view, which cannot be served without privilege here.
fn erofs_image(cabane: &Cabane, name: &str, mount_point: &str) -> String {
    let tree = Tree::new(cabane.world.path(&format!("trees/{name}")))
        .program("bin/hello", &format!("echo hello from {name}"))
        .file("name", name)
        .meta(name, mount_point);
    let image = cabane.world.path(&format!("{name}.erofs"));
    erofs(tree.root(), &image);
    run_as_root("[ ! -e /usr/bin/erofsfuse ] || mount --bind /dev/null /usr/bin/erofsfuse");
    image.to_string_lossy().into_owned()
}

#[test]
fn it_is_taken_where_the_policy_allows_everything() {
    with_helper(|cabane| {
        let script = format!("hello; id -u; cut -c-40 /proc/self/uid_map; {SAYS_HOW}");
        let seen = run_script(cabane, &["-v", "run", "app"], &script);
        let map = format!("{:>10} {:>10} {:>10}\n", 0, 0, u32::MAX);
        let expected = format!("hello from app\n61234\n{map}{HELPER}");
        assert_eq!(seen, finished(0, &expected, ""));
    });
}

#[test]
fn a_mount_point_that_is_not_in_the_policy_goes_through_a_user_namespace() {
    with_helper(|cabane| {
        let seen = run_script(cabane, &["-v", "run", "app:/mnt/else"], SAYS_HOW);
        let why = "mounting in a user namespace: /mnt/else is not among the mount points that \
                   the administrator allows\n";
        let (_, output) = seen.stderr.split_once('\n').unwrap();
        assert_eq!((seen.stdout.as_str(), output), (FUSE, why));
    });
}

#[test]
fn a_mount_point_that_is_not_there_goes_through_a_user_namespace() {
    with_helper(|cabane| {
        run_as_root("rmdir /mnt/a/inner /mnt/a");
        let seen = run_script(cabane, &["-v", "run", "app"], SAYS_HOW);
        let why = "mounting in a user namespace: there is no directory /mnt/a on which the helper \
                   could mount\n";
        assert_eq!(seen, finished(0, FUSE, why));
    });
}

#[test]
fn a_directory_that_is_to_be_mounted_goes_through_a_user_namespace() {
    with_helper(|cabane| {
        let file = "images = [\"app\"]\nmounts = [\"/usr/share:/mnt/b\"]\n";
        cabane.world.file("work/bind.toml", file);
        let seen = run_script(cabane, &["-v", "run", "./bind.toml"], SAYS_HOW);
        let why = "mounting in a user namespace: the helper mounts nothing but images, and \
                   /mnt/b is to be something else\n";
        assert_eq!(seen, finished(0, FUSE, why));
    });
}

#[test]
fn inside_of_an_environment_a_user_namespace_is_used() {
    with_helper(|cabane| {
        let tools = cabane.image("tools", "/mnt/b");
        let inner = format!("cat /mnt/a/name; hello; {SAYS_HOW}");
        cabane.world.file("work/inner", &inner);
        let script = format!("$CABANE -v run {tools} -- sh ./inner");
        let seen = run_script(cabane, &["run", "app"], &script);
        let why = "mounting in a user namespace: the process cannot gain privileges \
                   (no_new_privs), as in an environment";
        let expected = format!("apphello from tools\nby the kernel\n{FUSE}");
        assert_eq!((seen.stdout, seen.stderr.lines().next()), (expected, Some(why)));
    });
}

#[test]
fn the_same_image_can_be_entered_again() {
    with_helper(|cabane| {
        let seen = run_script(cabane, &["run", "app"], "$CABANE run app -- hello");
        assert_eq!(seen, finished(0, "hello from app\n", ""));
    });
}

#[test]
fn insisting_on_it_reports_the_obstacle() {
    with_helper(|cabane| {
        let tools = cabane.image("tools", "/mnt/b");
        let error = |seen: cabane_testkit::Finished| {
            let mut lines = seen.stderr.lines();
            let line = lines.find_map(|line| line.strip_prefix("error: "));
            (seen.code, line.unwrap_or_default().to_owned())
        };
        let insist = |images| cabane.run(&["--backend", "helper", "run", images, "--", "true"]);
        let nested = format!("$CABANE --backend helper run {tools} -- true");
        let seen =
            [insist("app"), insist("app:/mnt/else"), run_script(cabane, &["run", "app"], &nested)];
        let expected = [
            (0, ""),
            (125, "/mnt/else is not among the mount points that the administrator allows"),
            (125, "the process cannot gain privileges (no_new_privs), as in an environment"),
        ];
        let expected = expected.map(|(code, text)| (code, text.to_owned()));
        assert_eq!(seen.map(error), expected);
    });
}

#[test]
fn several_images_are_mounted_also_inside_anothers_tree() {
    with_helper(|cabane| {
        let tree = Tree::new(cabane.world.path("trees/outer"))
            .file("name", "outer")
            .file("inner/hidden", "");
        let outer = cabane.world.path("outer.squashfs");
        cabane_testkit::squashfs(tree.root(), &outer);
        let outer = format!("{}:/mnt/a", outer.display());
        let tools = cabane.image("tools", "/mnt/b");
        let script = format!("cat /mnt/a/name /mnt/a/inner/name /mnt/b/name; echo; {SAYS_HOW}");
        for images in [
            format!("{outer},app:/mnt/a/inner,{tools}"),
            format!("{tools},app:/mnt/a/inner,{outer}"),
        ] {
            let seen = run_script(cabane, &["--backend", "helper", "run", &images], &script);
            let expected = format!("outerapptools\n{}", HELPER.repeat(3));
            assert_eq!((seen.code, seen.stdout), (0, expected), "{images}");
        }
    });
}

#[test]
fn views_of_several_images_are_loaded_and_verbose_output_shows_what_wins() {
    with_helper(|cabane| {
        let tools = cabane.image("tools", "/mnt/b");
        let images = format!("app,{tools}");
        let arguments = ["-v", "run", &images, "--view=app:default,tools:default"];
        let seen = run_script(cabane, &arguments, "hello; echo $CABANE_TEST");
        let shown = "CABANE_TEST";
        assert!(
            seen.code == 0
                && seen.stdout == "hello from tools\ntools\n"
                && seen.stderr.contains(shown)
                && !seen.stderr.contains("user namespace"),
            "{seen:?}"
        );
    });
}

#[test]
fn a_shell_starts_in_it() {
    with_helper(|cabane| {
        cabane.world.file("work/typed", &format!("hello\n{SAYS_HOW}\n"));
        let start = "$CABANE start app --ignore-tty <typed";
        let mut command = cabane.other("sh");
        command.args(["-c", start]).env("SHELL", "/bin/bash");
        let seen = cabane.finish(&mut command);
        assert_eq!(seen, finished(0, &format!("hello from app\n{HELPER}"), ""));
    });
}

#[test]
fn an_environment_file_chooses_images_views_variables_and_a_directory() {
    with_helper(|cabane| {
        let file = "images = [\"app\"]\nworkdir = \"/mnt/a/bin\"\n[env]\nWHO = \"me\"\n";
        cabane.world.file("work/climate.toml", file);
        let script = format!("./hello; echo $WHO; pwd; {SAYS_HOW}");
        let seen = run_script(cabane, &["run", "./climate.toml"], &script);
        let expected = format!("hello from app\nme\n/mnt/a/bin\n{HELPER}");
        assert_eq!(seen, finished(0, &expected, ""));
    });
}

#[test]
fn a_directory_of_an_environment_file_that_is_not_there_is_an_error() {
    with_helper(|cabane| {
        let file = "images = [\"app\"]\nworkdir = \"/mnt/a/nowhere\"\n";
        cabane.world.file("work/climate.toml", file);
        let output = ["helper", "user-namespace"].map(|backend| {
            let arguments = ["--backend", backend, "run", "./climate.toml", "--", "pwd"];
            cabane.run(&arguments)
        });
        let expected = "error: cannot start in the directory /mnt/a/nowhere\n\
                        cause: No such file or directory (os error 2)\n\
                        hint: it must exist inside the environment: see `workdir` of the \
                        environment file\n";
        let expected = || finished(125, "", expected);
        assert_eq!(output, [expected(), expected()]);
    });
}

#[test]
fn in_a_directory_below_the_mount_point_a_notice_says_where_the_command_starts() {
    with_helper(|cabane| {
        let output = ["helper", "user-namespace"].map(|backend| {
            let mut command = cabane.command(&["--backend", backend, "run", "app", "--", "pwd"]);
            cabane.finish(command.current_dir("/mnt/a/inner"))
        });
        let expected = "warning: the directory /mnt/a/inner cannot be entered in the environment: \
                        the command starts in /\n";
        let expected = || finished(0, "/\n", expected);
        assert_eq!(output, [expected(), expected()]);
    });
}

#[test]
fn views_of_an_image_that_only_the_kernel_can_read_are_found() {
    with_helper(|cabane| {
        let image = erofs_image(cabane, "fast", "/mnt/b");
        let seen = cabane.run(&["run", &image, "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from fast\n", ""));
    });
}

#[test]
fn an_image_that_only_the_kernel_can_read_can_be_added_to_a_repository() {
    with_helper(|cabane| {
        let image = erofs_image(cabane, "fast", "/mnt/b");
        cabane.run(&["image", "add", "fast/1.0:v1@here%x86_64", &image]).success();
        let seen = cabane.run(&["run", "fast", "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from fast\n", ""));
    });
}

#[test]
fn images_are_compared_where_there_is_no_fuse() {
    with_helper(|cabane| {
        let (one, two) = (cabane.image("one", "/mnt/b"), erofs_image(cabane, "two", "/mnt/b"));
        run_as_root("mount --bind /dev/null /dev/fuse");
        let seen = cabane.run(&["diff", &one, &two, "--files"]).success();
        let (views, files) = seen.stdout.split_once("files\n").unwrap();
        assert!(
            views.contains("~ CABANE_TEST one -> two") && files.contains("~ bin/hello"),
            "{seen:?}"
        );
    });
}

#[test]
fn where_a_command_comes_from_is_explained() {
    with_helper(|cabane| {
        let seen = run_script(cabane, &["run", "app"], "$CABANE explain hello").success();
        assert!(seen.stdout.contains("/mnt/a/bin/hello") && seen.stdout.contains(APP), "{seen:?}");
    });
}

#[test]
fn what_is_held_is_given_up_when_the_user_says_so() {
    with_helper(|cabane| {
        cabane.run(&["run", "app", "--", "true"]).success();
        let before = is_anything_held();
        let seen = cabane.run(&["clean", "--mounts"]);
        let output = "unmounted your unused images\n";
        assert_eq!((before, seen, is_anything_held()), (true, finished(0, "", output), false));
    });
}

#[test]
fn it_works_where_services_follow_the_mounts_of_the_machine() {
    with_helper(|cabane| {
        // As systemd has it: mounts are shared, and services have namespaces that follow.
        run_as_root(
            "mount --make-rshared /
             unshare --mount --propagation slave sleep 1000 >/dev/null 2>&1 </dev/null &
             until [ \"$(cat /proc/$!/comm)\" = sleep ]; do sleep 0.01; done",
        );
        // The second start finds what the first one has made, and a third one makes it anew.
        for _ in 0..2 {
            let seen = run_script(cabane, &["-v", "run", "app"], SAYS_HOW);
            assert_eq!(seen, finished(0, HELPER, ""));
            assert!(is_anything_held());
        }
        cabane.run(&["clean", "--mounts"]).success();
        let seen = run_script(cabane, &["-v", "run", "app"], SAYS_HOW);
        assert_eq!(seen, finished(0, HELPER, ""));
    });
}
