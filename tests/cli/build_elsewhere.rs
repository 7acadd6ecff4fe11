// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds on a host: a real server of ssh on this machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{
    Finished, ORDINARY_USER, RealRegistry, Server, Tree, again_in_private_world,
    can_have_private_world, free_port, not_run, run_as_root, time_limit,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::cabane::{Cabane, Who};

/// Says that the test is already inside of its private world.
const BUILT: &str = "nothing has changed: the image is already built";
const INSIDE: &str = "CABANE_TEST_CLI_ELSEWHERE";
/// Where the tools of a build and the test meet: builds see it, and it is gone with the test.
pub(crate) const MEET: &str = "/mnt/meet";
const REGISTRY: &str = "CABANE_TEST_DOCKER_REGISTRY";

/// The `ssh` of the user: the real one. It notes its number and what it is asked, and cuts the connection
/// after some bytes if the file `cut` says so.
const SSH: &str = r#"#!/usr/bin/python3
import os, subprocess, sys, threading
world = "WORLD"
left = None
try:
    os.rename(world + "/cut", world + "/cut.taken")
    left = int(open(world + "/cut.taken").read())
except FileNotFoundError:
    pass
ssh = subprocess.Popen(["/usr/bin/ssh", "-F", world + "/ssh_config"] + sys.argv[1:],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
open(world + "/words", "a").write(" ".join(sys.argv[1:]) + "\n")
open(world + "/ssh.numbers", "a").write("%d\n" % ssh.pid)
def ask():
    while data := os.read(0, 65536):
        open(world + "/asked", "ab").write(data)
        try:
            ssh.stdin.write(data)
            ssh.stdin.flush()
        except BrokenPipeError:
            return
    ssh.stdin.close()
threading.Thread(target=ask, daemon=True).start()
while left is None or left > 0:
    data = os.read(ssh.stdout.fileno(), 65536 if left is None else min(left, 65536))
    if not data:
        break
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    left = None if left is None else left - len(data)
if left is not None:
    ssh.kill()
os._exit(ssh.wait() & 255)
"#;

/// Packs when it may, and says so; or fails.
const MKSQUASHFS: &str = "#!/bin/sh
[ \"$1\" = -version ] && exec /usr/bin/mksquashfs -version
echo packed >>MEET/packed
while [ -e MEET/wait ]; do sleep 0.05; done
[ ! -e MEET/fail ] || exit 3
exec /usr/bin/mksquashfs \"$@\"
";

/// A user with a host to build on.
pub(crate) struct Scene {
    pub(crate) cabane: Cabane,
    pub(crate) recipe: String,
    pub(crate) sshd: Server,
}

/// Runs a test in a private world, with a host called `builder`.
pub(crate) fn with_host<F: FnOnce(&Scene)>(test: F) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/ssh");
    let Ok(ssh) = place.canonicalize() else {
        not_run!("needs the server of ssh: scripts/setup test");
    };
    if !can_have_private_world() {
        not_run!("a server for another user can only be had as root, or where `sudo -n` works");
    }
    if std::env::var_os(INSIDE).is_none() {
        return again_in_private_world::<F>(INSIDE, &[REGISTRY]);
    }
    run_as_root(&format!(
        "mount -t tmpfs -o mode=755 tmpfs /mnt
         mount -t tmpfs -o mode=755 tmpfs /run
         mkdir -m 777 {MEET}
         cp /etc/passwd /mnt/passwd
         echo tester:x:{ORDINARY_USER}:{ORDINARY_USER}::/:/bin/sh >>/mnt/passwd
         mount --bind /mnt/passwd /etc/passwd"
    ));
    test(&Scene::new(&ssh));
}

impl Scene {
    fn new(ssh: &Path) -> Self {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let world = &cabane.world;
        let recipe = world.path("recipe");
        let _files = Tree::new(world.path("recipe/files")).program("bin/hello", "echo hello");
        world.file(
            "recipe/config.yaml",
            "name: app\nengine: tree\nstore: /user-environment\ntree: {source: files}\n\
             views:\n  default:\n    env_vars:\n      prepend_path:\n        - PATH: $@mount@/bin\n",
        );
        for name in ["remote/bin", "remote/home", "local/bin", "sshd"] {
            chown(world.directory(name), Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
        }
        fs::hard_link(cabane.program(), world.path("remote/bin/cabane")).unwrap();
        program(&cabane, "remote/bin/mksquashfs", &MKSQUASHFS.replace("MEET", MEET));
        program(
            &cabane,
            "local/bin/ssh",
            &SSH.replace("WORLD", world.path("").to_str().unwrap().trim_end_matches('/')),
        );
        let recipe = recipe.to_str().unwrap().to_owned();
        let sshd = serve(&cabane, ssh);
        Self { cabane, recipe, sshd }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.cabane.world.path(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.cabane.command(arguments);
        let path = format!("{}:/usr/bin:/bin:/usr/sbin", self.path("local/bin").display());
        command.env("PATH", path);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.cabane.finish(&mut self.command(arguments))
    }

    /// The command of most tests.
    pub(crate) fn build(&self) -> Finished {
        self.run(&["build", "--on", "builder", &self.recipe, "app/1.0"])
    }

    /// Starts it, and waits until the build at the other end waits.
    pub(crate) fn begin(&self) -> Running {
        meet("wait");
        let mut command = self.command(&["build", "--on", "builder", &self.recipe, "app/1.0"]);
        let errors = fs::File::create(self.path("errors")).unwrap();
        let child = command.stdin(Stdio::null()).stderr(errors).spawn().unwrap();
        wait_until(|| packed() > 0);
        Running { child, errors: self.path("errors") }
    }

    pub(crate) fn digest(&self, label: &str) -> String {
        self.run(&["image", "ls", label, "--format={digest}"]).success().stdout
    }

    /// The directories of builds at the other end.
    pub(crate) fn builds(&self) -> Vec<PathBuf> {
        let all = self.path("remote/home/.cache/cabane/elsewhere/builds");
        let entries = fs::read_dir(all).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// The name of the build at the other end.
    pub(crate) fn id(&self) -> String {
        let [build] = &self.builds()[..] else { panic!("{:?}", self.builds()) };
        build.file_name().unwrap().to_str().unwrap().to_owned()
    }
}

/// A command that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) errors: PathBuf,
}

impl Running {
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.errors())
    }
}

/// Starts a server of ssh as the ordinary user, who may log in.
fn serve(cabane: &Cabane, ssh: &Path) -> Server {
    let world = &cabane.world;
    let of = |name: &str| world.path(&format!("sshd/{name}")).display().to_string();
    for name in ["host", "id"] {
        let mut keygen = Command::new("ssh-keygen");
        Finished::of(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &of(name)])).success();
        chown(of(name), Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    }
    let port = free_port();
    let path = |name: &str| world.path(name).display().to_string();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         UsePAM no\nStrictModes no\nPasswordAuthentication no\n\
         SetEnv PATH={}:/usr/bin:/bin:/usr/sbin HOME={} CABANE_SITE_CONFIG={} CABANE_SYSTEM=there \
         CABANE_MEMORY_DIR={} CABANE_HELPER={}\n",
        of("host"),
        of("id.pub"),
        path("remote/bin"),
        path("remote/home"),
        path("remote/site.toml"),
        path("remote/memory"),
        path("no-helper"),
    );
    world.file("sshd/config", &config);
    world.file(
        "ssh_config",
        &format!(
            "Host builder slurm\nHostName 127.0.0.1\nPort {port}\nUser tester\nIdentityFile {}\n\
             UserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n",
            of("id")
        ),
    );
    let user = ORDINARY_USER.to_string();
    let mut command = Server::command("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
    command.arg(ssh.join("usr/sbin/sshd")).args(["-D", "-e", "-f", &of("config")]);
    let libraries = format!("{}-linux-gnu", std::env::consts::ARCH);
    command.env("LD_LIBRARY_PATH", ssh.join("usr/lib").join(libraries));
    let mut server = Server::start(command, &world.path("sshd.log"));
    server.wait_for_port(port);
    server
}

pub(crate) fn program(cabane: &Cabane, name: &str, text: &str) {
    let path = cabane.world.path(name);
    let _ = fs::remove_file(&path);
    let path = cabane.world.file(name, text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn meet(name: &str) {
    fs::write(Path::new(MEET).join(name), "").unwrap();
}

pub(crate) fn part(name: &str) {
    fs::remove_file(Path::new(MEET).join(name)).unwrap();
}

/// How often something was packed at the other end.
pub(crate) fn packed() -> usize {
    let text = fs::read_to_string(Path::new(MEET).join("packed")).unwrap_or_default();
    text.lines().count()
}

pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < time_limit(Duration::from_secs(60)), "it does not happen");
        sleep(Duration::from_millis(20));
    }
}

pub(crate) fn signal(number: u32, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

#[test]
fn an_image_that_is_built_on_a_host_is_the_one_that_is_built_here() {
    with_host(|scene| {
        let seen = scene.build().success();
        let lines = ["started the build ", " on builder\n", "[1/2] metadata…\n", "[2/2] pack…\n"];
        assert!(lines.iter().all(|line| seen.stderr.contains(line)), "{}", seen.stderr);
        // The system is that of the host.
        let added = seen.stderr.contains("added app/1.0:v1@there%x86_64 (");
        assert!(
            added && seen.stderr.ends_with("hint: `cabane start app/1.0:v1`\n"),
            "{}",
            seen.stderr
        );
        scene.run(&["build", &scene.recipe, "app/2.0"]).success();
        assert_eq!(scene.digest("app/1.0@there"), scene.digest("app/2.0"));
        let run = scene.run(&["run", "app/1.0@there", "--", "hello"]).success();
        assert_eq!(run.stdout, "hello\n");
        assert_eq!(scene.builds(), [] as [PathBuf; 0]);
        // The same command has nothing to do, and a changed recipe is another build.
        let again = scene.build().success();
        assert!(again.stderr.contains(BUILT) && packed() == 1, "{}", again.stderr);
        scene.cabane.world.file("recipe/files/more", "more");
        scene.build().success();
        assert!(packed() == 2 && scene.digest("app/1.0@there") != scene.digest("app/2.0"));
        // A host that is called as the other place is reached, too.
        let output = scene.path("home/app.squashfs");
        let output = output.to_str().unwrap();
        let seen =
            scene.run(&["build", "--on=ssh:slurm", &scene.recipe, "--output", output]).success();
        assert!(seen.stderr.contains("wrote [WORLD]/home/app.squashfs ("), "{}", seen.stderr);
        assert!(fs::read(output).unwrap().starts_with(b"hsqs"));
    });
}

#[test]
fn what_is_not_carried_is_looked_at_again() {
    with_host(|scene| {
        let tree = Path::new(MEET).join("tree");
        let _files = Tree::new(tree.clone()).program("bin/hello", "echo hello");
        let config = format!("name: app\nengine: tree\ntree: {{source: {}}}\n", tree.display());
        scene.cabane.world.file("recipe/config.yaml", &config);
        let first = scene.build().success();
        let id = first.stderr.split("started the build ").nth(1).unwrap();
        let id = id.split(' ').next().unwrap();
        let digest = scene.digest("app/1.0@there");
        fs::write(tree.join("more"), "more").unwrap();
        scene.build().success();
        assert!(packed() == 2 && scene.digest("app/1.0@there") != digest);
        let again = scene.build().success();
        assert!(again.stderr.contains(BUILT) && packed() == 2, "{}", again.stderr);
        let digest = scene.digest("app/1.0@there");
        let push = ["build", "--cancel", id, "--push", "dev", "--registry", "http://127.0.0.1:1/x"];
        let seen = scene.run(&push).success();
        let says = format!("the build {id} has ended, and its image is here\n");
        assert!(seen.stderr.starts_with(&says) && !seen.stderr.contains("push"), "{}", seen.stderr);
        assert_eq!(scene.run(&["build", "--cancel", id]).code, 4);
        assert_eq!(scene.digest("app/1.0@there"), digest);
    });
}

#[test]
fn what_is_carried_is_private_and_the_system_comes_along() {
    with_host(|scene| {
        scene.cabane.world.file("home/.config/cabane/systems/alpha/compilers.yaml", "{}\n");
        scene.cabane.world.file("recipe/secret.txt", "recipe");
        meet("wait");
        let on = ["build", "--on", "builder", "--detach", "--system", "alpha"];
        let seen = scene.run(&[&on[..], &[&scene.recipe, "app/1.0"]].concat()).success();
        let id = scene.id();
        assert!(seen.stderr.contains(&format!("hint: `cabane build --attach {id}` follows")));
        let [build] = &scene.builds()[..] else { panic!() };
        for directory in [build.as_path(), build.parent().unwrap()] {
            let mode = fs::metadata(directory).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", directory.display());
        }
        assert!(
            build.join("system/compilers.yaml").exists()
                && build.join("recipe/secret.txt").exists()
        );
        let list = scene.run(&["build", "--list"]).success().stdout;
        assert!(list.contains(&id) && list.contains("app/1.0:v1@alpha"), "{list}");
        part("wait");
        let done = scene.run(&["build", "--attach", &id]).success();
        assert!(done.stderr.contains("added app/1.0:v1@alpha%x86_64 ("), "{}", done.stderr);
        let list = scene.run(&["build", "--list"]).success().stdout;
        assert!(!list.contains(&id), "{list}");
        // Others on both machines see no more than this of it.
        let words = fs::read_to_string(scene.path("words")).unwrap();
        let expected =
            "-T -o BatchMode=yes -o ServerAliveInterval=15 -- builder cabane build-worker serve";
        assert!(words.lines().all(|line| line == expected), "{words}");
        let unknown = scene.run(&["build", "--attach", "0123456789abcdef"]);
        assert_eq!(unknown.code, 4, "{}", unknown.stderr);
    });
}

#[test]
fn a_build_that_fails_there_fails_here_in_the_same_way() {
    with_host(|scene| {
        meet("fail");
        let failed = scene.build();
        assert_eq!(failed.code, 7, "{}", failed.stderr);
        let says = [
            "error: step `pack` failed: ",
            "hint: on builder: the whole log is in [WORLD]/remote/",
        ];
        assert!(says.iter().all(|line| failed.stderr.contains(line)), "{}", failed.stderr);
        part("fail");
        // The build begins where it failed.
        let seen = scene.build().success();
        let steps = !seen.stderr.contains("metadata…") && seen.stderr.contains("[2/2] pack…");
        assert!(steps && packed() == 2, "{}", seen.stderr);
        // What another failure leaves there is a leftover of a build.
        scene.cabane.world.file("recipe/files/more", "more");
        meet("fail");
        scene.build();
        assert_eq!(scene.builds().len(), 1);
        let clean = ["-F", "ssh_config", "builder", "cabane", "clean"].map(|word| {
            if word == "ssh_config" {
                scene.path(word).display().to_string()
            } else {
                word.to_owned()
            }
        });
        let mut ssh = scene.cabane.other("/usr/bin/ssh");
        scene.cabane.finish(ssh.args(clean)).success();
        assert_eq!(scene.builds(), [] as [PathBuf; 0]);
        scene.cabane.world.file("recipe/config.yaml", "name: app\nengine: tre\n");
        let wrong = scene.build();
        assert!(wrong.code == 3 && wrong.stderr.contains("config.yaml:2:9"), "{}", wrong.stderr);
    });
}

#[test]
fn a_host_without_the_program_or_with_an_old_one_says_what_to_do() {
    with_host(|scene| {
        let there = scene.path("remote/bin/cabane");
        fs::rename(&there, scene.path("remote/cabane")).unwrap();
        let missing = scene.build();
        assert_eq!(missing.code, 4, "{}", missing.stderr);
        let says = ["error: there is no `cabane` on builder", "`--remote-program PATH`"];
        assert!(says.iter().all(|line| missing.stderr.contains(line)), "{}", missing.stderr);
        // Nothing is remembered of a build that never began.
        assert_eq!(scene.run(&["build", "--list"]).success().stdout, "");
        let old = "#!/bin/sh\n[ \"$1\" = --version ] || exit 2\necho 'cabane 0.1.7'\n";
        program(&scene.cabane, "remote/bin/cabane", old);
        let seen = scene.build();
        let expected = format!(
            "error: cabane 0.1.7 on builder is too old: this is cabane {}\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(seen.code == 1 && seen.stderr.contains(&expected), "{}", seen.stderr);
        let greeting = |version: &str, protocol: u32| {
            let hello = format!(r#"{{"version":"{version}","protocol":{protocol}}}"#);
            let text =
                format!("#!/bin/sh\necho welcome\necho 'cabane-build-worker {hello}'\ncat\n");
            program(&scene.cabane, "remote/bin/cabane", &text);
            scene.build().stderr
        };
        let seen = greeting("0.1.9", 1);
        assert!(seen.contains("cabane 0.1.9 on builder is too old"), "{seen}");
        let seen = greeting("9.1.0", 2);
        assert!(seen.contains("is too old for cabane 9.1.0 on builder"), "{seen}");
        let path = scene.path("remote/cabane");
        let option = format!("--remote-program={}", path.display());
        scene.run(&["build", "--on=builder", &option, &scene.recipe, "app/1.0"]).success();
    });
}

#[test]
fn a_host_that_is_none_is_an_error_at_once() {
    with_host(|scene| {
        let refused =
            scene.run(&["build", "--on=-oProxyCommand=touch x", &scene.recipe, "app/1.0"]);
        assert!(
            refused.code == 2 && refused.stderr.contains("is not a host"),
            "{}",
            refused.stderr
        );
        for (on, option, says) in [
            ("--on=builder", "--sbatch=--time=1", "`--sbatch` is for jobs"),
            ("--on=builder", "--nodes=2", "`--nodes` is for jobs"),
            ("--on=slurm", "--nodes=0", "use a number from 1 to 1024"),
            ("--on=slurm", "--with=other", "cannot be used with"),
            ("--with=-oProxyCommand=x", "--jobs=1", "is not a host"),
        ] {
            let seen = scene.run(&["build", on, option, &scene.recipe, "app/1.0"]);
            assert!(seen.code == 2 && seen.stderr.contains(says), "{}", seen.stderr);
        }
        let unknown = scene.run(&["build", "--on=nowhere.invalid", &scene.recipe, "app/1.0"]);
        let says = [
            "error: cannot reach nowhere.invalid\n",
            "hint: `ssh -o BatchMode=yes nowhere.invalid true`",
        ];
        assert!(says.iter().all(|line| unknown.stderr.contains(line)), "{}", unknown.stderr);
        assert_eq!(unknown.code, 1);
        // Only the recipe is carried.
        let config = "name: app\nengine: tree\ntree: {source: ../local}\n";
        scene.cabane.world.file("recipe/config.yaml", config);
        let outside = scene.build();
        let says = "the tree ../local is outside of the recipe, and only the recipe is copied";
        assert!(outside.code == 3 && outside.stderr.contains(says), "{}", outside.stderr);
    });
}

#[test]
fn commands_that_are_typed_at_the_same_time_share_one_build() {
    with_host(|scene| {
        meet("wait");
        let start = |number: usize| {
            let errors = scene.path(&format!("errors{number}"));
            let mut command =
                scene.command(&["build", "--on", "builder", &scene.recipe, "app/1.0"]);
            let child = command.stderr(fs::File::create(&errors).unwrap()).spawn().unwrap();
            Running { child, errors }
        };
        scene.run(&["repo", "create"]).success();
        let all: Vec<Running> = (0..3).map(start).collect();
        let follows = |one: &Running| one.errors().contains("pack…");
        wait_until(|| all.iter().all(follows));
        part("wait");
        for running in all {
            let (code, errors) = running.end();
            assert_eq!(code, Some(0), "{errors}");
            assert!(errors.contains("app/1.0:v1@there%x86_64"), "{errors}");
        }
        assert_eq!(packed(), 1);
    });
}

#[test]
fn commands_for_two_files_get_an_image_each() {
    with_host(|scene| {
        meet("wait");
        let start = |name: &str| {
            let (output, errors) = (scene.path(&format!("home/{name}")), scene.path(name));
            let mut command =
                scene.command(&["build", "--on", "builder", &scene.recipe, "--output"]);
            let child = command.arg(output).stderr(fs::File::create(&errors).unwrap()).spawn();
            Running { child: child.unwrap(), errors }
        };
        let all = ["a.squashfs", "b.squashfs"].map(start);
        wait_until(|| scene.builds().len() == 2 && packed() > 0);
        part("wait");
        for running in all {
            let (code, errors) = running.end();
            assert_eq!(code, Some(0), "{errors}");
        }
        let image = |name: &str| fs::read(scene.path(&format!("home/{name}"))).unwrap();
        assert_eq!(image("a.squashfs"), image("b.squashfs"));
        assert_eq!(scene.builds(), [] as [PathBuf; 0]);
    });
}

/// Makes the recipe one for Python, with a package that it brings.
fn python_recipe(scene: &Scene, views: &str) {
    let config = "name: app\nengine: python\npython:\n  interpreter: /usr/bin/python3\n  \
                  requirements: requirements.txt\n  wheels: [demo-1.0-py3-none-any.whl]\n";
    scene.cabane.world.file("recipe/config.yaml", &format!("{config}{views}"));
    scene.cabane.world.file("recipe/requirements.txt", "");
    let wheel = r#"
import sys, zipfile
info = "demo-1.0.dist-info/"
files = {"demo.py": "print('hello from Python')\n",
         info + "METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
         info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files[info + "RECORD"] = "".join(f"{name},,\n" for name in [*files, info + "RECORD"])
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, content in files.items():
        wheel.writestr(zipfile.ZipInfo(name), content)
"#;
    let mut python = Command::new("/usr/bin/python3");
    let path = scene.path("recipe/demo-1.0-py3-none-any.whl");
    Finished::of(python.args(["-I", "-c", wheel]).arg(path)).success();
}

#[test]
fn a_changed_recipe_begins_after_the_last_unchanged_step() {
    let uv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/bin/uv");
    let Ok(uv) = uv.canonicalize() else {
        not_run!("needs uv: scripts/setup demo");
    };
    with_host(|scene| {
        fs::copy(&uv, scene.path("remote/bin/uv")).unwrap();
        fs::copy(&uv, scene.path("local/bin/uv")).unwrap();
        python_recipe(scene, "");
        let seen = scene.build().success();
        assert!(seen.stderr.contains("install…") && packed() == 1, "{}", seen.stderr);
        let python = ["run", "app/1.0@there", "--", "python3", "-m", "demo"];
        assert_eq!(scene.run(&python).success().stdout, "hello from Python\n");
        python_recipe(scene, "views:\n  default:\n    env_vars: {set: [{A: b}]}\n");
        let seen = scene.build().success();
        let steps = !seen.stderr.contains("install…") && seen.stderr.contains("metadata…");
        assert!(steps && packed() == 2, "{}", seen.stderr);
        // What was found out here is the same as there.
        scene.run(&["build", &scene.recipe, "app/2.0"]).success();
        assert_eq!(scene.digest("app/1.0@there"), scene.digest("app/2.0"));
    });
}

#[test]
fn the_image_is_pushed_from_here_with_the_credentials_of_the_user() {
    if std::env::var_os(REGISTRY).is_none() {
        cabane_testkit::needs!("docker-registry");
    }
    with_host(|scene| {
        let registry = RealRegistry::start(&scene.path("registry"));
        let url = format!("{}/uenv", registry.url());
        let push = [
            "build",
            "--on=builder",
            &scene.recipe,
            "app/1.0",
            "--push=private",
            "--registry",
            &url,
        ];
        let seen = scene.run(&push).success();
        assert!(
            seen.stderr.contains("pushed private::app/1.0:v1@there%x86_64 ("),
            "{}",
            seen.stderr
        );
        let find = ["image", "find", "private::app@there", "--registry", &url];
        let found = scene.run(&find).success();
        assert!(found.stdout.contains("app/1.0:v1  there"), "{}", found.stdout);
    });
}
