// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whole machines, and what is written for each.

use cabane_probe::SystemText;

use crate::made_up::{MadeUp, NEOVERSE_V2, X86_V4, assert_golden};

fn workstation() -> MadeUp {
    let perl = "version=5.36.0\nconfig=-Dusethreads -Duselargefiles -Duseshrplib\nopen=1\nopcode=1";
    let python = "case $* in *-V*) echo Python 3.11.2;; *) for m in zlib bz2 lzma ssl hashlib \
                  ctypes; do echo has $m; done;; esac";
    let pkgconf = "case $1 in --help) echo usage: pkgconf [OPTIONS];; *) echo 1.8.1;; esac";
    MadeUp::new()
        .file("/proc/cpuinfo", X86_V4)
        .file("/etc/os-release", "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n")
        .gcc("/usr/bin", "-12", "12.2.0")
        .link("/usr/bin/gcc", "gcc-12")
        .link("/usr/bin/g++", "/etc/alternatives/g++")
        .link("/etc/alternatives/g++", "/usr/bin/g++-12")
        .link("/usr/bin/gfortran", "gfortran-12")
        .says("/usr/bin/clang-14", "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu")
        .says("/usr/bin/clang++-14", "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu")
        .file("/usr/bin/ld.lld-14", "not executable")
        .link("/bin", "usr/bin")
        .says("/usr/bin/make", "GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu")
        .says("/usr/bin/cmake", "cmake version 3.25.1\n\nCMake suite maintained by Kitware")
        .says("/usr/bin/perl", perl)
        .program("/usr/bin/python3", python)
        .files(&["/usr/include/python3.11/Python.h"])
        .program("/usr/bin/pkgconf", pkgconf)
        .link("/usr/bin/pkg-config", "pkgconf")
        .says("/usr/bin/git", "git version 2.39.5")
        .says("/usr/bin/flex", "flex 2.6.4")
        .files(&["/usr/bin/lex"])
        .says(
            "/usr/bin/openssl",
            "OpenSSL 3.0.19 27 Jan 2026 (Library: OpenSSL 3.0.19 27 Jan 2026)",
        )
        .says("/usr/bin/ninja", "1.11.1")
}

#[test]
fn a_workstation_gives_its_compilers_and_tools() {
    assert_golden("workstation", &workstation());
}

#[test]
fn a_machine_with_nothing_gives_files_that_can_be_filled_in() {
    assert_golden("nothing", &MadeUp::new());
}

#[test]
fn a_cray_with_slingshot_and_gpus_of_nvidia_gives_their_libraries() {
    let libfabric = "case $1 in --version) echo fi_info: 1.22.0; echo libfabric: 1.22.0; \
                     echo libfabric api: 1.22;; --list) for p in cxi ofi_rxm tcp udp; do \
                     echo $p:; echo '    version: 122.0'; done;; esac";
    let machine = MadeUp::new()
        .file("/proc/cpuinfo", NEOVERSE_V2)
        .file("/etc/os-release", "PRETTY_NAME=\"SUSE Linux Enterprise Server 15 SP5\"\n")
        .gcc("/usr/bin", "", "7.5.0")
        .gcc("/usr/bin", "-12", "12.3.0")
        .says("/opt/nvidia/hpc_sdk/Linux_aarch64/24.3/compilers/bin/nvc", "\nnvc 24.3-0 linuxarm64 target")
        .says("/opt/nvidia/hpc_sdk/Linux_aarch64/24.3/compilers/bin/nvc++", "")
        .says("/opt/nvidia/hpc_sdk/Linux_aarch64/24.3/compilers/bin/nvfortran", "")
        .files(&["/sys/class/cxi/cxi0", "/sys/class/cxi/cxi1"])
        .program("/opt/cray/libfabric/1.22.0/bin/fi_info", libfabric)
        .files(&["/opt/cray/libfabric/1.22.0/include/rdma/fabric.h"])
        .file("/opt/cray/libfabric/1.22.0/lib64/libfabric.so", "\x7fELF\0cudaMemcpy\0cuInit\0")
        .file("/usr/lib64/pkgconfig/cray-xpmem.pc", "Name: xpmem\nVersion: 2.9.6\n")
        .files(&["/usr/include/xpmem.h"])
        .says("/usr/bin/srun", "slurm 25.05.4")
        .files(&["/usr/lib64/slurm/mpi_pmix.so"])
        .says("/opt/cray/pe/mpich/8.1.32/ofi/gnu/12.3/bin/mpicc", "gcc (GCC)")
        .files(&["/opt/cray/pe/mpich/8.1.32/ofi/cray/18.0/bin/mpicc"])
        .file(
            "/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module  550.54.15  Release Build\n",
        )
        .says("/usr/bin/nvidia-smi", "9.0\n9.0\n9.0\n9.0")
        .says(
            "/usr/local/cuda-12.4/bin/nvcc",
            "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131",
        )
        .link("/usr/local/cuda", "cuda-12.4");
    assert_golden("slingshot-nvidia", &machine);
}

#[test]
fn a_cluster_with_infiniband_and_gpus_of_amd_gives_their_libraries() {
    let ucx = "# Version 1.15.0\n# Git branch '', revision 0000000\n# Configured \
               with: --prefix=/usr --enable-mt --with-verbs --with-mlx5-dv=yes --without-cuda";
    let mpich = "MPICH Version:    \t4.1.2\nMPICH Device:     \tch4:ucx\nMPICH configure:  \
                 \t--with-device=ch4:ucx --with-slurm=/usr";
    let machine = MadeUp::new()
        .file("/proc/cpuinfo", X86_V4)
        .gcc("/usr/bin", "", "11.5.0")
        .gcc("/opt/rh/gcc-toolset-13/root/usr/bin", "", "13.3.1")
        .files(&["/sys/bus/pci/drivers/mlx5_core/bind"])
        .link("/sys/class/infiniband/ibp1s0/device/driver", "/sys/bus/pci/drivers/mlx5_core")
        .file("/sys/class/infiniband/ibp1s0/ports/1/link_layer", "InfiniBand\n")
        .files(&["/usr/include/infiniband/verbs.h", "/usr/lib64/librdmacm.so.1.3.44.0"])
        .link("/usr/lib64/librdmacm.so.1", "librdmacm.so.1.3.44.0")
        .says("/usr/bin/ucx_info", ucx)
        .files(&["/usr/include/ucp/api/ucp.h"])
        .program("/usr/bin/srun", "echo no cluster; exit 1")
        .file("/usr/include/slurm/slurm_version.h", "#define SLURM_VERSION_NUMBER 0x170b04\n")
        .files(&[
            "/usr/include/slurm/slurm.h",
            "/usr/include/slurm/pmi2.h",
            "/usr/lib64/libslurm.so",
            "/usr/lib64/libpmi2.so",
        ])
        .says("/usr/lib64/mpich/bin/mpichversion", mpich)
        .says("/usr/lib64/mpich/bin/mpicc", "mpicc for MPICH version 4.1.2")
        .says("/usr/lib64/openmpi/bin/ompi_info", "                Open MPI: 4.1.1")
        .file("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\ngfx_target_version 0\n")
        .file("/sys/class/kfd/kfd/topology/nodes/1/properties", "gfx_target_version 90402\n")
        .says(
            "/opt/rocm-6.3.0/llvm/bin/amdclang",
            "AMD clang version 18.0.0git (https://github.com/RadeonOpenCompute/llvm-project roc-6.3.0 24455)",
        )
        .says("/opt/rocm-6.3.0/llvm/bin/amdclang++", "")
        .files(&["/opt/rocm-6.3.0/lib/libamdhip64.so.6.3.60300", "/opt/rocm-6.3.0/lib/libamd_comgr.so.2.8.60300"])
        .link("/opt/rocm", "rocm-6.3.0");
    assert_golden("infiniband-amd", &machine);
}

#[test]
fn the_same_machine_gives_the_same_bytes() {
    let machine = workstation();
    let first = machine.text();
    let texts: Vec<SystemText> = (0..3).map(|_| machine.text()).collect();
    assert!(texts.iter().all(|text| *text == first));
}
