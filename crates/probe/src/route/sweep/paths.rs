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
pub fn group(stats: &[FlowStats]) -> Vec<Group> {
    // The flows with the most known hops are first, and make the groups.
    let mut order: Vec<usize> = (0..stats.len()).collect();
    order.sort_by_key(|flow| std::cmp::Reverse(stats[*flow].hops.iter().filter(|hop| !hop.is_empty()).count()));
    let mut groups: Vec<Group> = Vec::new();
    for flow in order {
        let one = &stats[flow];
        let shared = |(index, group): (usize, &Group)| Some((group.shared_hops(one)?, std::cmp::Reverse(index)));
        match groups.iter().enumerate().filter_map(shared).max() {
            Some((_, std::cmp::Reverse(index))) => groups[index].add(flow, one),
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
    fn shared_hops(&self, flow: &FlowStats) -> Option<usize> {
        if self.is_reached && flow.is_reached && self.hops.len() != flow.hops.len() {
            return None;
        }
        // A flow of the same path cannot have hops after the target.
        let is_longer = flow.hops.len() > self.hops.len();
        let is_shorter = flow.hops.len() < self.hops.len();
        if (self.is_reached && is_longer) || (flow.is_reached && is_shorter) {
            return None;
        }
        let mut shared = 0;
        for (of_group, of_flow) in self.hops.iter().zip(&flow.hops) {
            if of_group.is_empty() || of_flow.is_empty() {
                continue;
            }
            of_flow.iter().any(|address| of_group.contains(address)).then_some(())?;
            shared += 1;
        }
        Some(shared)
    }

    fn add(&mut self, index: usize, flow: &FlowStats) {
        self.flows.push(index);
        self.is_reached |= flow.is_reached;
        if self.hops.len() < flow.hops.len() {
            self.hops.resize(flow.hops.len(), BTreeSet::new());
        }
        for (of_group, of_flow) in self.hops.iter_mut().zip(&flow.hops) {
            of_group.extend(of_flow.iter().cloned());
        }
    }
}
