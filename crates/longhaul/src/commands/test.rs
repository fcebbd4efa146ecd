//! Copies that keep nothing: from memory to memory, to test a path. They may be endless, and end by being stopped.

use model::Locator;
use model::locator::{ENDLESS, Place};
use model::units::{BitRate, Bytes};
use model::v1;

use crate::failure::Failure;

/// Whether an end is memory.
pub fn is_memory(locator: &Locator) -> bool {
    match locator {
        Locator::Null | Locator::Zero(_) => true,
        Locator::Node { place, .. } => matches!(place, Place::Null | Place::Zero(_)),
        _ => false,
    }
}

fn is_endless(locator: &Locator) -> bool {
    matches!(locator, Locator::Zero(ENDLESS) | Locator::Node { place: Place::Zero(ENDLESS), .. })
}

/// Zeros without end go nowhere but where nothing is kept, and only while somebody is there to stop them.
pub fn check_endless(sources: &[Locator], target: &Locator) -> Result<(), Failure> {
    if !sources.iter().any(is_endless) {
        return Ok(());
    }
    let is_node = |locator: &Locator| matches!(locator, Locator::Node { .. });
    if !matches!(target, Locator::Pipe) && !is_memory(target) {
        return Err(Failure::usage("zero: without a size has no end; say how much to write, like zero:10GB"));
    }
    if is_node(target) && sources.iter().any(is_node) {
        return Err(Failure::usage("zero: without a size would go on between two nodes; say how much, like zero:10GB"));
    }
    Ok(())
}

/// What was moved counts, though the file that it was a part of was not finished, and there is nothing to go on with.
pub fn settle(receipt: &mut v1::Receipt, moved: u64) {
    if receipt.state != v1::State::Interrupted {
        return;
    }
    (receipt.bytes, receipt.sent_bytes, receipt.kept_bytes) = (moved, moved, 0);
    receipt.rate_bit_s = BitRate::mean(Bytes(moved), receipt.seconds).0;
    receipt.error = Some("stopped".to_owned());
}
