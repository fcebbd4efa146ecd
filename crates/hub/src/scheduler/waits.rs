//! How long the oldest file of each queue has waited. A queue gains weight by the hour: the time need not be read in every round.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::database::queues::Queue;
use crate::database::{Database, Result};
use crate::time;

/// How often the time of a queue is read.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// Queues that are read in one round.
const ASKED_MAX: usize = 200;

struct Oldest {
    asked: Duration,
    /// When the job of the oldest file was submitted, milliseconds since 1970; none where nothing waited.
    submitted: Option<i64>,
}

/// The oldest files of all queues.
#[derive(Default)]
pub(super) struct Waits(HashMap<i64, Oldest>);

impl Waits {
    /// How long the oldest file of each queue has waited; queues that have not been read yet are left out.
    pub async fn look(
        &mut self,
        database: &Database,
        queues: &[Queue],
        now: Duration,
    ) -> Result<HashMap<i64, Duration>> {
        let waiting: HashSet<i64> = queues.iter().filter(|queue| queue.queued > 0).map(|queue| queue.id).collect();
        self.0.retain(|queue, _| waiting.contains(queue));
        for queue in self.due(&waiting, now) {
            let submitted = database.oldest(queue).await?.map(|oldest| oldest.submitted);
            self.0.insert(queue, Oldest { asked: now, submitted });
        }
        let waited = |(queue, oldest): (&i64, &Oldest)| {
            let since = time::now().saturating_sub(oldest.submitted?).max(0) as u64;
            Some((*queue, Duration::from_millis(since)))
        };
        Ok(self.0.iter().filter_map(waited).collect())
    }

    /// The queues that are to be read now: those that have not been for the longest time.
    fn due(&self, waiting: &HashSet<i64>, now: Duration) -> Vec<i64> {
        let asked = |queue: &i64| self.0.get(queue).map(|oldest| oldest.asked);
        let is_due = |queue: &i64| asked(queue).is_none_or(|asked| now.saturating_sub(asked) >= ASK_EVERY);
        let mut due: Vec<i64> = waiting.iter().copied().filter(is_due).collect();
        due.sort_by_key(|queue| (asked(queue), *queue));
        due.truncate(ASKED_MAX);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queues_are_asked_for_in_turn() {
        let mut waits = Waits::default();
        let waiting: HashSet<i64> = (0..300).collect();
        let mut ask = |seconds| {
            let now = Duration::from_secs(seconds);
            let due = waits.due(&waiting, now);
            waits.0.extend(due.iter().map(|queue| (*queue, Oldest { asked: now, submitted: None })));
            due
        };
        assert_eq!(ask(1), (0..200).collect::<Vec<_>>());
        assert_eq!(ask(2), (200..300).collect::<Vec<_>>());
        assert!(ask(3).is_empty());
        assert_eq!(ask(31).len(), 200);
    }
}
