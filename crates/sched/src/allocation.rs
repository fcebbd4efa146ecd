//! Weighted max-min fair rates over many shared resources, with floors and caps, by progressive filling (Bertsekas and Gallager,
//! Data Networks, section 6.5.2; Nace and Pióro, Max-Min Fairness and Its Applications to Routing and Load-Balancing, 2008).
//!
//! A level rises from 0. Each demand has the rate `weight × level`, at least its floor, until its cap is reached or a resource that it
//! uses is full; then it is frozen. The first resource that fills is the bottleneck of all demands that still rise there.
//!
//! n demands over m resources, k resources on a path: O((n·k + m) log(n + m)) time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Two levels whose relative difference is at most this count as equal: the rounding of sums of floats can make such a difference.
const LEVEL_TOLERANCE: f64 = 1e-12;

/// The demand of one party.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Its rate is in proportion to this. Positive.
    pub weight: f64,
    /// The rate that it gets before any demand rises above its own floor, bytes per second.
    pub floor: f64,
    /// The highest rate that it can use, bytes per second; infinity for none.
    pub cap: f64,
    /// The resources that it uses, as indices, each named once.
    pub path: Vec<u32>,
}

/// The constraint that keeps a demand from a higher rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Its own cap.
    Cap,
    /// This resource is full.
    Resource(u32),
}

/// A demand's rate, and why it is not higher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes per second.
    pub rate: f64,
    /// The constraint that keeps it from more.
    pub binding: Binding,
}

/// Divides resources of these capacities (bytes per second) among demands; the rates are in the order of the demands. Where floors do not
/// fit a resource, they are cut in proportion first. A demand that uses no resource gets its cap.
pub fn allocate(capacities: &[f64], demands: &[Demand]) -> Vec<Rate> {
    let floors = fitting_floors(capacities, demands);
    Filling::new(capacities, demands, floors).run()
}

/// The floors, cut in proportion where a resource cannot carry the sum of its floors.
fn fitting_floors(capacities: &[f64], demands: &[Demand]) -> Vec<f64> {
    let floors: Vec<f64> = demands.iter().map(|demand| demand.floor.clamp(0.0, demand.cap.max(0.0))).collect();
    let mut promised = vec![0.0; capacities.len()];
    for (demand, floor) in demands.iter().zip(&floors) {
        demand.path.iter().for_each(|resource| promised[*resource as usize] += floor);
    }
    let part = |resource: &u32| {
        let sum = promised[*resource as usize];
        let capacity = capacities[*resource as usize].max(0.0);
        if sum > capacity { capacity / sum } else { 1.0 }
    };
    let cut = |(demand, floor): (&Demand, f64)| floor * demand.path.iter().map(part).fold(1.0, f64::min);
    demands.iter().zip(floors).map(cut).collect()
}

/// A change of state that a level triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LevelChange {
    /// A resource may be full.
    Full(u32),
    /// A demand reaches its cap.
    Capped(u32),
    /// The level of a demand passes its floor.
    Rises(u32),
}

/// A change of state and its level. Events are ordered by level; those of one level have a fixed order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LevelEvent {
    level: f64,
    change: LevelChange,
}

impl Eq for LevelEvent {}

impl Ord for LevelEvent {
    fn cmp(&self, other: &LevelEvent) -> Ordering {
        self.level.total_cmp(&other.level).then_with(|| self.change.cmp(&other.change))
    }
}

impl PartialOrd for LevelEvent {
    fn partial_cmp(&self, other: &LevelEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The load of a resource at a level: `fixed + weight × level`.
#[derive(Clone, Copy, Debug)]
struct ResourceLoad {
    fixed: f64,
    weight: f64,
    /// The number of demands that rise here. It is exact, where the sum of their weights leaves a remainder of rounding.
    rising: u32,
    /// The level of the next [`LevelChange::Full`] of this resource; infinity where none is scheduled.
    next_check_level: f64,
}

/// The state of a demand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DemandState {
    AtFloor,
    Rising,
    Frozen(Rate),
}

/// The state of progressive filling: the level, and all demands and resources at that level.
struct Filling<'a> {
    capacities: &'a [f64],
    demands: &'a [Demand],
    floors: Vec<f64>,
    loads: Vec<ResourceLoad>,
    /// The demands of each resource: those of resource r are `users[users_start[r]..users_start[r + 1]]`.
    users: Vec<u32>,
    users_start: Vec<u32>,
    states: Vec<DemandState>,
    events: BinaryHeap<Reverse<LevelEvent>>,
    level: f64,
}

impl<'a> Filling<'a> {
    fn new(capacities: &'a [f64], demands: &'a [Demand], floors: Vec<f64>) -> Filling<'a> {
        let (users, users_start) = users(capacities.len(), demands);
        let empty = ResourceLoad { fixed: 0.0, weight: 0.0, rising: 0, next_check_level: f64::INFINITY };
        Filling {
            capacities,
            demands,
            floors,
            loads: vec![empty; capacities.len()],
            users,
            users_start,
            states: vec![DemandState::AtFloor; demands.len()],
            events: BinaryHeap::with_capacity(capacities.len() + 2 * demands.len()),
            level: 0.0,
        }
    }

    fn run(mut self) -> Vec<Rate> {
        (0..self.demands.len() as u32).for_each(|demand| self.enter(demand));
        (0..self.capacities.len() as u32).for_each(|resource| self.schedule_check(resource));
        while let Some(Reverse(event)) = self.events.pop() {
            self.level = self.level.max(event.level);
            match event.change {
                LevelChange::Full(resource) => self.check_full(resource, event.level),
                LevelChange::Capped(demand) => self.freeze(demand, Binding::Cap),
                LevelChange::Rises(demand) => self.rise(demand),
            }
        }
        let rate = |(state, demand): (&DemandState, &Demand)| match state {
            DemandState::Frozen(rate) => *rate,
            // No resource of its path ever fills: only its cap limits it.
            DemandState::AtFloor | DemandState::Rising => Rate { rate: demand.cap, binding: Binding::Cap },
        };
        self.states.iter().zip(self.demands).map(rate).collect()
    }

    /// Gives a demand its floor. It rises once the level reaches the floor: at once where it has none.
    fn enter(&mut self, index: u32) {
        let demand = &self.demands[index as usize];
        let floor = self.floors[index as usize];
        for resource in &demand.path {
            self.loads[*resource as usize].fixed += floor;
        }
        if demand.cap <= floor {
            self.freeze(index, Binding::Cap);
        } else if floor > 0.0 {
            self.await_level(floor / demand.weight, LevelChange::Rises(index));
        } else {
            self.rise(index);
        }
    }

    fn await_level(&mut self, level: f64, change: LevelChange) {
        self.events.push(Reverse(LevelEvent { level, change }));
    }

    fn rise(&mut self, index: u32) {
        if self.states[index as usize] != DemandState::AtFloor {
            return;
        }
        self.states[index as usize] = DemandState::Rising;
        let demand = &self.demands[index as usize];
        let floor = self.floors[index as usize];
        for resource in &demand.path {
            let load = &mut self.loads[*resource as usize];
            load.fixed -= floor;
            load.weight += demand.weight;
            load.rising += 1;
            // The resource fills sooner than was computed. At the start, `run` schedules all resources after all demands have entered.
            if floor > 0.0 {
                self.schedule_check(*resource);
            }
        }
        if demand.cap.is_finite() {
            self.await_level(demand.cap / demand.weight, LevelChange::Capped(index));
        }
    }

    /// Freezes a demand at the rate that it has now.
    fn freeze(&mut self, index: u32, binding: Binding) {
        let demand = &self.demands[index as usize];
        let rate = match self.states[index as usize] {
            DemandState::Frozen(_) => return,
            DemandState::AtFloor => self.floors[index as usize],
            DemandState::Rising => {
                let rate = (demand.weight * self.level).min(demand.cap);
                for resource in &demand.path {
                    let load = &mut self.loads[*resource as usize];
                    load.fixed += rate;
                    load.weight -= demand.weight;
                    load.rising -= 1;
                }
                rate
            }
        };
        self.states[index as usize] = DemandState::Frozen(Rate { rate, binding });
    }

    /// Freezes the demands of a resource that is full. Where it is not full yet, it is checked again at the level at which it should be.
    fn check_full(&mut self, resource: u32, level: f64) {
        if self.loads[resource as usize].next_check_level != level {
            return;
        }
        self.loads[resource as usize].next_check_level = f64::INFINITY;
        if self.full_at(resource) > self.level * (1.0 + LEVEL_TOLERANCE) {
            self.schedule_check(resource);
            return;
        }
        let range = self.users_start[resource as usize] as usize..self.users_start[resource as usize + 1] as usize;
        for at in range {
            self.freeze(self.users[at], Binding::Resource(resource));
        }
    }

    fn schedule_check(&mut self, resource: u32) {
        let full = self.full_at(resource).max(self.level);
        let next_check_level = &mut self.loads[resource as usize].next_check_level;
        if full < *next_check_level {
            *next_check_level = full;
            self.await_level(full, LevelChange::Full(resource));
        }
    }

    /// The level at which a resource fills; infinity where no demand rises.
    fn full_at(&self, resource: u32) -> f64 {
        let load = self.loads[resource as usize];
        let left = (self.capacities[resource as usize].max(0.0) - load.fixed).max(0.0);
        if load.rising == 0 { f64::INFINITY } else { left / load.weight }
    }
}

/// The demands of each resource, in one vector with the start of each.
fn users(resources: usize, demands: &[Demand]) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0; resources + 1];
    for resource in demands.iter().flat_map(|demand| &demand.path) {
        start[*resource as usize + 1] += 1;
    }
    for resource in 0..resources {
        start[resource + 1] += start[resource];
    }
    let mut next = start.clone();
    let mut users = vec![0; start[resources] as usize];
    for (index, demand) in demands.iter().enumerate() {
        for resource in &demand.path {
            users[next[*resource as usize] as usize] = index as u32;
            next[*resource as usize] += 1;
        }
    }
    (users, start)
}
