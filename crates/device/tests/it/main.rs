// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Devices of a made-up vendor, from the files to what a container gets.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_device::{DeviceWarning, Devices, Given, PRIVATE, Wanted};
use cabane_report::Report;
use tempfile::TempDir;

/// A directory with the specifications and the driver of a vendor.
struct Machine {
    directory: TempDir,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let machine = Self { directory };
        for name in ["etc", "run", "driver"] {
            fs::create_dir(machine.path(name)).unwrap();
            fs::set_permissions(machine.path(name), Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Writes a file, with the directory of the machine in place of `@`.
    fn file(&self, relative: &str, text: &str) {
        let place = self.directory.path().to_str().unwrap();
        let path = self.path(relative);
        fs::write(&path, text.replace('@', place)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }

    /// Writes a specification of the device `one` with these edits.
    fn specified(&self, edits: &str) {
        let head = "cdiVersion: 0.5.0\nkind: vendor.example/device\n\
                    devices: [{name: one}]\ncontainerEdits:\n";
        self.file("etc/vendor.yaml", &format!("{head}{edits}"));
    }

    fn library(&self, name: &str, soname: &str) {
        let mut command = Command::new("cc");
        command.args(["-shared", "-x", "c", "/dev/null", "-o"]);
        command.arg(self.path("driver").join(name));
        let status = command.arg(format!("-Wl,-soname,{soname}")).status();
        assert!(status.unwrap().success());
    }

    fn devices(&self) -> Devices {
        Devices::look(&[&self.path("etc"), &self.path("run")])
    }

    fn give(&self, wanted: &[&str]) -> Result<Given, String> {
        self.give_beside(wanted, "")
    }

    /// Gives devices to a container that has a variable.
    fn give_beside(&self, wanted: &[&str], variable: &str) -> Result<Given, String> {
        let wanted: Vec<_> = wanted.iter().map(|text| text.parse().unwrap()).collect();
        let devices = self.devices();
        assert_eq!(devices.problems(), []);
        let given = devices
            .choose(&wanted)
            .and_then(|chosen| chosen.give(Wanted::Everything, &|name| name == variable));
        given.map_err(|error| {
            let report = Report::from(error);
            self.blank(&format!("{report}; {}", report.hints()[0]))
        })
    }

    fn blank(&self, text: &str) -> String {
        text.replace(self.directory.path().to_str().unwrap(), "@")
    }

    /// Where files are seen, and which ones.
    fn places(&self, given: &Given) -> Vec<String> {
        let shown = |place: &cabane_device::Place| {
            let flag = if place.read_only { " ro" } else { "" };
            let (target, source) = (place.target.display(), place.source.display());
            self.blank(&format!("{target} {source}{flag}"))
        };
        given.places.iter().map(shown).collect()
    }

    fn reported(&self, given: &Given) -> Vec<String> {
        let warnings = given.warnings.iter();
        warnings.map(|one| self.blank(&one.text)).collect()
    }
}

fn names(devices: &Devices, wanted: &[&str]) -> Vec<String> {
    let wanted: Vec<_> = wanted.iter().map(|text| text.parse().unwrap()).collect();
    let chosen = devices.choose(&wanted).unwrap();
    chosen.names.iter().map(ToString::to_string).collect()
}

fn simple(kind: &str, devices: &[&str]) -> String {
    let mut text = format!("{{\"cdiVersion\": \"0.3.0\", \"kind\": \"{kind}\", \"devices\": [");
    for (number, name) in devices.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        text += &format!(
            "{comma}\n{{\"name\": \"{name}\", \"containerEdits\": {{\"env\": [\"{name}=@\"]}}}}"
        );
    }
    text + "]}"
}

#[test]
fn what_a_later_directory_says_holds() {
    let machine = Machine::new();
    machine.file("etc/a.json", &simple("a.example/x", &["one", "two"]));
    let later = simple("a.example/x", &["one"]).replace('@', "later");
    machine.file("run/a.json", &later);
    let given = machine.give(&["a.example/x=one", "a.example/x=two"]).unwrap();
    let values: Vec<_> = given.variables.iter().map(|(_, value)| value).collect();
    assert_eq!(machine.blank(&format!("{values:?}")), "[\"later\", \"@\"]");
}

#[test]
fn a_device_that_two_files_of_one_directory_describe_cannot_be_had() {
    let machine = Machine::new();
    machine.file("etc/a.json", &simple("a.example/x", &["one", "two"]));
    machine.file("etc/b.json", &simple("a.example/x", &["two"]));
    assert_eq!(
        machine.give(&["a.example/x=two"]).unwrap_err(),
        "the device `a.example/x=two` is described by @/etc/a.json and by @/etc/b.json; an \
         administrator removes one of the files"
    );
    machine.give(&["a.example/x=one"]).unwrap();
    // A later directory settles it.
    machine.file("run/a.json", &simple("a.example/x", &["two"]));
    machine.give(&["a.example/x=two"]).unwrap();
}

#[test]
fn all_is_the_device_of_that_name_or_every_one() {
    let machine = Machine::new();
    machine.file("etc/a.json", &simple("a.example/x", &["0", "1", "all"]));
    machine.file("etc/b.json", &simple("b.example/y", &["0", "1"]));
    let devices = machine.devices();
    let everything = ["a.example/x=all", "b.example/y=0", "b.example/y=1"];
    assert_eq!(names(&devices, &["all"]), everything);
    assert_eq!(names(&devices, &["b.example/y=all"]), everything[1..]);
    assert_eq!(names(&devices, &["all", "none", "b.example/y=1"]), everything[2..]);
}

#[test]
fn a_device_that_is_not_there_is_reported_with_those_that_are() {
    let machine = Machine::new();
    assert_eq!(
        machine.give(&["a.example/x=1"]).unwrap_err(),
        "there is no device `a.example/x=1` here; there are none at all: the vendor's tool writes \
         a file into /etc/cdi or /var/run/cdi"
    );
    machine.file("etc/a.json", &simple("a.example/x", &["0", "all"]));
    assert_eq!(
        machine.give(&["a.example/x=1"]).unwrap_err(),
        "there is no device `a.example/x=1` here; there are `a.example/x=0`, `a.example/x=all`"
    );
}

#[test]
fn files_that_others_can_write_to_are_not_believed() {
    let machine = Machine::new();
    machine.file("etc/a.json", &simple("a.example/x", &["0"]));
    let text = simple("a.example/x", &["0"]).replace("0.3.0", "5");
    machine.file("etc/b.json", &text);
    fs::set_permissions(machine.path("etc/a.json"), Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(machine.path("run"), Permissions::from_mode(0o777)).unwrap();
    symlink("/dev/zero", machine.path("etc/c.json")).unwrap();
    let devices = machine.devices();
    let reported: Vec<String> = devices
        .problems()
        .iter()
        .map(|problem| machine.blank(problem.text.lines().next().unwrap()))
        .collect();
    assert_eq!(
        reported,
        [
            "@/etc/a.json: others than its owner can write to it",
            "@/etc/b.json:1:16: the version `5` is not known",
            "@/etc/c.json: it is no plain file",
            "@/run: others than its owner can write to it",
        ]
    );
    assert_eq!(devices.all().count(), 0);
}

#[test]
fn libraries_are_seen_by_all_their_names() {
    let machine = Machine::new();
    machine.library("libfake.so.1.2.3", "libfake.so.1");
    machine.file("driver/notes.txt", "no library");
    machine.specified(
        "  mounts:
  - {hostPath: @/driver/libfake.so.1.2.3, containerPath: /usr/lib64/libfake.so.1.2.3, options: [ro, rbind]}
  - {hostPath: @/driver/notes.txt, containerPath: /usr/lib64/notes.txt}
  hooks:
  - {hookName: createContainer, path: /opt/vendor/nvidia-cdi-hook,
     args: [nvidia-cdi-hook, create-symlinks, --link, 'libfake.so.1::/usr/lib64/libfake.so', --link=/lib64/libfake.so::/opt/fake.so]}
  - {hookName: createContainer, path: /usr/bin/nvidia-ctk, args: [nvidia-ctk, hook, update-ldcache, --folder, /lib64, --folder, /lib64/none]}
",
    );
    let given = machine.give(&["vendor.example/device=one"]).unwrap();
    let file = "@/driver/libfake.so.1.2.3 ro";
    assert_eq!(
        machine.places(&given),
        [
            format!("/opt/fake.so {file}"),
            format!("{PRIVATE}/lib64/libfake.so {file}"),
            format!("{PRIVATE}/lib64/libfake.so.1 {file}"),
            format!("{PRIVATE}/lib64/libfake.so.1.2.3 {file}"),
            format!("/usr/lib64/libfake.so {file}"),
            format!("/usr/lib64/libfake.so.1.2.3 {file}"),
            "/usr/lib64/notes.txt @/driver/notes.txt".to_owned(),
        ]
    );
    assert_eq!(given.library_path, [Path::new(PRIVATE).join("lib64")]);
    assert_eq!(machine.reported(&given), [""; 0]);
}

#[test]
fn a_directory_of_libraries_is_looked_into() {
    let machine = Machine::new();
    machine.library("libfake.so.1.2.3", "libfake.so.1");
    machine.library("libplain.so", "libplain.so");
    machine.specified(
        "  mounts:
  - {hostPath: @/driver, containerPath: /opt/driver}
  - {hostPath: @/driver/libplain.so, containerPath: /opt/driver/libplain.so}
  hooks:
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache, --folder=/opt/driver]}
",
    );
    let given = machine.give(&["all"]).unwrap();
    assert_eq!(
        machine.places(&given),
        [
            "/opt/driver @/driver".to_owned(),
            format!("{PRIVATE}/opt/driver/libfake.so.1 @/driver/libfake.so.1.2.3"),
            format!("{PRIVATE}/opt/driver/libplain.so @/driver/libplain.so"),
        ]
    );
    let private = Path::new(PRIVATE).join("opt/driver");
    assert_eq!(given.library_path, [private, "/opt/driver".into()]);
}

#[test]
fn what_cannot_be_done_is_reported_with_its_place() {
    let machine = Machine::new();
    machine.specified(
        "  additionalGids: [0, 4000000]
  intelRdt: {closID: x}
  mounts:
  - {hostPath: tmpfs, containerPath: /scratch, type: tmpfs}
  - {hostPath: /proc, containerPath: /proc}
  - {hostPath: /etc, containerPath: /proc/driver}
  hooks:
  - {hookName: poststart, path: /usr/bin/other, args: [other, --now, create-symlinks]}
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, create-symlinks, --link, nothing::/lib/link]}
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, new-thing]}
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, chmod, --mode, '755', --path, /dev/dri]}
",
    );
    let given = machine.give(&["all"]).unwrap();
    let file = "@/etc/vendor.yaml";
    assert_eq!(
        machine.reported(&given),
        [
            format!("{file} wants you to be in the group 4000000, and you are not"),
            format!("{file}:6: `intelRdt` is left out: it takes the rights of root"),
            format!("{file}:8: tmpfs at /scratch is left out: only files of the host are shown"),
            format!(
                "{file}:10: /proc/driver is left out: it is in a directory of the kernel, which \
                 is that of the host"
            ),
            format!(
                "{file}:12: the hook `/usr/bin/other create-symlinks` (poststart) is not run: no \
                 program of a device is"
            ),
            format!(
                "{file}:14: the hook `/usr/bin/nvidia-cdi-hook new-thing` (createContainer) is \
                 not run: no program of a device is"
            ),
            format!(
                "{file}:13: the link /lib/link to nothing is left out: the device does not bring \
                 what it leads to"
            ),
        ]
    );
    assert_eq!(machine.places(&given), [""; 0]);
}

#[test]
fn nodes_must_be_what_the_file_says() {
    let machine = Machine::new();
    machine.file("driver/file", "");
    let reported = |node: &str| {
        machine.specified(&format!("  deviceNodes: [{{{node}}}]\n"));
        machine.give(&["all"]).map(|given| machine.places(&given))
    };
    let place = "@/etc/vendor.yaml:5:";
    let hint = "the file may be older than the driver: the vendor's tool writes it anew";
    assert_eq!(reported("path: /dev/null, major: 1, minor: 3"), Ok(Vec::new()));
    assert_eq!(reported("path: /dev/null, hostPath: /dev/null"), Ok(Vec::new()));
    assert_eq!(
        reported("path: /opt/null, hostPath: /dev/null"),
        Ok(vec!["/opt/null /dev/null".to_owned()])
    );
    assert_eq!(
        reported("path: /dev/null, major: 1, minor: 5"),
        Err(format!("{place} /dev/null is the device 1:3, and should be the device 1:5; {hint}"))
    );
    assert_eq!(
        reported("path: /dev/cabane-none"),
        Err(format!("{place} cannot give /dev/cabane-none; {hint}"))
    );
    assert_eq!(
        reported("path: @/driver/file"),
        Err(format!("{place} @/driver/file is no device, and should be one; {hint}"))
    );
    assert_eq!(
        reported("path: /dev/null, hostPath: /dev/zero"),
        Err(format!(
            "{place} /dev/null is another device of the host, whose /dev containers see, and \
             should be /dev/zero; {hint}"
        ))
    );
}

#[test]
fn a_file_that_is_gone_is_an_error() {
    let machine = Machine::new();
    machine.specified("  mounts:\n  - {hostPath: @/driver/gone, containerPath: /gone}\n");
    let error = machine.give(&["all"]).unwrap_err();
    assert!(error.starts_with("@/etc/vendor.yaml:6: cannot give @/driver/gone; "), "{error}");
}

#[test]
fn limits_of_memory_that_nobody_asked_for_are_not_missed() {
    let machine = Machine::new();
    machine.specified(
        "  hooks:
  - {hookName: createRuntime, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, apply-cuda-memory-limits, --driver-root, '', --gpu-id, GPU-1]}
",
    );
    let given = machine.give(&["all"]).unwrap();
    assert_eq!(given.warnings, [] as [DeviceWarning; 0]);
    let given = machine.give_beside(&["all"], "NVIDIA_GPU_MEMORY_LIMIT").unwrap();
    assert_eq!(given.warnings.len(), 1);
}

#[test]
fn older_drivers_are_noted() {
    let machine = Machine::new();
    machine.specified(
        "  hooks:
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=550.54.15]}
",
    );
    let given = machine.give(&["all"]).unwrap();
    let found = given.compatibility.unwrap();
    assert_eq!(
        (found.directory.to_str(), found.driver.as_str()),
        (Some("/usr/local/cuda/compat"), "550.54.15")
    );
    assert_eq!(given.warnings, [] as [DeviceWarning; 0]);
}

#[test]
fn where_the_files_of_the_host_are_seen_variables_are_enough() {
    let machine = Machine::new();
    machine.specified(
        "  env: [A=1, A=2]
  mounts: [{hostPath: /gone, containerPath: /gone}]
  hooks: [{hookName: createContainer, path: /usr/bin/other}]
",
    );
    let devices = machine.devices();
    let chosen = devices.choose(&["all".parse().unwrap()]).unwrap();
    let given = chosen.give(Wanted::Variables, &|_| false).unwrap();
    let pair = |value: &str| ("A".to_owned(), value.to_owned());
    let expected = Given { variables: vec![pair("1"), pair("2")], ..Given::default() };
    assert_eq!(given, expected);
}

/// A machine with drivers that no file describes.
fn machine_with_drivers() -> Machine {
    let machine = Machine::new();
    for directory in ["usr/lib64/nvidia", "usr/lib64", "usr/bin", "opt/rocm/lib", "dev"] {
        fs::create_dir_all(machine.path(directory)).unwrap();
    }
    let library = |directory: &str, name: &str, soname: &str| {
        machine.library(name, soname);
        let place = machine.path(directory).join(name);
        fs::rename(machine.path("driver").join(name), place).unwrap();
        if name != soname {
            symlink(name, machine.path(directory).join(soname)).unwrap();
        }
    };
    library("usr/lib64/nvidia", "libcuda.so.550.54.15", "libcuda.so.1");
    library("usr/lib64", "libnvidia-ml.so.550.54.15", "libnvidia-ml.so.1");
    library("usr/lib64", "libGLX_nvidia.so.550.54.15", "libGLX_nvidia.so.0");
    library("usr/lib64", "libother.so.1.2", "libother.so.1");
    library("opt/rocm/lib", "libhsa-runtime64.so.1.14.0", "libhsa-runtime64.so.1");
    library("opt/rocm/lib", "libamdhip64.so.6.2", "libamdhip64.so.6");
    machine.file("usr/bin/nvidia-smi", "");
    machine.file("dev/kfd", "");
    machine
}

#[test]
fn a_driver_that_no_file_describes_is_found_by_its_libraries() {
    let machine = machine_with_drivers();
    let mut devices = Devices::default();
    devices.add_drivers(machine.directory.path());
    let names: Vec<String> = devices.all().map(|device| device.name.to_string()).collect();
    assert_eq!(names, ["amd.com/gpu=all", "nvidia.com/gpu=all"]);
    let chosen = devices.choose(&["nvidia.com/gpu=all".parse().unwrap()]).unwrap();
    let given = chosen.give(Wanted::Everything, &|_| false).unwrap();
    let targets: Vec<String> =
        given.places.iter().map(|place| place.target.display().to_string()).collect();
    let names = [
        "libGLX_nvidia.so.0",
        "libGLX_nvidia.so.550.54.15",
        "libcuda.so",
        "libcuda.so.1",
        "libcuda.so.550.54.15",
        "libnvidia-ml.so.1",
        "libnvidia-ml.so.550.54.15",
    ];
    let place = Path::new(PRIVATE).join("run/cabane/driver");
    let private = names.iter().map(|name| place.join(name).display().to_string());
    let seen = ["libGLX_nvidia.so.550.54.15", "libcuda.so", "libcuda.so.550.54.15"];
    let seen = seen.iter().chain(["libnvidia-ml.so.550.54.15"].iter());
    let seen = seen.map(|name| format!("/run/cabane/driver/{name}"));
    let expected = private.chain(seen).chain(["/usr/bin/nvidia-smi".to_owned()]);
    assert_eq!(targets, expected.collect::<Vec<_>>());
    assert_eq!(given.library_path, [place]);
    assert_eq!(given.compatibility.map(|one| one.driver), Some("550.54.15".to_owned()));
    assert_eq!(given.warnings, []);
}

#[test]
fn a_driver_is_as_its_file_describes_it() {
    let machine = machine_with_drivers();
    let file = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '0'}]\n\
                containerEdits: {env: [A=1]}\n";
    machine.file("etc/nvidia.yaml", file);
    let mut devices = machine.devices();
    devices.add_drivers(machine.directory.path());
    let names: Vec<String> = devices.all().map(|device| device.name.to_string()).collect();
    assert_eq!(names, ["amd.com/gpu=all", "nvidia.com/gpu=0"]);
}

#[test]
fn a_package_of_rocm_is_no_device() {
    let machine = machine_with_drivers();
    fs::remove_file(machine.path("dev/kfd")).unwrap();
    let mut devices = Devices::default();
    devices.add_drivers(machine.directory.path());
    let names: Vec<String> = devices.all().map(|device| device.name.to_string()).collect();
    assert_eq!(names, ["nvidia.com/gpu=all"]);
}

#[test]
fn without_libraries_there_is_no_driver() {
    let machine = Machine::new();
    let mut devices = Devices::default();
    devices.add_drivers(machine.directory.path());
    assert!(devices.is_empty());
}
