//! The input of a client and a server of iperf3; see [`crate::fuzzing`].

use model::v1::probe::Direction;
use model::v1::probe::tcp::{End, Flow, Order, Total};

use super::client::server_end;
use super::control::{COOKIE_BYTES, Cookie};
use super::datagrams::{DatagramCounts, is_hello, read_header};
use super::message::{Params, Results};
use crate::tcp::directions;

/// The first bytes of a connection.
pub fn cookie(bytes: &[u8]) {
    let mut verdict = None;
    for end in 0..=bytes.len().min(COOKIE_BYTES) {
        let now = Cookie::begins(&bytes[..end]);
        assert!(verdict.is_none() || now == verdict, "more bytes change what was certain");
        verdict = now;
    }
    if let Some(cookie) = bytes.first_chunk().map(|bytes| Cookie::from_bytes(*bytes)) {
        assert!(format!("{cookie:?}").len() < COOKIE_BYTES, "a cookie is not for logs");
    }
}

/// A client's parameters.
pub fn iperf3_params(bytes: &[u8]) {
    let Ok(params) = Params::parse(bytes) else { return };
    params.quota();
    assert_eq!(Params::parse(&params.encode()), Ok(params), "parameters read otherwise");
}

/// A server's results, and the report that a client makes of them.
pub fn iperf3_results(bytes: &[u8]) {
    let Ok(results) = Results::parse(bytes) else { return };
    let total = |stream: u32| {
        let flow = Flow { stream, direction: Direction::of(stream == 1), bytes: 1_000, ..Flow::default() };
        Total { flow, counted_bytes: 900, counted_s: 1.0, ..Total::default() }
    };
    let near = End { totals: vec![total(1), total(3)], ..End::default() };
    let far = server_end(&near, &results, 1.0);
    assert_eq!(far.totals.len(), results.streams.len());
    directions(&Order::default(), &near, &far);
    assert_eq!(Results::parse(&results.encode()), Ok(results), "results read otherwise");
}

/// Datagrams of a stream, each after a byte with its length; the first byte decides how wide their numbers are.
pub fn iperf3_datagrams(bytes: &[u8]) {
    let Some((wide, mut rest)) = bytes.split_first() else { return };
    let mut tally = DatagramCounts::default();
    while let Some((length, datagrams)) = rest.split_first() {
        let (datagram, others) = datagrams.split_at(usize::from(*length).min(datagrams.len()));
        rest = others;
        is_hello(datagram);
        if let Some((sent, number)) = read_header(datagram, wide & 1 == 1) {
            tally.record(datagram.len(), number, sent, 1.8e9);
        }
    }
    let result = tally.result(1, std::time::Duration::from_secs(1));
    assert!(result.bytes <= bytes.len() as u64 && result.jitter_s.is_finite() && result.jitter_s >= 0.0);
}
