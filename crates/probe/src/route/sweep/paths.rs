//! Flows by the hops that they pass. Pure.

use std::collections::BTreeSet;

use super::Known;

/// A way, and the flows that take it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// By their places.
    pub flows: Vec<usize>,
    /// All addresses that were seen at each hop.
    pub hops: Vec<BTreeSet<String>>,
    /// They end at the target.
    is_reached: bool,
}

/// Groups flows; the group with most of them first. A hop where nobody answered contradicts nothing: such a flow is
/// counted to the group with which it shares most.
pub fn group(known: &[Known]) -> Vec<Group> {
    // Those of which most is known come first, and make the groups.
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
    /// Hops that it shares with a flow; none if they contradict each other.
    fn likeness(&self, flow: &Known) -> Option<usize> {
        if self.is_reached && flow.is_reached && self.hops.len() != flow.hops.len() {
            return None;
        }
        // A flow cannot go on behind another one's target.
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

    fn add(&mut self, place: usize, flow: &Known) {
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
