// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry that wants to use up the memory, the disk, or the time of anyone who asks it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cabane_registry::{
    ContainerName, Credential, CredentialSources, Listing, Options, Registry, Secret, Wanted,
};

use crate::bed::{options, retry_policy};

/// What is answered: the status, headers, and the body.
pub(crate) type Reply = (u16, Vec<(String, String)>, String);

/// A server that sends given answers, on real sockets.
pub(crate) struct Server {
    pub(crate) address: String,
    /// The head of each request.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> Self {
        Self::raw(move |stream, head, address| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (status, headers, body) = answer(path, address);
            let mut text = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n", body.len());
            for (name, value) in headers {
                text += &format!("{name}: {value}\r\n");
            }
            let _ = stream.write_all(format!("{text}Connection: close\r\n\r\n{body}").as_bytes());
        })
    }

    fn raw(answer: impl Fn(&mut TcpStream, &str, &str) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, own, answer) = (requests.clone(), address.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen) = (stream.unwrap(), seen.clone());
                let (own, answer) = (own.clone(), answer.clone());
                thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let head: Vec<String> = lines
                        .by_ref()
                        .map_while(Result::ok)
                        .take_while(|line| !line.is_empty())
                        .collect();
                    let head = head.join("\n");
                    seen.lock().unwrap().push(head.clone());
                    answer(&mut stream, &head, &own);
                });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn registry(&self) -> Registry {
        self.registry_with(&options())
    }

    pub(crate) fn registry_with(&self, options: &Options) -> Registry {
        let address = format!("http://{}", self.address).parse().unwrap();
        Registry::new(address, options).unwrap()
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn list(registry: &Registry, listing: Listing) -> String {
    let namespace = "deploy".parse().unwrap();
    let wanted =
        Wanted { namespace: &namespace, pattern: None, how: cabane_label::NameMatch::Prefix };
    let found = registry.find(&wanted, listing);
    found.map(|found| found.len()).unwrap_err().to_string()
}

fn linked(to: &str, body: &str) -> Reply {
    let link = ("Link".to_owned(), format!("<{to}>; rel=\"next\""));
    (200, vec![link], body.to_owned())
}

#[test]
fn a_list_that_leads_back_to_a_page_ends_there() {
    let server = Server::start(|path, _| linked(path, r#"{"repositories": []}"#));
    let error = list(&server.registry(), Listing::Catalog);
    assert!(error.ends_with("its list leads back to a page that was already read"), "{error}");
    assert_eq!(server.count(), 1);
}

#[test]
fn a_list_that_repeats_its_names_under_other_links_ends_there() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |_, _| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        linked(&format!("/v2/_catalog?n={number}"), r#"{"repositories": ["a", "b"]}"#)
    });
    let error = list(&server.registry(), Listing::Catalog);
    assert!(error.ends_with("a page of its list repeats earlier pages"), "{error}");
    assert_eq!(server.count(), 2);
}

#[test]
fn a_list_of_tags_without_an_end_ends_at_its_limit_of_time() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |path, _| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(20));
        let path = path.split('?').next().unwrap_or_default();
        linked(&format!("{path}?last={number}"), &format!(r#"{{"tags": ["t{number}"]}}"#))
    });
    let mut options = options();
    options.retry_policy.list = Duration::from_secs(1);
    let error = list(&server.registry_with(&options), Listing::Index);
    assert!(error.contains("its list is not complete after 1 seconds"), "{error}");
}

#[test]
fn a_list_does_not_continue_on_another_host() {
    let other = Server::start(|_, _| (200, Vec::new(), r#"{"repositories": []}"#.to_owned()));
    let to = format!("http://{}/v2/_catalog", other.address);
    let server = Server::start(move |_, _| linked(&to, r#"{"repositories": ["a"]}"#));
    let error = list(&server.registry(), Listing::Catalog);
    let expected = format!("its list continues on another host: {}", other.address);
    assert!(error.ends_with(&expected), "{error}");
    assert_eq!(other.count(), 0);
}

#[test]
fn a_page_that_is_too_large_is_not_read_to_its_end() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let server = Server::raw(move |stream, _, _| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n{\"repositories\": [\"");
        let part = vec![b'x'; 64 * 1024];
        while stream.write_all(&part).is_ok() {
            counted.fetch_add(part.len(), Ordering::Relaxed);
        }
    });
    let error = list(&server.registry(), Listing::Catalog);
    assert!(error.contains("more than 33554432 bytes"), "{error}");
    assert!(sent.load(Ordering::Relaxed) < 128 << 20);
}

#[test]
fn an_answer_that_comes_byte_by_byte_has_an_end() {
    let server = Server::raw(|stream, _, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 x\r\nContent-Length: 100000\r\n\r\n");
        while stream.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mut options = options();
    options.retry_policy.answer = Duration::from_secs(1);
    let start = Instant::now();
    let error = list(&server.registry_with(&options), Listing::Catalog);
    assert!(error.contains("its answer is not complete after 1 seconds"), "{error}");
    // Many times the limit: the machine may be busy.
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_layer_of_a_size_that_nothing_has_is_refused_before_anything_is_made() {
    let server = Server::start(|_, _| (404, Vec::new(), String::new()));
    let name: ContainerName = format!("http://{}/tool:1", server.address).parse().unwrap();
    let digest: cabane_label::Digest = "a".repeat(64).parse().unwrap();
    let place = tempfile::tempdir().unwrap();
    let errors = [1 << 62, u64::MAX, 1 << 43].map(|size| {
        let registry = server.registry();
        let got = registry.container_blob(&name, &digest, size, place.path(), &mut |_, _| ());
        got.unwrap_err().to_string()
    });
    let start = format!("{name} cannot be downloaded: its ");
    for (error, size) in
        errors.iter().zip(["4611686018427387904", "18446744073709551615", "8796093022208"])
    {
        assert!(error.starts_with(&start), "{error}");
        assert!(error.contains(&format!("layer sha256:{digest} has {size} bytes")), "{error}");
    }
    assert_eq!(server.count(), 0);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn layers_that_fit_alone_and_not_together_are_refused() {
    let server = Server::start(|_, _| (404, Vec::new(), String::new()));
    let name: ContainerName = format!("http://{}/tool:1", server.address).parse().unwrap();
    let place = tempfile::tempdir().unwrap();
    let found = rustix::fs::statvfs(place.path()).unwrap();
    let half = found.f_bavail * found.f_frsize / 2;
    let digest = |letter: &str| letter.repeat(64).parse().unwrap();
    let layers = ["a", "b", "c"].map(|letter| (digest(letter), half));
    let space = server.registry().check_space(&name, &layers, place.path());
    let error = space.unwrap_err().to_string();
    assert!(error.contains(&format!("all of it needs {} bytes", 3 * half)), "{error}");
}

#[test]
fn a_token_that_lives_forever_is_kept_for_a_while() {
    let server = Server::start(|path, address| {
        let token = r#"{"token": "t", "expires_in": 18446744073709551615}"#;
        if path.starts_with("/token") {
            return (200, Vec::new(), token.to_owned());
        }
        let challenge = format!("Bearer realm=\"http://{address}/token\"");
        let header = ("WWW-Authenticate".to_owned(), challenge);
        (401, vec![header], String::new())
    });
    let error = list(&server.registry(), Listing::Index);
    assert!(error.contains("requires you to log in"), "{error}");
}

#[test]
fn a_token_that_is_too_long_is_not_read_to_its_end() {
    let server = Server::start(|path, address| {
        if path.starts_with("/token") {
            let token = format!(r#"{{"token": "{}"}}"#, "t".repeat(2 << 20));
            return (200, Vec::new(), token);
        }
        let challenge = format!("Bearer realm=\"http://{address}/token\"");
        let header = ("WWW-Authenticate".to_owned(), challenge);
        (401, vec![header], String::new())
    });
    let error = list(&server.registry(), Listing::Index);
    assert!(error.contains("its token has more than 1048576 bytes"), "{error}");
}

#[test]
fn redirects_have_an_end_and_headers_a_limit() {
    let hops = AtomicUsize::new(0);
    let circle = Server::start(move |_, _| {
        let hop = hops.fetch_add(1, Ordering::Relaxed);
        let location = ("Location".to_owned(), format!("/v2/hop{hop}"));
        (307, vec![location], String::new())
    });
    let endless = Server::raw(|stream, _, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 x\r\n");
        while stream.write_all(b"X-Header: value\r\n").is_ok() {}
    });
    let mut short = options();
    short.retry_policy = retry_policy();
    short.retry_policy.retries = 0;
    let first = list(&circle.registry_with(&short), Listing::Catalog);
    let second = list(&endless.registry_with(&short), Listing::Catalog);
    assert!(first.contains("leads in circles"), "{first}");
    assert!(second.contains("does not answer as a registry does"), "{second}");
}

#[test]
fn a_registry_without_tls_may_lead_to_a_place_that_has_it() {
    let server = Server::start(|_, own| {
        let location = ("Location".to_owned(), format!("https://{own}/elsewhere"));
        (307, vec![location], String::new())
    });
    let error = list(&server.registry(), Listing::Catalog);
    // The same server, which speaks no TLS, reached over https.
    assert!(error.contains("answers without encryption"), "{error}");
}

#[test]
fn a_registry_without_tls_may_be_behind_a_proxy_that_has_it() {
    let server = Server::start(|_, _| (200, vec![], String::new()));
    let mut options = options();
    options.proxy.http = Some(format!("https://{}", server.address));
    let address = "http://registry.test".parse().unwrap();
    let error = list(&Registry::new(address, &options).unwrap(), Listing::Catalog);
    assert!(error.contains("answers without encryption"), "{error}");
}

#[test]
fn a_password_goes_to_another_host_only_if_someone_says_so() {
    let server = Server::start(|path, address| {
        if path.starts_with("/token") {
            return (200, Vec::new(), r#"{"token": "t"}"#.to_owned());
        }
        let port = address.rsplit_once(':').unwrap().1;
        let challenge = format!("Bearer realm=\"http://localhost:{port}/token\"");
        (401, vec![("WWW-Authenticate".to_owned(), challenge)], String::new())
    });
    let password =
        Credential::Password { username: "alice".to_owned(), password: Secret::new("secret") };
    let credentials = CredentialSources { given: Some(password), ..CredentialSources::default() };
    let with = |token_services: Vec<String>| Options {
        credentials: credentials.clone(),
        token_services,
        ..options()
    };
    let asked = || {
        let requests = server.requests.lock().unwrap();
        requests.iter().filter(|head| head.contains("/token")).cloned().collect::<Vec<_>>()
    };
    let error = list(&server.registry_with(&with(Vec::new())), Listing::Index);
    assert!(error.contains("asks for your password to be sent to localhost:"), "{error}");
    assert_eq!(asked(), [] as [String; 0]);
    // Nobody's password is in a request for everybody's token.
    let _ = list(&server.registry(), Listing::Index);
    assert_eq!(asked().len(), 1);
    assert!(!asked().concat().to_lowercase().contains("authorization"));
    let port = server.address.rsplit_once(':').unwrap().1;
    let _ = list(&server.registry_with(&with(vec![format!("LocalHost:{port}")])), Listing::Index);
    assert!(asked().last().unwrap().to_lowercase().contains("authorization: basic"));
}
