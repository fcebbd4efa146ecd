//! A node for one copy: the loopback node of a local copy, or the far end of a copy over ssh. It has one access key, which is
//! valid as long as the node runs, and admits no other client.

use std::net::SocketAddr;

use auth::{AccessKey, Grant, Grants, Rights};
use model::RelPath;
use node::{Export, NodeConfig};

use crate::failure::Failure;
use crate::random::random;
use crate::settings::Settings;

/// The node's configuration, and an access key to the export `name` with these rights.
///
/// # Errors
/// There is no state directory, or the system gives no random numbers.
pub fn prepare(
    settings: &Settings,
    listen: SocketAddr,
    name: &str,
    export: Option<Export>,
    rights: Rights,
) -> Result<(NodeConfig, AccessKey), Failure> {
    let state = settings.state()?;
    let id = random()?;
    let secret = random()?;
    let key = AccessKey::new(id, secret, state.fingerprint()?);
    let grant = Grant::new(id, &secret, name.into(), &RelPath::root(), rights, i64::MAX);
    let config = NodeConfig {
        exports: export.into_iter().collect(),
        grants: Grants { list: vec![grant] },
        plain: true,
        serves_one_copy: true,
        ..NodeConfig::new(listen, state)
    };
    Ok((config, key))
}
