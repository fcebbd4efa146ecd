//! Arbitrary answers of a reflector at arbitrary times.

use std::time::Duration;

use model::v1::node::StreamTest;

use super::{Event, Reply, Settings, Stream};
use crate::stamp::clock::Reading;

/// Steps of 16 octets: a pause, then an answer to a packet, with a number. Packets received and lost are never more than those
/// sent.
pub fn stream_replies(bytes: &[u8]) {
    let test = StreamTest { report_s: 1.0, timeout_s: 0.1, rate_packets_s: 100.0, ports: 3, ..StreamTest::default() };
    let Ok(settings) = Settings::new(test, true) else { return };
    let mut now = Reading { mono_ns: 0, real_ns: 1_000_000_000_000, apart_ns: 0 };
    let mut stream = Stream::new(settings, &now, 1);
    for step in bytes.chunks(16) {
        let octet = |at: usize| i64::from(step.get(at).copied().unwrap_or(0));
        let word = |at: usize| (0..4).fold(0u32, |word, next| word << 8 | octet(at + next) as u32);
        now.mono_ns += octet(0) * 4_000_000;
        now.real_ns += octet(0) * 4_000_000 + (octet(1) - 128) * 1_000;
        for _ in 0..8 {
            let _ = stream.poll(&now);
        }
        let far_ns = (octet(2) > 128).then(|| (i64::from(word(3)) << 32, i64::from(word(4))));
        let small = |number: u32| if octet(14) < 200 { number & 15 } else { number };
        let reply =
            Reply { question_sequence: small(word(7)), number: Some(small(word(11))), far_ns, ..Reply::default() };
        stream.handle(u64::from(small(word(3))), &reply, &now, Some(Duration::from_micros(1)));
        while let Some(event) = stream.event() {
            if let Event::Report { report, .. } = event {
                let all = report.received.checked_add(report.lost());
                assert!(all.is_some_and(|all| all <= report.sent), "{report:?}");
            }
        }
    }
}
