//! XRootD's protocol (`root://`) on the node's port, for clients such as xrdcp, and on a port of its own if that is wished. A connection
//! logs in, opens files and reads or writes them; policy, audit log, limits and metrics are those of HTTP.
//!
//! What this module does not know: the form of messages and their order (`xroot`), who may do what (`authorization`).

mod announced;
mod attributes;
mod bound;
mod checksum;
mod connection;
mod data;
mod failure;
mod files;
mod listing;
mod log;
mod login;
mod metadata;
mod mover_redirects;
mod native_pull;
mod opening;
mod prepare;
mod pulled_file;
mod pulling;
mod query;
mod reading;
mod resolved;
mod session;
mod streams;
mod writing;
mod written_file;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serve::{Idle, Incoming};

use self::announced::AnnouncedCopies;
use self::connection::RootConnection;
use self::files::ParkedFiles;
use self::mover_redirects::MoverRedirects;
use self::pulled_file::RunningCopies;
use self::session::RootSessions;
use crate::dialling::Dialling;
use crate::fireflies::Fireflies;
use crate::services::Services;

/// How long a connection is kept without a request. Clients close theirs after five minutes.
const IDLE_FOR: Duration = Duration::from_secs(1800);
/// How long a connection keeps its thread after a request: clients send the next one at once, or not for a while.
const LINGER: Duration = Duration::from_millis(500);
/// The longest wait for the next bytes of a message that has begun.
const SILENCE: Duration = Duration::from_secs(60);

/// The service of XRootD's protocol.
pub(crate) struct RootService {
    services: Arc<Services>,
    fireflies: Arc<ArcSwap<Fireflies>>,
    /// How the sources of third-party copies are dialled.
    dialling: Arc<ArcSwap<Dialling>>,
    sessions: RootSessions,
    /// Files that are open for writing, by export and path: others need to insist to write them too.
    writers: Mutex<HashSet<(String, Vec<u8>)>>,
    /// Files of connections that broke.
    parked: ParkedFiles,
    /// Third-party copies from this node that clients have announced.
    announced: AnnouncedCopies,
    /// Third-party copies to this node.
    copies: RunningCopies,
    mover_redirects: MoverRedirects,
}

impl RootService {
    /// The service over a node's services.
    pub fn new(
        services: Arc<Services>,
        fireflies: Arc<ArcSwap<Fireflies>>,
        dialling: Arc<ArcSwap<Dialling>>,
    ) -> Arc<RootService> {
        Arc::new(RootService {
            services,
            fireflies,
            dialling,
            sessions: RootSessions::default(),
            writers: Mutex::default(),
            parked: ParkedFiles::default(),
            announced: AnnouncedCopies::default(),
            copies: RunningCopies::default(),
            mover_redirects: MoverRedirects::default(),
        })
    }

    /// Serves a new connection until it is idle; none when it has ended.
    pub fn serve(self: &Arc<RootService>, incoming: Incoming) -> Option<Box<dyn Idle>> {
        let peer = incoming.peer;
        match RootConnection::begin(Arc::clone(self), incoming) {
            Ok(connection) => Box::new(connection).serve(),
            Err(error) => {
                tracing::info!(target: "access", %peer, by = "root", outcome = "failed", %error);
                None
            }
        }
    }

    /// Discards files of broken connections whose clients have not come back.
    pub fn tick(&self) {
        self.parked.expire();
    }
}
