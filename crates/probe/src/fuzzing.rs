//! The parsers of untrusted input, as plain functions: the property tests run them in every `make test`, and `make fuzz` (`fuzz/`
//! at the root of the workspace) for any time.
//!
//! Each function takes any bytes and passes them to the real code, as a socket would. It must return: no panic, no overflow, no answer
//! longer than its question; whatever the code writes, it reads back unchanged.

use std::net::{IpAddr, Ipv4Addr};

pub use crate::iperf3::fuzzing::{cookie, iperf3_datagrams, iperf3_params, iperf3_results};
pub use crate::stamp::fuzzing::{stamp_answer, stamp_counts, stamp_delays, stamp_question};
pub use crate::stamp::stream::fuzzing::stream_replies;
pub use crate::twamp::fuzzing::twamp_request;
pub use crate::udp::fuzzing::{udp_counts, udp_run};

use crate::flow::{self, Flows};
use crate::iperf3::{Bounds, Server};
use crate::route::echo;
use crate::udp::datagram::{Head, answer_bytes};

const TOKEN: [u8; 16] = *b"0123456789abcdef";
const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A datagram to a node's port, as all protocols on that port read it.
pub fn datagram(bytes: &[u8]) {
    if let Some(head) = Head::read(bytes) {
        let mut rewritten = bytes.to_vec();
        assert!(head.write(&mut rewritten) && rewritten == bytes, "a head has one form");
    }
    let _ = answer_bytes(bytes);
    let flows = Flows::default();
    let mut test = flows.begin(TOKEN, FROM);
    let is_ours = flows.datagram((FROM, 9).into(), bytes);
    assert_eq!(is_ours, flow::is_message(bytes));
    assert!(test.as_mut().is_none_or(|test| test.datagrams_sent().is_none() || bytes.get(4..20) == Some(&TOKEN)));
    assert!(!Server::new(Bounds::default()).datagram((FROM, 9).into(), bytes), "a stream of a test that is not there");
    let answer = echo::answer(bytes, Some(3), 255, 1, |token| *token == TOKEN);
    if let Some(answer) = answer {
        assert!(answer.len() <= bytes.len(), "an answer is longer than its question");
        assert!(echo::read(&answer, &TOKEN).is_some() && echo::quoted_number(bytes, &TOKEN).is_some());
        assert_eq!(echo::answer(&answer, None, 0, 1, |_| true), None, "an answer is answered");
    }
    let _ = (echo::read(bytes, &TOKEN), echo::quoted_number(bytes, &TOKEN));
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            super::datagram(&bytes);
            super::cookie(&bytes);
            super::iperf3_params(&bytes);
            super::iperf3_results(&bytes);
            super::iperf3_datagrams(&bytes);
            super::stamp_answer(&bytes);
            super::stamp_counts(&bytes);
            super::udp_counts(&bytes);
            super::twamp_request(&bytes);
        }

        #[test]
        fn any_replies_of_a_reflector_are_counted_within_bounds(bytes in vec(any::<u8>(), 0..4_000)) {
            super::stream_replies(&bytes);
        }

        #[test]
        fn datagrams_with_a_known_magic_are_read_or_refused(begin in prop::sample::select(vec![&b"LHU1"[..], b"LHF1", b"LHrq", b"LHra"]),
                                     known: bool, bytes in vec(any::<u8>(), 0..60)) {
            let token = if known { &super::TOKEN[..] } else { b"" };
            super::datagram(&[begin, token, &bytes].concat());
            super::datagram(&[begin, &[0; 8], token, &bytes].concat());
        }

        #[test]
        fn iperf3_results_of_any_numbers_are_read(numbers in vec((any::<i64>(), any::<u64>(), any::<f64>()), 0..4)) {
            let stream = |(a, b, c): &(i64, u64, f64)| {
                let c = if c.is_finite() { *c } else { 0.0 };
                format!("{{\"id\":1,\"bytes\":{},\"retransmits\":{b},\"jitter\":{c},\"errors\":{a},\"packets\":{a},\
                    \"omitted_errors\":{a},\"omitted_packets\":{b},\"start_time\":{c},\"end_time\":{b}}}", b >> 10)
            };
            let streams: Vec<String> = numbers.iter().map(stream).collect();
            super::iperf3_results(format!("{{\"cpu_util_total\":9e300,\"streams\":[{}]}}", streams.join(",")).as_bytes());
        }
    }

    proptest! {
        // Each of these begins with histograms of megabytes.
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn any_run_of_datagrams_is_counted(bytes in vec(any::<u8>(), 0..400)) {
            super::stamp_question(&bytes);
            super::stamp_delays(&bytes);
            super::udp_run(&bytes);
        }
    }
}
