// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build` with recipes for Spack, up to the point where Spack is called, and
//! what follows when it fails or is done.
//!
//! In the place of Spack stands a script that answers as Spack does and writes what
//! Spack writes; builds with real Spack are in `spack_real.rs`.

use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_testkit::{Finished, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody, finished};

/// Answers as Spack does. Where the file `fail` in its directory names a command, that
/// one fails; with a file `links` its views are links, as they are before Spack 1.2.
pub(crate) const STAND_IN: &str = r###"#!/bin/sh
here=$(dirname "$(dirname "$0")")
while [ $# -gt 0 ]; do
    case $1 in -e | -C) scope=$2; shift 2 ;; *) break ;; esac
done
# Scripts ask it what it is, and what its views set.
case $2 in
*/about.py)
    echo '{"version": "1.3.0", "lock": 7, "database": "8", "solutions": true}' >"$3"
    exit ;;
*/views.py)
    set -- env "$3" ;;
*/concretize.py)
    set -- concretize ;;
esac
echo "spack $*" >>/tmp/called
env | sort >/tmp/variables
{ id -u; getent passwd "$(id -u)"; } >/tmp/user
if [ "$(cat "$here/fail")" = "$1" ]; then
    echo "==> Error: the $1 went wrong" >&2
    exit 1
fi
case $1 in
buildcache)
    [ ! "$SPACK_GNUPGHOME" ] || gpg --homedir "$SPACK_GNUPGHOME" --list-secret-keys >/tmp/keys-of-push ;;
concretize)
    version=$(cat "$here/version" 2>/dev/null || echo 1.0)
    echo '{"_meta": {"lockfile-version": 7}, "concrete_specs": {"abc": {"name": "hello", "version": "'$version'",
        "arch": {"platform": "linux", "target": "x86_64_v3"}}}}' >"$scope/spack.lock" ;;
python)
    [ ! -e "$here/answer" ] || cp "$here/answer" "$4" ;;
gc)
    shift
    echo "$*" >/tmp/cleaned ;;
install)
    if [ "$SPACK_GNUPGHOME" ]; then
        gpg --homedir "$SPACK_GNUPGHOME" --list-secret-keys >/tmp/keys-of-install
        cat /cabane/keys/* >>/tmp/keys-of-install
    fi
    prefix=linux-x86_64_v3/hello-1.0-abc
    mkdir -p "$MOUNT/$prefix/bin" "$MOUNT/$prefix/.spack" "$MOUNT/.spack-db" "$MOUNT/env"
    if [ -e "$here/links" ]; then
        mkdir -p "$MOUNT/env/._default/abc"
        ln -sfn "$MOUNT/env/._default/abc" "$MOUNT/env/default"
    fi
    mkdir -p "$MOUNT/env/default/bin"
    printf '#!/bin/sh\necho hello from a stack\n' >"$MOUNT/$prefix/bin/hello"
    chmod +x "$MOUNT/$prefix/bin/hello"
    ln -sf "$MOUNT/$prefix/bin/hello" "$MOUNT/env/default/bin/hello"
    date >"$MOUNT/$prefix/.spack/binary_distribution"
    echo "{\"$MOUNT/$prefix/bin/hello\": {\"mode\": 33261, \"owner\": $(id -u), \"group\": 0,
        \"hash\": \"X\", \"time\": $(date +%s.5), \"size\": 9}}" >"$MOUNT/$prefix/.spack/install_manifest.json"
    cat >"$MOUNT/.spack-db/index.json" <<END
{"database": {"version": "8", "installs": {
    "abc": {"path": "$MOUNT/$prefix", "explicit": true, "installation_time": $(date +%s), "spec": {
        "name": "hello", "version": "1.0", "parameters": {"greeting": "short", "loud": false},
        "arch": {"platform": "linux", "platform_os": "debian12", "target": "x86_64_v3"},
        "dependencies": [{"name": "gcc", "hash": "def", "parameters": {
            "deptypes": ["build"], "virtuals": ["c"]}}, {"name": "slurm", "hash": "ghi",
            "parameters": {"deptypes": ["link"]}}]}},
    "def": {"path": "/usr", "installation_time": 1, "spec": {"name": "gcc", "version": "12.2.0",
        "arch": {"target": "x86_64_v3"}, "external": {"path": "/usr"}}},
    "ghi": {"path": "/opt/slurm", "installation_time": 1, "spec": {"name": "slurm", "version": "23",
        "arch": {"target": "x86_64_v3"}, "external": {"path": "/opt/slurm"}}}}}}
END
    mkdir -p "$MOUNT/$prefix/.spack/sbom"
    cat >"$MOUNT/$prefix/.spack/sbom/spdx-2.3.json" <<'END'
{"packages": [{"name": "hello", "versionInfo": "1.0", "licenseDeclared": "MIT",
    "downloadLocation": "https://example.org/hello-1.0.tar.gz",
    "checksum": [{"algorithm": "SHA256", "checksumValue":
        "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"}]}]}
END
    ;;
env)
    echo "{\"default\": {\"PATH\": \"$MOUNT/env/default/bin:/usr/bin:/bin\"}}" >"$2" ;;
module)
    if [ -e "$scope/repos.yaml" ]; then
        echo "==> Error: there is no network to get package repositories" >&2
        exit 1
    fi
    mkdir -p "$MOUNT/modules/hello"
    echo "## Module file created by spack (there) on $(date)" >"$MOUNT/modules/hello/1.0" ;;
esac
"###;

/// A world with a recipe, a system, and what stands in the place of Spack.
pub(crate) struct Stack {
    pub(crate) cabane: Cabane,
}

impl Stack {
    pub(crate) fn new(who: Who) -> Self {
        let cabane = Cabane::new(who);
        let mount_point = cabane.mount_point("stack");
        let path = |name: &str| cabane.world.path(name).to_string_lossy().into_owned();
        let file = |name: &str, text: &str| cabane.world.file(name, text);
        file(
            "recipe/config.yaml",
            &format!(
                "name: stack\nstore: {mount_point}\nversion: 3\nspack:\n  repo: {}\n  packages:\n    \
                 repo: {}\n",
                path("home/clones/spack"),
                path("home/clones/packages"),
            ),
        );
        file("recipe/compilers.yaml", "gcc:\n  version: system\n");
        file(
            "recipe/environments.yaml",
            "tools:\n  compiler: [gcc]\n  specs: [hello]\n  views:\n    default:\n      uenv:\n        \
             env_vars:\n          set:\n            - STACK: $@mount@\n",
        );
        file(
            "system/packages.yaml",
            "packages:\n  gcc:\n    externals:\n    - spec: gcc@12.2.0\n      prefix: /usr\n      \
             extra_attributes:\n        compilers: {c: /usr/bin/gcc}\n",
        );
        let script = STAND_IN.replace("$MOUNT", &mount_point);
        file("spack/bin/spack", &script);
        file("spack/fail", "nothing\n");
        file("packages/repos/spack_repo/builtin/repo.yaml", "repo: {namespace: builtin}\n");
        let stack = Self { cabane };
        for repository in ["spack", "packages"] {
            stack.commit(repository);
        }
        stack
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.cabane.world.path(name).to_string_lossy().into_owned()
    }

    /// Makes a commit of all that is in a directory of the world.
    pub(crate) fn commit(&self, directory: &str) {
        let place = self.cabane.world.path(directory);
        let script = "mkdir -p $HOME/clones/$1; cd $HOME/clones/$1; [ -e .git ] || git init -q\n\
                      cp -r $2/. .; if [ -e bin ]; then chmod -R +x bin; fi; git add -A\n\
                      git -c user.name=x -c user.email=x@y commit -q --allow-empty -m all";
        let mut shell = self.cabane.other("sh");
        shell.args(["-e", "-c", script, "sh", directory]).arg(place);
        Finished::of(&mut shell).success();
    }

    /// Makes a command fail in the next builds.
    pub(crate) fn fail(&self, command: &str) {
        self.cabane.world.file("spack/fail", command);
        self.commit("spack");
    }

    pub(crate) fn command(&self, more: &[&str]) -> Command {
        let (recipe, system) = (self.path("recipe"), self.path("system"));
        let build = self.path("build");
        let arguments = ["build", "--system", &system, "--build-dir", &build, &recipe];
        let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
        let mut command = self.cabane.command(&arguments);
        // It is never started.
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        command
    }

    pub(crate) fn build(&self, more: &[&str]) -> Finished {
        self.cabane.finish(&mut self.command(more))
    }

    /// The commands of Spack that were called since the last call, without scripts.
    pub(crate) fn called(&self) -> Vec<String> {
        let path = self.cabane.world.path("build/tmp/called");
        let called = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        let first = |line: &str| line.split(' ').nth(1).map(str::to_owned);
        called.lines().filter_map(first).filter(|command| command != "python").collect()
    }

    pub(crate) fn remove_build(&self) {
        fs::remove_dir_all(self.cabane.world.path("build")).unwrap();
    }

    /// A file of the metadata.
    pub(crate) fn meta(&self, name: &str) -> Value {
        let text = fs::read(self.cabane.world.path("build/meta").join(name)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    pub(crate) fn digest(&self) -> String {
        let ls = ["image", "ls", "--format={digest}"];
        self.cabane.run(&ls).success().stdout
    }
}

#[test]
fn a_stack_is_built_and_its_view_is_entered() {
    for who in everybody() {
        let stack = Stack::new(who);
        stack.build(&["stack/1.0"]).success();
        let script =
            "hello; readlink -f $(which gcc); [ $STACK = $UENV_MOUNT_LIST ] || echo $STACK";
        let seen = stack.cabane.run(&["run", "--view=default", "stack", "--", "sh", "-c", script]);
        let lines: Vec<_> = seen.success().stdout.lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "hello from a stack", "as {who:?}");
        assert!(lines[1].contains("gcc"), "as {who:?}: {lines:?}");
    }
}

#[test]
fn the_steps_of_a_stack_call_spack_in_their_order_and_once() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), ["concretize", "install", "env"]);
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), Vec::<String>::new());
}

#[test]
fn a_failure_of_any_step_is_shown_and_the_next_build_goes_on_there() {
    let steps = ["concretize", "install", "env"];
    for (number, step) in steps.into_iter().enumerate() {
        let stack = Stack::new(Who::OrdinaryUser);
        stack.fail(step);
        let failed = stack.build(&["stack/1.0"]);
        assert_eq!(failed.code, 7, "{failed:?}");
        let expected = format!("  ==> Error: the {step} went wrong\n");
        assert!(failed.stderr.contains(&expected), "{failed:?}");
        assert_eq!(stack.called(), steps[..=number]);
        // The same commit fails again, and what was done before is not done again.
        stack.build(&["stack/1.0"]);
        assert_eq!(stack.called(), steps[number..=number]);
    }
}

#[test]
fn a_build_that_is_stopped_or_killed_leaves_no_process() {
    for (who, number, signal) in everybody()
        .into_iter()
        .zip(0..)
        .flat_map(|(who, number)| [(who, number, Signal::INT), (who, number + 5, Signal::KILL)])
    {
        let stack = Stack::new(who);
        // As Spack does, in a group and a session of its own.
        let worker = format!("sleep 200{number}.{}", std::process::id());
        let script = format!("#!/bin/sh\nsetsid sh -c '{worker} & {worker}; true' &\nwait\n");
        stack.cabane.world.file("spack/bin/spack", &script);
        stack.commit("spack");
        let mut build = stack.command(&["stack/1.0"]).spawn().unwrap();
        wait_until(&worker, true);
        kill_process(Pid::from_child(&build), signal).unwrap();
        let code = build.wait().unwrap().code();
        assert!(signal == Signal::KILL || code == Some(130), "{code:?}");
        // Anyone who adopted it has to notice.
        wait_until(&worker, false);
    }
}

#[test]
fn a_build_stops_where_requested_and_resumes_from_there() {
    let stack = Stack::new(Who::OrdinaryUser);
    let stopped = stack.build(&["--until", "install", "stack/1.0"]).success();
    assert!(
        stopped.stderr.ends_with(
            "stopped after `install`; the build is in [WORLD]/build\n\
             hint: the same command without `--until` continues\n"
        ),
        "{}",
        stopped.stderr
    );
    assert_eq!((stack.called(), stack.digest()), (calls("concretize install"), String::new()));
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), ["env"]);
}

#[test]
fn nothing_is_added_after_the_last_step_if_the_build_was_to_stop_there() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["--until=pack"]).success();
    assert_eq!(stack.digest(), "");
}

#[test]
fn steps_are_done_again_from_the_requested_one() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    stack.called();
    for (from, expected) in [
        ("views", "env"),
        ("install", "install env"),
        ("concretize", "concretize install env"),
        ("pack", ""),
    ] {
        let built = stack.build(&["--from", from, "stack/1.0"]).success().stderr;
        assert_eq!(stack.called(), calls(expected), "--from {from}");
        assert!(built.contains("pack"), "--from {from}: {built}");
    }
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), calls(""));
}

#[test]
fn a_plan_says_which_steps_are_done_on_request() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let plan = stack.build(&["--dry-run", "--from=views", "--until=metadata"]);
    let states: Vec<&str> = plan
        .stdout
        .lines()
        .filter_map(|line| line.rsplit_once('(').filter(|_| !line.starts_with("recipe")))
        .map(|(_, state)| state)
        .collect();
    let requested = "to do: it is requested)";
    assert_eq!(states, ["done)", "done)", "done)", requested, requested], "{plan:?}");
}

#[test]
fn a_build_cannot_begin_after_its_end() {
    let stack = Stack::new(Who::OrdinaryUser);
    let refused = stack.build(&["--from", "pack", "--until", "install", "stack/1.0"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let expected = "`pack` comes after `install`, where the build is to stop";
    assert!(refused.stderr.contains(expected), "{refused:?}");
}

#[test]
fn a_step_that_does_not_exist_is_answered_with_those_that_do() {
    let stack = Stack::new(Who::OrdinaryUser);
    for option in ["--from", "--until"] {
        let refused = stack.build(&[option, "instal", "stack/1.0"]);
        assert_eq!(
            refused,
            finished(
                2,
                "",
                "error: there is no step `instal` in this build\n\
                 hint: its steps are sources, concretize, install, views, metadata, pack\n"
            )
        );
    }
}

#[test]
fn spack_keeps_what_it_built_from() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["--keep", "stack/1.0"]).success();
    let called = fs::read_to_string(stack.path("build/tmp/called")).unwrap();
    assert!(called.contains("--keep-stage"), "{called}");
    stack.called();
    // It is the same image.
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), calls(""));
}

fn calls(arguments: &str) -> Vec<String> {
    arguments.split_whitespace().map(str::to_owned).collect()
}

/// Lines of Spack's installer about the package of the stand-in.
const BUILT: &str = "\
echo '[ ] abc2345 hello@1.0 fetching from build cache (0s)'
echo '[ ] abc2345 hello@1.0 staging (0s)'
echo '[ ] abc2345 hello@1.0 build (3s)'
echo '[+] abc2345 hello@1.0 /mnt/hello (9s)'
";

impl Stack {
    /// Lets Spack do something before it installs.
    pub(crate) fn before_installing(&self, script: &str) {
        let spack = STAND_IN.replace("abc", "abc2345");
        let spack = spack.replace("\ninstall)\n", &format!("\ninstall)\n{script}"));
        let spack = spack.replace("$MOUNT", &self.cabane.mount_point("stack"));
        self.cabane.world.file("spack/bin/spack", &spack);
        self.commit("spack");
    }
}

#[test]
fn every_installed_package_is_shown_and_what_it_took_is_known_the_next_time() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.before_installing(BUILT);
    let reported = stack.build(&["stack/1.0"]).success().stderr;
    assert!(reported.contains("✓ hello@1.0  built 1 s (1 of 1)\n"), "{reported}");
    let cache = stack.path("home/.cache/cabane/spack/durations-1");
    let known = fs::read_to_string(cache).unwrap();
    assert!(known.starts_with("built hello 1.0 abc2345 "), "{known}");
}

#[test]
fn a_package_that_fails_is_named_and_the_end_of_its_own_log_is_shown() {
    for who in everybody() {
        let stack = Stack::new(who);
        let script = "\
            mkdir -p /tmp/stage; seq 30 >/tmp/stage/a.log; echo 'no such header' >>/tmp/stage/a.log\n\
            echo '[ ] abc2345 hello@1.0 build (3s)'\n\
            echo '[x] abc2345 hello@1.0 failed: /tmp/stage/a.log (9s)'\n\
            echo '==> Error: The following packages failed to install:'; exit 1\n";
        stack.before_installing(script);
        let failed = stack.build(&["stack/1.0"]);
        let log = "build/logs/hello-1.0-abc2345.log";
        let expected = format!(
            "error: step `install` failed: hello@1.0 was not built\n{}\n  no such header\n\
             hint: the whole log is in [WORLD]/{log}\n",
            (12..=30).map(|number| format!("  {number}")).collect::<Vec<_>>().join("\n"),
        );
        assert!(failed.stderr.ends_with(&expected), "as {who:?}: {}", failed.stderr);
        let kept = fs::read_to_string(stack.path(log)).unwrap();
        assert_eq!(kept.lines().count(), 31, "as {who:?}");
    }
}

#[test]
fn nothing_of_the_users_own_reaches_spack() {
    let stack = Stack::new(Who::OrdinaryUser);
    let mut command = stack.command(&["stack/1.0"]);
    command.env("SPACK_ROOT", "/elsewhere").env("CC", "clang");
    Finished::of(&mut command).success();
    let variables = fs::read_to_string(stack.cabane.world.path("build/tmp/variables")).unwrap();
    assert!(!variables.contains("elsewhere") && !variables.contains("clang"), "{variables}");
    let home = variables.lines().find(|line| line.starts_with("HOME="));
    assert_eq!(home, Some("HOME=/cabane/home"));
}

#[test]
fn a_user_whom_no_database_knows_has_a_name_for_spack() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    let user = fs::read_to_string(stack.cabane.world.path("build/tmp/user")).unwrap();
    let (number, entry) = user.split_once('\n').unwrap();
    assert_eq!(entry.split(':').nth(2), Some(number), "{user:?}");
}

#[test]
fn a_concretization_is_kept_for_other_build_directories() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    stack.remove_build();
    stack.build(&["stack/1.1"]).success();
    assert_eq!(stack.called(), ["install", "env"]);
}

#[test]
fn when_and_how_packages_came_does_not_change_the_image() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack
        .cabane
        .world
        .file("recipe/modules.yaml", "modules:\n  default:\n    arch_folder: false\n");
    stack.build(&["stack/1.0"]).success();
    let before = stack.digest();
    stack.remove_build();
    // The stand-in writes the time into several files.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.digest(), before);
}

#[test]
fn module_files_are_looked_for_where_their_kind_has_its_first() {
    for (kinds, path) in [
        ("tcl", "MOUNT/modules"),
        ("lmod", "MOUNT/modules/Core"),
        ("lmod, tcl", "MOUNT/modules/Core:MOUNT/modules"),
    ] {
        let stack = Stack::new(Who::OrdinaryUser);
        let text = format!("modules:\n  default:\n    enable: [{kinds}]\n    arch_folder: false\n");
        stack.cabane.world.file("recipe/modules.yaml", &text);
        stack.build(&["stack/1.0"]).success();
        let arguments = ["run", "--view=modules", "stack", "--", "printenv", "MODULEPATH"];
        let seen = stack.cabane.run(&arguments).success().stdout;
        let mount = stack.cabane.mount_point("stack");
        let seen = seen.trim().replace(&stack.cabane.world.blank(&mount), "MOUNT");
        assert_eq!(seen.replace(&mount, "MOUNT"), path, "{kinds}");
    }
}

#[test]
fn a_view_that_is_a_link_gets_everything_that_a_directory_gets() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.cabane.world.file("spack/links", "");
    stack.commit("spack");
    stack.build(&["stack/1.0"]).success();
    let script = "hello; grep -o '^export PATH' $PREFIX/activate.sh";
    let script =
        script.replace("$PREFIX", &format!("{}/env/default", stack.cabane.mount_point("stack")));
    let arguments = ["run", "--view=default", "stack/1.0", "--", "sh", "-c", &script];
    let seen = stack.cabane.run(&arguments).success().stdout;
    assert_eq!(seen, "hello from a stack\nexport PATH\n");
}

#[test]
fn scripts_of_the_recipe_run_with_their_places_filled_in() {
    let stack = Stack::new(Who::OrdinaryUser);
    let recipe = |name: &str, text: &str| stack.cabane.world.file(&format!("recipe/{name}"), text);
    recipe(
        "pre-install",
        "#!/bin/sh\necho before >>/tmp/hooks; ls {{ env.build }}/config >/dev/null\n",
    );
    recipe("post-install", "#!/bin/sh\necho after >>/tmp/hooks; echo data >{{ env.mount }}/note\n");
    stack.build(&["stack/1.0"]).success();
    let hooks = fs::read_to_string(stack.cabane.world.path("build/tmp/hooks")).unwrap();
    assert_eq!(hooks, "before\nafter\n");
    assert!(Path::new(&stack.path("build/store/note")).exists());
}
