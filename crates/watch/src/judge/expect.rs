//! The rate that a path should give in one direction, and the term that binds: the link, the window over the round trip, the law of congestion control
//! under the present loss, or the rate that it has given before.

use model::laws::{cubic_bit_s, mathis_bit_s, window_rate_bit_s};
use model::v1::watch::{Expectation, Term};

use crate::observation::Throughput;

/// The part of a rate that congestion control must still reach for a loss to be tolerated.
const TOLERATED_SHARE: f64 = 0.5;
/// The share of a link that is payload: headers of Ethernet, IP and TCP take the rest.
const PAYLOAD_SHARE: f64 = 0.94;
/// The least loss that is computed with: no path has less.
const LOSS_MIN: f64 = 1e-12;

/// The known facts of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectationInput<'a> {
    /// The rate of its links.
    pub link_bit_s: Option<f64>,
    /// Round trip.
    pub rtt_s: Option<f64>,
    /// Share of packets lost.
    pub loss: Option<f64>,
    /// The last test.
    pub last: Option<&'a Throughput>,
    /// The rate of tests when nothing is wrong.
    pub normal_bit_s: Option<f64>,
}

/// The rate that a congestion control gives under loss, bit/s.
fn rate_under_loss(congestion: &str, mss_bytes: f64, rtt_s: f64, loss: f64) -> Option<f64> {
    match congestion {
        // BBR does not slow down for loss: no law gives its rate.
        bbr if bbr.starts_with("bbr") => None,
        "reno" => Some(mathis_bit_s(mss_bytes, rtt_s, loss)),
        _ => Some(cubic_bit_s(mss_bytes, rtt_s, loss)),
    }
}

/// The loss at which CUBIC gives a rate.
pub fn loss_for(rate_bit_s: f64, mss_bytes: f64, rtt_s: f64) -> f64 {
    let (mut low, mut high) = (LOSS_MIN.ln(), 0.5f64.ln());
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if cubic_bit_s(mss_bytes, rtt_s, middle.exp()) > rate_bit_s { low = middle } else { high = middle }
    }
    low.exp()
}

/// All terms of a direction, and the least of them, which binds.
pub fn expectation(known: &ExpectationInput<'_>) -> Expectation {
    let mut terms = Vec::new();
    let mut add = |name: &str, rate_bit_s: f64, text: String| {
        if rate_bit_s.is_finite() && rate_bit_s > 0.0 {
            terms.push(Term { name: name.to_owned(), rate_bit_s, text });
        }
    };
    if let Some(link) = known.link_bit_s {
        add("link", link * PAYLOAD_SHARE, "what the links of both sites give, without headers".into());
    }
    let streams = known.last.map_or(1.0, |last| last.streams.max(1.0));
    let mss = known.last.map_or(1_448.0, |last| last.mss_bytes);
    if let (Some(last), Some(rtt)) = (known.last, known.rtt_s)
        && last.window_bytes > 0.0
    {
        let rate = window_rate_bit_s(last.window_bytes, rtt) * streams;
        add("window", rate, format!("{:.0} bytes of window over {:.1} ms", last.window_bytes, rtt * 1e3));
    }
    if let (Some(loss), Some(rtt)) = (known.loss.filter(|loss| *loss > 0.0), known.rtt_s) {
        let congestion = known.last.map_or("cubic", |last| last.congestion.as_str());
        if let Some(rate) = rate_under_loss(congestion, mss, rtt, loss) {
            add("loss", rate * streams, format!("{congestion} at {:.2e} of loss over {:.1} ms", loss, rtt * 1e3));
        }
    }
    if let Some(normal) = known.normal_bit_s {
        add("history", normal, "the median of earlier tests".into());
    }
    terms.sort_by(|a, b| a.rate_bit_s.total_cmp(&b.rate_bit_s));
    // The tolerable loss does not depend on the present loss.
    let target = terms.iter().filter(|term| term.name != "loss").map(|term| term.rate_bit_s).reduce(f64::min);
    Expectation {
        rate_bit_s: terms.first().map(|term| term.rate_bit_s),
        bound_by: terms.first().map(|term| term.name.clone()),
        loss_allowed: target.zip(known.rtt_s).map(|(rate, rtt)| loss_for(rate / streams * TOLERATED_SHARE, mss, rtt)),
        terms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_term_binds() {
        let last = Throughput {
            window_bytes: 4e6,
            streams: 1.0,
            mss_bytes: 1_448.0,
            congestion: "cubic".into(),
            ..Throughput::default()
        };
        let known = ExpectationInput {
            link_bit_s: Some(10e9),
            rtt_s: Some(0.1),
            loss: None,
            last: Some(&last),
            normal_bit_s: Some(300e6),
        };
        let expected = expectation(&known);
        assert_eq!((expected.bound_by.as_deref(), expected.terms.len()), (Some("history"), 3));
        let lossy = expectation(&ExpectationInput { loss: Some(4.6e-5), ..known });
        // CUBIC at 4.6e-5 and 100 ms: 39 Mbit/s (RFC 9438's average window).
        assert_eq!(lossy.bound_by.as_deref(), Some("loss"));
        assert!((35e6..43e6).contains(&lossy.rate_bit_s.unwrap()), "{:?}", lossy.rate_bit_s);
        assert_eq!(lossy.loss_allowed, expected.loss_allowed, "the tolerable loss does not depend on the present one");
        let bbr = Throughput { congestion: "bbr".into(), ..last.clone() };
        let expected = expectation(&ExpectationInput { loss: Some(4.6e-5), last: Some(&bbr), ..known });
        assert!(expected.terms.iter().all(|term| term.name != "loss"), "BBR does not slow down for it");
        assert_eq!(expectation(&ExpectationInput::default()), Expectation::default());
    }

    #[test]
    fn the_tolerable_loss_falls_with_rate_and_round_trip() {
        let fast = loss_for(10e9, 1_448.0, 0.3);
        let near = loss_for(10e9, 8_948.0, 0.01);
        let slow = loss_for(100e6, 1_448.0, 0.1);
        assert!(fast < 1e-7 && fast < near && near < slow, "{fast} {near} {slow}");
        let back = cubic_bit_s(1_448.0, 0.1, slow);
        assert!((back / 100e6 - 1.0).abs() < 0.01, "{back}");
    }
}
