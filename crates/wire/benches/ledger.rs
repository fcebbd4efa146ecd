//! Blocks that are added to the ledger of a file: a part of `make bench-micro`.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use model::checksum::BlockSum;
use wire::ledger::Ledger;

fn ledgers(criterion: &mut Criterion) {
    const BLOCKS_OF_FILE: u64 = 4096;
    const BLOCK: u64 = 1 << 20;
    let mut group = criterion.benchmark_group("ledger");
    group.throughput(Throughput::Elements(BLOCKS_OF_FILE));
    let sum = BlockSum { crc32c: 1, adler32: None };
    // Four streams, each with its own range of the file: what a receiver sees.
    let of_streams = (0..BLOCKS_OF_FILE).map(|at| (at % 4) * (BLOCKS_OF_FILE / 4) + at / 4);
    let orders: [(&str, Vec<u64>); 3] = [
        ("in-order", (0..BLOCKS_OF_FILE).collect()),
        ("four-streams", of_streams.collect()),
        ("backwards", (0..BLOCKS_OF_FILE).rev().collect()),
    ];
    for (name, order) in orders {
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                Ledger::default,
                |ledger| order.iter().all(|at| ledger.add(at * BLOCK, BLOCK, sum).is_ok()),
                BatchSize::SmallInput,
            );
        });
    }
}

criterion_group!(ledger, ledgers);
criterion_main!(ledger);
