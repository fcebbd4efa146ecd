//! The node around its sessions: who may come, where exports lie, who hears of what happened.

use model::Refusal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use auth::Access;
use model::locator::Place;
use sys::waker::Waker;
use wire::frame::{KeyProof, Listed, Open, Request, Totals};
use wire::join::SessionId;

use crate::asker::Asker;
use crate::budget::Part;
use crate::control::Control;
use crate::error::Error;
use crate::history::History;
use crate::movers::Peers;
use crate::path_shares::PathShares;
use crate::receive::TargetPlace;
use crate::scan::SourceRoot;
use crate::seal::Secret;
use crate::stream::Joined;

/// How a stream that wants to join finds its session.
pub struct Gate {
    /// The session's secret, to check the join's code.
    pub secret: Secret,
    /// Whether the session's records are sealed.
    pub sealed: bool,
    /// Where the joined socket goes.
    pub joined: Sender<Joined>,
    /// Wakes the session.
    pub waker: Waker,
}

/// A piece of an answer.
#[derive(Debug)]
pub enum Said {
    /// Lines of a listing.
    Lines(Vec<Listed>),
    /// Words or JSON.
    Text(String),
}

/// What a session did, for the access log.
#[derive(Debug)]
pub enum Event<'a> {
    /// Let in.
    Login {
        /// Its program.
        software: &'a str,
    },
    /// Let in anew, over the connections of an earlier job.
    Renewed {
        /// Streams that stayed.
        streams: usize,
    },
    /// A question was answered, or not.
    Asked {
        /// The question.
        request: &'a Request,
        /// The answer.
        refusal: Option<&'a Refusal>,
    },
    /// A job ended.
    Job {
        /// Its order.
        order: &'a Open,
        /// What arrived.
        totals: Totals,
        /// How long it took.
        elapsed: Duration,
        /// Why it failed.
        error: Option<&'a Error>,
    },
}

/// The node around its sessions.
pub trait Host: Send + Sync {
    /// Who this is, or why not.
    fn login(&self, key: Option<&KeyProof>, peer: SocketAddr) -> std::result::Result<Access, Refusal>;
    /// Whether an access that a session was opened with still stands, asked before everything that begins: a key may have been
    /// revoked, or have ended.
    fn still_stands(&self, access: &Access) -> std::result::Result<(), Refusal>;
    /// Opens the gate for the session's streams; it closes when the returned guard is dropped.
    fn open_gate(&self, session: SessionId, gate: Gate) -> std::result::Result<Box<dyn Send>, Refusal>;
    /// Whether payload may go in clear.
    fn allows_plain(&self) -> bool;
    /// Where streams are taken besides: each is a path of its own.
    fn addresses(&self) -> Vec<SocketAddr>;
    /// A place to read from.
    fn source(&self, access: &Access, place: &Place) -> std::result::Result<SourceRoot, Refusal>;
    /// The place that a push writes to.
    fn target(&self, access: &Access, order: &Open, tag: &str) -> std::result::Result<TargetPlace, Refusal>;
    /// Answers a question, line by line; `emit` returns `false` when nobody listens any more. Streams that join the
    /// session meanwhile belong to the question.
    fn ask(
        &self,
        asker: Asker<'_>,
        request: &Request,
        emit: &mut dyn FnMut(Said) -> bool,
    ) -> std::result::Result<(), Refusal>;
    /// A job begins; it is over when the returned guard is dropped. An earlier attempt at the same job ends first.
    fn begin(&self, access: &Access, order: &Open, control: &Control) -> std::result::Result<Box<dyn Send>, Refusal>;
    /// What the node keeps in memory for whoever has this access: lists of files that come before a job begins.
    fn memory(&self, access: &Access) -> Part;
    /// The jobs of this node, which share paths.
    fn path_shares(&self) -> Option<PathShares>;
    /// Who may carry streams of jobs beside this node.
    fn movers(&self) -> Option<Arc<Peers>>;
    /// What earlier jobs found out about paths.
    fn history(&self) -> Option<History>;
    /// Something worth a line in the access log.
    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>);
}
