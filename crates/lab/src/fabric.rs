//! The network between the ports: packets come in, travel over the links of their routes, and become due at other ports.
//!
//! Pure: time comes in as an argument, in nanoseconds since the lab came up. Does not know: TUN devices, clocks.

mod firewall;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use crate::hash::fnv1a;
use crate::link::{Link, SegmentRun};
use crate::packet::{self, Damage, Shape};
use crate::packet_memory::{PacketMemory, PacketSlot};
use crate::scenario::{Scenario, Word};
use crate::topology::{Owner, Port, Router, Topology, gateway_addresses};

use firewall::Firewall;

/// Packets (not segments) that the network did not pass on to any link, by cause. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCounts {
    /// No interface has their destination, or no path leads to it; answered by ICMP.
    pub unroutable: u64,
    /// Multicast and the like, and packets other than IP: traffic of the kernels themselves.
    pub not_carried: u64,
    /// Their TTL ended at a router; answered by ICMP.
    pub expired: u64,
    /// Larger than the path's MTU; answered by ICMP.
    pub too_big: u64,
    /// Segments that a site's firewall did not let in.
    pub firewalled: u64,
    /// There was no memory for them: the lab's own fault.
    pub no_memory: u64,
}

/// A packet in transit, in one or several parcels.
struct PacketInTransit {
    slot: PacketSlot,
    shape: Shape,
    parcels: u32,
}

/// A run of segments in transit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parcel {
    due: u64,
    /// Equal times keep their order.
    number: u64,
    packet: u32,
    segments: Range<u16>,
    damage: Option<(Damage, u64)>,
    destination: ParcelDestination,
}

/// The destination of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParcelDestination {
    /// The end of a route: with the next leg, and the link of the last path that the parcel came over.
    Route { route: u32, leg: u32, link: u32 },
    /// A port, without a route: for an answer of the network itself.
    Answer(u32),
}

impl Ord for Parcel {
    fn cmp(&self, other: &Parcel) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Parcel {
    fn partial_cmp(&self, other: &Parcel) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A run of segments that is due at a port.
#[derive(Debug)]
pub struct Delivery {
    /// The port.
    pub port: Port,
    /// The time at which it is due, in nanoseconds.
    pub due: u64,
    /// Which segments of the packet.
    pub segments: Range<u16>,
    /// The damage to its only segment, if there is any.
    pub damage: Option<(Damage, u64)>,
    /// The link that it came over last; none for the network's own answers.
    pub link: Option<usize>,
    packet: u32,
}

/// The network.
pub struct Fabric {
    /// The scenario as it is now, as far as routes depend on it.
    scenario: Scenario,
    topology: Topology,
    links: Vec<Link>,
    firewalls: Vec<Option<Firewall>>,
    packet_memory: PacketMemory,
    packets: Vec<PacketInTransit>,
    /// Unused indices of `packets`.
    vacant: Vec<u32>,
    /// The parcels in transit, the next one that is due first.
    parcels: BinaryHeap<Reverse<Parcel>>,
    /// The number of the last parcel.
    number: u64,
    refused: RefusedCounts,
    /// A buffer that is empty between calls: its memory is used again.
    runs: Vec<SegmentRun>,
}

impl Fabric {
    /// The network of a scenario, with memory for packets in transit.
    pub fn new(scenario: &Scenario, topology: Topology, packet_memory: PacketMemory) -> Fabric {
        let links = topology.links.iter();
        let links = links.map(|link| Link::new(link.settings.clone(), link.rtt, seed(scenario, link.owner))).collect();
        let firewalls = scenario.sites.iter().map(|site| site.firewall.as_ref().map(|open| Firewall::new(open)));
        Fabric {
            scenario: scenario.clone(),
            links,
            firewalls: firewalls.collect(),
            topology,
            packet_memory,
            packets: Vec::new(),
            vacant: Vec::new(),
            parcels: BinaryHeap::new(),
            number: 0,
            refused: RefusedCounts::default(),
            runs: Vec::new(),
        }
    }

    /// The ports, links and routes.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// All links, in the topology's order.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The counts of packets that reached no link.
    pub fn refused(&self) -> RefusedCounts {
        self.refused
    }

    /// Memory of packets in transit, in bytes: now, and at most so far.
    pub fn memory(&self) -> (u64, u64) {
        (self.packet_memory.in_use(), self.packet_memory.peak())
    }

    /// Changes links; returns the words that take the change back, for each link.
    pub fn set(&mut self, now: u64, links: &[usize], words: &[Word]) -> Vec<(usize, Vec<Word>)> {
        let reversals = links.iter().map(|link| (*link, self.links[*link].set(now, words))).collect();
        if words.iter().any(|word| matches!(word, Word::Withdrawn(_))) {
            links.iter().for_each(|link| self.note_withdrawn(*link));
            self.topology.find_routes(&self.scenario);
        }
        reversals
    }

    fn note_withdrawn(&mut self, link: usize) {
        if let Owner::Path { path, direction, member } = self.topology.links[link].owner {
            self.scenario.paths[path].directions[direction].members[member].withdrawn =
                self.links[link].settings().withdrawn;
        }
    }

    /// The room that the next packet may be read into; none if memory is full.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.packet_memory.room()
    }

    /// Counts a packet that was read, and dropped for want of room.
    pub fn count_no_room(&mut self) {
        self.refused.no_memory += 1;
    }

    /// Accepts a packet of `length` bytes, which is in the room, at a port.
    pub fn arrive(&mut self, now: u64, port: Port, length: usize) {
        let Some(slot) = self.packet_memory.take(length) else { return self.count_no_room() };
        if !self.forward(now, port, slot) {
            self.packet_memory.release(slot);
        }
    }

    /// Sends a packet on its route. Returns whether it is in transit.
    fn forward(&mut self, now: u64, port: Port, slot: PacketSlot) -> bool {
        let frame = self.packet_memory.bytes(slot);
        let Some(shape) = Shape::of(frame) else {
            self.refused.not_carried += 1;
            return false;
        };
        let Some((_, destination)) = packet::addresses(frame) else { return false };
        if !is_carried(destination) {
            self.refused.not_carried += 1;
            return false;
        }
        let site = self.topology.ports[port].site;
        let (gateway4, gateway6) = gateway_addresses(site);
        let gateway = if destination.is_ipv4() { IpAddr::from(gateway4) } else { IpAddr::from(gateway6) };
        let Some(number) = self.topology.route(port, destination) else {
            self.refused.unroutable += 1;
            let answer = packet::unreachable(frame, &shape, gateway);
            self.answer(now, port, answer);
            return false;
        };
        let route = &self.topology.routes[number];
        if shape.largest() > u32::from(route.mtu) {
            self.refused.too_big += 1;
            let answer = packet::too_big(frame, &shape, gateway, route.mtu);
            self.answer(now, port, answer);
            return false;
        }
        if let Some(firewall) = &mut self.firewalls[site] {
            firewall.note_outgoing(now, frame, &shape);
        }
        let hops = route.routers.len();
        if hops > 0 {
            let ttl = usize::from(shape.ttl());
            if ttl <= hops {
                let router = route.routers[ttl.max(1) - 1];
                return self.expire(now, number, router, slot, &shape);
            }
            packet::age(self.packet_memory.bytes_mut(slot), hops as u8);
        }
        let packet = self.add_packet(slot, shape);
        let segments = 0..shape.segments();
        let destination = ParcelDestination::Route { route: number as u32, leg: 0, link: 0 };
        self.send_on(Parcel { due: now, number: 0, packet, segments, damage: None, destination });
        true
    }

    /// Sends a router's answer that the packet's TTL ended there; the answer travels as long as the packet did.
    fn expire(&mut self, now: u64, route: usize, router: Router, slot: PacketSlot, shape: &Shape) -> bool {
        self.refused.expired += 1;
        let legs = &self.topology.routes[route].legs;
        let delay = |leg: usize| self.links[legs[leg].members[0]].settings().delay;
        let travelled = (0..router.leg).map(delay).sum::<Duration>() + delay(router.leg).mul_f64(router.along);
        let down = |leg: usize| legs[leg].members.iter().all(|link| self.links[*link].settings().down);
        let port = self.topology.routes[route].from;
        let cut_off = (0..=router.leg).any(down);
        let frame = self.packet_memory.bytes(slot);
        let source = if packet::addresses(frame).is_some_and(|(source, _)| source.is_ipv4()) {
            IpAddr::from(router.v4)
        } else {
            router.v6.into()
        };
        let answer = packet::time_exceeded(frame, shape, source).filter(|_| !cut_off);
        self.answer(now + 2 * travelled.as_nanos() as u64, port, answer);
        false
    }

    /// Queues an answer of the network itself, due at a port.
    fn answer(&mut self, due: u64, port: Port, frame: Option<Vec<u8>>) {
        let Some(frame) = frame else { return };
        let Some(shape) = Shape::of(&frame) else { return };
        let Some(room) = self.packet_memory.room() else { return self.count_no_room() };
        room[..frame.len()].copy_from_slice(&frame);
        let Some(slot) = self.packet_memory.take(frame.len()) else { return };
        let packet = self.add_packet(slot, shape);
        let destination = ParcelDestination::Answer(port as u32);
        self.push(Parcel { due, number: 0, packet, segments: 0..1, damage: None, destination });
    }

    /// Adds a packet without parcels; returns its index.
    fn add_packet(&mut self, slot: PacketSlot, shape: Shape) -> u32 {
        let packet = PacketInTransit { slot, shape, parcels: 0 };
        match self.vacant.pop() {
            Some(number) => {
                self.packets[number as usize] = packet;
                number
            }
            None => {
                self.packets.push(packet);
                self.packets.len() as u32 - 1
            }
        }
    }

    fn push(&mut self, parcel: Parcel) {
        self.packets[parcel.packet as usize].parcels += 1;
        self.number += 1;
        self.parcels.push(Reverse(Parcel { number: self.number, ..parcel }));
    }

    /// Removes one parcel of a packet. The packet is removed with its last parcel.
    fn drop_parcel(&mut self, packet: u32) {
        let parcels = &mut self.packets[packet as usize].parcels;
        *parcels = parcels.saturating_sub(1);
        self.drop_without_parcels(packet);
    }

    fn drop_without_parcels(&mut self, packet: u32) {
        let in_transit = &self.packets[packet as usize];
        if in_transit.parcels == 0 {
            self.packet_memory.release(in_transit.slot);
            self.vacant.push(packet);
        }
    }

    /// Sends a parcel that has arrived over the next leg of its route.
    fn send_on(&mut self, parcel: Parcel) {
        let ParcelDestination::Route { route, leg, link: last_link } = parcel.destination else { return };
        let shape = self.packets[parcel.packet as usize].shape;
        let members = &self.topology.routes[route as usize].legs[leg as usize].members;
        let link = members[if members.len() == 1 { 0 } else { member_of(&shape, leg, members.len()) }];
        // The lateness of a packet counts for its path, whose RTT says how late it may be, not for the uplink behind the path.
        let is_last_mile = matches!(self.topology.links[link].owner, Owner::Uplink { direction: 1, .. });
        let last_link = if is_last_mile { last_link } else { link as u32 };
        let mut runs = std::mem::take(&mut self.runs);
        let arrived = parcel.segments.end;
        self.links[link].accept(parcel.due, &shape, parcel.segments, &mut runs);
        if leg == 0 {
            // The first leg takes whole packets as they arrive: the segments that its queue drops need no memory, since no later packet
            // lies behind them.
            let kept = runs.iter().map(|run| run.segments.end).max();
            if let Some(kept) = kept.filter(|kept| *kept < arrived) {
                let packet = &mut self.packets[parcel.packet as usize];
                packet.slot = self.packet_memory.shorten(packet.slot, shape.frame_bytes(kept));
            }
        }
        for run in runs.drain(..) {
            let destination = ParcelDestination::Route { route, leg: leg + 1, link: last_link };
            // A damaged segment is not damaged, or counted, again: the receiver sees it once.
            if let (Some(_), Some((damage, _))) = (parcel.damage, run.damage) {
                self.links[link].uncount_damage(damage);
            }
            let damage = parcel.damage.or(run.damage);
            self.push(Parcel {
                due: run.due,
                number: 0,
                packet: parcel.packet,
                segments: run.segments,
                damage,
                destination,
            });
        }
        self.runs = runs;
        self.drop_without_parcels(parcel.packet);
    }

    /// The time at which the next parcel is due, in nanoseconds.
    pub fn next_due(&self) -> Option<u64> {
        self.parcels.peek().map(|Reverse(parcel)| parcel.due)
    }

    /// The next run of segments that is due at a port by now. The caller must give it back with [`Fabric::done`].
    pub fn due(&mut self, now: u64) -> Option<Delivery> {
        loop {
            if self.parcels.peek()?.0.due > now {
                return None;
            }
            let Reverse(parcel) = self.parcels.pop()?;
            let (port, link) = match parcel.destination {
                ParcelDestination::Answer(port) => (port as usize, None),
                ParcelDestination::Route { route, leg, link } => {
                    let route = &self.topology.routes[route as usize];
                    if (leg as usize) < route.legs.len() {
                        // This parcel ends here; `send_on` counts the parcels that it becomes.
                        self.packets[parcel.packet as usize].parcels -= 1;
                        self.send_on(parcel);
                        continue;
                    }
                    (route.to, Some(link as usize))
                }
            };
            if link.is_some() && !self.is_let_in(now, port, parcel.packet) {
                self.refused.firewalled += parcel.segments.len() as u64;
                self.drop_parcel(parcel.packet);
                continue;
            }
            let Parcel { due, segments, damage, packet, .. } = parcel;
            return Some(Delivery { port, due, segments, damage, link, packet });
        }
    }

    fn is_let_in(&mut self, now: u64, port: Port, packet: u32) -> bool {
        let packet = &self.packets[packet as usize];
        match &mut self.firewalls[self.topology.ports[port].site] {
            Some(firewall) => firewall.lets_in(now, self.packet_memory.bytes(packet.slot), &packet.shape),
            None => true,
        }
    }

    /// The packet of a delivery.
    pub fn frame(&self, delivery: &Delivery) -> (&[u8], &Shape) {
        let packet = &self.packets[delivery.packet as usize];
        (self.packet_memory.bytes(packet.slot), &packet.shape)
    }

    /// Frees the memory of a delivery that was written or dropped.
    pub fn done(&mut self, delivery: Delivery) {
        self.drop_parcel(delivery.packet);
    }
}

/// The member for a packet: the same for all packets of a flow. Each leg rotates the hash, so that its choice does not depend on earlier ones.
fn member_of(shape: &Shape, leg: u32, members: usize) -> usize {
    (shape.flow().rotate_left(leg * 11) % members as u64) as usize
}

/// The seed of a link, from its owner's name, so that a link draws the same numbers whatever else a scenario has.
fn seed(scenario: &Scenario, owner: Owner) -> u64 {
    let name = match owner {
        Owner::Path { path, direction, member } => format!("{}/{direction}/{member}", scenario.paths[path].name),
        Owner::Uplink { site, direction } => format!("{}/{direction}", scenario.sites[site].name),
    };
    scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ fnv1a(name.as_bytes())
}

/// Whether the network carries packets for such a destination at all.
fn is_carried(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => !(v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified() || v4.is_link_local()),
        IpAddr::V6(v6) => !(v6.is_multicast() || v6.is_unspecified() || v6.is_unicast_link_local()),
    }
}
