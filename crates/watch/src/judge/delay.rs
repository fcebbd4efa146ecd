//! Delays of a path: steps of the least round trip (a change of route), of one direction against the other (a clock), and queues.

use std::collections::VecDeque;

use model::v1::node::StreamReport;
use model::v1::probe::Direction;

use super::shift::median;

/// Reports before the first step is reported, and the number of successive reports that must show it.
const LEARN: usize = 10;
const IN_A_ROW: usize = 3;
/// Reports of the baseline.
const BASELINE_MAX: usize = 60;
/// The least step, microseconds, and as a share of the round trip.
const STEP_US: f64 = 1_000.0;
const STEP_SHARE: f64 = 0.03;
/// Reports after which a new delay is the normal one.
const ADOPTED_AFTER: u32 = 60;
/// A long queue: its least length, microseconds, its ratio to the usual one, and the number of successive reports that must show it.
const QUEUE_US: f64 = 5_000.0;
const QUEUE_TIMES: f64 = 5.0;
const QUEUE_REPORTS: u32 = 5;

/// The delays of a report, microseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    round_trip: f64,
    /// Half of the difference of forward and reverse delay, by the two clocks: it moves with a clock, and with the route of one direction.
    skew: Option<f64>,
}

/// Delays of a path.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    normal: VecDeque<Sample>,
    recent: VecDeque<Sample>,
    /// Reports since a step.
    since_step: u32,
    step: Option<Step>,
    queue: [Queue; 2],
}

#[derive(Clone, Debug, Default)]
struct Queue {
    /// Lengths of reports without a long queue, microseconds.
    normal: VecDeque<f64>,
    /// Reports in a row with a long queue.
    long_reports: u32,
    /// The length in the last report, microseconds.
    last: f64,
}

/// A step of the delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// The least round trip has changed.
    Route {
        /// The round trip before, microseconds.
        before: f64,
        /// The round trip after, microseconds.
        after: f64,
        /// The direction that has changed, where it is known.
        direction: Option<Direction>,
    },
    /// The offset between the two clocks has changed; round trips have not.
    Clock {
        /// The change of the offset, microseconds.
        by: f64,
    },
}

impl Delays {
    /// Adds a report.
    pub fn add(&mut self, report: &StreamReport) {
        self.note_queues(report);
        let Some(round_trip) = report.round_trip.map(|delays| delays.min_us as f64) else { return };
        let skew = report.forward.zip(report.reverse).map(|(f, r)| (f.min_us - r.min_us) as f64 / 2.0);
        self.recent.push_back(Sample { round_trip, skew });
        if self.recent.len() <= IN_A_ROW {
            return;
        }
        if self.step.is_none() {
            self.step = self.detect_step();
            self.since_step = 0;
        }
        let Some(oldest) = self.recent.pop_front() else { return };
        match self.step {
            None => {
                self.normal.push_back(oldest);
                if self.normal.len() > BASELINE_MAX {
                    self.normal.pop_front();
                }
            }
            Some(step) => {
                self.since_step += 1;
                if self.since_step >= ADOPTED_AFTER || self.has_returned(&step) {
                    *self = Delays {
                        queue: std::mem::take(&mut self.queue),
                        recent: std::mem::take(&mut self.recent),
                        ..Delays::default()
                    };
                }
            }
        }
    }

    /// The step of the last reports against the baseline, if there is one.
    fn detect_step(&self) -> Option<Step> {
        if self.normal.len() < LEARN {
            return None;
        }
        let before = median(self.normal.iter().map(|sample| sample.round_trip))?;
        let noise = median(self.normal.iter().map(|sample| (sample.round_trip - before).abs()))?;
        let least = (before * STEP_SHARE).max(STEP_US).max(noise * 8.0);
        let latest: Vec<f64> = self.recent.iter().skip(1).map(|sample| sample.round_trip - before).collect();
        let is_one_side = latest.iter().all(|shift| *shift > least) || latest.iter().all(|shift| *shift < -least);
        let skews = self.skew_steps();
        if is_one_side {
            let shift = median(latest)?;
            // A step of one direction moves the skew by half of it: with the same sign forward, with the opposite sign in reverse.
            let direction =
                skews.and_then(median).filter(|skew| (skew.abs() - shift.abs() / 2.0).abs() < shift.abs() / 8.0);
            let direction = direction.map(|skew| Direction::of(skew.signum() == shift.signum()));
            return Some(Step::Route { before, after: before + shift, direction });
        }
        // A step of a clock: all recent skews have moved, and no round trip has.
        let skews = skews.filter(|skews| skews.iter().all(|skew| skew.abs() > least))?;
        let is_still = latest.iter().all(|shift| shift.abs() < least / 2.0);
        is_still.then(|| median(skews)).flatten().map(|by| Step::Clock { by })
    }

    /// The differences of the last skews from the skews that their drift predicts, if all differences have the same sign.
    fn skew_steps(&self) -> Option<Vec<f64>> {
        let known: Vec<f64> = self.normal.iter().map(|sample| sample.skew).collect::<Option<_>>()?;
        let drift = median(known.windows(2).map(|pair| pair[1] - pair[0]))?;
        // Each skew of the baseline is moved by the drift to the time of the last one; the median ignores an outlier at the end.
        let drifted = known.iter().rev().take(LEARN).enumerate().map(|(ago, skew)| skew + drift * ago as f64);
        let last = median(drifted)?;
        let ahead = self.recent.iter().skip(1).enumerate();
        // The oldest of the recent reports lies between the baseline and the first compared report: hence a drift of two reports.
        let steps = ahead
            .map(|(at, sample)| Some(sample.skew? - last - drift * (at as f64 + 2.0)))
            .collect::<Option<Vec<f64>>>()?;
        let is_one_side = steps.iter().all(|step| *step > 0.0) || steps.iter().all(|step| *step < 0.0);
        is_one_side.then_some(steps)
    }

    fn has_returned(&self, step: &Step) -> bool {
        let Step::Route { before, after, .. } = step else { return false };
        let near = |sample: &Sample| (sample.round_trip - before).abs() < (after - before).abs() / 4.0;
        self.recent.iter().all(near)
    }

    /// The present step, until the new delay has become the normal one or the former delay has returned.
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// The least round trip of the remembered reports, seconds.
    pub fn rtt_s(&self) -> Option<f64> {
        let all = self.recent.iter().chain(&self.normal).map(|sample| sample.round_trip);
        all.reduce(f64::min).map(|us| us / 1e6)
    }

    fn note_queues(&mut self, report: &StreamReport) {
        let span = |delays: model::v1::node::Delays| (delays.p95_us - delays.min_us) as f64;
        // Without synchronised clocks the direction of a queue is unknown: half of it counted for each direction would hide it.
        let both = report.forward.zip(report.reverse).map(|(forward, reverse)| [span(forward), span(reverse)]);
        let Some(lengths) = both else { return };
        for (queue, length_us) in self.queue.iter_mut().zip(lengths) {
            queue.add(length_us);
        }
    }

    /// The length of a queue that has been long for a while, and its usual length, microseconds.
    pub fn queue(&self, direction: Direction) -> Option<(f64, f64)> {
        let queue = &self.queue[usize::from(direction == Direction::Reverse)];
        (queue.long_reports >= QUEUE_REPORTS).then(|| (queue.last, queue.usual()))
    }

    /// Whether the queue of the last report was longer than usual: it may be the first report of a long queue.
    pub fn may_be_first_long_queue(&self, direction: Direction) -> bool {
        let queue = &self.queue[usize::from(direction == Direction::Reverse)];
        queue.long_reports > 0 || queue.last > (queue.usual() * QUEUE_TIMES).max(QUEUE_US / 2.0)
    }

    /// The last queue of a direction, microseconds.
    pub fn last_queue(&self, direction: Direction) -> f64 {
        self.queue[usize::from(direction == Direction::Reverse)].last
    }
}

impl Queue {
    fn usual(&self) -> f64 {
        median(self.normal.iter().copied()).unwrap_or(0.0)
    }

    fn add(&mut self, length_us: f64) {
        self.last = length_us;
        let is_long = self.normal.len() >= LEARN && length_us > (self.usual() * QUEUE_TIMES).max(QUEUE_US);
        self.long_reports = if is_long { self.long_reports + 1 } else { 0 };
        if !is_long {
            self.normal.push_back(length_us);
            if self.normal.len() > BASELINE_MAX {
                self.normal.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::v1::node;

    use super::*;

    fn report(forward: i64, reverse: i64, queue: i64) -> StreamReport {
        let delays =
            |least: i64| node::Delays { min_us: least, median_us: least, p95_us: least + queue, max_us: least + queue };
        StreamReport {
            round_trip: Some(delays(forward + reverse)),
            forward: Some(delays(forward)),
            reverse: Some(delays(reverse)),
            ..StreamReport::default()
        }
    }

    /// Clocks that differ by half a second and drift apart by 50 ppm: three milliseconds a minute.
    fn feed(delays: &mut Delays, minutes: std::ops::Range<i64>, forward: i64, reverse: i64, clock: i64) {
        for minute in minutes {
            let off = 500_000 + 3_000 * minute + clock;
            let noise = minute * 7 % 5 * 10;
            delays.add(&report(forward + off + noise, reverse - off, 100));
        }
    }

    #[test]
    fn a_change_of_route_has_its_direction_and_a_clock_step_is_not_one() {
        let mut delays = Delays::default();
        feed(&mut delays, 0..30, 75_000, 75_000, 0);
        assert_eq!(delays.step(), None);
        feed(&mut delays, 30..35, 95_000, 75_000, 0);
        let Some(Step::Route { before, after, direction }) = delays.step() else { panic!("{:?}", delays.step()) };
        assert!(
            (after - before - 20_000.0).abs() < 100.0 && direction == Some(Direction::Forward),
            "{after} {direction:?}"
        );
        feed(&mut delays, 35..100, 95_000, 75_000, 0);
        assert_eq!(delays.step(), None, "after an hour it is the normal one");
        feed(&mut delays, 100..140, 95_000, 75_000, 0);
        feed(&mut delays, 140..145, 95_000, 75_000, 40_000);
        let Some(Step::Clock { by }) = delays.step() else { panic!("{:?}", delays.step()) };
        assert!((by - 40_000.0).abs() < 4_000.0, "{by}");
    }

    #[test]
    fn a_step_takes_several_reports_and_ends_when_the_delay_returns() {
        let mut delays = Delays::default();
        feed(&mut delays, 0..30, 5_000, 5_000, 0);
        feed(&mut delays, 30..31, 9_000, 5_000, 0);
        feed(&mut delays, 31..36, 5_000, 5_000, 0);
        assert_eq!(delays.step(), None);
        feed(&mut delays, 36..42, 5_000, 9_000, 0);
        assert!(
            matches!(delays.step(), Some(Step::Route { direction: Some(Direction::Reverse), .. })),
            "{:?}",
            delays.step()
        );
        feed(&mut delays, 42..48, 5_000, 5_000, 0);
        assert_eq!(delays.step(), None);
    }

    #[test]
    fn a_queue_is_reported_when_it_lasts() {
        let mut delays = Delays::default();
        (0..20).for_each(|_| delays.add(&report(10, 10, 300)));
        (0..3).for_each(|_| delays.add(&report(10, 10, 20_000)));
        assert_eq!(delays.queue(Direction::Forward), None);
        (0..3).for_each(|_| delays.add(&report(10, 10, 20_000)));
        assert_eq!(delays.queue(Direction::Forward), Some((20_000.0, 300.0)));
        delays.add(&report(10, 10, 300));
        assert_eq!(delays.queue(Direction::Forward), None);
    }
}
