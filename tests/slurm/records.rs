// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Records of steps: that they are right, and in no one's way.

use std::time::{Duration, Instant};

use cabane_testkit::Finished;

use crate::arena::{Cluster, PLUGIN, in_cluster};

const FILE: &str = "/shared/records/steps.jsonl";

/// Has steps recorded there; a step of alice runs; returns what became of her step.
fn step_recorded_at(cluster: &Cluster, destination: &str, step: &str) -> Finished {
    cluster.root(&format!(
        "install -d -m 750 /shared/records; rm -f /shared/records/*
         echo 'required {PLUGIN} cabane=/usr/local/bin/cabane record={destination}' \
             >/etc/slurm/plugstack.conf"
    ));
    cluster.user("alice").sh(step)
}

/// Reads the first records of steps with an expression of Python, `r` being the list, once there
/// are so many. Each is written by a process of its own: those of steps that follow each other may
/// change places.
fn records(cluster: &Cluster, number: usize, expression: &str) -> String {
    records_of(cluster, "cabane-step", number, expression)
}

/// As [`records`], of another kind.
fn records_of(cluster: &Cluster, kind: &str, number: usize, expression: &str) -> String {
    let script = format!(
        "for i in $(seq 200); do
             [ \"$(grep -cs '\"{kind}\"' {FILE})\" = {number} ] && break; sleep 0.05
         done
         python3 -c 'import json, sys
r = [json.loads(line) for line in open(\"{FILE}\")]
r = [record for record in r if record[\"record\"] == \"{kind}\"]
print(len(r), {expression})'"
    );
    cluster.root(&script).trim_end().to_owned()
}

#[test]
fn a_step_is_recorded_once_with_image_view_user_and_job() {
    in_cluster!(|cluster: &Cluster| {
        let step =
            "srun -N4 -n8 --uenv=app/1:v1 --view=default sh -c 'echo $SLURM_JOB_ID' | sort -u";
        let finished = step_recorded_at(cluster, &format!("file:{FILE}"), step).success();
        let job = finished.stdout.trim();
        let found = records(
            cluster,
            1,
            "r[0][\"job\"], r[0][\"step\"], r[0][\"user\"], r[0][\"node\"], r[0][\"nodes\"], r[0][\"tasks\"], \
             r[0][\"mounted\"], [(i[\"label\"], i[\"views\"], i[\"digest\"] in i[\"path\"]) for i in r[0][\"images\"]]",
        );
        assert_eq!(
            found,
            format!("1 {job} 0 alice n1 4 8 True [('app/1:v1@here%any', ['default'], True)]")
        );
    });
}

#[test]
fn what_is_recorded_is_for_root_and_has_no_commands() {
    in_cluster!(|cluster: &Cluster| {
        let step = "SECRET=hunter2 srun --uenv=app/1:v1 sh -c 'true hunter3'";
        step_recorded_at(cluster, &format!("file:{FILE}"), step).success();
        records(cluster, 1, "0");
        let seen =
            cluster.root(&format!("stat --format='%U %a' {FILE}; grep -c hunter {FILE}; true"));
        assert_eq!(seen, "root 640\n0\n");
    });
}

#[test]
fn each_step_of_a_job_has_a_record_and_steps_without_images_have_none() {
    in_cluster!(|cluster: &Cluster| {
        let script = "printf '#!/bin/bash\\nsrun true\\nsrun --uenv=tool/1:v1 true\\n' >job.sh
                      sbatch --wait --output=out --uenv=app/1:v1 job.sh; srun true";
        step_recorded_at(cluster, &format!("file:{FILE}"), script).success();
        let found = records(
            cluster,
            3,
            "sorted((s[\"step\"], [i[\"label\"][:3] for i in s[\"images\"]]) for s in r)",
        );
        let expected = "3 [('0', ['app']), ('1', ['too']), ('batch', ['app'])]";
        assert_eq!(found, expected);
    });
}

#[test]
fn user_node_and_digest_are_not_what_the_job_says() {
    in_cluster!(|cluster: &Cluster| {
        let step = "cat >lie <<'END'
export SLURM_JOB_USER=bob SLURM_JOB_UID=0 SLURMD_NODENAME=n9
unset ${!_SLURM_SPANK_OPTION*} ${!SLURM_SPANK__SLURM*}
export CABANE_LOADED=$(sed -E 's/\"digest\":\"[0-9a-f]+\"/\"digest\":\"0000\"/' <<<$CABANE_LOADED)
srun -w n1 printenv CABANE_LOADED
END
            salloc --quiet --uenv=app/1:v1 bash lie";
        let printed = step_recorded_at(cluster, &format!("file:{FILE}"), step).success();
        assert!(printed.stdout.contains("\"digest\":\"0000\""), "{printed:?}");
        let found = records(
            cluster,
            1,
            "r[0][\"user\"], r[0][\"uid\"] > 0, r[0][\"node\"], len(r[0][\"images\"][0][\"digest\"])",
        );
        assert_eq!(found, "1 alice True n1 64");
    });
}

#[test]
fn of_several_builds_the_one_that_was_mounted_is_recorded() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(
            "echo zen3 >/etc/cabane/uarch; rm -rf /shared/two
             install -d -o alice -g alice /shared/two",
        );
        let builds = "cabane repo create /shared/two
             for i in zen2:app zen3:app2; do
                 cabane --repo /shared/two image add app/1:v1@here%${i%:*} /shared/images/${i#*:}.squashfs
             done";
        cluster.user("alice").sh(builds).success();
        let step = "srun --repo=/shared/two --uenv=app/1:v1@here who 2>/dev/null";
        let finished = step_recorded_at(cluster, &format!("file:{FILE}"), step);
        cluster.root("rm /etc/cabane/uarch");
        let found = records(cluster, 1, "[(i[\"label\"], i[\"views\"]) for i in r[0][\"images\"]]");
        let expected = "1 [('app/1:v1@here%zen3', ['default'])]";
        assert_eq!((finished.stdout.as_str(), found.as_str()), ("app 2\n", expected));
    });
}

#[test]
fn a_step_whose_image_cannot_be_mounted_is_recorded_as_such() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("rm /etc/cabane/mount.policy");
        let finished =
            step_recorded_at(cluster, &format!("file:{FILE}"), "srun --uenv=app/1:v1 true");
        assert_eq!(finished.code, 1, "{finished:?}");
        assert_eq!(records(cluster, 1, "r[0][\"mounted\"]"), "1 False");
    });
}

#[test]
fn records_go_to_the_socket_of_a_log_daemon() {
    in_cluster!(|cluster: &Cluster| {
        let daemon = "import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(\"/run/log-socket\")
s.settimeout(20)
print(s.recv(8192).decode())";
        cluster.on_node("n1", "root").sh("rm -f /run/log-socket").success();
        std::thread::scope(|scope| {
            let script = format!("exec python3 -c '{daemon}'");
            let log = scope.spawn(move || cluster.on_node("n1", "root").sh(&script));
            let wait = "while ! [ -S /run/log-socket ]; do sleep 0.02; done";
            cluster.on_node("n1", "root").sh(wait).success();
            let step = "srun -w n1 --uenv=app/1:v1 true";
            step_recorded_at(cluster, "syslog:/run/log-socket", step).success();
            let printed = log.join().unwrap().success().stdout;
            // On a busy node the record of the end may come first.
            assert!(
                printed.starts_with("<30>") && printed.contains(": {\"record\":\"cabane-step"),
                "{printed}"
            );
        });
    });
}

#[test]
fn records_go_to_a_collector() {
    in_cluster!(|cluster: &Cluster| {
        let collector = "import http.server
class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.path, self.headers[\"content-type\"], self.rfile.read(int(self.headers[\"content-length\"])).decode())
        self.send_response(204); self.end_headers()
    def log_message(self, *a): pass
server = http.server.HTTPServer((\"10.77.0.1\", 8099), Collector)
server.timeout = 20
open(\"/shared/collects\", \"w\"); server.handle_request()";
        cluster.root("rm -f /shared/collects");
        std::thread::scope(|scope| {
            let script = format!("exec python3 -c '{collector}'");
            let printed = scope.spawn(move || cluster.user("root").sh(&script));
            cluster.root("while ! [ -e /shared/collects ]; do sleep 0.02; done");
            // A proxy of the user's is none for root.
            let step = "http_proxy=http://10.77.0.1:1 srun --uenv=app/1:v1 true";
            step_recorded_at(cluster, "http://10.77.0.1:8099/steps", step).success();
            let printed = printed.join().unwrap().success().stdout;
            assert!(printed.starts_with("/steps application/json {\"record\":"), "{printed}");
        });
    });
}

/// Runs a script while someone accepts connections and never answers.
fn with_silent_collector(cluster: &Cluster, test: impl FnOnce()) {
    let collector = "import socket, time
s = socket.create_server((\"10.77.0.1\", 8098)); open(\"/shared/silent\", \"w\"); c = []
s.settimeout(0.1); import os
while os.path.exists(\"/shared/silent\"):
    try: c.append(s.accept())
    except TimeoutError: pass";
    cluster.root("rm -f /shared/silent");
    std::thread::scope(|scope| {
        let script = format!("exec python3 -c '{collector}'");
        let collector = scope.spawn(move || cluster.user("root").sh(&script));
        cluster.root("while ! [ -e /shared/silent ]; do sleep 0.02; done");
        test();
        cluster.root("rm /shared/silent");
        collector.join().unwrap().success();
    });
}

#[test]
fn a_collector_that_never_answers_holds_nothing_up() {
    in_cluster!(|cluster: &Cluster| {
        with_silent_collector(cluster, || {
            let begin = Instant::now();
            let steps = "for i in 1 2 3; do srun -N1 -w n1 --uenv=app/1:v1 who; done";
            let finished = step_recorded_at(cluster, "http://10.77.0.1:8098/", steps).success();
            assert_eq!(finished.stdout, "app 1\napp 1\napp 1\n");
            assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        });
        // And after a few seconds no one tries any more.
        let left =
            "for i in $(seq 100); do pgrep -x cabane >/dev/null || exit 0; sleep 0.1; done; exit 1";
        cluster.on_node("n1", "root").sh(left).success();
    });
}

#[test]
fn no_more_than_a_few_records_are_under_way_on_a_node() {
    in_cluster!(|cluster: &Cluster| {
        with_silent_collector(cluster, || {
            let steps = "salloc --quiet -N1 -w n1 -n8 --uenv=app/1:v1 bash -c '
                for i in $(seq 24); do srun -n1 --overlap true & done; wait'";
            step_recorded_at(cluster, "http://10.77.0.1:8098/", steps).success();
            // One too many starts, counts the others, and ends.
            let count = "for i in $(seq 10); do n=$(pgrep -xc cabane); [ $n -le 16 ] && break; \
                         sleep 0.1; done; echo $n";
            let running = cluster.on_node("n1", "root").sh(count);
            let running: usize = running.stdout.trim().parse().unwrap();
            assert!(running <= 16, "{running}");
        });
        let left =
            "for i in $(seq 100); do pgrep -x cabane >/dev/null || exit 0; sleep 0.1; done; exit 1";
        cluster.on_node("n1", "root").sh(left).success();
    });
}

#[test]
fn where_no_record_can_be_written_the_step_runs() {
    in_cluster!(|cluster: &Cluster| {
        // A pipe without a reader, a full device, and one that is not there.
        cluster.root("mkdir -p /shared/odd; rm -f /shared/odd/pipe; mkfifo /shared/odd/pipe");
        for place in ["file:/shared/odd/pipe", "file:/dev/full", "file:/absent/steps", "nonsense"] {
            let finished = step_recorded_at(cluster, place, "srun --uenv=app/1:v1 who").success();
            assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("app 1\n", ""));
        }
    });
}

#[test]
fn records_are_turned_on_and_off_by_the_command() {
    in_cluster!(|cluster: &Cluster| {
        let install = |arguments: &str| {
            let script = format!("cabane slurm install --plugin {PLUGIN} {arguments} 2>&1");
            cluster.user("root").sh(&script)
        };
        let refused = install("--record file:/absent/steps.jsonl");
        assert!(
            refused.code == 3 && refused.stdout.contains("install -d -m 750 /absent"),
            "{refused:?}"
        );
        cluster.root("install -d -m 750 /shared/records");
        install(&format!("--record file:{FILE}")).success();
        let line = || cluster.root("cat /etc/slurm/plugstack.conf");
        assert!(line().ends_with(&format!(" record=file:{FILE}\n")), "{}", line());
        // An upgrade keeps it.
        install("").success();
        assert!(line().contains("record="), "{}", line());
        cluster.root("chmod 777 /shared/records");
        let check = cluster.user("root").sh("cabane slurm check");
        assert!(check.code == 10 && check.stderr.contains("/shared/records"), "{check:?}");
        install("--no-record").success();
        assert!(!line().contains("record="), "{}", line());
    });
}

#[test]
fn way_and_reason_of_mounting_are_recorded() {
    in_cluster!(|cluster: &Cluster| {
        let to = format!("file:{FILE}");
        step_recorded_at(cluster, &to, "srun --uenv=app/1:v1 true").success();
        let way = "r[0][\"images\"][0][\"way\"], r[0].get(\"reason\")";
        assert_eq!(records(cluster, 1, way), "1 kernel None");
        cluster.root("sed -i s/image-owners.*/image-owners\\ root/ /etc/cabane/mount.policy");
        step_recorded_at(cluster, &to, "srun --uenv=app/1:v1 true").success();
        assert_eq!(records(cluster, 1, way), "1 fuse None");
        cluster.root("echo fuse-images no >>/etc/cabane/mount.policy");
        step_recorded_at(cluster, &to, "srun --uenv=app/1:v1 true");
        let reason = "r[0][\"mounted\"], r[0][\"images\"][0].get(\"way\"), \
                      \"the kernel may not read\" in r[0][\"reason\"]";
        assert_eq!(records(cluster, 1, reason), "1 False None True");
    });
}

#[test]
fn batch_scripts_and_heterogeneous_jobs_are_recorded_as_what_they_are() {
    in_cluster!(|cluster: &Cluster| {
        let script = "sbatch --quiet --wait -N3 --output=out --uenv=app/1:v1 --wrap true
             srun -N1 --uenv=app/1:v1 true : -N2 true
             printf '#!/bin/bash\\n#SBATCH -N1 --uenv=app/1:v1\\n#SBATCH hetjob\\n#SBATCH -N2\\nsrun --het-group=0,1 true\\n' >job.sh
             sbatch --quiet --wait --output=out job.sh";
        step_recorded_at(cluster, &format!("file:{FILE}"), script).success();
        let found = records(
            cluster,
            6,
            "sorted((s[\"step\"], s[\"nodes\"], s.get(\"het_job\") == s[\"job\"], \
              s.get(\"array_job\")) for s in r)",
        );
        let parts = "('0', 1, True, None), ('0', 1, True, None), ('0', 2, False, None), \
                     ('0', 2, False, None)";
        let batches = "('batch', 1, True, None), ('batch', 3, False, None)";
        assert_eq!(found, format!("6 [{parts}, {batches}]"));
    });
}

#[test]
fn the_end_of_a_step_is_recorded_with_its_exit_code_and_times() {
    in_cluster!(|cluster: &Cluster| {
        let steps = "srun --uenv=app/1:v1 sh -c 'sleep 0.2; exit 7'
             srun -n2 -N1 --uenv=app/1:v1 sh -c '[ $SLURM_LOCALID = 0 ] || kill -9 $$'
             srun --uenv=app/1:v1 true";
        step_recorded_at(cluster, &format!("file:{FILE}"), steps);
        let found = records_of(
            cluster,
            "cabane-step-end",
            3,
            "[(s.get(\"exit_code\"), s.get(\"signal\"), s[\"images\"][0][\"label\"][:3], \
              len(s[\"images\"][0][\"digest\"])) for s in sorted(r, key=lambda s: s[\"job\"])], \
             min(r, key=lambda s: s[\"job\"])[\"seconds\"] >= 0.2, [0 < r[0][\"times_ms\"][time] < 60000 \
             for time in (\"lookup\", \"open\", \"mount\")]",
        );
        let expected = "3 [(7, None, 'app', 64), (137, 9, 'app', 64), (0, None, 'app', 64)] True \
                        [True, True, True]";
        assert_eq!(found, expected);
    });
}

#[test]
fn each_node_that_cannot_mount_is_recorded() {
    in_cluster!(|cluster: &Cluster| {
        // The nodes share their policy, and not this place.
        cluster.root("echo mount-point /var/spool/slurmd/place >>/etc/cabane/mount.policy");
        for node in ["n1", "n3"] {
            cluster.on_node(node, "root").sh("mkdir -p /var/spool/slurmd/place").success();
        }
        let step = "srun -N4 --uenv=/shared/images/app.squashfs:/var/spool/slurmd/place true";
        step_recorded_at(cluster, &format!("file:{FILE}"), step);
        let found = records_of(
            cluster,
            "cabane-node-failure",
            2,
            "sorted((s[\"node\"], s[\"mounted\"], \"slurmd/place: \" in s[\"reason\"]) for s in r)",
        );
        assert_eq!(found, "2 [('n2', False, True), ('n4', False, True)]");
        for node in ["n1", "n3"] {
            cluster.on_node(node, "root").sh("rmdir /var/spool/slurmd/place").success();
        }
    });
}

#[test]
fn the_report_reads_the_records_of_real_steps() {
    in_cluster!(|cluster: &Cluster| {
        let steps = "srun --uenv=app/1:v1 sh -c 'exit 3'
             srun --uenv=app/1:v1 true
             srun -N4 --uenv=/shared/images/app.squashfs:/opt/app true";
        step_recorded_at(cluster, &format!("file:{FILE}"), steps);
        records_of(cluster, "cabane-step-end", 3, "0");
        records_of(cluster, "cabane-node-failure", 3, "0");
        // The file is the one of the plugin.
        let seen = cluster.user("root").sh("cabane slurm report").success();
        for text in [
            "3 steps from ",
            ", 3 ends, 3 failures of further nodes\n",
            "n[1-4]       4      1  alice  ",
            "  /opt/app is not among the mount points that the administrator allows",
            "app/1:v1@here%any  ",
        ] {
            assert!(seen.stdout.contains(text), "{text}: {}", seen.stdout);
        }
        assert_eq!(seen.stderr, "");
        let unused = cluster.user("root").sh("cabane slurm report --unused --json");
        let unused = unused.success().stdout;
        assert!(unused.contains("\"label\": \"tool/1:v1@here%any\""), "{unused}");
    });
}
