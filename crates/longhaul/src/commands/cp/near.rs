//! Copies between ends that this process reaches by itself: paths here, places on other people's servers, standard output. They
//! go by a node that lives as long as the copy, so that they are verified, resumed and reported like any other.

use auth::Rights;
use engine::Timeouts;
use engine::scan::SourceRoot;
use model::fault::Exit;
use model::locator::Place;
use model::{HostPort, Locator};
use node::{Export, Node};

use super::job::{Job, is_foreign};
use super::peer::Peer;
use crate::failure::Failure;
use crate::own_node;
use crate::remote_stores;

/// From here to here: by a node of our own that lives as long as the job, so that a local copy is verified, resumed
/// and reported like any other.
pub(super) fn within(job: &Job<'_>) -> Result<Exit, Failure> {
    let there = remote_stores::target(job.target, job.settings)?;
    job.meets(job.target, &there.store);
    let export = match there.root {
        Some(dir) => Some(Export::here("here", dir, true)),
        None if is_foreign(job.target) => {
            let dir = job.target.to_string();
            Some(Export { abroad: Some(there.store), ..Export::here("here", dir, true) })
        }
        None => None,
    };
    let place = match job.target {
        Locator::Null => Place::Null,
        _ => Place::Path { export: "here".into(), path: there.path },
    };
    by_own_node(job, export, Rights::Write, |peer| job.push(peer, place))
}

/// From somebody else's server to standard output: the own node has the source.
pub(super) fn outwards(job: &Job<'_>) -> Result<Exit, Failure> {
    let SourceRoot { store, path, .. } = job.roots()?.remove(0);
    let dir = job.sources[0].to_string();
    let export = Export { abroad: Some(store), ..Export::here("here", dir, false) };
    let places = vec![Place::Path { export: "here".into(), path }];
    by_own_node(job, Some(export), Rights::Read, |peer| job.pull(peer, places))
}

/// A node of our own for as long as a copy takes.
fn by_own_node(
    job: &Job<'_>,
    export: Option<Export>,
    rights: Rights,
    copy: impl FnOnce(&Peer) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    // Others on this host can reach the port as well: only who holds this key, which never leaves the process, gets in.
    let (config, own) = own_node::prepare(job.settings, ([127, 0, 0, 1], 0).into(), "here", export, rights)?;
    let node = Node::bind(config)?;
    let address = node.address().map_err(node::NodeError::Host)?;
    let at = HostPort { host: address.ip().to_string(), port: address.port() };
    std::thread::scope(|scope| {
        let stopper = node.stopper();
        scope.spawn(|| node.run());
        let result = copy(&Peer::Own(at, own));
        stopper.stop();
        // An interrupted job's unfinished files are put in order by the node's side, which must not end with this process.
        node.wait_idle(Timeouts::default().handshake);
        result
    })
}
