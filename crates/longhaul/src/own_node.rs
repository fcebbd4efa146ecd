//! A node that lives for one copy: a local one's own, and the far end of ssh. Nobody gets in without its only key, which
//! dies with it.

use std::net::SocketAddr;

use auth::{AccessKey, Grant, Grants, Rights};
use model::RelPath;
use node::{Export, NodeConfig};

use crate::failure::Failure;
use crate::random::random;
use crate::settings::Settings;

/// What it is to offer, and the key to it: for the export of this name, with these rights.
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
