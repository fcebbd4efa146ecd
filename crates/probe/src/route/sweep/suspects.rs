//! Flows that lose more than the others, or take longer, and the hop that only they pass. Pure.

use std::collections::BTreeSet;

use model::v1::probe::route::{Suspect, SuspectBy};

use super::FlowStats;
use super::odds::{chance, choose};
use super::paths::Group;

/// The significance level: chance alone makes a suspect in fewer than one sweep of a hundred.
const CHANCE_MAX: f64 = 0.01;
/// A longer path is longer by at least this time, and by this share: a smaller difference is jitter of the hosts.
const LONGER_S_MIN: f64 = 0.001;
const LONGER_SHARE: f64 = 0.05;

/// A set of flows, by their indexes.
type Flows = BTreeSet<usize>;

/// The flows that pass each address of a hop, for hops that differ; nearest hop first.
fn by_address(stats: &[FlowStats], among: &Flows) -> Vec<(u8, String, Flows)> {
    let mut all: Vec<(u8, String, Flows)> = Vec::new();
    for flow in among {
        for (hop, ttl) in stats[*flow].hops.iter().zip(1..) {
            for address in hop {
                match all.iter_mut().find(|(its, other, _)| *its == ttl && other == address) {
                    Some((.., flows)) => drop(flows.insert(*flow)),
                    None => all.push((ttl, address.clone(), Flows::from([*flow]))),
                }
            }
        }
    }
    all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    all.retain(|(.., flows)| flows.len() < among.len());
    all
}

/// The first hop that all of some flows pass, and none of the others.
fn own_hop(stats: &[FlowStats], flows: &Flows, among: &Flows) -> Option<(u8, String)> {
    let mut all = by_address(stats, among).into_iter();
    all.find(|(.., its)| its == flows).map(|(ttl, address, _)| (ttl, address))
}

/// Probes sent by some flows, and lost ones.
fn losses(stats: &[FlowStats], flows: &Flows) -> (u32, u32) {
    let its = || flows.iter().map(|flow| &stats[*flow]);
    let sent = its().map(|one| one.sent).sum();
    (sent, its().map(|one| one.sent - one.answered.min(one.sent)).sum())
}

/// Lost probes of some flows that did not reach the far end.
fn lost_forward(stats: &[FlowStats], flows: &Flows) -> u32 {
    flows.iter().map(|flow| stats[*flow].lost_forward).sum()
}

/// The two, three, up to half of all flows that lose most: a member of a bundle has no address of its own.
fn worst(stats: &[FlowStats], among: &Flows) -> Vec<Flows> {
    let share = |flow: &usize| {
        f64::from(stats[*flow].sent - stats[*flow].answered.min(stats[*flow].sent))
            / f64::from(stats[*flow].sent.max(1))
    };
    let mut flows: Vec<usize> = among.iter().copied().collect();
    flows.sort_by(|a, b| share(b).total_cmp(&share(a)));
    (2..=flows.len() / 2).map(|count| flows[..count].iter().copied().collect()).collect()
}

/// Sets of flows that lose more than the rest, the most certain first: those behind one address, those of one path, each flow by
/// itself, and the worst flows together. After one set is found, the remaining flows are examined again without it.
pub fn by_loss(stats: &[FlowStats], groups: &[Group]) -> Vec<Suspect> {
    let mut among: Flows = (0..stats.len()).collect();
    let mut found = Vec::new();
    while among.len() > 1 {
        let mut sets: Vec<Flows> = by_address(stats, &among).into_iter().map(|(.., flows)| flows).collect();
        sets.extend(
            groups.iter().map(|group| group.flows.iter().copied().filter(|flow| among.contains(flow)).collect()),
        );
        sets.extend(among.iter().map(|flow| Flows::from([*flow])));
        sets.retain(|set| !set.is_empty() && set.len() < among.len());
        let mut seen = BTreeSet::new();
        sets.retain(|set| seen.insert(set.clone()));
        let (all_sent, all_lost) = losses(stats, &among);
        let compared = sets.len() as f64;
        // A set that was chosen by its losses competes with all possible sets of its size.
        let worst = worst(stats, &among)
            .into_iter()
            .map(|set| (choose(among.len() as u64, set.len() as u64) * among.len() as f64, set));
        let sets = sets.into_iter().map(|set| (compared, set)).chain(worst);
        let judged = sets.map(|(compared, set)| {
            let (sent, lost) = losses(stats, &set);
            let by_chance = chance(sent.into(), lost.into(), all_sent.into(), all_lost.into());
            (by_chance * compared, set)
        });
        // Of equals, the larger set.
        let most_certain = judged.min_by(|(a, one), (b, other)| a.total_cmp(b).then(other.len().cmp(&one.len())));
        let Some((by_chance, set)) = most_certain.filter(|(by_chance, _)| *by_chance < CHANCE_MAX) else { break };
        let (sent, lost) = losses(stats, &set);
        let mut suspect = Suspect {
            by: SuspectBy::Loss,
            ports: ports(stats, &set),
            sent,
            lost,
            lost_forward: lost_forward(stats, &set),
            others_sent: all_sent - sent,
            others_lost: all_lost - lost,
            chance: Some(by_chance),
            longer_s: None,
            hop: None,
            address: None,
            text: String::new(),
        };
        describe(&mut suspect, own_hop(stats, &set, &among));
        found.push(suspect);
        among.retain(|flow| !set.contains(flow));
    }
    found
}

/// The ports of a set, in ascending order.
fn ports(stats: &[FlowStats], set: &Flows) -> Vec<u16> {
    let mut ports: Vec<u16> = set.iter().map(|flow| stats[*flow].port).collect();
    ports.sort_unstable();
    ports
}

/// The flows whose least round trip is well above the least of all.
pub fn by_delay(stats: &[FlowStats]) -> Vec<Suspect> {
    let all: Flows = (0..stats.len()).collect();
    let Some(least) = stats.iter().filter_map(|one| one.rtt_min_s).reduce(f64::min) else { return Vec::new() };
    let bound = least + LONGER_S_MIN.max(least * LONGER_SHARE);
    let is_longer = |flow: &usize| stats[*flow].rtt_min_s.is_some_and(|rtt| rtt > bound);
    let set: Flows = all.iter().copied().filter(is_longer).collect();
    let Some(rtt) = set.iter().filter_map(|flow| stats[*flow].rtt_min_s).reduce(f64::min) else { return Vec::new() };
    let rest: Flows = all.difference(&set).copied().collect();
    let ((sent, lost), (others_sent, others_lost)) = (losses(stats, &set), losses(stats, &rest));
    let mut suspect = Suspect {
        by: SuspectBy::Delay,
        ports: ports(stats, &set),
        sent,
        lost,
        lost_forward: lost_forward(stats, &set),
        others_sent,
        others_lost,
        chance: None,
        longer_s: Some(rtt - least),
        hop: None,
        address: None,
        text: String::new(),
    };
    describe(&mut suspect, own_hop(stats, &set, &all));
    vec![suspect]
}

/// Sets the hop of a suspect, and its description in words.
fn describe(suspect: &mut Suspect, hop: Option<(u8, String)>) {
    let percent = |lost: u32, sent: u32| 100.0 * f64::from(lost) / f64::from(sent.max(1));
    let ports: Vec<String> = suspect.ports.iter().map(u16::to_string).collect();
    let what = match suspect.by {
        SuspectBy::Loss => format!(
            "lose {:.2} % ({} of {}, {} of them forward), the others {:.2} % ({} of {})",
            percent(suspect.lost, suspect.sent),
            suspect.lost,
            suspect.sent,
            suspect.lost_forward,
            percent(suspect.others_lost, suspect.others_sent),
            suspect.others_lost,
            suspect.others_sent
        ),
        SuspectBy::Delay => {
            format!("take at least {:.1} ms longer than the fastest", suspect.longer_s.unwrap_or(0.0) * 1e3)
        }
    };
    let place = match &hop {
        Some((ttl, address)) => format!("only they pass {address} (hop {ttl})"),
        None => "no visible hop belongs only to them: look for a member of a bundle of links".to_owned(),
    };
    suspect.text = format!("flows from ports {} {what}; {place}", ports.join(", "));
    (suspect.hop, suspect.address) = hop.unzip();
}
