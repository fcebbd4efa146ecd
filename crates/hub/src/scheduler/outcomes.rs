//! The outcome of a file, from the result of its transfer: done, failed, or another attempt after a pause.

use sched::limits::FILE_BACKOFF;
use sched::retry::{Remedy, remedy};

use crate::database::claims::ClaimedFile;
use crate::database::outcomes::Outcome;
use crate::progress::{TransferResult, is_taken};
use crate::time;

/// Attempts of a file after the first, unless its job says otherwise.
const RETRIES: i64 = 3;

/// The outcome of a file, from its result.
pub(super) fn outcome(file: &ClaimedFile, result: &TransferResult) -> Outcome {
    match result {
        TransferResult::Done { bytes } => Outcome::Done { bytes: i64::try_from(*bytes).unwrap_or(i64::MAX) },
        TransferResult::Cancelled => Outcome::Stopped,
        TransferResult::Unreachable { reason } => retry_or_fail(file, "path", reason),
        TransferResult::Failed { fault, reason } if is_worth_another_try(result) => retry_or_fail(file, fault, reason),
        TransferResult::Failed { fault, reason } => Outcome::Failed { fault: fault.clone(), reason: reason.clone() },
    }
}

/// Whether the cause of a failure may pass, such as a broken path, a busy server or a full disk. Such failures are also a sign of load.
pub(super) fn is_worth_another_try(result: &TransferResult) -> bool {
    match result {
        TransferResult::Unreachable { .. } => true,
        TransferResult::Failed { reason, .. } if is_taken(reason) => false,
        TransferResult::Failed { fault, .. } => {
            let known = model::Fault::of_word(fault).unwrap_or(model::Fault::Peer);
            matches!(remedy(known, false), Remedy::Later | Remedy::QueueWaits)
        }
        TransferResult::Done { .. } | TransferResult::Cancelled => false,
    }
}

/// Another attempt after a pause, or a failure if the file has had all its attempts.
pub(super) fn retry_or_fail(file: &ClaimedFile, fault: &str, reason: &str) -> Outcome {
    let retries = file.options().retries.map_or(RETRIES, i64::from);
    let (fault, reason) = (fault.to_owned(), reason.to_owned());
    if file.attempt > retries {
        return Outcome::Failed { fault, reason };
    }
    let pause = FILE_BACKOFF.pause(file.attempt as u32, fastrand::f64());
    Outcome::Retry { not_before: time::now() + pause.as_millis() as i64, fault, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::JobKind;

    fn file(attempt: i64) -> ClaimedFile {
        ClaimedFile {
            id: 1,
            job: 1,
            at: 0,
            bytes: 0,
            attempt,
            source: String::new(),
            target: String::new(),
            checksum: None,
            has_next_hop: false,
            kind: JobKind::Independent,
            options: r#"{"retries": 2}"#.into(),
            tokens: crate::tokens::FileTokens::default(),
        }
    }

    #[test]
    fn temporary_failures_are_retried_a_few_times() {
        let failed = |fault: &str| TransferResult::Failed { fault: fault.into(), reason: "x".into() };
        assert!(matches!(outcome(&file(1), &failed("path")), Outcome::Retry { .. }));
        assert!(matches!(outcome(&file(2), &failed("storage")), Outcome::Retry { .. }));
        assert!(matches!(outcome(&file(3), &failed("path")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &failed("missing")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &failed("auth")), Outcome::Failed { .. }));
        let taken = TransferResult::Failed { fault: "storage".into(), reason: "f exists already and differs".into() };
        assert!(
            matches!(outcome(&file(1), &taken), Outcome::Failed { .. }),
            "another attempt would meet the same file"
        );
        assert!(matches!(
            outcome(&file(1), &TransferResult::Unreachable { reason: "x".into() }),
            Outcome::Retry { .. }
        ));
        assert_eq!(outcome(&file(9), &TransferResult::Done { bytes: 7 }), Outcome::Done { bytes: 7 });
    }
}
