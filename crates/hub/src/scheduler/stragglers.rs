//! Stragglers at the end of a job: gives up a slow transfer whose files another source would deliver much faster.
//!
//! A node refuses two writers of one target, so there is no race: the slow transfer is ended, and its files begin at their next source. The bytes
//! that had arrived of them are moved twice, within the budget of their job.

use std::collections::HashMap;
use std::time::Duration;

use sched::endgame::{HedgeBudget, UnderWay, is_slow};
use sched::sources::Source;

use super::Scheduler;
use crate::database::Result;
use crate::database::outcomes::NextSource;
use crate::snapshot::Snapshot;
use crate::states::JobKind;
use crate::topology::Topology;

/// The budgets of jobs, by their numbers.
pub(super) type Budgets = HashMap<i64, HedgeBudget>;

impl Scheduler {
    /// Ends transfers whose files are to be read from another source.
    pub(super) async fn give_up_stragglers(&mut self, topology: &Topology) -> Result<()> {
        let (now, snapshot) = (self.now(), self.hub.snapshot.load_full());
        let carried = &self.carried;
        self.budgets.retain(|job, _| carried.values().any(|it| it.claim.files.iter().any(|file| file.job == *job)));
        let several: Vec<i64> = carried
            .iter()
            .filter(|(_, it)| it.claim.files.first().is_some_and(|file| file.kind == JobKind::MultiSource))
            .filter(|(_, it)| !it.steer.borrow().is_cancelled)
            .map(|(number, _)| *number)
            .collect();
        for number in several {
            let Some(next) = self.next_source(number).await? else { continue };
            let is_open = !self.is_broken(&next.pair.0) && topology.stopped(&next.pair.0, &next.pair.1, "").is_none();
            let Some(carried) = self.carried.get_mut(&number) else { continue };
            let is_held = carried.is_held(snapshot.queues.get(&carried.claim.queue));
            let expected = elsewhere(&snapshot, &next, carried.rest_bytes());
            let is_slower = is_open && !is_held && is_slow(carried.rate, expected);
            carried.slow_since = is_slower.then(|| carried.slow_since.unwrap_or(now));
            let slow_for = carried.slow_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
            let under_way = UnderWay { elapsed: carried.elapsed(now), median: None, slow_for };
            let Some(job) = carried.claim.files.first().map(|file| file.job) else { continue };
            let budget = self.budgets.entry(job).or_default();
            if under_way.is_straggler() && budget.take(carried.partial_bytes(), next.job_bytes as f64) {
                let (transfer, to) = (carried.claim.id, &next.pair.0);
                tracing::info!(%transfer, from = carried.pair.0, to, "a slow transfer is ended: its files are read from their next source");
                carried.steer.send_if_modified(|steer| !std::mem::replace(&mut steer.is_cancelled, true));
            }
        }
        Ok(())
    }

    /// The next source of a transfer's files; looked up once.
    async fn next_source(&mut self, number: i64) -> Result<Option<NextSource>> {
        let Some(carried) = self.carried.get_mut(&number) else { return Ok(None) };
        if let Some(known) = &carried.next {
            return Ok(known.clone());
        }
        let next = match carried.claim.files.first() {
            Some(file) => self.hub.database.next_source(file).await?,
            None => None,
        };
        carried.next = Some(next.clone());
        Ok(next)
    }
}

/// The rate at which bytes are expected from a source, after the bytes that are queued there before them; bytes per second.
fn elsewhere(snapshot: &Snapshot, next: &NextSource, bytes: f64) -> f64 {
    let seen = snapshot.pairs.get(&next.pair).copied().unwrap_or_default();
    let source = Source { rate: seen.rate, queued: seen.queued_bytes, startup: Duration::ZERO, failed: 0 };
    bytes / source.expected(bytes).as_secs_f64().max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SeenPair;

    #[test]
    fn what_is_queued_there_counts() {
        let pair = ("a".to_owned(), "b".to_owned());
        let next = NextSource { pair: pair.clone(), job_bytes: 0 };
        let rate = |queued_bytes| {
            let seen = SeenPair { rate: Some(1000.0), queued_bytes };
            elsewhere(&Snapshot { pairs: HashMap::from([(pair.clone(), seen)]), ..Snapshot::default() }, &next, 1e6)
        };
        assert_eq!((rate(0.0).round(), rate(3e6).round()), (1000.0, 250.0));
        assert!(elsewhere(&Snapshot::default(), &next, 0.0) >= 0.0);
    }
}
