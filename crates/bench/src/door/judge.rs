//! What is to be reached, and whether it was. Arithmetic; knows nothing of how it was measured.

use super::idle::Idle;
use super::{Row, Sample, Who};
use crate::statistics::{Spread, spread};

/// So many times xrootd's rate is as good as less processor time.
const FASTER: f64 = 1.3;
/// So much of xrootd's processor time for a byte is as good as more rate.
const CHEAPER: f64 = 0.7;
/// What ten thousand idle connections may take, in bytes.
pub const IDLE_MAX: u64 = 300_000_000;
/// Questions by the second.
pub const ASKS_MIN: f64 = 2_000.0;

/// Two servers in one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Our rate by theirs.
    pub rate: f64,
    /// Our processor time by theirs.
    pub cpu: f64,
    /// Whether that is enough.
    pub met: bool,
}

/// The spread of a value over one's runs.
pub fn of(row: &Row, who: Who, value: fn(&Sample) -> f64) -> Option<Spread> {
    spread(row.of(who).iter().map(value))
}

/// As fast, and either faster by far or cheaper by far; by medians. None where one of them did not run.
pub fn judge(row: &Row) -> Option<Verdict> {
    let ratio = |value| Some(of(row, Who::Ours, value)?.median / of(row, Who::Theirs, value)?.median);
    let (rate, cpu) = (ratio(|s| s.bytes_s)?, ratio(|s| s.server_s_per_gb)?);
    Some(Verdict { rate, cpu, met: row.note.is_none() && rate >= 1.0 && (rate >= FASTER || cpu <= CHEAPER) })
}

/// Whether idle connections take little enough.
pub fn is_small(idle: &Idle) -> bool {
    idle.with < IDLE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: (f64, f64), theirs: (f64, f64)) -> Row {
        let samples = [ours, theirs].map(|(bytes_s, server_s_per_gb)| {
            vec![Sample { bytes_s, server_s_per_gb, client_s_per_gb: 0.1, others: 0.0 }]
        });
        Row { title: "a".into(), samples, note: None }
    }

    #[test]
    fn cells_are_judged() {
        let met = |ours, theirs| judge(&row(ours, theirs)).unwrap().met;
        assert!(met((1.4, 1.0), (1.0, 1.0)), "faster");
        assert!(met((1.0, 0.6), (1.0, 1.0)), "as fast, cheaper");
        assert!(!met((0.9, 0.1), (1.0, 1.0)), "cheaper, but slower");
        assert!(!met((1.2, 0.8), (1.0, 1.0)), "a little of both");
        let mut absent = row((1.0, 1.0), (1.0, 1.0));
        absent.samples[0].clear();
        assert_eq!(judge(&absent), None);
    }
}
