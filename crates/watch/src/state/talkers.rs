//! The addresses with the most traffic through the nodes, as each node reports them.

use std::collections::BTreeMap;

use model::v1::flows::{Flows, Host, Window};
use model::v1::watch::{NodeTraffic, Talker, Talkers};

use super::Watch;
use crate::time;

/// How long the report of a node is shown, milliseconds.
const SHOWN_MS: i64 = 600_000;

/// The last flows that a node reported, and when.
#[derive(Clone, Debug)]
pub(super) struct NodeFlows {
    at: i64,
    flows: Flows,
}

impl Watch {
    /// Takes the flows that a node reports.
    pub fn take_flows(&self, node: &str, flows: Flows) {
        self.talkers.lock().insert(node.to_owned(), NodeFlows { at: time::now(), flows });
    }

    /// The addresses with the most traffic through all nodes, in a window of the nodes (`minute`, `hour`, `start`), at most `top`.
    pub fn talkers(&self, window: &str, top: usize) -> Talkers {
        let now = time::now();
        let reports = self.talkers.lock();
        let fresh = reports.iter().filter(|(_, report)| now - report.at <= SHOWN_MS);
        let windows: Vec<(&String, &Window)> = fresh
            .filter_map(|(node, report)| {
                Some((node, report.flows.windows.iter().find(|found| found.window == window)?))
            })
            .collect();
        let mut nodes = Vec::new();
        let mut by_address: BTreeMap<&str, Talker> = BTreeMap::new();
        for (node, window) in &windows {
            let all = window.all.unwrap_or_default();
            nodes.push(NodeTraffic {
                node: (*node).clone(),
                seconds: window.seconds,
                bytes_in: all.bytes_in,
                bytes_out: all.bytes_out,
            });
            let rows = window.sources.iter().map(|host| (host, true));
            for (host, is_source) in rows.chain(window.targets.iter().map(|host| (host, false))) {
                add(by_address.entry(&host.address).or_default(), node, host, is_source);
            }
        }
        let mut talkers: Vec<Talker> =
            by_address.into_iter().map(|(address, talker)| Talker { address: address.to_owned(), ..talker }).collect();
        talkers.sort_by_key(|talker| std::cmp::Reverse(talker.rate_bit_s));
        talkers.truncate(top);
        Talkers { at: time::show(now), window: window.to_owned(), talkers, nodes }
    }
}

/// Adds a row about an address.
fn add(talker: &mut Talker, node: &str, host: &Host, is_source: bool) {
    talker.rate_bit_s += host.rate_bit_s;
    if is_source {
        talker.bytes_sent += host.bytes;
    } else {
        talker.bytes_received += host.bytes;
    }
    if talker.nodes.last().is_none_or(|last| last != node) {
        talker.nodes.push(node.to_owned());
    }
}
