//! Probes all the way to the far end, many of them: loss and round trips of one flow. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use model::v1::probe::route::Said;

use super::super::drive::{Next, Script};
use super::super::flow::{Flow, Heard, Shot};
use super::super::trace::least_and_median;

/// As far as a packet usually may go.
const TTL: u8 = 64;

/// Of one flow.
pub struct Volley {
    probes: u32,
    patience: Duration,
    bytes: u32,
    /// Round trips of the probes that were answered.
    rtts: Vec<Option<Duration>>,
    last: Duration,
    by_node: bool,
}

impl Volley {
    /// So many probes to `far`.
    pub fn new(probes: u32, patience: Duration, far: SocketAddr) -> Volley {
        let bytes = Flow::bytes_min(far);
        Volley { probes, patience, bytes, rtts: Vec::new(), last: Duration::ZERO, by_node: false }
    }

    /// Probes sent, and answered.
    pub fn counts(&self) -> (u32, u32) {
        (self.rtts.len() as u32, self.rtts.iter().flatten().count() as u32)
    }

    /// The least round trip and the median, in seconds.
    pub fn rtts(&self) -> (Option<f64>, Option<f64>) {
        least_and_median(&self.rtts.iter().flatten().copied().collect::<Vec<_>>())
    }

    /// Whether the far end is a node.
    pub fn is_answered_by_node(&self) -> bool {
        self.by_node
    }
}

impl Script for Volley {
    fn next(&mut self, now: Duration) -> Next {
        if self.rtts.len() < self.probes as usize {
            self.rtts.push(None);
            self.last = now;
            return Next::Shoot(Shot { ttl: TTL, bytes: self.bytes });
        }
        let until = self.last + self.patience;
        match self.rtts.iter().all(Option::is_some) || now >= until {
            true => Next::Done,
            false => Next::Wait(until),
        }
    }

    fn heard(&mut self, _: Duration, heard: &Heard) {
        let (shot, rtt) = match heard {
            Heard::Answer { shot, rtt, .. } => {
                self.by_node = true;
                (*shot, *rtt)
            }
            Heard::Icmp { shot: Some(shot), rtt: Some(rtt), said: Said::PortUnreachable, .. } => (*shot, *rtt),
            Heard::Icmp { .. } | Heard::TooBigHere { .. } => return,
        };
        if let Some(known) = self.rtts.get_mut(shot) {
            known.get_or_insert(rtt);
        }
    }
}
