//! The JSON of a lab, as `longhaul lab status --json` prints it.

use serde::{Deserialize, Serialize};

/// A running lab. All counters count from its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lab {
    /// Always 1.
    pub v: u32,
    /// Always `lab`.
    pub event: String,
    /// The name of the lab.
    pub lab: String,
    /// What carries the packets: `tun`.
    pub back_end: String,
    /// The id of the process that runs the lab.
    pub pid: u32,
    /// The time since the start of the lab, seconds.
    pub seconds: f64,
    /// Why the lab itself was the limit, if it was. In that case its numbers say nothing about the emulated network.
    pub emulator_limited: Option<String>,
    /// The process that carries the packets.
    pub emulator: LabEmulator,
    /// The sites, in the order of the scenario.
    pub sites: Vec<LabSite>,
    /// The links: one for each direction of each member of each path, and of each uplink.
    pub links: Vec<LabLink>,
}

/// The process that carries the packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabEmulator {
    /// The processor time of its thread, seconds, including the kernel's work for the receivers.
    pub cpu_s: f64,
    /// The memory of packets in flight, bytes.
    pub memory_bytes: u64,
    /// The largest value of `memory_bytes`.
    pub memory_peak_bytes: u64,
    /// Whether the process runs with real-time priority.
    pub real_time: bool,
    /// Packets that were dropped for lack of memory.
    pub no_memory: u64,
    /// Packets that an interface did not accept from the process.
    pub not_written: u64,
    /// Packets that the kernel dropped before it read them, or after it wrote them.
    pub device_dropped: u64,
    /// Packets to an address that belongs to no site; answered by ICMP.
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
    /// The name of the site and of its host.
    pub site: String,
    /// The addresses of its interfaces, in the order of the interfaces.
    pub addresses: Vec<String>,
    /// The namespaces of the site (network, mount, host name): file descriptors of the lab's process, below /proc/PID/fd.
    pub namespaces: [i32; 3],
    /// The control group of the site's processes, if the site has a share of the processors.
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
    /// The number of the member, from 1, if the path has several members.
    pub member: Option<u32>,
    /// The present delay, seconds.
    pub delay_s: f64,
    /// The present rate of the bottleneck, bit/s; absent without a bottleneck.
    pub rate_bit_s: Option<u64>,
    /// Whether the link is down now: no packets pass.
    pub is_down: bool,
    /// Segments that came in.
    pub segments: u64,
    /// Bytes that came in.
    pub bytes: u64,
    /// Segments that were passed on, or will be.
    pub out_segments: u64,
    /// Bytes that were passed on, or will be.
    pub out_bytes: u64,
    /// Dropped: no room in the queue.
    pub queue_dropped: u64,
    /// Dropped: above the policer's rate.
    pub policed: u64,
    /// Dropped: lost on the wire.
    pub lost: u64,
    /// Dropped: the link was down.
    pub down: u64,
    /// Dropped: larger than the MTU black hole lets through.
    pub black_hole: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back, so that later ones overtook them.
    pub reordered: u64,
    /// Damaged so that the kernel's checksum detects it.
    pub corrupted: u64,
    /// Damaged so that the kernel's checksum does not detect it.
    pub corrupted_silently: u64,
    /// Bytes of emulated cross traffic that came to the bottleneck.
    pub cross_bytes: u64,
    /// Bytes that are in the queue of the bottleneck now.
    pub queue_bytes: u64,
    /// The largest value of `queue_bytes`.
    pub queue_peak_bytes: u64,
    /// The 99th percentile of the lateness at which packets were written, seconds.
    pub late_p99_s: f64,
    /// The largest lateness of a packet, seconds.
    pub late_max_s: f64,
}
