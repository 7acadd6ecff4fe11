// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The registry that misbehaves, seen from a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Bearer, Fault, HostileRegistry, digest_of};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What came back: as much of it as came.
#[derive(Debug, Default)]
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Whether as much came as was announced.
    is_whole: bool,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A connection that asks one thing after the other.
struct Caller(BufReader<TcpStream>);

impl Caller {
    fn new(registry: &HostileRegistry) -> Self {
        Self::with_time_limit(registry, Duration::from_secs(60))
    }

    fn with_time_limit(registry: &HostileRegistry, time_limit: Duration) -> Self {
        let stream = TcpStream::connect(registry.host()).unwrap();
        stream.set_read_timeout(Some(time_limit)).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.0.get_mut().write_all(head.as_bytes()).unwrap();
        // The registry may have hung up.
        let _ = self.0.get_mut().write_all(body);
        self.reply(method)
    }

    fn reply(&mut self, method: &str) -> Reply {
        let mut reply = Reply::default();
        let mut line = String::new();
        while self.0.read_line(&mut line).is_ok_and(|length| length > 2) {
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                reply.status = rest[..3].parse().unwrap();
            } else if let Some((name, value)) = line.split_once(": ") {
                reply.headers.push((name.to_owned(), value.trim().to_owned()));
            }
            line.clear();
        }
        let announced = reply.header("Content-Length").parse().unwrap_or(0);
        let announced = if method == "HEAD" { 0 } else { announced };
        let mut piece = [0; 100];
        while reply.body.len() < announced {
            let wanted = piece.len().min(announced - reply.body.len());
            let Ok(length @ 1..) = self.0.read(&mut piece[..wanted]) else {
                return reply;
            };
            reply.body.extend(&piece[..length]);
        }
        reply.is_whole = reply.status != 0 && line.as_str() == "\r\n";
        reply
    }
}

fn ask(registry: &HostileRegistry, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
    Caller::new(registry).ask(method, path, headers, body)
}

fn get(registry: &HostileRegistry, path: &str) -> Reply {
    ask(registry, "GET", path, "", b"")
}

/// A registry with a blob of a hundred bytes, and the path of it.
fn with_blob() -> (HostileRegistry, String) {
    let registry = HostileRegistry::start();
    let content: Vec<u8> = (0..100).collect();
    let digest = registry.put_blob("a/b", &content);
    (registry, format!("/v2/a/b/blobs/{digest}"))
}

// ── what it does ─────────────────────────────────────────────────────────────

#[test]
fn a_blob_is_read_as_a_whole_and_in_parts_over_one_connection() {
    let (registry, path) = with_blob();
    let mut caller = Caller::new(&registry);
    let whole = caller.ask("GET", &path, "", b"");
    let part = caller.ask("GET", &path, "Range: bytes=10-19\r\n", b"");
    let head = caller.ask("HEAD", &path, "", b"");
    let beyond = caller.ask("GET", &path, "Range: bytes=100-\r\n", b"");
    assert_eq!((whole.status, whole.body.len(), whole.is_whole), (200, 100, true));
    assert_eq!((part.status, part.body[0], part.body.len()), (206, 10, 10));
    assert_eq!(part.header("Content-Range"), "bytes 10-19/100");
    assert_eq!(head.header("Content-Length"), "100");
    assert_eq!((beyond.status, beyond.header("Content-Range")), (416, "bytes */100"));
    assert_eq!(registry.connections(), (1, 1));
}

#[test]
fn a_blob_is_uploaded_in_pieces() {
    let registry = HostileRegistry::start();
    let begun = ask(&registry, "POST", "/v2/a/blobs/uploads/", "", b"");
    let place = begun.header("Location").to_owned();
    let first = ask(&registry, "PATCH", &place, "Content-Range: 0-4\r\n", b"first");
    let wrong = ask(&registry, "PATCH", &place, "Content-Range: 9-9\r\n", b"?");
    let status = get(&registry, first.header("Location"));
    let digest = digest_of(b"first and last");
    let end = format!("{}&digest={digest}", status.header("Location"));
    let done = ask(&registry, "PUT", &end, "", b" and last");
    assert_eq!([begun.status, first.status, wrong.status], [202, 202, 416]);
    assert_eq!((status.status, status.header("Range")), (204, "0-4"));
    assert_eq!(done.status, 201);
    assert_eq!(registry.blob("a", &digest).unwrap(), b"first and last");
    assert!(registry.uploads().is_empty());
}

#[test]
fn a_body_in_chunks_is_put_together() {
    let registry = HostileRegistry::start();
    let digest = digest_of(b"in two chunks");
    let mut caller = Caller::new(&registry);
    let request = format!(
        "POST /v2/a/blobs/uploads/?digest={digest} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
         6\r\nin two\r\n7\r\n chunks\r\n0\r\n\r\n"
    );
    caller.0.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(caller.reply("POST").status, 201);
    assert_eq!(caller.ask("GET", "/v2/", "", b"").status, 200);
}

#[test]
fn a_blob_of_another_name_is_taken_over_where_that_is_allowed() {
    let (registry, path) = with_blob();
    let digest = path.rsplit('/').next().unwrap();
    let mount = format!("/v2/c/blobs/uploads/?mount={digest}&from=a%2Fb");
    let taken = ask(&registry, "POST", &mount, "", b"");
    registry.change(|settings| settings.mounting = false);
    let begun = ask(&registry, "POST", &mount, "", b"");
    assert_eq!((taken.status, begun.status), (201, 202));
    assert_eq!(registry.blobs("c"), [digest]);
}

#[test]
fn a_manifest_needs_its_blobs_and_is_found_as_a_referrer() {
    let registry = HostileRegistry::start();
    let subject = registry.put_manifest("a", "v1", MANIFEST, b"{}");
    let blob = registry.put_blob("a", b"meta");
    let manifest = |blob: &str| {
        format!(
            r#"{{"artifactType": "uenv/meta", "layers": [{{"digest": "{blob}"}}],
                "subject": {{"digest": "{subject}"}}}}"#
        )
    };
    let kind = format!("Content-Type: {MANIFEST}\r\n");
    let put = |text: &str| ask(&registry, "PUT", "/v2/a/manifests/v2", &kind, text.as_bytes());
    let without = put(&manifest(&digest_of(b"")));
    let with = put(&manifest(&blob));
    let path = format!("/v2/a/referrers/{subject}?artifactType=uenv%2Fmeta");
    let found = get(&registry, &path);
    registry.change(|settings| settings.referrers = false);
    assert_eq!((without.status, with.status), (404, 201));
    assert_eq!(with.header("OCI-Subject"), subject);
    let digest = &found.json()["manifests"][0]["digest"];
    assert_eq!(digest, with.header("Docker-Content-Digest"));
    assert_eq!(get(&registry, &path).status, 404);
}

#[test]
fn a_tag_and_a_manifest_are_deleted() {
    let registry = HostileRegistry::start();
    let digest = registry.put_manifest("a", "v1", MANIFEST, b"{}");
    registry.put_manifest("a", "v2", MANIFEST, b"{}");
    let tag = ask(&registry, "DELETE", "/v2/a/manifests/v1", "", b"");
    let left = registry.tags("a");
    let path = format!("/v2/a/manifests/{digest}");
    let manifest = ask(&registry, "DELETE", &path, "", b"");
    assert_eq!((tag.status, manifest.status), (202, 202));
    assert_eq!(left, [("v2".to_owned(), digest)]);
    assert!(registry.tags("a").is_empty());
}

#[test]
fn lists_come_in_pages() {
    let registry = HostileRegistry::start();
    for name in ["a/1", "a/2", "a/3"] {
        registry.put_manifest(name, "v1", MANIFEST, b"{}");
    }
    registry.change(|settings| settings.page_size = 2);
    let first = get(&registry, "/v2/_catalog?n=99");
    let link = first.header("Link").strip_prefix('<').unwrap();
    let (next, _) = link.split_once('>').unwrap();
    let second = get(&registry, next);
    assert_eq!(first.json()["repositories"], serde_json::json!(["a/1", "a/2"]));
    assert_eq!(second.json()["repositories"], serde_json::json!(["a/3"]));
    assert_eq!(second.header("Link"), "");
}

#[test]
fn what_is_known_is_not_sent_again() {
    let registry = HostileRegistry::start();
    let digest = registry.put_manifest("a", "v1", MANIFEST, b"{}");
    let known = format!("If-None-Match: \"{digest}\"\r\n");
    let reply = ask(&registry, "GET", "/v2/a/manifests/v1", &known, b"");
    assert_eq!((reply.status, reply.body.len()), (304, 0));
}

// ── who may ──────────────────────────────────────────────────────────────────

#[test]
fn a_password_is_required() {
    let registry = HostileRegistry::start();
    registry.want_password("me", "swordfish");
    let refused = get(&registry, "/v2/");
    let right = "Authorization: Basic bWU6c3dvcmRmaXNo\r\n";
    assert_eq!(refused.header("WWW-Authenticate"), "Basic realm=\"a test\"");
    assert_eq!(ask(&registry, "GET", "/v2/", right, b"").status, 200);
}

#[test]
fn a_token_is_for_what_was_requested_and_not_for_ever() {
    let (registry, path) = with_blob();
    registry.want_token(Bearer::account("me", "swordfish"));
    let refused = get(&registry, &path);
    let challenge = refused.header("WWW-Authenticate");
    assert!(challenge.starts_with(&format!("Bearer realm=\"{}/token\"", registry.url())));
    assert!(challenge.ends_with("scope=\"repository:a/b:pull\""), "{challenge}");
    let place = "/token?service=x&scope=repository:a/b:pull";
    let right = "Authorization: Basic bWU6c3dvcmRmaXNo\r\n";
    assert_eq!(get(&registry, place).status, 401);
    let token = ask(&registry, "GET", place, right, b"").json();
    let token = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    let read = ask(&registry, "GET", &path, &token, b"").status;
    let write = ask(&registry, "POST", "/v2/a/b/blobs/uploads/", &token, b"").status;
    registry.forget_tokens();
    let late = ask(&registry, "GET", &path, &token, b"").status;
    assert_eq!([read, write, late], [200, 401, 401]);
}

#[test]
fn a_token_may_come_from_another_registry_and_be_used_up() {
    let (registry, path) = with_blob();
    let tokens = HostileRegistry::start();
    let bearer = Bearer::anonymous().for_uses(1);
    tokens.want_token(bearer.clone());
    registry.want_token(bearer.at(&tokens.url()));
    let token = get(&tokens, "/token?scope=repository:a/b:pull").json();
    let token = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    let uses = [(); 2].map(|()| ask(&registry, "GET", &path, &token, b"").status);
    assert_eq!(uses, [200, 401]);
}

#[test]
fn a_token_of_identity_is_taken_with_a_post() {
    let registry = HostileRegistry::start();
    registry.want_token(Bearer::account("me", "swordfish").with_refresh_token("abc"));
    let form = b"grant_type=refresh_token&refresh_token=abc&scope=repository:a:pull";
    let wrong = b"grant_type=refresh_token&refresh_token=xyz&scope=repository:a:pull";
    let right = ask(&registry, "POST", "/token", "", form).status;
    let wrong = ask(&registry, "POST", "/token", "", wrong).status;
    assert_eq!((right, wrong), (200, 401));
}

// ── what goes wrong ──────────────────────────────────────────────────────────

#[test]
fn an_answer_is_cut_at_every_offset() {
    let (registry, path) = with_blob();
    let sent: Vec<_> = (0..=100)
        .map(|offset| {
            registry.on("GET", "/blobs/").once().does(Fault::CutSending(offset));
            let reply = get(&registry, &path);
            (reply.status, reply.body.len())
        })
        .collect();
    let expected: Vec<_> = (0..=100).map(|offset| (200, offset)).collect();
    assert_eq!(sent, expected);
    assert!(get(&registry, &path).is_whole);
}

#[test]
fn a_head_is_cut() {
    let (registry, path) = with_blob();
    registry.on("GET", "").once().does(Fault::CutHead(20));
    let reply = get(&registry, &path);
    assert!(!reply.is_whole, "{reply:?}");
}

#[test]
fn a_part_of_an_upload_that_was_cut_is_kept() {
    let registry = HostileRegistry::start();
    let begun = ask(&registry, "POST", "/v2/a/blobs/uploads/", "", b"");
    let cut = Fault::CutReceiving { after: 6, kept: 4 };
    registry.on("PATCH", "").once().does(cut);
    let place = begun.header("Location");
    let reply = ask(&registry, "PATCH", place, "", b"one two three");
    let status = get(&registry, place);
    assert_eq!((reply.status, status.header("Range")), (0, "0-3"));
    assert_eq!(registry.received("PATCH", ""), 6);
}

#[test]
fn an_upload_that_was_cut_is_lost_where_registries_do_so() {
    let registry = HostileRegistry::start();
    registry.change(|settings| settings.cut_uploads = false);
    let begun = ask(&registry, "POST", "/v2/a/blobs/uploads/", "", b"");
    let cut = Fault::CutReceiving { after: 6, kept: 4 };
    registry.on("PATCH", "").once().does(cut);
    let place = begun.header("Location");
    ask(&registry, "PATCH", place, "", b"one two three");
    let reply = get(&registry, place);
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["errors"][0]["code"], "BLOB_UPLOAD_INVALID");
}

#[test]
fn a_piece_for_elsewhere_is_taken_where_registries_do_not_look() {
    let registry = HostileRegistry::start();
    registry.change(|settings| settings.ordered_pieces = false);
    let begun = ask(&registry, "POST", "/v2/a/blobs/uploads/", "", b"");
    let range = "Content-Range: 500-502\r\n";
    let piece = ask(&registry, "PATCH", begun.header("Location"), range, b"one");
    assert_eq!((piece.status, piece.header("Range")), (202, "0-2"));
}

#[test]
fn what_a_caller_that_vanished_had_sent_is_kept() {
    let registry = HostileRegistry::start();
    let begun = ask(&registry, "POST", "/v2/a/blobs/uploads/", "", b"");
    let place = begun.header("Location");
    let mut stream = TcpStream::connect(registry.host()).unwrap();
    let request = format!("PATCH {place} HTTP/1.1\r\nContent-Length: 100\r\n\r\nso far");
    stream.write_all(request.as_bytes()).unwrap();
    drop(stream);
    let started = Instant::now();
    while registry.uploads() != [6] {
        assert!(started.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_answer_is_lost_after_the_deed() {
    let registry = HostileRegistry::start();
    registry.on("POST", "").once().does(Fault::LoseAnswer);
    let digest = digest_of(b"x");
    let path = format!("/v2/a/blobs/uploads/?digest={digest}");
    let reply = ask(&registry, "POST", &path, "", b"x");
    assert_eq!((reply.status, registry.blobs("a")), (0, vec![digest]));
}

#[test]
fn ranges_are_ignored_or_lied_about() {
    let (registry, path) = with_blob();
    registry.on("GET", "").once().does(Fault::IgnoreRange);
    let part = "Range: bytes=10-19\r\n";
    let ignored = ask(&registry, "GET", &path, part, b"");
    registry.on("GET", "").once().does(Fault::WrongContentRange);
    let lied = ask(&registry, "GET", &path, part, b"");
    assert_eq!((ignored.status, ignored.body.len()), (200, 100));
    assert_eq!(lied.header("Content-Range"), "bytes 11-20/100");
    assert_eq!(lied.body[0], 10);
}

#[test]
fn lengths_bytes_and_digests_are_wrong() {
    let (registry, path) = with_blob();
    registry.on("GET", "").once().does(Fault::AnnounceMore(5));
    let short = get(&registry, &path);
    registry.on("GET", "").once().does(Fault::AnnounceLess(5));
    let long = get(&registry, &path);
    registry.on("GET", "").once().does(Fault::CorruptByte(12));
    let part = ask(&registry, "GET", &path, "Range: bytes=10-19\r\n", b"");
    registry.on("GET", "").once().does(Fault::WrongDigest);
    let digest = get(&registry, &path);
    assert_eq!((short.body.len(), short.is_whole), (100, false));
    assert_eq!(long.body.len(), 95);
    assert_eq!(part.body[..4], [10, 11, !12, 13]);
    assert!(!path.ends_with(digest.header("Docker-Content-Digest")));
}

#[test]
fn another_answer_comes_so_many_times_after_so_many() {
    let (registry, path) = with_blob();
    let late = Fault::answer_later(429, 7);
    registry.on("GET", "/blobs/").after(1).times(2).does(late);
    let replies = [(); 4].map(|()| get(&registry, &path));
    let statuses = replies.each_ref().map(|reply| reply.status);
    assert_eq!(statuses, [200, 429, 429, 200]);
    assert_eq!(replies[1].header("Retry-After"), "7");
    assert_eq!(replies[1].json()["errors"][0]["code"], "TOOMANYREQUESTS");
}

#[test]
fn an_answer_comes_before_the_body_was_read() {
    let registry = HostileRegistry::start();
    registry.on("PUT", "").does(Fault::AnswerEarly { status: 413 });
    let mut caller = Caller::new(&registry);
    let head = b"PUT /v2/a/manifests/v1 HTTP/1.1\r\nContent-Length: 99999\r\n\r\n";
    caller.0.get_mut().write_all(head).unwrap();
    assert_eq!(caller.reply("PUT").status, 413);
}

#[test]
fn a_caller_is_sent_elsewhere_and_what_it_takes_along_is_seen() {
    let (registry, path) = with_blob();
    let elsewhere = HostileRegistry::start();
    registry.on("GET", "/blobs/").does(Fault::redirect(&elsewhere.url()));
    let sent = get(&registry, &path);
    let place = sent.header("Location").strip_prefix(&elsewhere.url());
    ask(&elsewhere, "GET", place.unwrap(), "Authorization: secret\r\n", b"");
    let seen = elsewhere.requests_of("GET", "signature=");
    assert_eq!(sent.status, 307);
    assert_eq!(seen[0].header("Authorization"), Some("secret"));
}

#[test]
fn a_registry_hangs_before_an_answer_and_in_it() {
    let (registry, path) = with_blob();
    registry.on("GET", "").once().does(Fault::Hang);
    let time_limit = Duration::from_millis(300);
    let nothing = Caller::with_time_limit(&registry, time_limit).ask("GET", &path, "", b"");
    registry.on("GET", "").once().does(Fault::HangSending(9));
    let time_limit = Duration::from_secs(2);
    let part = Caller::with_time_limit(&registry, time_limit).ask("GET", &path, "", b"");
    assert_eq!((nothing.status, part.status), (0, 200));
    assert_eq!((part.body.len(), part.is_whole), (9, false));
}

#[test]
fn a_registry_is_slow() {
    let (registry, path) = with_blob();
    registry.on("GET", "").does(Fault::Slow(500));
    let started = Instant::now();
    assert!(get(&registry, &path).is_whole);
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[test]
fn only_requests_that_are_meant_are_befallen() {
    let (registry, path) = with_blob();
    let is_range = |request: &super::Request| request.header("range").is_some();
    registry.on("GET", "").if_request(is_range).does(Fault::answer(500));
    let whole = get(&registry, &path).status;
    let part = ask(&registry, "GET", &path, "Range: bytes=0-1\r\n", b"").status;
    registry.disarm();
    let again = ask(&registry, "GET", &path, "Range: bytes=0-1\r\n", b"").status;
    assert_eq!([whole, part, again], [200, 500, 206]);
}

#[test]
fn requests_are_remembered_with_what_went_over_the_wire() {
    let (registry, path) = with_blob();
    ask(&registry, "GET", &path, "Range: bytes=0-9\r\n", b"");
    let requests = registry.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("Range"), Some("bytes=0-9"));
    assert_eq!((requests[0].status, requests[0].sent), (Some(206), 10));
    assert_eq!((registry.sent("GET", "/blobs/"), registry.received("", "")), (10, 0));
}
