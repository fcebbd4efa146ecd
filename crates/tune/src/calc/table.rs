//! The texts of the calculator's lines: name, unit, formula, source. Formulas use the words of the question; `W` is a window in segments,
//! `MSS` the payload of a packet (MTU - 52 bytes).

use super::CalculatedLine;
use super::shown::Unit;

/// A line before its number is known.
pub(super) struct Law {
    name: &'static str,
    unit: Unit,
    formula: &'static str,
    source: &'static str,
}

impl Law {
    /// The line with its number.
    pub(super) fn line(&self, value: f64) -> CalculatedLine {
        let Law { name, unit, formula, source } = *self;
        CalculatedLine { name, value, unit: unit.word(), shown: unit.show(value), formula, source }
    }
}

pub(super) const PRODUCT: Law = Law {
    name: "bandwidth-delay product",
    unit: Unit::Bytes,
    formula: "rate * RTT / 8",
    source: "RFC 7323, section 1",
};

pub(super) const WINDOW: Law = Law {
    name: "window needed by each stream",
    unit: Unit::Bytes,
    formula: "rate * RTT / 8 / streams",
    source: "RFC 7323, section 1",
};

pub(super) const BUFFER: Law = Law {
    name: "largest buffer to allow",
    unit: Unit::Bytes,
    formula: "min(2 * rate * RTT / 8, 2^31 - 1)",
    source: "Linux ip-sysctl (tcp_rmem, tcp_wmem, tcp_adv_win_scale)",
};

pub(super) const STREAMS_FOR_WINDOW: Law = Law {
    name: "streams needed with this window",
    unit: Unit::Streams,
    formula: "ceil(rate * RTT / 8 / window)",
    source: "RFC 7323, section 1",
};

pub(super) const STREAMS_FOR_LARGEST: Law = Law {
    name: "streams needed with the largest window",
    unit: Unit::Streams,
    formula: "ceil(rate * RTT / 8 / 1073725440)",
    source: "RFC 7323, section 2.3",
};

pub(super) const WINDOW_RATE: Law = Law {
    name: "most that one window carries",
    unit: Unit::BitRate,
    formula: "window * 8 / RTT",
    source: "RFC 7323, section 1",
};

pub(super) const WINDOWS_RATE: Law = Law {
    name: "most that all windows carry",
    unit: Unit::BitRate,
    formula: "streams * window * 8 / RTT",
    source: "RFC 7323, section 1",
};

pub(super) const SLOW_START: Law = Law {
    name: "slow start",
    unit: Unit::Seconds,
    formula: "RTT * log2(rate * RTT / 8 / streams / MSS / 10)",
    source: "RFC 5681, section 3.1; RFC 6928",
};

pub(super) const RENO_RECOVERY: Law = Law {
    name: "recovery from one loss, Reno",
    unit: Unit::Seconds,
    formula: "rate / streams * RTT^2 / (2 * MSS * 8)",
    source: "RFC 5681, section 3.1",
};

pub(super) const CUBIC_RECOVERY: Law = Law {
    name: "recovery from one loss, CUBIC",
    unit: Unit::Seconds,
    formula: "min(cbrt(0.3 * W / 0.4), 0.3 * W / 0.53 * RTT), W = rate / streams * RTT / 8 / MSS",
    source: "RFC 9438, sections 4.2 and 4.3",
};

pub(super) const RENO_RATE: Law = Law {
    name: "one stream under loss, Reno",
    unit: Unit::BitRate,
    formula: "MSS * 8 / RTT * sqrt(1.5 / loss)",
    source: "Mathis, Semke, Mahdavi, Ott: CCR 27(3), 1997",
};

pub(super) const CUBIC_RATE: Law = Law {
    name: "one stream under loss, CUBIC",
    unit: Unit::BitRate,
    formula: "max(MSS * 8 / RTT * 1.054 * (RTT / loss)^0.75, Reno)",
    source: "RFC 9438, section 5.1",
};

pub(super) const RENO_STREAMS: Law = Law {
    name: "streams to fill the rate under loss, Reno",
    unit: Unit::Streams,
    formula: "ceil(rate * efficiency / one stream)",
    source: "Mathis, Semke, Mahdavi, Ott: CCR 27(3), 1997",
};

pub(super) const CUBIC_STREAMS: Law = Law {
    name: "streams to fill the rate under loss, CUBIC",
    unit: Unit::Streams,
    formula: "ceil(rate * efficiency / one stream)",
    source: "RFC 9438, section 5.1",
};

pub(super) const EXPECTED: Law = Law {
    name: "rate to expect",
    unit: Unit::BitRate,
    formula: "min(rate * efficiency, streams * window * 8 / RTT, streams * CUBIC under loss)",
    source: "the least of the limits; a window that is not known is the largest, 65535 * 2^14 (RFC 7323, 2.3)",
};

pub(super) const EFFICIENCY_IPV4: Law = Law {
    name: "payload of the line, TCP over IPv4",
    unit: Unit::Share,
    formula: "(MTU - 52) / (MTU + 38)",
    source: "IEEE 802.3; RFC 791, 9293, 7323",
};

pub(super) const EFFICIENCY_IPV6: Law = Law {
    name: "payload of the line, TCP over IPv6",
    unit: Unit::Share,
    formula: "(MTU - 72) / (MTU + 38)",
    source: "IEEE 802.3; RFC 8200, 9293, 7323",
};

pub(super) const PAYLOAD_RATE: Law = Law {
    name: "most that the line carries, TCP over IPv4",
    unit: Unit::BitRate,
    formula: "rate * (MTU - 52) / (MTU + 38)",
    source: "IEEE 802.3; RFC 791, 9293, 7323",
};

pub(super) const PACKET_RATE: Law =
    Law { name: "full packets", unit: Unit::PacketRate, formula: "rate / ((MTU + 38) * 8)", source: "IEEE 802.3" };

pub(super) const PACKET_TIME: Law = Law {
    name: "time per packet (serialisation)",
    unit: Unit::Seconds,
    formula: "(MTU + 38) * 8 / rate",
    source: "IEEE 802.3",
};

pub(super) const SEQUENCE_WRAP: Law = Law {
    name: "sequence numbers of a stream start again after",
    unit: Unit::Seconds,
    formula: "2^32 * 8 * streams / rate",
    source: "RFC 7323, section 5",
};

pub(super) const SEQUENCE_DOUBT: Law = Law {
    name: "without time stamps a late segment looks new after",
    unit: Unit::Seconds,
    formula: "2^31 * 8 * streams / rate",
    source: "RFC 7323, section 5",
};

pub(super) const TRANSFER: Law = Law {
    name: "transfer at the line's rate",
    unit: Unit::Seconds,
    formula: "volume * 8 / (rate * efficiency)",
    source: "arithmetic",
};

pub(super) const TRANSFER_EXPECTED: Law = Law {
    name: "transfer at the rate to expect",
    unit: Unit::Seconds,
    formula: "volume * 8 / rate to expect",
    source: "arithmetic",
};

pub(super) const COURIER_TIME: Law = Law {
    name: "courier, copying included",
    unit: Unit::Seconds,
    formula: "journey + 2 * volume * 8 / copy rate",
    source: "Gray et al.: TeraScale SneakerNet, MSR-TR-2002-54, 2002",
};

pub(super) const COURIER_RATE: Law = Law {
    name: "rate of the courier",
    unit: Unit::BitRate,
    formula: "volume * 8 / courier",
    source: "Gray et al.: TeraScale SneakerNet, MSR-TR-2002-54, 2002",
};

pub(super) const COURIER_OVER_LINE: Law = Law {
    name: "courier takes, compared with the line",
    unit: Unit::Ratio,
    formula: "courier / transfer at the line's rate",
    source: "arithmetic",
};
