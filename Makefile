# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT

# An archive has plugins for these releases of Slurm.
SLURM_RELEASES ?= 22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05

.DEFAULT_GOAL := help
.PHONY: help demo first-minutes test test-clients test-docs test-kernels test-packages test-registries test-slurm test-spack test-uenv slurm-shell build check self-test bench bench-catalogue bench-containers bench-pipeline bench-registry bench-slurm bench-spack bench-storage bench-uenv bench-verified bench-ways docs docs-site install uninstall archive package papers release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: ## install what is missing, build Cabane, build an environment, compute in it
	@scripts/demo

test: ## install what is missing, build everything, run all tests
	@scripts/test

test-clients: ## run generated pipelines and read web pages with clients of others; needs Go and npm
	@scripts/test-clients $(CLIENTS)

test-docs: ## type the commands of all pages of documentation, and compare what they print; needs root
	@scripts/test-docs $(PAGES)

test-kernels: ## attack the set-uid helper in the kernels of three Debians, in an emulator
	@KERNELS='$(KERNELS)' KERNELS_TESTS='$(KERNELS_TESTS)' scripts/test-kernels

test-packages: archive ## install, upgrade, and remove the archive and all packages in Debian 12, 13, and sid; needs root
	@scripts/test-packages $(PACKAGES)

test-registries: ## run the tests of registries with distribution 3 and zot; needs Go
	@scripts/test-registries $(REGISTRIES)

test-slurm: ## run the tests on a Slurm cluster of virtual nodes alone; needs root
	@RELEASE='$(RELEASE)' KERNEL='$(KERNEL)' scripts/test-slurm

test-spack: ## build the examples with real Spack; variables name its clones
	@scripts/test-spack

test-uenv: ## run the suites of uenv with Cabane; CABANE_TEST_UENV names uenv, CABANE_TEST_UENV_SOURCE its checkout
	@scripts/test-uenv $(SUITES)

slurm-shell: ## a shell of an ordinary user on a cluster of virtual nodes, with the plugin
	@scripts/slurm-shell

build: ## build the cabane command and the set-uid helper
	@scripts/setup demo
	scripts/build

check: ## run every check of ci/
	@scripts/setup test
	@ci/all

self-test: ## show that every check fails when its rule is broken
	@ci/self-test

bench: ## measure, and write docs/performance.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches

bench-catalogue: ## measure catalogs, and write docs/performance-catalogue.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only catalogue --output "$(CURDIR)/docs/performance-catalogue.md"

bench-containers: ## measure imports, starts and MPI of containers, and write docs/performance-containers.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only containers --output "$(CURDIR)/docs/performance-containers.md"

bench-pipeline: ## measure what images need, and write docs/performance-pipeline.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only pipeline --output "$(CURDIR)/docs/performance-pipeline.md"

bench-registry: ## measure transfers, and write docs/performance-registry.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only registry --output "$(CURDIR)/docs/performance-registry.md"

bench-slurm: ## measure steps of jobs on virtual nodes, and write docs/performance-slurm.md
	@scripts/setup test
	scripts/build-slurm
	scripts/env cargo run --locked --release -p cabane-benches -- --only slurm --output "$(CURDIR)/docs/performance-slurm.md"

bench-storage: ## measure what versions of a stack take on disk, and write docs/performance-storage.md
	scripts/env cargo run --locked --release -p cabane-benches -- --only storage --output "$(CURDIR)/docs/performance-storage.md"

bench-uenv: ## measure commands beside uenv, which CABANE_BENCH_UENV names, and write docs/performance-uenv.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only uenv --output "$(CURDIR)/docs/performance-uenv.md"

bench-verified: ## measure images that the kernel checks, and write docs/performance-verified.md
	@KERNEL='$(KERNEL)' scripts/bench-verified

bench-ways: ## measure starts and reads by the kernel and through FUSE, and write docs/performance-ways.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only ways --output "$(CURDIR)/docs/performance-ways.md"

bench-spack: ## measure builds with real Spack, and write docs/performance-spack.md
	@scripts/setup test
	scripts/env cargo run --locked --release -p cabane-benches -- --only stack --output "$(CURDIR)/docs/performance-spack.md"

papers: ## measure what papers claim, and sign it; SHORT=1 takes minutes; SECTIONS and IMAGE choose; ON=slurm uses virtual nodes
	@HTML='$(HTML)' scripts/papers $(if $(SHORT),--short) $(if $(AGAIN),--again) $(if $(ON),--on $(ON)) $(if $(IMAGE),--image '$(IMAGE)') $(SECTIONS)

docs: ## make the reference pages from the code
	@scripts/setup demo
	mkdir -p docs/reference
	scripts/env cargo run --locked -p cabane-reference -- docs/reference

docs-site: ## make a web site of the documentation in target/docs-site
	@scripts/docs-site

install: ## install below PREFIX: /usr/local as root, and otherwise ~/.local; see packaging/install.sh
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' IMAGE_OWNERS='$(IMAGE_OWNERS)' \
		MOUNT_POINTS='$(MOUNT_POINTS)' HELPER='$(HELPER)' UENV='$(UENV)' scripts/install

uninstall: ## remove what was installed below PREFIX
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' packaging/install.sh --uninstall

archive: ## build all, also the plugins for SLURM_RELEASES, and make an archive in dist that installs itself
	@scripts/setup demo
	@# For another processor: completions are printed by the command for this one.
	@[ -z '$(CABANE_MACHINE)' ] || { scripts/setup slurm && env -u CABANE_MACHINE scripts/build command; }
	scripts/build
	scripts/build-slurm $(SLURM_RELEASES)
	@scripts/archive

package: archive ## make packages for Debian, Ubuntu, and Red Hat, and a wheel, in dist
	@scripts/setup package
	@scripts/package

first-minutes: package ## measure how long a new user and a new site wait for their first result; needs root and a network
	@scripts/first-minutes dist

release: ## make the release VERSION: changelog, version, commit, tag
	@scripts/setup demo
	@scripts/release '$(VERSION)'

clean: ## remove what was built
	rm -rf dist target fuzz/target .cabane/demo .cabane/self-test
