//! The outcome of a file, from the result of its transfer: another attempt after a pause, another source, or its end.

use std::time::Duration;

use sched::retry::{Backoff, Remedy, remedy};

use crate::database::claims::ClaimedFile;
use crate::database::outcomes::Outcome;
use crate::progress::{Finished, is_taken};
use crate::time;

/// Attempts of a file after the first, unless its job says otherwise.
const RETRIES: i64 = 3;
/// The pause before a second attempt, and the longest.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

/// The outcome of a file, from its result.
pub(super) fn outcome(file: &ClaimedFile, finished: &Finished) -> Outcome {
    match finished {
        Finished::Done { bytes } => Outcome::Done { bytes: i64::try_from(*bytes).unwrap_or(i64::MAX) },
        Finished::Cancelled => Outcome::Stopped,
        Finished::Unreachable { reason } => again(file, "path", reason),
        Finished::Failed { fault, reason } if is_worth_another_try(finished) => again(file, fault, reason),
        Finished::Failed { fault, reason } => Outcome::Failed { fault: fault.clone(), reason: reason.clone() },
    }
}

/// Whether the cause of a failure may pass: the path, a busy server, a full disk. Such failures are also a sign of load.
pub(super) fn is_worth_another_try(finished: &Finished) -> bool {
    match finished {
        Finished::Unreachable { .. } => true,
        Finished::Failed { reason, .. } if is_taken(reason) => false,
        Finished::Failed { fault, .. } => {
            let known = model::Fault::of_word(fault).unwrap_or(model::Fault::Peer);
            matches!(remedy(known, false), Remedy::Later | Remedy::QueueWaits)
        }
        Finished::Done { .. } | Finished::Cancelled => false,
    }
}

pub(super) fn again(file: &ClaimedFile, fault: &str, reason: &str) -> Outcome {
    let retries = file.options().retries.map_or(RETRIES, i64::from);
    let (fault, reason) = (fault.to_owned(), reason.to_owned());
    if file.attempt > retries {
        return Outcome::Failed { fault, reason };
    }
    let pause = BACKOFF.pause(file.attempt as u32, fastrand::f64());
    Outcome::Again { not_before: time::now() + pause.as_millis() as i64, fault, reason }
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
            is_hop_between: false,
            kind: JobKind::Independent,
            options: r#"{"retries": 2}"#.into(),
            tokens: crate::tokens::FileTokens::default(),
        }
    }

    #[test]
    fn what_passes_is_tried_again_and_not_for_ever() {
        let failed = |fault: &str| Finished::Failed { fault: fault.into(), reason: "x".into() };
        assert!(matches!(outcome(&file(1), &failed("path")), Outcome::Again { .. }));
        assert!(matches!(outcome(&file(2), &failed("storage")), Outcome::Again { .. }));
        assert!(matches!(outcome(&file(3), &failed("path")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &failed("missing")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &failed("auth")), Outcome::Failed { .. }));
        let taken = Finished::Failed { fault: "storage".into(), reason: "f exists already and differs".into() };
        assert!(matches!(outcome(&file(1), &taken), Outcome::Failed { .. }), "it would be met again");
        assert!(matches!(outcome(&file(1), &Finished::Unreachable { reason: "x".into() }), Outcome::Again { .. }));
        assert_eq!(outcome(&file(9), &Finished::Done { bytes: 7 }), Outcome::Done { bytes: 7 });
    }
}
