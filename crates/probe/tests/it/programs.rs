// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs that are not what they should be, or not the system's.

use std::time::{Duration, Instant};

use cabane_probe::{External, Limits, Request, TargetChoice, probe};

use crate::made_up::{MadeUp, X86_V4};

fn specs(machine: &MadeUp) -> Vec<String> {
    machine.probe().externals.iter().map(External::spec).collect()
}

#[test]
fn a_program_that_hangs_is_left_out_and_the_others_are_not() {
    let machine = MadeUp::new()
        .program("/usr/bin/cmake", "sleep 600 & sleep 600")
        .says("/usr/bin/make", "GNU Make 4.3");
    let begin = Instant::now();
    let found = probe(&Request {
        limits: Limits { answer: Duration::from_secs(2), ..machine.request().limits },
        ..machine.request()
    });
    let specs: Vec<String> = found.externals.iter().map(External::spec).collect();
    let notes: Vec<&str> = found.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(
        specs == ["gmake@4.3"]
            && notes.contains(&"left out: it did not answer in time")
            && begin.elapsed() < Duration::from_secs(60),
        "{specs:?} {notes:?} {:?}",
        begin.elapsed()
    );
}

#[test]
fn a_program_that_does_not_stop_talking_is_left_out() {
    let machine = MadeUp::new()
        .program("/usr/bin/cmake", "echo cmake version 3.25.1; exec yes")
        .says("/usr/bin/make", "GNU Make 4.3");
    assert_eq!(specs(&machine), ["gmake@4.3"]);
}

#[test]
fn what_a_program_says_beyond_a_version_does_not_get_into_the_files() {
    let evil = "cmake version 3.25.1'\\n  evil: {buildable: true}\nGNU Make 4.3\x1b[31m";
    let machine = MadeUp::new()
        .says("/usr/bin/cmake", evil)
        .says("/usr/bin/make", "GNU Make $(reboot)")
        .says("/usr/bin/git", "git version 1\u{0}\u{202e}2")
        .program("/usr/bin/m4", "head -c 5000 /dev/urandom");
    assert_eq!(specs(&machine), ["cmake@3.25.1", "git@1~tcltk"]);
}

#[test]
fn a_program_that_fails_is_left_out() {
    let machine = MadeUp::new().program("/usr/bin/cmake", "echo cmake version 3.25.1; exit 1");
    assert_eq!(specs(&machine), Vec::<String>::new());
}

#[test]
fn someone_elses_program_of_the_same_name_is_left_out() {
    let machine = MadeUp::new()
        .says("/usr/bin/md5sum", "md5sum (uutils coreutils) 0.2.2")
        .says("/usr/bin/sed", "This is not GNU sed version 4.0")
        .says("/usr/bin/tar", "bsdtar 3.6.2 - libarchive 3.6.2");
    assert_eq!(specs(&machine), Vec::<String>::new());
}

#[test]
fn a_patchelf_that_breaks_programs_is_left_out() {
    let of = |version: &str| specs(&MadeUp::new().says("/usr/bin/patchelf", version));
    assert_eq!(
        [of("patchelf 0.17.2"), of("patchelf 0.18.0")],
        [vec!["patchelf@0.17.2".to_owned()], Vec::new()]
    );
}

#[test]
fn what_lies_in_a_home_is_left_out_by_whatever_link_it_is_reached() {
    let machine = MadeUp::new()
        .says("/users/me/.pyenv/shims/cmake", "cmake version 3.99.0")
        .link("/usr/local/bin/cmake", "/users/me/.pyenv/shims/cmake")
        .gcc("/home/other/gcc/bin", "", "99.1.0")
        .link("/opt/gcc", "/home/other/gcc");
    assert_eq!(specs(&machine), Vec::<String>::new());
}

#[test]
fn a_gcc_without_cxx_is_left_out_with_a_note() {
    let machine = MadeUp::new().says("/usr/bin/gcc-13", "13.2.0").gcc("/usr/bin", "", "12.2.0");
    let notes = machine.probe().notes;
    assert!(
        specs(&machine) == ["gcc@12.2.0 languages:='c,c++,fortran'"]
            && notes.iter().any(|note| note.subject == "/usr/bin/gcc-13"),
        "{notes:?}"
    );
}

#[test]
fn an_mpi_whose_wrapper_belongs_to_another_is_left_out() {
    let machine = MadeUp::new()
        .says("/usr/bin/mpichversion", "MPICH Version:\t4.0.2\nMPICH Device:\tch4:ofi")
        .says("/usr/bin/ompi_info", "  Open MPI: 4.1.4")
        .says("/usr/bin/mpicc.openmpi", "mpicc: Open MPI 4.1.4 (Language: C)")
        .link("/usr/bin/mpicc", "/etc/alternatives/mpi")
        .link("/etc/alternatives/mpi", "/usr/bin/mpicc.openmpi");
    let expected = "openmpi@4.1.4~cuda~cxx~cxx_exceptions~java~memchecker~rocm~wrapper-rpath \
                    fabrics=none schedulers=none";
    assert_eq!(specs(&machine), [expected]);
}

#[test]
fn a_requested_target_is_taken_with_a_note_if_this_machine_is_older() {
    let older = X86_V4.replace("avx512f", "");
    let machine = MadeUp::new().file("/proc/cpuinfo", &older);
    let target: TargetChoice = "x86_64_v4".parse().unwrap();
    let found = probe(&Request { target: Some(target), ..machine.request() });
    assert!(
        found.processor.target.as_deref() == Some("x86_64_v4")
            && found.notes.iter().any(|note| note.text.contains("will not run here"))
    );
}

#[test]
fn the_command_python_counts_if_it_is_the_same_python() {
    let python =
        |version: &str| format!("case $* in *-V*) echo Python {version};; *) echo has ssl;; esac");
    let machine = || MadeUp::new().program("/usr/bin/python3", &python("3.11.2"));
    let seen = |machine: &MadeUp| {
        let found = machine.probe();
        let external = found.of("python").next().unwrap();
        let has_it = external.variants.contains("+pythoncmd");
        let check = external.checks.iter().find(|check| check.contains("python+pythoncmd"));
        (has_it, check.map(|check| check.split(',').next().unwrap().to_owned()))
    };
    let none = "there is no /usr/bin/python".to_owned();
    assert_eq!(seen(&machine()), (false, Some(none)));
    let linked = machine().link("/usr/bin/python", "python3");
    assert_eq!(seen(&linked), (true, None));
    // It would be an old Python that packages get.
    let old = machine().program("/usr/bin/python", &python("2.7.18"));
    assert_eq!(seen(&old), (false, Some("/usr/bin/python is another Python".to_owned())));
}
