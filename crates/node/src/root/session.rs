//! Sessions: what a login begins, and what further connections are bound to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use auth::Access;
use authn::Principal;
use parking_lot::Mutex;
use xroot::head::SessionId;
use xroot::limits::STREAMS_MAX;
use xroot::{RootAnswer, StreamId};

use super::files::OpenFiles;
use super::streams::BoundStream;

/// Principals that a session has shown by tokens in paths: clients send the same token with every path.
const PRINCIPALS_MAX: usize = 16;

/// What a client says about itself.
#[derive(Clone, Default)]
pub(super) struct ClientName {
    /// `PROGRAM USER.PID`, for logs.
    pub shown: String,
    /// `USER.PID`.
    pub login_name: String,
}

/// A session.
pub(super) struct RootSession {
    pub id: SessionId,
    /// The address of its client: further connections must come from there.
    pub peer: IpAddr,
    /// What the client says about itself, for logs.
    pub client: String,
    /// `USER.PID`, as the client says.
    pub login_name: String,
    pub principal: Arc<Principal>,
    pub files: OpenFiles,
    streams: Mutex<Vec<Option<Arc<BoundStream>>>>,
    /// Answers that were made by other threads.
    outbox: Mutex<Outbox>,
    /// Principals by the tokens that came with paths.
    by_token: Mutex<HashMap<String, Arc<Principal>>>,
}

/// Answers for the thread of the control connection.
#[derive(Default)]
struct Outbox {
    /// Requests whose answers are being made.
    pending: usize,
    ready: Vec<(StreamId, RootAnswer)>,
}

impl RootSession {
    pub fn new(id: SessionId, peer: IpAddr, client: ClientName, principal: Principal) -> RootSession {
        RootSession {
            id,
            peer,
            client: client.shown,
            login_name: client.login_name,
            principal: Arc::new(principal),
            files: OpenFiles::default(),
            streams: Mutex::default(),
            outbox: Mutex::default(),
            by_token: Mutex::default(),
        }
    }

    /// The rights of the session's principal.
    pub fn access(&self) -> &Access {
        &self.principal.access
    }

    /// The principal of a token that came with a path, once it is known.
    pub fn principal_of(&self, token: &str) -> Option<Arc<Principal>> {
        self.by_token.lock().get(token).cloned()
    }

    /// Notes the principal of a token.
    pub fn note_principal(&self, token: &str, principal: &Arc<Principal>) {
        let mut by_token = self.by_token.lock();
        if by_token.len() >= PRINCIPALS_MAX {
            by_token.clear();
        }
        by_token.insert(token.to_owned(), Arc::clone(principal));
    }

    /// Binds a connection; none if there are too many.
    pub fn bind(&self, make: impl FnOnce(u8) -> Arc<BoundStream>) -> Option<(u8, Arc<BoundStream>)> {
        let mut streams = self.streams.lock();
        let at = streams.iter().position(Option::is_none).unwrap_or(streams.len());
        if at >= STREAMS_MAX {
            return None;
        }
        // 0 is the control connection.
        let path_id = at as u8 + 1;
        let stream = make(path_id);
        if at == streams.len() {
            streams.push(None);
        }
        streams[at] = Some(Arc::clone(&stream));
        Some((path_id, stream))
    }

    /// A bound connection.
    pub fn stream(&self, path_id: u8) -> Option<Arc<BoundStream>> {
        let at = usize::from(path_id).checked_sub(1)?;
        self.streams.lock().get(at)?.clone()
    }

    /// Forgets a bound connection that has ended.
    pub fn unbind(&self, path_id: u8) {
        if let Some(place) =
            usize::from(path_id).checked_sub(1).and_then(|at| self.streams.lock().get_mut(at).map(std::mem::take))
        {
            drop(place);
        }
    }

    /// Ends all bound connections.
    pub fn end_streams(&self) {
        let streams = std::mem::take(&mut *self.streams.lock());
        streams.into_iter().flatten().for_each(|stream| stream.end());
    }

    /// Notes that another thread makes an answer.
    pub fn begin_answer(&self) {
        self.outbox.lock().pending += 1;
    }

    /// Notes that no other thread makes an answer after all.
    pub fn forget_answer(&self) {
        self.outbox.lock().pending -= 1;
    }

    /// Hands over the answer of another thread.
    pub fn finish_answer(&self, stream: StreamId, answer: RootAnswer) {
        let mut outbox = self.outbox.lock();
        outbox.pending -= 1;
        outbox.ready.push((stream, answer));
    }

    /// Whether other threads make answers, or have made some.
    pub fn awaits_answers(&self) -> bool {
        let outbox = self.outbox.lock();
        outbox.pending > 0 || !outbox.ready.is_empty()
    }

    /// Takes the answers that other threads have made.
    pub fn take_answers(&self) -> Vec<(StreamId, RootAnswer)> {
        std::mem::take(&mut self.outbox.lock().ready)
    }
}

/// The sessions of a node. A session lives as long as its control connection.
#[derive(Default)]
pub(super) struct RootSessions(Mutex<HashMap<SessionId, Weak<RootSession>>>);

impl RootSessions {
    /// Adds a session.
    pub fn add(&self, session: &Arc<RootSession>) {
        self.0.lock().insert(session.id, Arc::downgrade(session));
    }

    /// Removes a session.
    pub fn remove(&self, id: &SessionId) {
        self.0.lock().remove(id);
    }

    /// A session that a client at this address may bind to or end.
    pub fn get(&self, id: &SessionId, peer: IpAddr) -> Option<Arc<RootSession>> {
        let found = self.0.lock().get(id)?.upgrade();
        found.filter(|session| session.peer == peer)
    }
}
