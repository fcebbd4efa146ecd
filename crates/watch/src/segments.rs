//! Locates faults by boolean tomography over the mesh.
//!
//! A directed path crosses directed segments: the exit of its site, known segments between, the entry of the other site. A segment on a good path is
//! not to blame. Of the others, the one that explains most bad paths is blamed, then the next one for the paths that it does not explain (greedy set
//! cover), so that two faults are both named. Where the segments of a path cannot be distinguished, `network` is blamed.
//!
//! Losses are located by their counts instead: see [`crate::loss_rates`].

use std::collections::{BTreeMap, BTreeSet};

/// The verdict on a directed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathVerdict {
    /// Something is wrong with it.
    Bad,
    /// It was measured for long enough, and nothing is wrong.
    Good,
    /// Its last test may be the first one of a fault.
    Doubtful,
    /// It was not measured.
    Unknown,
}

/// A directed path with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedPath {
    /// Its segments, in the order in which packets pass them.
    pub segments: Vec<String>,
    /// The verdict.
    pub verdict: PathVerdict,
}

/// The segment that is blamed where nothing closer is known.
pub const NETWORK: &str = "network";
/// How much likelier a bad path is if one of its segments is bad (logarithm).
const BAD_PATH_LOG: f64 = 14.0;
/// The same for a doubtful path.
const DOUBTFUL_PATH_LOG: f64 = 6.0;
/// How much less likely one more fault is (logarithm).
const FAULT_LOG: f64 = 7.0;
/// Two segments are distinct if one makes the verdicts twenty times as likely as the other (logarithm).
const DISTINCT_LOG: f64 = 3.0;

/// A segment that may be to blame.
#[derive(Debug, Default)]
struct Suspect {
    /// Bad paths over it.
    bad: BTreeSet<usize>,
    /// Doubtful paths over it.
    doubtful: BTreeSet<usize>,
}

impl Suspect {
    /// How much likelier it makes these bad paths, and the doubtful ones that are not explained yet (logarithm).
    fn log_likelihood(&self, bad: &BTreeSet<usize>, explained: &BTreeSet<usize>) -> f64 {
        let (bad, doubtful) = (self.bad.intersection(bad).count(), self.doubtful.difference(explained).count());
        bad as f64 * BAD_PATH_LOG + doubtful as f64 * DOUBTFUL_PATH_LOG
    }
}

type Suspects<'a> = BTreeMap<&'a String, Suspect>;

/// The segments that may be to blame, by name.
fn suspects(paths: &[JudgedPath]) -> Suspects<'_> {
    let of = |verdict: PathVerdict| paths.iter().enumerate().filter(move |(_, path)| path.verdict == verdict);
    let good: BTreeSet<&String> = of(PathVerdict::Good).flat_map(|(_, path)| &path.segments).collect();
    let mut suspects = Suspects::new();
    for (at, path) in of(PathVerdict::Bad) {
        for segment in path.segments.iter().filter(|segment| !good.contains(*segment)) {
            suspects.entry(segment).or_default().bad.insert(at);
        }
    }
    for (at, path) in of(PathVerdict::Doubtful) {
        for segment in &path.segments {
            if let Some(suspect) = suspects.get_mut(segment) {
                suspect.doubtful.insert(at);
            }
        }
    }
    suspects
}

/// The suspect with the greatest likelihood, and that likelihood (logarithm); `except` is left out.
fn best_suspect<'a, 's>(
    suspects: &'s Suspects<'a>,
    bad: &BTreeSet<usize>,
    explained: &BTreeSet<usize>,
    except: Option<&String>,
) -> Option<(&'a String, &'s Suspect, f64)> {
    let candidates = suspects.iter().filter(|(name, it)| Some(**name) != except && !it.bad.is_disjoint(bad));
    candidates
        .map(|(name, it)| (*name, it, it.log_likelihood(bad, explained)))
        .max_by(|(.., a), (.., b)| a.total_cmp(b))
}

/// The first of several suspects that together explain the bad paths of a suspect better than it does; none if it is the best explanation.
fn better_combination<'a, 's>(
    suspects: &'s Suspects<'a>,
    (name, score): (&String, f64),
    mut bad: BTreeSet<usize>,
    mut explained: BTreeSet<usize>,
) -> Option<(&'a String, &'s Suspect)> {
    let mut first = None;
    let mut total = FAULT_LOG;
    while !bad.is_empty() {
        let (other, suspect, more) = best_suspect(suspects, &bad, &explained, Some(name))?;
        total += more - FAULT_LOG;
        first.get_or_insert((other, suspect));
        bad.retain(|at| !suspect.bad.contains(at));
        explained.extend(&suspect.doubtful);
    }
    first.filter(|_| total > score)
}

/// The segment to blame for each bad path, in the order of the paths; none for others.
pub fn blame(paths: &[JudgedPath]) -> Vec<Option<String>> {
    let suspects = suspects(paths);
    let mut blamed: Vec<Option<String>> =
        paths.iter().map(|path| (path.verdict == PathVerdict::Bad).then(|| NETWORK.to_owned())).collect();
    let mut unexplained: BTreeSet<usize> = suspects.values().flat_map(|suspect| suspect.bad.clone()).collect();
    // Doubtful paths over segments that are blamed: their doubts are explained.
    let mut explained = BTreeSet::new();
    while let Some((name, suspect, score)) = best_suspect(&suspects, &unexplained, &explained, None) {
        let covered: BTreeSet<usize> = suspect.bad.intersection(&unexplained).copied().collect();
        let (first, covered) = match better_combination(&suspects, (name, score), covered.clone(), explained.clone()) {
            Some((_, other)) => (other, other.bad.intersection(&unexplained).copied().collect()),
            None => (suspect, covered),
        };
        let most = first.log_likelihood(&unexplained, &explained);
        // Segments that explain the same paths are named together, unless they are a whole path.
        let is_same = |it: &Suspect| {
            most - it.log_likelihood(&unexplained, &explained) < DISTINCT_LOG
                && it.bad.intersection(&unexplained).eq(covered.iter())
        };
        let same: Vec<&str> = suspects.iter().filter(|(_, it)| is_same(it)).map(|(name, _)| name.as_str()).collect();
        let is_whole = covered.iter().any(|at| same.len() > 1 && same.len() >= paths[*at].segments.len());
        let name = if is_whole { NETWORK.to_owned() } else { same.join(" or ") };
        explained.extend(&first.doubtful);
        for at in covered {
            blamed[at] = Some(name.clone());
            unexplained.remove(&at);
        }
    }
    blamed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All directed paths of a full mesh: the exit of a site, a segment of the pair, the entry of a site.
    fn mesh(sites: usize, bad: &[&str]) -> Vec<JudgedPath> {
        let pairs = (0..sites).flat_map(|a| (0..sites).map(move |b| (a, b))).filter(|(a, b)| a != b);
        pairs
            .map(|(a, b)| {
                let segments = vec![format!("s{a} out"), format!("s{a} to s{b}"), format!("s{b} in")];
                let is_bad = segments.iter().any(|segment| bad.contains(&segment.as_str()));
                JudgedPath { verdict: if is_bad { PathVerdict::Bad } else { PathVerdict::Good }, segments }
            })
            .collect()
    }

    fn blamed(paths: &[JudgedPath]) -> BTreeSet<String> {
        blame(paths).into_iter().flatten().collect()
    }

    #[test]
    fn an_access_of_a_site_is_distinguished_from_a_link_between_two() {
        assert_eq!(blamed(&mesh(6, &["s2 out"])), ["s2 out".to_owned()].into());
        assert_eq!(blamed(&mesh(6, &["s2 in"])), ["s2 in".to_owned()].into());
        assert_eq!(blamed(&mesh(6, &["s1 to s4"])), ["s1 to s4".to_owned()].into());
        assert!(blamed(&mesh(6, &[])).is_empty());
    }

    #[test]
    fn two_faults_are_both_named() {
        let both = ["s2 out".to_owned(), "s4 to s5".to_owned()];
        assert_eq!(blamed(&mesh(6, &["s2 out", "s4 to s5"])), both.into());
    }

    #[test]
    fn segments_that_cannot_be_distinguished_are_named_together() {
        let path =
            JudgedPath { segments: vec!["a out".into(), "a to b".into(), "b in".into()], verdict: PathVerdict::Bad };
        assert_eq!(blame(std::slice::from_ref(&path)), [Some(NETWORK.to_owned())]);
        let other =
            JudgedPath { segments: vec!["a out".into(), "a to c".into(), "c in".into()], verdict: PathVerdict::Good };
        assert_eq!(blame(&[path, other]), [Some("a to b or b in".to_owned()), None]);
        let unknown = JudgedPath { segments: Vec::new(), verdict: PathVerdict::Bad };
        assert_eq!(blame(&[unknown]), [Some(NETWORK.to_owned())]);
    }

    #[test]
    fn doubtful_paths_tell_which_segment_of_the_first_bad_path_is_to_blame() {
        let first_of = |is_doubtful: fn(usize, usize) -> bool| {
            let pairs = (0..6usize).flat_map(|a| (0..6usize).map(move |b| (a, b))).filter(|(a, b)| a != b);
            let paths = pairs.map(|(a, b)| JudgedPath {
                segments: vec![format!("s{a} out"), format!("s{a} to s{b}"), format!("s{b} in")],
                verdict: match (a, b) {
                    (0, 3) => PathVerdict::Bad,
                    _ if is_doubtful(a, b) => PathVerdict::Doubtful,
                    _ => PathVerdict::Unknown,
                },
            });
            blame(&paths.collect::<Vec<_>>()).into_iter().flatten().next().unwrap_or_default()
        };
        assert_eq!(first_of(|a, _| a == 0), "s0 out");
        assert_eq!(first_of(|_, b| b == 3), "s3 in");
        assert_eq!(first_of(|a, b| a == 0 || b == 3), "s0 out or s3 in");
        assert_eq!(first_of(|_, _| false), NETWORK);
    }

    proptest! {
        #[test]
        fn every_bad_path_has_a_blamed_segment_and_no_good_path_has(bad in prop::collection::vec((0usize..5, 0usize..5, 0usize..3), 0..4)) {
            let names: Vec<String> = bad.iter().map(|(a, b, kind)| match kind {
                0 => format!("s{a} out"),
                1 => format!("s{a} to s{b}"),
                _ => format!("s{b} in"),
            }).collect();
            let paths = mesh(5, &names.iter().map(String::as_str).collect::<Vec<_>>());
            let good: BTreeSet<&String> = paths.iter().filter(|c| c.verdict == PathVerdict::Good).flat_map(|c| &c.segments).collect();
            for (path, blamed) in paths.iter().zip(blame(&paths)) {
                prop_assert_eq!(path.verdict == PathVerdict::Bad, blamed.is_some());
                let named = blamed.unwrap_or_default();
                prop_assert!(named.split(" or ").all(|name| !good.contains(&name.to_owned())));
            }
        }
    }
}
