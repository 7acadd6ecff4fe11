// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images of real files: what is installed on this machine, in layers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_testkit::Tree;

use crate::bed::Bed;
use crate::measure::{NotMeasured, finish};

/// The layers above the one with the shell: where their files come from, and how many
/// hundredths of the image they are.
const GROUPS: [(&[&str], u64); 4] = [
    (&["/usr/bin", "/usr/sbin"], 25),
    (&[MULTIARCH], 30),
    (&["/usr/lib"], 25),
    (&["/usr/include", "/usr/share"], 20),
];
#[cfg(target_arch = "x86_64")]
const MULTIARCH: &str = "/usr/lib/x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const MULTIARCH: &str = "/usr/lib/aarch64-linux-gnu";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MULTIARCH: &str = "/usr/lib64";
/// The top layer hides so many files of those below, and replaces as many.
const CHANGED: usize = 200;

/// Compresses an archive and names it after its sum; prints both sums and the size.
const PACK: &str = r#"
tar=$1 blobs=$2
plain=$(sha256sum <"$tar" | cut -d ' ' -f 1)
gzip -n -6 "$tar"
packed=$(sha256sum <"$tar.gz" | cut -d ' ' -f 1)
size=$(stat -c %s "$tar.gz")
mv "$tar.gz" "$blobs/$packed"
echo "$plain $packed $size"
"#;

/// An image in a layout of OCI.
pub(crate) struct Layout {
    /// Where it is; the image is called `1` in it.
    pub(crate) path: PathBuf,
    /// How many bytes its layers are as they come.
    packed: u64,
    /// And when they are decompressed.
    unpacked: u64,
    /// How many files and links are in them.
    files: usize,
    layers: usize,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes / 1_000_000;
        write!(
            f,
            "{} MB in {} layers, {} MB when they are decompressed, with {} files and links",
            megabytes(self.packed),
            self.layers,
            megabytes(self.unpacked),
            self.files
        )
    }
}

/// A layer in a layout.
struct Layer {
    plain: String,
    packed: String,
    size: u64,
    unpacked: u64,
}

/// Makes an image of about so many bytes of files.
pub(crate) fn make(bed: &Bed, name: &str, bytes: u64) -> Result<Layout, NotMeasured> {
    let path = bed.path(name);
    let blobs = path.join("blobs/sha256");
    let failed = |error: io::Error| format!("cannot make a container image: {error}");
    fs::create_dir_all(&blobs).map_err(failed)?;
    let groups = GROUPS.map(|(directories, part)| choose(directories, bytes / 100 * part));
    let chosen: u64 = groups.iter().map(|group| group.bytes).sum();
    if chosen < bytes / 10 * 9 {
        return Err(format!(
            "there are {} MB of files in /usr, and {} are needed",
            chosen / 1_000_000,
            bytes / 1_000_000
        ));
    }
    let mut archives = vec![base(bed, &path)?];
    for (number, group) in groups.iter().enumerate() {
        archives.push(archive(bed, &path, number, group).map_err(failed)??);
    }
    archives.push(changes(bed, &path, &groups).map_err(failed)??);
    let layers = pack_all(bed, &archives, &blobs)?;
    describe(&path, &layers).map_err(failed)?;
    Ok(Layout {
        files: groups.iter().map(|group| group.files.len()).sum(),
        unpacked: layers.iter().map(|layer| layer.unpacked).sum(),
        packed: layers.iter().map(|layer| layer.size).sum(),
        layers: layers.len(),
        path,
    })
}

/// Files of this machine.
#[derive(Default)]
struct Group {
    files: BTreeSet<PathBuf>,
    bytes: u64,
}

/// Takes files in the order of their names, until there are enough. None makes up more than a
/// tenth.
fn choose(directories: &[&str], most: u64) -> Group {
    let mut group = Group::default();
    let mut left: Vec<PathBuf> = directories.iter().rev().map(PathBuf::from).collect();
    while let Some(path) = left.pop() {
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        if found.is_dir() {
            let is_other_group = path == Path::new(MULTIARCH) && directories != [MULTIARCH];
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            below.sort();
            if !is_other_group {
                left.extend(below.into_iter().rev());
            }
            continue;
        }
        let is_open = found.permissions().mode() & 0o004 != 0;
        if (found.is_file() && is_open && found.len() <= most / 10) || found.is_symlink() {
            group.bytes += found.len();
            group.files.insert(path);
        }
        if group.bytes >= most {
            break;
        }
    }
    group
}

/// The lowest layer: links of directories, a shell and a few programs, users.
fn base(bed: &Bed, directory: &Path) -> Result<PathBuf, NotMeasured> {
    let tree =
        Tree::new(directory.join("base")).root_file_system("base", "").host_program("/bin/true");
    let archive = directory.join("base.tar");
    finish(bed.command("rm").arg("-r").arg(tree.root().join("meta")))?;
    let mut tar = bed.command("tar");
    tar.args(["--owner=0", "--group=0", "-cf"]).arg(&archive);
    finish(tar.arg("-C").arg(tree.root()).arg("."))?;
    Ok(archive)
}

/// A layer with files of this machine at their places, and the directories they are in.
fn archive(
    bed: &Bed,
    directory: &Path,
    number: usize,
    group: &Group,
) -> io::Result<Result<PathBuf, NotMeasured>> {
    let parents = group.files.iter().flat_map(|file| file.ancestors().skip(1));
    let names: BTreeSet<&Path> = parents
        .filter(|parent| *parent != Path::new("/"))
        .chain(group.files.iter().map(PathBuf::as_path))
        .collect();
    let (list, archive) =
        (directory.join(format!("{number}.list")), directory.join(format!("{number}.tar")));
    let mut text = Vec::new();
    for name in names {
        text.write_all(name.strip_prefix("/").unwrap_or(name).as_os_str().as_bytes())?;
        text.push(0);
    }
    fs::write(&list, text)?;
    let mut tar = bed.command("tar");
    tar.args(["-C", "/", "--no-recursion", "--owner=0", "--group=0"]);
    tar.arg("-cf").arg(&archive).args(["--null", "-T"]);
    Ok(finish(tar.arg(&list)).map(|_| archive))
}

/// The top layer: it hides files of those below, and replaces others.
fn changes(
    bed: &Bed,
    directory: &Path,
    groups: &[Group],
) -> io::Result<Result<PathBuf, NotMeasured>> {
    let tree = directory.join("changes");
    let all = groups.iter().flat_map(|group| &group.files);
    let files: Vec<&PathBuf> = all.filter(|file| !file.is_symlink()).collect();
    let step = (files.len() / (2 * CHANGED)).max(1);
    for (turn, file) in files.into_iter().step_by(step).enumerate() {
        let inside = tree.join(file.strip_prefix("/").unwrap_or(file));
        let place = inside.parent().unwrap_or(&tree);
        fs::create_dir_all(place)?;
        if turn % 2 == 0 {
            let name = inside.file_name().unwrap_or(OsStr::new("file"));
            let hidden = [b".wh.", name.as_bytes()].concat();
            fs::write(place.join(OsStr::from_bytes(&hidden)), "")?;
        } else {
            fs::write(&inside, format!("another one, {turn}\n"))?;
        }
    }
    let archive = directory.join("changes.tar");
    let mut tar = bed.command("tar");
    tar.args(["--owner=0", "--group=0", "-cf"]).arg(&archive);
    Ok(finish(tar.arg("-C").arg(&tree).arg(".")).map(|_| archive))
}

/// Compresses all layers at the same time.
fn pack_all(bed: &Bed, archives: &[PathBuf], blobs: &Path) -> Result<Vec<Layer>, NotMeasured> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            archives.iter().map(|archive| scope.spawn(move || pack(bed, archive, blobs))).collect();
        let layers = threads.into_iter().map(|thread| match thread.join() {
            Ok(layer) => layer,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        layers.collect()
    })
}

fn pack(bed: &Bed, archive: &Path, blobs: &Path) -> Result<Layer, NotMeasured> {
    let unpacked = archive.metadata().map_err(|error| error.to_string())?.len();
    let mut command = bed.command("/bin/sh");
    command.args(["-euc", PACK, "sh"]).arg(archive).arg(blobs);
    let printed = finish(&mut command)?;
    let printed = String::from_utf8_lossy(&printed);
    match printed.split_whitespace().collect::<Vec<_>>().as_slice() {
        [plain, packed, size] => Ok(Layer {
            plain: (*plain).to_owned(),
            packed: (*packed).to_owned(),
            size: size.parse().map_err(|_| "a layer without a size")?,
            unpacked,
        }),
        _ => Err("a layer without sums".to_owned()),
    }
}

/// Writes the documents of the layout.
fn describe(path: &Path, layers: &[Layer]) -> io::Result<()> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let joined = |each: &dyn Fn(&Layer) -> String| {
        let each: Vec<String> = layers.iter().map(each).collect();
        each.join(",")
    };
    let blob = |kind: &str, text: String| -> io::Result<String> {
        let digest = digest(&text)?;
        let size = text.len();
        fs::write(path.join("blobs/sha256").join(&digest), text)?;
        Ok(format!(
            r#""mediaType":"application/vnd.oci.image.{kind}.v1+json","digest":"sha256:{digest}","size":{size}"#
        ))
    };
    let ids = joined(&|layer| format!(r#""sha256:{}""#, layer.plain));
    // Charliecloud insists on it.
    let history = joined(&|_| r#"{"created_by":"the bench"}"#.to_owned());
    let config = format!(
        r#"{{"architecture":"{machine}","os":"linux","config":{{"Env":["PATH=/usr/bin:/bin"],"Cmd":["sh"]}},"rootfs":{{"type":"layers","diff_ids":[{ids}]}},"history":[{history}]}}"#
    );
    let config = blob("config", config)?;
    let descriptors = joined(&|layer| {
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:{}","size":{}}}"#,
            layer.packed, layer.size
        )
    });
    let kind = r#""mediaType":"application/vnd.oci.image.manifest.v1+json""#;
    let manifest =
        format!(r#"{{"schemaVersion":2,{kind},"config":{{{config}}},"layers":[{descriptors}]}}"#);
    let manifest = blob("manifest", manifest)?;
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{{manifest},"annotations":{{"org.opencontainers.image.ref.name":"1"}}}}]}}"#
    );
    fs::write(path.join("index.json"), index)?;
    fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
}

fn digest(text: &str) -> io::Result<String> {
    let mut child = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let digest = printed.split_whitespace().next();
    digest.map(str::to_owned).ok_or(io::ErrorKind::Other.into())
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn files_are_taken_until_there_are_enough() {
        let group = choose(&["/usr/bin"], 2_000_000);
        let largest = group.files.iter().filter(|file| !file.is_symlink());
        let largest = largest.filter_map(|file| file.metadata().ok());
        assert!(largest.map(|found| found.len()).max() <= Some(200_000));
        assert!((2_000_000..2_200_001).contains(&group.bytes), "{}", group.bytes);
    }
}
