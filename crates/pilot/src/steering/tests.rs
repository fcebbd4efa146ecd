//! Tests the pilot on simulated paths: rates, queues and losses by a fluid model, in virtual time.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use model::account::{Account, Stage, StageTimes};
use model::tcp::TcpInfo;

use super::*;
use crate::Permitted;

const MSS: u32 = 8948;
const TICK: f64 = 0.1;

/// A bottleneck with a drop-tail queue.
#[derive(Clone, Copy)]
struct Path {
    /// Bytes per second.
    rate: f64,
    rtt: f64,
    queue: f64,
    /// The part of all bytes that is lost, at any rate.
    loss: f64,
}

const GBIT: f64 = 1e9 / 8.0;

/// A job with some streams that behave like one.
struct SimulatedJob {
    pilot: Pilot,
    streams: u32,
    cap: Option<f64>,
    /// The rate of its congestion control.
    rate: f64,
    sums: (f64, f64, f64),
    starts: f64,
    from: f64,
    /// The arriving rate in each tick, bytes per second.
    arrived: Vec<f64>,
    /// The rate that the window allows one stream, bytes per second.
    window: f64,
    /// The part of the time in which the kernel reports a full window.
    full_part: f64,
    /// The numbers of streams that the pilot has chosen.
    counts: Vec<u32>,
    busy: f64,
}

fn job(streams: u32, starts: f64, past: Option<PathHistory>) -> SimulatedJob {
    let permitted = Permitted { names: vec!["reno".into(), "bbr".into()], forced: None };
    let known = Known { permitted, processors: 2, send_buffer_bytes: 0, past };
    SimulatedJob {
        pilot: Pilot::new(known),
        streams,
        cap: None,
        rate: 0.0,
        sums: (0.0, 0.0, 0.0),
        starts,
        from: past.map_or(10.0, |_| 10.0) * f64::from(MSS) * f64::from(streams),
        arrived: Vec::new(),
        window: f64::INFINITY,
        full_part: 1.0,
        counts: Vec::new(),
        busy: 0.0,
    }
}

impl SimulatedJob {
    /// The rate at which it sends now, bytes per second.
    fn send_rate(&self, now: f64) -> f64 {
        if now < self.starts {
            return 0.0;
        }
        self.rate.min(self.cap.unwrap_or(f64::INFINITY)).min(self.window * f64::from(self.streams))
    }

    /// Steps by one tick with this arriving rate, rate of loss and round-trip time.
    fn tick(&mut self, now: f64, path: &Path, arrived: f64, lost: f64, rtt: f64) {
        if now < self.starts {
            self.arrived.push(0.0);
            return;
        }
        if self.rate == 0.0 {
            self.rate = self.from / path.rtt;
        } else if arrived >= self.send_rate(now) * 0.9 && self.cap.is_none_or(|cap| self.rate < cap) {
            // Slow start, and BBR's probing after it, in one.
            self.rate *= 2f64.powf(TICK / path.rtt);
        } else if arrived < self.rate * 0.9 {
            self.rate = arrived * 1.05;
        }
        self.arrived.push(arrived);
        self.sums.0 += arrived * TICK;
        self.sums.1 += (arrived + lost) * TICK;
        self.sums.2 += lost * TICK;
        self.busy += TICK;
        let windowed = self.window * f64::from(self.streams) <= arrived * 1.01;
        let samples: Vec<Sample> = (0..self.streams).map(|id| self.sample(id, path, rtt, windowed)).collect();
        let mut waiting = Account::default();
        waiting.spent.wall[Stage::Socket as usize] = Duration::from_secs_f64(self.busy);
        let context = Context { peer: Some(&waiting), ..Context::default() };
        for action in self.pilot.tick(Duration::from_secs_f64(now), &samples, &context) {
            match action {
                Action::Pace(_, each) => self.cap = each.map(|each| each as f64 * f64::from(self.streams)),
                Action::Streams(count) => {
                    self.counts.push(count);
                    self.streams = count;
                }
                Action::Congestion(..) | Action::Refresh(_) => {}
            }
        }
    }

    fn sample(&self, id: u32, path: &Path, rtt: f64, windowed: bool) -> Sample {
        let each = f64::from(self.streams);
        let span = Duration::from_secs_f64;
        let mut spent = StageTimes::default();
        spent.wall[Stage::Socket as usize] = span(self.busy);
        let tcp = TcpInfo {
            rtt: span(rtt),
            min_rtt: span(path.rtt),
            mss_bytes: MSS,
            delivered_segments: (self.sums.0 / each / f64::from(MSS)) as u32,
            bytes_sent: (self.sums.1 / each) as u64,
            bytes_retransmitted: (self.sums.2 / each) as u64,
            busy: span(self.busy),
            receive_window_limited: if windowed { span(self.busy * self.full_part) } else { Duration::ZERO },
            send_window_bytes: 1 << 20,
            window_scaling: true,
            ..TcpInfo::default()
        };
        Sample { stream: id, tcp, congestion: "bbr".into(), spent, unread_bytes: 0 }
    }

    /// The mean arriving rate between two moments, as a part of the path's rate.
    fn share(&self, path: &Path, from: f64, to: f64) -> f64 {
        let ticks = &self.arrived[(from / TICK) as usize..(to / TICK) as usize];
        ticks.iter().sum::<f64>() / ticks.len() as f64 / path.rate
    }

    fn cap_of(&self, path: &Path) -> f64 {
        self.cap.unwrap_or(f64::NAN) / path.rate
    }
}

/// Runs jobs over a path. Returns the part of the sent bytes that the full queue dropped, for each second.
fn run(path: &mut Path, jobs: &mut [SimulatedJob], seconds: f64, mut change: impl FnMut(f64, &mut Path)) -> Vec<f64> {
    let mut waiting = 0.0;
    let mut overflow = Vec::new();
    for step in 0..(seconds / TICK) as u32 {
        let now = f64::from(step) * TICK;
        change(now, path);
        let sent: Vec<f64> = jobs.iter().map(|job| job.send_rate(now)).collect();
        let sum: f64 = sent.iter().sum();
        let through = path.rate.min(sum + waiting / TICK);
        let queued = waiting + (sum - through) * TICK;
        let dropped = (queued - path.queue).max(0.0) / TICK;
        waiting = queued.clamp(0.0, path.queue);
        let rtt = path.rtt + waiting / path.rate;
        for (job, sent) in jobs.iter_mut().zip(&sent) {
            let part = if sum > 0.0 { sent / sum } else { 0.0 };
            let lost = dropped * part + sent * path.loss;
            job.tick(now, path, through * part * (1.0 - path.loss), lost, rtt);
        }
        overflow.push(if sum > 0.0 { dropped / sum } else { 0.0 });
    }
    overflow.chunks((1.0 / TICK) as usize).map(|second| second.iter().sum::<f64>() / second.len() as f64).collect()
}

fn unchanged(_: f64, _: &mut Path) {}

#[test]
fn every_path_is_filled_and_no_queue_left() {
    for rtt in [0.0075, 0.056, 0.142, 0.303] {
        for queue in [GBIT * rtt, 64e3, 4.0 * GBIT * rtt] {
            for loss in [0.0, 4.6e-5, 3e-3] {
                let mut path = Path { rate: GBIT, rtt, queue, loss };
                let mut jobs = [job(4, 0.0, None)];
                let overflow = run(&mut path, &mut jobs, 60.0, unchanged);
                let share = jobs[0].share(&path, 20.0, 60.0) / (1.0 - loss);
                let what = format!("RTT {rtt}, queue {queue}, loss {loss}: {share}, {overflow:?}");
                assert!(share > 0.95, "{what}");
                let lost = overflow[20..].iter().sum::<f64>() / 40.0;
                assert!(lost < 1e-3, "{what}");
            }
        }
    }
}

#[test]
fn a_known_rate_is_not_exceeded_at_the_start() {
    let past = PathHistory { capacity_bytes_s: GBIT as u64, streams: 4, min_rtt_s: 0.303, loss: 0.0 };
    let mut path = Path { rate: GBIT, rtt: 0.303, queue: 64e3, loss: 0.0 };
    let mut jobs = [job(4, 0.0, Some(past))];
    let overflow = run(&mut path, &mut jobs, 20.0, unchanged);
    // Nothing at the end of slow start; later a probe now and then.
    assert!(overflow[..6].iter().all(|lost| *lost == 0.0), "{overflow:?}");
    assert!(overflow.iter().sum::<f64>() / 20.0 < 1e-3, "{overflow:?}");
    assert!(jobs[0].share(&path, 5.0, 20.0) > 0.95);
}

#[test]
fn a_short_path_is_measured_anew_by_every_job() {
    let past = PathHistory { capacity_bytes_s: (GBIT / 4.0) as u64, streams: 2, min_rtt_s: 0.001, loss: 0.0 };
    let mut path = Path { rate: GBIT, rtt: 0.001, queue: 1e6, loss: 0.0 };
    let mut jobs = [job(2, 0.0, Some(past))];
    run(&mut path, &mut jobs, 1.0, unchanged);
    assert!(
        jobs[0].share(&path, 0.2, 1.0) > 0.9,
        "a slow job has left a quarter of the rate: {}",
        jobs[0].share(&path, 0.2, 1.0)
    );
}

#[test]
fn a_capacity_that_grows_or_shrinks_is_found() {
    let mut path = Path { rate: GBIT, rtt: 0.05, queue: GBIT * 0.05, loss: 0.0 };
    let mut jobs = [job(2, 0.0, None)];
    run(&mut path, &mut jobs, 90.0, |now, path| {
        path.rate = if (20.0..60.0).contains(&now) { GBIT / 4.0 } else { GBIT };
    });
    let quarter = Path { rate: GBIT / 4.0, ..path };
    assert!(jobs[0].share(&quarter, 30.0, 60.0) > 0.9, "{}", jobs[0].cap_of(&path));
    assert!(jobs[0].share(&path, 80.0, 90.0) > 0.9, "{}", jobs[0].cap_of(&path));
}

#[test]
fn small_windows_get_as_many_streams_as_needed() {
    // A window that is full all the time, and one below which BBR has settled.
    for full_part in [1.0, 0.07] {
        let mut path = Path { rate: GBIT, rtt: 0.1, queue: GBIT * 0.1, loss: 0.0 };
        let mut one = job(2, 0.0, None);
        one.window = GBIT / 10.5;
        one.full_part = full_part;
        let mut jobs = [one];
        run(&mut path, &mut jobs, 90.0, unchanged);
        let job = &jobs[0];
        assert!(job.share(&path, 70.0, 90.0) > 0.95, "full {full_part}: {:?} streams", job.counts);
        assert!((11..=22).contains(&job.streams), "full {full_part}: {:?}", job.counts);
    }
}

/// A host stalls for a moment: round trips grow and the rate falls, as on a full path. A job that has not seen a higher rate yet
/// takes the path for full, and finds out within seconds; a job that has seen one is not misled.
#[test]
fn a_host_that_stalls_is_not_taken_for_a_full_path() {
    for (stalls, is_grown) in [(0.2, false), (0.3, false), (0.6, true), (0.8, true)] {
        let mut path = Path { rate: GBIT, rtt: 0.02, queue: 1e6, loss: 0.0 };
        let mut jobs = [job(2, 0.0, None)];
        run(&mut path, &mut jobs, 9.0, |now, path| {
            path.rate = if (stalls..stalls + 0.4).contains(&now) { GBIT / 10.0 } else { GBIT };
        });
        let from = if is_grown { 2.0 } else { 5.0 };
        let share = jobs[0].share(&path, from, 9.0);
        assert!(share > 0.9, "stalled at {stalls} s: {share} from {from} s on");
    }
}

#[test]
fn the_history_has_the_last_rate() {
    let past =
        |rate: f64| PathHistory { capacity_bytes_s: (rate * GBIT) as u64, streams: 4, min_rtt_s: 0.05, loss: 0.0 };
    for (remembered, gives) in [(10.0, 1.0), (0.2, 1.0), (1.0, 1.0)] {
        let mut path = Path { rate: gives * GBIT, rtt: 0.05, queue: GBIT * 0.05, loss: 0.0 };
        let mut jobs = [job(4, 0.0, Some(past(remembered)))];
        assert_eq!(jobs[0].pilot.capacity(), 0, "the rate of an earlier job is no measurement of this one");
        run(&mut path, &mut jobs, 40.0, unchanged);
        let history_rate = jobs[0].pilot.past(4).unwrap().capacity_bytes_s as f64 / GBIT;
        assert!(
            (0.9 * gives..1.1 * gives).contains(&history_rate),
            "{remembered} was remembered, {gives} given: {history_rate}"
        );
    }
}

#[test]
fn streams_on_trial_are_not_part_of_the_history() {
    // Each time from the beginning, until the first trial is under way.
    let tried = (1..30).find_map(|seconds| {
        let mut path = Path { rate: GBIT, rtt: 0.1, queue: GBIT * 0.1, loss: 0.0 };
        let mut one = job(2, 0.0, None);
        one.window = GBIT / 10.5;
        let mut jobs = [one];
        run(&mut path, &mut jobs, f64::from(seconds), unchanged);
        (!jobs[0].counts.is_empty()).then(|| jobs[0].pilot.past(jobs[0].streams).map(|past| past.streams))
    });
    assert_eq!(tried, Some(Some(2)));
}

/// A file whose digest needs the bytes in order goes on one stream: that stream gets the whole limit, not its part among idle streams.
#[test]
fn the_limit_is_divided_among_streams_that_send() {
    let mut pilot = job(4, 0.0, None).pilot;
    let context = Context { limit_bytes_s: 8_000_000, ..Context::default() };
    let mut sent = [0u64; 4];
    let mut paces = [None; 4];
    let mut run = |pilot: &mut Pilot, from: f64, sending: &[usize]| {
        for tick in 0..15 {
            sending.iter().for_each(|at| sent[*at] += 100_000);
            let samples: Vec<Sample> = (0..4)
                .map(|at| Sample {
                    stream: at as u32,
                    tcp: TcpInfo { bytes_sent: sent[at], ..TcpInfo::default() },
                    congestion: "reno".into(),
                    spent: StageTimes::default(),
                    unread_bytes: 0,
                })
                .collect();
            let now = Duration::from_secs_f64(from + f64::from(tick) * TICK);
            for action in pilot.tick(now, &samples, &context) {
                if let Action::Pace(stream, pace) = action {
                    paces[stream as usize] = pace;
                }
            }
            if tick == 0 && from == 0.0 {
                assert_eq!(paces, [Some(3_000_000); 4], "at first all streams count as busy");
            }
        }
        paces
    };
    assert_eq!(run(&mut pilot, 0.0, &[2]), [Some(12_000_000); 4]);
    assert_eq!(run(&mut pilot, 2.0, &[2, 3]), [Some(6_000_000); 4]);
    assert_eq!(run(&mut pilot, 4.0, &[]), [Some(3_000_000); 4], "all streams count where none is busy");
}
