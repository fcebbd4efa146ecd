//! A flow of a phase: round after round, with a sample each half second.

use std::time::{Duration, Instant};

use super::control::PhaseControl;
use super::round::{RoundDriver, RoundEnd, RoundSample};
use crate::file::ExerciseFlow;
use crate::record::{FlowRecord, RoundRecord};

/// How often a round is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The pause after a round that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);
/// How long a cancelled round may take to end.
const CANCEL_MAX: Duration = Duration::from_secs(5);
/// The longest time between two samples that still says how fast the flow was in between.
const SAMPLE_GAP_MAX_S: f64 = 2.5;
/// The part of a second that must be sampled.
const COVERED_MIN_S: f64 = 0.4;

/// Runs a flow until it is done or its phase is over.
pub(crate) fn run(
    control: &PhaseControl<'_>,
    number: usize,
    flow: &ExerciseFlow,
    driver: &mut dyn RoundDriver,
) -> FlowRecord {
    let mut record = FlowRecord { at_s: flow.at.as_secs_f64(), ..FlowRecord::of(flow) };
    if !control.wait_until(flow.at) {
        return record;
    }
    let mut run = FlowRun {
        control,
        number,
        driver,
        course: RateCourse::default(),
        begun: Instant::now(),
        limit: None,
        sample_error: None,
    };
    run.course.note(0.0, 0);
    control.set_active(number, true);
    let mut before_bytes = 0;
    loop {
        let (round, begins_again) = run.round(before_bytes);
        before_bytes += round.bytes;
        let failed = round.error.is_some() && round.bytes == 0;
        record.rounds.push(round);
        if control.is_over() || !(flow.repeats || begins_again) {
            break;
        }
        if failed {
            control.pause(FAILURE_PAUSE);
            // Nothing moved meanwhile: that is known, and no gap.
            run.course.note(run.begun.elapsed().as_secs_f64(), before_bytes);
        }
    }
    control.set_active(number, false);
    run.course.end(run.begun.elapsed().as_secs_f64());
    record.rates_bit_s = run.course.rates_bit_s();
    record.sample_error = run.sample_error;
    record
}

/// A flow under way.
struct FlowRun<'a> {
    control: &'a PhaseControl<'a>,
    number: usize,
    driver: &'a mut dyn RoundDriver,
    course: RateCourse,
    begun: Instant,
    /// The limit that was set last, bit/s.
    limit: Option<u64>,
    /// Why the last sample that failed did not come.
    sample_error: Option<String>,
}

impl FlowRun<'_> {
    /// One round, and whether its files are to be moved again; `before_bytes` arrived in the rounds before it.
    fn round(&mut self, before_bytes: u64) -> (RoundRecord, bool) {
        let begun = Instant::now();
        let mut record = RoundRecord { at_s: self.control.seconds(), ..RoundRecord::default() };
        self.follow_limit();
        if let Err(error) = self.driver.begin() {
            // Nothing moves: that is known, and no gap.
            self.course.note(self.begun.elapsed().as_secs_f64(), before_bytes);
            self.control.note(self.number, Some(0.0), &error);
            return (RoundRecord { state: "failed".into(), error: Some(error), ..record }, false);
        }
        let mut cancelled: Option<Instant> = None;
        let end = loop {
            std::thread::sleep(LOOK_EVERY);
            match self.look(before_bytes, &mut record) {
                Some(end) => break end,
                None if cancelled.is_some_and(|since| since.elapsed() > CANCEL_MAX) => {
                    let error = Some("it did not end within 5 s of its cancellation".to_owned());
                    break RoundEnd { state: "cancelled".into(), error, ..RoundEnd::default() };
                }
                None => {}
            }
            if cancelled.is_none() && self.control.is_over() {
                self.driver.cancel();
                cancelled = Some(Instant::now());
            } else if cancelled.is_none() {
                self.follow_limit();
            }
        };
        record.seconds = end.seconds.unwrap_or_else(|| begun.elapsed().as_secs_f64());
        let begins_again = end.begins_again && cancelled.is_none();
        // An end by the end of its phase is no fault of the flow.
        record.error = end.error.filter(|_| cancelled.is_none() || end.state != "cancelled");
        let RoundEnd { failed, state, verdict, cpu_s, .. } = end;
        (RoundRecord { failed, state, verdict, cpu_s, ..record }, begins_again)
    }

    /// Takes a sample if there is a new one. Returns how the round ended, if it has.
    fn look(&mut self, before_bytes: u64, record: &mut RoundRecord) -> Option<RoundEnd> {
        match self.driver.sample() {
            Ok(Some(RoundSample { bytes, files, waiting_for, end })) => {
                // A transfer that was cancelled no longer counts the files that were under way; their bytes have crossed the path.
                record.bytes = record.bytes.max(bytes);
                record.files = record.files.max(files);
                self.course.note(self.begun.elapsed().as_secs_f64(), before_bytes + record.bytes);
                let why =
                    end.as_ref().map_or(waiting_for, |end| end.error.clone().unwrap_or_else(|| end.verdict.clone()));
                self.control.note(self.number, self.course.last_rate_bit_s(), &why);
                end
            }
            Ok(None) => None,
            Err(error) => {
                self.control.note(self.number, None, &error);
                self.sample_error = Some(error);
                None
            }
        }
    }

    /// Sets the limit that the caps give the flow now, if it is another one.
    fn follow_limit(&mut self) {
        let Some(limit) = self.control.limit_bit_s(self.number).filter(|limit| self.limit != Some(*limit)) else {
            return;
        };
        match self.driver.limit(limit) {
            Ok(()) => self.limit = Some(limit),
            Err(error) => self.control.note(self.number, None, &error),
        }
    }
}

/// The rate of a flow in each second.
#[derive(Clone, Debug, Default)]
struct RateCourse {
    last: Option<(f64, u64)>,
    /// For each second, the bytes in it and the part of it that was sampled.
    seconds: Vec<(f64, f64)>,
    last_rate_bit_s: Option<f64>,
}

impl RateCourse {
    /// Notes how many bytes have arrived at a time, seconds after the beginning of the flow.
    fn note(&mut self, now_s: f64, bytes: u64) {
        let Some((last_s, last_bytes)) = self.last.replace((now_s, bytes)) else { return };
        let length_s = now_s - last_s;
        if length_s <= 0.0 {
            return;
        }
        self.seconds.resize((now_s.ceil() as usize).max(self.seconds.len()), (0.0, 0.0));
        if length_s > SAMPLE_GAP_MAX_S {
            self.last_rate_bit_s = None;
            return;
        }
        // A count may fall when an attempt is repeated: nothing arrived then.
        let bytes_s = bytes.saturating_sub(last_bytes) as f64 / length_s;
        self.last_rate_bit_s = Some(bytes_s * 8.0);
        for second in last_s as usize..self.seconds.len() {
            let covered_s = (now_s.min(second as f64 + 1.0) - last_s.max(second as f64)).max(0.0);
            self.seconds[second].0 += bytes_s * covered_s;
            self.seconds[second].1 += covered_s;
        }
    }

    /// Notes that the flow has ended: seconds since its last sample are gaps.
    fn end(&mut self, now_s: f64) {
        let missing = self.last.is_some_and(|(last_s, _)| now_s - last_s > SAMPLE_GAP_MAX_S);
        if missing {
            self.seconds.resize((now_s as usize).max(self.seconds.len()), (0.0, 0.0));
        }
    }

    fn last_rate_bit_s(&self) -> Option<f64> {
        self.last_rate_bit_s
    }

    fn rates_bit_s(&self) -> Vec<Option<f64>> {
        let rate = |(bytes, covered_s): &(f64, f64)| (*covered_s >= COVERED_MIN_S).then(|| bytes * 8.0 / covered_s);
        self.seconds.iter().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_between_samples() {
        let mut course = RateCourse::default();
        for (at_s, bytes) in [(0.0, 0), (0.5, 500), (1.5, 1500), (2.0, 1500), (3.0, 3500)] {
            course.note(at_s, bytes);
        }
        assert_eq!(course.rates_bit_s(), [Some(8000.0), Some(4000.0), Some(16_000.0)]);
        assert_eq!(course.last_rate_bit_s(), Some(16_000.0));
    }

    #[test]
    fn seconds_without_a_sample_are_gaps() {
        let mut course = RateCourse::default();
        for (at_s, bytes) in [(0.0, 0), (1.0, 1000), (5.0, 9000), (6.0, 10_000)] {
            course.note(at_s, bytes);
        }
        assert_eq!(course.rates_bit_s(), [Some(8000.0), None, None, None, None, Some(8000.0)]);
    }

    #[test]
    fn the_time_after_the_last_sample_is_a_gap() {
        let mut course = RateCourse::default();
        course.note(0.0, 0);
        course.note(1.0, 1000);
        course.end(2.0);
        assert_eq!(course.rates_bit_s(), [Some(8000.0)], "the next sample was not due");
        course.end(5.5);
        assert_eq!(course.rates_bit_s(), [Some(8000.0), None, None, None, None]);
    }

    #[test]
    fn a_count_that_falls_is_a_rate_of_zero() {
        let mut course = RateCourse::default();
        for (at_s, bytes) in [(0.0, 1000), (1.0, 500), (2.0, 1500)] {
            course.note(at_s, bytes);
        }
        assert_eq!(course.rates_bit_s(), [Some(0.0), Some(8000.0)]);
    }
}
