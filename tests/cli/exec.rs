// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane exec` and `cabane shell`: command lines of Apptainer.

use std::fs;
use std::path::Path;

use cabane_testkit::{Finished, Tree, not_run, run_as_root, squashfs};

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, everybody, finished};
use crate::first_use::sif_file;
use crate::root_images::with_root;

/// Runs a script in the image `os`.
fn sh(cabane: &Cabane, options: &[&str], script: &str) -> Finished {
    let arguments = [&["exec"], options, &["os", "sh", "-c", script]].concat();
    cabane.run(&arguments)
}

fn output(cabane: &Cabane, options: &[&str], script: &str) -> String {
    let seen = sh(cabane, options, script);
    assert_eq!(seen.code, 0, "{options:?}: {}", seen.stderr);
    seen.stdout
}

#[test]
fn a_command_follows_the_image() {
    for who in everybody() {
        let cabane = with_root(who);
        let seen = cabane.run(&["exec", "os", "cat", "/etc/image"]);
        assert_eq!(seen, finished(0, "os", ""), "{who:?}");
        let seen = cabane.run(&["exec", "os", "--", "sh", "-c", "echo \"$0\"", "-B"]);
        assert_eq!(seen, finished(0, "-B\n", ""), "{who:?}");
    }
}

#[test]
fn several_places_are_shown_with_one_option_and_with_variables() {
    let cabane = with_root(Who::OrdinaryUser);
    for name in ["one", "two"] {
        fs::write(cabane.world.directory(name).join("file"), name).unwrap();
    }
    let place = |name: &str| cabane.world.path(name).display().to_string();
    let both = format!("{}:/a,{}:/b:ro", place("one"), place("two"));
    let script = "cat /a/file /b/file; echo >/b/new";
    let seen = sh(&cabane, &["-B", &both], script);
    assert_eq!(seen.stdout, "onetwo", "{}", seen.stderr);
    assert!(seen.stderr.contains("Read-only file system"), "{}", seen.stderr);
    let mut command = cabane.command(&["exec", "os", "cat", "/a/file", "/b/file"]);
    let command = command.env("APPTAINER_BIND", &both);
    assert_eq!(cabane.finish(command), finished(0, "onetwo", ""));
    let mut command = cabane.command(&["exec", "os", "sh", "-c", "echo $A $B"]);
    let command = command.env("APPTAINERENV_A", "new").env("SINGULARITYENV_A", "old");
    let command = command.env("SINGULARITYENV_B", "b");
    assert_eq!(cabane.finish(command), finished(0, "new b\n", ""));
}

#[test]
fn variables_of_apptainer_extend_the_path_and_options_in_variables_are_reported() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let file = sif_file(&cabane, "first", "tool.sif");
    let mut command = cabane.command(&["exec", file.to_str().unwrap(), "sh", "-c", "echo $PATH"]);
    let command = command.env("APPTAINERENV_PREPEND_PATH", "/first");
    let command = command.env("APPTAINERENV_APPEND_PATH", "/last").env("APPTAINER_CLEANENV", "1");
    let seen = cabane.finish(command);
    let path = seen.stdout.trim();
    assert!(path.starts_with("/first:") && path.ends_with(":/last"), "{path}");
    let expected = "`APPTAINER_CLEANENV` has no effect here: use the option instead";
    assert!(seen.stderr.contains(expected), "{}", seen.stderr);
}

#[test]
fn variables_are_set_and_those_of_the_caller_left_out() {
    let cabane = with_root(Who::OrdinaryUser);
    let file = cabane.world.file("variables", "# some\nexport A=\"a b\"\nB=file\n\nC='c'\n");
    let options = ["--env", "B=1,2,D=d", "--env-file", file.to_str().unwrap()];
    assert_eq!(output(&cabane, &options, "echo $A,$B,$C,$D"), "a b,1,2,c,d\n");
    let mut command = cabane.command(&["exec", "os", "sh", "-c", "echo ${OWN-none}"]);
    assert_eq!(cabane.finish(command.env("OWN", "own")), finished(0, "own\n", ""));
    let script = "echo ${OWN-none} $CABANE_TEST $X; [ \"$HOME\" ] && echo home";
    let mut command = cabane.command(&["exec", "-e", "--env=X=x", "os", "sh", "-c", script]);
    assert_eq!(cabane.finish(command.env("OWN", "own")), finished(0, "none os x\nhome\n", ""));
    let seen = cabane.run(&["exec", "--env", "A", "os", "true"]);
    let expected = "error: `A` does not set a variable (--env)\nhint: write `NAME=VALUE`\n";
    assert_eq!(seen, finished(2, "", expected));
}

#[test]
fn a_command_starts_where_it_is_to_start() {
    let cabane = with_root(Who::OrdinaryUser);
    assert_eq!(output(&cabane, &["--pwd", "/usr"], "pwd"), "/usr\n");
    assert_eq!(output(&cabane, &["--cwd=/usr"], "pwd"), "/usr\n");
    let seen =
        cabane.run(&["run", "--pwd=/usr", "--env=A=a", "os", "--", "sh", "-c", "echo $PWD $A"]);
    assert_eq!(seen, finished(0, "/usr a\n", ""));
}

#[test]
fn a_contained_command_sees_empty_directories_and_can_write_there() {
    for who in everybody() {
        let cabane = with_root(who);
        cabane.world.file("home/secret", "secret");
        let script = "pwd; ls -A ~ /var/tmp | grep -v :; touch ~/new /tmp/new && ls ~ && ls /tmp";
        // The home directory of the test is below `/tmp`.
        let first = cabane.world.path("");
        let first = first.components().nth(2).unwrap().as_os_str().to_string_lossy();
        let seen = output(&cabane, &["--contain"], script).replace(&*first, "[FIRST]");
        let mut seen: Vec<&str> = seen.lines().filter(|line| !line.is_empty()).collect();
        seen[2..].sort_unstable();
        assert_eq!(seen, ["[WORLD]/home", "new", "[FIRST]", "new"], "{who:?}");
        assert!(!cabane.world.path("home/new").exists(), "{who:?}");
    }
}

#[test]
fn temporary_files_of_a_contained_command_can_be_kept() {
    let cabane = with_root(Who::OrdinaryUser);
    let work = cabane.world.directory("work");
    let options = ["-c", "--no-home", "-W", work.to_str().unwrap()];
    output(&cabane, &options, "echo kept >/tmp/file");
    assert_eq!(output(&cabane, &options, "cat /tmp/file"), "kept\n");
    assert_eq!(fs::read_to_string(work.join("tmp/file")).unwrap(), "kept\n");
    let seen = cabane.run(&["exec", "--workdir=/x", "os", "true"]);
    let expected = "error: `--workdir` needs `--contain`\n\
                    hint: type `--contain --workdir DIRECTORY`; to choose where the command starts, use \
                    `--pwd DIRECTORY`\n";
    assert_eq!(seen, finished(2, "", expected));
    // Without `--no-home`, the home directory is there, too, and not that of the user.
    let options = ["-c", "-W", work.to_str().unwrap()];
    output(&cabane, &options, "cd && pwd && echo mine >~/file && ls -A ~");
    assert_eq!(output(&cabane, &options, "cat ~/file; ls -A ~"), "mine\nfile\n");
    assert_eq!(fs::read_to_string(work.join("home/file")).unwrap(), "mine\n");
    assert!(!cabane.world.path("home/file").exists());
    let other = cabane.world.directory("other").display().to_string();
    let seen = output(&cabane, &[&options[..], &["--home", &other]].concat(), "ls -A ~; pwd");
    assert_eq!(seen, "[WORLD]/other\n");
}

#[test]
fn the_root_file_system_is_written_to_in_memory_or_in_an_overlay() {
    let cabane = with_root(Who::OrdinaryUser);
    let script = "echo new >/etc/new; cat /etc/new";
    assert_eq!(output(&cabane, &["--writable-tmpfs"], script), "new\n");
    assert_eq!(output(&cabane, &["--fakeroot"], "id -u"), "0\n");
    let overlay = cabane.world.path("overlay");
    let overlay = overlay.to_str().unwrap();
    output(&cabane, &["--overlay", overlay], script);
    assert_eq!(output(&cabane, &["-o", overlay], "cat /etc/new"), "new\n");
    let seen = sh(&cabane, &["--overlay", &format!("{overlay}:ro")], script);
    assert!(seen.stderr.contains("hint: name a directory for the changes"), "{}", seen.stderr);
}

#[test]
fn another_directory_is_the_home_directory() {
    let cabane = with_root(Who::OrdinaryUser);
    let other = cabane.world.directory("other");
    fs::write(other.join("file"), "other").unwrap();
    let other = other.to_str().unwrap();
    assert_eq!(output(&cabane, &["--home", other], "cat ~/file"), "other");
    let option = format!("--home={other}:/home/me");
    assert_eq!(output(&cabane, &[&option], "echo $HOME; cat ~/file"), "/home/me\nother");
}

#[test]
fn an_option_that_is_missing_is_refused_with_what_to_do() {
    let cabane = with_root(Who::OrdinaryUser);
    for (options, name, hint) in [
        (&["--writable"][..], "writable", "--writable-tmpfs"),
        (&["-p"], "pid", "leave it out"),
        (&["--hostname", "x"], "hostname", "leave it out"),
        (&["--mount", "type=bind"], "mount", "--bind SOURCE:TARGET"),
    ] {
        let seen = sh(&cabane, options, "true");
        let message = format!("error: Cabane has no option `--{name}`\n");
        assert_eq!((seen.code, seen.stderr.starts_with(&message)), (2, true), "{}", seen.stderr);
        assert!(seen.stderr.contains(hint), "{}", seen.stderr);
    }
    assert_eq!(output(&cabane, &["--userns", "--no-init", "-u"], "echo ran"), "ran\n");
}

#[test]
fn a_shell_reads_what_comes_from_a_pipe() {
    for who in everybody() {
        let cabane = with_root(who);
        let mut sh = cabane.other("sh");
        let seen = cabane.finish(sh.args(["-c", "echo 'cat /etc/image' | $CABANE shell os"]));
        assert_eq!(seen, finished(0, "os", ""), "{who:?}");
        let line = "echo 'echo $0' | $CABANE shell --shell /bin/sh os";
        let mut sh = cabane.other("sh");
        assert_eq!(cabane.finish(sh.args(["-c", line])).stdout, "/bin/sh\n", "{who:?}");
    }
}

#[test]
fn words_after_a_file_of_apptainer_go_to_its_runscript() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let file = sif_file(&cabane, "first", "tool.sif");
    let file = file.to_str().unwrap();
    assert_eq!(cabane.run(&["run", file, "a", "-b"]).stdout, "first runscript a -b\n");
    assert_eq!(cabane.run(&["run", file, "--", "hello", "a"]).stdout, "first a\n");
    assert_eq!(cabane.run(&["exec", file, "hello", "a"]).stdout, "first a\n");
}

#[test]
fn without_a_driver_a_warning_says_so_and_the_command_runs() {
    if Path::new("/dev/nvidiactl").exists() {
        not_run!("this machine has a driver");
    }
    let cabane = with_root(Who::OrdinaryUser);
    let seen = sh(&cabane, &["--nv"], "echo ran");
    let expected = "warning: this machine has no device `nvidia.com/gpu=all`, so the container \
                    runs without it\n";
    assert_eq!(seen, finished(0, "ran\n", expected));
}

/// Puts a driver into the private world, where the loader finds it: `libcuda.so.1`, another library of
/// the same version, and one of another version.
fn install_driver() {
    run_as_root(
        "mkdir -p /mnt/driver
         cd /mnt/driver
         make() {
             echo 'int fake(void) { return 42; }' | cc -shared -fPIC -x c - -Wl,-soname,$1 -o $2
             ln -s $2 $1
         }
         make libcuda.so.1 libcuda.so.550.54.15
         make libnvidia-ml.so.1 libnvidia-ml.so.550.54.15
         make libother.so.1 libother.so.1.2
         chmod 755 /mnt/driver
         echo /mnt/driver >>/etc/ld.so.conf
         ldconfig",
    );
}

#[test]
fn a_program_finds_a_driver_that_no_file_describes() {
    with_helper(|_| {
        install_driver();
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        for (who, cabane) in [
            ("root", Cabane::new(Who::Root)),
            ("helper", Cabane::new(Who::OrdinaryUser).with_helper("/mnt/cabane-mount")),
            ("user namespace", Cabane::new(Who::OrdinaryUser)),
        ] {
            let library = Path::new("/mnt/driver/libcuda.so.550.54.15");
            let tree = Tree::new(cabane.world.path("trees/os")).user_of_driver(library);
            let tree = tree.root_file_system("os", "");
            let image = cabane.world.path("os.squashfs");
            squashfs(tree.root(), &image);
            let image = image.to_str().unwrap();
            cabane.run(&["image", "add", "os/1:v1@here%x86_64", image]).success();
            let script = "uses-fake; cd /run/cabane/devices/run/cabane/driver && ls";
            let names = "libcuda.so\nlibcuda.so.1\nlibcuda.so.550.54.15\nlibnvidia-ml.so.1\n\
                         libnvidia-ml.so.550.54.15\n";
            for option in ["--nv", "--device=nvidia.com/gpu=all"] {
                let line = ["run", option, "os", "--", "sh", "-c", script];
                let seen = cabane.run(&line);
                assert_eq!(seen.stdout, format!("42\n{names}"), "{who}: {}", seen.stderr);
            }
            let seen = sh(&cabane, &[], "uses-fake");
            assert_eq!(seen.code, 127, "{who}: {seen:?}");
            let listed = cabane.run(&["system", "devices"]).success().stdout;
            assert!(listed.contains("nvidia.com/gpu=all"), "{who}: {listed}");
            cabane.run(&["clean", "--mounts"]);
        }
    });
}
