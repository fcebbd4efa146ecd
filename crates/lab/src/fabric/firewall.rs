//! A site's firewall: lets in answers to packets that went out, and connections to open ports.
//!
//! Does not know: TCP's states. A flow that went out stays known until it has been silent for an hour.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::packet::{self, Shape, Transport};

/// How long a silent flow stays known, in nanoseconds: an hour.
const SILENCE_NS: u64 = 3_600_000_000_000;
/// The most flows that are known at once.
const FLOWS_MAX: usize = 100_000;

/// A flow as seen from the site: whether it is TCP, other end, own port, other port.
type FirewallFlow = (bool, IpAddr, u16, u16);

/// A site's firewall.
pub struct Firewall {
    open: Vec<u16>,
    /// When each flow was last seen.
    flows: HashMap<FirewallFlow, u64>,
}

impl Firewall {
    /// A firewall with these ports open for all.
    pub fn new(open: &[u16]) -> Firewall {
        Firewall { open: open.to_vec(), flows: HashMap::new() }
    }

    /// Notes a packet that leaves the site.
    pub fn note_outgoing(&mut self, now: u64, frame: &[u8], shape: &Shape) {
        let Some((_, to)) = packet::addresses(frame) else { return };
        let flow = match shape.transport() {
            Transport::Tcp { source, destination, .. } => (true, to, source, destination),
            Transport::Udp { source, destination } => (false, to, source, destination),
            _ => return,
        };
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&flow) {
            self.flows.retain(|_, seen| now.saturating_sub(*seen) < SILENCE_NS);
        }
        if self.flows.len() < FLOWS_MAX || self.flows.contains_key(&flow) {
            self.flows.insert(flow, now);
        }
    }

    /// Whether a packet may enter the site. ICMP may: without it, no sender learns the MTU of a path.
    pub fn lets_in(&mut self, now: u64, frame: &[u8], shape: &Shape) -> bool {
        let (tcp, source, destination) = match shape.transport() {
            Transport::Tcp { source, destination, .. } => (true, source, destination),
            Transport::Udp { source, destination } => (false, source, destination),
            Transport::Icmp => return true,
            Transport::Fragment | Transport::Other => return false,
        };
        if self.open.contains(&destination) {
            return true;
        }
        let Some((from, _)) = packet::addresses(frame) else { return false };
        let flow = (tcp, from, destination, source);
        match self.flows.get_mut(&flow) {
            Some(seen) if now.saturating_sub(*seen) < SILENCE_NS => {
                *seen = now;
                true
            }
            _ => false,
        }
    }
}
