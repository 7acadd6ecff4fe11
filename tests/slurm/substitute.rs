// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Another MPI for the programs of steps by `--uenv-mpi`, judged once for a step on each node.

use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::mpi::{compile_below, installed};
use cabane_testkit::{Finished, Program, Tree, not_run};

use crate::arena::{Cluster, PLUGIN, assert_failed, in_cluster};
use crate::mpi::{container_with, has_pmix, needs_pmix};

/// A command that tells of each question to a node, and answers as ever.
const COUNTING: &str = r#"#!/bin/sh
case $* in 'slurm node'*) echo "$(hostname)" >>/shared/questions ;; esac
exec /usr/local/bin/cabane "$@"
"#;

/// Lets the site allow root images, and questions to nodes be counted.
fn prepare(cluster: &Cluster) {
    cluster.root(&format!(
        "echo root-images yes >>/etc/cabane/mount.policy
         rm -f /shared/questions; install -m 666 /dev/null /shared/questions
         cat >/usr/local/bin/counting <<'END'\n{COUNTING}END
         chmod 755 /usr/local/bin/counting
         echo 'required {PLUGIN} cabane=/usr/local/bin/counting' >/etc/slurm/plugstack.conf"
    ));
}

/// How often each node got a request.
fn questions(cluster: &Cluster) -> String {
    let counted = cluster.root("sort /shared/questions | uniq -c | awk '{print $2 \"=\" $1}'");
    counted.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Makes an image with a library in `opt/mpi` and programs for it.
fn make_root(cluster: &Cluster, name: &str, library: &Path) {
    let place = cluster.machine_directory(name).join("tree");
    cluster.pack(name, container_with(library, name, &place).root());
}

/// Makes a stack with a library and programs for it.
fn make_stack(cluster: &Cluster, name: &str, (library, place): (&Path, &str)) {
    let tree = cluster.machine_directory(name).join("tree");
    let _ = Tree::new(&tree).copy_of(library, "").meta(name, place);
    compile_below(&tree, "ping_pong");
    compile_below(&tree, "hello");
    cluster.pack(name, &tree);
}

/// Makes a root image `root` with MPICH, and shares another one as `other`.
fn prepare_mpich(cluster: &Cluster, own: &Path, other: &Path) {
    prepare(cluster);
    make_root(cluster, "root", own);
    cluster.share("other", other);
}

/// Two versions of MPICH.
fn two_mpichs() -> Option<[PathBuf; 2]> {
    installed(["mpich", "mpich-3.4.3"])
}

const NO_MPICHS: &str = "needs mpich in two versions: scripts/setup test";

/// The step has ended with this code, and a line was printed once.
fn assert_refused(printed: &Finished, code: i32, line: &str) {
    // At the end the first reason is printed again.
    let mut told = printed.stderr.lines().filter(|told| !told.contains("the step ended because"));
    let is_told_once =
        told.by_ref().any(|told| told.contains(line)) && !told.any(|told| told.contains(line));
    assert_eq!(
        (printed.code, printed.stdout.as_str(), is_told_once),
        (code, "", true),
        "{line}: {printed:?}"
    );
}

/// Runs eight ranks on four nodes, which say what they have loaded.
fn eight(cluster: &Cluster, options: &str, program: &str) -> Finished {
    cluster.user("alice").sh(&format!("srun -N4 --ntasks-per-node=2 {options} {program}"))
}

/// Each of eight ranks has done its part of the work with this library.
fn assert_loaded(printed: &Finished, version: &str) {
    let is_right = |line: &&str| line.contains(" of 8, right, ") && line.ends_with(version);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(printed.stdout.lines().filter(is_right).count(), 8, "{printed:?}");
}

#[test]
fn ranks_in_a_root_image_get_another_mpich_and_each_node_judges_once() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        make_root(cluster, "root", &own);
        cluster.share("other", &other);
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "/opt/mpi/bin/hello");
        assert_loaded(&printed, "3.4.3");
        assert_eq!(printed.stderr, "");
        assert_eq!(questions(cluster), "n1=1 n2=1 n3=1 n4=1");
    });
}

#[test]
fn ranks_in_a_root_image_get_another_open_mpi_by_pmix() {
    let Some([own, other]) = installed(["openmpi", "openmpi-4.1.8"]) else {
        not_run!("needs openmpi in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        needs_pmix!(cluster);
        prepare(cluster);
        make_root(cluster, "root", &own);
        cluster.share("other", &other);
        let options = "--mpi=pmix --uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "/opt/mpi/bin/hello");
        assert_loaded(&printed, "v4.1.8");
        assert_eq!(questions(cluster), "n1=1 n2=1 n3=1 n4=1");
    });
}

#[test]
fn ranks_in_a_stack_get_another_mpi() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs mpich in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        make_stack(cluster, "stack", (&own, "/user-environment"));
        cluster.share("other", &other);
        let options = "--mpi=pmi2 --uenv=/shared/stack.squashfs --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "/user-environment/bin/hello");
        assert_loaded(&printed, "3.4.3");
        assert_eq!(questions(cluster), "n1=1 n2=1 n3=1 n4=1");
        let options = format!("--export=NONE {options}");
        let printed = eight(cluster, &options, "/user-environment/bin/hello");
        assert_loaded(&printed, "3.4.3");
    });
}

#[test]
fn an_mpi_is_one_of_the_node_or_of_a_stack_beside_the_program() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        make_stack(cluster, "stack", (&own, "/user-environment"));
        make_stack(cluster, "others", (&other, "/user-tools"));
        cluster.root(
            "printf '[[mpi]]\\nname = \"fast\"\\nprefix = \"/shared/other\"\\n' \
             >>/etc/cabane/config.toml",
        );
        let program = "/user-environment/bin/hello";
        for options in [
            "--uenv=/shared/stack.squashfs --uenv-mpi=host",
            "--uenv=/shared/stack.squashfs,/shared/others.squashfs --uenv-mpi=/user-tools",
            "--uenv=/shared/root.squashfs,/shared/stack.squashfs --uenv-mpi=host",
        ] {
            let printed = eight(cluster, &format!("--mpi=pmi2 {options}"), program);
            assert_loaded(&printed, "3.4.3");
        }
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs,/shared/others.squashfs \
                       --uenv-mpi=/user-tools";
        let printed = eight(cluster, options, "/opt/mpi/bin/hello");
        assert_refused(&printed, 14, "/user-tools is in another image");
    });
}

#[test]
fn a_program_without_any_image_gets_another_open_mpi() {
    let Some([own, other]) = installed(["openmpi", "openmpi-4.1.8"]) else {
        not_run!("needs openmpi in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        needs_pmix!(cluster);
        prepare(cluster);
        let tree = cluster.machine_directory("own").join("tree");
        let _ = Tree::new(&tree).copy_of(&own, "");
        compile_below(&tree, "hello");
        cluster.share("own", &tree);
        cluster.share("other", &other);
        let options = "--mpi=pmix --uenv-mpi=/shared/other";
        assert_loaded(&eight(cluster, options, "/shared/own/bin/hello"), "v4.1.8");
        let step = format!("cd /shared/own/bin && srun -N4 --ntasks-per-node=2 {options} ./hello");
        assert_loaded(&cluster.user("alice").sh(&step), "v4.1.8");
    });
}

#[test]
fn nodes_make_the_links_for_another_name_at_the_same_time() {
    let Some([other]) = installed(["mpich-3.4.3"]) else {
        not_run!("needs mpich-3.4.3: scripts/setup test");
    };
    let Some(compiler) = Program::find("mpicc.mpich").path() else {
        not_run!("needs the mpich of the system, whose library has another name");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        let program = cluster.machine_directory("named").join("hello");
        let mut compiling = Command::new(&compiler);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mpi/hello.c");
        Finished::of(compiling.arg(source).arg("-o").arg(&program)).success();
        cluster.share("named", &program);
        cluster.share("other", &other);
        cluster.root("rm -rf /home/alice/.cache/cabane/mpi");
        let options = "--mpi=pmi2 --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "/shared/named");
        assert_loaded(&printed, "3.4.3");
        let links = cluster.root("find /home/alice/.cache/cabane/mpi -type l -printf '%f %l\\n'");
        assert!(links.contains("libmpich.so.12 /shared/other/lib/libmpi.so.12"), "{links}");
    });
}

#[test]
fn an_mpi_of_another_family_ends_the_step_with_one_message() {
    let Some([own, other]) = installed(["mpich", "openmpi"]) else {
        not_run!("needs mpich and openmpi: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        make_root(cluster, "root", &own);
        cluster.share("family", &other);
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/family";
        let printed = eight(cluster, options, "/opt/mpi/bin/hello");
        let reason = "]: the program is for the MPICH ABI, and /shared/family has only Open MPI";
        let hint = "cabane: hint: only a library with the MPICH ABI can replace another one";
        let counts = [reason, hint].map(|line| printed.stderr.matches(line).count());
        assert_eq!(
            (printed.code, printed.stdout.as_str(), counts),
            (14, "", [1, 1]),
            "{printed:?}"
        );
    });
}

#[test]
fn ranks_that_slurm_leaves_alone_are_not_started() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        let options = "--uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let kinds: &[_] = if has_pmix(cluster) { &["none", "pmix"] } else { &["none"] };
        for kind in kinds {
            let printed = eight(cluster, &format!("--mpi={kind} {options}"), "/opt/mpi/bin/hello");
            let reason = "ranks with MPICH 3.4.3 do not find each other under `srun --mpi=";
            assert_refused(&printed, 15, reason);
            assert_refused(&printed, 15, "hint: `srun --mpi=pmi2` is what it knows");
        }
        let alone = format!("srun -n1 --mpi=none {options} /opt/mpi/bin/hello");
        let printed = cluster.user("alice").sh(&alone).success();
        assert!(printed.stdout.ends_with("3.4.3\n"), "{printed:?}");
    });
}

#[test]
fn ranks_with_open_mpi_are_not_left_alone_either() {
    let Some([own, other]) = installed(["openmpi-4.1.8", "openmpi"]) else {
        not_run!("needs openmpi in two versions: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        make_root(cluster, "root", &own);
        cluster.share("other", &other);
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "/opt/mpi/bin/hello");
        assert_refused(&printed, 15, "each of 8 would be alone");
        assert_refused(&printed, 15, "hint: `srun --mpi=pmix` is what it knows");
    });
}

#[test]
fn a_program_that_is_not_there_is_reported_once() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "absent");
        assert_refused(&printed, 127, "there is no program `absent` here");
    });
}

#[test]
fn a_script_names_the_file_that_needs_mpi() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let script = "sh -c 'exec /opt/mpi/bin/hello'";
        let printed = eight(cluster, options, script);
        assert_refused(&printed, 14, "sh needs no MPI");
        assert_refused(&printed, 14, "with `--uenv-mpi-program`");
        assert_refused(&printed, 14, "hint: `srun --uenv-mpi=none`");
        let named = format!("{options} --uenv-mpi-program=/opt/mpi/bin/hello");
        assert_loaded(&eight(cluster, &named, script), "3.4.3");
    });
}

#[test]
fn several_programs_in_one_step_are_refused_with_the_way_out() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        let printed = cluster.user("alice").sh(
            "printf '0-3 /opt/mpi/bin/hello\\n4-7 /opt/mpi/bin/hello\\n' >programs.conf
             srun -N4 -n8 --mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/other \
             --multi-prog programs.conf",
        );
        assert_refused(&printed, 14, "one step with several programs gets no other MPI");
        assert_refused(&printed, 14, "`cabane run --mpi=/shared/other IMAGES -- PROGRAM`");
    });
}

#[test]
fn what_is_not_known_is_refused_before_anything_is_queued() {
    in_cluster!(|cluster: &Cluster| {
        prepare(cluster);
        for (option, reason) in [
            ("fast", "there is no MPI `fast` in the configuration"),
            ("tool/1:v1", "an MPI in an image, such as `tool/1:v1`, is not found"),
            ("none --uenv-mpi-program=x", "`--uenv-mpi-program` says for what"),
        ] {
            let printed = cluster.user("alice").sh(&format!(
                "printf '#!/bin/sh\\necho ran\\n' >job.sh
                 sbatch --hold --uenv=app/1:v1 --uenv-mpi={option} job.sh; echo $? >&2
                 squeue --noheader; srun --uenv=app/1:v1 --uenv-mpi={option} echo ran"
            ));
            assert_failed(&printed, reason);
            assert_eq!(printed.stderr.matches(reason).count(), 2, "{printed:?}");
        }
        assert_eq!(questions(cluster), "");
    });
}

#[test]
fn steps_have_what_their_job_was_submitted_with_and_may_have_their_own() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        cluster.root(
            "printf '[[mpi]]\\nname = \"fast\"\\nprefix = \"/shared/other\"\\n' \
             >>/etc/cabane/config.toml",
        );
        let printed = cluster
            .user("alice")
            .sh("cat >job.sh <<'END'
#!/bin/sh
hello=/opt/mpi/bin/hello image=--uenv=/shared/root.squashfs
# Quiet about a step that waits until the one before has ended.
srun --quiet --mpi=pmi2 -n2 $image $hello
srun --quiet --mpi=pmi2 -n2 $image --uenv-mpi=none $hello
SLURM_UENV_MPI=none srun --quiet --mpi=pmi2 -n2 $image $hello
srun --quiet -n1 --uenv-mpi=none echo no MPI
END
                 rm -f out; sbatch --quiet --wait -w n1 -n2 --output=out --uenv-mpi=fast job.sh
                 cat out")
            .success();
        let with = |version: &str| {
            let lines = printed.stdout.lines();
            lines.filter(|line| line.contains(" of 2, right, ") && line.ends_with(version)).count()
        };
        let others = printed.stdout.lines().filter(|line| !line.contains(" of 2, right, "));
        assert_eq!(others.collect::<Vec<_>>(), ["no MPI"; 1], "{printed:?}");
        assert_eq!((with("3.4.3"), printed.stdout.lines().count()), (2, 7), "{printed:?}");
        // The script itself is not judged, and neither are steps with their own MPI.
        assert_eq!(questions(cluster), "n1=1");
    });
}

#[test]
fn a_node_with_its_own_reason_reports_it_and_ends_the_step() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        cluster.on_node("n1", "root").sh("cp -r /shared/other /run/only-here").success();
        let printed = cluster
            .user("alice")
            .sh("srun -w n1,n2 -N2 --ntasks-per-node=2 --mpi=pmi2 --uenv=/shared/root.squashfs \
             --uenv-mpi=/run/only-here /opt/mpi/bin/hello");
        cluster.on_node("n1", "root").sh("rm -r /run/only-here").success();
        // The tasks of the other node were killed, which is what srun makes its code of.
        let reason = "cabane: n2: there is no MPI `/run/only-here`";
        assert_refused(&printed, 137, reason);
    });
}

#[test]
fn what_an_answer_names_is_opened_with_the_rights_of_the_owner() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(|cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        cluster.root(
            "install -d -m 700 /shared/secret; echo secret >/shared/secret/text
             cat >/usr/local/bin/counting <<'END'
#!/bin/sh
case $* in
'slurm node'*) printf 'bind:/shared/secret/text:/run/cabane/text:must\\0\\0' ;;
*) exec /usr/local/bin/cabane \"$@\" ;;
esac
END",
        );
        let printed =
            cluster.user("alice").sh("srun --uenv=/shared/root.squashfs --uenv-mpi=/shared/other \
             sh -c 'cat /run/cabane/text; echo ran'");
        cluster.root("rm -r /shared/secret");
        assert_failed(&printed, "Permission denied");
    });
}

#[test]
fn ranks_in_containers_of_their_job_get_another_mpi() {
    let Some([own, other]) = two_mpichs() else {
        not_run!("{NO_MPICHS}");
    };
    in_cluster!(JobContainers, |cluster: &Cluster| {
        prepare_mpich(cluster, &own, &other);
        let options = "--mpi=pmi2 --uenv=/shared/root.squashfs --uenv-mpi=/shared/other";
        let printed = eight(cluster, options, "/opt/mpi/bin/hello");
        assert_loaded(&printed, "3.4.3");
    });
}
