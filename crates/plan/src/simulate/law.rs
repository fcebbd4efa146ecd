//! The rate that one transfer can have over a route, and the time until it has it: the laws of `model::laws` with the stream counts of
//! `pilot`.
//!
//! Does not know: other transfers.

use std::time::Duration;

use model::laws;
use pilot::Known;
use scenario::{Congestion, Profile, Scenario, Work};

use crate::network::Network;
use crate::routes::NetworkRoute;

/// Bytes of a packet that are not payload: IPv6 and TCP with time stamps.
const HEADER_BYTES: f64 = 72.0;
/// The payload of a TLS record, and the bytes that the record adds (RFC 8446, section 5.2).
const RECORD_BYTES: f64 = 16_384.0;
const RECORD_ADDED_BYTES: f64 = 22.0;
/// Loss up to which BBR keeps its rate (Cardwell and others, BBR congestion control, 2016, figure 8).
const BBR_TOLERATES: f64 = 0.15;
/// Round trips before the first byte of payload: TCP, the handshake of the session with the job in it, and the streams.
const SESSION_ROUND_TRIPS: f64 = 3.0;
/// Round trips after the last byte was sent: it arrives and is verified, and the answer comes back.
const END_ROUND_TRIPS: f64 = 1.0;
/// What BBR leaves of a path that it has alone: it paces 1 % below the rate that it measured, and empties the path for 200 ms of each 10 s
/// (`bbr_pacing_margin_percent`, `bbr_min_rtt_win_sec` and `bbr_probe_rtt_mode_ms` of Linux).
pub(super) const BBR_USES: f64 = 0.99 * (1.0 - 0.2 / 10.0);
/// The least time that Linux adds to a round trip before it sends again what was not acknowledged (`TCP_RTO_MIN`, where RFC 6298 has its
/// variance).
const RETRANSMISSION_MIN_S: f64 = 0.2;
/// Attempts to send again that are computed: the last is after more than three minutes.
const RETRANSMISSIONS_MAX: i32 = 10;
/// Silence after which a session counts as gone, and the pause before the next attempt to connect.
const SESSION_GONE_S: f64 = 30.0;
const RECONNECTION_S: f64 = 1.0;
/// Processors of a data transfer node, where the scenario does not say.
const PROCESSORS: u32 = 8;
/// The send buffer of a host that was never tuned: `tcp_wmem` of Linux.
const STOCK_BUFFER_BYTES: u64 = 4 << 20;
/// The send buffer of a tuned host.
const DTN_BUFFER_BYTES: u64 = 1 << 30;

/// The terms of a transfer over one route.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTerms {
    /// Round-trip time without queues.
    pub rtt_s: f64,
    /// Share of the packets that is lost whatever is sent.
    pub loss: f64,
    /// Payload of a segment.
    pub mss_bytes: f64,
    /// The window of one stream.
    pub window_bytes: f64,
    /// The congestion control.
    pub congestion: Congestion,
    /// The number of streams that the work states; none leaves it to the pilot.
    pub streams: Option<u32>,
}

/// The part of a link's rate that is payload of encrypted streams. The rate of a link counts IP bytes.
pub(super) fn payload_part(mtu_bytes: f64) -> f64 {
    (mtu_bytes - HEADER_BYTES) / mtu_bytes * RECORD_BYTES / (RECORD_BYTES + RECORD_ADDED_BYTES)
}

impl PathTerms {
    /// The terms between two sites, from the routes of both directions.
    pub fn new(
        scenario: &Scenario,
        network: &Network,
        work: &Work,
        source: usize,
        forward: &NetworkRoute,
        reverse: &NetworkRoute,
    ) -> PathTerms {
        let mtu = forward.links.iter().map(|link| network.links[*link].mtu_bytes).fold(f64::INFINITY, f64::min);
        let buffer = match scenario.sites[source].profile {
            Profile::Dtn => DTN_BUFFER_BYTES,
            Profile::Stock => STOCK_BUFFER_BYTES,
        };
        PathTerms {
            rtt_s: forward.delay_s + reverse.delay_s,
            loss: forward.loss(network),
            mss_bytes: if mtu.is_finite() { mtu - HEADER_BYTES } else { 1428.0 },
            // Half of a buffer is payload: the kernel counts its own structures too.
            window_bytes: (buffer / 2) as f64,
            congestion: scenario.simulation.congestion,
            streams: work.streams,
        }
    }

    /// The most that one stream carries, bytes per second.
    pub fn stream_bytes_s(&self) -> f64 {
        let by_window = if self.rtt_s > 0.0 { self.window_bytes / self.rtt_s } else { f64::INFINITY };
        let by_loss = match self.congestion {
            _ if self.loss <= 0.0 || self.rtt_s <= 0.0 => f64::INFINITY,
            Congestion::Bbr if self.loss <= BBR_TOLERATES => f64::INFINITY,
            Congestion::Bbr | Congestion::Reno => laws::mathis_bit_s(self.mss_bytes, self.rtt_s, self.loss) / 8.0,
            Congestion::Cubic => laws::cubic_bit_s(self.mss_bytes, self.rtt_s, self.loss) / 8.0,
        };
        by_window.min(by_loss)
    }

    /// The same without loss.
    pub fn without_loss(&self) -> PathTerms {
        PathTerms { loss: 0.0, ..self.clone() }
    }

    /// The time until a transfer may send its first payload.
    pub fn session_s(&self) -> f64 {
        SESSION_ROUND_TRIPS * self.rtt_s
    }

    /// The most that one transfer carries, bytes per second of payload.
    pub fn cap_bytes_s(&self) -> f64 {
        f64::from(self.streams.unwrap_or(pilot::STREAMS_MAX)) * self.stream_bytes_s()
    }

    /// The streams that a transfer has at a rate: as many as its work states, else as many as the pilot begins with, or adds because one stream is the limit.
    pub fn streams_at(&self, rate_bytes_s: f64) -> u32 {
        let by_limit = (rate_bytes_s / self.stream_bytes_s()).ceil().min(f64::from(pilot::STREAMS_MAX)) as u32;
        self.streams.unwrap_or_else(|| self.first_streams().max(by_limit))
    }

    fn first_streams(&self) -> u32 {
        let known =
            Known { processors: PROCESSORS, send_buffer_bytes: 2 * self.window_bytes as u64, ..Known::default() };
        pilot::first_streams(Duration::from_secs_f64(self.rtt_s), &known)
    }

    /// The weight of a transfer with so many streams where links are shared by congestion control alone: loss-based streams share in inverse proportion to
    /// their round-trip times; BBR shares by the number of streams.
    pub fn weight(&self, streams: u32) -> f64 {
        match self.congestion {
            Congestion::Bbr => f64::from(streams),
            Congestion::Cubic | Congestion::Reno => f64::from(streams) / self.rtt_s.max(1e-4),
        }
    }

    /// The time until a transfer has its rate, less what it moves meanwhile: the session, and slow start from ten segments in each stream. While a window
    /// doubles each round trip, it carries in total what one round trip carries at the full rate.
    pub fn startup_s(&self, rate_bytes_s: f64) -> f64 {
        let session = self.session_s();
        if !rate_bytes_s.is_finite() || rate_bytes_s <= 0.0 {
            return session;
        }
        let window = rate_bytes_s * self.rtt_s / f64::from(self.streams_at(rate_bytes_s));
        let ramp = laws::slow_start_s(window, self.mss_bytes, self.rtt_s.max(1e-9));
        session + (ramp - self.rtt_s).max(0.0)
    }
}

impl PathTerms {
    /// The time from the moment at which the last byte is sent until the transfer is complete.
    pub fn end_s(&self) -> f64 {
        END_ROUND_TRIPS * self.rtt_s
    }

    /// How long a transfer at a rate needs to come back after a path was gone for some seconds, less what it moves meanwhile. Its streams send again
    /// when their retransmission timers end, which double each time (RFC 6298, section 5.5), or the session is opened again; then they grow as at the
    /// beginning.
    pub fn resumption_s(&self, gone_s: f64, rate_bytes_s: f64) -> f64 {
        let first = self.rtt_s + RETRANSMISSION_MIN_S;
        let mut attempts = (1..=RETRANSMISSIONS_MAX).map(|number| first * (2f64.powi(number) - 1.0));
        let retransmission_s = attempts.find(|at| *at >= gone_s).map_or(f64::INFINITY, |at| at - gone_s);
        let reconnection_s = (SESSION_GONE_S - gone_s).max(0.0) + RECONNECTION_S;
        retransmission_s.min(reconnection_s) + self.startup_s(rate_bytes_s) - self.session_s()
    }
}

/// The loss of a full link at which the rates of its flows, by their laws, add up to its capacity: the loss that streams cause each other
/// where only congestion control limits them.
/// Flows are given with their numbers of streams. 0 if they do not fill the link, or if one of them is BBR's, which keeps its rate whatever is lost.
pub fn equilibrium_loss(flows: &[(PathTerms, u32)], capacity_bytes_s: f64) -> f64 {
    let sum = |loss: f64| -> f64 {
        flows
            .iter()
            .map(|(terms, streams)| f64::from(*streams) * PathTerms { loss, ..terms.clone() }.stream_bytes_s())
            .sum()
    };
    let (mut low, mut high) = (1e-12_f64, 0.5_f64);
    let ignores_loss = |flow: &(PathTerms, u32)| flow.0.congestion == Congestion::Bbr;
    if flows.iter().any(ignores_loss) || sum(low) <= capacity_bytes_s {
        return 0.0;
    }
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if sum(middle) > capacity_bytes_s { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(congestion: Congestion, loss: f64, streams: Option<u32>) -> PathTerms {
        PathTerms { rtt_s: 0.303, loss, mss_bytes: 8948.0, window_bytes: 512e6, congestion, streams }
    }

    #[test]
    fn loss_holds_cubic_and_reno_but_not_bbr() {
        let cap = |congestion| terms(congestion, 4.6e-5, Some(1)).cap_bytes_s() * 8.0 / 1e6;
        assert!((cap(Congestion::Reno) - 42.7).abs() < 0.1, "{}", cap(Congestion::Reno));
        assert!(cap(Congestion::Cubic) > cap(Congestion::Reno));
        assert!(
            (cap(Congestion::Bbr) - 13_518.0).abs() < 1.0,
            "a window of 512 MB each 303 ms: {}",
            cap(Congestion::Bbr)
        );
    }

    #[test]
    fn a_transfer_starts_with_the_streams_of_the_pilot() {
        assert_eq!(terms(Congestion::Bbr, 0.0, None).streams_at(1e6), 16, "one for each 20 ms, 16 at most");
        assert_eq!(terms(Congestion::Bbr, 0.0, Some(4)).streams_at(1e9), 4);
    }

    #[test]
    fn more_streams_make_more_loss() {
        let flow = |streams| (PathTerms { rtt_s: 0.06, ..terms(Congestion::Reno, 0.0, None) }, streams);
        let few = equilibrium_loss(&[flow(40)], 12.5e9);
        let many = equilibrium_loss(&[flow(100)], 12.5e9);
        // Reno's law: the rate falls with the root of the loss.
        assert!((many / few - (100.0f64 / 40.0).powi(2)).abs() < 1e-3, "{few} {many}");
        assert_eq!(equilibrium_loss(&[(terms(Congestion::Bbr, 0.0, None), 9)], 1e9), 0.0);
    }

    #[test]
    fn a_transfer_comes_back_when_its_timers_end() {
        let terms = PathTerms { rtt_s: 0.1, ..terms(Congestion::Bbr, 0.0, Some(1)) };
        // Sent again after 0.3, 0.9, 2.1 and 4.5 s.
        let slow_start = terms.startup_s(1e6) - 0.3;
        assert!((terms.resumption_s(3.0, 1e6) - (1.5 + slow_start)).abs() < 1e-9, "{}", terms.resumption_s(3.0, 1e6));
        assert!((terms.resumption_s(0.25, 1e6) - (0.05 + slow_start)).abs() < 1e-9);
        assert!(terms.resumption_s(86_400.0, 1e6) < 2.0, "after a day a new connection finds the path");
    }

    #[test]
    fn start_up_is_the_session_and_slow_start() {
        let terms = terms(Congestion::Bbr, 0.0, Some(1));
        // 125 MB/s × 303 ms = 37.9 MB: 8.7 doublings of ten segments, less one round trip of payload.
        assert!((terms.startup_s(125e6) - 0.303 * (3.0 + 8.725 - 1.0)).abs() < 0.01, "{}", terms.startup_s(125e6));
    }
}
