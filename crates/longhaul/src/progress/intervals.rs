//! The lines of a test, one each second, in the layout of iperf3: the interval, the bytes in it, their rate, the mean.

use std::time::{Duration, Instant};

use model::units::{BitRate, Bytes};

/// The length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest last interval that gets a line of its own, s.
const LAST_SECONDS_MIN: f64 = 0.1;

/// Cuts a test into intervals.
#[derive(Debug, Default)]
pub struct Intervals {
    /// The beginning of the first interval: the time of connecting is not counted.
    origin: Option<Instant>,
    /// The end of the last line's interval: seconds and bytes.
    last_end: (f64, u64),
    lines: u32,
}

impl Intervals {
    /// Takes the bytes so far; returns a line when an interval is over.
    pub fn update(&mut self, now: Instant, bytes: u64, waiting_for: &str) -> Option<String> {
        let origin = *self.origin.get_or_insert(now);
        // Counted from the origin, not from the last line, so that delays do not add up.
        if now - origin < INTERVAL * (self.lines + 1) {
            return None;
        }
        let mut line = self.line(now - origin, bytes);
        // Intervals that passed without a call get no lines later.
        self.lines = (now - origin).as_secs() as u32;
        if !waiting_for.is_empty() {
            line += &format!("   waiting: {waiting_for}");
        }
        Some(line)
    }

    /// The line of the last interval, which the end cut short.
    pub fn last(&mut self, now: Instant, bytes: u64) -> Option<String> {
        let elapsed = now - self.origin?;
        (elapsed.as_secs_f64() - self.last_end.0 >= LAST_SECONDS_MIN).then(|| self.line(elapsed, bytes))
    }

    fn line(&mut self, elapsed: Duration, bytes: u64) -> String {
        let (from, before) = self.last_end;
        let to = elapsed.as_secs_f64();
        // A new attempt counts from 0.
        let moved = bytes.saturating_sub(before);
        self.last_end = (to, bytes);
        let rate = BitRate::mean(Bytes(moved), to - from).to_string();
        let mean = BitRate::mean(Bytes(bytes), to).to_string();
        format!("[{from:>6.2}-{to:<6.2}s]  {:>7}  {rate:>11} now  {mean:>11} mean", decimal(moved))
    }
}

/// Decimal with three digits, like the rates beside it, so that it compares with the output of iperf3.
fn decimal(bytes: u64) -> String {
    const PREFIXES: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut at = 0;
    while value >= 999.5 && at + 1 < PREFIXES.len() {
        value /= 1e3;
        at += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", PREFIXES[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_like_those_of_iperf3() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut intervals = Intervals::default();
        assert_eq!(intervals.update(at(0.0), 0, ""), None);
        assert_eq!(intervals.update(at(0.9), 50_000_000, ""), None);
        let first = intervals.update(at(1.0), 100_000_000, "").unwrap();
        assert_eq!(first, "[  0.00-1.00  s]   100 MB   800 Mbit/s now   800 Mbit/s mean");
        assert_eq!(intervals.update(at(1.9), 200_000_000, ""), None);
        let second = intervals.update(at(2.0), 300_000_000, "the path").unwrap();
        assert_eq!(second, "[  1.00-2.00  s]   200 MB  1.60 Gbit/s now  1.20 Gbit/s mean   waiting: the path");
        assert_eq!(intervals.last(at(2.05), 300_000_000), None);
        assert!(
            intervals.last(at(2.5), 310_000_000).unwrap().starts_with("[  2.00-2.50  s]  10.0 MB   160 Mbit/s now")
        );
    }

    #[test]
    fn intervals_without_an_update_get_no_lines_later() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut intervals = Intervals::default();
        intervals.update(at(0), 0, "");
        assert!(intervals.update(at(7), 7, "").unwrap().starts_with("[  0.00-7.00  s]"));
        assert_eq!(intervals.update(at(7), 7, ""), None);
        assert!(intervals.update(at(8), 7, "").is_some());
    }

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, text) in [(0, "0 B"), (999, "999 B"), (9_990, "9.99 kB"), (99_990, "100 kB"), (999_600, "1.00 MB")]
        {
            assert_eq!(decimal(bytes), text);
        }
        assert_eq!((decimal(117_000_000), decimal(u64::MAX)), ("117 MB".into(), "18.4 EB".into()));
    }
}
