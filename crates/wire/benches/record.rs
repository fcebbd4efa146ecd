//! The table of a record of many small files: a part of `make bench-micro`.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wire::record::{Head, Part, decode_table, encode_table};

/// The files of a record of small files.
const PARTS: usize = 256;

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

criterion_group!(record, records);
criterion_main!(record);
