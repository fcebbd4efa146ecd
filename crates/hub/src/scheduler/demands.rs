//! Estimates the rate that a queue can use from the rate that its transfers use.

use std::collections::HashMap;
use std::time::Duration;

use sched::demand::DemandEstimate;
use sched::limits::DEMAND_STARTUP;

use crate::planner::PlannedTransfer;
use crate::snapshot::Snapshot;

/// The estimate of one queue.
struct QueueDemand {
    /// When it began to have running transfers.
    since: Duration,
    /// Its share in the last round, bytes per second.
    allotted: f64,
    demand: DemandEstimate,
}

/// The estimates of all queues with running transfers.
#[derive(Default)]
pub(super) struct Demands(HashMap<i64, QueueDemand>);

impl Demands {
    /// The highest rate that each queue can use, bytes per second; only of queues whose transfers have run for a while.
    pub fn caps(&mut self, now: Duration, running: &[PlannedTransfer]) -> HashMap<i64, f64> {
        let mut used: HashMap<i64, f64> = HashMap::new();
        for transfer in running {
            *used.entry(transfer.queue).or_default() += transfer.rate;
        }
        self.0.retain(|queue, _| used.contains_key(queue));
        let mut caps = HashMap::new();
        for (queue, used) in used {
            let new = || QueueDemand { since: now, allotted: f64::INFINITY, demand: DemandEstimate::default() };
            let QueueDemand { since, allotted, demand } = self.0.entry(queue).or_insert_with(new);
            if allotted.is_finite() && now.saturating_sub(*since) >= DEMAND_STARTUP {
                caps.insert(queue, demand.step(now, used, *allotted));
            }
        }
        caps
    }

    /// Records the rates that queues are given from now on.
    pub fn record_rates(&mut self, snapshot: &Snapshot) {
        for (queue, decision) in &snapshot.queues {
            if let Some(demand) = self.0.get_mut(queue) {
                demand.allotted = decision.rate;
            }
        }
    }
}
