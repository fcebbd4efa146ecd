//! The processor time of other processes during a measurement.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

use crate::account::machine_busy_s;

/// The counters of processor time at the start of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct LoadBaseline {
    at: Instant,
    busy_s: f64,
    own_s: f64,
}

impl LoadBaseline {
    /// Reads the counters. No child of this process may be running: its processor time would count as that of others.
    ///
    /// # Errors
    /// /proc/stat or /proc/self/stat cannot be read.
    pub fn now() -> Result<LoadBaseline> {
        Ok(LoadBaseline { at: Instant::now(), busy_s: machine_busy_s()?, own_s: own_s()? })
    }

    /// The processor time of others since the baseline, in % of one processor. All children that were started since then must have been
    /// waited for.
    ///
    /// # Errors
    /// /proc/stat or /proc/self/stat cannot be read.
    pub fn others_percent(&self) -> Result<f64> {
        let now = LoadBaseline::now()?;
        let others = (now.busy_s - self.busy_s) - (now.own_s - self.own_s);
        Ok((others / (now.at - self.at).as_secs_f64() * 100.0).max(0.0))
    }
}

/// CPU seconds of this process, with its emulators, and of all children that it waited for.
fn own_s() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let ticks = ticks(&text).context("/proc/self/stat has another form")?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

/// utime, stime, cutime and cstime (proc_pid_stat(5)).
fn ticks(text: &str) -> Option<u64> {
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ticks_are_added_up() {
        assert_eq!(ticks("7 (a) b (c)) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0"), Some(100));
        assert_eq!(ticks("7 (short) S 1"), None);
        assert!(LoadBaseline::now().unwrap().others_percent().unwrap() >= 0.0);
    }
}
