//! The network under a virtual clock: which port gets which packet, and when.

mod answers;
mod firewalls;
mod laws;
mod routes;

use std::net::IpAddr;

use super::{Delivery, Fabric};
use crate::link::Counts;
use crate::packet::frames::Packet;
use crate::packet::{FRAME_MAX, OFFLOAD_HEADER};
use crate::packet_memory::PacketMemory;
use crate::scenario::{Scenario, Word};
use crate::topology::{Owner, Topology};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A delivery to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrival {
    due: u64,
    port: usize,
    /// The whole packet, of which these segments arrived.
    frame: Vec<u8>,
    segments: std::ops::Range<u16>,
}

/// A network and its scenario.
struct Net {
    fabric: Fabric,
    scenario: Scenario,
}

impl Net {
    fn of(text: &str) -> Net {
        let scenario = Scenario::read(text).unwrap_or_else(|problem| panic!("{problem}"));
        let bytes_max = scenario.memory.map_or(64 << 20, |bytes| bytes.0);
        let fabric = Fabric::new(&scenario, Topology::of(&scenario), PacketMemory::new(FRAME_MAX, bytes_max, 0));
        Net { fabric, scenario }
    }

    /// The address of a site's first interface.
    fn v4(&self, site: &str) -> IpAddr {
        self.scenario.sites[self.scenario.site(site).unwrap()].interfaces[0].v4.unwrap().0.into()
    }

    fn v6(&self, site: &str) -> IpAddr {
        self.scenario.sites[self.scenario.site(site).unwrap()].interfaces[0].v6.unwrap().0.into()
    }

    /// The port of a site's first interface.
    fn port(&self, site: &str) -> usize {
        let site = self.scenario.site(site).unwrap();
        self.fabric.topology().ports.iter().position(|end| end.site == site).unwrap()
    }

    /// A UDP packet with `payload` bytes from one site to another.
    fn udp(&self, from: &str, to: &str, payload: usize) -> Packet {
        Packet { from: self.v4(from), to: self.v4(to), ..Packet::udp("10.0.0.1", "10.0.0.2", payload) }
    }

    /// Lets a packet in at the site that has its source address.
    fn put(&mut self, now: u64, packet: &Packet) {
        let from = self.scenario.sites.iter().position(|site| {
            let interface = &site.interfaces[0];
            interface.v4.map(|(address, _)| address.into()) == Some(packet.from)
                || interface.v6.map(|(address, _)| address.into()) == Some(packet.from)
        });
        let port = self.port(&self.scenario.sites[from.unwrap()].name.clone());
        self.put_at(now, port, &packet.frame());
    }

    fn put_at(&mut self, now: u64, port: usize, frame: &[u8]) {
        match self.fabric.room() {
            Some(room) => {
                room[..frame.len()].copy_from_slice(frame);
                self.fabric.arrive(now, port, frame.len());
            }
            None => self.fabric.count_no_room(),
        }
    }

    /// All packets that arrive until a time.
    fn until(&mut self, end: u64) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        while let Some(next) = self.fabric.next_due().filter(|next| *next <= end) {
            while let Some(delivery) = self.fabric.due(next) {
                arrivals.push(self.arrival(&delivery));
                self.fabric.done(delivery);
            }
        }
        arrivals
    }

    fn arrival(&self, delivery: &Delivery) -> Arrival {
        let (frame, _) = self.fabric.frame(delivery);
        let Delivery { port, due, segments, .. } = delivery;
        Arrival { due: *due, port: *port, frame: frame.to_vec(), segments: segments.clone() }
    }

    /// All packets that still arrive. Afterwards memory is empty.
    fn all(&mut self) -> Vec<Arrival> {
        let all = self.until(u64::MAX);
        assert_eq!((self.fabric.next_due(), self.fabric.memory().0), (None, 0));
        all
    }

    fn counts(&self, owner: Owner) -> Counts {
        let link = self.fabric.topology().links.iter().position(|link| link.owner == owner).unwrap();
        self.fabric.links()[link].counts()
    }

    fn path(&self, name: &str, direction: usize, member: usize) -> Counts {
        self.counts(Owner::Path { path: self.scenario.path(name).unwrap(), direction, member })
    }

    fn uplink(&self, name: &str, direction: usize) -> Counts {
        self.counts(Owner::Uplink { site: self.scenario.site(name).unwrap(), direction })
    }
}

impl Arrival {
    fn ip(&self) -> &[u8] {
        &self.frame[OFFLOAD_HEADER..]
    }

    /// The number of a UDP packet over IPv4.
    fn number(&self) -> u32 {
        u32::from_be_bytes(self.ip()[28..32].try_into().unwrap())
    }
}
