// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The command line, end to end: the real program, real images, a frozen world.
//!
//! One binary for all of them, since linking dominates. What the engines do is tested
//! beside them; here it is shown that the command is connected to them and what its
//! user sees.

mod arena;
mod attach;
mod build;
mod build_containers;
mod build_from_files;
mod builds;
mod bundle;
mod cabane;
mod channels;
mod channels_attacked;
mod check;
mod composition;
mod config;
mod container_peers;
mod debian_roots;
mod devices;
mod diff;
mod doctor;
mod environment;
mod evidence;
mod explain;
mod export;
mod export_faults;
mod export_peers;
mod faults;
mod gc;
mod helper;
mod helper_attach;
mod helper_fuse;
mod image;
mod image_trust;
mod impact;
mod import;
mod import_containers;
mod import_hostile;
mod import_peers;
mod import_refused;
mod import_registry;
mod import_typed;
mod inside;
mod install;
mod join;
mod machine;
mod memory;
mod migrate;
mod mpi;
mod mpi_in_roots;
mod mpi_of_image;
mod mpi_root_images;
mod mpi_swap;
mod mpi_swap_in;
mod mpi_typed;
mod nesting;
mod pipeline_clients;
mod recipe;
mod registry;
mod registry_admin;
mod registry_clients;
mod registry_cosign;
mod registry_find;
mod registry_hosts;
mod registry_kills;
mod registry_labels;
mod registry_list;
mod registry_mirror;
mod registry_proxy;
mod registry_service;
mod registry_trust;
mod repo;
mod repo_damage;
mod restricted;
mod restricted_pull;
mod root_images;
mod run;
mod shells;
mod slurm_collect;
mod slurm_report;
mod spack;
mod spack_mirrors;
mod spack_real;
mod spack_results;
mod spack_secrets;
mod spack_sources;
mod status;
mod system;
mod trust_at_start;
mod vendor_mpi;
