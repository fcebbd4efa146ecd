//! How long the oldest file of each queue has waited. A queue gains weight over hours, so the time need not be read in every round.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::database::queues::Queue;
use crate::database::{Database, Result};
use crate::time;

/// How often the oldest file of a queue is read from the database.
const READ_EVERY: Duration = Duration::from_secs(30);
/// The most queues that are read in one round.
const READS_MAX: usize = 200;

struct OldestWait {
    read_at: Duration,
    /// When the job of the oldest file was submitted, milliseconds since 1970; `None` if nothing waited.
    submitted: Option<i64>,
}

/// The oldest files of all queues.
#[derive(Default)]
pub(super) struct Waits(HashMap<i64, OldestWait>);

impl Waits {
    /// How long the oldest file of each queue has waited; queues that have not been read yet are left out.
    pub async fn update(
        &mut self,
        database: &Database,
        queues: &[Queue],
        now: Duration,
    ) -> Result<HashMap<i64, Duration>> {
        let waiting: HashSet<i64> = queues.iter().filter(|queue| queue.queued > 0).map(|queue| queue.id).collect();
        self.0.retain(|queue, _| waiting.contains(queue));
        for queue in self.due(&waiting, now) {
            let submitted = database.oldest(queue).await?.map(|oldest| oldest.submitted);
            self.0.insert(queue, OldestWait { read_at: now, submitted });
        }
        let waited = |(queue, oldest): (&i64, &OldestWait)| {
            let since = time::now().saturating_sub(oldest.submitted?).max(0) as u64;
            Some((*queue, Duration::from_millis(since)))
        };
        Ok(self.0.iter().filter_map(waited).collect())
    }

    /// The queues to read now: those that were read longest ago.
    fn due(&self, waiting: &HashSet<i64>, now: Duration) -> Vec<i64> {
        let read_at = |queue: &i64| self.0.get(queue).map(|oldest| oldest.read_at);
        let is_due = |queue: &i64| read_at(queue).is_none_or(|read_at| now.saturating_sub(read_at) >= READ_EVERY);
        let mut due: Vec<i64> = waiting.iter().copied().filter(is_due).collect();
        due.sort_by_key(|queue| (read_at(queue), *queue));
        due.truncate(READS_MAX);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queues_are_read_in_turn() {
        let mut waits = Waits::default();
        let waiting: HashSet<i64> = (0..300).collect();
        let mut read = |seconds| {
            let now = Duration::from_secs(seconds);
            let due = waits.due(&waiting, now);
            waits.0.extend(due.iter().map(|queue| (*queue, OldestWait { read_at: now, submitted: None })));
            due
        };
        assert_eq!(read(1), (0..200).collect::<Vec<_>>());
        assert_eq!(read(2), (200..300).collect::<Vec<_>>());
        assert!(read(3).is_empty());
        assert_eq!(read(31).len(), 200);
    }
}
