// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry in this process that misbehaves as a test likes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::access::{Access, Bearer};
use super::connection;
use super::fault::{Armed, When};
use super::http::Request;
use super::store::{Manifest, Store, digest_of};

/// What a [`HostileRegistry`] can, beside what goes wrong with single requests.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, as registries have them"
)]
pub struct Settings {
    /// Tells what refers to a manifest.
    pub referrers: bool,
    /// Lists its repositories.
    pub catalogue: bool,
    /// Deletes blobs, and manifests by their digests.
    pub deletion: bool,
    /// Deletes tags.
    pub tag_deletion: bool,
    /// Takes blobs over from another name.
    pub mounting: bool,
    /// Sends nothing to who has it already, as `If-None-Match` says.
    pub validation: bool,
    /// The most names or tags in one answer.
    pub page_size: usize,
    /// Tells the host in the places of uploads.
    pub absolute_locations: bool,
    /// Insists on the query that it gave to the place of an upload.
    pub upload_state: bool,
    /// Goes on with an upload that was cut within a piece. Debian's registry knows only the
    /// place that it gave after the last whole piece, and only if nothing came since.
    pub cut_uploads: bool,
    /// Refuses a piece that does not begin where the last one ended. Debian's registry takes
    /// it for the next.
    pub ordered_pieces: bool,
    /// The size that pieces of an upload must have, as it tells.
    pub minimum_chunk: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            referrers: true,
            catalogue: true,
            deletion: true,
            tag_deletion: true,
            mounting: true,
            validation: true,
            page_size: 100,
            absolute_locations: false,
            upload_state: true,
            cut_uploads: true,
            ordered_pieces: true,
            minimum_chunk: None,
        }
    }
}

/// Everything that changes, behind one lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) settings: Settings,
    pub(super) access: Access,
    pub(super) armed: Vec<Armed>,
    /// In their order, by their numbers.
    requests: BTreeMap<usize, Request>,
    requested: usize,
    /// Those that are open, by their numbers.
    connections: BTreeMap<usize, TcpStream>,
    opened: usize,
    most_connections: usize,
}

impl State {
    /// Gives a request its number.
    pub(super) fn begin_request(&mut self) -> usize {
        self.requested += 1;
        // What is known of it follows.
        self.requests.insert(self.requested, Request::default());
        self.requested
    }

    /// Remembers what is known of a request, unless the test has forgotten it meanwhile.
    pub(super) fn record(&mut self, number: usize, request: &Request) {
        if let Some(recorded) = self.requests.get_mut(&number) {
            recorded.clone_from(request);
        }
    }
}

/// What the threads of a registry share.
pub(super) struct Shared {
    address: SocketAddr,
    state: Mutex<State>,
    stopped: AtomicBool,
}

impl Shared {
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The state; a test that failed elsewhere is no reason not to look at it.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A registry in memory, at a port of this machine. It does what the specification says,
/// but where a test arms a [`Fault`](super::Fault), and remembers every request.
///
/// ```
/// # use cabane_testkit::{Fault, HostileRegistry};
/// let registry = HostileRegistry::start();
/// let digest = registry.put_blob("deploy/app", b"the content of an image");
/// registry.on("GET", "/blobs/").once().does(Fault::CutSending(10));
/// // Here something pulls from `registry.host()`.
/// assert_eq!(registry.requests_of("GET", &digest).len(), 0);
/// ```
///
/// A request that has no right to be answered gets that message, and no fault befalls it.
pub struct HostileRegistry {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

impl fmt::Debug for HostileRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostileRegistry at {}", self.shared.address)
    }
}

impl HostileRegistry {
    /// Starts one that is empty and open to all.
    ///
    /// # Panics
    ///
    /// If there is no port for it.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let shared = Arc::new(Shared {
            address: listener.local_addr().expect("its address"),
            state: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let ours = Arc::clone(&shared);
        let listener = thread::spawn(move || listen(&listener, &ours));
        Self { shared, listener: Some(listener) }
    }

    /// Where it is: `127.0.0.1:5000`.
    pub fn host(&self) -> String {
        self.shared.address.to_string()
    }

    /// Where it is, with how to speak to it: `http://127.0.0.1:5000`.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    // ── what it holds ────────────────────────────────────────────────────────

    /// Puts a blob there, and returns its digest.
    pub fn put_blob(&self, name: &str, content: &[u8]) -> String {
        let digest = digest_of(content);
        self.put_wrong_blob(name, &digest, content);
        digest
    }

    /// Puts a blob there under a digest that need not be its own.
    fn put_wrong_blob(&self, name: &str, digest: &str, content: &[u8]) {
        let mut state = self.shared.state();
        state.store.put_blob(name, digest, content.to_vec());
    }

    /// Puts a manifest there under a tag, or only under its digest if `reference` is that.
    /// Returns the digest. No one asks whether it is one.
    pub fn put_manifest(
        &self,
        name: &str,
        reference: &str,
        media_type: &str,
        content: &[u8],
    ) -> String {
        let manifest =
            Manifest { media_type: media_type.to_owned(), content: content.to_vec().into() };
        let mut state = self.shared.state();
        state.store.put_manifest(name, reference, manifest)
    }

    /// The content of a blob.
    pub fn blob(&self, name: &str, digest: &str) -> Option<Vec<u8>> {
        let content = self.shared.state().store.blob(name, digest)?;
        Some(content.to_vec())
    }

    /// The content of a manifest, under a tag or a digest.
    pub fn manifest(&self, name: &str, reference: &str) -> Option<Vec<u8>> {
        let (_, manifest) = self.shared.state().store.manifest(name, reference)?;
        Some(manifest.content.to_vec())
    }

    /// The tags of a name and their digests.
    pub fn tags(&self, name: &str) -> Vec<(String, String)> {
        let state = self.shared.state();
        let repository = state.store.repositories.get(name);
        let tags = repository.into_iter().flat_map(|one| one.tags.clone());
        tags.collect()
    }

    /// The digests of the blobs of a name.
    pub fn blobs(&self, name: &str) -> Vec<String> {
        let state = self.shared.state();
        let repository = state.store.repositories.get(name);
        let blobs = repository.into_iter().flat_map(|one| one.blobs.clone());
        blobs.collect()
    }

    /// How many bytes each upload has that is not done.
    pub fn uploads(&self) -> Vec<usize> {
        let state = self.shared.state();
        state.store.uploads.values().map(Vec::len).collect()
    }

    // ── how it behaves ───────────────────────────────────────────────────────

    /// Changes what it can.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.shared.state().settings);
    }

    /// Lets only one user in, with a password.
    pub fn want_password(&self, user: &str, password: &str) {
        self.shared.state().access =
            Access::Basic { user: user.to_owned(), password: password.to_owned() };
    }

    /// Lets only those in who have a token, which it hands out itself.
    pub fn want_token(&self, bearer: Bearer) {
        self.shared.state().access = Access::Bearer(bearer);
    }

    /// Makes all tokens invalid that it has handed out.
    pub fn forget_tokens(&self) {
        self.shared.state().access.forget_tokens();
    }

    /// Begins to say what goes wrong: with requests of a method whose path, with its query,
    /// contains a text. An empty text means all.
    pub fn on(&self, method: &str, path: &str) -> When<'_> {
        When::new(self, method, path)
    }

    pub(super) fn arm(&self, armed: Armed) {
        self.shared.state().armed.push(armed);
    }

    /// Makes an end of all that goes wrong, but for what does so already.
    pub fn disarm(&self) {
        self.shared.state().armed.clear();
    }

    /// Cuts all connections that are open.
    fn cut_connections(&self) {
        for connection in self.shared.state().connections.values() {
            // The other side may have closed it.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    // ── the requests ────────────────────────────────────────────────────

    /// All requests so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.values().cloned().collect()
    }

    /// The requests of a method whose path, with its query, contains a text.
    pub fn requests_of(&self, method: &str, path: &str) -> Vec<Request> {
        let mut requests = self.requests();
        requests
            .retain(|one| (method.is_empty() || one.method == method) && one.path.contains(path));
        requests
    }

    /// How many bytes of bodies it has sent in answer to such requests.
    pub fn sent(&self, method: &str, path: &str) -> usize {
        let requests = self.requests_of(method, path);
        requests.iter().map(|request| request.sent).sum()
    }

    /// How many bytes of bodies it has received with such requests.
    pub fn received(&self, method: &str, path: &str) -> usize {
        let requests = self.requests_of(method, path);
        requests.iter().map(|request| request.received).sum()
    }

    /// Forgets all requests so far.
    pub fn forget_requests(&self) {
        self.shared.state().requests.clear();
    }

    /// How many connections were opened, and how many were open at the same time.
    pub fn connections(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.opened, state.most_connections)
    }
}

impl Drop for HostileRegistry {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.cut_connections();
        // The listener looks up when someone calls.
        let _ = TcpStream::connect(self.shared.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Serves everyone who calls, each in a thread.
fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().map_while(Result::ok) {
        if shared.is_stopped() {
            return;
        }
        let Ok(ours) = stream.try_clone() else {
            continue;
        };
        let mut state = shared.state();
        state.opened += 1;
        let number = state.opened;
        state.connections.insert(number, ours);
        state.most_connections = state.most_connections.max(state.connections.len());
        drop(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // How a connection ends is a matter of the test.
            let _ = connection::serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            shared.state().connections.remove(&number);
        });
    }
}
