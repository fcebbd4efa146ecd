//! The interface of sessions to their node: access control, exports, and the access log.

use model::Refusal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use auth::Access;
use model::locator::NodePlace;
use sys::waker::Waker;
use wire::frame::{KeyProof, Listed, Open, Request, Totals};
use wire::join::SessionId;

use crate::budget::Part;
use crate::control::Control;
use crate::error::Error;
use crate::history::History;
use crate::movers::ConfiguredMovers;
use crate::path_shares::PathShares;
use crate::receive::TargetPlace;
use crate::requester::Requester;
use crate::scan::SourceRoot;
use crate::seal::Secret;
use crate::stream::Joined;

/// An open session, as streams that join find it.
pub struct OpenRendezvous {
    /// The session's secret, to check the join's code.
    pub secret: Secret,
    /// Whether the session's records are sealed.
    pub sealed: bool,
    /// Receives the joined socket.
    pub joined: Sender<Joined>,
    /// Wakes the session.
    pub waker: Waker,
}

/// A part of an answer.
#[derive(Debug)]
pub enum AnswerPart {
    /// Lines of a listing.
    Lines(Vec<Listed>),
    /// Text or JSON.
    Text(String),
}

/// An event of a session, for the access log.
#[derive(Debug)]
pub enum Event<'a> {
    /// The client has logged in.
    Login {
        /// The client's program and version.
        software: &'a str,
    },
    /// The client has logged in with another key, over the connections of an earlier job.
    Renewed {
        /// The number of streams that were kept.
        streams: usize,
    },
    /// A question was answered or refused.
    Asked {
        /// The question.
        request: &'a Request,
        /// Why it was refused, if it was.
        refusal: Option<&'a Refusal>,
    },
    /// A job ended.
    Job {
        /// Its order.
        order: &'a Open,
        /// The counts of what arrived.
        totals: Totals,
        /// How long it took.
        elapsed: Duration,
        /// Why it failed.
        error: Option<&'a Error>,
    },
}

/// The node, as its sessions see it.
pub trait Host: Send + Sync {
    /// Authenticates a client by its key.
    ///
    /// # Errors
    /// The client may not log in.
    fn login(&self, key: Option<&KeyProof>, peer: SocketAddr) -> std::result::Result<Access, Refusal>;
    /// Checks that the access of a session still holds. Called before each question and job: a key may have been revoked or have expired.
    ///
    /// # Errors
    /// The access no longer holds.
    fn check_access(&self, access: &Access) -> std::result::Result<(), Refusal>;
    /// Lets streams find their session, until the returned guard is dropped.
    ///
    /// # Errors
    /// A session of this id is open already.
    fn open_rendezvous(
        &self,
        session: SessionId,
        rendezvous: OpenRendezvous,
    ) -> std::result::Result<Box<dyn Send>, Refusal>;
    /// Whether payload may go in clear.
    fn allows_plain(&self) -> bool;
    /// Further addresses at which the node takes streams: each is a path of its own.
    fn addresses(&self) -> Vec<SocketAddr>;
    /// Resolves a place to read from.
    ///
    /// # Errors
    /// The client may not read the place, or there is no such place.
    fn source(&self, access: &Access, place: &NodePlace) -> std::result::Result<SourceRoot, Refusal>;
    /// Resolves the place that a push writes to.
    ///
    /// # Errors
    /// The client may not write to the place, or there is no such place.
    fn target(&self, access: &Access, order: &Open, tag: &str) -> std::result::Result<TargetPlace, Refusal>;
    /// Answers a question, part by part; `emit` returns `false` once the client no longer listens. Streams that join the session
    /// meanwhile belong to the question.
    ///
    /// # Errors
    /// The question is refused, or its answer fails.
    fn ask(
        &self,
        requester: Requester<'_>,
        request: &Request,
        emit: &mut dyn FnMut(AnswerPart) -> bool,
    ) -> std::result::Result<(), Refusal>;
    /// Begins a job; it is over when the returned guard is dropped. An earlier attempt at the same job is ended first.
    ///
    /// # Errors
    /// The node refuses the job.
    fn begin(&self, access: &Access, order: &Open, control: &Control) -> std::result::Result<Box<dyn Send>, Refusal>;
    /// The part of the memory budget for this client: it holds the lists of files that arrive before a job begins.
    fn memory(&self, access: &Access) -> Part;
    /// The shares of paths among the jobs of this node.
    fn path_shares(&self) -> Option<PathShares>;
    /// The movers of this node.
    fn movers(&self) -> Option<Arc<ConfiguredMovers>>;
    /// What earlier jobs have measured of paths.
    fn history(&self) -> Option<History>;
    /// Writes an event to the access log.
    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>);
}
