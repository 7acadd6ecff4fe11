# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need whose commands build with Spack."""

import os

import ssh
from kinds import DOCS, HAS_RUST, Page, Step, not_run

# A system `here` with a mirror of sources, and a Spack of the reader with its solver.
MIRRORS = f"cp {DOCS}/mirrors.yaml"
HERE = f"cabane system probe --output ~/.config/cabane/systems/here && {MIRRORS} ~/.config/cabane/systems/here"
SPACK_CLONE, PACKAGES_CLONE, SPACK_PYTHON = (
    os.environ.get(f"CABANE_TEST_SPACK{name}", "") for name in ("", "_PACKAGES", "_PYTHON")
)
OWN_SPACK = (
    f"git clone --quiet --shared {SPACK_CLONE} ~/spack && "
    f"export PATH=$PATH:$HOME/spack/bin SPACK_PYTHON={SPACK_PYTHON}"
)
# The Rust of the machine. Spack clones the branch `main` of the clone.
SOURCES = os.environ.get("CABANE_TEST_SPACK_MIRROR", "")
# The copy of the clone becomes one, unless it was before.
IN_GIT = """\
[ -d .git ] || git init --quiet --initial-branch main && git add . &&
git -c user.name=alice -c user.email=alice@example.org commit --quiet --allow-empty --message sources &&
"""
RUST_OF_MACHINE = f"""\
{HAS_RUST}{IN_GIT}spack compiler find && spack mirror add here file://{SOURCES} &&
version=$(/opt/rust/bin/rustc --version | cut -d' ' -f2) &&
printf '%s\n' packages: '  rust:' '    buildable: false' '    externals:' \
    "    - {{spec: rust@$version, prefix: /opt/rust}}" > rust.yaml && spack config add -f rust.yaml && rm rust.yaml
"""
# A recipe with four mistakes, in the lines that a page names.
FOUR_MISTAKES = (
    "tools:", "  compiler: [gcc]", "  unify: true", "  deprecated: false", "  network:", "    mpi: mpich", "  specs:",
    "  - tree", "  - cmake@99", "  - bzip2", "  - lz4", "  - zlib", "  - libxml3", "  - py-torch@2.12.1 ~distribute",
    "  - openblas threads=omp", "  views: {tools: {}}",
)
# A clone of the packages with a branch `develop`, which first is as it was half a year before. The recipe here names it.
# At that time, there was no patch@2.8.
PACKAGES_OF_BEFORE = f"""\
git clone --quiet --bare --shared {PACKAGES_CLONE} ~/packages.git &&
now=$(sed -n '/spack-packages.git/ {{ n; s/.*commit: //p }}' config.yaml) &&
before=$(git -C ~/packages.git rev-list -1 --before=2026-02-01 $now) &&
git config --global --unset-all url.{PACKAGES_CLONE}.insteadOf &&
git config --global url.$HOME/packages.git.insteadOf https://github.com/spack/spack-packages.git &&
sed -i '/spack-packages.git/ {{ n; s/commit: .*/commit: develop/ }}' config.yaml &&
git -C ~/packages.git update-ref refs/heads/develop $before && cabane remove patch && cabane lock --system here &&
git -C ~/packages.git update-ref refs/heads/develop $now
"""
# Damages a package in the cache, and keeps a copy.
DAMAGED = """\
manifest=$(echo ~/.cache/cabane/spack/packages/*/v3/manifests/spec/bzip2/*) &&
blob=$(grep -o '[0-9a-f]\\{64\\}' $manifest | tail -n 1) &&
blob=$(find ~/.cache/cabane/spack/packages -name $blob) &&
cp $blob ~/undamaged && chmod u+w $blob && echo x | dd of=$blob conv=notrunc status=none
"""
# The packages of the page's vendor, whose MPI is that of the machine: real RPMs, with the paths and names of the page.
PACKAGES_OF_VENDOR = r"""
prefix=/opt/cray/pe/mpich/8.1.32/ofi/gnu/12.3 gtl=/opt/cray/pe/mpich/8.1.32/gtl/lib
lib=$(dirname $(ls /usr/lib/*-linux-gnu/libmpich.so.12)) &&
mkdir -p gnu$prefix/lib gnu$prefix/bin gtl$gtl &&
cp $(readlink -f $lib/libmpich.so.12) gnu$prefix/lib/libmpi_gnu_123.so.12 &&
patchelf --set-soname libmpi_gnu_123.so.12 gnu$prefix/lib/libmpi_gnu_123.so.12 &&
ln -s libmpi_gnu_123.so.12 gnu$prefix/lib/libmpi_gnu_123.so &&
cp -rL /usr/include/*-linux-gnu/mpich gnu$prefix/include &&
sed -e "s|^prefix=.*|prefix=$prefix|; s|^exec_prefix=.*|exec_prefix=$prefix|; s|^sysconfdir=.*|sysconfdir=$prefix/etc|" \
    -e "s|^includedir=.*|includedir=$prefix/include|; s|^libdir=.*|libdir=$prefix/lib|; s|-lmpich\b|-lmpi_gnu_123|" \
    /usr/bin/mpicc.mpich > gnu$prefix/bin/mpicc && chmod 755 gnu$prefix/bin/mpicc &&
echo 'int mpi_gtl_init(void) { return 0; }' |
    cc -x c -shared -Wl,-soname,libmpi_gtl_cuda.so.0 -o gtl$gtl/libmpi_gtl_cuda.so.0 - &&
for part in gnu gtl; do
    printf '%s\n' 'Name: cray-mpich' 'Version: 8.1.32' "Release: $part" 'Summary: MPI' 'License: MPICH' 'AutoReqProv: no' \
        '%define _build_id_links none' '%define debug_package %{nil}' '%description' MPI \
        %install "cp -a $PWD/$part/opt %{buildroot}" %files /opt > $part.spec &&
    rpmbuild --quiet -bb --define "_topdir $PWD/rpmbuild" --define "_rpmfilename %{name}-%{version}-%{release}.%{arch}.rpm" \
        --define "_rpmdir $PWD/rpms" $part.spec || break
done &&
rm -rf rpmbuild gnu gtl *.spec
"""
# The sums of the manifest are those of another vendor's files. The libraries here need none of its packages.
SUMS = r"""
for part in gnu gtl; do
    sum=$(sha256sum rpms/cray-mpich-8.1.32-$part.*.rpm | cut -c 1-64) &&
    sed -i "/-$part\./{n; s/sha256: .*/sha256: $sum/}" cray-mpich.yaml || break
done && sed -i '/^depends:/d' cray-mpich.yaml
"""
# The system of the page, and a recipe whose packages take a short time to build.
SYSTEM_OF_VENDOR = f"""
cabane system probe --output probed && cp -r probed/. systems/here && {MIRRORS} systems/here &&
printf '%s\\n' '  vendor:' '    url: file:///srv/sources' >> systems/here/mirrors.yaml &&
echo 'repos: [spack_repo/vendor]' > systems/here/repos.yaml &&
printf '%s\\n' 'mpi: {{cray-mpich: {{specs: []}}}}' "packages: {{cray-mpich: {{buildable: true, prefer: ['@8.1.32']}}}}" > systems/here/network.yaml &&
cp -r {DOCS}/clone/examples/vendor-mpich/recipe . && sed -i 's/vendor-mpich/cray-mpich/' recipe/environments.yaml && cp {DOCS}/clone/tests/mpi/{{hello.c,start.h}} .
"""

PAGES = {
    "docs/guides/build-a-stack.md": Page(
        spack=True,
        keeps_packages=True,
        examples=True,
        as_root="install -d -o alice /apps/tools",
        steps={
            "cabane recipe check examples/prgenv-mpich": Step(before=f"{MIRRORS} ~/.config/cabane/systems/here"),
            "cabane recipe check --fetch": Step(
                before="cp -r examples/tools my-recipe && "
                f"printf '%s\\n' {' '.join(map(repr, FOUR_MISTAKES))} > my-recipe/environments.yaml"
            ),
            "cabane add": Step(before="cp -r examples/tools ~/tools && cd ~/tools"),
            "git add": Step(before="git init --quiet"),
            "cabane build --system here . tools/1.1": Step(before="cabane add 'hdf5@1.14 +mpi' --system here"),
            "cabane update --system here --dry-run": Step(before=PACKAGES_OF_BEFORE),
            "cabane build --system here examples/tools": Step(before="cd"),
            "module use": Step(before=". /usr/share/modules/init/bash"),
            "spack -C": Step(before=OWN_SPACK),
        },
    ),
    "docs/guides/build-cache.md": Page(
        spack=True,
        examples=True,
        as_root="useradd --create-home service && chmod 755 ~service && install -d -o alice /apps/cabane /shared",
        before=f"{HERE} && cabane build --system here examples/tools tools/1.0",
        files=("/etc/cabane/config.toml",),
        steps={
            "sudo cabane cache push": Step(
                before="sudo install -D -m 644 ~/.config/cabane/packages.key.pub /etc/cabane/keys/packages.pub && "
                "cabane image key new ~/site.key && sudo mkdir ~service/.cache && "
                "sudo cp -r ~/.cache/cabane ~service/.cache"
            ),
            "cabane cache verify": Step(before=DAMAGED, fails=True),
            "cabane cache verify --cache": Step(
                before="for file in /apps/cabane/packages/v3/manifests/spec/bzip2/*; do echo >> $file; done", fails=True
            ),
            "cabane cache push /shared/spack-cache": Step(before="cp ~/undamaged $blob"),
            "spack mirror": Step(before=f"{OWN_SPACK} && spack config add config:install_tree:root:$HOME/t"),
        },
    ),
    "docs/guides/build-elsewhere.md": Page(
        slurm=True,
        registry=True,
        files_of=("app/42.0",),
        as_root=ssh.SERVER + "scontrol create PartitionName=debug Nodes=ALL\n"
        "printf '[registry]\\nurl = \"https://registry.example.org/uenv\"\\n' >/etc/cabane/config.toml",
        # The host `builder` has caches of its own.
        before=ssh.to("builder", variables="XDG_CACHE_HOME=/home/alice/builder XDG_STATE_HOME=/home/alice/builder")
        + ssh.to("builder2", "builder3") + f"cp -r {DOCS}/recipes/app-42.0 app",
        steps={
            **(
                # The first build made the same image.
                {"cabane build --on builder ./app": Step(before="cabane image rm app/1.0")}
                if ssh.IS_THERE
                else {"cabane build --on builder": ssh.MISSING, "cabane build --with": ssh.MISSING}
            ),
            "cabane build --on slurm --nodes 2": Step(
                spack=True,
                before=f"cp -r {DOCS}/clone/examples/tools . && cabane system probe --output system && "
                f"{MIRRORS} system && export CABANE_SPACK_PYTHON={SPACK_PYTHON}",
                typed="cabane build --on slurm --nodes 2 --sbatch=--cpus-per-task=8 --system ./system ./tools tools/1.0",
                # The nodes share the packages in another way each time.
                any_output=True,
            ),
            **({"cabane build --with": Step(
                spack=True,
                before="cp -r tools prgenv-gnu && mkdir systems && cp -r system systems/here",
                any_output=True,
            )} if ssh.IS_THERE else {}),
        },
    ),
    "docs/guides/describe-your-system.md": Page(
        before="mkdir my-recipe && cp examples/tools/*.yaml my-recipe",
        examples=True,
        steps={
            "cabane system probe#1": Step(any_output=True),
            "cabane recipe check --system mysystem my-recipe#2": Step(
                spack=True,
                before="cabane recipe check --fetch --system mysystem my-recipe && sed -i "
                "-e '/^packages:/a\\  hdf5:\\n    externals:\\n    - spec: hdf5@1.14.3+mpii\\n      prefix: /usr' "
                "mysystem/packages.yaml",
            ),
            "cabane system probe --output mysystem#2": Step(before="echo '# by hand' >> mysystem/packages.yaml"),
            "cabane build --system": Step(
                spack=True,
                # The packages of Spack must not be there for the first check. The system prefers what the MPI here lacks.
                before="export CABANE_CACHE_DIR=~/another && cabane system probe --output prefers && cp -r my-recipe with-mpi && "
                "sed -i \"/when: '@:4.1.3,4.1.5:'/d\" prefers/network.yaml && "
                "sed -i 's/- patch@.*/- openmpi/' with-mpi/environments.yaml",
                typed="cabane build --until concretize --system ./prefers with-mpi tools/1.0 2>&1 | grep ^warning",
            ),
            "git clone": Step(spack=True),
            "git clone https://github.com/spack/spack.git": Step(spack=True, before="unset CABANE_CACHE_DIR"),
            # What the machine has.
            "cabane system probe --spack": Step(
                spack=True, before=f"export CABANE_SPACK_PYTHON={SPACK_PYTHON}", any_output=True
            ),
        },
    ),
    "docs/guides/stacks-on-stacks.md": Page(
        spack=True,
        keeps_packages=True,
        registry=True,
        network=True,
        examples=True,
        files_of=("app/42.0",),
        before=HERE,
        steps={
            # All three are in the registry. Here, the label of the first belongs to another image.
            "cabane image pull": Step(
                before="printf '[registry]\\nurl = \"https://registry.example.org/uenv\"\\n' > ~/.config/cabane/config.toml && "
                "for name in mpi fft app; do cabane image push stacked-$name/1.0 || break; done && "
                "cabane image rm stacked-app/1.0 && cabane image rm --force stacked-mpi/1.0 && "
                f"cabane image add stacked-mpi/1.0:v1@here%$(uname -m) {DOCS}/images/app-42.0"
            ),
            "cabane run stacked-app -- spectrum": Step(before="cabane image rm --force stacked-fft/1.0"),
        },
    ),
    "docs/guides/vendor-mpi.md": Page(
        files=("cray-mpich.yaml",),
        as_root="install -d -o alice /srv/sources",
        before=PACKAGES_OF_VENDOR,
        steps={
            "cabane vendor-mpi": Step(before=SUMS),
            "cabane build --system systems/here": Step(spack=True, before=SYSTEM_OF_VENDOR),
            "cabane run prgenv": Step(spack=True),
        },
    )
    if os.uname().machine == "x86_64"
    else Page(not_run="the manifest of the page is for x86_64"),
}
