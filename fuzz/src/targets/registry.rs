// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry that answers anything.
//!
//! The first file of the input says by its name what the client wants; each file behind it is
//! the answer to one request: a status with headers, an empty line, the body. Digests and sizes
//! are those of bodies, and of later files. No answer can lead the client to a host of the
//! network: there is none.

use std::path::Path;
use std::time::Duration;

use cabane_label::NameMatch;
use cabane_registry::{
    ChannelPlace, ContainerName, Error, Format, Listing, Options, Place, PushRequest, Registry,
    RetryPolicy, Wanted, answer_with,
};
use cabane_report::{Kind, Report};

use super::Verdict;
use super::memory::memory;
use super::parts::{Known, split};

/// What is not answered after this time is not answered.
const SILENCE: Duration = Duration::from_secs(2);

const MOST_BYTES: u64 = 64 << 20;

/// Asks a registry, and checks that what it says can be shown.
pub fn run(bytes: &[u8]) -> Verdict {
    let parts = split(bytes);
    let Some(((wanted, _), answers)) = parts.split_first() else {
        return Verdict::Refused;
    };
    let mut known = Known::default();
    // What comes first refers to what comes later.
    let answers = answers.iter().rev().map(|(name, text)| {
        let (head, body) = match text.windows(2).position(|two| two == b"\n\n") {
            Some(end) => (&text[..end], &text[end + 2..]),
            None => (text.trim_ascii_end(), &[][..]),
        };
        let body = known.fill(body.strip_suffix(b"\n").unwrap_or(body));
        known.add(name, &body);
        answer(&known.fill(head), &body)
    });
    answer_with(answers.collect());
    match ask(wanted) {
        Ok(()) => Verdict::Accepted,
        Err(error) if error.to_string().contains("not complete after 2 seconds") => {
            Verdict::Wrong("the client waits for what does not come".to_owned())
        }
        Err(error) => {
            let shown = error.to_string();
            if shown.chars().any(|c| c.is_control() && c != '\n') {
                return Verdict::Wrong(format!("this cannot be shown: {shown:?}"));
            }
            Verdict::Refused
        }
    }
}

fn ask(wanted: &[u8]) -> Result<(), Error> {
    let options = Options {
        retry_policy: RetryPolicy {
            retries: 1,
            pause: Duration::ZERO,
            longest_pause: Duration::ZERO,
            longest_request: Duration::ZERO,
            connect: SILENCE,
            silence: SILENCE,
            answer: SILENCE,
            list: SILENCE,
            thinking: SILENCE,
        },
        streams: 1,
        ..Options::default()
    };
    let (Ok(address), Ok(namespace)) = ("http://registry.test/uenv".parse(), "deploy".parse())
    else {
        return Ok(());
    };
    let registry = Registry::new(address, &options)?;
    let find = |listing| {
        let wanted = Wanted { namespace: &namespace, pattern: None, how: NameMatch::Prefix };
        registry.find(&wanted, listing)
    };
    let failed = |text: &str| Error::from(Report::new(Kind::Failure, text));
    let labeled = |label: &str| {
        let label = label.parse().map_err(|_| failed("no label"))?;
        Ok::<_, Error>(Place { namespace: namespace.clone(), label })
    };
    let place = || labeled("app/1:v1@here%zen2");
    let other = || labeled("app/2:v1@here%zen2");
    let image = || registry.image(&place()?);
    let directory = || tempfile::tempdir_in(memory()).map_err(|_| failed("no directory"));
    match wanted {
        b"catalog" => find(Listing::Catalog).map(drop),
        b"index" => find(Listing::Index).map(drop),
        b"compare" => {
            let wanted = Wanted { namespace: &namespace, pattern: None, how: NameMatch::Exact };
            registry.compare_list(&wanted, Listing::Auto, &mut |_, _| ()).map(drop)
        }
        b"contents" => {
            let found = find(Listing::Catalog)?;
            registry.contents(&found, &["env.json"]).map(drop)
        }
        b"meta" => registry.fetch_meta(&image()?, directory()?.path()).map(drop),
        b"files" => registry.fetch_meta_files(&image()?, &["env.json"]).map(drop),
        b"signatures" => registry.fetch_record(&image()?).map(drop),
        b"pull" => {
            let place = directory()?;
            let base = place.path().join("base");
            let _ = std::fs::write(&base, b"abc");
            let image = image()?;
            // Space is taken for all of it.
            if image.size > MOST_BYTES {
                return Ok(());
            }
            let fetched = registry.fetch_image(&image, place.path(), &[base], &mut |_, _| ());
            fetched.map(drop)
        }
        b"channel" => {
            let (Ok(name), Ok(system)) = ("stable".parse(), "here".parse()) else {
                return Ok(());
            };
            let channel = ChannelPlace { namespace, name, system };
            for number in registry.channel_numbers(&channel)?.into_iter().take(4) {
                drop(registry.channel_document(&channel, Some(number))?);
            }
            registry.channel_document(&channel, None).map(drop)
        }
        b"log" => registry.log_since(&namespace, None, &mut |_, _| ()).map(drop),
        b"statements" => registry.attestations(&image()?).map(drop),
        b"root" => registry.root_signature(&image()?).map(drop),
        b"copy" => registry.copy(&place()?, &other()?, true).map(drop),
        b"delete" => registry.delete(&place()?).map(drop),
        b"mirror" => {
            let image = image()?;
            // Space is taken for all of it.
            if image.size > MOST_BYTES {
                return Ok(());
            }
            let place = directory()?;
            registry.mirror(&registry, &image, true, place.path(), &mut |_, _| ()).map(drop)
        }
        b"push" => push(&registry, &place()?, directory()?.path()),
        b"container" => {
            let Ok(name) = "registry.test/library/debian:12".parse::<ContainerName>() else {
                return Ok(());
            };
            registry.container_document(&name).map(drop)
        }
        _ => Ok(()),
    }
}

/// Pushes an image of three bytes, written to `directory`.
fn push(registry: &Registry, place: &Place, directory: &Path) -> Result<(), Error> {
    let image = directory.join("image");
    let _ = std::fs::write(&image, b"abc");
    let request = PushRequest {
        place,
        image: &image,
        digest: cabane_registry::sum::bytes(b"abc"),
        size: 3,
        format: Format::Squashfs,
        meta: None,
        packages: Some("zlib@1.3"),
        created: jiff::Timestamp::UNIX_EPOCH,
        replace: true,
        notes: None,
        root_signature: None,
        sign: None,
    };
    registry.push(&request, &mut |_, _| ()).map(drop)
}

/// Makes an answer; one that does not say where it ends, ends with the connection.
fn answer(head: &[u8], body: &[u8]) -> Vec<u8> {
    let lower = head.to_ascii_lowercase();
    let says = |name: &str| {
        let name = name.as_bytes();
        lower.windows(name.len()).any(|window| window == name)
    };
    let mut answer = b"HTTP/1.1 ".to_vec();
    for line in head.split(|byte| *byte == b'\n') {
        answer.extend_from_slice(line);
        answer.extend_from_slice(b"\r\n");
    }
    if !says("content-length") && !says("transfer-encoding") {
        let length = format!("Content-Length: {}\r\n", body.len());
        answer.extend_from_slice(length.as_bytes());
    }
    answer.extend_from_slice(b"Connection: close\r\n\r\n");
    answer.extend_from_slice(body);
    answer
}
