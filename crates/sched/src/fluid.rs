//! A fluid model of a network in virtual time: bytes flow at the rates that [`shares`](crate::shares) gives. Tests and planners step it;
//! it has no clock, and the same input gives the same output.
//!
//! Between two changes (an arrival, an end, a new capacity) rates are constant, so a step goes from change to change and nothing is
//! rounded to ticks.

use crate::allocation::{Demand, Rate};
use crate::shares::{Aggregate, Class, Group, share};

/// Bytes to be moved from a time on.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// When it arrives, seconds from the start.
    pub arrives_s: f64,
    /// Its size, bytes.
    pub bytes: f64,
    /// Its class.
    pub class: Class,
    /// The groups that it is in.
    pub groups: Vec<Group>,
    /// Its weight within the last of them.
    pub weight: f64,
    /// The highest rate that it can use, bytes per second.
    pub cap: f64,
    /// The resources that it uses.
    pub path: Vec<u32>,
}

/// A change of a resource's capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityChange {
    /// When it changes, seconds from the start.
    pub at_s: f64,
    /// The resource.
    pub resource: u32,
    /// The new capacity, bytes per second.
    pub capacity: f64,
}

/// A span of constant rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// When it begins, seconds from the start.
    pub from_s: f64,
    /// How long it is, seconds.
    pub seconds: f64,
    /// The rate of each load, in their order; 0 for those that have not arrived or have ended.
    pub rates: Vec<f64>,
}

/// Loads over resources, in virtual time.
#[derive(Clone, Debug)]
pub struct Fluid {
    now_s: f64,
    capacities: Vec<f64>,
    /// The changes of capacity that have not happened yet, the last first.
    changes: Vec<CapacityChange>,
    loads: Vec<Load>,
    /// The bytes of each load that have not flowed yet.
    bytes_left: Vec<f64>,
    ended_s: Vec<Option<f64>>,
}

/// Less than this part of a byte counts as nothing.
const NOTHING: f64 = 1e-6;

impl Fluid {
    /// These loads over these resources.
    pub fn new(capacities: Vec<f64>, mut changes: Vec<CapacityChange>, loads: Vec<Load>) -> Fluid {
        changes.sort_by(|a, b| b.at_s.total_cmp(&a.at_s));
        let bytes_left = loads.iter().map(|load| load.bytes).collect();
        let ended_s = vec![None; loads.len()];
        Fluid { now_s: 0.0, capacities, changes, loads, bytes_left, ended_s }
    }

    /// Steps to the next change, or to `until_s` if that is sooner. Returns none where that moment is not in the future, or never comes.
    pub fn step(&mut self, until_s: f64) -> Option<Span> {
        while self.changes.last().is_some_and(|change| change.at_s <= self.now_s) {
            if let Some(change) = self.changes.pop() {
                self.capacities[change.resource as usize] = change.capacity;
            }
        }
        let active: Vec<usize> = (0..self.loads.len())
            .filter(|at| self.loads[*at].arrives_s <= self.now_s && self.bytes_left[*at] > NOTHING)
            .collect();
        let aggregates: Vec<Aggregate> = active.iter().map(|at| aggregate(&self.loads[*at])).collect();
        let rates = share(&self.capacities, &aggregates);
        let next = self.next_change(&active, &rates).min(until_s);
        if next <= self.now_s || !next.is_finite() {
            return None;
        }
        let seconds = next - self.now_s;
        let mut span = Span { from_s: self.now_s, seconds, rates: vec![0.0; self.loads.len()] };
        self.now_s = next;
        for (at, rate) in active.iter().zip(&rates) {
            span.rates[*at] = rate.rate;
            self.bytes_left[*at] -= rate.rate * seconds;
            if self.bytes_left[*at] <= NOTHING * (1.0 + self.loads[*at].bytes) {
                self.bytes_left[*at] = 0.0;
                self.ended_s[*at] = Some(next);
            }
        }
        Some(span)
    }

    fn next_change(&self, active: &[usize], rates: &[Rate]) -> f64 {
        let ends = active.iter().zip(rates).map(|(at, rate)| self.now_s + self.bytes_left[*at] / rate.rate);
        let arrivals = self.loads.iter().map(|load| load.arrives_s).filter(|at| *at > self.now_s);
        let changes = self.changes.last().map(|change| change.at_s);
        ends.chain(arrivals).chain(changes).fold(f64::INFINITY, f64::min)
    }

    /// When each load ended, seconds from the start.
    pub fn ended_s(&self) -> &[Option<f64>] {
        &self.ended_s
    }
}

fn aggregate(load: &Load) -> Aggregate {
    let demand = Demand { weight: load.weight, floor: 0.0, cap: load.cap, path: load.path.clone() };
    Aggregate { class: load.class, groups: load.groups.clone(), demand }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arrives_s: f64, bytes: f64, weight: f64) -> Load {
        Load { arrives_s, bytes, class: Class::Standard, groups: Vec::new(), weight, cap: f64::INFINITY, path: vec![0] }
    }

    fn run(mut fluid: Fluid) -> (Vec<Span>, Vec<Option<f64>>) {
        let spans = std::iter::from_fn(|| fluid.step(f64::INFINITY)).take(1000).collect();
        (spans, fluid.ended_s().to_vec())
    }

    #[test]
    fn rates_change_when_loads_come_and_go() {
        let (spans, ended) = run(Fluid::new(vec![100.0], vec![], vec![load(0.0, 1000.0, 1.0), load(5.0, 300.0, 1.0)]));
        assert_eq!(spans.iter().map(|span| span.rates[0]).collect::<Vec<_>>(), [100.0, 50.0, 100.0]);
        assert_eq!(ended, [Some(13.0), Some(11.0)]);
    }

    #[test]
    fn weights_of_1_2_and_4_are_kept_within_5_percent() {
        let loads = [1.0, 2.0, 4.0].map(|weight| load(0.0, 7000.0 * weight, weight)).to_vec();
        let (_, ended) = run(Fluid::new(vec![70.0], vec![], loads));
        assert_eq!(ended, [Some(700.0), Some(700.0), Some(700.0)]);
    }

    #[test]
    fn a_capacity_that_halves_halves_the_rates() {
        let halved = CapacityChange { at_s: 10.0, resource: 0, capacity: 50.0 };
        let (spans, ended) = run(Fluid::new(vec![100.0], vec![halved], vec![load(0.0, 2000.0, 1.0)]));
        assert_eq!(
            spans.iter().map(|span| (span.from_s, span.rates[0])).collect::<Vec<_>>(),
            [(0.0, 100.0), (10.0, 50.0)]
        );
        assert_eq!(ended, [Some(30.0)]);
    }

    #[test]
    fn a_network_without_capacity_takes_no_step() {
        let (spans, ended) = run(Fluid::new(vec![0.0], vec![], vec![load(0.0, 1.0, 1.0)]));
        assert_eq!((spans.last().map(|span| span.rates[0]), ended), (None, vec![None]));
    }
}
