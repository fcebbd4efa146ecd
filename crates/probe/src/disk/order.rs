//! Orders of disk tests: their bounds, the space that they need, the time that they may take. This module does not know the disk.

use std::time::Duration;

use model::Bytes;
use model::v1::probe::disk::{Order, Test};

use crate::{Error, Result};

/// The unit of files, blocks and direct access.
pub(super) const PAGE: u64 = sys::files::ALIGNMENT as u64;
/// The largest block.
const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// The most memory for one block of each worker. A worker that writes may have a few blocks.
const BLOCKS_BYTES_MAX: u64 = 1 << 30;
const FILE_BYTES_MAX: u64 = 16 << 40;
const BUDGET_BYTES_MAX: u64 = 1 << 50;
const SMALL_BYTES_MAX: u64 = 1 << 20;
const WORKERS_MAX: u32 = 256;
const FSYNCS_MAX: u32 = 1_000_000;
const SMALL_FILES_MAX: u32 = 10_000_000;
const SECONDS_MAX: f64 = 3_600.0;
/// Values of one sweep.
const SWEEP_MAX: usize = 16;

const _: () = assert!(SMALL_BYTES_MAX <= BLOCK_BYTES_MAX, "a small file is written in one call");
const _: () =
    assert!(WORKERS_MAX as u64 * PAGE <= BLOCKS_BYTES_MAX, "any number of workers may have the smallest block");

fn refuse<T>(why: String) -> Result<T> {
    Err(Error::Order(why))
}

/// Checks that a sweep has values, not too many, all within bounds.
fn sweep<T: Copy + PartialOrd + std::fmt::Display>(what: &str, values: &[T], least: T, most: T) -> Result<()> {
    if values.is_empty() || values.len() > SWEEP_MAX {
        return refuse(format!("{what}: {} values; give 1 to {SWEEP_MAX}", values.len()));
    }
    values.iter().try_for_each(|value| within(what, *value, least, most))
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(what: &str, value: T, least: T, most: T) -> Result<()> {
    // NaN is within no bounds.
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(format!("{what} is {value}; it must be from {least} to {most}"))
}

fn whole_pages(what: &str, value: u64) -> Result<()> {
    if value.is_multiple_of(PAGE) {
        return Ok(());
    }
    refuse(format!("{what} is {value}; direct access requires multiples of {PAGE} bytes"))
}

/// Whether an order includes a test.
pub(super) fn wants(order: &Order, test: Test) -> bool {
    order.tests.contains(&test)
}

pub(super) fn is_sequential(order: &Order) -> bool {
    wants(order, Test::Write) || wants(order, Test::Read)
}

fn most_workers(order: &Order) -> u64 {
    order.workers.iter().copied().max().unwrap_or(0).into()
}

/// Checks the bounds of an order, and that its tests fit its own budget.
///
/// # Errors
/// [`Error::Order`]: the field, its value and its bounds.
pub fn check(order: &Order) -> Result<()> {
    if order.tests.is_empty() || order.tests.len() > SWEEP_MAX {
        return refuse(format!("tests: {}; give 1 to {SWEEP_MAX}", order.tests.len()));
    }
    if order.modes.is_empty() || order.modes.len() > SWEEP_MAX {
        return refuse("modes: none, or too many; say direct, buffered or both".into());
    }
    sweep("workers", &order.workers, 1, WORKERS_MAX)?;
    within("block_bytes", order.block_bytes, PAGE, BLOCK_BYTES_MAX)?;
    whole_pages("block_bytes", order.block_bytes)?;
    let blocks = order.block_bytes * most_workers(order);
    if blocks > BLOCKS_BYTES_MAX {
        let all = Bytes(blocks);
        let most = Bytes(BLOCKS_BYTES_MAX);
        return refuse(format!(
            "the blocks of all workers take {all} of memory, at most {most}: smaller blocks, or fewer workers"
        ));
    }
    // The lower bound also excludes NaN, and times that round to 0.
    within("seconds", order.seconds, 0.001, SECONDS_MAX)?;
    within("sustained_seconds", order.sustained_seconds, 0.001, SECONDS_MAX)?;
    within("budget_bytes", order.budget_bytes, PAGE, BUDGET_BYTES_MAX)?;
    if is_sequential(order) {
        sweep("file_bytes", &order.file_bytes, PAGE, FILE_BYTES_MAX)?;
        order.file_bytes.iter().try_for_each(|bytes| whole_pages("file_bytes", *bytes))?;
    }
    if wants(order, Test::Fsync) {
        within("fsyncs", order.fsyncs, 1, FSYNCS_MAX)?;
    }
    if wants(order, Test::SmallFiles) {
        sweep("small_bytes", &order.small_bytes, 1, SMALL_BYTES_MAX)?;
        within("small_files", order.small_files, 1, SMALL_FILES_MAX)?;
        // At most 256, as checked above.
        within("small_files", order.small_files, most_workers(order) as u32, SMALL_FILES_MAX)?;
    }
    if wants(order, Test::Sustained) && order.budget_bytes < order.block_bytes * most_workers(order) {
        let budget = Bytes(order.budget_bytes);
        let least = Bytes(blocks);
        return refuse(format!("the budget of {budget} is below one block of each worker, {least}"));
    }
    let needed = needed(order);
    if needed.bytes > order.budget_bytes {
        let needed = Bytes(needed.bytes);
        let budget = Bytes(order.budget_bytes);
        return refuse(format!(
            "the largest test needs {needed}, the budget is {budget}: fewer workers, smaller files"
        ));
    }
    Ok(())
}

/// The most bytes and files on the disk at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpaceNeeded {
    pub bytes: u64,
    pub files: u64,
}

/// The space that a checked order needs.
pub(super) fn needed(order: &Order) -> SpaceNeeded {
    let largest = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let mut bytes = 0;
    // The test's directory, a directory and a file for each worker, and one short-lived file.
    let mut files = 2 * most_workers(order) + 2;
    if is_sequential(order) {
        bytes = largest(&order.file_bytes) * most_workers(order);
    }
    if wants(order, Test::Fsync) {
        bytes = bytes.max(u64::from(order.fsyncs) * PAGE);
    }
    if wants(order, Test::SmallFiles) {
        // A file takes whole blocks of the file system.
        let each = largest(&order.small_bytes).next_multiple_of(PAGE);
        bytes = bytes.max(u64::from(order.small_files) * each);
        files += u64::from(order.small_files);
    }
    if wants(order, Test::Sustained) {
        bytes = bytes.max(order.budget_bytes);
    }
    SpaceNeeded { bytes, files }
}

/// The longest time of an order within its bounds, if every test runs to its limit and no flush lasts long. A deadline of a run
/// must add time to it.
pub fn longest(order: &Order) -> Duration {
    let modes = order.modes.len();
    let sweep = order.file_bytes.len() * order.workers.len() * modes;
    // Without `write`, the files of `read` are still written, under the same limit.
    let sequential = if wants(order, Test::Read) { 2 * sweep } else { sweep };
    let small = 2 * order.small_bytes.len() * order.workers.len();
    let points =
        [(is_sequential(order), sequential), (wants(order, Test::Fsync), 1), (wants(order, Test::SmallFiles), small)];
    let points: usize = points.iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, points)| points).sum();
    let sustained = if wants(order, Test::Sustained) { modes as f64 * order.sustained_seconds } else { 0.0 };
    Duration::try_from_secs_f64(points as f64 * order.seconds + sustained).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use model::v1::probe::disk::IoMode;
    use proptest::prelude::*;

    use super::*;

    fn why(change: impl FnOnce(&mut Order)) -> String {
        let mut order = Order::default();
        change(&mut order);
        match check(&order) {
            Err(Error::Order(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_default_order_is_within_bounds() {
        check(&Order::default()).unwrap();
        assert_eq!(needed(&Order::default()).bytes, 32 << 30);
        // 1 size, 4 numbers of workers, 2 modes, write and read: 16 points; flushes; 2 × 4 small files, made and removed;
        // 2 × 60 s.
        assert_eq!(longest(&Order::default()), Duration::from_secs(160 + 10 + 160 + 120));
    }

    #[test]
    fn a_refused_order_names_the_field_and_its_bounds() {
        assert!(why(|o| o.tests.clear()).starts_with("tests"));
        assert!(why(|o| o.modes.clear()).starts_with("modes"));
        assert!(why(|o| o.workers = vec![0]).starts_with("workers is 0; it must be from 1 to 256"));
        assert!(why(|o| o.workers = vec![1; 17]).starts_with("workers: 17 values"));
        assert!(why(|o| o.file_bytes = vec![0]).starts_with("file_bytes is 0"));
        assert!(why(|o| o.file_bytes = vec![u64::MAX]).starts_with("file_bytes is 18446744073709551615"));
        assert!(why(|o| o.file_bytes = vec![5000]).contains("multiples of 4096"));
        assert!(why(|o| o.block_bytes = 0).starts_with("block_bytes is 0"));
        assert!(why(|o| o.block_bytes = u64::MAX).starts_with("block_bytes is 18"));
        assert!(why(|o| (o.block_bytes, o.workers) = (64 << 20, vec![1, 17])).contains("1.06 GiB of memory"));
        assert!(why(|o| o.seconds = f64::NAN).starts_with("seconds is NaN"));
        assert!(why(|o| o.seconds = f64::INFINITY).starts_with("seconds is inf"));
        assert!(why(|o| o.sustained_seconds = -1.0).starts_with("sustained_seconds is -1"));
        assert!(why(|o| o.budget_bytes = 0).starts_with("budget_bytes is 0"));
        assert!(why(|o| o.budget_bytes = 1 << 20).contains("below one block of each worker, 8.00 MiB"));
        assert!(why(|o| o.file_bytes = vec![8 << 30]).contains("needs 64.0 GiB, the budget is 32.0 GiB"));
        assert!(why(|o| o.fsyncs = 0).starts_with("fsyncs is 0"));
        assert!(why(|o| o.small_files = 0).starts_with("small_files is 0"));
        assert!(why(|o| o.small_files = 7).starts_with("small_files is 7; it must be from 8"));
        assert!(why(|o| o.small_bytes = vec![2 << 20]).starts_with("small_bytes is 2097152"));
        // Fields that no test of the order uses are not checked.
        let only = Order { tests: vec![Test::Write], fsyncs: 0, small_bytes: Vec::new(), ..Order::default() };
        check(&only).unwrap();
    }

    fn any_order() -> impl Strategy<Value = Order> {
        let tests = [Test::Write, Test::Read, Test::Fsync, Test::SmallFiles, Test::Sustained];
        let size = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), (0..1u64 << 24).prop_map(|n| n * PAGE)];
        let count = prop_oneof![Just(0), Just(u32::MAX), any::<u32>(), 1..300u32];
        let span = prop_oneof![any::<f64>(), 0.0..5_000.0];
        let lists = (
            prop::sample::subsequence(tests.to_vec(), 0..=5),
            prop::sample::subsequence(vec![IoMode::Direct, IoMode::Buffered], 0..=2),
            prop::collection::vec(size.clone(), 0..3),
            prop::collection::vec(count.clone(), 0..3),
            prop::collection::vec(size.clone(), 0..3),
        );
        (lists, [size.clone(), size], [span.clone(), span], [count.clone(), count]).prop_map(
            |((tests, modes, file_bytes, workers, small_bytes), [block_bytes, budget_bytes], spans, counts)| Order {
                tests,
                modes,
                file_bytes,
                workers,
                block_bytes,
                seconds: spans[0],
                sustained_seconds: spans[1],
                budget_bytes,
                fsyncs: counts[0],
                small_bytes,
                small_files: counts[1],
                ..Order::default()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        /// Any order is accepted or refused without overflow, and an accepted one is within all bounds.
        #[test]
        fn any_order_is_accepted_or_refused(order in any_order()) {
            match check(&order) {
                Err(Error::Order(why)) => prop_assert!(!why.is_empty()),
                Err(other) => prop_assert!(false, "{:?}", other),
                Ok(()) => {
                    prop_assert!(needed(&order).bytes <= order.budget_bytes);
                    prop_assert!(order.workers.iter().all(|n| (1..=256).contains(n)));
                    prop_assert!(order.block_bytes % PAGE == 0 && order.block_bytes > 0);
                    prop_assert!(longest(&order) <= Duration::from_secs(3_600 * 3_000));
                }
            }
        }

        /// The same near the bounds, where most orders pass.
        #[test]
        fn orders_near_the_bounds_are_accepted_if_they_fit(
            pages in 1..1u64 << 20, workers in 1..257u32, block in 1..300u64, budget in 1..1u64 << 24, files in 1..2_000u32,
        ) {
            let order = Order {
                file_bytes: vec![pages * PAGE],
                workers: vec![workers],
                block_bytes: block * PAGE,
                budget_bytes: budget * PAGE,
                small_files: files,
                ..Order::default()
            };
            let fits = pages * u64::from(workers) <= budget
                && block * u64::from(workers) <= budget.min((1 << 30) / PAGE)
                && u64::from(files) * 16 <= budget
                && budget >= 1_000
                && files >= workers;
            prop_assert_eq!(check(&order).is_ok(), fits, "{:?}", check(&order));
        }
    }
}
