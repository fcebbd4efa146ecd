//! The rates of queues: by the hub's scheduler, or by congestion control alone.
//!
//! Does not know: files. It asks queues what they want, and sets their rates.

use std::collections::BTreeMap;
use std::time::Duration;

use scenario::{Scenario, Scheduler};
use sched::allocation::{Binding, Demand, allocate};
use sched::demand::DemandEstimate;
use sched::limits::DEMAND_STARTUP;
use sched::priority::Priority;
use sched::shares::{Aggregate, Class, Group, share};

use super::law::PathTerms;
use super::queue::SimulatedQueue;

/// The rates of all queues.
#[derive(Debug)]
pub struct Rates {
    scheduler: Scheduler,
    /// Whether demands are estimated from use, as a hub does: only where rounds have a length. Where rates are computed at each change,
    /// queues use what they get.
    estimates: bool,
    aggregates: Vec<Aggregate>,
    demands: Vec<DemandEstimate>,
    /// Since when each queue has had transfers.
    busy_since_s: Vec<Option<f64>>,
    /// What binds each queue: a resource, or none if its own cap does.
    pub bound_by: Vec<Option<u32>>,
    /// What each queue wanted in the last round.
    wanted: Vec<Wanted>,
    /// Whether the rates must be computed again.
    dirty: bool,
}

/// What a queue wants in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Wanted {
    /// Transfers; none if it is not active.
    transfers: Option<u32>,
    /// The most that one of them can carry, bytes per second.
    transfer_bytes_s: f64,
}

impl Rates {
    /// Rates for queues that have their paths.
    pub fn new(scenario: &Scenario, queues: &[SimulatedQueue]) -> Rates {
        let activities: BTreeMap<&str, u32> =
            scenario.work.iter().map(|work| work.activity.as_str()).zip(0..).collect();
        let aggregate = |queue: &SimulatedQueue| {
            let number = activities[scenario.work[queue.work].activity.as_str()];
            let demand = Demand { weight: 1.0, floor: 0.0, cap: 0.0, path: queue.path.clone() };
            Aggregate { class: Class::Standard, groups: vec![Group { number, weight: 1.0 }], demand }
        };
        Rates {
            scheduler: scenario.simulation.scheduler,
            estimates: !scenario.simulation.step.is_zero(),
            aggregates: queues.iter().map(aggregate).collect(),
            demands: vec![DemandEstimate::default(); queues.len()],
            busy_since_s: vec![None; queues.len()],
            bound_by: vec![None; queues.len()],
            wanted: vec![Wanted::default(); queues.len()],
            dirty: true,
        }
    }

    /// Notes that capacities or paths have changed.
    pub fn paths_changed(&mut self, queues: &[SimulatedQueue]) {
        for (aggregate, queue) in self.aggregates.iter_mut().zip(queues) {
            aggregate.demand.path.clone_from(&queue.path);
        }
        self.dirty = true;
    }

    /// Notes what a queue used since the last round, bytes per second. As in a hub, only a queue that has had transfers for a while is estimated; one without
    /// transfers may use any rate again.
    pub fn used(&mut self, at: usize, now_s: f64, used_bytes_s: f64, queue: &SimulatedQueue) {
        if !self.estimates || self.scheduler != Scheduler::Hub {
            return;
        }
        if !queue.has_transfers() {
            self.dirty |= self.demands[at].cap().is_finite();
            self.demands[at] = DemandEstimate::default();
            self.busy_since_s[at] = None;
            return;
        }
        let since_s = *self.busy_since_s[at].get_or_insert(now_s);
        if now_s - since_s >= DEMAND_STARTUP.as_secs_f64() && queue.rate_bytes_s > 0.0 {
            let before = self.demands[at].cap();
            let cap = self.demands[at].step(Duration::from_secs_f64(now_s), used_bytes_s, queue.rate_bytes_s);
            self.dirty |= cap != before && (cap < before * 0.99 || cap > before * 1.01);
        }
    }

    /// Sets the rates of all queues at a time.
    pub fn set(
        &mut self,
        scenario: &Scenario,
        now_s: f64,
        capacities: &[f64],
        queues: &mut [SimulatedQueue],
        waits: &[bool],
    ) {
        for (at, queue) in queues.iter().enumerate() {
            let is_active = queue.is_active(now_s) && !waits[at];
            let wanted = Wanted {
                transfers: is_active.then(|| queue.transfers_wanted(now_s)),
                transfer_bytes_s: queue.transfer_cap_bytes_s(now_s),
            };
            self.dirty |= wanted != self.wanted[at];
            self.wanted[at] = wanted;
        }
        let has_deadlines = scenario.work.iter().any(|work| work.deadline.is_some());
        if !self.dirty && !has_deadlines {
            return;
        }
        self.dirty = false;
        for (at, queue) in queues.iter().enumerate() {
            self.describe(scenario, now_s, at, queue);
        }
        let rates = match self.scheduler {
            Scheduler::Hub => share(capacities, &self.aggregates),
            Scheduler::None => {
                let demands: Vec<Demand> = self.aggregates.iter().map(|aggregate| aggregate.demand.clone()).collect();
                allocate(capacities, &demands)
            }
        };
        for ((queue, rate), bound_by) in queues.iter_mut().zip(&rates).zip(&mut self.bound_by) {
            queue.rate_bytes_s = rate.rate;
            *bound_by = match rate.binding {
                Binding::Resource(resource) => Some(resource),
                Binding::Cap => None,
            };
        }
    }

    /// The aggregate of a queue at this moment.
    fn describe(&mut self, scenario: &Scenario, now_s: f64, at: usize, queue: &SimulatedQueue) {
        let demand = &mut self.aggregates[at].demand;
        let wanted = self.wanted[at];
        let Some((terms, transfers)) = queue.terms.as_ref().zip(wanted.transfers) else {
            (demand.cap, demand.floor) = (0.0, 0.0);
            return;
        };
        let work = &scenario.work[queue.work];
        let most = f64::from(transfers) * wanted.transfer_bytes_s;
        match self.scheduler {
            Scheduler::Hub => {
                let waited = queue.waits_since_s(now_s).map_or(0.0, |since| now_s - since);
                demand.weight =
                    Priority::nearest(work.priority.into()).weight(Duration::from_secs_f64(waited.max(0.0)));
                let estimate = if self.estimates { self.demands[at].cap() } else { f64::INFINITY };
                demand.floor = promised(work, queue, now_s).min(most);
                demand.cap = most.min(estimate).max(demand.floor);
            }
            Scheduler::None => {
                let streams = transfers * terms.streams_at(queue.rate_bytes_s / f64::from(transfers.max(1)));
                demand.weight = terms.weight(streams.max(1));
                demand.cap = most;
            }
        }
    }
}

/// The rate that meets the deadline of a queue, bytes per second; 0 without a deadline, or after it.
fn promised(work: &scenario::Work, queue: &SimulatedQueue, now_s: f64) -> f64 {
    let Some(deadline) = work.deadline else { return 0.0 };
    // The last file is complete when its answer is back.
    let answer_s = queue.terms.as_ref().map_or(0.0, PathTerms::end_s);
    let left_s = (work.at + deadline).as_secs_f64() - answer_s - now_s;
    if left_s > 0.0 { queue.left_bytes() / left_s } else { 0.0 }
}
