//! A loopback node that lives for one copy: of a local copy, or as the far end of ssh. It has one access key, which dies
//! with it; no other client gets in.

use std::net::SocketAddr;

use auth::{AccessKey, Grant, Grants, Rights};
use model::RelPath;
use node::{Export, NodeConfig};

use crate::failure::Failure;
use crate::random::random;
use crate::settings::Settings;

/// The node's configuration, and its access key: for the export of this name, with these rights.
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
    let (id, secret) = (random()?, random()?);
    let key = AccessKey::new(id, secret, state.fingerprint()?);
    let grant = Grant::new(id, &secret, name.into(), &RelPath::root(), rights, i64::MAX);
    let config = NodeConfig {
        exports: export.into_iter().collect(),
        grants: Grants { list: vec![grant] },
        plain: true,
        own_guests: true,
        ..NodeConfig::new(listen, state)
    };
    Ok((config, key))
}
