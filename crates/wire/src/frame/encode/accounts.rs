//! Encodes an end's account, the facts of its streams, and addresses.

use std::net::{IpAddr, SocketAddr};

use model::account::Account;
use model::v1;

use super::{MICROS_MAX, Writer};

pub(super) fn facts(w: &mut Writer, s: &v1::Stream) {
    let micros = |seconds: f64| ((seconds * 1e6).round().max(0.0) as u64).min(MICROS_MAX);
    for value in [
        s.id.into(),
        s.bytes,
        micros(s.rtt_s),
        micros(s.min_rtt_s),
        s.retransmits,
        s.cwnd_segments.into(),
        s.mss_bytes.into(),
        s.delivery_rate_bit_s,
        micros(s.receive_window_limited_s),
        micros(s.send_buffer_limited_s),
        micros(s.busy_s),
        s.sent_bytes,
        s.resent_bytes,
        s.window_bytes,
        s.window_scaling.into(),
    ] {
        w.number(value);
    }
    w.text(&s.congestion);
    w.text(&s.payload);
}

pub(super) fn address(w: &mut Writer, at: &SocketAddr) {
    match at.ip() {
        IpAddr::V4(ip) => {
            w.u8(4);
            w.raw(&ip.octets());
        }
        IpAddr::V6(ip) => {
            w.u8(6);
            w.raw(&ip.octets());
        }
    }
    w.number(at.port().into());
}

pub(super) fn account(w: &mut Writer, a: &Account) {
    w.number(a.threads.into());
    for spans in [&a.spent.wall, &a.spent.cpu, &a.spent.longest] {
        spans.iter().for_each(|span| w.number((span.as_micros() as u64).min(MICROS_MAX)));
    }
    let numbers = [
        a.spent.records,
        a.processors.into(),
        a.busy_permille.into(),
        a.receive_buffer_max,
        a.send_buffer_max,
        a.streams.into(),
        a.capacity_bit_s,
        a.clear_loss_ppb.into(),
        a.share_bit_s,
    ];
    numbers.into_iter().for_each(|number| w.number(number));
    w.bool(a.scales_windows);
    w.text(&a.missed);
}
