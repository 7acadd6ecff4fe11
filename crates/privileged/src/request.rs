// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The request to the set-uid helper, and its encoding.
//!
//! The helper gets the number of one descriptor; what can be read there are texts,
//! each ended by a zero byte, in this order:
//!
//! ```text
//! cabane-mount  5                      what it is, and which version
//! start | clean                        the task; nothing follows `clean`
//! - | in PROCESS | join PROCESS NUMBER   the mount namespace to begin in
//! COUNT  (WAY DESCRIPTOR FORMAT MOUNT_POINT NAME [VERITY])…   images; the name is for messages
//! COUNT  (SHA256 MOUNT_POINT)…         images that root has unpacked on this node
//! COUNT  (DESCRIPTOR ro|rw TARGET)…    what is seen in a root image
//! COUNT  (FILE LINES)…                 lines at the beginning of its text files
//! must | may  DIRECTORY                whether it must be entered; empty for none
//! COUNT  ARGUMENT…                     the command
//! COUNT  NAME=VALUE…                   its variables
//! ```
//!
//! The way of an image is `kernel`, with the descriptor of the file, `fuse`, with that of a socket on
//! which the process waits that will serve the image, or `verified`, with that of the file and a
//! `VERITY`: `DESCRIPTOR ROOT_HASH SIGNATURE`, those of its hash tree, the last one in hexadecimal digits
//! or empty.
//!
//! Variables travel here, not as those of the helper: a C library removes some of
//! them, such as `LD_LIBRARY_PATH`, from the environment of a set-uid program.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::request_text::{Reader, Writer, from_hexadecimal};
use crate::verity::hexadecimal;
use crate::{ImageDigest, ImageFormat, RootHash, Way};

const MAGIC: &[u8] = b"cabane-mount";
const VERSION: &[u8] = b"5";

/// What the helper shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Mount images and become a command.
    Start(StartRequest),
    /// Give up the images of the caller that no one uses.
    Clean,
}

/// The mount namespace in which a start begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// That of the caller.
    #[default]
    Here,
    /// That of another process of the caller; the images are mounted in a copy of it.
    In(u32),
    /// That of another process of the caller, in which the images are mounted already, if it still
    /// has the mount namespace with this number. Otherwise that of the caller, where they are
    /// mounted.
    Join(u32, u64),
}

/// Images and a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartRequest {
    /// Where it begins.
    pub place: Place,
    /// The images that are mounted.
    pub images: Vec<RequestedImage>,
    /// The images that root has unpacked.
    pub unpacked: Vec<RequestedUnpacked>,
    /// What is seen in a root image, which is one with the mount point `/`.
    pub binds: Vec<RequestedBind>,
    /// Text files of a root image, and lines at their beginning.
    pub lines: Vec<(PathBuf, String)>,
    /// Whether the command must not be started where the working directory cannot be
    /// entered. Otherwise it is started in `/` then.
    pub must_enter: bool,
    /// The working directory, absolute; `/` if there is none.
    pub working_directory: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its variables, `NAME=VALUE`.
    pub variables: Vec<OsString>,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedImage {
    /// Who reads it.
    pub way: Way,
    /// The descriptor of the image, opened for reading by the caller. With FUSE, that of a socket
    /// to the process that waits to serve the image.
    pub descriptor: RawFd,
    /// What it holds.
    pub format: ImageFormat,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// What the user calls it; used for nothing but messages.
    pub name: OsString,
    /// What its content is checked with, if the way is that.
    pub verity: Option<RequestedVerity>,
}

/// An image that root has unpacked on this node. The helper looks for it in the directory of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedUnpacked {
    /// The digest of the image.
    pub digest: ImageDigest,
    /// Where it is mounted.
    pub mount_point: PathBuf,
}

/// What the content of an image is checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedVerity {
    /// The descriptor of the hash tree, opened for reading by the caller.
    pub tree: RawFd,
    /// The root hash.
    pub root_hash: RootHash,
    /// The root hash signed, PKCS#7 in DER; empty for none.
    pub signature: Vec<u8>,
}

/// A file or directory that is seen in a root image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedBind {
    /// The descriptor of the place, which the caller need not be able to read.
    pub descriptor: RawFd,
    /// Whether writing is refused there.
    pub read_only: bool,
    /// Where it is seen.
    pub target: PathBuf,
}

/// A request that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// Which text it was, from 1.
    pub text: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text {} should be {}", self.text, self.expected)
    }
}

impl std::error::Error for RequestError {}

impl Request {
    /// The size of a request, in bytes, beyond which it is refused. The kernel takes
    /// 6 MiB of arguments and variables at most.
    pub const MAX_SIZE: u64 = 8 << 20;
    /// The number of images beyond which a request is refused.
    pub const MAX_IMAGES: usize = 32;
    /// The number of things seen in a root image beyond which a request is refused, and of
    /// its text files with more lines. Each takes up to three descriptors at a time, and a
    /// process has 1024 where no one says otherwise.
    pub const MAX_BINDS: usize = 320;

    /// Writes a request down.
    ///
    /// # Errors
    ///
    /// A text with a zero byte in it, which no program could be given either.
    pub fn encode(&self) -> Result<Vec<u8>, RequestError> {
        let mut writer = Writer::default();
        writer.text(MAGIC)?;
        writer.text(VERSION)?;
        match self {
            Self::Clean => writer.text(b"clean")?,
            Self::Start(start) => {
                writer.text(b"start")?;
                start.encode(&mut writer)?;
            }
        }
        Ok(writer.bytes)
    }

    /// Understands a request. Nothing about it is taken on trust.
    ///
    /// # Errors
    ///
    /// The first text that is not what it should be.
    pub fn decode(bytes: &[u8]) -> Result<Self, RequestError> {
        let mut reader = Reader { rest: bytes, count: 0 };
        reader.exactly(MAGIC, "`cabane-mount`")?;
        reader.exactly(VERSION, "the version `5`")?;
        let request = match reader.next("a task")? {
            b"clean" => Self::Clean,
            b"start" => Self::Start(StartRequest::decode(&mut reader)?),
            _ => return Err(reader.expected("`start` or `clean`")),
        };
        if reader.rest.is_empty() {
            Ok(request)
        } else {
            reader.count = reader.count.saturating_add(1);
            Err(reader.expected("the end"))
        }
    }
}

impl StartRequest {
    fn encode(&self, writer: &mut Writer) -> Result<(), RequestError> {
        match self.place {
            Place::Here => writer.text(b"-")?,
            Place::In(process) => {
                writer.text(b"in")?;
                writer.number(process)?;
            }
            Place::Join(process, number) => {
                writer.text(b"join")?;
                writer.number(process)?;
                writer.number(number)?;
            }
        }
        writer.number(self.images.len())?;
        for image in &self.images {
            writer.text(image.way.name().as_bytes())?;
            writer.number(image.descriptor)?;
            writer.text(image.format.name().as_bytes())?;
            writer.text(image.mount_point.as_os_str().as_bytes())?;
            writer.text(image.name.as_bytes())?;
            if let Some(verity) = &image.verity {
                writer.number(verity.tree)?;
                writer.text(verity.root_hash.as_str().as_bytes())?;
                writer.text(hexadecimal(&verity.signature).as_bytes())?;
            }
        }
        writer.number(self.unpacked.len())?;
        for image in &self.unpacked {
            writer.text(image.digest.as_str().as_bytes())?;
            writer.text(image.mount_point.as_os_str().as_bytes())?;
        }
        writer.number(self.binds.len())?;
        for bind in &self.binds {
            writer.number(bind.descriptor)?;
            writer.text(if bind.read_only { b"ro" } else { b"rw" })?;
            writer.text(bind.target.as_os_str().as_bytes())?;
        }
        writer.number(self.lines.len())?;
        for (file, lines) in &self.lines {
            writer.text(file.as_os_str().as_bytes())?;
            writer.text(lines.as_bytes())?;
        }
        writer.text(if self.must_enter { b"must" } else { b"may" })?;
        let directory = self.working_directory.as_deref();
        writer.text(directory.map_or(b"".as_slice(), |path| path.as_os_str().as_bytes()))?;
        writer.list(&self.command)?;
        writer.list(&self.variables)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, RequestError> {
        let place = match reader.next("a mount namespace")? {
            b"-" => Place::Here,
            b"in" => Place::In(reader.number("a process")?),
            b"join" => Place::Join(reader.number("a process")?, reader.number("a namespace")?),
            _ => return Err(reader.expected("`-`, `in`, or `join`")),
        };
        let count = reader.count_up_to(Request::MAX_IMAGES, "a number of images, 32 at most")?;
        let images =
            (0..count).map(|_| RequestedImage::decode(reader)).collect::<Result<_, _>>()?;
        let count = reader.count_up_to(Request::MAX_IMAGES, "a number of images, 32 at most")?;
        let unpacked =
            (0..count).map(|_| RequestedUnpacked::decode(reader)).collect::<Result<_, _>>()?;
        let count = reader.count_up_to(Request::MAX_BINDS, "a number of places, 320 at most")?;
        let binds = (0..count).map(|_| RequestedBind::decode(reader)).collect::<Result<_, _>>()?;
        let count = reader.count_up_to(Request::MAX_BINDS, "a number of files, 320 at most")?;
        let lines = (0..count).map(|_| {
            let file = reader.owned("a text file")?.into();
            let lines = reader.owned("lines")?.into_string();
            Ok((file, lines.map_err(|_| reader.expected("lines in UTF-8"))?))
        });
        let lines = lines.collect::<Result<_, _>>()?;
        let must_enter = match reader.next("`must` or `may`")? {
            b"must" => true,
            b"may" => false,
            _ => return Err(reader.expected("`must` or `may`")),
        };
        let directory = PathBuf::from(reader.owned("a directory")?);
        let working_directory = Some(directory).filter(|path| !path.as_os_str().is_empty());
        if working_directory.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(reader.expected("an absolute directory, or nothing"));
        }
        let command = reader.list()?;
        if command.is_empty() {
            return Err(reader.expected("a command"));
        }
        Ok(Self {
            place,
            images,
            unpacked,
            binds,
            lines,
            must_enter,
            working_directory,
            command,
            variables: reader.list()?,
        })
    }
}

impl RequestedImage {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, RequestError> {
        let way = match reader.next("a way to read an image")? {
            b"kernel" => Way::Kernel,
            b"verified" => Way::Verified,
            b"fuse" => Way::Fuse,
            _ => return Err(reader.expected("`kernel`, `verified`, or `fuse`")),
        };
        Ok(Self {
            way,
            descriptor: reader.descriptor()?,
            format: match reader.next("a format")? {
                b"squashfs" => ImageFormat::Squashfs,
                b"erofs" => ImageFormat::Erofs,
                _ => return Err(reader.expected("`squashfs` or `erofs`")),
            },
            mount_point: reader.owned("a mount point")?.into(),
            name: reader.owned("a name")?,
            verity: match way {
                Way::Verified => Some(RequestedVerity::decode(reader)?),
                Way::Kernel | Way::Fuse | Way::Unpacked(_) => None,
            },
        })
    }
}

impl RequestedUnpacked {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, RequestError> {
        let digest = std::str::from_utf8(reader.next("a digest")?).ok();
        let digest = digest.and_then(|text| text.parse().ok());
        let digest = digest.ok_or(reader.expected("a digest, 64 hexadecimal digits"))?;
        Ok(Self { digest, mount_point: reader.owned("a mount point")?.into() })
    }
}

impl RequestedVerity {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, RequestError> {
        let tree = reader.descriptor()?;
        let root_hash = std::str::from_utf8(reader.next("a root hash")?).ok();
        let root_hash = root_hash.and_then(|text| text.parse().ok());
        let root_hash = root_hash.ok_or(reader.expected("a root hash, 64 hexadecimal digits"))?;
        let signature = from_hexadecimal(reader.next("a signature")?);
        let signature = signature.ok_or(reader.expected("a signature in hexadecimal digits"))?;
        Ok(Self { tree, root_hash, signature })
    }
}

impl RequestedBind {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, RequestError> {
        Ok(Self {
            descriptor: reader.descriptor()?,
            read_only: match reader.next("`ro` or `rw`")? {
                b"ro" => true,
                b"rw" => false,
                _ => return Err(reader.expected("`ro` or `rw`")),
            },
            target: reader.owned("a place")?.into(),
        })
    }
}

/// Returns `NAME=VALUE`.
pub fn variable(name: &OsStr, value: &OsStr) -> OsString {
    let mut variable = name.to_owned();
    variable.push("=");
    variable.push(value);
    variable
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(1..=u8::MAX, 0..20).prop_map(OsString::from_vec)
    }

    fn image() -> impl Strategy<Value = RequestedImage> {
        let format = prop_oneof![Just(ImageFormat::Squashfs), Just(ImageFormat::Erofs)];
        let way = prop_oneof![
            Just((Way::Kernel, None)),
            Just((Way::Fuse, None)),
            verity().prop_map(|verity| (Way::Verified, Some(verity))),
        ];
        (way, 0..RawFd::MAX, format, text(), text()).prop_map(
            |((way, verity), descriptor, format, place, name)| RequestedImage {
                way,
                descriptor,
                format,
                mount_point: place.into(),
                name,
                verity,
            },
        )
    }

    fn verity() -> impl Strategy<Value = RequestedVerity> {
        let signature = prop::collection::vec(any::<u8>(), 0..9);
        (0..RawFd::MAX, "[0-9a-f]{64}", signature).prop_map(|(tree, root_hash, signature)| {
            RequestedVerity { tree, root_hash: root_hash.parse().unwrap(), signature }
        })
    }

    fn unpacked() -> impl Strategy<Value = RequestedUnpacked> {
        ("[0-9a-f]{64}", text()).prop_map(|(digest, place)| RequestedUnpacked {
            digest: digest.parse().unwrap(),
            mount_point: place.into(),
        })
    }

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![
            Just(Place::Here),
            any::<u32>().prop_map(Place::In),
            (any::<u32>(), any::<u64>()).prop_map(|(process, number)| Place::Join(process, number)),
        ]
    }

    fn bind() -> impl Strategy<Value = RequestedBind> {
        (0..RawFd::MAX, any::<bool>(), text()).prop_map(|(descriptor, read_only, target)| {
            RequestedBind { descriptor, read_only, target: target.into() }
        })
    }

    fn lines() -> impl Strategy<Value = (PathBuf, String)> {
        (text(), "[a-z:\n]{0,20}").prop_map(|(file, lines)| (file.into(), lines))
    }

    prop_compose! {
        fn start()(
            place in place(),
            images in prop::collection::vec(image(), 0..4),
            unpacked in prop::collection::vec(unpacked(), 0..3),
            binds in prop::collection::vec(bind(), 0..4),
            lines in prop::collection::vec(lines(), 0..3),
            must_enter: bool,
            directory in prop::option::of(text()),
            command in prop::collection::vec(text(), 1..5),
            variables in prop::collection::vec(text(), 0..5),
        ) -> StartRequest {
            let absolute = |relative: OsString| {
                let mut path = OsString::from("/");
                path.push(relative);
                PathBuf::from(path)
            };
            let working_directory = directory.map(absolute);
            StartRequest {
                place, images, unpacked, binds, lines, must_enter, working_directory, command,
                variables,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read_again(start in start()) {
            let request = Request::Start(start);
            prop_assert_eq!(Request::decode(&request.encode().unwrap()), Ok(request));
        }

        #[test]
        fn a_request_has_one_spelling(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode().unwrap(), bytes);
            }
        }

        #[test]
        fn a_shortened_request_is_refused(start in start(), cut in any::<prop::sample::Index>()) {
            let bytes = Request::Start(start).encode().unwrap();
            prop_assert!(Request::decode(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn a_changed_byte_never_crashes(start in start(), at in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = Request::Start(start).encode().unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode().unwrap(), bytes);
            }
        }
    }

    fn problem(texts: &[&str]) -> String {
        let bytes: Vec<u8> =
            texts.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
        Request::decode(&bytes).unwrap_err().to_string()
    }

    #[test]
    fn the_first_text_that_is_wrong_is_named() {
        assert_eq!(
            problem(&["cabane-mount", "5", "start", "-", "1", "kernel", "03"]),
            "text 7 should be a descriptor"
        );
    }

    #[test]
    fn an_unpacked_image_is_named_by_its_digest_and_by_nothing_else() {
        let long = format!("../{}", "0".repeat(61));
        for name in ["../../etc", "/etc", "", &long] {
            let texts = ["cabane-mount", "5", "start", "-", "0", "1", name, "/a"];
            assert_eq!(problem(&texts), "text 7 should be a digest, 64 hexadecimal digits");
        }
    }

    #[test]
    fn a_count_without_its_texts_takes_no_memory() {
        assert_eq!(
            problem(&[
                "cabane-mount",
                "5",
                "start",
                "-",
                "0",
                "0",
                "0",
                "0",
                "may",
                "",
                "99999999999999",
                "x"
            ]),
            "text 13 should be a text of the list"
        );
    }

    #[test]
    fn what_follows_the_end_is_refused() {
        assert_eq!(problem(&["cabane-mount", "5", "clean", "more"]), "text 4 should be the end");
    }

    #[test]
    fn a_zero_byte_cannot_be_written() {
        let start = StartRequest { command: vec!["a\0b".into()], ..StartRequest::default() };
        let error = Request::Start(start).encode().unwrap_err();
        assert_eq!(error.expected, "without a zero byte");
    }
}
