//! Waits that the time of the threads does not show: the path or the other end was unreachable, the target was full, or another transfer
//! wrote the same file.

use std::time::Duration;

use model::v1::Limit;

use super::{Case, limit};

/// From this part of the job's time on, a wait is the limit.
const MUCH: f64 = 0.4;

/// The longest wait, if it took much of the time.
pub(super) fn verdict(case: &Case<'_>) -> Option<Limit> {
    let waited = case.measured.waited;
    let elapsed = case.all_attempts.as_secs_f64();
    let waits = [(case.unreachable, "outage"), (waited.space, "space"), (waited.writer, "lock")];
    let (longest, part) = waits.into_iter().max_by_key(|(span, _)| *span)?;
    if longest.is_zero() || longest.as_secs_f64() < elapsed * MUCH {
        return None;
    }
    let duration = format!("{} of {}", seconds(longest), seconds(case.all_attempts));
    Some(match part {
        "outage" => {
            let went_on = if !case.measured.failed { ", and the job went on by itself" } else { "" };
            let evidence = format!("the path or the other end was unreachable for {duration}{went_on}");
            limit(
                part,
                evidence,
                "look for what happened then: the other end's log, `longhaul probe path` as it is now",
            )
        }
        "space" => {
            let evidence = format!("the target was full for {duration}");
            limit(part, evidence, "more room at the target: the job waits for it as long as --wait-space says")
        }
        _ => {
            let evidence = format!("another job was writing the same file for {duration}");
            limit(part, evidence, "one job for each file: `longhaul job list` at the target shows them")
        }
    })
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}
