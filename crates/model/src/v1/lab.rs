//! A lab in public JSON: what `longhaul lab status --json` prints.

use serde::{Deserialize, Serialize};

/// A lab that is up. All counters since then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lab {
    /// 1.
    pub v: u32,
    /// `lab`.
    pub event: String,
    /// Its name.
    pub lab: String,
    /// What carries the packets: `tun`.
    pub back_end: String,
    /// The process that runs it.
    pub pid: u32,
    /// Since it came up.
    pub seconds: f64,
    /// Why the lab itself was the limit, if it was: then none of its numbers say anything about the network.
    pub emulator_limited: Option<String>,
    /// Its process.
    pub emulator: LabEmulator,
    /// In the order of the scenario.
    pub sites: Vec<LabSite>,
    /// One for each direction of each member of each path and of each uplink.
    pub links: Vec<LabLink>,
}

/// The process that carries the packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabEmulator {
    /// Processor time of its thread, which includes the kernel's work for the receivers.
    pub cpu_s: f64,
    /// Memory of packets in flight.
    pub memory_bytes: u64,
    /// The largest value of `memory_bytes`.
    pub memory_peak_bytes: u64,
    /// Whether it runs with real-time priority.
    pub real_time: bool,
    /// Packets that it had no room for.
    pub no_memory: u64,
    /// Packets that an interface did not take from it.
    pub not_written: u64,
    /// Packets that the kernel dropped before it read them, or after it wrote them.
    pub device_dropped: u64,
    /// Packets to an address of no site; answered by ICMP.
    pub unroutable: u64,
    /// Packets whose TTL ended at a router; answered by ICMP.
    pub expired: u64,
    /// Packets larger than the path's MTU; answered by ICMP.
    pub too_big: u64,
    /// Segments that a site's firewall did not let in.
    pub firewalled: u64,
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabSite {
    /// Its name, and that of its host.
    pub site: String,
    /// Addresses of its interfaces, in their order.
    pub addresses: Vec<String>,
    /// Its namespaces (network, mount, host name): descriptors of the lab's process, below /proc/PID/fd.
    pub namespaces: [i32; 3],
    /// The control group of its processes, where it has a share of the processors.
    pub group: Option<String>,
}

/// One direction of a path or an uplink. Counts are segments, unless the name says `bytes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabLink {
    /// The name of the path, or of the site whose uplink it is.
    pub name: String,
    /// `path` or `uplink`.
    pub kind: String,
    /// The site that sends; `network` for the inbound direction of an uplink.
    pub from: String,
    /// The site that receives; `network` for the outbound direction of an uplink.
    pub to: String,
    /// From 1, where the path has several members.
    pub member: Option<u32>,
    /// As it is now.
    pub delay_s: f64,
    /// As it is now; none without a bottleneck.
    pub rate_bit_s: Option<u64>,
    /// Nothing passes now.
    pub is_down: bool,
    /// Came in.
    pub segments: u64,
    /// Came in.
    pub bytes: u64,
    /// Went on, or will.
    pub out_segments: u64,
    /// Went on, or will.
    pub out_bytes: u64,
    /// Dropped: no room in the queue.
    pub queue_dropped: u64,
    /// Dropped: above the policer's rate.
    pub policed: u64,
    /// Dropped: lost on the wire.
    pub lost: u64,
    /// Dropped: the link was down.
    pub down: u64,
    /// Dropped: larger than the black hole lets through.
    pub black_hole: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back, so that later ones overtook them.
    pub reordered: u64,
    /// Damaged so that the kernel's checksum sees it.
    pub corrupted: u64,
    /// Damaged so that it does not.
    pub corrupted_silently: u64,
    /// Traffic of others that came to the bottleneck.
    pub cross_bytes: u64,
    /// Bytes in the queue of the bottleneck now.
    pub queue_bytes: u64,
    /// The largest value of `queue_bytes`.
    pub queue_peak_bytes: u64,
    /// How late 99 % of the packets were written at most.
    pub late_p99_s: f64,
    /// How late the latest was.
    pub late_max_s: f64,
}
