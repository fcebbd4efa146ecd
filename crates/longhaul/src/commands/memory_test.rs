//! Copies from memory to memory, which test a path. They may be endless: then the user stops them.

use model::Locator;
use model::locator::{ENDLESS, NodePlace};
use model::units::{BitRate, Bytes};
use model::v1;

use crate::failure::Failure;

/// Whether an end of a copy is memory: `null:` or `zero:`.
pub fn is_memory(locator: &Locator) -> bool {
    match locator {
        Locator::Null | Locator::Zero(_) => true,
        Locator::Node { place, .. } => matches!(place, NodePlace::Null | NodePlace::Zero(_)),
        _ => false,
    }
}

fn is_endless(locator: &Locator) -> bool {
    matches!(locator, Locator::Zero(ENDLESS) | Locator::Node { place: NodePlace::Zero(ENDLESS), .. })
}

/// Checks that endless zeros go only to a target that keeps nothing, and only from or to this process, which the user can stop.
///
/// # Errors
/// The target would keep the zeros, or they would go on between two nodes.
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

/// Corrects the receipt of a test that was stopped: all payload counts, although its file is unfinished, and nothing is left to
/// resume.
pub fn correct_stopped(receipt: &mut v1::Receipt, moved: u64) {
    if receipt.state != v1::State::Interrupted {
        return;
    }
    receipt.bytes = moved;
    receipt.sent_bytes = moved;
    receipt.kept_bytes = 0;
    receipt.rate_bit_s = BitRate::mean(Bytes(moved), receipt.seconds).0;
    receipt.error = Some("stopped".to_owned());
}
