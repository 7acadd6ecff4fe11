// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Plug-ins of a site for the MPI that programs in containers get: real providers of libfabric, and a
//! network for NCCL that is looked for as NCCL does it.

use std::path::Path;

use cabane_testkit::mpi::{both, compile, installed, libraries_of_debian, ranks};
use cabane_testkit::{Finished, Tree, not_run};

use crate::cabane::{Cabane, Who};
use crate::debian_roots::pack;

/// The output of libfabric when it has a provider for verbs of another build than its own.
const VERBS: &str = "registering provider: verbs (120.10)";

/// A program that loads a plug-in as NCCL does, by the name in a variable.
const LOADS_NETWORK: &str = r#"
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    char name[256];
    const char *plugin = getenv("NCCL_NET_PLUGIN");
    MPI_Init(&argc, &argv);
    snprintf(name, sizeof name, "libnccl-net-%s.so", plugin ? plugin : "none");
    void *network = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    int (*answer)(void) = network ? (int (*)(void))dlsym(network, "ncclNetPlugin_v8") : 0;
    printf("network %s: %d\n", name, answer ? answer() : -1);
    if (!network) fprintf(stderr, "%s\n", dlerror());
    MPI_Finalize();
    return 0;
}
"#;

/// A container with an MPI and a program, in the world of an ordinary user.
struct Bed {
    cabane: Cabane,
    image: String,
    launcher: String,
}

impl Bed {
    fn new(own: &Path, source: Option<&str>) -> Self {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let tree = Tree::new(cabane.world.path("trees/os"))
            .root_file_system("os", "")
            .copy_of(own, "opt/mpi");
        let program = tree.root().join("opt/mpi/bin/program");
        let library = own.join("lib/libmpi.so.12");
        let options = [library.as_os_str(), "-Wl,-rpath,/opt/mpi/lib".as_ref()];
        match source {
            Some(text) => {
                let include = format!("-I{}", own.join("include").display());
                let options = options.into_iter().chain([include.as_ref()]);
                cabane_testkit::compile(text, &program, options);
            }
            None => compile("hello.c", &program, own, options),
        }
        let image = cabane.world.path("os.squashfs");
        pack(tree.host_libraries_of("opt/mpi").root(), &image);
        let launcher = own.join("bin/mpiexec").display().to_string();
        Self { image: image.display().to_string(), launcher, cabane }
    }

    /// Names an MPI in the configuration, with plug-ins and where they find what they need.
    fn configure(&self, prefix: &Path, plugins: &[&Path], libraries: &Path) {
        let plugins: Vec<String> =
            plugins.iter().map(|one| format!("\"{}\"", one.display())).collect();
        let text = format!(
            "[[mpi]]\nname = \"fabric\"\nprefix = \"{}\"\nlibraries = [\"{}\"]\nplugins = [{}]\n",
            prefix.display(),
            libraries.display(),
            plugins.join(", ")
        );
        self.cabane.world.file("site.toml", &text);
    }

    /// Starts two ranks of the program, which say what libfabric finds.
    fn launch(&self) -> Finished {
        let mut command = self.cabane.other("timeout");
        command.args(["100", &self.launcher, "-n", "2", self.cabane.program(), "-v", "run"]);
        command.args(["--mpi", "fabric", &self.image, "--", "/opt/mpi/bin/program"]);
        command.env("XDG_RUNTIME_DIR", self.cabane.world.path("home"));
        command.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_LOG_LEVEL", "info");
        self.cabane.finish(&mut command)
    }
}

/// Where Debian 12 has what the system needs before `/usr` is there.
fn system_of_debian(root: &Path) -> std::path::PathBuf {
    root.join("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
}

#[test]
fn a_provider_of_libfabric_is_added_with_the_libraries_that_it_needs() {
    let Some([own, mpich, intel, debian]) =
        installed(["mpich-4.3.2", "mpich", "intel-2021.13.1", "debian"])
    else {
        not_run!(
            "needs MPICH in two versions, Intel MPI and libraries of Debian 12: scripts/setup test"
        );
    };
    let bed = Bed::new(&own, None);
    // What it needs, and the container does not have.
    let needed = bed.cabane.world.path("site/verbs");
    std::fs::create_dir_all(&needed).unwrap();
    for name in ["libibverbs.so.1", "librdmacm.so.1", "libnl-3.so.200", "libnl-route-3.so.200"] {
        let places = [libraries_of_debian(&debian), system_of_debian(&debian)];
        let path = places.map(|place| place.join(name)).into_iter().find(|path| path.exists());
        std::fs::copy(path.unwrap(), needed.join(name)).unwrap();
    }
    let provider = intel.join("lib/libfabric/prov/libverbs-1.12-fi.so");
    for (plugins, is_found) in [([].as_slice(), false), (&[provider.as_path()], true)] {
        bed.configure(&mpich, plugins, &needed);
        let seen = bed.launch();
        assert_eq!(ranks(&seen), both("MPICH Version: 5.0.2"), "{seen:?}");
        assert_eq!(seen.stderr.contains(VERBS), is_found, "{seen:?}");
    }
}

#[test]
fn a_network_for_nccl_is_found_by_its_name_with_what_it_needs() {
    let Some([own, mpich]) = installed(["mpich-4.3.2", "mpich"]) else {
        not_run!("needs MPICH in two versions: scripts/setup test");
    };
    let bed = Bed::new(&own, Some(LOADS_NETWORK));
    let place = |path: &str| bed.cabane.world.path(path);
    let fabric = place("site/fabric/libsitefabric.so.1");
    let options = ["-shared", "-fPIC", "-Wl,-soname,libsitefabric.so.1"];
    cabane_testkit::compile("int site_fabric(void) { return 42; }", &fabric, options);
    let plugin = place("site/nccl/libnccl-net-ofi.so");
    let text = "int site_fabric(void); int ncclNetPlugin_v8(void) { return site_fabric(); }";
    let needed = fabric.display().to_string();
    cabane_testkit::compile(text, &plugin, ["-shared", "-fPIC", &needed]);
    bed.configure(&mpich, &[&plugin], &place("site/fabric"));
    let seen = bed.launch();
    assert_eq!(seen.stdout.matches("network libnccl-net-ofi.so: 42\n").count(), 2, "{seen:?}");
    // Without the directory, what is missing is named.
    bed.configure(&mpich, &[&plugin, Path::new("/opt/none")], Path::new("/opt/none"));
    let seen = bed.launch();
    let lacks = "libnccl-net-ofi.so needs libsitefabric.so.1, which is missing";
    let is_told = [lacks, "there is no plug-in /opt/none"].map(|text| seen.stderr.contains(text));
    assert_eq!(is_told, [true; 2], "{seen:?}");
    assert!(seen.stdout.contains("network libnccl-net-ofi.so: -1\n"), "{seen:?}");
}
