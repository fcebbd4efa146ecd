//! Sealing a block with each suite: a part of `make bench-micro`.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine::seal::{Sealer, SealingEnd, Secret, TAG_BYTES};
use wire::frame::Suite;

/// Blocks as small as a write, as large as what stays in the second-level cache, and as large as a record.
const BLOCKS: [usize; 3] = [4 << 10, 128 << 10, 1 << 20];

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

criterion_group!(seal, seals);
criterion_main!(seal);
