//! Locates troubles by boolean tomography over the mesh.
//!
//! A directed path crosses directed segments: out of its site, what is known to lie between, into the other site. A segment on a path that is well is
//! not to blame; of those that are left, the one that explains most bad paths is, then the next one for what it does not explain (greedy set cover),
//! so that two faults are named in turn. Where nothing tells segments of one path apart, the network is to blame, and no more is claimed.
//!
//! A rare loss is found on one path hours before it is found on the others of its segment: till then these are not well, but unproven. They clear
//! nobody by themselves, and speak for a segment by what they lost and against it by what they would have lost: two accesses with rare loss are not taken for
//! what all their bad paths have in common, as long as others pass that and lose nothing.

use std::collections::{BTreeMap, BTreeSet};

/// The verdict on a directed path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathVerdict {
    /// Something is wrong with it.
    Bad,
    /// It was measured for long enough, and nothing is wrong.
    Good,
    /// Too little was sent to tell: what speaks for and against each of its segments, in their order; nothing where nothing is known.
    Unproven(Vec<Evidence>),
}

/// What a path that is neither bad nor surely well says of one of its segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Packets it lost, or tests that went badly; bursts count once.
    pub hits: f64,
    /// How many there would be if it were as bad as the bad paths over this segment.
    pub expected: f64,
    /// So few are no chance: this segment is not to blame.
    pub clears: bool,
}

/// A directed path with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    /// Its segments, in the order in which packets pass them.
    pub segments: Vec<String>,
    /// The verdict.
    pub fares: PathVerdict,
}

impl Crossing {
    /// Its segments that are not to blame.
    fn cleared(&self) -> Vec<&String> {
        match &self.fares {
            PathVerdict::Bad => Vec::new(),
            PathVerdict::Good => self.segments.iter().collect(),
            PathVerdict::Unproven(evidence) => {
                let clear = self.segments.iter().zip(evidence).filter(|(_, evidence)| evidence.clears);
                clear.map(|(segment, _)| segment).collect()
            }
        }
    }
}

/// The segment that is blamed where nothing closer is known.
pub const NETWORK: &str = "network";
/// A bad path is so much likelier where a segment of it is bad than by chance: its logarithm.
const BAD: f64 = 14.0;
/// One hit of an unproven path is: its logarithm.
const HIT: f64 = 7.0;
/// One fault more is so much less likely: its logarithm.
const FAULT: f64 = 7.0;
/// Segments are told apart where one makes what is seen twenty times as likely as the other: its logarithm.
const APART: f64 = 3.0;

/// A segment that may be to blame.
#[derive(Debug, Default)]
struct Suspect {
    /// Bad paths over it.
    bad: BTreeSet<usize>,
    /// Unproven paths over it: hits, and how many there would be if it were bad.
    unproven: BTreeMap<usize, Evidence>,
}

impl Suspect {
    /// How much likelier it makes these bad paths, and the unproven ones that nothing explains so far (logarithm).
    fn likelier(&self, bad: &BTreeSet<usize>, explained: &BTreeSet<usize>) -> f64 {
        let of = |(at, evidence): (&usize, &Evidence)| {
            if explained.contains(at) { 0.0 } else { evidence.hits * HIT - evidence.expected }
        };
        self.bad.intersection(bad).count() as f64 * BAD + self.unproven.iter().map(of).sum::<f64>()
    }
}

type Suspects<'a> = BTreeMap<&'a String, Suspect>;

/// What may be to blame, by name.
fn suspects(crossings: &[Crossing]) -> Suspects<'_> {
    let good: BTreeSet<&String> = crossings.iter().flat_map(Crossing::cleared).collect();
    let mut suspects = Suspects::new();
    for (at, path) in crossings.iter().enumerate().filter(|(_, path)| path.fares == PathVerdict::Bad) {
        for segment in path.segments.iter().filter(|segment| !good.contains(*segment)) {
            suspects.entry(segment).or_default().bad.insert(at);
        }
    }
    for (at, path) in crossings.iter().enumerate() {
        let PathVerdict::Unproven(evidence) = &path.fares else { continue };
        for (segment, evidence) in path.segments.iter().zip(evidence) {
            if let Some(suspect) = suspects.get_mut(segment) {
                suspect.unproven.insert(at, *evidence);
            }
        }
    }
    suspects
}

/// The suspect that makes what is seen likeliest, of all but one, and how much.
fn likeliest<'a, 's>(
    suspects: &'s Suspects<'a>,
    bad: &BTreeSet<usize>,
    explained: &BTreeSet<usize>,
    but: Option<&String>,
) -> Option<(&'a String, &'s Suspect, f64)> {
    let may_be = suspects.iter().filter(|(name, it)| Some(**name) != but && !it.bad.is_disjoint(bad));
    may_be.map(|(name, it)| (*name, it, it.likelier(bad, explained))).max_by(|(.., a), (.., b)| a.total_cmp(b))
}

/// The first of several that together make the bad paths of a suspect likelier than it does; none where it is the best explanation.
fn instead_of<'a, 's>(
    suspects: &'s Suspects<'a>,
    (name, score): (&String, f64),
    mut bad: BTreeSet<usize>,
    mut explained: BTreeSet<usize>,
) -> Option<(&'a String, &'s Suspect)> {
    let (mut first, mut total) = (None, FAULT);
    while !bad.is_empty() {
        let (other, suspect, more) = likeliest(suspects, &bad, &explained, Some(name))?;
        total += more - FAULT;
        first.get_or_insert((other, suspect));
        bad.retain(|at| !suspect.bad.contains(at));
        explained.extend(suspect.unproven.keys());
    }
    first.filter(|_| total > score)
}

/// The segment to blame for each bad path, in the order of the paths; none for others.
pub fn blame(crossings: &[Crossing]) -> Vec<Option<String>> {
    let suspects = suspects(crossings);
    let mut blamed: Vec<Option<String>> =
        crossings.iter().map(|path| (path.fares == PathVerdict::Bad).then(|| NETWORK.to_owned())).collect();
    let mut left: BTreeSet<usize> = suspects.values().flat_map(|suspect| suspect.bad.clone()).collect();
    // Unproven paths over segments that are blamed: what they lost is no news.
    let mut explained = BTreeSet::new();
    while let Some((name, suspect, score)) = likeliest(&suspects, &left, &explained, None) {
        let covered: BTreeSet<usize> = suspect.bad.intersection(&left).copied().collect();
        let (first, covered) = match instead_of(&suspects, (name, score), covered.clone(), explained.clone()) {
            Some((_, other)) => (other, other.bad.intersection(&left).copied().collect()),
            None => (suspect, covered),
        };
        let most = first.likelier(&left, &explained);
        // Several that explain the same paths cannot be told apart: they are named together, but not a whole path of them.
        let is_same = |it: &Suspect| {
            most - it.likelier(&left, &explained) < APART && it.bad.intersection(&left).eq(covered.iter())
        };
        let same: Vec<&str> = suspects.iter().filter(|(_, it)| is_same(it)).map(|(name, _)| name.as_str()).collect();
        let is_whole = covered.iter().any(|at| same.len() > 1 && same.len() >= crossings[*at].segments.len());
        let name = if is_whole { NETWORK.to_owned() } else { same.join(" or ") };
        explained.extend(first.unproven.keys());
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
                let is_bad = segments.iter().any(|segment| bad.contains(&segment.as_str()));
                Crossing { fares: if is_bad { PathVerdict::Bad } else { PathVerdict::Good }, segments }
            })
            .collect()
    }

    /// A path of so many segments that lost so many packets where three were expected.
    fn unproven(hits: u64, segments: usize) -> PathVerdict {
        let evidence = Evidence { hits: hits as f64, expected: 3.0, clears: false };
        PathVerdict::Unproven(vec![evidence; segments])
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
        let path = Crossing { segments: vec!["a out".into(), "a to b".into(), "b in".into()], fares: PathVerdict::Bad };
        assert_eq!(blame(std::slice::from_ref(&path)), [Some(NETWORK.to_owned())]);
        let other =
            Crossing { segments: vec!["a out".into(), "a to c".into(), "c in".into()], fares: PathVerdict::Good };
        assert_eq!(blame(&[path, other]), [Some("a to b or b in".to_owned()), None]);
        let unknown = Crossing { segments: Vec::new(), fares: PathVerdict::Bad };
        assert_eq!(blame(&[unknown]), [Some(NETWORK.to_owned())]);
    }

    /// One path of six sites is bad, the others sent too little to tell: each was to lose three packets, and lost so many.
    fn first_of(lost: impl Fn(usize, usize) -> u64) -> String {
        let pairs = (0..6usize).flat_map(|a| (0..6usize).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let unproven = pairs.map(|(a, b)| {
            let fares = match (a, b) {
                (0, 3) => PathVerdict::Bad,
                _ => unproven(lost(a, b), 3),
            };
            Crossing { segments: vec![format!("s{a} out"), format!("s{a} to s{b}"), format!("s{b} in")], fares }
        });
        let crossings: Vec<Crossing> = unproven.collect();
        blame(&crossings).into_iter().flatten().next().unwrap_or_default()
    }

    #[test]
    fn what_is_found_first_is_placed_by_what_the_others_lost() {
        assert_eq!(first_of(|a, b| u64::from(a == 0 && b > 1)), "s0 out");
        assert_eq!(first_of(|_, b| 2 * u64::from(b == 3)), "s3 in");
        assert_eq!(first_of(|_, _| 0), "s0 to s3", "the others would have lost some by now");
        let both = |a: usize, b: usize| u64::from(a == 0 && b != 5 || b == 3 && a != 5);
        assert_eq!(first_of(both), "s0 out or s3 in");
        assert_eq!(first_of(|a, b| u64::from(a == 0 && b < 3 || b == 3 && a < 3)), NETWORK);
    }

    #[test]
    fn two_accesses_are_not_taken_for_what_lies_between() {
        // From three sites of the east to three of the west, over one segment in common; two of the west lose.
        let mut crossings = Vec::new();
        for east in 0..3usize {
            for west in 0..3usize {
                let fares = match (east, west) {
                    (_, 0) => unproven(0, 3),
                    (2, _) => unproven(1, 3),
                    _ => PathVerdict::Bad,
                };
                let segments = vec![format!("e{east} out"), "core".to_owned(), format!("w{west} in")];
                crossings.push(Crossing { segments, fares });
            }
        }
        for (from, to) in [(0, 1), (0, 2)] {
            let segments = vec![format!("w{from} out"), format!("w{to} in")];
            crossings.push(Crossing { segments, fares: unproven(2, 2) });
        }
        assert_eq!(blamed(&crossings), ["w1 in".to_owned(), "w2 in".to_owned()].into());
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
            let good: BTreeSet<&String> = crossings.iter().filter(|c| c.fares == PathVerdict::Good).flat_map(|c| &c.segments).collect();
            for (crossing, blamed) in crossings.iter().zip(blame(&crossings)) {
                prop_assert_eq!(crossing.fares == PathVerdict::Bad, blamed.is_some());
                let named = blamed.unwrap_or_default();
                prop_assert!(named.split(" or ").all(|name| !good.contains(&name.to_owned())));
            }
        }
    }
}
