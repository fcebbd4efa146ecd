//! The calculator: what a rate, a round trip, a loss, a packet size, a window and a volume imply for each other.
//!
//! Pure: numbers in, lines out. `model::laws` has the laws; this module decides which of them can be applied to the numbers of a question.
//! What it does not know: this host, and whether a number was measured, promised or wished for.

mod shown;
mod table;
#[cfg(test)]
mod tests;

use model::laws::{self, freight, line};

/// The known numbers of a path, a transfer and a courier. Nothing is assumed for a missing number: the lines that need it are missing too.
/// A number outside of [`USABLE`] counts as missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Question {
    /// Rate of the line, bit/s, including packet headers and gaps.
    pub rate_bit_s: Option<f64>,
    /// Round-trip time, seconds.
    pub rtt_s: Option<f64>,
    /// Packets lost at random, a fraction below one.
    pub loss: Option<f64>,
    /// Largest IP packet, bytes; at least 68 (RFC 791).
    pub mtu_bytes: Option<f64>,
    /// Window of each stream, bytes.
    pub window_bytes: Option<f64>,
    /// The volume of data, bytes.
    pub volume_bytes: Option<f64>,
    /// Share of the rate that is payload, at most one; if left out, the share in full packets of the MTU.
    pub efficiency: Option<f64>,
    /// Streams that share the rate; one if left out.
    pub streams: Option<u32>,
    /// The courier to compare with.
    pub courier: Option<Courier>,
}

/// A courier who carries disks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Courier {
    /// Time from door to door, seconds.
    pub journey_s: f64,
    /// Rate at which the disks are filled, and later emptied, bit/s; if left out, copying takes no time.
    pub copy_bit_s: Option<f64>,
}

/// All results that follow from a question, in the order in which a person would ask for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One line for each law that could be applied.
    pub lines: Vec<CalculatedLine>,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct CalculatedLine {
    /// The name of the quantity.
    pub name: &'static str,
    /// The number, in [`CalculatedLine::unit`].
    pub value: f64,
    /// `B`, `bit/s`, `s`, `packets/s`, `streams`, or `1` for fractions and ratios.
    pub unit: &'static str,
    /// The number as people read it: `375 MB (358 MiB)`.
    pub shown: String,
    /// The formula, in the words of the question.
    pub formula: &'static str,
    /// The source of the formula.
    pub source: &'static str,
}

/// The range of usable numbers, whatever the unit: products of larger ones would overflow.
pub const USABLE: std::ops::RangeInclusive<f64> = 1e-12..=1e24;
/// The smallest MTU of IPv4, bytes (RFC 791).
const MTU_BYTES_MIN: f64 = 68.0;

/// A group of lines that need the same numbers; none where one of them is missing.
type Group = fn(&Question) -> Option<Vec<CalculatedLine>>;

/// Answers a question as far as its numbers allow.
pub fn answer(question: &Question) -> Answer {
    let known = question.usable();
    let groups: [Group; 10] =
        [in_flight, windows, ramp, one_loss, random_loss, expected, packets, sequence, volume, courier];
    Answer { lines: groups.iter().filter_map(|group| group(&known)).flatten().collect() }
}

impl Question {
    /// The question without the numbers that no law can use.
    fn usable(&self) -> Question {
        let usable = |value: Option<f64>| value.filter(|value| USABLE.contains(value));
        let courier = self.courier.filter(|courier| USABLE.contains(&courier.journey_s));
        Question {
            rate_bit_s: usable(self.rate_bit_s),
            rtt_s: usable(self.rtt_s),
            loss: usable(self.loss).filter(|loss| *loss < 1.0),
            mtu_bytes: usable(self.mtu_bytes).filter(|mtu| *mtu >= MTU_BYTES_MIN),
            window_bytes: usable(self.window_bytes).map(|window| window.min(laws::WINDOW_BYTES_MAX as f64)),
            volume_bytes: usable(self.volume_bytes),
            efficiency: usable(self.efficiency).filter(|share| *share <= 1.0),
            streams: self.streams.filter(|streams| *streams > 0),
            courier: courier.map(|courier| Courier { copy_bit_s: usable(courier.copy_bit_s), ..courier }),
        }
    }

    fn stream_count(&self) -> f64 {
        f64::from(self.streams.unwrap_or(1))
    }

    /// One stream's share of the line's rate, bit/s.
    fn each_bit_s(&self) -> Option<f64> {
        Some(self.rate_bit_s? / self.stream_count())
    }

    /// The payload of a full TCP packet, bytes.
    fn mss_bytes(&self) -> Option<f64> {
        Some(line::payload_bytes(self.mtu_bytes?, line::TCP_IPV4_BYTES))
    }

    /// The share of the rate that is payload: as given, or as the MTU implies, or all.
    fn share(&self) -> f64 {
        let by_mtu = || self.mtu_bytes.map(|mtu| line::efficiency(mtu, line::TCP_IPV4_BYTES));
        self.efficiency.or_else(by_mtu).unwrap_or(1.0)
    }

    /// The rate that all streams together may reach, bit/s: limited by the payload of the line, the windows (the largest of TCP if they are
    /// not known), and CUBIC under the loss.
    fn expected_bit_s(&self) -> Option<f64> {
        let (rate, rtt) = (self.rate_bit_s?, self.rtt_s?);
        let largest = laws::WINDOW_BYTES_MAX as f64;
        let by_window = laws::window_rate_bit_s(self.window_bytes.unwrap_or(largest), rtt);
        let by_loss = self.loss.zip(self.mss_bytes()).map(|(loss, mss)| laws::cubic_bit_s(mss, rtt, loss));
        let one = by_loss.map_or(by_window, |by_loss| by_loss.min(by_window));
        Some((rate * self.share()).min(one * self.stream_count()))
    }

    fn transfer_s(&self) -> Option<f64> {
        Some(freight::transfer_s(self.volume_bytes?, self.rate_bit_s?, self.share()))
    }
}

/// The bytes in flight that fill the line, and the settings that allow them.
fn in_flight(q: &Question) -> Option<Vec<CalculatedLine>> {
    let (rate, rtt) = (q.rate_bit_s?, q.rtt_s?);
    let streams = match q.window_bytes {
        Some(window) => table::STREAMS_FOR_WINDOW.line(laws::streams_for_window(rate, rtt, window) as f64),
        None => {
            let largest = laws::WINDOW_BYTES_MAX as f64;
            table::STREAMS_FOR_LARGEST.line(laws::streams_for_window(rate, rtt, largest) as f64)
        }
    };
    Some(vec![
        table::PRODUCT.line(laws::bdp_bytes(rate, rtt)),
        table::WINDOW.line(laws::bdp_bytes(rate, rtt) / q.stream_count()),
        table::BUFFER.line(laws::buffer_bytes(rate, rtt)),
        streams,
    ])
}

/// The highest rate that the window allows.
fn windows(q: &Question) -> Option<Vec<CalculatedLine>> {
    let each = laws::window_rate_bit_s(q.window_bytes?, q.rtt_s?);
    let mut lines = vec![table::WINDOW_RATE.line(each)];
    if q.stream_count() > 1.0 {
        lines.push(table::WINDOWS_RATE.line(each * q.stream_count()));
    }
    Some(lines)
}

/// The time that the streams take to reach the line's rate.
fn ramp(q: &Question) -> Option<Vec<CalculatedLine>> {
    let (each, rtt, mss) = (q.each_bit_s()?, q.rtt_s?, q.mss_bytes()?);
    Some(vec![table::SLOW_START.line(laws::slow_start_s(laws::bdp_bytes(each, rtt), mss, rtt))])
}

/// The time that a stream takes, after one loss, to return to its share of the line's rate.
fn one_loss(q: &Question) -> Option<Vec<CalculatedLine>> {
    let (each, rtt, mss) = (q.each_bit_s()?, q.rtt_s?, q.mss_bytes()?);
    Some(vec![
        table::RENO_RECOVERY.line(laws::reno_recovery_s(each, rtt, mss)),
        table::CUBIC_RECOVERY.line(laws::cubic_recovery_s(each, rtt, mss)),
    ])
}

/// The rate of one stream under a constant loss, and the number of streams that fill the line nevertheless.
fn random_loss(q: &Question) -> Option<Vec<CalculatedLine>> {
    let (mss, rtt, loss) = (q.mss_bytes()?, q.rtt_s?, q.loss?);
    let (reno, cubic) = (laws::mathis_bit_s(mss, rtt, loss), laws::cubic_bit_s(mss, rtt, loss));
    let mut lines = vec![table::RENO_RATE.line(reno), table::CUBIC_RATE.line(cubic)];
    if let Some(rate) = q.rate_bit_s {
        let payload = rate * q.share();
        lines.push(table::RENO_STREAMS.line(laws::streams_to_fill(payload, reno) as f64));
        lines.push(table::CUBIC_STREAMS.line(laws::streams_to_fill(payload, cubic) as f64));
    }
    Some(lines)
}

/// The rate to expect, all limits together.
fn expected(q: &Question) -> Option<Vec<CalculatedLine>> {
    Some(vec![table::EXPECTED.line(q.expected_bit_s()?)])
}

/// Packets of the MTU on the line.
fn packets(q: &Question) -> Option<Vec<CalculatedLine>> {
    let mtu = q.mtu_bytes?;
    let mut lines = vec![
        table::EFFICIENCY_IPV4.line(line::efficiency(mtu, line::TCP_IPV4_BYTES)),
        table::EFFICIENCY_IPV6.line(line::efficiency(mtu, line::TCP_IPV6_BYTES)),
    ];
    if let Some(rate) = q.rate_bit_s {
        lines.push(table::PAYLOAD_RATE.line(rate * line::efficiency(mtu, line::TCP_IPV4_BYTES)));
        lines.push(table::PACKET_RATE.line(line::packets_per_s(rate, mtu)));
        lines.push(table::PACKET_TIME.line(line::serialisation_s(line::wire_bytes(mtu), rate)));
    }
    Some(lines)
}

/// The time in which a stream uses up its sequence numbers.
fn sequence(q: &Question) -> Option<Vec<CalculatedLine>> {
    let each = q.each_bit_s()?;
    Some(vec![
        table::SEQUENCE_WRAP.line(laws::sequence_wrap_s(each)),
        table::SEQUENCE_DOUBT.line(laws::sequence_doubt_s(each)),
    ])
}

/// The time for the volume: at the line's rate, and at the rate to expect.
fn volume(q: &Question) -> Option<Vec<CalculatedLine>> {
    let mut lines = vec![table::TRANSFER.line(q.transfer_s()?)];
    if let (Some(volume), Some(expected)) = (q.volume_bytes, q.expected_bit_s()) {
        lines.push(table::TRANSFER_EXPECTED.line(freight::transfer_s(volume, expected, 1.0)));
    }
    Some(lines)
}

/// The time and rate of a courier who carries the volume on disks.
fn courier(q: &Question) -> Option<Vec<CalculatedLine>> {
    let volume = q.volume_bytes?;
    let courier = q.courier?;
    let copy_bit_s = courier.copy_bit_s.unwrap_or(f64::INFINITY);
    let courier_s = freight::courier_s(volume, courier.journey_s, copy_bit_s);
    let mut lines = vec![
        table::COURIER_TIME.line(courier_s),
        table::COURIER_RATE.line(freight::courier_bit_s(volume, courier.journey_s, copy_bit_s)),
    ];
    if let Some(transfer_s) = q.transfer_s() {
        lines.push(table::COURIER_OVER_LINE.line(courier_s / transfer_s));
    }
    Some(lines)
}
