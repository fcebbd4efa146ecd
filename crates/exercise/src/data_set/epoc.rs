//! The eight data sets of the Data Mobility Exhibition (EPOC, ESnet and Globus), ds01 to ds16.
//!
//! What is known of them is the total of each. A campus that took part keeps a table of the totals, and a log of 16 transfers with rates and
//! times (mmoo97/DTN_tests on GitHub); rate times time gives the same totals within 1 %, and 1.03 TB where the table says 1 TB for ds08.
//! The page that lists the numbers of files (globusworld.org/tour/data-mobility-exhibition) was not available to us.
//!
//! The number of files is therefore our choice. The log restricts it: where the campus sent, ds04 and ds06 moved at the same rate (146 MiB/s), ds12 at 237,
//! ds08 at 553 and the others at 810 to 860, whatever their totals. So ds04 and ds06 have files of one size here, those of ds12 are
//! larger, then those of ds08, then the rest. ds01 moved at 6 MiB/s or less; it has files of 10 kB here, so that one set of the card
//! measures files instead of bytes.

use super::{Basis, DataSet, Layout};

const KB: u64 = 1_000;
const MB: u64 = 1_000 * KB;
const GB: u64 = 1_000 * MB;

pub(super) const DS01: DataSet = equal("ds01", "0.1 GB (EPOC); 10,000 files of 10 kB are our choice", 10_000, 10 * KB);
pub(super) const DS04: DataSet = equal("ds04", "10 GB (EPOC); 1,000 files of 10 MB are our choice", 1_000, 10 * MB);
pub(super) const DS06: DataSet = equal("ds06", "100 GB (EPOC); 10,000 files of 10 MB are our choice", 10_000, 10 * MB);
pub(super) const DS08: DataSet = equal("ds08", "1 TB (EPOC); 10,000 files of 100 MB are our choice", 10_000, 100 * MB);
pub(super) const DS10: DataSet = equal("ds10", "1 TB (EPOC); 1,000 files of 1 GB are our choice", 1_000, GB);
pub(super) const DS12: DataSet = equal("ds12", "100 GB (EPOC); 5,000 files of 20 MB are our choice", 5_000, 20 * MB);
pub(super) const DS14: DataSet = equal("ds14", "5 TB (EPOC); 500 files of 10 GB are our choice", 500, 10 * GB);
pub(super) const DS16: DataSet = equal("ds16", "1 TB (EPOC); 10 files of 100 GB are our choice", 10, 100 * GB);

const fn equal(name: &'static str, description: &'static str, count: u64, bytes: u64) -> DataSet {
    DataSet { name, description, layout: Layout::Equal { count, bytes }, basis: Basis::TotalOnly }
}
