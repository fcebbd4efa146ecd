//! What the rate is as a function of the setting, up to nine unknown numbers; and what is known of those before any trial.
//!
//! With `n = clients * streams` connections and `f = clients * files` files at once or in turn:
//!
//! ```text
//! sent    min(n * min(8 * window / RTT, stream), clients * client, limit)
//! moved   sent / (1 + fall * max(0, n / knee - 1))
//! rate    moved / (1 + moved / (f * start)) * f^-seek * max(1, n * window / (2 * BDP))^-queue
//! ```
//!
//! `limit` is what path or disks give, `stream` what loss leaves of one stream, `client` what one process can send, `knee` the connections that
//! the hosts serve at no price, `start` the bits of a file in the time that a client needs to begin (a client with few files spends much of its time on
//! that), `seek` what disks lose by turning to many files, `queue` what is lost when windows beyond twice the bandwidth-delay product fill queues.

use super::SearchHints;
use super::setting::{ParameterName, Setting};

/// The window of a stream that is left to the kernel, bytes: the largest send buffer of Linux by default (`tcp_wmem`).
const KERNEL_WINDOW_BYTES: f64 = 4_194_304.0;

/// The unknown numbers of a response.
pub(super) const UNKNOWNS: usize = 9;

/// What a setting asks of path and hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SettingLoad {
    clients: f64,
    connections: f64,
    window_bytes: f64,
    /// Files of all clients.
    files: f64,
    files_log: f64,
    /// The logarithm of the windows of all connections, bits.
    window_bits_log: f64,
}

/// A response: the logarithms of its unknown numbers, in the order of [`Prior`]'s ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateResponse {
    pub(super) logs: [f64; UNKNOWNS],
}

/// The unknown numbers themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    limit_bit_s: f64,
    stream_bit_s: f64,
    client_bit_s: f64,
    rtt_s: f64,
    knee: f64,
    fall: f64,
    start_bit_s: f64,
    seek: f64,
    queue: f64,
    /// The logarithm of twice the bandwidth-delay product, bits: what follows from limit and round trip, computed once.
    held_bits_log: f64,
}

/// Where the logarithm of an unknown number lies. Its density grows as `exp(slope * log)`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LogRange {
    low: f64,
    high: f64,
    slope: f64,
}

/// What is known before any trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prior {
    ranges: [LogRange; UNKNOWNS],
}

impl SettingLoad {
    /// What a setting asks. A parameter that is not varied is 1; the window, that of the kernel.
    pub(super) fn of(setting: &Setting) -> SettingLoad {
        let value = |name| setting.value(name).map_or(1.0, |value| value as f64);
        let window = setting.value(ParameterName::Window).filter(|bytes| *bytes > 0);
        let window_bytes = window.map_or(KERNEL_WINDOW_BYTES, |bytes| bytes as f64);
        let clients = value(ParameterName::Clients);
        let connections = clients * value(ParameterName::Streams);
        let files = clients * value(ParameterName::Files);
        let window_bits_log = (8.0 * connections * window_bytes).ln();
        SettingLoad { clients, connections, window_bytes, files, files_log: files.ln(), window_bits_log }
    }
}

impl RateResponse {
    /// The numbers that the logarithms stand for.
    pub(super) fn law(&self) -> Law {
        let [limit_bit_s, stream_bit_s, client_bit_s, rtt_s, knee, fall, start_bit_s, seek, queue] =
            self.logs.map(f64::exp);
        let held_bits_log = (2.0 * limit_bit_s * rtt_s).ln();
        Law { limit_bit_s, stream_bit_s, client_bit_s, rtt_s, knee, fall, start_bit_s, seek, queue, held_bits_log }
    }
}

impl Law {
    /// The rate of a load, bit/s.
    pub(super) fn rate_bit_s(&self, load: &SettingLoad) -> f64 {
        let each = (8.0 * load.window_bytes / self.rtt_s).min(self.stream_bit_s);
        let sent = (load.connections * each).min(load.clients * self.client_bit_s).min(self.limit_bit_s);
        let moved = sent / (1.0 + self.fall * (load.connections / self.knee - 1.0).max(0.0));
        let starting = 1.0 + moved / (load.files * self.start_bit_s);
        let queues = self.queue * (load.window_bits_log - self.held_bits_log).max(0.0);
        moved / starting * (-queues - self.seek * load.files_log).exp()
    }
}

impl LogRange {
    fn new(low: f64, high: f64, slope: f64) -> LogRange {
        LogRange { low: low.ln(), high: high.ln(), slope }
    }

    /// The logarithm below which the part `part` of the probability lies.
    fn quantile(&self, part: f64) -> f64 {
        let width = self.high - self.low;
        if self.slope == 0.0 {
            return self.low + part * width;
        }
        self.low + (1.0 + part * ((self.slope * width).exp() - 1.0)).ln() / self.slope
    }

    fn contains(&self, log: f64) -> bool {
        (self.low..=self.high).contains(&log)
    }
}

impl Prior {
    /// What hints leave open.
    pub(super) fn new(hints: &SearchHints) -> Prior {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let limit = match hints.capacity_bit_s.filter(positive) {
            // Disks, other traffic and headers take their part of a capacity; most of the time not much.
            Some(capacity) => LogRange::new(capacity / 50.0, capacity * 1.05, 1.0),
            None => LogRange::new(1e8, 1e12, 0.0),
        };
        let rtt = match hints.rtt_s.filter(positive) {
            // Queues make it longer under load.
            Some(rtt_s) => LogRange::new(rtt_s * 0.95, rtt_s * 1.3, -4.0),
            None => LogRange::new(1e-4, 0.5, 0.0),
        };
        let knee = match hints.processors.filter(|processors| *processors > 0) {
            Some(processors) => LogRange::new(f64::from(processors) / 2.0, f64::from(processors) * 4.0, 0.0),
            None => LogRange::new(1.0, 512.0, 0.0),
        };
        // From 10 Mbit/s of a path with much loss to what a processor core can send; more means that loss does not matter.
        let stream = LogRange::new(1e7, 1e13, 0.0);
        // What a process can do: from one that encrypts on a slow core to more than a path has.
        let client = LogRange::new(1e9, 1e13, 0.0);
        let fall = LogRange::new(0.005, 2.0, 0.0);
        let start = LogRange::new(1e8, 1e13, 0.0);
        // Most hosts and paths lose little by these two: half of the range is below 0.03 %.
        let seek = LogRange::new(1e-6, 0.1, 0.0);
        let queue = LogRange::new(1e-6, 0.1, 0.0);
        Prior { ranges: [limit, stream, client, rtt, knee, fall, start, seek, queue] }
    }

    /// A response drawn from what is known.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> RateResponse {
        RateResponse { logs: self.ranges.map(|range| range.quantile(random.f64())) }
    }

    /// The logarithm of the density of a response, up to a constant; none where it is impossible.
    pub(super) fn log_density(&self, response: &RateResponse) -> Option<f64> {
        let mut sum = 0.0;
        for (range, log) in self.ranges.iter().zip(response.logs) {
            if !range.contains(log) {
                return None;
            }
            sum += range.slope * log;
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Gbit/s over 100 ms, hosts with 16 processors, and nothing else that costs.
    const LAW: Law = Law {
        limit_bit_s: 10e9,
        stream_bit_s: 1e12,
        client_bit_s: 1e12,
        rtt_s: 0.1,
        knee: 16.0,
        fall: 0.5,
        start_bit_s: 1e15,
        seek: 0.0,
        queue: 0.0,
        held_bits_log: 21.416_413,
    };

    fn load(clients: u64, streams: u64, window_bytes: u64, files: u64) -> SettingLoad {
        SettingLoad::of(&Setting::new([
            (ParameterName::Clients, clients),
            (ParameterName::Streams, streams),
            (ParameterName::Window, window_bytes),
            (ParameterName::Files, files),
        ]))
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-3, "{value}, not {expected}");
    }

    #[test]
    fn the_rate_is_the_least_of_windows_loss_clients_and_limit() {
        const GB: u64 = 1_000_000_000;
        // 1 MiB in 100 ms is 83.9 Mbit/s.
        near(LAW.rate_bit_s(&load(1, 1, 1 << 20, 1)), 83.886e6);
        near(LAW.rate_bit_s(&load(2, 8, 1 << 20, 1)), 16.0 * 83.886e6);
        near(LAW.rate_bit_s(&load(2, 8, GB, 1)), 10e9);
        near(Law { stream_bit_s: 50e6, ..LAW }.rate_bit_s(&load(1, 8, 1 << 20, 1)), 8.0 * 50e6);
        near(Law { client_bit_s: 2e9, ..LAW }.rate_bit_s(&load(3, 4, GB, 1)), 6e9);
        // The window of the kernel is 4 MiB.
        near(LAW.rate_bit_s(&load(1, 1, 0, 1)), 4.0 * 83.886e6);
    }

    #[test]
    fn connections_beyond_the_knee_and_few_files_cost() {
        const GB: u64 = 1_000_000_000;
        near(LAW.rate_bit_s(&load(4, 8, GB, 1)), 10e9 / 1.5);
        let slow_start = Law { start_bit_s: 1e9, ..LAW };
        // Two clients with five files each: as much time to begin as to move.
        near(slow_start.rate_bit_s(&load(2, 2, GB, 5)), 5e9);
        near(slow_start.rate_bit_s(&load(2, 2, GB, 500)), 9.9e9);
    }

    #[test]
    fn many_files_and_windows_beyond_the_path_cost() {
        near(Law { seek: 0.1, ..LAW }.rate_bit_s(&load(2, 2, 1_000_000_000, 50)), 10e9 * 100f64.powf(-0.1));
        // The path holds 125 MB; four windows of 125 MB are twice what is free.
        let full = Law { queue: 0.1, ..LAW };
        near(full.rate_bit_s(&load(2, 1, 125_000_000, 1)), 10e9);
        near(full.rate_bit_s(&load(4, 1, 125_000_000, 1)), 10e9 * 2f64.powf(-0.1));
    }

    #[test]
    fn a_drawn_response_knows_what_the_path_holds() {
        let law = Prior::new(&SearchHints::default()).draw(&mut fastrand::Rng::with_seed(2)).law();
        near(law.held_bits_log.exp(), 2.0 * law.limit_bit_s * law.rtt_s);
        near(LAW.held_bits_log.exp(), 2e9);
    }

    #[test]
    fn draws_lie_where_the_hints_say() {
        let hints = SearchHints { rtt_s: Some(0.1), capacity_bit_s: Some(10e9), processors: Some(16) };
        let prior = Prior::new(&hints);
        let mut random = fastrand::Rng::with_seed(1);
        let laws: Vec<Law> = (0..1_000).map(|_| prior.draw(&mut random).law()).collect();
        assert!(laws.iter().all(|law| law.limit_bit_s <= 10.51e9 && (0.094..0.131).contains(&law.rtt_s)));
        let half = laws.iter().filter(|law| law.limit_bit_s > 5e9).count();
        assert!((480..600).contains(&half), "with a slope of 1 each rate is as likely: {half}");
        let mut random = fastrand::Rng::with_seed(1);
        assert!((0..1_000).all(|_| prior.log_density(&prior.draw(&mut random)).is_some()));
        assert_eq!(prior.log_density(&RateResponse { logs: [0.0; UNKNOWNS] }), None);
    }

    #[test]
    fn odd_hints_are_none() {
        let odd = SearchHints { rtt_s: Some(f64::NAN), capacity_bit_s: Some(-1.0), processors: Some(0) };
        assert_eq!(Prior::new(&odd), Prior::new(&SearchHints::default()));
    }
}
