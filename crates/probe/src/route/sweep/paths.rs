//! Groups flows by their hops. Pure.

use std::collections::BTreeSet;

use super::FlowStats;

/// A path, and the flows that take it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Indexes of the flows.
    pub flows: Vec<usize>,
    /// All addresses that were seen at each hop.
    pub hops: Vec<BTreeSet<String>>,
    /// The path ends at the target.
    is_reached: bool,
}

/// Groups flows, the largest group first. A silent hop contradicts no group: a flow with silent hops belongs to the group with
/// which it shares most hops.
pub fn group(known: &[FlowStats]) -> Vec<Group> {
    // Flows with most known hops come first, and make the groups.
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by_key(|flow| std::cmp::Reverse(known[*flow].hops.iter().filter(|hop| !hop.is_empty()).count()));
    let mut groups: Vec<Group> = Vec::new();
    for flow in order {
        let one = &known[flow];
        let like = |(place, group): (usize, &Group)| Some((group.likeness(one)?, std::cmp::Reverse(place)));
        match groups.iter().enumerate().filter_map(like).max() {
            Some((_, std::cmp::Reverse(place))) => groups[place].add(flow, one),
            None => {
                let mut group = Group::default();
                group.add(flow, one);
                groups.push(group);
            }
        }
    }
    groups.iter_mut().for_each(|group| group.flows.sort_unstable());
    groups.sort_by_key(|group| (std::cmp::Reverse(group.flows.len()), group.flows.first().copied()));
    groups
}

impl Group {
    /// Number of hops shared with a flow; none if group and flow contradict each other.
    fn likeness(&self, flow: &FlowStats) -> Option<usize> {
        if self.is_reached && flow.is_reached && self.hops.len() != flow.hops.len() {
            return None;
        }
        // A flow of the same path cannot have hops after the target.
        let (is_longer, is_shorter) = (flow.hops.len() > self.hops.len(), flow.hops.len() < self.hops.len());
        if (self.is_reached && is_longer) || (flow.is_reached && is_shorter) {
            return None;
        }
        let mut shared = 0;
        for (own, its) in self.hops.iter().zip(&flow.hops) {
            if own.is_empty() || its.is_empty() {
                continue;
            }
            its.iter().any(|address| own.contains(address)).then_some(())?;
            shared += 1;
        }
        Some(shared)
    }

    fn add(&mut self, place: usize, flow: &FlowStats) {
        self.flows.push(place);
        self.is_reached |= flow.is_reached;
        if self.hops.len() < flow.hops.len() {
            self.hops.resize(flow.hops.len(), BTreeSet::new());
        }
        for (own, its) in self.hops.iter_mut().zip(&flow.hops) {
            own.extend(its.iter().cloned());
        }
    }
}
