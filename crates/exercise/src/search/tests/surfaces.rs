//! Rates of invented hosts and paths, drawn by a seed: what real ones do, in more forms than the search knows.
//!
//! The rate is the least of capacity and streams times the least of window over round trip and the law of loss, lowered by connections beyond
//! the processors, and by the time in which clients begin. Loss follows CUBIC or Reno, the price of too many connections one of three
//! forms. A foreign surface has more that the search does not know: what one client can carry, disks that seek with many
//! files at once, and windows that the kernel cuts.

use model::laws;

use super::super::{Parameter, ParameterName, SearchHints, Setting};

/// Whether a surface has only what the search knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The terms that the search has as well, partly in other forms.
    Known,
    /// More terms than the search has.
    Foreign,
}

/// How connections beyond the processors lower the rate.
#[derive(Clone, Copy, Debug)]
enum Contention {
    /// `1 / (1 + a * (n / p - 1))`.
    Hyperbola,
    /// `exp(-a * (n / p - 1))`.
    Exponential,
    /// `(p / n) ^ a`.
    Power,
}

/// A host and a path.
#[derive(Clone, Debug)]
pub struct Surface {
    capacity_bit_s: f64,
    rtt_s: f64,
    loss_law_bit_s: f64,
    processors: f64,
    contention: Contention,
    price: f64,
    start_s: f64,
    file_bytes: f64,
    client_bit_s: f64,
    seek: f64,
    straggling: f64,
    overfull: f64,
    window_max_bytes: f64,
}

impl Surface {
    /// A surface drawn by a seed.
    pub fn draw(family: Family, random: &mut fastrand::Rng) -> Surface {
        let mut between = |low: f64, high: f64| (low.ln() + random.f64() * (high / low).ln()).exp();
        let capacity_bit_s = between(1e9, 400e9);
        let rtt_s = between(0.001, 0.3);
        let loss = between(1e-8, 1e-3);
        let price = between(0.02, 1.0);
        let start_s = between(0.1, 5.0);
        let file_bytes = between(1e8, 2e10);
        let client_bit_s = between(2e9, 50e9);
        let window_max_bytes = between(8e6, 1e9);
        let seek = between(0.001, 0.1);
        let straggling = between(0.001, 0.1);
        let overfull = between(0.001, 0.2);
        let mss_bytes = if random.bool() { 8_948.0 } else { 1_448.0 };
        // Half of the paths lose nothing; of the others, half run Reno.
        let loss_law_bit_s = match random.u8(0..4) {
            0 | 1 => f64::INFINITY,
            2 => laws::cubic_bit_s(mss_bytes, rtt_s, loss),
            _ => laws::mathis_bit_s(mss_bytes, rtt_s, loss),
        };
        let contention = [Contention::Hyperbola, Contention::Exponential, Contention::Power][random.usize(0..3)];
        let processors = [4.0, 8.0, 16.0, 32.0, 64.0][random.usize(0..5)];
        let foreign = family == Family::Foreign;
        Surface {
            capacity_bit_s,
            rtt_s,
            loss_law_bit_s,
            processors,
            contention,
            price,
            start_s,
            file_bytes,
            client_bit_s: if foreign { client_bit_s } else { f64::INFINITY },
            seek: if foreign { seek } else { 0.0 },
            straggling: if foreign { straggling } else { 0.0 },
            overfull: if foreign { overfull } else { 0.0 },
            window_max_bytes: if foreign { window_max_bytes } else { f64::INFINITY },
        }
    }

    /// The rate of a setting, bit/s.
    pub fn rate_bit_s(&self, setting: &Setting) -> f64 {
        let value = |name| setting.value(name).unwrap_or(1) as f64;
        let clients = value(ParameterName::Clients);
        let connections = clients * value(ParameterName::Streams);
        let window_bytes = value(ParameterName::Window).min(self.window_max_bytes);
        let each = laws::window_rate_bit_s(window_bytes, self.rtt_s).min(self.loss_law_bit_s);
        let streams = (connections * each).min(clients * self.client_bit_s);
        let moved = streams.min(self.capacity_bit_s) * self.host_efficiency(connections);
        let files = value(ParameterName::Files);
        let busy_s = files * self.file_bytes * 8.0 / (moved / clients);
        let seeking = 1.0 / (1.0 + self.seek * (clients * files - 1.0).ln_1p());
        let straggling = 1.0 / (1.0 + self.straggling * clients.ln());
        let full = connections * window_bytes / laws::bdp_bytes(self.capacity_bit_s, self.rtt_s);
        let queues = 1.0 / (1.0 + self.overfull * (full / 2.0).max(1.0).ln());
        moved * seeking * straggling * queues * busy_s / (busy_s + self.start_s)
    }

    fn host_efficiency(&self, connections: f64) -> f64 {
        let beyond = (connections / self.processors - 1.0).max(0.0);
        match self.contention {
            Contention::Hyperbola => 1.0 / (1.0 + self.price * beyond),
            Contention::Exponential => (-self.price * beyond).exp(),
            Contention::Power => (1.0 + beyond).powf(-self.price),
        }
    }

    /// What a measurement beforehand finds: the round trip within 2 %, and the processors.
    pub fn hints(&self, knows_capacity: bool, random: &mut fastrand::Rng) -> SearchHints {
        let off = 0.98 + 0.04 * random.f64();
        SearchHints {
            rtt_s: Some(self.rtt_s * off),
            capacity_bit_s: Some(self.capacity_bit_s).filter(|_| knows_capacity),
            processors: Some(self.processors as u32),
        }
    }
}

/// A grid of 4 clients, 4 numbers of streams, 3 windows and 2 numbers of files: 96 settings.
pub fn grid() -> Vec<Parameter> {
    let parameter = |name, values: &[u64]| Parameter { name, values: values.to_vec() };
    vec![
        parameter(ParameterName::Clients, &[1, 2, 4, 8]),
        parameter(ParameterName::Streams, &[1, 2, 4, 8]),
        parameter(ParameterName::Window, &[2 << 20, 16 << 20, 128 << 20]),
        parameter(ParameterName::Files, &[1, 16]),
    ]
}

/// A grid of 6 × 6 × 6 × 4 settings: 864.
pub fn large_grid() -> Vec<Parameter> {
    let parameter = |name, values: &[u64]| Parameter { name, values: values.to_vec() };
    let windows: Vec<u64> = (0..6).map(|step| (1 << 20) << (2 * step)).collect();
    vec![
        parameter(ParameterName::Clients, &[1, 2, 4, 8, 16, 32]),
        parameter(ParameterName::Streams, &[1, 2, 4, 8, 16, 32]),
        parameter(ParameterName::Window, &windows),
        parameter(ParameterName::Files, &[1, 4, 16, 64]),
    ]
}
