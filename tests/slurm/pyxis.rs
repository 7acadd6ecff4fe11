// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs in the words of pyxis and of environment definition files (EDF): container images of a real
//! registry, under the policy that is shipped.

use std::fs;
use std::path::Path;

use cabane_testkit::{Finished, Program, Tree, needs, not_run};

use crate::arena::{Cluster, PLUGIN, assert_failed, in_cluster};

/// Where the registry is, on a network that the nodes reach.
const REGISTRY: &str = "http://10.77.0.1:5000";

/// A registry at the head with the image `lab/os:1`, for one test.
struct Site<'a> {
    cluster: &'a Cluster,
}

impl<'a> Site<'a> {
    /// Starts the registry, puts the policy in place that is shipped, and forgets what alice has
    /// imported in other tests.
    fn new(cluster: &'a Cluster) -> Self {
        let policy = include_str!("../../packaging/mount.policy")
            .replace("@MOUNT_POINTS@", "mount-point /user-environment\nmount-point /user-tools")
            .replace("@IMAGE_OWNERS@", "root")
            // What is left is looked for at once.
            .replace("idle-seconds 600", "idle-seconds 0");
        let place = cluster.machine_directory("os-in-registry");
        let tree = Tree::new(place.join("tree"))
            .file("opt/work/text", "of the image\n")
            .root_file_system("os", r#""working-directory":"/opt/work","entrypoint":["env"]"#);
        cluster.pack("os-in-registry", tree.root());
        let program = Program::find("docker-registry").path().unwrap();
        let program = program.display();
        let script = format!(
            "set -e
             cat >/etc/cabane/mount.policy <<'END'\n{policy}\nEND
             # Environment files name no other registry without encryption.
             grep -qs default_registry /etc/cabane/config.toml ||
                 printf '[container]\ndefault_registry = \"{REGISTRY}\"\n' >>/etc/cabane/config.toml
             rm -rf /shared/registry /home/alice/.local /home/alice/.edf; mkdir /shared/registry
             cat >/shared/registry/config.yml <<'END'
version: 0.1
storage: {{filesystem: {{rootdirectory: /shared/registry/data}}}}
http: {{addr: '10.77.0.1:5000'}}
END
             OTEL_TRACES_EXPORTER=none setsid {program} serve /shared/registry/config.yml \
                 >/shared/registry/log 2>&1 </dev/null & echo $! >/shared/registry/pid
             until grep -q 'listening on' /shared/registry/log; do sleep 0.05; done"
        );
        cluster.root(&script);
        let site = Self { cluster };
        site.alice(&format!("cabane export /shared/os-in-registry.squashfs {REGISTRY}/lab/os:1"))
            .success();
        site
    }

    fn alice(&self, script: &str) -> Finished {
        self.cluster.user("alice").sh(script)
    }

    /// How many blobs were requested.
    fn blobs_sent(&self) -> usize {
        let log = self.cluster.root("cat /shared/registry/log");
        log.lines().filter(|line| line.contains("GET /v2/") && line.contains("/blobs/")).count()
    }

    fn stop(&self) {
        self.cluster.root(
            "if [ -e /shared/registry/pid ]; then
                 kill $(cat /shared/registry/pid) && rm /shared/registry/pid
             fi",
        );
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The image, with the separator of pyxis.
fn image() -> String {
    format!("--container-image={REGISTRY}#lab/os:1")
}

#[test]
fn an_image_is_imported_once_and_a_tag_asks_for_its_description_only() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let script = format!("srun -N2 -n4 {} cat /etc/image", image());
        let first = site.alice(&script).success();
        assert_eq!(first.stdout, "os".repeat(4), "{first:?}");
        assert!(first.stderr.contains("imported"), "{first:?}");
        let blobs = site.blobs_sent();
        let second = site.alice(&script).success();
        assert_eq!((second.stdout.as_str(), second.stderr.as_str()), ("osososos", ""));
        assert_eq!(site.blobs_sent(), blobs);
        // Nodes without the network have what is kept.
        site.stop();
        let third = site.alice(&script).success();
        assert_eq!(third.stdout, "osososos", "{third:?}");
        assert!(third.stderr.contains("does not answer"), "{third:?}");
    });
}

#[test]
fn mounts_directory_home_and_variables_are_as_pyxis_has_them() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let look = "sh -c 'pwd; cat /data/text; touch /data/new 2>/dev/null || echo read-only; \
                    test -d /home/alice/kept && echo home; echo $CABANE_TEST'";
        let script = format!(
            "mkdir -p /shared/seen /home/alice/kept; echo seen >/shared/seen/text; cd /shared
             export CABANE_TEST=mine
             srun {0} --container-mounts=/shared/seen:/data:ro+rprivate {look}
             srun {0} --container-mounts=./seen:/data --container-workdir=/data \
                 --container-mount-home --container-env=CABANE_TEST,NOT_SET {look}
             rm -r /home/alice/kept",
            image()
        );
        let printed = site.alice(&script).success();
        let expected = "/opt/work\nseen\nread-only\nos\n/data\nseen\nhome\nmine\n";
        assert_eq!(printed.stdout, expected, "{}", printed.stderr);
    });
}

#[test]
fn scripts_and_allocations_have_the_image_for_their_steps() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let script = format!(
            "cd; rm -f out
             printf '#!/bin/sh\n#SBATCH --container-image={REGISTRY}\\\\#lab/os:1\ncat /etc/image; pwd\n' >job.sh
             sbatch --quiet --wait --output=/home/alice/out job.sh; cat out
             salloc --quiet -N2 {} srun sh -c 'cat /etc/image; pwd'
             export PYXIS_CONTAINER_IMAGE={REGISTRY}#lab/os:1 PYXIS_CONTAINER_WORKDIR=/etc
             srun sh -c 'cat image; pwd'
             export PYTORCH_VERSION=2; srun -N2 sh -c 'echo; echo $RANK of $SLURM_PROCID $LOCAL_RANK' | sort",
            image()
        );
        let printed = site.alice(&script).success();
        let expected = "os/opt/work\nos/opt/work\nos/opt/work\nos/etc\n\n\n0 of 0 0\n1 of 1 0\n";
        assert_eq!(printed.stdout, expected, "{}", printed.stderr);
    });
}

#[test]
fn a_name_stands_for_an_image_in_later_steps() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let missing = site.alice("srun --container-name=mine echo started");
        assert_failed(&missing, "there is no container `mine`");
        let missing =
            site.alice(&format!("srun {} --container-name=mine:exec echo started", image()));
        assert_failed(&missing, "there is no container `mine`");
        let printed = site
            .alice(&format!(
                "srun {0} --container-name=mine cat /etc/image
                 srun --container-name=mine:exec cat /etc/image
                 srun --container-image=no-registry.invalid#a/b --container-name=mine cat /etc/image
                 srun {0} --container-name=mine:create cat /etc/image",
                image()
            ))
            .success();
        assert_eq!(printed.stdout, "os".repeat(4), "{printed:?}");
        assert!(printed.stderr.contains("the container mine is used as it is"), "{printed:?}");
        let printed = site.alice("srun --container-name=mine:again echo started");
        assert_failed(&printed, "`:auto`, `:create`, `:exec`, or `:no_exec`");
    });
}

#[test]
fn an_image_is_saved_to_a_file_and_files_are_images() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        // An image of another tool has no metadata of ours.
        let place = cluster.machine_directory("bare");
        let tree = Tree::new(place.join("tree")).root_file_system("bare", "");
        fs::remove_dir_all(tree.root().join("meta")).unwrap();
        cluster.pack("bare", tree.root());
        let printed = site
            .alice(&format!(
                "cd /shared; srun {} --container-save=./saved.sqsh ls /etc/image >/dev/null
                 srun --container-image=/shared/saved.sqsh sh -c 'cat /etc/image; pwd'
                 cp bare.squashfs bare.sqsh
                 srun --container-image=./bare.sqsh sh -c 'cat /etc/image; id -un'; rm *.sqsh",
                image()
            ))
            .success();
        assert_eq!(printed.stdout, "os/opt/work\nbarealice\n", "{}", printed.stderr);
    });
}

#[test]
fn what_a_job_cannot_have_is_refused_with_what_there_is() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        for (options, reason) in [
            ("--container-unshare=net", "share the namespaces of their node"),
            ("--container-mounts=tmpfs:/x", "`tmpfs` is not supported"),
            ("--container-mounts=/shared:/x:shared", "there is no flag `shared`"),
            ("--container-workdir=here", "is not an absolute path"),
            ("--container-env=A=B", "cannot be the name of a variable"),
        ] {
            let printed = site.alice(&format!("srun {} {options} echo started", image()));
            assert_failed(&printed, reason);
        }
        let nowhere = site.alice(&format!("srun {} --container-workdir=/nowhere ls", image()));
        assert_failed(&nowhere, "/nowhere");
        let allowed = "--container-readonly --no-container-remap-root --no-container-entrypoint \
                       --no-container-mount-home --container-entrypoint-log";
        let printed = site.alice(&format!("srun {} {allowed} cat /etc/image", image())).success();
        assert_eq!((printed.stdout.as_str(), printed.stderr.contains("error")), ("os", false));
        let ignored = site.alice("srun --container-mounts=/shared echo host").success();
        assert_eq!(ignored.stdout, "host\n");
        assert!(ignored.stderr.contains("are ignored"), "{ignored:?}");
    });
}

#[test]
fn names_and_paths_of_strangers_are_refused_before_anything_is_asked() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        for hostile in ["a,b", "$(id)", "x\ny", "../../etc/passwd:/x:/y", "a b", "", "#", "@"] {
            let image = hostile.replace('\'', "");
            let printed = site.alice(&format!("srun --container-image='{image}' echo started"));
            assert_eq!((printed.code != 0, printed.stdout.as_str()), (true, ""), "{hostile:?}");
        }
    });
}

#[test]
fn an_environment_definition_file_is_found_by_its_name() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let printed = site
            .alice(&format!(
                "mkdir -p /home/alice/.edf /home/alice/other /shared/seen
                 cat >/home/alice/.edf/base.toml <<'END'
image = \"no-registry.invalid#a/b\"
mounts = [\"/shared/seen:/data\"]
[env]
BASE = \"1\"
END
                 cat >/home/alice/.edf/os.toml <<'END'
base_environment = [\"base\"]
image = \"{REGISTRY}#lab/os:1\"
writable = false
mounts = [\"/shared:/other:ro\"]
[env]
PATH = \"${{PATH}}:/custom/${{USER}}\"
CABANE_TEST = \"\"
[annotations]
com.hooks.cxi.enabled = \"true\"
com.hooks.aws_ofi_nccl.enabled = \"true\"
[annotations.com.hooks.ssh]
enabled = \"false\"
END
                 cp /home/alice/.edf/*.toml /home/alice/other
                 echo 'workdir = \"/data\"' | cat - /home/alice/other/os.toml >/home/alice/other/here.toml
                 show='cat /etc/image; pwd; echo $BASE $PATH ${{CABANE_TEST-unset}}; ls -d /data /other'
                 srun -N2 --environment=os sh -c \"$show\" | sort -u
                 EDF_PATH=/home/alice/other srun --environment=here sh -c 'cat /etc/image; pwd'
                 cd /home/alice/other; srun --edf=./here.toml sh -c pwd
                 cabane run -e os -- sh -c 'cat /etc/image; pwd'; rm -r /home/alice/other"
            ))
            .success();
        let lines = "/data\n/other\n1 /usr/bin:/bin:/custom/alice unset\nos/opt/work\n";
        let expected = format!("{lines}os/data\n/data\nos/opt/work\n");
        assert_eq!(printed.stdout, expected, "{}", printed.stderr);
        let notice = "these annotations have no effect here: com.hooks.aws_ofi_nccl.enabled";
        assert!(printed.stderr.contains(notice), "{}", printed.stderr);
    });
}

#[test]
fn a_container_is_writable_and_runs_its_entry_point() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let printed = site
            .alice(&format!(
                "srun {0} --container-writable sh -c 'echo new >/etc/new && cat /etc/new'
                 srun {0} --container-remap-root id -u
                 srun {0} --container-entrypoint --container-workdir=/etc A=1 sh -c 'echo $A; pwd'
                 printf 'image = \"{REGISTRY}#lab/os:1\"\nwritable = true\n' >os.toml
                 srun --environment=./os.toml sh -c 'echo more >/etc/more && cat /etc/more'",
                image()
            ))
            .success();
        assert_eq!(printed.stdout, "new\n0\n1\n/etc\nmore\n", "{}", printed.stderr);
    });
}

#[test]
fn with_several_programs_tasks_do_not_start_outside_of_their_container() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let printed = site.alice(&format!(
            "printf '0-1 echo started\\n' >programs.conf; srun -n2 {} --multi-prog programs.conf",
            image()
        ));
        assert_failed(&printed, "each task would have to enter it by itself");
    });
}

#[test]
fn where_the_kernel_may_read_images_tasks_are_in_one_namespace() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        cluster.root("sed -i 's/^image-owners .*/image-owners any/' /etc/cabane/mount.policy");
        // The kernel may not read what is on the file system of the root of this cluster.
        let printed = site.alice(&format!(
            "cd /shared; srun {0} --container-save=./saved.sqsh ls /etc/image >/dev/null
                 srun -n2 --container-image=./saved.sqsh --container-workdir=/opt/work \
                     sh -c 'cat text; pwd; cat /proc/self/uid_map' | sort -u; rm saved.sqsh
                 srun --container-image=/shared/os-in-registry.squashfs --container-workdir=/no ls",
            image()
        ));
        let lines: Vec<String> = printed
            .stdout
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines, ["0 0 4294967295", "/opt/work", "of the image"], "{printed:?}");
        assert!(printed.stderr.contains("cannot start in the directory /no"), "{printed:?}");
    });
}

#[test]
fn an_ssh_server_in_a_definition_is_refused_at_its_place() {
    needs!("docker-registry");
    in_cluster!(|cluster: &Cluster| {
        let site = Site::new(cluster);
        let printed = site.alice(&format!(
            "printf 'image = \"{REGISTRY}#lab/os:1\"\n[annotations]\ncom.hooks.ssh.enabled = \"true\"\n' >os.toml
             srun --environment=./os.toml echo started"
        ));
        assert_failed(&printed, "os.toml:3:25: `com.hooks.ssh.enabled`: no SSH server");
    });
}

/// A plugin of the name of pyxis, with one of its options.
const PYXIS: &str = r#"
#include <stdio.h>
#include <slurm/spank.h>
SPANK_PLUGIN(pyxis, 1)
static int given(int value, const char *text, int is_remote)
{
    if (!is_remote)
        slurm_error("the other one: %s", text);
    return 0;
}
static struct spank_option option = {"container-image", "IMAGE", "of pyxis", 1, 0, given};
int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    return spank_option_register(spank, &option);
}
"#;

#[test]
fn with_pyxis_in_the_same_plugstack_the_options_are_its_own() {
    if !Path::new("/usr/include/slurm/spank.h").is_file() {
        not_run!("there is no spank.h: `scripts/setup test` brings it");
    }
    if crate::arena::release().is_some() {
        not_run!("the header is that of this machine's Slurm");
    }
    in_cluster!(|cluster: &Cluster| {
        cluster.root(&format!(
            "cat >/tmp/pyxis.c <<'END'{PYXIS}END
             cc -shared -fPIC -o /usr/local/lib/spank_pyxis.so /tmp/pyxis.c && rm /tmp/pyxis.c"
        ));
        let pyxis = "required /usr/local/lib/spank_pyxis.so";
        for lines in [
            format!("{pyxis}\\nrequired {PLUGIN}"),
            format!("required {PLUGIN}\\n{pyxis}"),
            format!("{pyxis}\\nrequired {PLUGIN} container-options=yes"),
        ] {
            cluster.root(&format!("printf '{lines}\\n' >/etc/slurm/plugstack.conf"));
            let printed =
                cluster.user("alice").sh("srun --container-image=x --uenv=app/1:v1 who").success();
            assert_eq!(printed.stdout, "app 1\n", "{lines}: {printed:?}");
            assert!(printed.stderr.contains("the other one: x"), "{lines}: {printed:?}");
        }
        cluster.root("rm /usr/local/lib/spank_pyxis.so");
    });
}

#[test]
fn a_site_switches_the_options_off() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(&format!(
            "printf '[slurm]\\ncontainer_options = \"no\"\\n' >>/etc/cabane/config.toml
             : >/etc/slurm/plugstack.conf
             cabane slurm install --plugin {PLUGIN} 2>/dev/null
             grep -q 'container-options=no$' /etc/slurm/plugstack.conf"
        ));
        let printed = cluster.user("alice").sh("srun --container-image=x echo started");
        assert_failed(&printed, "container-image");
        let printed = cluster.user("alice").sh("srun --uenv=app/1:v1 who").success();
        assert_eq!(printed.stdout, "app 1\n");
    });
}
