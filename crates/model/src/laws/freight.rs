//! Volumes: how long one takes at a rate, which rate it needs for a time, and what the post would do.
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

/// How long a volume takes on disks that are sent, seconds: the journey, and the copying onto the disks and off them,
/// `journey + 2 * 8 * V / copy rate`. An infinite copy rate counts the journey only. (The reckoning of Gray, Chong,
/// Barclay, Szalay and vandenBerg, TeraScale SneakerNet, MSR-TR-2002-54, 2002.)
pub fn courier_s(volume_bytes: f64, journey_s: f64, copy_bit_s: f64) -> f64 {
    journey_s + 2.0 * transfer_s(volume_bytes, copy_bit_s, 1.0)
}

/// The rate of a courier, bit/s: `8 * V / courier time`. A network above it is there first.
pub fn courier_bit_s(volume_bytes: f64, journey_s: f64, copy_bit_s: f64) -> f64 {
    needed_bit_s(volume_bytes, courier_s(volume_bytes, journey_s, copy_bit_s))
}
