//! A sample transfer as receipt, series and test, for the tests of this crate.

use std::fmt::Write as _;

use model::v1::{self, Receipt};
use pilot::series::COLUMNS;

/// The id of the job of [`receipt`].
pub const JOB: &str = "0198a1b2-0000-7000-8000-00000000000a";

/// A stream that carried `bytes`.
fn stream(id: u32, bytes: u64) -> v1::Stream {
    v1::Stream {
        id,
        bytes,
        rtt_s: 0.304,
        min_rtt_s: 0.303,
        retransmits: 12,
        cwnd_segments: 12_000,
        mss_bytes: 1448,
        delivery_rate_bit_s: 470_000_000,
        busy_s: 8.0,
        receive_window_limited_s: 2.0,
        sent_bytes: bytes + 17_376,
        resent_bytes: 17_376,
        window_bytes: 64 << 20,
        window_scaling: true,
        congestion: "bbr".into(),
        payload: "sealed".into(),
        address: "192.0.2.1:40001".into(),
        peer_address: "198.51.100.7:7411".into(),
        ..v1::Stream::default()
    }
}

/// A job of 1 GiB over two streams, which left one file out.
pub fn receipt() -> Receipt {
    let end = |here, cpu, socket| v1::End {
        here,
        sends: here,
        threads: 2,
        processors: 8,
        busy: 0.25,
        cpu,
        socket,
        ..v1::End::default()
    };
    Receipt {
        v: 1,
        event: "receipt".into(),
        transfer: JOB.into(),
        state: v1::State::Partial,
        exit: 3,
        source: vec!["/srv/run7".into()],
        target: "lh://dtn.example/data/run7".into(),
        bytes: 1 << 30,
        files: 3,
        directories: 1,
        links: 0,
        skipped: 0,
        skipped_bytes: 0,
        special: 1,
        sent_bytes: 1 << 30,
        kept_bytes: 0,
        unfinished: 0,
        refreshed: 0,
        failed: 0,
        failures: vec![v1::Miss {
            path: "run7/<pipe>".into(),
            path_b64: None,
            fault: "storage".into(),
            reason: "a FIFO, socket or device: not copied".into(),
        }],
        resent_bytes: 0,
        resumed_bytes: 0,
        deleted: 0,
        dry_run: false,
        seconds: 10.0,
        rate_bit_s: 858_993_459,
        phases: v1::Phases { connect: 0.9, scan: 0.1, transfer: 8.5, finish: 0.6 },
        digests: vec![v1::Verified { algorithm: "crc32c".into(), files: 3, value: None }],
        streams: vec![stream(0, 0), stream(1, 512 << 20), stream(2, 512 << 20)],
        limited_by: v1::Limit {
            part: "network".into(),
            evidence: "the path gave 938 Mbit/s and no more when it was full".into(),
            remedy: "a faster path, or less of other traffic".into(),
        },
        ends: vec![end(true, 0.2, 0.8), end(false, 0.1, 0.9)],
        carried: Vec::new(),
        mirrors: Vec::new(),
        versions: v1::Versions { client: "longhaul/0.1.0".into(), node: "longhaul/0.1.0".into(), protocol: 2 },
        error: None,
    }
}

/// A row of a sending stream, which waited for its socket since the last row, except for the share on the processor.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow {
    /// Seconds since the start.
    pub at_s: f64,
    /// Seconds since the last row.
    pub for_s: f64,
    /// The number of the stream.
    pub stream: u32,
    /// The rate that it delivered meanwhile.
    pub mbit_s: f64,
    /// The share of its time on the processor.
    pub busy: f64,
}

/// A series with these rows, and a row of the other end wherever the first stream has one.
pub fn series(job: &str, samples: &[SampleRow]) -> String {
    let mut out = format!("{COLUMNS}\n");
    let mut job = job;
    for SampleRow { at_s, for_s, stream, mbit_s, busy } in samples {
        let ms = for_s * 1e3;
        let sent = (at_s * 1e6) as u64;
        let _ = writeln!(
            out,
            "{at_s:.3},{stream},1,0.000,{:.3},{:.3},0.000,0.000,0.000,{ms:.3},{mbit_s:.3},304.000,303.000,12000,1448,9000,470.000,,\
             {sent},1448,{at_s:.3},{:.3},0.000,67108864,0,0,bbr,0,0.000,{:.3},0.000,{job}",
            ms * busy,
            ms * (1.0 - busy),
            at_s / 4.0,
            ms * busy,
        );
        job = "";
        if *stream == 1 {
            let empty = ",".repeat(18);
            let _ = writeln!(
                out,
                "{at_s:.3},far,2,0.000,{:.3},{:.3},0.000,0.000,0.000,0.000{empty},0.000,{:.3},0.000,",
                ms * 0.1,
                ms * 0.9,
                ms * 0.1
            );
        }
    }
    out
}

/// Two streams for `quarters` quarters of a second, the first a little faster; in the middle both move nothing for one sample.
pub fn two_streams(quarters: u32) -> Vec<SampleRow> {
    let rows_at = |n: u32| {
        let at_s = f64::from(n) * 0.25;
        let pause = if n == quarters / 2 { 0.0 } else { 1.0 };
        [(1, 480.0), (2, 440.0)].map(|(stream, mbit_s)| SampleRow {
            at_s,
            for_s: 0.25,
            stream,
            mbit_s: mbit_s * pause,
            busy: 0.2,
        })
    };
    (1..=quarters).flat_map(rows_at).collect()
}
