// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is written is what the reader of system configurations understands.

use std::path::Path;

use cabane_recipe::{ConfigText, SystemConfig, SystemFiles, parse_system};

use crate::made_up::MadeUp;

fn read(machine: &MadeUp) -> SystemConfig {
    let text = machine.text();
    let files = SystemFiles {
        packages: ConfigText { path: Path::new("packages.yaml"), text: text.packages.as_bytes() },
        network: Some(ConfigText {
            path: Path::new("network.yaml"),
            text: text.network.as_bytes(),
        }),
        repos: None,
        mirrors: None,
        config: None,
        concretizer: None,
        toolchains: None,
    };
    parse_system(&files).unwrap()
}

#[test]
fn what_is_written_is_read_as_what_was_found() {
    let machine = MadeUp::new()
        .gcc("/usr/bin", "", "12.2.0")
        .says("/usr/bin/make", "GNU Make 4.3")
        .files(&["/sys/class/cxi/cxi0"]);
    let system = read(&machine);
    let mpis: Vec<&str> = system.mpis.iter().map(|mpi| mpi.package.as_str()).collect();
    let packages = cabane_recipe::Yaml::Map(system.packages).to_string();
    let gcc = "  externals:\n  - spec: 'gcc@12.2.0 languages:=''c,c++,fortran'''\n";
    assert!(
        mpis == ["mpich", "openmpi"]
            && packages.contains(gcc)
            && system.network_packages.get("libfabric").is_some(),
        "{mpis:?}\n{packages}"
    );
}
