//! Finds the part of the past that is like the present, and its rate.

use super::cost::Cost;
use super::history::Span;

/// A faster rate must last for at least this time to replace the rate before it (after slow start, for example), s.
const FASTER_SECONDS: f64 = 0.75;
/// A slower rate must last for at least this time: a stall of a second is no new rate, s.
const SLOWER_SECONDS: f64 = 2.0;
/// A new rate must also last for this part of the time before it: in a long job, differences by chance are more frequent.
const PAST_PART: f64 = 0.01;
/// A difference smaller than this is no new rate.
const DIFFERENT: f64 = 0.12;
/// Nor is a difference that the spread on both sides explains, in standard errors.
const SIGNIFICANT: f64 = 4.0;
/// A beginning is slower than the rest by nature (slow start; on long paths for seconds). There so many standard errors suffice.
const SIGNIFICANT_BEGINNING: f64 = 2.0;
/// At the end of a beginning the rate rises by more than this factor.
const BEGINNING_RISE: f64 = 1.3;
/// A beginning is shorter than this, s.
const BEGINNING_SECONDS: f64 = 8.0;
/// Spans within this time count as one observation: they are not independent, s.
const ALIKE_SECONDS: f64 = 1.0;
/// The number of blocks whose means give the spread.
const BLOCKS: f64 = 12.0;
/// The number of searches for a change, each within the spans that the search before has left.
const ROUNDS: usize = 12;

/// The present rate: work per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub mean: f64,
    /// The time over which it was measured, s.
    pub seconds: f64,
    /// Standard deviation of the means of blocks.
    pub deviation: f64,
    /// The length of a block, s.
    pub block: f64,
    /// The rate of the last third, relative to the mean.
    pub rising: f64,
}

/// Seconds, work and squares of a stretch of spans.
#[derive(Clone, Copy, Default)]
struct StretchSums {
    seconds: f64,
    work: f64,
    squares: f64,
}

impl StretchSums {
    fn add(&mut self, seconds: f64, work: f64) {
        self.seconds += seconds;
        self.work += work;
        if seconds > 0.0 {
            self.squares += work * work / seconds;
        }
    }

    fn minus(self, other: StretchSums) -> StretchSums {
        StretchSums {
            seconds: self.seconds - other.seconds,
            work: self.work - other.work,
            squares: self.squares - other.squares,
        }
    }

    fn mean(&self) -> f64 {
        if self.seconds > 0.0 { self.work / self.seconds } else { 0.0 }
    }

    fn variance(&self) -> f64 {
        if self.seconds > 0.0 { (self.squares / self.seconds - self.mean() * self.mean()).max(0.0) } else { 0.0 }
    }

    /// The variance of the mean. A few equal spans prove little: a standard deviation of at least 5 % is assumed.
    fn variance_of_mean(&self) -> f64 {
        let least = (0.05 * self.mean()).powi(2);
        (self.variance() + least) * (ALIKE_SECONDS / self.seconds.max(1e-9)).min(1.0)
    }
}

/// The first span of the part that is like the present.
fn start(spans: &[(f64, f64)]) -> usize {
    let mut from = 0;
    for _ in 0..ROUNDS {
        let mut all = StretchSums::default();
        spans[from..].iter().for_each(|(seconds, work)| all.add(*seconds, *work));
        let mut before = StretchSums::default();
        let mut best: Option<(f64, usize)> = None;
        for (at, (seconds, work)) in spans.iter().enumerate().skip(from) {
            if at > from {
                let after = all.minus(before);
                if let Some(score) = difference(&before, &after, from == 0).filter(|s| best.is_none_or(|(b, _)| *s > b))
                {
                    best = Some((score, at));
                }
            }
            before.add(*seconds, *work);
        }
        match best {
            Some((_, at)) => from = at,
            None => break,
        }
    }
    from
}

/// The significance of the difference between two rates; none where it is no change.
fn difference(before: &StretchSums, after: &StretchSums, is_first: bool) -> Option<f64> {
    let (old, new) = (before.mean(), after.mean());
    let least = if new > old { FASTER_SECONDS } else { SLOWER_SECONDS };
    let least = least.max(before.seconds * PAST_PART);
    let differs = (new - old).abs() > DIFFERENT * old.max(new);
    if after.seconds < least || !differs {
        return None;
    }
    let score = (new - old).abs() / (before.variance_of_mean() + after.variance_of_mean()).sqrt().max(1e-12);
    let is_beginning = is_first && before.seconds < BEGINNING_SECONDS && new > old * BEGINNING_RISE;
    let enough = if is_beginning { SIGNIFICANT_BEGINNING } else { SIGNIFICANT };
    (score > enough).then_some(score)
}

/// The rate of the part that is like the present.
pub(super) fn rate(spans: &[Span], cost: &Cost) -> Option<Rate> {
    let pairs: Vec<(f64, f64)> = spans.iter().map(|span| (span.seconds, cost.work(span))).collect();
    let now = pairs.get(start(&pairs)..).filter(|now| !now.is_empty())?;
    let mut all = StretchSums::default();
    now.iter().for_each(|(seconds, work)| all.add(*seconds, *work));
    let block = all.seconds / BLOCKS;
    let mut blocks = StretchSums::default();
    let mut last = StretchSums::default();
    // Seconds and work of the block that is not full yet.
    let mut open = (0.0, 0.0);
    let mut passed = 0.0;
    for (seconds, work) in now {
        open = (open.0 + seconds, open.1 + work);
        passed += seconds;
        if open.0 >= block {
            blocks.add(open.0, open.1);
            open = (0.0, 0.0);
        }
        if passed > all.seconds * 2.0 / 3.0 {
            last.add(*seconds, *work);
        }
    }
    let mean = all.mean();
    let rising = if mean > 0.0 { last.mean() / mean } else { 1.0 };
    let longest = now.iter().map(|(seconds, _)| *seconds).fold(block.max(ALIKE_SECONDS), f64::max);
    Some(Rate { mean, seconds: all.seconds, deviation: blocks.variance().sqrt(), block: longest, rising })
}
