//! Weighted max-min rates, compared with a reference: linear programs, solved by a library that does not use progressive filling.
#![allow(clippy::unwrap_used, missing_docs)]

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use sched::allocation::{Binding, Demand, allocate};

/// Random cases that are compared with the reference.
const CASES: u64 = 200;

/// The largest error that the tolerances of the reference add up to, where rates are some hundreds.
const SLACK: f64 = 2e-3;

/// Repeatable numbers without a library: SplitMix64 (Steele, Lea and Flood, 2014).
struct SeededRandom(u64);

impl SeededRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn random_case(seed: u64) -> (Vec<f64>, Vec<Demand>) {
    let mut rng = SeededRandom(seed);
    let resources = 1 + rng.below(5);
    let capacities: Vec<f64> = (0..resources).map(|_| 50.0 + rng.below(1000) as f64).collect();
    let demands = (0..1 + rng.below(9))
        .map(|_| {
            let mut path: Vec<u32> = (0..resources as u32).filter(|_| rng.below(2) == 0).collect();
            if path.is_empty() {
                path.push(rng.below(resources) as u32);
            }
            let cap = if rng.below(3) == 0 { 5.0 + rng.below(200) as f64 } else { f64::INFINITY };
            // Nine floors of at most 5 fit every resource.
            let floor = if rng.below(3) == 0 { rng.below(6) as f64 } else { 0.0 };
            Demand { weight: [1.0, 2.0, 4.0, 8.0, 0.5][rng.below(5) as usize], floor, cap, path }
        })
        .collect();
    (capacities, demands)
}

/// A linear program over the rates of the demands that are not frozen. Each is at least `least`; what the frozen ones leave of each
/// capacity bounds their sum. It maximises the rate of demand `one`, if there is one.
fn program(
    capacities: &[f64],
    demands: &[Demand],
    frozen: &[Option<f64>],
    least: impl Fn(&Demand) -> f64,
    one: Option<usize>,
) -> (Problem, Vec<Option<Variable>>) {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut rates: Vec<Option<Variable>> = vec![None; demands.len()];
    for at in (0..demands.len()).filter(|at| frozen[*at].is_none()) {
        let objective = if one == Some(at) { 1.0 } else { 0.0 };
        let bounds = (least(&demands[at]).clamp(0.0, demands[at].cap), demands[at].cap);
        rates[at] = Some(problem.add_var(objective, bounds));
    }
    for (resource, capacity) in capacities.iter().enumerate() {
        let users: Vec<usize> =
            (0..demands.len()).filter(|at| demands[*at].path.contains(&(resource as u32))).collect();
        let taken: f64 = users.iter().filter_map(|at| frozen[*at]).sum();
        let load: Vec<(Variable, f64)> = users.iter().filter_map(|at| Some((rates[*at]?, 1.0))).collect();
        if !load.is_empty() {
            // Slightly more than is left: frozen rates are rounded.
            problem.add_constraint(load, ComparisonOp::Le, capacity - taken + 1e-6);
        }
    }
    (problem, rates)
}

/// The highest level that all demands that are not frozen can have together.
fn highest_level(capacities: &[f64], demands: &[Demand], frozen: &[Option<f64>]) -> f64 {
    let (mut problem, rates) = program(capacities, demands, frozen, |demand| demand.floor, None);
    let level = problem.add_var(1.0, (0.0, 1e9));
    for (demand, rate) in demands.iter().zip(rates) {
        if let Some(rate) = rate {
            problem.add_constraint([(rate, 1.0), (level, -demand.weight)], ComparisonOp::Ge, 0.0);
        }
    }
    problem.solve().unwrap()[level]
}

/// The highest rate of one demand while the others keep at least the level.
fn highest_rate(capacities: &[f64], demands: &[Demand], frozen: &[Option<f64>], level: f64, one: usize) -> f64 {
    // Slightly below the level, so that rounding does not make the program infeasible.
    let least = |demand: &Demand| (demand.weight * (level - 1e-5)).max(demand.floor);
    let (problem, rates) = program(capacities, demands, frozen, least, Some(one));
    problem.solve().unwrap()[rates[one].unwrap()]
}

/// Max-min rates by their definition: raise all demands together as far as possible, freeze those that cannot have more, and repeat with
/// the rest. A capped demand is frozen at its cap, since it would limit the level of all others.
fn reference(capacities: &[f64], demands: &[Demand]) -> Vec<f64> {
    let mut frozen: Vec<Option<f64>> = vec![None; demands.len()];
    while frozen.iter().any(Option::is_none) {
        let level = highest_level(capacities, demands, &frozen);
        let mut found = Vec::new();
        for (at, demand) in demands.iter().enumerate().filter(|(at, _)| frozen[*at].is_none()) {
            let fair = (demand.weight * level).max(demand.floor);
            if highest_rate(capacities, demands, &frozen, level, at) <= fair + SLACK {
                found.push((at, fair.min(demand.cap)));
            }
        }
        assert!(!found.is_empty(), "the reference stands still at level {level}");
        found.into_iter().for_each(|(at, rate)| frozen[at] = Some(rate));
    }
    frozen.into_iter().map(Option::unwrap).collect()
}

#[test]
fn rates_are_those_of_the_reference() {
    for seed in 0..CASES {
        let (capacities, demands) = random_case(seed);
        let wanted = reference(&capacities, &demands);
        let given = allocate(&capacities, &demands);
        for (at, (given, wanted)) in given.iter().zip(&wanted).enumerate() {
            let error = (given.rate - wanted).abs();
            assert!(
                error < 5.0 * SLACK,
                "case {seed}, demand {at}: {} and not {wanted}\n{capacities:?}\n{demands:?}",
                given.rate
            );
        }
    }
}

#[test]
fn no_capacity_is_exceeded_and_every_demand_has_a_binding() {
    for seed in 0..2_000 {
        let (capacities, demands) = random_case(seed);
        let given = allocate(&capacities, &demands);
        let mut used = vec![0.0; capacities.len()];
        for (demand, given) in demands.iter().zip(&given) {
            demand.path.iter().for_each(|resource| used[*resource as usize] += given.rate);
        }
        for (used, capacity) in used.iter().zip(&capacities) {
            assert!(*used <= capacity * (1.0 + 1e-9), "case {seed}: {used} of {capacity}");
        }
        for (demand, given) in demands.iter().zip(&given) {
            match given.binding {
                Binding::Cap => assert!((given.rate - demand.cap).abs() < 1e-6, "case {seed}"),
                Binding::Resource(full) => {
                    assert!(demand.path.contains(&full), "case {seed}: bound by a resource that it does not use");
                    assert!(
                        used[full as usize] > capacities[full as usize] * (1.0 - 1e-9),
                        "case {seed}: {full} has room"
                    );
                }
            }
        }
    }
}
