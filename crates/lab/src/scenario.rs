//! What a scenario says, after it was read and checked: sites, paths, events, with every default filled in.
//!
//! Does not know: namespaces, or how a packet is carried.

mod check;
mod problem;
mod quantity;
mod read;
mod shipped;
mod source;
#[cfg(test)]
mod tests;
mod words;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use model::units::{BitRate, Bytes};

pub use problem::Problem;
pub use shipped::{SHIPPED, Shipped, shipped};
pub use words::{Change, Word};

/// A whole scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Draws all that is random, together with the names of the paths.
    pub seed: u64,
    /// The most that packets on their way may take; chosen by the emulator if none.
    pub memory: Option<Bytes>,
    /// In the order of the file.
    pub sites: Vec<Site>,
    /// In the order of the file.
    pub paths: Vec<Path>,
    /// In the order of their times.
    pub events: Vec<Event>,
}

/// A site: a host of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// As in the file; also its host name.
    pub name: String,
    /// Socket limits.
    pub profile: Profile,
    /// At least one; the first is `eth0`.
    pub interfaces: Vec<Interface>,
    /// What all its paths share, for each direction.
    pub uplink: Option<Way>,
    /// Settings of its network, by their dotted names.
    pub sysctl: Vec<(String, String)>,
    /// Processor time for the site, in processors (0.5: half of one).
    pub cpu_share: Option<f64>,
    /// Lets in only answers to what went out, and connections to these ports.
    pub firewall: Option<Vec<u16>>,
}

/// Socket limits of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As on a tuned data transfer node.
    #[default]
    Dtn,
    /// As the kernel has them where nobody tuned it.
    Stock,
}

/// A network interface of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// `eth0`, …
    pub name: String,
    /// In bytes.
    pub mtu: u16,
    /// Address and prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Address and prefix length.
    pub v6: Option<(Ipv6Addr, u8)>,
}

/// One end of a path: a site and its interface, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// Index into [`Scenario::sites`].
    pub site: usize,
    /// Index into [`Site::interfaces`].
    pub interface: usize,
}

/// A path between two interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// As in the file.
    pub name: String,
    /// From, to.
    pub ends: [End; 2],
    /// Routers on the way that answer for themselves.
    pub hops: u8,
    /// What the path's routers let through, and say so otherwise.
    pub mtu: Option<u16>,
    /// `ab` and `ba`.
    pub ways: [Directed; 2],
}

/// One direction of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Directed {
    /// One, or as many as `ecmp` says.
    pub members: Vec<Way>,
    /// Sites that this direction goes over instead, by number.
    pub via: Vec<usize>,
}

impl Directed {
    /// No route leads over any of its members.
    pub fn is_withdrawn(&self) -> bool {
        self.members.iter().all(|way| way.withdrawn)
    }
}

/// A direction of a path, as its words say. What can be changed while packets flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// One way.
    pub delay: Duration,
    /// The most that the delay differs, up and down, uniformly; the order stays.
    pub jitter: Duration,
    /// Of the bottleneck, counting IP bytes; none: no bottleneck.
    pub rate: Option<BitRate>,
    /// What waits for it at most.
    pub queue: Queue,
    /// A rate without a queue: what exceeds it is dropped.
    pub policer: Option<Policer>,
    /// Segments lost on the wire.
    pub loss: Loss,
    /// Probability per segment of being held back.
    pub reorder: f64,
    /// By how much.
    pub reorder_by: Duration,
    /// Probability per segment of arriving twice.
    pub duplicate: f64,
    /// Probability per segment of a flipped bit that the kernel's checksum sees.
    pub corrupt: f64,
    /// Probability per segment of a flipped bit that it does not see.
    pub corrupt_silent: f64,
    /// Traffic of others through the same bottleneck.
    pub cross_traffic: Option<BitRate>,
    /// Larger packets vanish, and nobody says so.
    pub mtu_black_hole: Option<u16>,
    /// Nothing passes.
    pub down: bool,
    /// No route leads over it: packets go another way, as when a router withdraws a route.
    pub withdrawn: bool,
}

/// A drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// So many bytes.
    Bytes(Bytes),
    /// As much as the bottleneck sends in this time.
    Time(Duration),
    /// What the bottleneck sends in one round trip, or in 2 ms if that is more; 256 KiB at least.
    Bdp,
}

/// A token bucket that drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// What it lets through in the long run.
    pub rate: BitRate,
    /// What it lets through at once.
    pub burst: Bytes,
}

/// Which segments are lost on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability.
    Random(f64),
    /// Every so many-th.
    Every(u64),
    /// Gilbert's chain: from good to bad with the first probability per segment, back with the second; all that meets
    /// the bad state is lost.
    Burst(f64, f64),
    /// These, counted from 1 in each direction, in rising order.
    List(Vec<u64>),
}

/// A change of a path while packets flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// After the lab came up.
    pub at: Duration,
    /// What changes.
    pub change: Change,
    /// After which it is taken back.
    pub lasts: Option<Duration>,
}

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path, or one direction or one member of it.
    Path {
        /// Index into [`Scenario::paths`].
        path: usize,
        /// 0 for `ab`, 1 for `ba`; both if none.
        direction: Option<usize>,
        /// From 0; all if none.
        member: Option<usize>,
    },
    /// A site's uplink, both directions.
    Uplink {
        /// Index into [`Scenario::sites`].
        site: usize,
    },
}

impl Default for Way {
    fn default() -> Way {
        Way {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: None,
            queue: Queue::Bdp,
            policer: None,
            loss: Loss::None,
            reorder: 0.0,
            reorder_by: Duration::from_millis(1),
            duplicate: 0.0,
            corrupt: 0.0,
            corrupt_silent: 0.0,
            cross_traffic: None,
            mtu_black_hole: None,
            down: false,
            withdrawn: false,
        }
    }
}

impl Way {
    /// The queue in bytes, for a path of this RTT. 0 without a bottleneck.
    pub fn queue_bytes(&self, rtt: Duration) -> u64 {
        // Packets come in lumps of 64 KiB, and the lab looks for them every 100 µs or so.
        const LEAST: u64 = 256 << 10;
        const LEAST_TIME: Duration = Duration::from_millis(2);
        let sent_in = |time: Duration| match self.rate {
            Some(rate) => (rate.0 as f64 / 8.0 * time.as_secs_f64()) as u64,
            None => 0,
        };
        match (self.rate, self.queue) {
            (None, _) => 0,
            (_, Queue::Bytes(bytes)) => bytes.0,
            (_, Queue::Time(time)) => sent_in(time),
            (_, Queue::Bdp) => sent_in(rtt.max(LEAST_TIME)).max(LEAST),
        }
    }
}

impl Path {
    /// The delays of both directions, by their first members. What goes over other sites has none of its own and counts
    /// as much as the other direction.
    pub fn rtt(&self) -> Duration {
        let delay = |direction: usize| self.ways[direction].members[0].delay;
        match [0, 1].map(|direction: usize| self.ways[direction].via.is_empty()) {
            [true, false] => 2 * delay(0),
            [false, true] => 2 * delay(1),
            _ => delay(0) + delay(1),
        }
    }
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// Everything that makes no sense, with its line and the remedy.
    pub fn read(text: &str) -> Result<Scenario, Problem> {
        let (scenario, lines) = read::scenario(text)?;
        check::scenario(&scenario, &lines)?;
        Ok(scenario)
    }

    /// A site's number.
    pub fn site(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.name == name)
    }

    /// The interface at the end of a path.
    ///
    /// # Panics
    /// If the end is another scenario's.
    pub fn interface(&self, end: End) -> &Interface {
        &self.sites[end.site].interfaces[end.interface]
    }

    /// A path's number.
    pub fn path(&self, name: &str) -> Option<usize> {
        self.paths.iter().position(|path| path.name == name)
    }
}
