//! The targets, and whether they were met: arithmetic. Does not know: how the numbers were measured.

use super::idle::Idle;
use super::long_path::{self, LongPathCase, LongPathRow, ReadingProgram, spread_of as spread_of_runs};
use super::{Row, Sample, ServerKind};
use crate::statistics::{Spread, spread};

/// A rate of this many times xrootd's is enough without less processor time.
const RATE_RATIO_ENOUGH: f64 = 1.3;
/// This share of xrootd's processor time per byte is enough without a higher rate.
const CPU_RATIO_ENOUGH: f64 = 0.7;
/// The most memory that ten thousand idle connections may take, in bytes.
pub const IDLE_MAX: u64 = 300_000_000;
/// The least number of requests per second.
pub const REQUESTS_S_MIN: f64 = 2_000.0;

/// The least share of the bottleneck that `longhaul cp` reaches from an xrootd over a long path.
pub const LONG_PATH_SHARE_MIN: f64 = 0.90;

/// Longhaul and xrootd compared in one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Longhaul's rate divided by xrootd's.
    pub rate: f64,
    /// Longhaul's processor time divided by xrootd's.
    pub cpu: f64,
    /// Whether the target was met.
    pub met: bool,
}

/// The spread of a value over the runs of one server.
pub fn spread_of(row: &Row, kind: ServerKind, value: fn(&Sample) -> f64) -> Option<Spread> {
    spread(row.of(kind).iter().map(value))
}

/// Judges a cell by medians. Target: Longhaul is at least as fast, and either much faster or much cheaper. None if one of the servers did
/// not run.
pub fn judge(row: &Row) -> Option<Verdict> {
    let ratio = |value| {
        Some(spread_of(row, ServerKind::Ours, value)?.median / spread_of(row, ServerKind::Theirs, value)?.median)
    };
    let (rate, cpu) = (ratio(|s| s.bytes_s)?, ratio(|s| s.server_s_per_gb)?);
    Some(Verdict {
        rate,
        cpu,
        met: row.note.is_none() && rate >= 1.0 && (rate >= RATE_RATIO_ENOUGH || cpu <= CPU_RATIO_ENOUGH),
    })
}

/// Whether idle connections take less memory than the target.
pub fn is_small(idle: &Idle) -> bool {
    idle.with_bytes < IDLE_MAX
}

/// The figure of a case over the long path that has a target, and whether the target was met: the share of the bottleneck that `longhaul
/// cp` reached from an xrootd, and xrdcp's rate from a node divided by its rate from an xrootd. None without a target.
pub fn judge_long_path(rows: &[LongPathRow], case: LongPathCase) -> Option<(f64, bool)> {
    let wall_s = |case| spread_of_runs(rows, case, |run| run.wall_s).map(|spread| spread.median);
    let (figure, least) = match case {
        (ReadingProgram::Longhaul, ServerKind::Theirs) => {
            let share = |wall_s| long_path::bottleneck().net_share(long_path::BYTES, long_path::cell().rtt_s(), wall_s);
            (wall_s(case).map(share), LONG_PATH_SHARE_MIN)
        }
        (ReadingProgram::Xrdcp, ServerKind::Ours) => {
            let theirs = wall_s((ReadingProgram::Xrdcp, ServerKind::Theirs));
            (theirs.zip(wall_s(case)).map(|(theirs, ours)| theirs / ours), 1.0)
        }
        _ => return None,
    };
    Some(figure.map_or((f64::NAN, false), |figure| (figure, figure >= least)))
}

#[cfg(test)]
mod tests {
    use super::super::long_path::{CASES, LongPathRun};
    use super::*;

    fn row(ours: (f64, f64), theirs: (f64, f64)) -> Row {
        let samples = [ours, theirs].map(|(bytes_s, server_s_per_gb)| {
            vec![Sample { bytes_s, server_s_per_gb, client_s_per_gb: 0.1, others_cores: 0.0 }]
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
    #[test]
    fn cases_over_a_long_path_are_judged() {
        let run = |wall_s| LongPathRun { wall_s, client_s: 1.0, server_s: 1.0, others_percent: 0.0, limited: None };
        // The ideal is 26.6 s.
        let rows = |seconds: [f64; 4]| -> Vec<LongPathRow> {
            CASES.into_iter().zip(seconds).map(|(case, wall_s)| (case, Ok(vec![run(wall_s)]))).collect()
        };
        let met = |seconds, case| judge_long_path(&rows(seconds), case).map(|(_, met)| met);
        assert_eq!(met([28.0, 50.0, 49.0, 28.0], CASES[0]), Some(true));
        assert_eq!(met([31.0, 50.0, 49.0, 28.0], CASES[0]), Some(false));
        assert_eq!(met([28.0, 50.0, 49.0, 28.0], CASES[2]), Some(true));
        assert_eq!(met([28.0, 50.0, 51.0, 28.0], CASES[2]), Some(false));
        assert_eq!(met([28.0, 50.0, 49.0, 28.0], CASES[1]), None);
        let failed: Vec<LongPathRow> = vec![(CASES[0], Err("no route".into()))];
        assert!(judge_long_path(&failed, CASES[0]).is_some_and(|(_, met)| !met));
    }
}
