//! Checksums of a block and of a file from those of its blocks: a part of `make bench-micro`.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use model::checksum::{self, BlockSum};

/// Blocks as small as a write, as large as what stays in the second-level cache, and as large as a record.
const BLOCKS: [usize; 3] = [4 << 10, 128 << 10, 1 << 20];

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

criterion_group!(checksum, checksums);
criterion_main!(checksum);
