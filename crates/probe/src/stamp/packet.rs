//! The packets of STAMP, unauthenticated (RFC 8762, section 4): questions and answers of 44 octets. TWAMP-Light has questions from
//! 14 octets and answers from 41 (RFC 5357, appendix I). Bytes in, fields out.
//!
//! ```text
//! question  0 sequence · 4 time sent · 12 error estimate · 14 session · 16 zeros · 44 TLVs
//! answer    0 sequence · 4 time sent · 12 error estimate · 14 session · 16 time received
//!           24 sequence, 28 time, 36 error estimate of the question · 38 zeros · 40 its TTL · 41 zeros · 44 TLVs
//! ```

use std::time::Duration;

use super::clock::RealNs;

/// Octets of a STAMP packet without TLVs.
pub const BASE: usize = 44;
/// Octets of the shortest question: TWAMP-Light without padding.
pub const QUESTION_MIN: usize = 14;
/// Octets of the shortest answer: TWAMP-Light.
pub const ANSWER_MIN: usize = 41;
/// Octets of the longest packet: what fits an IPv4 datagram.
pub const PACKET_MAX: usize = 65_507;

/// Seconds from 1900, where NTP begins, to 1970.
const EPOCH_S: i64 = 2_208_988_800;
const SECOND_NS: i64 = 1_000_000_000;

/// The wire form of a time: 32 bits of seconds, 32 bits of their fraction (RFC 5905, section 6), unless the error
/// estimate says PTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Writes a time in NTP's format.
    pub fn of(real_ns: RealNs) -> Timestamp {
        let seconds = real_ns.div_euclid(SECOND_NS) + EPOCH_S;
        let fraction = ((real_ns.rem_euclid(SECOND_NS) as u64) << 32) / SECOND_NS as u64;
        // The seconds wrap in 2036, as they are meant to.
        Timestamp((seconds as u64) << 32 | fraction)
    }

    /// Reads a time in NTP's format: seconds with the highest bit set are of 1968 to 2036, others of the following era.
    pub fn ntp_ns(self) -> RealNs {
        let seconds = (self.0 >> 32) as i64;
        let era = if seconds < 1 << 31 { 1 << 32 } else { 0 };
        let nanos = ((self.0 & 0xffff_ffff) * SECOND_NS as u64 + (1 << 31)) >> 32;
        (seconds + era - EPOCH_S) * SECOND_NS + nanos as i64
    }

    /// Reads a time in PTP's short format: seconds since 1970 in PTP's scale, then nanoseconds (RFC 8186).
    pub fn ptp_ns(self) -> RealNs {
        (self.0 >> 32) as i64 * SECOND_NS + (self.0 & 0xffff_ffff) as i64
    }
}

/// The error estimate of a clock (RFC 4656, section 4.1.2; the format bit is from RFC 8186).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// The clock is synchronised to UTC.
    pub synchronised: bool,
    /// The times of this packet are in PTP's format, not in NTP's.
    pub ptp: bool,
    /// Six bits.
    pub scale: u8,
    /// The error is `multiplier` x 2^(`scale` - 32) s. Zero is not allowed, and means here that it is unknown.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The smallest estimate that is not below `error`, for times in NTP's format.
    pub fn of(synchronised: bool, error: Duration) -> ErrorEstimate {
        let mut multiplier = (error.as_nanos() << 32).div_ceil(SECOND_NS as u128);
        let mut scale = 0;
        while multiplier > 255 && scale < 63 {
            multiplier = multiplier.div_ceil(2);
            scale += 1;
        }
        ErrorEstimate { synchronised, ptp: false, scale, multiplier: multiplier.clamp(1, 255) as u8 }
    }

    /// The error; none where the multiplier is zero, which RFC 4656 forbids.
    pub fn error(self) -> Option<Duration> {
        let nanos = (u128::from(self.multiplier) * SECOND_NS as u128) << self.scale >> 32;
        let seconds = u64::try_from(nanos / SECOND_NS as u128).unwrap_or(u64::MAX);
        (self.multiplier != 0).then(|| Duration::new(seconds, (nanos % SECOND_NS as u128) as u32))
    }

    /// The wire form.
    pub fn bits(self) -> u16 {
        u16::from(self.synchronised) << 15
            | u16::from(self.ptp) << 14
            | u16::from(self.scale & 63) << 8
            | u16::from(self.multiplier)
    }

    /// Reads the wire form.
    pub fn of_bits(bits: u16) -> ErrorEstimate {
        let [high, multiplier] = bits.to_be_bytes();
        ErrorEstimate { synchronised: high & 0x80 != 0, ptp: high & 0x40 != 0, scale: high & 63, multiplier }
    }

    /// Reads a time of the same packet: nanoseconds since 1970, in the scale of the packet's format.
    pub fn read(self, time: Timestamp) -> RealNs {
        if self.ptp { time.ptp_ns() } else { time.ntp_ns() }
    }
}

fn octets<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..at + N)?.try_into().ok()
}

fn word(packet: &[u8], at: usize) -> Option<u32> {
    octets(packet, at).map(u32::from_be_bytes)
}

fn time(packet: &[u8], at: usize) -> Option<Timestamp> {
    octets(packet, at).map(|b| Timestamp(u64::from_be_bytes(b)))
}

fn half(packet: &[u8], at: usize) -> Option<u16> {
    octets(packet, at).map(u16::from_be_bytes)
}

/// The fields of the sender's packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// From 0, one more with each packet.
    pub sequence: u32,
    /// When it was sent.
    pub at: Timestamp,
    /// The error estimate of that time.
    pub error: ErrorEstimate,
    /// The session (RFC 8972, section 3); 0 where there is none.
    pub ssid: u16,
}

impl Question {
    /// Reads a packet of any length; none if it is too short. A packet shorter than STAMP's has no session: TWAMP-Light has
    /// padding there, which may be random.
    pub fn read(packet: &[u8]) -> Option<Question> {
        let ssid = if packet.len() < BASE { 0 } else { half(packet, 14)? };
        let error = ErrorEstimate::of_bits(half(packet, 12)?);
        Some(Question { sequence: word(packet, 0)?, at: time(packet, 4)?, error, ssid })
    }

    /// Writes the question to the front of a packet of 14 octets or more, and zeros over the rest of STAMP's 44. The session is
    /// left out of a packet of less than 16 octets.
    pub fn write(&self, packet: &mut [u8]) {
        let mut whole = [0; BASE];
        whole[..4].copy_from_slice(&self.sequence.to_be_bytes());
        whole[4..12].copy_from_slice(&self.at.0.to_be_bytes());
        whole[12..14].copy_from_slice(&self.error.bits().to_be_bytes());
        if packet.len() >= 16 {
            whole[14..16].copy_from_slice(&self.ssid.to_be_bytes());
        }
        let length = packet.len().min(BASE);
        packet[..length].copy_from_slice(&whole[..length]);
    }
}

/// The fields of the reflector's packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The reflector's own count, or the question's number where it keeps none.
    pub sequence: u32,
    /// When it was sent.
    pub at: Timestamp,
    /// The error estimate of the reflector's times.
    pub error: ErrorEstimate,
    /// The session, copied; 0 from reflectors that do not know of sessions.
    pub ssid: u16,
    /// When the question arrived.
    pub received: Timestamp,
    /// The question's number.
    pub question_sequence: u32,
    /// When the question was sent.
    pub question_sent: Timestamp,
    /// The error estimate of that time.
    pub question_error: ErrorEstimate,
    /// TTL or hop limit of the question on arrival; 0 where the reflector does not know it.
    pub ttl: u8,
}

impl Answer {
    /// Reads a packet of any length; none where it is too short to be one.
    pub fn read(packet: &[u8]) -> Option<Answer> {
        Some(Answer {
            sequence: word(packet, 0)?,
            at: time(packet, 4)?,
            error: ErrorEstimate::of_bits(half(packet, 12)?),
            ssid: half(packet, 14)?,
            received: time(packet, 16)?,
            question_sequence: word(packet, 24)?,
            question_sent: time(packet, 28)?,
            question_error: ErrorEstimate::of_bits(half(packet, 36)?),
            ttl: *packet.get(40)?,
        })
    }

    /// The 44 octets.
    pub fn write(&self) -> [u8; BASE] {
        let mut packet = [0; BASE];
        packet[..4].copy_from_slice(&self.sequence.to_be_bytes());
        packet[4..12].copy_from_slice(&self.at.0.to_be_bytes());
        packet[12..14].copy_from_slice(&self.error.bits().to_be_bytes());
        packet[14..16].copy_from_slice(&self.ssid.to_be_bytes());
        packet[16..24].copy_from_slice(&self.received.0.to_be_bytes());
        packet[24..28].copy_from_slice(&self.question_sequence.to_be_bytes());
        packet[28..36].copy_from_slice(&self.question_sent.0.to_be_bytes());
        packet[36..38].copy_from_slice(&self.question_error.bits().to_be_bytes());
        packet[40] = self.ttl;
        packet
    }
}

/// Whether a packet is an answer and not a question: in the place of a question's zeros or padding, an answer has a time that is
/// within a minute of the packet's own. Random padding looks like that once in 36 million packets.
///
/// After one forged packet, two reflectors that answer answers would answer each other for ever.
pub fn is_answer(packet: &[u8]) -> bool {
    let (Some(sent), Some(received)) = (word(packet, 4), word(packet, 16)) else { return false };
    received != 0 && sent.wrapping_sub(received).wrapping_add(60) <= 120
}

#[cfg(test)]
mod tests;
