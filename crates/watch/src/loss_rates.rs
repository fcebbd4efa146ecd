//! Locates losses: which few segments, each with a loss rate of its own, explain the packets that all paths lost.
//!
//! Of `sent` packets over segments with the rates r1, r2 …, a Poisson variable of mean sent × (r1 + r2 + …) is lost. A path with a finding of loss is
//! explained by the counts since that loss began, of all paths that share a segment with it: earlier losses have another cause, and a fault that has ended
//! since then explains what it cost. Rates are maximum likelihood estimates (by EM: Vardi, "Network tomography", 1996). A segment is added while that makes
//! the counts much likelier, and is removed when those that are added later explain the counts without it. So two accesses that lose are not mistaken for
//! a segment that all their paths share: the other paths over that segment lose nothing, and other paths of the two sites do.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::loss::Loss;
use crate::segments::NETWORK;

/// A directed path with its losses.
#[derive(Debug)]
pub struct PathLoss<'a> {
    /// Its segments, in the order in which packets pass them.
    pub segments: Vec<String>,
    /// Its losses.
    pub loss: &'a Loss,
}

/// The loss rate of a segment without a fault.
const BACKGROUND_RATE: f64 = 1e-7;
/// How much less likely one more fault is (logarithm).
const FAULT_LOG: f64 = 7.0;
/// Two segments are distinct if one makes the counts twenty times as likely as the other (logarithm).
const DISTINCT_LOG: f64 = 3.0;
/// Faults that explain the losses of one path and of those around it, at most.
const FAULTS_MAX: usize = 12;
/// Steps of the estimate of rates. With forty, the faults of a simulated mesh are located no better.
const FIT_STEPS: usize = 15;
/// A prior for the estimate of bursts: this many packets lost independently.
const PRIOR_LOST: f64 = 10.0;

/// The segment to blame for each path with a finding of loss, in the order of the paths; none for others.
pub fn locate(paths: &[PathLoss<'_>]) -> Vec<Option<String>> {
    let mut over: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        path.segments.iter().for_each(|segment| over.entry(segment).or_default().push(at));
    }
    let blamed = |path: &PathLoss<'_>| {
        let since = path.loss.latest()?.since;
        let near: BTreeSet<usize> = path.segments.iter().flat_map(|name| &over[name.as_str()]).copied().collect();
        let near: Vec<&PathLoss<'_>> = near.into_iter().map(|at| &paths[at]).collect();
        Some(LossCounts::since(since, &near).blame(&path.segments))
    };
    paths.iter().map(blamed).collect()
}

/// Packets since a time, by path and by segment. A burst of lost packets counts as one.
#[derive(Debug, Default)]
struct LossCounts<'a> {
    /// The paths that lost packets.
    lossy: Vec<LossyPath>,
    segments: Vec<SegmentCounts>,
    by_name: BTreeMap<&'a str, usize>,
}

#[derive(Debug)]
struct LossyPath {
    /// Places in [`LossCounts::segments`].
    segments: Vec<usize>,
    lost: f64,
    sent: f64,
}

#[derive(Debug, Default)]
struct SegmentCounts {
    /// Packets of all paths over it.
    sent: f64,
    /// The paths over it that lost packets: places in [`LossCounts::lossy`].
    lossy: Vec<usize>,
}

/// The rates of the segments to blame, by their place, and the logarithm of the likelihood of all counts with them.
#[derive(Clone, Debug)]
struct Explanation {
    rates: BTreeMap<usize, f64>,
    log_likelihood: f64,
}

impl Explanation {
    /// The rate of a segment, if it is to blame.
    fn rate(&self, segment: usize) -> Option<f64> {
        self.rates.get(&segment).copied()
    }

    /// The segments to blame, without one of them.
    fn without(&self, segment: usize) -> impl Iterator<Item = usize> {
        self.rates.keys().copied().filter(move |other| *other != segment)
    }
}

fn likelier(a: &Explanation, b: &Explanation) -> std::cmp::Ordering {
    a.log_likelihood.total_cmp(&b.log_likelihood)
}

impl<'a> LossCounts<'a> {
    fn since(since: i64, paths: &[&'a PathLoss<'_>]) -> LossCounts<'a> {
        let burst = burst(since, paths);
        let mut counts = LossCounts::default();
        for path in paths {
            let (lost, sent) = path.loss.since(since);
            let (lost, sent) = (lost as f64 / burst, sent as f64 / burst);
            let segments: Vec<usize> = path.segments.iter().map(|name| counts.place(name)).collect();
            for at in &segments {
                let segment = &mut counts.segments[*at];
                segment.sent += sent;
                if lost > 0.0 {
                    segment.lossy.push(counts.lossy.len());
                }
            }
            if lost > 0.0 {
                counts.lossy.push(LossyPath { segments, lost, sent });
            }
        }
        counts
    }

    fn place(&mut self, name: &'a str) -> usize {
        let next = self.segments.len();
        let at = *self.by_name.entry(name).or_insert(next);
        if at == next {
            self.segments.push(SegmentCounts::default());
        }
        at
    }

    /// The segment to blame for the losses of a path: several where the counts do not distinguish them, [`NETWORK`] where they distinguish none.
    fn blame(&self, path: &[String]) -> String {
        let places: Vec<usize> = path.iter().map(|name| self.by_name[name.as_str()]).collect();
        let best = self.likeliest(&places);
        let by_rate = |a: &usize, b: &usize| best.rate(*a).unwrap_or(0.0).total_cmp(&best.rate(*b).unwrap_or(0.0));
        let Some(worst) = places.iter().copied().filter(|at| best.rate(*at).is_some()).max_by(by_rate) else {
            return NETWORK.to_owned();
        };
        let explains_as_well = |at: usize| {
            let instead = self.fit(best.without(worst).chain([at]));
            best.rate(at).is_none() && best.log_likelihood - instead.log_likelihood < DISTINCT_LOG
        };
        let alike = path.iter().zip(&places).filter(|(_, at)| **at == worst || explains_as_well(**at));
        let alike: Vec<&str> = alike.map(|(name, _)| name.as_str()).collect();
        if alike.len() > 1 && alike.len() == path.len() { NETWORK.to_owned() } else { alike.join(" or ") }
    }

    /// The likeliest explanation by few faults, one of which is on a path.
    fn likeliest(&self, path: &[usize]) -> Explanation {
        let mut best = self.fit([]);
        while best.rates.len() < FAULTS_MAX {
            let open = (0..self.segments.len()).filter(|at| best.rate(*at).is_none());
            let gains = open.map(|at| (at, self.gain(&best, at)));
            let Some((at, gain)) = gains.max_by(|(_, a), (_, b)| a.total_cmp(b)) else { break };
            if gain < FAULT_LOG {
                break;
            }
            let added = self.fit(best.rates.keys().copied().chain([at]));
            let next = self.without_superfluous(added);
            if next.log_likelihood <= best.log_likelihood {
                break;
            }
            best = next;
        }
        if path.iter().any(|at| best.rate(*at).is_some()) {
            return best;
        }
        // It lost too little for one more fault, were there no finding.
        let with = path.iter().map(|at| self.fit(best.rates.keys().copied().chain([*at])));
        with.max_by(likelier).unwrap_or(best)
    }

    /// An explanation without the segments that the others make unnecessary.
    fn without_superfluous(&self, mut explanation: Explanation) -> Explanation {
        loop {
            let smaller = explanation.rates.keys().map(|at| self.fit(explanation.without(*at)));
            match smaller.max_by(likelier) {
                Some(best) if explanation.log_likelihood - best.log_likelihood < FAULT_LOG => explanation = best,
                _ => return explanation,
            }
        }
    }

    /// The packets that a path should have lost.
    fn mean(path: &LossyPath, rates: &BTreeMap<usize, f64>) -> f64 {
        path.sent * (BACKGROUND_RATE + path.segments.iter().filter_map(|at| rates.get(at)).sum::<f64>())
    }

    /// How much likelier the counts are if one more segment is to blame, and the rates of the others stay (logarithm).
    fn gain(&self, explanation: &Explanation, at: usize) -> f64 {
        let segment = &self.segments[at];
        if segment.lossy.is_empty() {
            return 0.0;
        }
        let over = segment.lossy.iter().map(|path| &self.lossy[*path]);
        let known: Vec<(&LossyPath, f64)> = over.map(|path| (path, Self::mean(path, &explanation.rates))).collect();
        let mut rate = known.iter().map(|(path, _)| path.lost).sum::<f64>() / segment.sent;
        for _ in 0..FIT_STEPS {
            let share = |(path, mean): &(&LossyPath, f64)| path.lost * path.sent * rate / (mean + path.sent * rate);
            rate = known.iter().map(share).sum::<f64>() / segment.sent;
        }
        let gained = |(path, mean): &(&LossyPath, f64)| path.lost * (path.sent * rate / mean).ln_1p();
        known.iter().map(gained).sum::<f64>() - segment.sent * rate
    }

    /// The likeliest rates if these segments are to blame, and no others.
    fn fit(&self, blamed: impl IntoIterator<Item = usize>) -> Explanation {
        let first = |at: usize| {
            let lost: f64 = self.segments[at].lossy.iter().map(|path| self.lossy[*path].lost).sum();
            (at, lost / self.segments[at].sent.max(1.0))
        };
        let mut rates: BTreeMap<usize, f64> = blamed.into_iter().map(first).collect();
        for _ in 0..FIT_STEPS {
            // The lost packets of a path are shared out among its segments in proportion to their rates.
            let mut shares: BTreeMap<usize, f64> = BTreeMap::new();
            for path in &self.lossy {
                let each = path.lost * path.sent / Self::mean(path, &rates);
                for at in path.segments.iter().filter(|at| rates.contains_key(at)) {
                    *shares.entry(*at).or_default() += each * rates[at];
                }
            }
            for (at, rate) in &mut rates {
                *rate = shares.get(at).copied().unwrap_or_default() / self.segments[*at].sent.max(1.0);
            }
        }
        let expected: f64 = rates.iter().map(|(at, rate)| rate * self.segments[*at].sent).sum();
        let log_of = |path: &LossyPath| path.lost * Self::mean(path, &rates).ln();
        Explanation { log_likelihood: self.lossy.iter().map(log_of).sum::<f64>() - expected, rates }
    }
}

/// The estimated number of packets of a burst; 1 where packets are lost independently.
fn burst(since: i64, paths: &[&PathLoss<'_>]) -> f64 {
    let found = paths.iter().filter_map(|path| Some((path.loss, path.loss.latest()?.since.max(since))));
    let (lost, clumped) = found.fold((PRIOR_LOST, 0.0), |(all, clumped), (loss, since)| {
        let lost = loss.since(since).0 as f64;
        (all + lost, clumped + lost * (loss.dispersion(since) - 1.0))
    });
    (1.0 + clumped / lost).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    /// Packets of a path in a minute.
    const PACKETS: u64 = 600;
    /// The rate above which loss is a finding.
    const FLOOR: f64 = 5e-6;

    /// Segments, and their loss rates.
    type Faults<'a> = &'a [(&'a str, f64)];

    /// Three sites in the west (0, 1, 2) and three in the east, with one segment between them in each direction; all pairs are measured.
    struct DrawnMesh {
        paths: Vec<(Vec<String>, Loss)>,
        random: fastrand::Rng,
        now: i64,
    }

    impl DrawnMesh {
        fn new(seed: u64) -> DrawnMesh {
            let between = |from: usize, to: usize| match (from < 3, to < 3) {
                (true, false) => "core".to_owned(),
                (false, true) => "core (back)".to_owned(),
                _ => format!("{from} to {to}"),
            };
            let pairs = (0..6).flat_map(|from| (0..6).map(move |to| (from, to))).filter(|(from, to)| from != to);
            let path =
                |(from, to)| (vec![format!("{from} out"), between(from, to), format!("{to} in")], Loss::new(1.0));
            DrawnMesh { paths: pairs.map(path).collect(), random: fastrand::Rng::with_seed(seed), now: 0 }
        }

        /// Lets minutes pass in which segments lose each packet with a chance, or bursts of `burst` packets.
        fn pass(&mut self, minutes: i64, faults: Faults<'_>, burst: u64) {
            for _ in 0..minutes {
                self.now += MINUTE;
                for (segments, loss) in &mut self.paths {
                    let chance: f64 = faults
                        .iter()
                        .filter(|(name, _)| segments.iter().any(|it| it == name))
                        .map(|(_, rate)| rate)
                        .sum();
                    let bursts = (0..PACKETS).filter(|_| self.random.f64() < chance / burst as f64).count() as u64;
                    loss.add(self.now, PACKETS, (bursts * burst).min(PACKETS));
                    loss.judge(FLOOR);
                }
            }
        }

        fn blamed(&self) -> Vec<(&[String], String)> {
            let counts = |(segments, loss): &'_ (Vec<String>, Loss)| (segments.clone(), loss.clone());
            let owned: Vec<(Vec<String>, Loss)> = self.paths.iter().map(counts).collect();
            let paths: Vec<PathLoss<'_>> =
                owned.iter().map(|(segments, loss)| PathLoss { segments: segments.clone(), loss }).collect();
            let located = locate(&paths);
            self.paths.iter().zip(located).filter_map(|((segments, _), it)| Some((segments.as_slice(), it?))).collect()
        }

        /// How many findings on paths over faulty segments name one of these, and the number of these findings.
        fn score(&self, faults: Faults<'_>) -> (usize, usize) {
            let is_faulty = |segment: &str| faults.iter().any(|(name, _)| *name == segment);
            let on_faulty = |(segments, _): &(&[String], String)| segments.iter().any(|segment| is_faulty(segment));
            let blamed: Vec<_> = self.blamed().into_iter().filter(on_faulty).collect();
            (blamed.iter().filter(|(_, named)| is_faulty(named)).count(), blamed.len())
        }
    }

    /// The scores of ten meshes together: faults for some minutes, then others; then how well the last ones are located.
    fn located(rounds: &[(i64, Faults<'_>, u64)]) -> (usize, usize) {
        let all = (0..10).map(|seed| {
            let mut mesh = DrawnMesh::new(seed);
            rounds.iter().for_each(|(minutes, faults, burst)| mesh.pass(*minutes, faults, *burst));
            mesh.score(rounds[rounds.len() - 1].1)
        });
        all.fold((0, 0), |(right, count), (more_right, more)| (right + more_right, count + more))
    }

    #[test]
    fn no_path_is_blamed_without_a_finding() {
        let mut mesh = DrawnMesh::new(1);
        mesh.pass(200, &[], 1);
        assert!(mesh.blamed().is_empty());
    }

    #[test]
    fn accesses_and_the_core_are_distinguished() {
        for faults in
            [&[("0 out", 1e-3)][..], &[("4 in", 2e-4)], &[("core", 5e-4)], &[("core", 1e-3), ("core (back)", 1e-4)]]
        {
            let (right, count) = located(&[(120, faults, 1)]);
            assert!(count >= 30 && right * 100 >= count * 97, "{faults:?}: {right} of {count}");
        }
    }

    #[test]
    fn two_bad_accesses_are_not_mistaken_for_the_core() {
        for faults in
            [&[("3 in", 1e-3), ("4 in", 2e-4)], &[("0 out", 5e-4), ("4 in", 5e-4)], &[("0 out", 1e-4), ("5 out", 5e-5)]]
        {
            let (right, count) = located(&[(240, faults, 1)]);
            assert!(count >= 50 && right * 100 >= count * 95, "{faults:?}: {right} of {count}");
        }
    }

    #[test]
    fn a_fault_that_has_just_ended_explains_its_losses() {
        let (right, count) = located(&[(120, &[("1 in", 2e-4)], 1), (60, &[("2 in", 1e-3)], 3)]);
        assert!(count >= 30 && right * 100 >= count * 95, "{right} of {count}");
    }

    #[test]
    fn a_burst_is_little_evidence() {
        let (right, count) = located(&[(240, &[("2 in", 1e-3)], 10)]);
        assert!(count >= 20 && right * 100 >= count * 90, "{right} of {count}");
    }

    #[test]
    fn segments_that_the_counts_do_not_distinguish_are_named_together() {
        let mut loss = Loss::new(1.0);
        let mut none = Loss::new(1.0);
        for minute in 0..60 {
            loss.add(minute * MINUTE, PACKETS, u64::from(minute % 5 == 0));
            none.add(minute * MINUTE, PACKETS, 0);
        }
        loss.judge(FLOOR);
        let path = |names: [&str; 3], loss| PathLoss { segments: names.map(str::to_owned).to_vec(), loss };
        let alone = path(["a out", "a to b", "b in"], &loss);
        assert_eq!(locate(&[alone]), [Some(NETWORK.to_owned())]);
        let both = [path(["a out", "a to b", "b in"], &loss), path(["a out", "a to c", "c in"], &none)];
        assert_eq!(locate(&both), [Some("a to b or b in".to_owned()), None]);
    }
}
