//! The rates of many transfers that share links: a part of `make bench-micro`.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sched::allocation::{Demand, allocate};

fn allocations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("allocation");
    for demands in [100_u32, 10_000] {
        // Each transfer uses the links of two of fifty sites, and one of ten trunks.
        let path = |at: u32| vec![at % 50, 50 + (at * 7) % 50, 100 + at % 10];
        let all: Vec<Demand> = (0..demands)
            .map(|at| Demand { weight: f64::from(1 + at % 3), floor: 0.0, cap: 1e9, path: path(at) })
            .collect();
        let capacities = vec![1.25e9; 110];
        group.throughput(Throughput::Elements(demands.into()));
        group.bench_with_input(BenchmarkId::new("max-min", demands), &all, |b, all| {
            b.iter(|| allocate(&capacities, black_box(all)));
        });
    }
}

criterion_group!(allocation, allocations);
criterion_main!(allocation);
