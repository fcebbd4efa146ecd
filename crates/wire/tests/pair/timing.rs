//! The duration of jobs, in round trips: the protocol is designed to need few.

use std::time::Duration;

use wire::limits;

use crate::harness::{Config, MS, Pair};
use crate::tree::{Node, dir, file};
use crate::verify::check;

const LONG_PATH: Config = Config {
    rtt: Duration::from_millis(300),
    stream_bytes_s: 125_000_000,
    streams: 4,
    pull: false,
    checksums: Vec::new(),
    scan_gap: Duration::ZERO,
    action_delay: Duration::ZERO,
    into: true,
    cut_per_mille: 0,
    flip_table_of: 0,
    seed: 1,
};

fn files(count: u64, bytes: u64) -> Vec<Node> {
    let each = |n: u64| dir(&format!("d{n}"), (0..100).map(|at| file(&format!("f{at}"), bytes)).collect());
    vec![dir("top", (0..count / 100).map(each).collect())]
}

#[test]
fn a_small_file_takes_one_round_trip_and_no_stream() {
    for pull in [false, true] {
        let roots = [file("a", 1024)];
        let mut pair = Pair::new(Config { pull, ..LONG_PATH }, &roots);
        pair.run().unwrap();
        check(&pair, &roots);
        assert_eq!(pair.now, LONG_PATH.rtt);
        assert_eq!(pair.first_file_at, Some(LONG_PATH.rtt / 2));
        assert_eq!(pair.streams_opened, 0);
    }
}

#[test]
fn small_files_take_no_round_trip_each() {
    for pull in [false, true] {
        let roots = files(20_000, 1024);
        let mut pair = Pair::new(Config { pull, ..LONG_PATH }, &roots);
        pair.run().unwrap();
        assert_eq!(check(&pair, &roots).files, 20_000);
        let bytes_time = Duration::from_secs_f64(20_000.0 * 1024.0 / (4.0 * LONG_PATH.stream_bytes_s as f64));
        // Offer and verdict, connect (push only), records and outcomes: three round trips. The bound allows a fourth.
        let bound = 4 * LONG_PATH.rtt + 2 * bytes_time;
        assert!(pair.now <= bound, "{:?} is more than {bound:?}", pair.now);
        // A record has 64 files, not one.
        assert!(pair.records_sent <= 20_000 / limits::PACK_FILES_MAX as u64 + 20, "{} records", pair.records_sent);
    }
}

#[test]
fn a_large_file_runs_at_the_rate_of_all_streams() {
    let bytes = 64 << 20;
    let roots = [file("a", bytes)];
    let config = Config { stream_bytes_s: 4_000_000, ..LONG_PATH };
    let mut pair = Pair::new(config, &roots);
    pair.run().unwrap();
    check(&pair, &roots);
    let ideal = Duration::from_secs_f64(bytes as f64 / 16_000_000.0);
    // One block more per stream: the last blocks do not end at the same time.
    let bound = ideal + 3 * LONG_PATH.rtt + Duration::from_secs_f64((1 << 20) as f64 / 4_000_000.0);
    assert!(pair.now >= ideal && pair.now <= bound, "{:?} is not near {ideal:?}", pair.now);
}

#[test]
fn sending_starts_before_the_scan_ends() {
    let roots = files(5000, 2000);
    let mut pair = Pair::new(Config { scan_gap: MS, ..LONG_PATH }, &roots);
    pair.run().unwrap();
    check(&pair, &roots);
    let scan_end = pair.scan_ended_at.unwrap();
    assert!(scan_end > Duration::from_secs(5));
    // Offer, verdict, connect. The first file is sent inline, and so arrives sooner.
    assert!(pair.first_record_at.unwrap() < 3 * LONG_PATH.rtt, "{:?}", pair.first_record_at);
    assert!(pair.first_file_at.unwrap() < LONG_PATH.rtt, "{:?}", pair.first_file_at);
    assert!(pair.now <= scan_end + 2 * LONG_PATH.rtt, "{:?} after a scan of {scan_end:?}", pair.now);
}
