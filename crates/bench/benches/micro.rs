//! The steps that each byte or each record goes through, one by one: `make bench-micro`. A regression that `make bench` shows as a slower
//! transfer is found here by its cause.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine::seal::{Sealer, SealingEnd, Secret, TAG_BYTES};
use model::checksum::{self, BlockSum};
use sched::allocation::{Demand, allocate};
use wire::frame::Suite;
use wire::ledger::Ledger;
use wire::record::{Head, Part, decode_table, encode_table};

/// Blocks as small as a write, as large as what stays in the second-level cache, and as large as a record.
const BLOCKS: [usize; 3] = [4 << 10, 128 << 10, 1 << 20];
/// The files of a record of small files.
const PARTS: usize = 256;

fn checksums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for bytes in BLOCKS {
        let block = vec![7; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(BenchmarkId::new("crc32c", bytes), &block, |b, block| {
            b.iter(|| checksum::crc32c(black_box(block)));
        });
        group.bench_with_input(BenchmarkId::new("adler32", bytes), &block, |b, block| {
            b.iter(|| checksum::adler32(black_box(block)));
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("combine", |b| {
        let [first, second] = [1, 2].map(|crc32c| BlockSum { crc32c, adler32: Some(1) });
        b.iter(|| black_box(first).then(black_box(second), 1 << 20));
    });
}

fn seals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("seal");
    let suites = [
        ("aes-128-gcm", Suite::Aes128Gcm),
        ("chacha20-poly1305", Suite::ChaCha20Poly1305),
        ("aegis-128l", Suite::Aegis128L),
    ];
    for (name, suite) in suites {
        for bytes in BLOCKS {
            group.throughput(Throughput::Bytes(bytes as u64));
            let mut body = vec![7; bytes];
            let mut sealer = Sealer::new(Secret::new(&[1; 32]), suite, 1, SealingEnd::Client);
            group.bench_function(BenchmarkId::new(name, bytes), |b| {
                b.iter(|| sealer.seal(b"head", black_box(&mut body)).map(|tag: [u8; TAG_BYTES]| tag[0]));
            });
        }
    }
}

fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    let part = |file: usize| Part { file: file as u64, offset: 0, len: 4096, crc32c: 1, hole: false, whole: true };
    let parts: Vec<Part> = (0..PARTS).map(part).collect();
    let head = Head::new(PARTS, PARTS * 4096);
    let mut body = vec![0; head.table_len() + head.payload_len()];
    group.throughput(Throughput::Elements(PARTS as u64));
    group.bench_function("encode", |b| b.iter(|| encode_table(&head, black_box(&parts), &mut body)));
    group.bench_function("decode", |b| b.iter(|| decode_table(&head, black_box(&body)).is_ok()));
}

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

criterion_group!(micro, checksums, seals, records, ledgers, allocations);
criterion_main!(micro);
