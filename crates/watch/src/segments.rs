//! Where the trouble is: boolean tomography over the mesh.
//!
//! A directed path crosses directed segments: out of its site, what is known to lie between, into the other site. A segment on a path that is well is
//! not to blame; of those that are left, the one that explains most bad paths is, then the next one for what it does not explain (greedy set cover),
//! so that two faults are named in turn. Where nothing tells segments of one path apart, the network is to blame, and no more is claimed.

use std::collections::{BTreeMap, BTreeSet};

/// A directed path of which it is known how it fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its segments, in the order in which packets pass them.
    pub segments: Vec<String>,
    /// Something is wrong with it.
    pub is_bad: bool,
}

/// What is said where nothing closer is known.
pub const NETWORK: &str = "network";

/// The segment to blame for each bad path, in the order of the paths; none for good ones.
pub fn blame(crossings: &[Crossing]) -> Vec<Option<String>> {
    let good: BTreeSet<&String> =
        crossings.iter().filter(|path| !path.is_bad).flat_map(|path| &path.segments).collect();
    let mut suspects: BTreeMap<&String, BTreeSet<usize>> = BTreeMap::new();
    for (at, path) in crossings.iter().enumerate().filter(|(_, path)| path.is_bad) {
        for segment in path.segments.iter().filter(|segment| !good.contains(*segment)) {
            suspects.entry(segment).or_default().insert(at);
        }
    }
    let mut blamed: Vec<Option<String>> =
        crossings.iter().map(|path| path.is_bad.then(|| NETWORK.to_owned())).collect();
    let mut left: BTreeSet<usize> = suspects.values().flatten().copied().collect();
    while !left.is_empty() {
        let explains = |paths: &BTreeSet<usize>| paths.intersection(&left).count();
        let Some(most) = suspects.values().map(explains).max().filter(|most| *most > 0) else { break };
        let best: Vec<&String> =
            suspects.iter().filter(|(_, paths)| explains(paths) == most).map(|(name, _)| *name).collect();
        let Some(first) = best.first().copied() else { break };
        let covered: Vec<usize> = suspects[first].intersection(&left).copied().collect();
        // Several that explain the same paths cannot be told apart: they are named together, but not a whole path of them.
        let same: Vec<&String> =
            best.iter().copied().filter(|name| suspects[*name].intersection(&left).eq(covered.iter())).collect();
        let is_whole = covered.iter().any(|at| same.len() > 1 && same.len() >= crossings[*at].segments.len());
        let name = if is_whole {
            NETWORK.to_owned()
        } else {
            same.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" or ")
        };
        for at in covered {
            blamed[at] = Some(name.clone());
            left.remove(&at);
        }
    }
    blamed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All directed paths of a full mesh: out of a site, a segment of the pair, into a site.
    fn mesh(sites: usize, bad: &[&str]) -> Vec<Crossing> {
        let pairs = (0..sites).flat_map(|a| (0..sites).map(move |b| (a, b))).filter(|(a, b)| a != b);
        pairs
            .map(|(a, b)| {
                let segments = vec![format!("s{a} out"), format!("s{a} to s{b}"), format!("s{b} in")];
                Crossing { is_bad: segments.iter().any(|segment| bad.contains(&segment.as_str())), segments }
            })
            .collect()
    }

    fn blamed(crossings: &[Crossing]) -> BTreeSet<String> {
        blame(crossings).into_iter().flatten().collect()
    }

    #[test]
    fn the_access_of_a_site_and_a_link_between_two_are_told_apart() {
        assert_eq!(blamed(&mesh(6, &["s2 out"])), ["s2 out".to_owned()].into());
        assert_eq!(blamed(&mesh(6, &["s2 in"])), ["s2 in".to_owned()].into());
        assert_eq!(blamed(&mesh(6, &["s1 to s4"])), ["s1 to s4".to_owned()].into());
        assert!(blamed(&mesh(6, &[])).is_empty());
    }

    #[test]
    fn two_faults_are_named_in_turn() {
        let both = ["s2 out".to_owned(), "s4 to s5".to_owned()];
        assert_eq!(blamed(&mesh(6, &["s2 out", "s4 to s5"])), both.into());
    }

    #[test]
    fn no_more_is_claimed_than_can_be_told() {
        let path = Crossing { segments: vec!["a out".into(), "a to b".into(), "b in".into()], is_bad: true };
        assert_eq!(blame(std::slice::from_ref(&path)), [Some(NETWORK.to_owned())]);
        let other = Crossing { segments: vec!["a out".into(), "a to c".into(), "c in".into()], is_bad: false };
        assert_eq!(blame(&[path, other]), [Some("a to b or b in".to_owned()), None]);
        let unknown = Crossing { segments: Vec::new(), is_bad: true };
        assert_eq!(blame(&[unknown]), [Some(NETWORK.to_owned())]);
    }

    proptest! {
        /// No segment of a good path is blamed, and every bad path is told something.
        #[test]
        fn nobody_innocent_is_blamed(bad in prop::collection::vec((0usize..5, 0usize..5, 0usize..3), 0..4)) {
            let names: Vec<String> = bad.iter().map(|(a, b, kind)| match kind {
                0 => format!("s{a} out"),
                1 => format!("s{a} to s{b}"),
                _ => format!("s{b} in"),
            }).collect();
            let crossings = mesh(5, &names.iter().map(String::as_str).collect::<Vec<_>>());
            let good: BTreeSet<&String> = crossings.iter().filter(|c| !c.is_bad).flat_map(|c| &c.segments).collect();
            for (crossing, blamed) in crossings.iter().zip(blame(&crossings)) {
                prop_assert_eq!(crossing.is_bad, blamed.is_some());
                let named = blamed.unwrap_or_default();
                prop_assert!(named.split(" or ").all(|name| !good.contains(&name.to_owned())));
            }
        }
    }
}
