//! Stragglers at the end of a job: ends a slow transfer whose files another source would deliver much faster.
//!
//! The two sources cannot compete, since a node refuses a second writer of a target: the slow transfer is ended, and its files are begun at
//! their next source. Their bytes that had arrived are moved twice; each job has a budget for such bytes.

use std::collections::HashMap;
use std::time::Duration;

use sched::endgame::{HedgeBudget, MovingFile, is_slow};
use sched::sources::Source;

use super::Scheduler;
use crate::database::Result;
use crate::database::outcomes::NextSource;
use crate::snapshot::Snapshot;
use crate::states::JobKind;
use crate::topology::Topology;

/// By job number, the budget for bytes that are moved twice.
pub(super) type Budgets = HashMap<i64, HedgeBudget>;

impl Scheduler {
    /// Ends transfers whose files are to be read from another source.
    pub(super) async fn give_up_stragglers(&mut self, topology: &Topology) -> Result<()> {
        let now = self.now();
        let snapshot = self.hub.snapshot.load_full();
        let running = &self.transfers;
        self.budgets.retain(|job, _| running.values().any(|it| it.claim.files.iter().any(|file| file.job == *job)));
        let candidates: Vec<i64> = running
            .iter()
            .filter(|(_, it)| it.claim.files.first().is_some_and(|file| file.kind == JobKind::MultiSource))
            .filter(|(_, it)| !it.control.borrow().is_cancelled)
            .map(|(number, _)| *number)
            .collect();
        for number in candidates {
            let Some(next) = self.next_source(number).await? else { continue };
            let is_open = !self.is_broken(&next.pair.0) && topology.stopped(&next.pair.0, &next.pair.1, "").is_none();
            let Some(running) = self.transfers.get_mut(&number) else { continue };
            let is_limited = running.is_limited(snapshot.queues.get(&running.claim.queue));
            let expected = expected_rate(&snapshot, &next, running.rest_bytes());
            let is_slower = is_open && !is_limited && is_slow(running.rate, expected);
            running.slow_since = is_slower.then(|| running.slow_since.unwrap_or(now));
            let slow_for = running.slow_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
            let under_way = MovingFile { elapsed: running.elapsed(now), median: None, slow_for };
            let Some(job) = running.claim.files.first().map(|file| file.job) else { continue };
            let budget = self.budgets.entry(job).or_default();
            if under_way.is_straggler() && budget.take(running.partial_bytes(), next.job_bytes as f64) {
                let transfer = running.claim.id;
                let to = &next.pair.0;
                tracing::info!(%transfer, from = running.pair.0, to, "a slow transfer is ended: its files are read from their next source");
                running.control.send_if_modified(|control| !std::mem::replace(&mut control.is_cancelled, true));
            }
        }
        Ok(())
    }

    /// The next source of a transfer's files. It is looked up only once.
    async fn next_source(&mut self, number: i64) -> Result<Option<NextSource>> {
        let Some(running) = self.transfers.get_mut(&number) else { return Ok(None) };
        if let Some(known) = &running.next {
            return Ok(known.clone());
        }
        let next = match running.claim.files.first() {
            Some(file) => self.hub.database.next_source(file).await?,
            None => None,
        };
        running.next = Some(next.clone());
        Ok(next)
    }
}

/// The average rate at which a source is expected to deliver bytes, the wait for the bytes queued before them included; bytes per second.
fn expected_rate(snapshot: &Snapshot, next: &NextSource, bytes: f64) -> f64 {
    let seen = snapshot.pairs.get(&next.pair).copied().unwrap_or_default();
    let source = Source { rate: seen.rate, queued: seen.queued_bytes, startup: Duration::ZERO, failed: 0 };
    bytes / source.expected(bytes).as_secs_f64().max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SeenPair;

    #[test]
    fn queued_bytes_lower_the_expected_rate() {
        let pair = ("a".to_owned(), "b".to_owned());
        let next = NextSource { pair: pair.clone(), job_bytes: 0 };
        let rate = |queued_bytes| {
            let seen = SeenPair { rate: Some(1000.0), queued_bytes };
            expected_rate(&Snapshot { pairs: HashMap::from([(pair.clone(), seen)]), ..Snapshot::default() }, &next, 1e6)
        };
        assert_eq!((rate(0.0).round(), rate(3e6).round()), (1000.0, 250.0));
        assert!(expected_rate(&Snapshot::default(), &next, 0.0) >= 0.0);
    }
}
