// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A site on this machine: a small server for the browser of the same user.
//!
//! It listens on the loopback address only. Every user of the machine can reach that, so the path begins with
//! a random part, which only the address has. It refuses requests for other host names: a page of the web could
//! use a name of its own to reach it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cabane_label::{shown, shown_word};
use cabane_report::{IoContext, Kind, Report, Result};

use crate::output::LIST;

/// The longest request, in bytes.
const MOST_OF_REQUEST: u64 = 16 * 1024;
/// Where random numbers come from, and how many bytes of them are in an address.
const RANDOM: &str = "/dev/urandom";
const SECRET_BYTES: usize = 16;
/// How long a browser may take to send or to take something.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves a site at a port of this machine, 0 for a free one, until the process ends. `ready` gets the
/// address, which only the user may know.
///
/// # Errors
///
/// The directory is no site, the port is taken, or the system has no random numbers.
pub fn serve(directory: &Path, port: u16, ready: impl FnOnce(&str)) -> Result<()> {
    if !directory.join(LIST).is_file() {
        let message = format!("{} is not a catalog", shown(directory));
        let hint = format!("`cabane catalogue build -o {}` makes one", shown_word(directory));
        return Err(Report::new(Kind::NotFound, message).hinted(hint));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.or_failed(|| format!("listen on port {port}"))?;
    let port = listener.local_addr().or_failed(|| "listen".to_owned())?.port();
    let secret: Arc<str> = secret()?.into();
    ready(&format!("http://127.0.0.1:{port}/{secret}/"));
    for stream in listener.incoming().flatten() {
        let (directory, secret) = (directory.to_owned(), Arc::clone(&secret));
        // A browser that leaves is no failure.
        thread::spawn(move || answer(&stream, &directory, &secret));
    }
    Ok(())
}

/// Makes a path that other users cannot guess.
fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    let read = File::open(RANDOM).and_then(|mut random| random.read_exact(&mut bytes));
    read.or_failed(|| format!("read {RANDOM}"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Answers one request.
fn answer(stream: &TcpStream, directory: &Path, secret: &str) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let request = Request::read(stream)?;
    let response = respond(&request, directory, secret);
    let mut head = format!("HTTP/1.1 {}\r\n", response.status);
    head += "Connection: close\r\nCache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n";
    head += &format!("Content-Length: {}\r\n", response.body.len());
    head += &format!("Content-Type: {}\r\n\r\n", response.kind);
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()?;
    if request.method != "HEAD" {
        stream.write_all(&response.body).ok()?;
    }
    stream.flush().ok()
}

/// What a browser asks for.
#[derive(Debug, Default)]
struct Request {
    method: String,
    target: String,
    host: String,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut lines = BufReader::new(stream.take(MOST_OF_REQUEST)).lines();
        let first = lines.next()?.ok()?;
        let mut words = first.split(' ');
        let mut request = Self {
            method: words.next()?.to_owned(),
            target: words.next()?.to_owned(),
            host: String::new(),
        };
        for line in lines {
            let line = line.ok()?;
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("host") => {
                    value.trim().clone_into(&mut request.host);
                }
                Some(_) => {}
                None => return Some(request),
            }
        }
        None
    }
}

struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    fn error(status: &'static str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{status}\n").into_bytes() }
    }
}

fn respond(request: &Request, directory: &Path, secret: &str) -> Response {
    // With `ssh -L`, the browser names a port of another machine.
    let name = request.host.split_once(':').map_or(&*request.host, |(name, _)| name);
    if !["127.0.0.1", "localhost"].contains(&name) {
        return Response::error("421 Misdirected Request");
    }
    if !["GET", "HEAD"].contains(&request.method.as_str()) {
        return Response::error("405 Method Not Allowed");
    }
    let target = request.target.strip_prefix('/').and_then(|path| path.strip_prefix(secret));
    let path = target.and_then(path_of).and_then(|path| file_in(directory, &path));
    match path.map(|path| (kind_of(&path), fs::read(&path))) {
        Some((kind, Ok(body))) => Response { status: "200 OK", kind, body },
        _ => Response::error("404 Not Found"),
    }
}

/// Returns the path that a request means; `None` for one that no file of a site has.
fn path_of(target: &str) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next()?.strip_prefix('/')?;
    let path = if path.is_empty() || path.ends_with('/') {
        format!("{path}index.html")
    } else {
        path.to_owned()
    };
    let is_plain = |part: &str| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_known)
    };
    path.split('/').all(is_plain).then(|| PathBuf::from(path))
}

/// Returns a file of a site. No link leads out of its directory.
fn file_in(directory: &Path, path: &Path) -> Option<PathBuf> {
    let root = fs::canonicalize(directory).ok()?;
    let file = fs::canonicalize(root.join(path)).ok()?;
    (file.starts_with(&root) && file.is_file()).then_some(file)
}

fn kind_of(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("atom") => "application/atom+xml; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn status(directory: &Path, method: &str, target: &str, host: &str) -> &'static str {
        let (method, target, host) = (method.to_owned(), target.to_owned(), host.to_owned());
        respond(&Request { method, target, host }, directory, "s3cret").status
    }

    #[test]
    fn only_files_of_the_site_are_served() {
        let world = tempfile::tempdir().unwrap();
        let site = world.path().join("site");
        fs::create_dir_all(site.join("i")).unwrap();
        for name in ["secret", "site/index.html", "site/i/a~b.html", "site/.cabane-catalogue"] {
            fs::write(world.path().join(name), "x").unwrap();
        }
        symlink("../secret", site.join("link")).unwrap();
        let ask_all = |target: &str| status(&site, "GET", target, "127.0.0.1:80");
        let ask = |target: &str| ask_all(&format!("/s3cret{target}"));
        for target in ["/", "/index.html", "/?q=x", "/i/a~b.html"] {
            assert_eq!(ask(target), "200 OK", "{target}");
        }
        for target in [
            "",
            "x",
            "/../secret",
            "/i/../../secret",
            "/%2e%2e/secret",
            "/link",
            "/.cabane-catalogue",
            "/i",
            "/i/",
            "//index.html",
            "/i//a~b.html",
            "http://elsewhere/",
        ] {
            assert_eq!(ask(target), "404 Not Found", "{target}");
        }
        // Another user does not know the path.
        for target in ["/", "/index.html", "/S3cret/", "/s3cre/", "s3cret/", "//s3cret/"] {
            assert_eq!(ask_all(target), "404 Not Found", "{target}");
        }
        let of_host = |host| status(&site, "GET", "/s3cret/", host);
        for host in ["localhost", "localhost:8000", "127.0.0.1:9"] {
            assert_eq!(of_host(host), "200 OK", "{host}");
        }
        for host in ["", "evil.example.org", "localhost.example.org:80", "127.0.0.1.example.org"] {
            assert_eq!(of_host(host), "421 Misdirected Request", "{host}");
        }
        assert_eq!(status(&site, "POST", "/s3cret/", "localhost"), "405 Method Not Allowed");
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one != other && one.len() == 2 * SECRET_BYTES, "{one} {other}");
    }
}
