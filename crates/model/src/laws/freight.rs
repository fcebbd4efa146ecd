//! Volumes of data: how long one takes at a rate, which rate moves it in a given time, and the rate of disks sent by courier.
//!
//! Units: sizes in bytes, rates in bit/s, times in seconds, efficiency as a fraction. What it does not know: slow
//! start, loss, and what a courier costs.

/// How long a volume takes, seconds: `8 * V / (B * efficiency)`, where efficiency is the share of the rate that is
/// payload.
pub fn transfer_s(volume_bytes: f64, rate_bit_s: f64, efficiency: f64) -> f64 {
    volume_bytes * 8.0 / (rate_bit_s * efficiency)
}

/// The mean rate that moves a volume in a time, bit/s: `8 * V / t`.
pub fn needed_bit_s(volume_bytes: f64, time_s: f64) -> f64 {
    volume_bytes * 8.0 / time_s
}

/// What a rate carries in a time, bytes: `B * t / 8`.
pub fn carried_bytes(rate_bit_s: f64, time_s: f64) -> f64 {
    rate_bit_s * time_s / 8.0
}

/// How long a volume takes on disks sent by courier, seconds: the journey, and the copying onto the disks and off them,
/// `journey + 2 * 8 * V / copy rate`. With an infinite copy rate only the journey counts. (As Gray, Chong,
/// Barclay, Szalay and vandenBerg compute it in TeraScale SneakerNet, MSR-TR-2002-54, 2002.)
pub fn courier_s(volume_bytes: f64, journey_s: f64, copy_bit_s: f64) -> f64 {
    journey_s + 2.0 * transfer_s(volume_bytes, copy_bit_s, 1.0)
}

/// The rate of a courier, bit/s: `8 * V / courier time`. A network with a higher rate is faster.
pub fn courier_bit_s(volume_bytes: f64, journey_s: f64, copy_bit_s: f64) -> f64 {
    needed_bit_s(volume_bytes, courier_s(volume_bytes, journey_s, copy_bit_s))
}
