//! Copies between ends that this process opens itself: local paths, remote stores, standard output. They go through a loopback
//! node that lives as long as the copy, so that they are verified, resumed and reported like any other.

use auth::Rights;
use engine::Timeouts;
use engine::scan::SourceRoot;
use model::fault::Exit;
use model::locator::NodePlace;
use model::{HostPort, Locator};
use node::{Export, Node};

use super::job::{CopyJob, is_on_remote_server};
use super::peer::Peer;
use crate::failure::Failure;
use crate::loopback_node;
use crate::remote_stores;

/// A copy to a local path or a remote store, through a loopback node that has the target.
pub(super) fn to_target(job: &CopyJob<'_>) -> Result<Exit, Failure> {
    let target = remote_stores::target(job.target, job.settings)?;
    job.note_remote_store(job.target, &target.store);
    let export = match target.root {
        Some(dir) => Some(Export::here("here", dir, true)),
        None if is_on_remote_server(job.target) => {
            let dir = job.target.to_string();
            Some(Export { remote_store: Some(target.store), ..Export::here("here", dir, true) })
        }
        None => None,
    };
    let place = match job.target {
        Locator::Null => NodePlace::Null,
        _ => NodePlace::Path { export: "here".into(), path: target.path },
    };
    with_loopback_node(job, export, Rights::Write, |peer| job.push(peer, place))
}

/// A copy from a remote store to standard output, through a loopback node that has the source.
pub(super) fn to_standard_output(job: &CopyJob<'_>) -> Result<Exit, Failure> {
    let SourceRoot { store, path, .. } = job.roots()?.remove(0);
    let dir = job.sources[0].to_string();
    let export = Export { remote_store: Some(store), ..Export::here("here", dir, false) };
    let places = vec![NodePlace::Path { export: "here".into(), path }];
    with_loopback_node(job, Some(export), Rights::Read, |peer| job.pull(peer, places))
}

/// Runs a copy with a loopback node, which is stopped when the copy has ended.
fn with_loopback_node(
    job: &CopyJob<'_>,
    export: Option<Export>,
    rights: Rights,
    copy: impl FnOnce(&Peer) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    // Other users of this host can reach the port as well. The node admits only the holder of the key, and the key never leaves
    // this process.
    let (config, key) = loopback_node::prepare(job.settings, ([127, 0, 0, 1], 0).into(), "here", export, rights)?;
    let node = Node::bind(config)?;
    let address = node.address().map_err(node::NodeError::Host)?;
    let at = HostPort { host: address.ip().to_string(), port: address.port() };
    std::thread::scope(|scope| {
        let stopper = node.stopper();
        scope.spawn(|| node.run());
        let result = copy(&Peer::Loopback(at, key));
        stopper.stop();
        // The node removes the unfinished files of an interrupted job. This process must not end before that.
        node.wait_idle(Timeouts::default().handshake);
        result
    })
}
