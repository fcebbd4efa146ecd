//! How payload crossed each leg of its way: between this host and a node, and between this host and other people's servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Locator, v1};
use store::{Carried, Store};

use super::job::{Job, is_foreign};
use super::peer::Peer;
use crate::remote_stores::mirrors::Mirrors;

/// What this host is called as the end of a leg.
const HERE: &str = "here";

fn word(carried: Carried) -> String {
    match carried {
        Carried::Tls => "tls",
        Carried::Plain => "plain",
    }
    .to_owned()
}

impl Job<'_> {
    /// An end is opened: what it says of its bytes is asked for when the copy is over.
    pub(super) fn meets(&self, locator: &Locator, store: &Arc<dyn Store>) {
        if is_foreign(locator) {
            let mut servers = self.servers.lock();
            servers.push((locator.to_string(), Arc::clone(store)));
        }
    }

    /// All legs. The one to or from a node is known; within this host there is none.
    pub(super) fn legs(&self, peer: &Peer, native: Vec<v1::Carried>) -> Vec<v1::Carried> {
        let servers = self.servers.lock();
        // An attempt opens its ends anew: of all of them the worst counts.
        let mut by_name: BTreeMap<String, Carried> = BTreeMap::new();
        let opened = servers.iter().filter_map(|(name, store)| Some((name.clone(), store.carried()?)));
        for (name, carried) in opened.chain(self.mirrors.iter().flat_map(Mirrors::carried)) {
            let worst = by_name.entry(name).or_insert(carried);
            *worst = carried.max(*worst);
        }
        let target = self.target.to_string();
        let foreign = by_name.into_iter().map(|(name, carried)| match name == target {
            true => v1::Carried { from: HERE.into(), to: name, payload: word(carried) },
            false => v1::Carried { from: name, to: HERE.into(), payload: word(carried) },
        });
        let mut legs: Vec<v1::Carried> = foreign.collect();
        if matches!(peer, Peer::Own(..)) {
            if legs.is_empty() && !native.is_empty() {
                legs.push(v1::Carried { from: HERE.into(), to: HERE.into(), payload: "local".into() });
            }
        } else {
            let is_near = |locator: &Locator| !matches!(locator, Locator::Node { .. } | Locator::Ssh { .. });
            legs.extend(native.into_iter().map(|leg| v1::Carried {
                from: if self.sources.iter().all(is_near) { HERE.into() } else { leg.from },
                to: if is_near(self.target) { HERE.into() } else { leg.to },
                ..leg
            }));
        }
        legs
    }
}
