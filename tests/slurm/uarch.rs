// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Several builds of one image: each node takes its own. What a node cannot run is refused.
//!
//! All virtual nodes have the processor of the machine: what a node takes comes from a
//! file, as an administrator would.

use std::collections::BTreeSet;

use cabane_testkit::{Finished, Tree, squashfs};

use crate::arena::{Cluster, in_cluster};

/// Options with which these images are found.
const REPO: &str = "--repo=/shared/builds";
const ORDER: &str = "/etc/cabane/uarch";
/// No processor has them all.
const FEATURES: [&str; 5] = ["sve", "avx512f", "avx2", "tbm", "sse4a"];

/// A feature that the processor of this machine does not have.
fn lacking() -> &'static str {
    let missing = cabane_compat::missing_features(FEATURES);
    missing.first().copied().unwrap()
}

/// A feature that it has.
fn present() -> &'static str {
    let known = ["sse4_2", "avx2", "asimddp", "atomics"];
    let missing = cabane_compat::missing_features(known);
    let mut known = known.into_iter();
    known.find(|name| !missing.contains(name)).unwrap()
}

/// Builds of the images `app` and `more` in a repository of their own, and what is known to
/// the nodes about themselves.
struct Builds<'a> {
    cluster: &'a Cluster,
    nodes: Vec<&'static str>,
}

impl<'a> Builds<'a> {
    /// Makes builds of `app/1:v1@here`: microarchitectures, and what they need in JSON.
    fn make(cluster: &'a Cluster, builds: &[(&str, &str)]) -> Self {
        cluster.root(
            "rm -rf /shared/builds; touch /etc/cabane/uarch
             install -d -o alice -g alice /shared/builds",
        );
        cluster.user("alice").sh("cabane repo create /shared/builds").success();
        let builds_of = Self { cluster, nodes: Vec::new() };
        for (uarch, needs) in builds {
            builds_of.add("app", uarch, "/user-environment", needs);
        }
        builds_of
    }

    /// Adds one build. Its view has a directory and a variable that others do not have.
    fn add(&self, name: &str, uarch: &str, place: &str, needs: &str) {
        let world = self.cluster.machine_directory(&format!("{name}-{uarch}"));
        let meta = format!(
            r#"{{"name":"{name}","mount":"{place}","default-view":"default",
"cabane":{{"version":1,"needs":{needs}}},
"views":{{"default":{{"description":"","root":"{place}","activate":"/dev/null",
"env":{{"version":1,"values":{{"list":{{"PATH":[{{"op":"prepend","value":["{place}/bin-{uarch}"]}}]}},
"scalar":{{"BUILD_OF_{name}":"{uarch}","HAS_{name}_{uarch}":"1"}}}}}}}}}}}}"#
        );
        let tree = Tree::new(world.join("tree"))
            .program(&format!("bin-{uarch}/which-{name}"), &format!("echo {uarch}"))
            .file("meta/env.json", &meta);
        let image = world.join("image.squashfs");
        squashfs(tree.root(), &image);
        self.cluster
            .root(&format!("install -o alice -m 644 {} /shared/build.squashfs", image.display()));
        self.cluster
            .user("alice")
            .sh(&format!("cabane {REPO} image add {name}/1:v1@here%{uarch} /shared/build.squashfs"))
            .success();
    }

    /// Tells nodes what they take.
    fn order(&mut self, nodes: &[&'static str], names: &str) {
        for node in nodes {
            self.cluster
                .on_node(node, "root")
                .sh(&format!("echo '{names}' >/run/uarch && mount --bind /run/uarch {ORDER}"))
                .success();
            self.nodes.push(node);
        }
    }

    /// The two kinds of nodes that the features of Slurm are about.
    fn two_kinds(cluster: &'a Cluster) -> Self {
        let mut builds = Self::make(cluster, &[("zen2", "{}"), ("zen3", "{}")]);
        cluster.root(&format!("cat >/shared/tell <<'END'\n{TELL}END\nchmod 755 /shared/tell"));
        builds.order(&["n1", "n2"], "zen3 zen2");
        builds.order(&["n3", "n4"], "zen2");
        builds
    }

    fn alice(&self, script: &str) -> Finished {
        self.cluster.user("alice").sh(script)
    }
}

impl Drop for Builds<'_> {
    fn drop(&mut self) {
        for node in &self.nodes {
            let _ = self.cluster.on_node(node, "root").sh("umount /etc/cabane/uarch");
        }
        let _ =
            self.cluster.user("root").sh("rm -rf /etc/cabane/uarch /shared/builds /shared/tell");
    }
}

/// The lines of an output, sorted and without doubles.
fn lines(text: &str) -> Vec<&str> {
    text.lines().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The lines that tell of a choice.
fn choices(finished: &Finished) -> Vec<&str> {
    let reported = finished.stderr.lines();
    let reported = reported.filter_map(|line| Some(line.split_once("cabane: ")?.1));
    let mut reported: Vec<&str> = reported.collect();
    reported.sort_unstable();
    reported
}

/// Prints node, build, and what variables say about it.
const TELL: &str = r#"#!/bin/bash
which=$(type -P which-app)
label=$(grep -o "app/1:v1@here%zen[23]" <<<"$CABANE_LOADED")
test -e "${UENV_MOUNT_LIST%:*}" && grep -q ":default" <<<"$UENV_VIEW" && there=there
echo $SLURMD_NODENAME $(which-app) $BUILD_OF_app $HAS_app_zen2-$HAS_app_zen3 $label $which $there
"#;

const PRINTED: [&str; 4] = [
    "n1 zen3 zen3 -1 app/1:v1@here%zen3 /user-environment/bin-zen3/which-app there",
    "n2 zen3 zen3 -1 app/1:v1@here%zen3 /user-environment/bin-zen3/which-app there",
    "n3 zen2 zen2 1- app/1:v1@here%zen2 /user-environment/bin-zen2/which-app there",
    "n4 zen2 zen2 1- app/1:v1@here%zen2 /user-environment/bin-zen2/which-app there",
];

#[test]
fn two_kinds_of_nodes_in_one_step_each_have_their_build() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        // With `-n8` instead, newer releases wait for ever.
        let step = "srun -C '[zen3*2&zen2*2]' -N4 --ntasks-per-node=2";
        let printed = builds.alice(&format!("{step} {REPO} --uenv=app /shared/tell"));
        assert_eq!(lines(&printed.success().stdout), PRINTED);
    });
}

#[test]
fn the_log_of_a_step_shows_the_choice_of_each_node_once() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!("srun -N4 -n16 {REPO} --uenv=app true"));
        let printed = printed.success();
        let expected = [
            "n1: takes app/1:v1@here%zen3",
            "n2: takes app/1:v1@here%zen3",
            "n3: takes app/1:v1@here%zen2",
            "n4: takes app/1:v1@here%zen2",
        ];
        assert_eq!(choices(&printed), expected, "{printed:?}");
    });
}

#[test]
fn the_output_of_a_batch_job_shows_the_choice() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!(
            "printf '#!/bin/bash\\nwhich-app\\n' >job.sh; rm -f out
             sbatch --wait --output=out -w n3 {REPO} --uenv=app job.sh >/dev/null; cat out"
        ));
        let output = printed.success().stdout;
        assert!(
            output.contains("cabane: n3: takes app/1:v1@here%zen2\n") && output.ends_with("zen2\n"),
            "{output}"
        );
    });
}

#[test]
fn steps_in_a_job_choose_again_on_their_nodes() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!(
            "cat >job.sh <<'END'
#!/bin/bash
srun /shared/tell
export BUILD_OF_app=mine
srun -w n4 -N1 sh -c 'which-app; echo $BUILD_OF_app'
END
             rm -f out err
             sbatch --wait --output=out --error=err -N4 {REPO} --uenv=app job.sh >/dev/null
             cat err >&2; cat out"
        ));
        let printed = printed.success();
        let mut expected = PRINTED.to_vec();
        expected.extend(["zen2", "mine"]);
        expected.sort_unstable();
        assert_eq!(lines(&printed.stdout), expected, "{printed:?}");
    });
}

#[test]
fn a_shell_of_salloc_hands_the_builds_on() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed =
            builds.alice(&format!("salloc --quiet -N4 {REPO} --uenv=app srun /shared/tell"));
        assert_eq!(lines(&printed.success().stdout), PRINTED);
    });
}

#[test]
fn builds_of_two_images_go_with_each_other() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        for uarch in ["zen2", "zen3"] {
            builds.add("more", uarch, "/user-tools", "{}");
        }
        let printed = builds.alice(&format!(
            "srun -N4 {REPO} --uenv=app,more sh -c \
             'echo $SLURMD_NODENAME $BUILD_OF_app $BUILD_OF_more $(which-app) $(which-more)'"
        ));
        let expected = [
            "n1 zen3 zen3 zen3 zen3",
            "n2 zen3 zen3 zen3 zen3",
            "n3 zen2 zen2 zen2 zen2",
            "n4 zen2 zen2 zen2 zen2",
        ];
        assert_eq!(lines(&printed.success().stdout), expected);
    });
}

#[test]
fn a_step_may_put_another_build_into_the_place_of_that_of_its_job() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!(
            "salloc --quiet -N4 {REPO} --uenv=app srun --uenv=app%zen3 sh -c \
             'echo $(which-app) $BUILD_OF_app $PATH'"
        ));
        let printed = printed.success();
        let expected = "zen3 zen3 /user-environment/bin-zen3:/usr/local/bin:/usr/bin:/bin:\
                        /usr/local/sbin:/usr/sbin:/sbin";
        assert_eq!((lines(&printed.stdout), choices(&printed)), (vec![expected], vec![]));
    });
}

#[test]
fn another_image_in_a_step_leaves_the_choice_of_the_first() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!(
            "salloc --quiet -N4 {REPO} --uenv=app srun --uenv-passthrough=use --uenv=/shared/images/tool.squashfs sh -c \
             'echo $SLURMD_NODENAME $(which-app) $BUILD_OF_app $(what)'"
        ));
        let expected =
            ["n1 zen3 zen3 tool", "n2 zen3 zen3 tool", "n3 zen2 zen2 tool", "n4 zen2 zen2 tool"];
        assert_eq!(lines(&printed.success().stdout), expected);
    });
}

#[test]
fn a_user_may_name_the_build_for_all_nodes() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!("srun -N4 {REPO} --uenv=app%zen2 which-app"));
        let printed = printed.success();
        assert_eq!(
            (printed.stdout.as_str(), choices(&printed)),
            ("zen2\nzen2\nzen2\nzen2\n", vec![])
        );
    });
}

#[test]
fn the_right_build_is_there_where_no_variables_are_handed_on() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!(
            "srun -N2 -w n1,n3 --export=NONE {REPO} --uenv=app /bin/sh -c \
             'echo $(/user-environment/bin-*/which-app) $BUILD_OF_app $CABANE_LOADED'"
        ));
        assert_eq!(lines(&printed.success().stdout), ["zen2", "zen3"]);
    });
}

#[test]
fn steps_of_a_job_to_which_no_variables_were_handed_on_choose_again() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::two_kinds(cluster);
        let printed = builds.alice(&format!(
            "printf '%s\\n' '#!/bin/bash' 'srun /bin/bash -c \"/user-environment/bin-*/which-app\"' >job.sh
             rm -f out err
             sbatch --wait --export=NONE --output=out --error=err -N4 {REPO} --uenv=app job.sh \
                 >/dev/null
             cat err >&2; cat out"
        ));
        let printed = printed.success();
        assert_eq!(printed.stdout.matches("zen2\n").count(), 2, "{printed:?}");
    });
}

#[test]
fn without_an_order_the_features_decide() {
    in_cluster!(|cluster: &Cluster| {
        let needs = |features: &[&str]| {
            let features = serde_json::to_string(features).unwrap();
            format!(r#"{{"processor":{{"targets":["x"],"features":{features}}}}}"#)
        };
        let builds = Builds::make(
            cluster,
            &[
                ("less", &needs(&[present()])),
                ("more", &needs(&[present(), "some_new_one"])),
                ("most", &needs(&[present(), "some_new_one", lacking()])),
            ],
        );
        let printed = builds.alice(&format!("srun -N2 {REPO} --uenv=app which-app"));
        assert_eq!(lines(&printed.success().stdout), ["more"]);
    });
}

#[test]
fn where_nothing_decides_the_step_fails_and_lists_the_builds() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::make(cluster, &[("zen2", "{}"), ("zen3", "{}")]);
        let printed = builds.alice(&format!("srun {REPO} --uenv=app echo ran"));
        assert!(
            printed.code != 0
                && printed.stdout.is_empty()
                && printed.stderr.contains("nothing says which of these builds is the better one")
                && printed.stderr.contains("app/1:v1@here%zen2")
                && printed.stderr.contains("`--uenv=app/1:v1@here%zen2` takes that one"),
            "{printed:?}"
        );
    });
}

#[test]
fn a_file_that_others_may_change_decides_nothing_and_is_found() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::make(cluster, &[("zen2", "{}"), ("zen3", "{}")]);
        cluster.root("echo zen2 >/etc/cabane/uarch; chmod 666 /etc/cabane/uarch");
        let printed =
            builds.alice(&format!("srun {REPO} --uenv=app%zen2,app%zen3:/user-tools echo ran"));
        assert_eq!(printed.success().stdout, "ran\n");
        let printed = builds.alice(&format!("srun {REPO} --uenv=app echo ran"));
        let checked = cluster.on_node("n1", "root").sh("cabane slurm check");
        let reason = "can be written to by others than root";
        assert!(
            printed.code != 0
                && printed.stdout.is_empty()
                && printed.stderr.contains(reason)
                && checked.code == 10
                && checked.stderr.contains(reason),
            "{printed:?} {checked:?}"
        );
    });
}

fn one_that_does_not_fit(cluster: &Cluster) -> Builds<'_> {
    let needs = format!(
        r#"{{"processor":{{"targets":["x"],"features":["{}","{}"]}}}}"#,
        present(),
        lacking()
    );
    Builds::make(cluster, &[("newer", &needs)])
}

#[test]
fn an_image_that_a_node_cannot_run_is_refused_with_what_it_lacks() {
    in_cluster!(|cluster: &Cluster| {
        let builds = one_that_does_not_fit(cluster);
        let printed = builds.alice(&format!("srun -N2 {REPO} --uenv=app echo ran"));
        let reason =
            format!("n[1-2]: cannot run app/1:v1@here%newer: its processor lacks {}\n", lacking());
        assert!(
            printed.code != 0
                && printed.stdout.is_empty()
                && printed.stderr.contains(&reason)
                && printed.stderr.contains("hint: `--uenv-unfit=warn` starts nevertheless"),
            "{printed:?}"
        );
    });
}

#[test]
fn an_image_for_another_architecture_is_refused_whatever_its_label_says() {
    in_cluster!(|cluster: &Cluster| {
        let other = if cfg!(target_arch = "aarch64") { "x86_64" } else { "aarch64" };
        let needs = format!(r#"{{"architectures":["{other}"]}}"#);
        let builds = Builds::make(cluster, &[("gh200", &needs)]);
        let printed = builds.alice(&format!("srun -N2 {REPO} --uenv=app echo ran"));
        let reason = format!(
            "n[1-2]: cannot run app/1:v1@here%gh200: it was built for {other}, and this is {}\n",
            std::env::consts::ARCH
        );
        assert!(
            printed.code != 0 && printed.stdout.is_empty() && printed.stderr.contains(&reason),
            "{printed:?}"
        );
    });
}

#[test]
fn a_batch_job_on_a_node_that_cannot_run_it_fails_and_says_why() {
    in_cluster!(|cluster: &Cluster| {
        let builds = one_that_does_not_fit(cluster);
        let printed = builds.alice(&format!(
            "printf '#!/bin/bash\\necho ran\\n' >job.sh; rm -f out
             sbatch --wait --output=out {REPO} --uenv=app job.sh >/dev/null; code=$?
             cat out; exit $code"
        ));
        let reason = format!("its processor lacks {}\n", lacking());
        assert!(
            printed.code != 0
                && printed.stdout.contains(&reason)
                && !printed.stdout.contains("ran\n"),
            "{printed:?}"
        );
    });
}

#[test]
fn a_user_may_go_on_with_a_warning_also_in_the_steps_of_the_job() {
    in_cluster!(|cluster: &Cluster| {
        let builds = one_that_does_not_fit(cluster);
        let printed = builds.alice(&format!(
            "SALLOC_UENV_UNFIT=warn salloc --quiet {REPO} --uenv=app srun which-app"
        ));
        let printed = printed.success();
        let reason =
            format!("n1: cannot run app/1:v1@here%newer: its processor lacks {}", lacking());
        assert_eq!(
            (printed.stdout.as_str(), choices(&printed)),
            ("newer\n", vec![reason.as_str()])
        );
    });
}

#[test]
fn a_c_library_that_is_too_old_is_reported() {
    in_cluster!(|cluster: &Cluster| {
        let builds = Builds::make(cluster, &[("any", r#"{"glibc":"2.99"}"#)]);
        let printed = builds.alice(&format!("srun {REPO} --uenv=app echo ran"));
        let found = cluster.root("getconf GNU_LIBC_VERSION");
        let reason = format!("it has {}, and 2.99 is needed\n", found.trim());
        assert!(
            printed.code != 0 && printed.stdout.is_empty() && printed.stderr.contains(&reason),
            "{printed:?}"
        );
    });
}

#[test]
fn what_was_started_before_the_job_is_looked_at_too() {
    in_cluster!(|cluster: &Cluster| {
        let builds = one_that_does_not_fit(cluster);
        let printed = builds.alice(&format!("cabane {REPO} run app -- srun {REPO} echo ran"));
        let reason = format!("its processor lacks {}\n", lacking());
        assert!(
            printed.code != 0 && printed.stdout.is_empty() && printed.stderr.contains(&reason),
            "{printed:?}"
        );
    });
}
