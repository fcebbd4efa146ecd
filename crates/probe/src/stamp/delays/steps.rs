//! Detects that the far clock was set during a test.
//!
//! If the far clock is set forward by `s`, packets seem to take `s` longer forward and `s` less in reverse. A change of the network
//! looks different: a queue or a new route makes one direction longer, or both. So the least delays before and after a moment are
//! compared in both directions: half of the difference of the two changes is the clock's, if their sum is small. Clocks that
//! run at different speeds drift steadily; the usual drift is subtracted.

/// Windows of a test: short enough that a step is detected, long enough that each contains a packet that was not queued.
const WINDOWS: u64 = 256;
/// The shortest window: a host that stalls for several windows must not look like a clock that was set.
const WINDOW_S: f64 = 0.025;
/// Windows on either side of a moment that are compared. If only neighbours were compared, a spike forward and a spike in reverse, in
/// different windows, would look like a step.
const SIDE: usize = 4;
/// A smaller step cannot be distinguished from the effects of schedulers and queues.
const LEAST_NS: i64 = 100_000;
/// A step below the round trip divided by this is ignored: a busy host delays packets by more.
const LEAST_SHARE: i64 = 100;
/// A step stands out of the usual changes by this factor.
const STANDS_OUT: i64 = 8;

/// The least delays of a part of the test, on the two clocks as they are.
#[derive(Clone, Copy, Debug)]
struct Window {
    number: u64,
    forward_ns: i64,
    reverse_ns: i64,
}

/// The least delays of each part of the test.
#[derive(Clone, Debug)]
pub struct Windows {
    packets_each: u64,
    windows: Vec<Window>,
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

impl Windows {
    /// Windows for a test of about `packets`, at this rate.
    pub fn new(packets: u64, rate_packets_s: f64) -> Windows {
        let least = (rate_packets_s * WINDOW_S).ceil().clamp(1.0, 1e9) as u64;
        Windows { packets_each: packets.div_ceil(WINDOWS).max(least).max(1), windows: Vec::new() }
    }

    /// Adds a packet's delays. Packets are added in the order of their numbers.
    pub fn record(&mut self, sequence: u64, forward_ns: i64, reverse_ns: i64) {
        let number = sequence / self.packets_each;
        match self.windows.last_mut() {
            Some(last) if last.number == number => {
                last.forward_ns = last.forward_ns.min(forward_ns);
                last.reverse_ns = last.reverse_ns.min(reverse_ns);
            }
            _ => self.windows.push(Window { number, forward_ns, reverse_ns }),
        }
    }

    /// The largest step that stands out, if any. It takes at least two windows on either side of a moment.
    pub fn step_ns(&self) -> Option<i64> {
        let drifts: Vec<i64> = self.windows.windows(2).map(|pair| clock_gain(&pair[0], &pair[1])).collect();
        let drift = median(drifts.clone());
        let noise = median(drifts.iter().map(|own| own.saturating_sub(drift).saturating_abs()).collect());
        let round_trip = self.windows.iter().map(|w| w.forward_ns.saturating_add(w.reverse_ns)).min().unwrap_or(0);
        let least = LEAST_NS.max(round_trip / LEAST_SHARE).max(noise.saturating_mul(STANDS_OUT));
        let moments = 2..self.windows.len().saturating_sub(2);
        let changes = moments.map(|at| self.change(at, drift));
        changes
            .filter(|(clock, path)| clock.saturating_abs() > least && clock.abs() / 2 > path.saturating_abs())
            .map(|(clock, _)| clock)
            .max_by_key(|clock| clock.saturating_abs())
    }

    /// The changes between the windows before `at` and those after it: of the clock, beyond its usual drift from window
    /// to window, and of the path (half of the change of both directions together). The window itself is left out: if the
    /// clock is set within it, its least delay of one direction is from before and that of the other direction from after.
    fn change(&self, at: usize, drift: i64) -> (i64, i64) {
        let before = &self.windows[at.saturating_sub(SIDE)..at];
        let after = &self.windows[at + 1..(at + 1 + SIDE).min(self.windows.len())];
        let least = |side: &[Window], delay: fn(&Window) -> i64| i128::from(side.iter().map(delay).min().unwrap_or(0));
        let forward = least(after, |w| w.forward_ns) - least(before, |w| w.forward_ns);
        let reverse = least(after, |w| w.reverse_ns) - least(before, |w| w.reverse_ns);
        // A delay that drifts upwards is least in a side's first window, one that drifts downwards in its last.
        let usual = i128::from(drift) * (before.len() + after.len() + 2) as i128;
        (narrow((forward - reverse - usual) / 2), narrow((forward + reverse) / 2))
    }
}

/// How much the far clock seems to have gained from one window to another, per window.
fn clock_gain(from: &Window, to: &Window) -> i64 {
    let gap = i128::from(to.number.saturating_sub(from.number).max(1));
    let forward = i128::from(to.forward_ns) - i128::from(from.forward_ns);
    let reverse = i128::from(to.reverse_ns) - i128::from(from.reverse_ns);
    narrow((forward - reverse) / 2 / gap)
}

fn narrow(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step that is found on a path of 10 ms in each direction with up to `jitter_ns` of queueing, a far clock that is off by
    /// `clock(n)`, and a forward delay that is longer by `path(n)`.
    fn step(packets: u64, jitter_ns: i64, clock: impl Fn(i64) -> i64, path: impl Fn(i64) -> i64) -> Option<i64> {
        let mut chance = fastrand::Rng::with_seed(7);
        let mut windows = Windows::new(packets, 10.0);
        for n in 0..packets as i64 {
            let forward = chance.i64(0..=jitter_ns);
            let reverse = chance.i64(0..=jitter_ns);
            windows.record(n as u64, 10_000_000 + forward + clock(n) + path(n), 10_000_000 + reverse - clock(n));
        }
        windows.step_ns()
    }

    fn at(moment: i64, ns: i64) -> impl Fn(i64) -> i64 {
        move |n| if n >= moment { ns } else { 0 }
    }

    fn unchanged(_: i64) -> i64 {
        0
    }

    #[test]
    fn a_clock_that_is_set_is_detected() {
        for packets in [10, 100, 1_000, 20_000] {
            for ns in [50_000_000, -50_000_000, 5_000_000] {
                let found = step(packets, 100_000, at(packets as i64 / 2, ns), unchanged).unwrap_or(0);
                assert!((found - ns).abs() < 400_000, "{found} of {ns} in {packets}");
            }
        }
        // Near the ends, two packets are enough.
        assert!(step(100, 100_000, at(2, 20_000_000), unchanged).is_some());
        assert!(step(100, 100_000, at(98, 20_000_000), unchanged).is_some());
    }

    #[test]
    fn a_clock_that_only_runs_faster_has_no_step() {
        // 100 ppm at ten packets a second: 10 us from packet to packet.
        assert_eq!(step(3_000, 100_000, |n| n * 10_000, unchanged), None);
        let both = |n| n * 10_000 + if n >= 1_500 { 30_000_000 } else { 0 };
        assert!(step(3_000, 100_000, both, unchanged).is_some());
    }

    #[test]
    fn a_change_of_the_network_is_no_step() {
        assert_eq!(step(1_000, 5_000_000, unchanged, unchanged), None, "queues");
        assert_eq!(step(1_000, 100_000, unchanged, at(500, 40_000_000)), None, "a longer forward path");
        assert_eq!(step(1_000, 100_000, unchanged, at(500, -9_000_000)), None, "a shorter forward path");
        assert_eq!(step(100, 100_000, unchanged, |n| if n == 50 { 80_000_000 } else { 0 }), None, "a spike");
        for few in 0..6 {
            assert_eq!(step(few, 0, unchanged, unchanged), None);
        }
    }

    #[test]
    fn a_hundredth_of_the_round_trip_is_no_step_and_a_fiftieth_is() {
        assert_eq!(step(1_000, 1_000, at(500, 190_000), unchanged), None);
        assert!(step(1_000, 1_000, at(500, 400_000), unchanged).is_some());
    }

    #[test]
    fn impossible_delays_do_not_overflow() {
        let mut windows = Windows::new(0, f64::NAN);
        for n in 0..20 {
            let far = if n % 2 == 0 { i64::MAX } else { i64::MIN };
            windows.record(n, far, far);
        }
        let _ = windows.step_ns();
    }
}
