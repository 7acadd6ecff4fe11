# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What pages need that push and pull images, and keep repositories."""

from kinds import DOCS, Page, Step, cosign

# A repository of uenv where uenv has it.
UENV = "export SCRATCH=/scratch/alice CLUSTER_NAME=arapiles && cabane repo create --uenv $SCRATCH/.uenv-images && "
# Another system than `local`, as the pages on registries have it.
DAINT = """
mkdir -p /etc/cabane
printf 'system_name = "daint"\\ndefault_uarch = "gh200"\\n' >/etc/cabane/config.toml
"""
# The registry in the configuration of the reader.
REGISTRY = """
mkdir -p ~/.config/cabane && printf '[registry]\\nurl = "https://registry.example.org/uenv"\\n' > ~/.config/cabane/config.toml &&
"""
# A tool that knows nothing of the list of images moves a label, and adds one.
OTHER_TOOL = """
at=docker://registry.example.org/uenv/deploy/daint/gh200 &&
cabane image push ./other.squashfs elsewhere::other/1.0:v1@daint%gh200 &&
for label in netcdf-tools/2024:v1 prgenv-gnu/24.11:v2; do
    skopeo copy --quiet --insecure-policy ${at/deploy/elsewhere}/other/1.0:v1 $at/$label || break
done
"""
# Two images of a repository: one is cut, and everybody may write to the other.
DAMAGED = f"""
add() {{ cabane --repo=/shared/cabane/repository image add $1@alpha%zen3 {DOCS}/images/$2; }}
file() {{ cabane --repo=/shared/cabane/repository image inspect $1 --format '{{sqfs}}'; }}
add cp2k/2024.1:v2 prgenv-gnu-24.11 && add cp2k/2024.3:v1 prgenv-gnu-25.6 &&
old=$(file cp2k/2024.1@alpha) new=$(file cp2k/2024.3@alpha) && chmod u+w $old $new && truncate --size 1024 $old && chmod o+w $new
"""
# What releases an image, from its file to the channel.
RELEASE = f"""
release() {{
    cabane image add $1@daint%gh200 $2 && cabane image push --sign build.key $1 &&
    cabane channel promote testing $1 --key release.key &&
    cabane channel waive stable $1 --rule age --reason 'a test' --until $(date -d '+30 days' +%F) --key release.key &&
    cabane channel promote stable $1 --key release.key
}}
"""
# An image whose program does its work twice and which has a program for the C library of this machine, figures of both
# images, and a host with an older C library.
SLOWER = f"""
cp -r {DOCS}/recipes/prgenv-gnu-25.6+figures slower && cd slower && sed -i 's/bytearray(1 << 26)\[:\]/&; &/' install/bin/bandwidth &&
sed -i 's/1[.]14[.]3/1.14.5/' install/meta/packages.json &&
echo 'int main(void) {{ return 0; }}' | cc -x c -o install/bin/starts - && cabane build . --output ../slower.squashfs && cd .. &&
cabane image add prgenv-gnu/26.1:v1@daint%gh200 ./slower.squashfs && cabane image push --sign build.key prgenv-gnu/26.1:v1 &&
cabane channel promote testing prgenv-gnu/26.1:v1 --key release.key && cabane image key new tests.key &&
cabane check --repeat 10 --key tests.key --attach prgenv-gnu/25.6:v2 prgenv-gnu/26.1:v1 &&
sudo sed -i 's/"glibc": "[0-9.]*"/"glibc": "2.31"/' /etc/cabane/hosts/daint.json && cp /etc/cabane/config.toml before.toml &&
sudo tee -a /etc/cabane/config.toml >/dev/null <<END
regressions = "refuse"
runs_on = ["/etc/cabane/hosts/daint.json"]

[evidence]
testers = ["$PWD/tests.key.pub"]
END
"""

PAGES = {
    "docs/guides/looking-after-a-repository.md": Page(
        images=("solver/1.0",),
        registry=True,
        as_root="install -d -o alice /shared/cabane /scratch/alice /old /new && groupadd --users alice vaspusers",
        before="cabane repo create /shared/cabane/repository && cabane repo create /old/repository && "
        "cabane --repo=/old/repository,default image add solver/1.0 solver/1.0@* && export SCRATCH=/scratch/alice",
        files_of=("tools/1.0", "prgenv-gnu/24.11", "prgenv-gnu/25.6"),
        steps={
            "cabane repo gc": Step(any_output=True),
            # No image was unused for a week.
            "cabane repo deduplicate": Step(any_output=True),
            "cabane registry mirror": Step(
                before="cabane repo create /shared/cabane/mirror && "
                f"cabane image push --registry https://registry.example.org/uenv {DOCS}/images/tools-1.0 stack/1.0:v1@alpha%zen3",
                any_output=True,
            ),
            "ls -l vasp.squashfs": Step(
                before=f"cp {DOCS}/images/tools-1.0 vasp.squashfs && chmod 640 vasp.squashfs && "
                "sudo chgrp vaspusers vasp.squashfs",
                any_output=True,
            ),
            "cabane --repo=/shared/cabane/repository image pull": Step(
                before=REGISTRY + f"cabane image push {DOCS}/images/tools-1.0 vasp/6.4:v1@local%$(uname -m) && "
                f"cabane image push {DOCS}/images/prgenv-gnu-24.11 prgenv-gnu/25.6:v1@arapiles%zen3"
            ),
            "cabane repo migrate": Step(any_output=True),
            "cabane run prgenv-gnu": Step(
                before=UENV + f"cabane --repo=uenv image add prgenv-gnu/24.11:v1@arapiles%zen3 {DOCS}/images/prgenv-gnu-24.11"
            ),
            "uenv image ls": Step(before="sudo ln -s cabane /usr/local/bin/uenv"),
            "cabane repo status $SCRATCH/.uenv-images": Step(any_output=True),
            "cabane repo import": Step(any_output=True),
            "cabane repo status /shared/cabane/repository --verify": Step(
                before=DAMAGED, fails=True
            ),
        },
    ),
    "docs/guides/catalogue.md": Page(
        registry=True,
        files_of=("prgenv-gnu/24.11",),
        as_root=DAINT + "install -d -o alice /srv/www",
        before="mkdir -p ~/.config/cabane && "
        "printf '[registry]\\nurl = \"https://registry.example.org/uenv\"\\n' > ~/.config/cabane/config.toml && "
        f"for v in 24.11 25.6 26.1; do cabane image push {DOCS}/images/prgenv-gnu-24.11 deploy::prgenv-gnu/$v:v1@daint%gh200 && "
        "cabane image push {DOCS}/images/prgenv-gnu-24.11 contrib::prgenv-gnu/$v:v1@daint%gh200 || break; done".format(DOCS=DOCS),
        steps={"cabane catalogue serve": Step(
                # It serves until it is interrupted.
                typed="timeout --foreground --preserve-status -s INT 1 cabane catalogue serve site",
                fails=True,
            )},
    ),
    "docs/guides/releases.md": Page(
        registry=True,
        files_of=("prgenv-gnu/24.11", "prgenv-gnu/25.6+figures", "cp2k/2025.1"),
        files=("/etc/cabane/config.toml",),
        before="export CLUSTER_NAME=daint && cabane image key new build.key && "
        f"cabane image add prgenv-gnu/25.6:v2@daint%gh200 {DOCS}/images/prgenv-gnu-25.6+figures\n{RELEASE}",
        steps={
            "srun": Step(
                before="sudo install -D -m 644 release.key.pub /etc/cabane/keys/release.pub && "
                "sudo install -D -m 644 build.key.pub /etc/cabane/keys/build.pub",
                typed="cabane system probe --facts daint.json",
            ),
            "cabane channel promote stable prgenv-gnu:testing --dry-run": Step(fails=True),
            # The line is too long for the terminal.
            "cabane channel promote stable prgenv-gnu/26.1:v1": Step(
                before=SLOWER, typed="cabane channel promote stable prgenv-gnu/26.1:v1 --dry-run | cat"
            ),
            "cabane channel ls": Step(before="sudo cp before.toml /etc/cabane/config.toml"),
            "cabane channel waive": Step(
                typed='cabane channel waive stable prgenv-gnu/25.6:v2 --rule age --reason "fixes a crash" '
                "--until $(date -d '+30 days' +%F) --key release.key"
            ),
            "cabane channel rollback": Step(
                before=f"release cp2k/2025.1:v1 {DOCS}/images/cp2k-2025.1 && "
                f"release prgenv-gnu/24.11:v2 {DOCS}/images/prgenv-gnu-24.11 && release prgenv-gnu/26.1:v1 ./slower.squashfs"
            ),
            "cabane bundle create july.bundle": Step(
                before="cabane channel promote stable prgenv-gnu/26.1:v1 --key release.key"
            ),
            "cabane image pull prgenv-gnu:stable": Step(
                before="cabane repo create ~/other && export CABANE_REPO=$HOME/other && "
                "cabane channel rollback stable --reason 'a test' --key release.key"
            ),
            "cabane upgrade --dry-run": Step(
                before="cabane channel promote stable prgenv-gnu/26.1:v1 --key release.key"
            ),
        },
    ),
    "docs/guides/share-images.md": Page(
        registry=True,
        files_of=("prgenv-gnu/24.11", "prgenv-gnu/26.1", "tools/1.0"),
        as_root=DAINT,
        files=("~/.config/cabane/config.toml",),
        before=f"export CABANE_REGISTRY=https://registry.example.org/uenv && cp {DOCS}/images/prgenv-gnu-24.11 image.squashfs && cp {DOCS}/images/tools-1.0 other.squashfs && "
        "cabane image push ./image.squashfs deploy::prgenv-gnu/24.11:v2@daint%gh200 && "
        "cabane image push ./image.squashfs build::cp2k/2025.1:1234567890@daint%gh200 && unset CABANE_REGISTRY",
        steps={
            'cabane image pull "$(cabane image find --pick)"': Step(keys="\r"),
            "cabane info": Step(before=f"cabane image push {DOCS}/images/prgenv-gnu-26.1 prgenv-gnu/26.1:v1@todi%gh200"),
            # It asks for a password, twice.
            "cosign import-key-pair": cosign(keys="\r\r"),
            "cosign verify": cosign(any_output=True),
            # Another tool changes the registry.
            "cabane registry check": Step(before=OTHER_TOOL, fails=True),
        },
    ),
}
