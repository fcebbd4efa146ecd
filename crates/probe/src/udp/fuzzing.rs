//! The input of the receiving end of a run; see [`crate::fuzzing`].

use std::collections::BTreeSet;

use model::v1::probe::udp::{UdpOrder, UdpPace};
use sys::datagrams::ReceivedMessage;

use super::EndNotice;
use super::datagram::{FlowId, HEAD_BYTES, Head, Kind, Token};
use super::order::Plan;
use super::receive::RunAccumulator;
use super::tally::{Arrival, NumberCounts};

/// Datagrams of a run, from 18 bytes each: the kind, the run, the number, the sending time.
pub fn udp_run(bytes: &[u8]) {
    let order = UdpOrder { bytes: HEAD_BYTES as u32, pace: UdpPace::Max, count: None, seconds: Some(1.0) };
    let ours = FlowId { token: Token([1; 16]), run: 1 };
    let Ok(plan) = Plan::of(&order) else { return };
    let mut accumulator = RunAccumulator::new(&plan, ours);
    let mut pieces = 0u64;
    let mut of_run = 0;
    for [kind, run, number @ .., a, b, c, d, e, f, g, h] in bytes.as_chunks::<18>().0 {
        let kind = if *kind < 0xf0 { Kind::Data } else { Kind::End };
        let head = Head {
            flow: FlowId { run: u32::from(run / 0xf0) + 1, ..ours },
            kind,
            number: u64::from_be_bytes(*number),
            sent_ns: u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        };
        let mut datagram = [0; HEAD_BYTES];
        head.write(&mut datagram);
        pieces += 1;
        of_run += u64::from(kind == Kind::Data && head.flow == ours);
        let stamp_ns = Some(pieces * 1_000);
        accumulator.take(&ReceivedMessage { bytes: &datagram, stamp_ns, datagram_bytes: None, truncated: false });
    }
    let received = accumulator.result(&EndNotice::default());
    assert!(
        received.datagrams + received.duplicates + received.unjudged <= of_run,
        "{} of {of_run}",
        received.datagrams
    );
    assert!(received.expected.is_none_or(|sent| received.lost <= sent.max(plan.count)));
}

/// Numbers in the order of arrival, two bytes each, compared with a set of all of them; the first two bytes are how many were sent.
pub fn udp_counts(bytes: &[u8]) {
    let [sent, numbers @ ..] = bytes.as_chunks::<2>().0 else { return };
    let sent = u64::from(u16::from_be_bytes(*sent));
    let mut tally = NumberCounts::new(sent);
    let mut seen = BTreeSet::new();
    for number in numbers.iter().map(|bytes| u64::from(u16::from_be_bytes(*bytes))) {
        let ahead = seen.last().is_none_or(|last| number > *last);
        let expected = match (number < sent, seen.contains(&number), ahead) {
            (false, ..) => Arrival::OutOfRange,
            (_, true, _) => Arrival::Duplicate,
            (_, _, true) => Arrival::Ahead,
            _ => Arrival::Late { distance: seen.last().map_or(0, |last| last - number) },
        };
        assert_eq!(tally.take(number), expected, "number {number}");
        if number < sent {
            seen.insert(number);
        }
    }
    let missing = tally.missing_of(Some(sent), 3);
    assert_eq!((tally.received(), missing.lost), (seen.len() as u64, sent - seen.len() as u64));
    assert!(missing.runs.len() <= 3 && missing.runs.len() as u64 <= missing.runs_total);
    assert!(missing.runs.iter().all(|(from, length)| (*from..from + length).all(|number| !seen.contains(&number))));
}
