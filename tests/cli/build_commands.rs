// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes for the engine `container` whose commands are run in the image while it is built.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use cabane_testkit::{Finished, Tree};
use serde_json::{Value, json};

use crate::cabane::{Cabane, Who, everybody};
use crate::import_containers::{Layout, content, image_file, layer};

const BUILT: &str = "built/1.0:v1@here%x86_64";
const PROGRAMS: [&str; 10] = [
    "/usr/bin/chmod",
    "/usr/bin/chown",
    "/usr/bin/cp",
    "/usr/bin/date",
    "/usr/bin/dd",
    "/usr/bin/ln",
    "/usr/bin/mknod",
    "/usr/bin/mount",
    "/usr/bin/mv",
    "/usr/bin/unshare",
];

/// A world with a root file system that has a shell and programs that change files, for recipes.
fn with_root(who: Who) -> Cabane {
    let cabane = Cabane::new(who);
    let tree = Tree::new(cabane.world.path("os")).root_file_system("os", "");
    let _tree = PROGRAMS.iter().fold(tree, |tree, program| tree.host_program(program));
    cabane
}

/// Writes a recipe with commands, each a line of YAML.
fn recipe(cabane: &Cabane, commands: &[&str]) -> String {
    recipe_with(cabane, "", commands)
}

fn recipe_with(cabane: &Cabane, section: &str, commands: &[&str]) -> String {
    let commands: Vec<String> = commands.iter().map(|line| format!("    - {line}\n")).collect();
    let commands = commands.concat();
    let text = format!(
        "name: tool\nengine: container\ncontainer:\n  from: dir:../os\n{section}  run:\n{commands}"
    );
    cabane.world.file("recipe/config.yaml", &text);
    cabane.world.path("recipe").display().to_string()
}

fn build(cabane: &Cabane, commands: &[&str]) -> Finished {
    cabane.run(&["build", &recipe(cabane, commands), BUILT])
}

/// The same, with the base as it is now.
fn build_anew(cabane: &Cabane, commands: &[&str]) -> Finished {
    cabane.run(&["build", "--from=lock", &recipe(cabane, commands), BUILT])
}

fn digest_of(cabane: &Cabane) -> String {
    let arguments = ["image", "inspect", "--format={digest}", BUILT];
    cabane.run(&arguments).success().stdout.trim().to_owned()
}

/// What a script prints in the image.
fn output(cabane: &Cabane, script: &str) -> String {
    cabane.run(&["run", "built", "--", "sh", "-c", script]).success().stdout
}

/// Where the build keeps its files.
fn build_directory(cabane: &Cabane) -> std::path::PathBuf {
    let builds = cabane.world.path("home/.cache/cabane/builds");
    fs::read_dir(builds).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn what_commands_change_is_in_the_image() {
    for who in everybody() {
        let cabane = with_root(who);
        let seen = build(
            &cabane,
            &[
                "mkdir /opt/tool && echo one >/opt/tool/text",
                "[cp, /opt/tool/text, /opt/a b]",
                "rm /etc/image; rm -r /home; mkdir /home; echo new >/home/file",
                "mv /opt/tool /opt/moved; ln -s moved /opt/link",
                "echo more >>/opt/link/text",
            ],
        );
        seen.success();
        let script = "cat /opt/moved/text '/opt/a b' /opt/link/text; ls /opt; [ ! -e /etc/image ]";
        let seen = output(&cabane, script);
        assert_eq!(seen, "one\nmore\none\none\nmore\na b\nlink\nmoved\n", "{who:?}");
        assert_eq!(content(&cabane, BUILT, "home/file"), "new\n");
        let again = cabane.run(&["build", &cabane.world.path("recipe").to_string_lossy(), BUILT]);
        assert!(again.success().stderr.contains("nothing has changed"));
    }
}

#[test]
fn two_builds_give_the_same_digest_though_commands_ran_at_other_times() {
    for who in everybody() {
        let cabane = with_root(who);
        // A directory for logs, as every distribution has it.
        fs::create_dir_all(cabane.world.path("os/var/log")).unwrap();
        cabane.world.file("recipe/given", "given");
        let commands = [
            "echo $$ >/var/log/dpkg.log; cat /proc/uptime >/tmp/now; cat /proc/uptime >/run/now",
            "cp /given /copied; chmod 0700 /copied; touch /new; chmod 0 /new",
            "chmod 0755 /copied; mkdir ~/.cache; cat /proc/uptime >~/.cache/x",
        ];
        let recipe = recipe_with(&cabane, "  files: {/given: given}\n", &commands);
        cabane.run(&["build", &recipe, BUILT]).success();
        let first = digest_of(&cabane);
        cabane.run(&["image", "rm", BUILT]).success();
        let other = cabane.world.path("home/other").display().to_string();
        cabane.run(&["build", "--build-dir", &other, &recipe, BUILT]).success();
        assert_eq!(digest_of(&cabane), first, "{who:?}");
        let names = crate::export::names_in(&cabane, &image_file(&cabane, BUILT), "");
        let is_there = |name: &str| names.contains_key(name);
        assert!(is_there("new") && !is_there("var/log/dpkg.log") && !is_there("root/.cache/x"));
    }
}

#[test]
fn commands_see_nothing_of_the_host_and_have_no_network() {
    for who in everybody() {
        let cabane = with_root(who);
        let script = "id -u; echo $HOME $PATH $LANG $TZ $SOURCE_DATE_EPOCH ${SECRET:-none}; pwd; \
                      ls /dev /tmp /run; cat /etc/hosts; sed -n 's/:.*//p' /proc/net/dev; cat \
                      /proc/sys/kernel/hostname; ls -d /proc/[0-9]* | wc -l";
        let command = format!("|\n      {{ {script}; }} >/seen");
        let recipe = recipe(&cabane, &[&command]);
        let mut build = cabane.command(&["build", &recipe, BUILT]);
        cabane.finish(build.env("SECRET", "x").env("LANG", "C")).success();
        let seen = content(&cabane, BUILT, "seen");
        let words: Vec<&str> = seen.split_whitespace().collect();
        let words = words.join(" ");
        let expected = "0 /root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                        C.UTF-8 UTC 315532800 none / /dev: fd full null random shm stderr stdin \
                        stdout urandom zero /run: cabane-apt.conf lock /tmp: 127.0.0.1 localhost \
                        ::1 localhost lo localhost";
        let (start, processes) = words.rsplit_once(' ').unwrap();
        assert_eq!(start, expected, "{who:?}");
        // The first one, the shell, and those that count.
        assert!(processes.parse::<u32>().unwrap() < 8, "{who:?}: {processes}");
    }
}

#[test]
fn only_what_has_changed_runs_again() {
    let cabane = with_root(Who::OrdinaryUser);
    let once = "cat /proc/sys/kernel/random/uuid >/first";
    build(&cabane, &[once, "echo 2 >/second", "echo 3 >/third"]).success();
    let first = content(&cabane, BUILT, "first");
    let seen = build(&cabane, &[once, "echo 2 >/second", "echo x >/other"]).success();
    assert!(seen.stderr.contains("[2/3] as before: echo 2"), "{}", seen.stderr);
    assert_eq!(content(&cabane, BUILT, "first"), first);
    assert_eq!(output(&cabane, "[ ! -e /third ]; cat /other"), "x\n");
    // Nothing is kept of the command that is gone.
    let layers = fs::read_dir(build_directory(&cabane).join("work/commands")).unwrap();
    let layers = layers.filter(|one| one.as_ref().unwrap().file_type().unwrap().is_dir());
    assert_eq!(layers.count(), 3);
    // All are run again when that is requested.
    let recipe = cabane.world.path("recipe").display().to_string();
    cabane.run(&["build", "--from=run", &recipe, BUILT, "--replace"]).success();
    assert_ne!(content(&cabane, BUILT, "first"), first);
}

#[test]
fn a_command_that_fails_is_named_with_its_line_and_its_last_words() {
    let cabane = with_root(Who::OrdinaryUser);
    let commands = ["echo first >/first", "echo what is wrong >&2; exit 7", "echo never"];
    let seen = build(&cabane, &commands);
    let expected = "[WORLD]/recipe/config.yaml:7: the command `echo what is wrong >&2; exit 7` \
                    ended with exit status: 7\n  what is wrong\nhint: the whole log is in";
    assert!(
        seen.code == 7 && seen.stderr.contains(expected) && seen.stderr.contains("logs/run.log"),
        "{seen:?}"
    );
    let seen = build(&cabane, &["echo first >/first", "echo good >/second"]).success();
    assert!(seen.stderr.contains("[1/2] as before"), "{}", seen.stderr);
}

#[test]
fn owners_can_be_changed_without_effect() {
    for who in everybody() {
        let cabane = with_root(who);
        let command = "touch /file; chown 12:34 /file; chown -R 7 /opt; stat -c %u:%g /file >/seen";
        build(&cabane, &[command]).success();
        assert_eq!(content(&cabane, BUILT, "seen"), "0:0\n", "{who:?}");
    }
}

/// Builds with one command on an image with a working directory.
fn build_in(who: Who, directory: &str, command: &str) -> Finished {
    let cabane = with_root(who);
    let layout = Layout::new(&cabane, "layout");
    let layers = [layer(&cabane.world.path("os"))];
    let run = json!({"Env": ["PATH=/usr/bin:/bin"], "WorkingDir": directory});
    layout.name(layout.image_with(&layers, "amd64", &run), "1");
    let text = format!(
        "name: tool\nengine: container\ncontainer:\n  from: {}\n  run:\n    - |\n      {command}\n",
        layout.typed()
    );
    cabane.world.file("recipe/config.yaml", &text);
    cabane.run(&["build", &cabane.world.path("recipe").to_string_lossy(), BUILT])
}

#[test]
fn a_working_directory_below_proc_or_sys_shows_nothing_of_the_host() {
    let settings = "/proc/sys/kernel/core_pattern";
    let before = fs::read(settings).unwrap();
    for who in everybody() {
        // Its own processes, and what sets the kernel only to read.
        let script = "set -- [0-9]*; [ $# -lt 8 ]; [ \"$(cat self/comm)\" = cat ]; \
                      if echo x >sys/kernel/core_pattern; then exit 9; fi";
        let seen = build_in(who, "/proc", script);
        assert_eq!(fs::read(settings).unwrap(), before, "{who:?}");
        seen.success();
        build_in(who, "/sys", "[ \"$(pwd)\" = /sys ]; [ -z \"$(ls)\" ]").success();
        for place in ["/proc/self/cwd", "/proc/1/root", "/proc/self/fd/3"] {
            let seen = build_in(who, place, "ls >/seen");
            let printed = format!("cannot change into {place}");
            assert!(seen.code == 7 && seen.stderr.contains(&printed), "{who:?}: {seen:?}");
        }
    }
}

#[test]
fn what_the_caller_left_open_is_closed_for_commands() {
    for who in everybody() {
        let cabane = with_root(who);
        let script = "ls /proc/self/fd >/seen; if ls /proc/self/fd/7/; then exit 9; fi";
        let recipe = recipe(&cabane, &[script]);
        let mut build = cabane.other("sh");
        build.args(["-c", "exec 7</; exec \"$CABANE\" build \"$0\" \"$1\"", &recipe, BUILT]);
        cabane.finish(&mut build).success();
        // The standard ones, and the one with which they are listed.
        assert_eq!(content(&cabane, BUILT, "seen"), "0\n1\n2\n3\n", "{who:?}");
    }
}

#[test]
fn mounts_devices_and_settings_of_the_kernel_are_refused() {
    for who in everybody() {
        let cabane = with_root(who);
        let before = fs::read("/proc/sys/kernel/core_pattern").unwrap();
        let attempts = [
            "mount -t tmpfs tmpfs /opt",
            "mount -o remount,rw /proc/sys",
            "mknod /null c 1 3",
            "echo x >/proc/sys/kernel/core_pattern",
            "echo b >/proc/sysrq-trigger",
            "echo x >/etc/hosts",
            // In one of its own a command has all rights that it was denied.
            "unshare --user --map-root-user sh -c 'exit 0'",
        ];
        for attempt in attempts {
            let command = format!("if {attempt}; then exit 9; fi");
            let seen = build(&cabane, &[&command]);
            assert_eq!(seen.code, 0, "{who:?}: {attempt}: {}", seen.stderr);
        }
        assert_eq!(fs::read("/proc/sys/kernel/core_pattern").unwrap(), before);
    }
}

#[test]
fn links_out_of_the_image_lead_nowhere_else() {
    for who in everybody() {
        let cabane = with_root(who);
        let outside = cabane.world.directory("outside");
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let place = outside.display();
        let to_link = format!("ln -s {place} /out; ln -s ../../../../../../../../..{place} /up");
        let through = "if echo x >/out/new; then exit 9; fi; if cat /up/secret; then exit 9; fi";
        let replaced = format!("rm -r /opt /tmp/x /var/tmp /run/x || true; ln -s {place} /opt");
        build(&cabane, &[&to_link, through, &replaced, "rm -rf /home; ln -s /etc /home"]).success();
        let there: Vec<_> = fs::read_dir(&outside).unwrap().collect();
        assert_eq!(there.len(), 1, "{who:?}");
        let names = crate::export::names_in(&cabane, &image_file(&cabane, BUILT), "");
        assert!(names.contains_key("out") && !names.contains_key("out/secret"));
    }
}

#[test]
fn a_base_whose_places_are_links_mounts_nothing_outside() {
    let cabane = with_root(Who::OrdinaryUser);
    let outside = cabane.world.directory("outside");
    let os = cabane.world.path("os");
    fs::remove_dir(os.join("tmp")).unwrap();
    symlink(&outside, os.join("tmp")).unwrap();
    let seen = build(&cabane, &["echo x >/tmp/file"]);
    // Whether it is refused or not, nothing outside is changed.
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{seen:?}");
}

#[test]
fn an_image_with_a_link_for_a_directory_of_the_system_is_refused_by_name() {
    let cabane = with_root(Who::OrdinaryUser);
    for place in ["tmp", "dev", "proc", "run"] {
        let path = cabane.world.path("os").join(place);
        // One of them is there in no tree.
        let _ = fs::remove_dir(&path);
        symlink("var", &path).unwrap();
        let seen = build_anew(&cabane, &["echo x"]);
        let printed = format!("/{place} is no directory in the image, and commands cannot run");
        assert!(seen.code == 7 && seen.stderr.contains(&printed), "{seen:?}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
    build_anew(&cabane, &["echo x"]).success();
}

#[test]
fn a_build_directory_of_somebody_else_is_refused_and_nothing_is_changed() {
    for who in everybody() {
        let cabane = with_root(who);
        let victim = cabane.world.directory("victim");
        fs::write(victim.join("file"), "text").unwrap();
        let recipe = recipe(&cabane, &["echo 1 >/first"]);
        let build = |directory: &str| {
            let directory = cabane.world.path(directory).display().to_string();
            cabane.run(&["build", "--build-dir", &directory, &recipe, BUILT])
        };
        // Of root as well as of the ordinary user, this one is somebody else's.
        if cabane_testkit::is_root() {
            let other = cabane.world.directory("other");
            fs::create_dir(other.join("work")).unwrap();
            symlink(&victim, other.join("work/commands")).unwrap();
            symlink(victim.join("file"), other.join("lock")).unwrap();
            fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&other, Some(61233), Some(61233)).unwrap();
            let seen = build("other");
            let printed = "cannot build in [WORLD]/other: it belongs to another user\nhint: name \
                           another directory: `--build-dir DIR`";
            assert!(seen.code == 7 && seen.stderr.contains(printed), "{who:?}: {seen:?}");
        }
        symlink("victim", cabane.world.path("link")).unwrap();
        let seen = build("link/");
        assert!(seen.code == 7 && seen.stderr.contains("it is a link"), "{who:?}: {seen:?}");
        // The directories in it are looked at as well.
        build("home/own").success();
        let commands = cabane.world.path("home/own/work/commands");
        fs::remove_dir_all(&commands).unwrap();
        symlink(&victim, &commands).unwrap();
        let again = ["build", "--from=run", "--replace", "--build-dir"];
        let own = cabane.world.path("home/own").display().to_string();
        let seen = cabane.run(&[&again[..], &[&own, &recipe, BUILT]].concat());
        let printed = "cannot build in [WORLD]/home/own/work/commands: it is a link";
        assert!(seen.code == 7 && seen.stderr.contains(printed), "{who:?}: {seen:?}");
        fs::remove_file(&commands).unwrap();
        let work = cabane.world.path("home/own/work");
        fs::set_permissions(&work, fs::Permissions::from_mode(0o775)).unwrap();
        let seen = cabane.run(&[&again[..], &[&own, &recipe, BUILT]].concat());
        let printed =
            "home/own/work: others can change it\nhint: `chmod go-w [WORLD]/home/own/work`";
        assert!(seen.code == 7 && seen.stderr.contains(printed), "{who:?}: {seen:?}");
        assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "text");
        assert_eq!(fs::metadata(&victim).unwrap().permissions().mode() & 0o7777, 0o777);
    }
}

#[test]
fn a_program_of_an_image_that_would_be_one_of_the_host_is_refused() {
    for who in everybody() {
        let cabane = with_root(who);
        symlink("/proc/self/exe", cabane.world.path("os/usr/bin/me")).unwrap();
        cabane.world.file("os/usr/bin/script", "#!/usr/bin/me\n");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(cabane.world.path("os/usr/bin/script"), mode).unwrap();
        for command in ["[/usr/bin/me, --version]", "[me]", "[script]"] {
            let seen = build(&cabane, &[command]);
            let printed = "/usr/bin/me of the image is a link through `/proc`";
            assert!(seen.code == 7 && seen.stderr.contains(printed), "{who:?}: {seen:?}");
        }
        let shell = cabane.world.path("os/usr/bin/sh");
        fs::remove_file(&shell).unwrap();
        symlink("/proc/self/exe", &shell).unwrap();
        let seen = build_anew(&cabane, &["echo"]);
        let printed = "/bin/sh of the image is a link through `/proc`";
        assert!(seen.code == 7 && seen.stderr.contains(printed), "{who:?}: {seen:?}");
    }
}

#[test]
fn a_layer_is_on_the_disk_before_the_document_that_calls_it_whole() {
    let strace = cabane_testkit::needs!("strace");
    let cabane = with_root(Who::OrdinaryUser);
    let recipe = recipe(&cabane, &["echo 1 >/first"]);
    let log = cabane.world.path("home/trace");
    let mut build = cabane.other(&strace.to_string_lossy());
    build.args(["-f", "-qq", "-e", "trace=syncfs,/^rename", "-o"]).arg(&log);
    cabane.finish(build.args([cabane.program(), "build", &recipe, BUILT])).success();
    let trace = fs::read_to_string(log).unwrap();
    let (synced, done) = (trace.find("syncfs("), trace.find("done.json"));
    assert!(synced.is_some() && synced < done, "{trace}");
}

#[test]
fn commands_start_in_the_working_directory_of_the_recipe() {
    let cabane = with_root(Who::OrdinaryUser);
    let build = |directory: &str| {
        let section = format!("  working-directory: {directory}\n");
        let recipe = recipe_with(&cabane, &section, &["pwd >/seen"]);
        cabane.run(&["build", &recipe, BUILT, "--replace"]).success();
        content(&cabane, BUILT, "seen")
    };
    assert_eq!(build("/usr/bin"), "/usr/bin\n");
    // It is made if it is not there, and the command runs again.
    assert_eq!(build("/srv/new"), "/srv/new\n");
}

#[test]
fn nothing_that_a_command_left_behind_goes_on() {
    for who in everybody() {
        let cabane = with_root(who);
        let text = format!("1000.{}", std::process::id() + 17);
        let command = format!("(exec 3>/left; sleep {text}) & sleep {text} & echo started >/seen");
        build(&cabane, &[&command]).success();
        assert!(!cabane_testkit::is_running(&text), "{who:?}");
    }
}

#[test]
fn a_build_that_is_killed_leaves_no_process_and_goes_on_after_the_last_command() {
    for who in everybody() {
        let cabane = with_root(who);
        let text = format!("1000.{}", std::process::id() + 19);
        let command = format!("sleep {text} & sleep {text}");
        let recipe = recipe(&cabane, &["echo 1 >/first", &command]);
        let mut child = cabane.command(&["build", &recipe, BUILT]).spawn().unwrap();
        cabane_testkit::wait_until(&format!("sleep {text}"), true);
        child.kill().unwrap();
        child.wait().unwrap();
        cabane_testkit::wait_until(&text, false);
        let seen = build(&cabane, &["echo 1 >/first", "echo 2 >/second"]).success();
        assert!(seen.stderr.contains("[1/2] as before"), "{who:?}: {}", seen.stderr);
    }
}

#[test]
fn a_site_can_forbid_the_network_and_no_user_can_allow_it() {
    let cabane = with_root(Who::OrdinaryUser);
    let recipe = recipe(&cabane, &["echo 1", "{command: echo 2, network: true}"]);
    cabane.run(&["build", &recipe, BUILT]).success();
    cabane.world.file("home/.config/cabane/config.toml", "[build]\ncommand_network = \"forbid\"\n");
    let seen = cabane.run(&["build", &recipe, BUILT]);
    let printed = "config.yaml:7: this command needs the network, but `build.command_network` \
                   forbids it";
    assert!(seen.code == 7 && seen.stderr.contains(printed), "{seen:?}");
    // The site forbids, and the user allows.
    cabane.world.file("site.toml", "[build]\ncommand_network = \"forbid\"\n");
    cabane.world.file("home/.config/cabane/config.toml", "[build]\ncommand_network = \"allow\"\n");
    let seen = cabane.run(&["build", "--from=run", &recipe, BUILT]);
    assert!(seen.code == 7 && seen.stderr.contains(printed), "{seen:?}");
    let seen = cabane.run(&["config"]).success().stdout;
    let line = seen.lines().find(|line| line.starts_with("build.command_network"));
    let line = line.unwrap_or_default();
    assert!(line.contains("forbid") && line.contains("site.toml"), "{seen}");
}

#[test]
fn a_command_that_may_use_the_network_sees_that_of_the_host() {
    for who in everybody() {
        let cabane = with_root(who);
        let command = "{command: readlink /proc/self/ns/net >/seen, network: true}";
        build(&cabane, &[command]).success();
        let outside = fs::read_link("/proc/self/ns/net").unwrap();
        assert_eq!(content(&cabane, BUILT, "seen").trim(), outside.to_string_lossy(), "{who:?}");
    }
}

#[test]
fn the_packages_and_the_commands_are_noted() {
    let cabane = with_root(Who::OrdinaryUser);
    let status = "printf 'Package: jq\\nStatus: install ok installed\\nVersion: 1.6-2\\n\\n'";
    let first = format!("mkdir -p /var/lib/dpkg; {status} >/var/lib/dpkg/status");
    build(&cabane, &[&format!("|\n      {first}")]).success();
    let seen = content(&cabane, BUILT, "meta/packages.json");
    assert!(seen.contains("\"jq\"") && seen.contains("1.6-2"), "{seen}");
    let lock = build_directory(&cabane).join("work/lock/packages.json");
    assert!(fs::read_to_string(lock).unwrap().contains("\"manager\": \"dpkg\""));
    let record: Value = serde_json::from_str(&content(&cabane, BUILT, "meta/import.json")).unwrap();
    assert_eq!(record["commands"][0]["command"], format!("{first}\n"));
    let again = first.replace("1.6-2", "1.7");
    let recipe = recipe(&cabane, &[&format!("|\n      {again}")]);
    cabane.run(&["build", &recipe, "newer/1.0"]).success();
    let seen = cabane.run(&["diff", "built", "newer"]);
    assert!(seen.stdout.contains("jq") && seen.stdout.contains("1.7"), "{seen:?}");
}

#[test]
fn what_commands_leave_in_the_build_directory_is_closed_to_others() {
    let cabane = with_root(Who::OrdinaryUser);
    build(&cabane, &["cp /bin/sh /su; chmod 4755 /su; stat -c %a /su >/seen"]).success();
    assert_eq!(content(&cabane, BUILT, "seen"), "4755\n");
    let commands = build_directory(&cabane).join("work/commands");
    assert_eq!(fs::metadata(commands).unwrap().permissions().mode() & 0o777, 0o700);
    let modes = output(&cabane, "stat -c %a /su");
    assert_eq!(modes, "755\n");
}

#[test]
fn a_full_disk_is_said_to_be_one() {
    let cabane = with_root(Who::OrdinaryUser);
    // What the kernel says where nothing is left.
    let seen = build(&cabane, &["cat /dev/zero >/dev/full"]);
    assert!(seen.code == 7 && seen.stderr.contains("no space is left for"), "{seen:?}");
}

#[test]
fn without_user_namespaces_the_error_says_what_is_missing() {
    let cabane = with_root(Who::OrdinaryUser);
    let recipe = recipe(&cabane, &["echo 1"]);
    cabane.run(&["build", "--until=base", &recipe]).success();
    // In a namespace of which no user may make further ones.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
    let mut build = cabane.other("unshare");
    build.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    build.arg(cabane.world.path("cabane")).args(["build", &recipe, BUILT]);
    let seen = cabane.finish(&mut build);
    assert!(
        seen.code == 7
            && seen.stderr.contains("cannot create a user namespace")
            && seen.stderr.contains("sysctl user.max_user_namespaces"),
        "{seen:?}"
    );
}

#[test]
fn a_name_that_hides_others_in_layers_is_refused() {
    let cabane = with_root(Who::OrdinaryUser);
    let seen = build(&cabane, &["touch /etc/.wh.passwd"]);
    assert!(seen.code == 7 && seen.stderr.contains("/etc/.wh.passwd"), "{seen:?}");
}

#[test]
fn commands_of_images_for_other_processors_are_refused() {
    let cabane = with_root(Who::OrdinaryUser);
    let recipe = recipe_with(&cabane, "  platform: linux/arm64\n", &["make"]);
    let seen = cabane.run(&["build", &recipe, BUILT]);
    let printed = "commands of an image for linux/arm64 cannot be run here, on linux/amd64";
    assert!(seen.code == 7 && seen.stderr.contains(printed), "{seen:?}");
}
