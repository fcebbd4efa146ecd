//! Whether the payload was encrypted on each leg of a copy: between this host and a node, and between this host and remote
//! servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Locator, v1};
use store::{PayloadProtection, Store};

use super::job::{CopyJob, is_on_remote_server, is_opened_here};
use super::peer::Peer;
use crate::remote_stores::mirrors::Mirrors;

/// The name of this host as the end of a leg.
const HERE: &str = "here";

fn word(protection: PayloadProtection) -> String {
    match protection {
        PayloadProtection::Tls => "tls",
        PayloadProtection::Plain => "plain",
    }
    .to_owned()
}

impl CopyJob<'_> {
    /// Remembers a remote store that was opened: after the copy it says whether its payload was encrypted.
    pub(super) fn note_remote_store(&self, locator: &Locator, store: &Arc<dyn Store>) {
        if is_on_remote_server(locator) {
            let mut remote_stores = self.remote_stores.lock();
            remote_stores.push((locator.to_string(), Arc::clone(store)));
        }
    }

    /// All legs of the copy. `native` is the leg to or from the node. The leg to the loopback node is listed only where there is no
    /// other, as `local`.
    pub(super) fn legs(&self, peer: &Peer, native: Vec<v1::Carried>) -> Vec<v1::Carried> {
        let remote_stores = self.remote_stores.lock();
        // Each attempt opens the stores again. The least protected of all attempts counts.
        let mut by_name: BTreeMap<String, PayloadProtection> = BTreeMap::new();
        let opened = remote_stores.iter().filter_map(|(name, store)| Some((name.clone(), store.payload_protection()?)));
        for (name, protection) in opened.chain(self.mirrors.iter().flat_map(Mirrors::payload_protection)) {
            let worst = by_name.entry(name).or_insert(protection);
            *worst = protection.max(*worst);
        }
        let target = self.target.to_string();
        let remote = by_name.into_iter().map(|(name, protection)| {
            let payload = word(protection);
            if name == target {
                v1::Carried { from: HERE.into(), to: name, payload }
            } else {
                v1::Carried { from: name, to: HERE.into(), payload }
            }
        });
        let mut legs: Vec<v1::Carried> = remote.collect();
        if matches!(peer, Peer::Loopback(..)) {
            if legs.is_empty() && !native.is_empty() {
                legs.push(v1::Carried { from: HERE.into(), to: HERE.into(), payload: "local".into() });
            }
        } else {
            legs.extend(native.into_iter().map(|leg| v1::Carried {
                from: if self.sources.iter().all(is_opened_here) { HERE.into() } else { leg.from },
                to: if is_opened_here(self.target) { HERE.into() } else { leg.to },
                ..leg
            }));
        }
        legs
    }
}
