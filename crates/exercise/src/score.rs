//! Score cards: the rates of data sets against what a data transfer node of its size should reach (ESnet's cards), against what path and
//! disks could have given, and against the rates of others.
//!
//! A row is graded by its rate alone. The fraction says how much of the slowest measured stage that rate is. A stage that was not
//! measured is no limit here: it is missing, and the table says so.
//!
//! What it does not know: how rates and limits were measured.

mod card;
mod profile;
mod text;

use serde::Serialize;

pub use card::{CardColumn, Grade, ScoreCard};
pub use profile::{ReferenceProfile, ReferenceRates};
pub use text::text;

/// A stage binds if the rate is within this part of its limit. A limit is measured by a test of its own, minutes before, over
/// a path and disks that others use too; two such measurements differ by 10 % and more.
pub const BINDING_TOLERANCE: f64 = 0.15;

/// What was measured of a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreRow {
    /// The name of the data set.
    pub data_set: String,
    /// Files that arrived.
    pub files: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Files that did not arrive.
    pub errors: u64,
    /// What the stages gave in tests of their own.
    pub limits: StageLimits,
}

/// The limit of each stage, bit/s; none where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageLimits {
    /// The path: a test from memory to memory.
    pub path_bit_s: Option<f64>,
    /// Reading at the source.
    pub read_bit_s: Option<f64>,
    /// Writing at the target.
    pub write_bit_s: Option<f64>,
}

/// What held a data set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BindingStage {
    /// The path.
    Path,
    /// Reading at the source.
    Read,
    /// Writing at the target.
    Write,
    /// Neither path nor disk: files, sessions or processors.
    Neither,
    /// The rate is above the slowest limit that was measured, by more than [`BINDING_TOLERANCE`]. That limit was measured wrongly.
    Exceeded,
    /// No stage was measured.
    Unknown,
}

/// A row with its judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreResult {
    /// What was measured.
    pub row: ScoreRow,
    /// The rate of payload, bit/s; 0 where no time passed.
    pub rate_bit_s: f64,
    /// The grade of that rate.
    pub grade: Grade,
    /// The rate as a part of the slowest measured stage.
    pub fraction: Option<f64>,
    /// What held it back.
    pub binds: BindingStage,
    /// The rate as a multiple of the reference's; none without a reference for this data set.
    pub of_reference: Option<f64>,
}

/// Rows on one card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreTable {
    /// From where to where.
    pub title: String,
    /// The card.
    pub card: ScoreCard,
    /// The speed of the slower of both network interfaces, bit/s.
    pub nic_bit_s: f64,
    /// Whose rates they are compared with.
    pub reference: Option<ReferenceProfile>,
    /// The rows.
    pub results: Vec<ScoreResult>,
}

impl StageLimits {
    /// The slowest measured stage and its limit. Of equal limits the path comes first: it is the one that two sites share.
    pub fn slowest(&self) -> Option<(BindingStage, f64)> {
        let stages = [
            (BindingStage::Path, self.path_bit_s),
            (BindingStage::Read, self.read_bit_s),
            (BindingStage::Write, self.write_bit_s),
        ];
        let measured = stages.into_iter().filter_map(|(stage, limit)| Some((stage, limit.filter(is_rate)?)));
        measured.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What held a rate back.
    pub fn binding(&self, rate_bit_s: f64) -> BindingStage {
        match self.slowest() {
            None => BindingStage::Unknown,
            Some((_, limit)) if rate_bit_s > limit * (1.0 + BINDING_TOLERANCE) => BindingStage::Exceeded,
            Some((stage, limit)) if rate_bit_s >= limit * (1.0 - BINDING_TOLERANCE) => stage,
            Some(_) => BindingStage::Neither,
        }
    }
}

/// A limit of zero, or one that is no number, was not measured.
fn is_rate(rate_bit_s: &f64) -> bool {
    rate_bit_s.is_finite() && *rate_bit_s > 0.0
}

impl ScoreRow {
    /// The rate of payload, bit/s; 0 where no time passed.
    pub fn rate_bit_s(&self) -> f64 {
        mean_bit_s(self.bytes, self.seconds)
    }

    /// The row with its judgement.
    pub fn judged(self, card: ScoreCard, nic_bit_s: f64, reference: Option<&ReferenceProfile>) -> ScoreResult {
        let rate_bit_s = self.rate_bit_s();
        ScoreResult {
            rate_bit_s,
            grade: card.grade(rate_bit_s, nic_bit_s),
            fraction: self.limits.slowest().map(|(_, limit)| rate_bit_s / limit),
            binds: self.limits.binding(rate_bit_s),
            of_reference: reference
                .and_then(|reference| reference.rate_bit_s(&self.data_set))
                .map(|reference_bit_s| rate_bit_s / reference_bit_s),
            row: self,
        }
    }
}

impl ScoreTable {
    /// Judges rows by a card.
    pub fn new(
        title: String,
        card: ScoreCard,
        nic_bit_s: f64,
        reference: Option<ReferenceProfile>,
        rows: Vec<ScoreRow>,
    ) -> ScoreTable {
        let results = rows.into_iter().map(|row| row.judged(card, nic_bit_s, reference.as_ref())).collect();
        ScoreTable { title, card, nic_bit_s, reference, results }
    }

    /// The rate of all rows, one after the other, bit/s.
    pub fn rate_bit_s(&self) -> f64 {
        let bytes = self.results.iter().map(|result| result.row.bytes).sum();
        mean_bit_s(bytes, self.results.iter().map(|result| result.row.seconds).sum())
    }

    /// The grade of the rate of all rows. Large sets weigh more, as they do for those who move them.
    pub fn grade(&self) -> Grade {
        self.card.grade(self.rate_bit_s(), self.nic_bit_s)
    }
}

fn mean_bit_s(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TB: u64 = 1_000_000_000_000;
    const GBIT: f64 = 1e9;

    fn row(bytes: u64, seconds: f64, limits: StageLimits) -> ScoreRow {
        ScoreRow { data_set: "ds10".into(), files: 1_000, bytes, seconds, errors: 0, limits }
    }

    fn limits(path: f64, read: f64, write: f64) -> StageLimits {
        let known = |gbit_s: f64| Some(gbit_s * GBIT).filter(|rate| *rate > 0.0);
        StageLimits { path_bit_s: known(path), read_bit_s: known(read), write_bit_s: known(write) }
    }

    #[test]
    fn the_slowest_measured_stage_binds() {
        assert_eq!(limits(9.4, 20.0, 12.0).binding(9.0 * GBIT), BindingStage::Path);
        assert_eq!(limits(90.0, 20.0, 12.0).binding(10.5 * GBIT), BindingStage::Write);
        assert_eq!(limits(90.0, 20.0, 0.0).binding(19.0 * GBIT), BindingStage::Read);
        assert_eq!(limits(10.0, 10.0, 10.0).binding(10.0 * GBIT), BindingStage::Path);
    }

    #[test]
    fn a_rate_far_below_each_limit_is_bound_by_neither_path_nor_disk() {
        assert_eq!(limits(10.0, 20.0, 20.0).binding(8.5 * GBIT), BindingStage::Path, "15 % below");
        assert_eq!(limits(10.0, 20.0, 20.0).binding(8.49 * GBIT), BindingStage::Neither);
        assert_eq!(limits(10.0, 20.0, 20.0).binding(11.5 * GBIT), BindingStage::Path, "15 % above");
        assert_eq!(limits(10.0, 20.0, 20.0).binding(11.51 * GBIT), BindingStage::Exceeded);
    }

    #[test]
    fn a_stage_that_was_not_measured_is_no_limit() {
        assert_eq!(StageLimits::default().binding(GBIT), BindingStage::Unknown);
        let odd = StageLimits { path_bit_s: Some(0.0), read_bit_s: Some(f64::NAN), write_bit_s: Some(-1.0) };
        assert_eq!((odd.binding(GBIT), odd.slowest()), (BindingStage::Unknown, None));
        let judged = row(TB, 3_600.0, StageLimits::default()).judged(ScoreCard::TERASCALE, 10.0 * GBIT, None);
        assert_eq!((judged.fraction, judged.of_reference), (None, None));
    }

    #[test]
    fn a_row_is_judged_by_card_limits_and_reference() {
        let reference = ReferenceProfile::of_name("epoc-log-2020").unwrap();
        let judged =
            row(TB, 1_000.0, limits(9.4, 9.0, 16.0)).judged(ScoreCard::TERASCALE, 10.0 * GBIT, Some(&reference));
        assert_eq!(judged.rate_bit_s, 8.0 * GBIT);
        assert_eq!((judged.grade, judged.binds), (Grade::A, BindingStage::Read));
        assert!((judged.fraction.unwrap() - 8.0 / 9.0).abs() < 1e-9);
        // The log has 653.56 MiB/s for ds10.
        assert!((judged.of_reference.unwrap() - 1e9 / (653.56 * 1_048_576.0)).abs() < 1e-6);
        let slow = row(TB, 4_000.0, limits(9.4, 9.0, 16.0)).judged(ScoreCard::TERASCALE, 10.0 * GBIT, None);
        assert_eq!((slow.grade, slow.binds), (Grade::Fail, BindingStage::Neither));
    }

    #[test]
    fn a_table_is_graded_by_all_bytes_in_all_seconds() {
        let rows = vec![row(TB, 2_000.0, StageLimits::default()), row(TB / 1_000, 2_000.0, StageLimits::default())];
        let table = ScoreTable::new("a to b".into(), ScoreCard::TERASCALE, 10.0 * GBIT, None, rows);
        assert_eq!(table.results.iter().map(|result| result.grade).collect::<Vec<_>>(), [Grade::A, Grade::Fail]);
        // 1.001 TB in 4,000 s is below 1 TB an hour.
        assert_eq!(table.grade(), Grade::Fail);
        let empty = ScoreTable::new("a to b".into(), ScoreCard::TERASCALE, 10.0 * GBIT, None, Vec::new());
        assert_eq!((empty.rate_bit_s(), empty.grade()), (0.0, Grade::Fail));
    }

    proptest! {
        #[test]
        fn a_judgement_does_not_depend_on_the_volume(
            bytes in 1_000_000u64..1_000_000_000_000,
            seconds in 0.1..1e5f64,
            factor in 2u64..1_000,
            path in 0.0..400.0f64,
            read in 0.0..400.0f64,
            write in 0.0..400.0f64,
        ) {
            let judge = |row: ScoreRow| row.judged(ScoreCard::TERASCALE, 100.0 * GBIT, None);
            let limits = limits(path, read, write);
            let one = judge(row(bytes, seconds, limits));
            let many = judge(row(bytes * factor, seconds * factor as f64, limits));
            prop_assert!((one.rate_bit_s / many.rate_bit_s - 1.0).abs() < 1e-9);
            prop_assert_eq!((one.grade, one.binds), (many.grade, many.binds));
        }

        #[test]
        fn fraction_and_binding_do_not_depend_on_the_speed(
            rate in 0.01..500.0f64,
            factor in 0.001..1_000.0f64,
            path in 0.01..400.0f64,
            read in 0.01..400.0f64,
            write in 0.01..400.0f64,
        ) {
            let slow = limits(path, read, write);
            let fast = limits(path * factor, read * factor, write * factor);
            let nearest = [0.85, 1.15].map(|bound| (rate / slow.slowest().unwrap().1 * GBIT / bound - 1.0).abs());
            prop_assume!(nearest.iter().all(|distance| *distance > 1e-9));
            prop_assert_eq!(slow.binding(rate * GBIT), fast.binding(rate * factor * GBIT));
        }

        #[test]
        fn a_stage_that_binds_has_the_least_limit(
            rate in 0.01..500.0f64,
            path in 0.0..400.0f64,
            read in 0.0..400.0f64,
            write in 0.0..400.0f64,
        ) {
            let limits = limits(path, read, write);
            let least = [path, read, write].into_iter().filter(|limit| *limit > 0.0).fold(f64::INFINITY, f64::min);
            let bound = match limits.binding(rate * GBIT) {
                BindingStage::Path => path,
                BindingStage::Read => read,
                BindingStage::Write => write,
                BindingStage::Neither | BindingStage::Exceeded | BindingStage::Unknown => return Ok(()),
            };
            prop_assert_eq!(bound, least);
            prop_assert!((rate / bound - 1.0).abs() < BINDING_TOLERANCE + 1e-9);
        }
    }
}
