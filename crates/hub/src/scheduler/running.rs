//! A running transfer of this hub, and the outcomes of its files.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;

use super::outcomes::{outcome, retry_or_fail};
use crate::database::claims::{Claim, ClaimedFile};
use crate::database::outcomes::{NextSource, Outcome};
use crate::progress::{TransferControl, TransferResult};
use crate::snapshot::{Decision, Pair, TransferProgress};

/// A running transfer of this hub.
pub(super) struct RunningTransfer {
    pub claim: Claim,
    pub pair: Pair,
    /// Bytes per second.
    pub rate: f64,
    /// Bytes that have arrived, and those of them that belong to files that have ended.
    pub arrived_bytes: u64,
    pub ended_bytes: u64,
    pub control: watch::Sender<TransferControl>,
    /// The next source of its first file, once it has been looked up.
    pub next: Option<Option<NextSource>>,
    /// Since when the next source would be much faster.
    pub slow_since: Option<Duration>,
    begun: Duration,
}

impl RunningTransfer {
    /// A transfer that begins now.
    pub fn new(claim: Claim, pair: Pair, control: watch::Sender<TransferControl>, begun: Duration) -> RunningTransfer {
        let (rate, arrived_bytes, ended_bytes) = (0.0, 0, 0);
        RunningTransfer { claim, pair, rate, arrived_bytes, ended_bytes, control, next: None, slow_since: None, begun }
    }

    /// Its progress, for the snapshot.
    pub fn progress(&self) -> TransferProgress {
        TransferProgress { rate: self.rate, bytes: self.arrived_bytes }
    }

    /// How long it has run.
    pub fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.begun)
    }

    /// Bytes that have arrived of files that have not ended: another attempt would move them again.
    pub fn partial_bytes(&self) -> f64 {
        self.arrived_bytes.saturating_sub(self.ended_bytes) as f64
    }

    /// Bytes that are still to come.
    pub fn rest_bytes(&self) -> f64 {
        let unended: i64 = self.claim.files.iter().map(|file| file.bytes).sum();
        (unended as f64 - self.partial_bytes()).max(0.0)
    }

    /// Whether its limit bounds it: it is paused, or its share of a resource is no larger.
    pub fn is_limited(&self, decision: Option<&Decision>) -> bool {
        let limit = self.control.borrow().limit;
        limit == 0.0 || decision.is_some_and(|decision| decision.is_bound) && self.rate >= limit * 0.5
    }

    /// Takes the files that have ended out of the claim. A node may report a file twice: the first report counts.
    pub fn take_ended(&mut self, results: &HashMap<i64, TransferResult>) -> Vec<(i64, Outcome)> {
        let mut outcomes = Vec::new();
        let ended_bytes = &mut self.ended_bytes;
        self.claim.files.retain(|file| {
            let Some(result) = results.get(&file.id) else { return true };
            if let TransferResult::Done { bytes } = result {
                *ended_bytes += bytes;
            }
            outcomes.push((file.id, outcome(file, result)));
            false
        });
        outcomes
    }

    /// The outcomes of the files that were not reported, by the result of the transfer.
    pub fn all_ended(&self, result: &TransferResult) -> Vec<(i64, Outcome)> {
        let is_one = self.claim.order.len() == 1;
        let of_file = |file: &ClaimedFile| match result {
            // The bytes of the report are those of all files together.
            TransferResult::Done { .. } if !is_one => Outcome::Done { bytes: file.bytes },
            // Another file may have made the transfer fail: this one was not reported, and is tried again.
            TransferResult::Failed { fault, reason } if !is_one => retry_or_fail(file, fault, reason),
            result => outcome(file, result),
        };
        self.claim.files.iter().map(|file| (file.id, of_file(file))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::JobKind;

    fn running(files: i64) -> RunningTransfer {
        let file = |id| ClaimedFile {
            id,
            job: 1,
            at: id,
            bytes: 10,
            attempt: 1,
            source: format!("lh://a/{id}"),
            target: format!("lh://b/{id}"),
            checksum: None,
            has_next_hop: false,
            tokens: Default::default(),
            kind: JobKind::Independent,
            options: String::new(),
        };
        let claim = Claim {
            number: 1,
            id: uuid::Uuid::nil(),
            queue: 1,
            carrier: "a".into(),
            created: 0,
            files: (0..files).map(file).collect(),
            order: (0..files).collect(),
        };
        let (control, _) = watch::channel(TransferControl { limit: 0.0, is_cancelled: false });
        RunningTransfer::new(claim, ("a".into(), "b".into()), control, Duration::ZERO)
    }

    #[test]
    fn a_file_that_is_reported_twice_ends_once() {
        let mut running = running(3);
        let results = HashMap::from([(0, TransferResult::Done { bytes: 10 }), (7, TransferResult::Done { bytes: 9 })]);
        assert_eq!(running.take_ended(&results), [(0, Outcome::Done { bytes: 10 })]);
        assert_eq!((running.take_ended(&results), running.ended_bytes), (Vec::new(), 10));
        let rest: Vec<i64> =
            running.all_ended(&TransferResult::Done { bytes: 30 }).into_iter().map(|(id, _)| id).collect();
        assert_eq!(rest, [1, 2]);
    }

    #[test]
    fn the_last_file_of_several_has_its_own_bytes_and_not_those_of_all() {
        let mut several = running(2);
        several.take_ended(&HashMap::from([(0, TransferResult::Done { bytes: 10 })]));
        assert_eq!(several.all_ended(&TransferResult::Done { bytes: 20 }), [(1, Outcome::Done { bytes: 10 })]);
        let failed = TransferResult::Failed { fault: "missing".into(), reason: "it is not there".into() };
        assert!(
            matches!(several.all_ended(&failed)[..], [(1, Outcome::Retry { .. })]),
            "it may be another file's fault"
        );
        assert!(matches!(running(1).all_ended(&failed)[..], [(0, Outcome::Failed { .. })]));
    }
}
