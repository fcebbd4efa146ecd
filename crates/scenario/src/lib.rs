//! A scenario: sites and the paths between them, faults, flows, work and costs, in one file (TOML). The lab brings it up in namespaces; planning computes
//! link loads, costs and simulations from it.
//!
//! [`Scenario::read`] reads and checks a text; every default is filled in then. A fault is a [`Problem`]: its line, what is wrong, and the remedy. The language
//! is in `docs/lab.md` and `docs/plan.md`.
//!
//! What this crate does not know: namespaces, how a packet is carried, routes, money of two currencies.
//!
//! ```
//! use scenario::Scenario;
//!
//! let scenario = Scenario::read("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"303ms\"\n")?;
//! assert_eq!((scenario.sites.len(), scenario.paths.len()), (2, 1));
//! let problem = Scenario::read("[site.a]\n[path.a-b]\n").unwrap_err();
//! assert_eq!(problem.line, 2);
//! # Ok::<(), scenario::Problem>(())
//! ```

mod check;
pub mod forwarding;
pub mod fuzzing;
mod planning;
mod problem;
mod quantity;
mod read;
mod scale;
mod shipped;
mod source;
#[cfg(test)]
mod tests;
mod words;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use model::units::{BitRate, Bytes};

pub use planning::{
    Background, CacheSettings, Congestion, Cost, Crossing, DemandSettings, FixedRoute, FlowDemand, LightSettings,
    LinkFacts, ReplicaScenario, RouteChoice, Scheduler, ServingOrder, SimulationSettings, SiteFacts, Sizes, Work,
    Years,
};
pub use problem::Problem;
pub use read::LAB_SITES_MAX;
pub use shipped::{SHIPPED, Shipped, shipped};
pub use words::{Change, Word};

/// A whole scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed of all random draws, together with the names of the paths.
    pub seed: u64,
    /// The most memory for packets in transit; none leaves it to the emulator.
    pub memory: Option<Bytes>,
    /// In the order of the file.
    pub sites: Vec<Site>,
    /// In the order of the file.
    pub paths: Vec<Path>,
    /// In the order of their times.
    pub events: Vec<Event>,
    /// What the lab divides all rates by, so that one machine can carry them.
    pub scale: f64,
    /// In the order of the file.
    pub routes: Vec<FixedRoute>,
    /// How demand is provisioned and grows.
    pub demand: DemandSettings,
    /// In the order of the file.
    pub flows: Vec<FlowDemand>,
    /// In the order of the file.
    pub work: Vec<Work>,
    /// In the order of the file.
    pub costs: Vec<Cost>,
    /// In the order of the file.
    pub replicas: Vec<ReplicaScenario>,
    /// What others send over the paths; the simulator's transfers have what is left.
    pub background: Vec<Background>,
    /// Settings of the simulator.
    pub simulation: SimulationSettings,
}

/// A site: an emulated host.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// As in the file; also its host name.
    pub name: String,
    /// Socket limits.
    pub profile: Profile,
    /// At least one; the first is `eth0`.
    pub interfaces: Vec<Interface>,
    /// The capacity that all its paths share, for each direction.
    pub uplink: Option<LinkSettings>,
    /// Settings of its network, by their dotted names.
    pub sysctl: Vec<(String, String)>,
    /// Processor time for the site, in processors (0.5: half of one).
    pub cpu_share: Option<f64>,
    /// If set, the firewall lets in only answers to packets that went out, and connections to these ports.
    pub firewall: Option<Vec<u16>>,
    /// What planning knows of it.
    pub facts: SiteFacts,
}

/// Socket limits of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Those of a tuned data transfer node.
    #[default]
    Dtn,
    /// Those of a host that was never tuned.
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
    /// The number of routers on the path, which answer with ICMP.
    pub hops: u8,
    /// The largest packet that the path's routers let through, bytes; they report larger ones.
    pub mtu: Option<u16>,
    /// `ab` and `ba`.
    pub directions: [PathDirection; 2],
    /// What planning knows of the link that it stands for.
    pub facts: LinkFacts,
}

/// One direction of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathDirection {
    /// Its links: one, or as many as `ecmp` says.
    pub members: Vec<LinkSettings>,
    /// The sites, by number, that this direction goes over instead of links of its own.
    pub via: Vec<usize>,
}

impl PathDirection {
    /// Whether no route may use any of its members.
    pub fn is_withdrawn(&self) -> bool {
        self.members.iter().all(|settings| settings.withdrawn)
    }
}

/// The settings of a link: one direction of a path or of an uplink. They can be changed while packets flow.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// One-way delay.
    pub delay: Duration,
    /// The largest deviation of the delay, up and down, uniform; the order stays.
    pub jitter: Duration,
    /// The rate of the bottleneck, counting IP bytes; none for no bottleneck.
    pub rate: Option<BitRate>,
    /// The queue of the bottleneck.
    pub queue: Queue,
    /// A rate without a queue: packets that exceed it are dropped.
    pub policer: Option<Policer>,
    /// Segments lost on the wire.
    pub loss: Loss,
    /// Probability per segment of being held back.
    pub reorder: f64,
    /// How long such a segment is held back.
    pub reorder_by: Duration,
    /// Probability per segment of arriving twice.
    pub duplicate: f64,
    /// Probability per segment of a flipped bit that the kernel's checksum sees.
    pub corrupt: f64,
    /// Probability per segment of a flipped bit that it does not see.
    pub corrupt_silent: f64,
    /// Traffic of others through the same bottleneck.
    pub cross_traffic: Option<BitRate>,
    /// Larger packets vanish without an ICMP message.
    pub mtu_black_hole: Option<u16>,
    /// Nothing passes.
    pub down: bool,
    /// No route uses the link: packets take another path, as when a router withdraws a route.
    pub withdrawn: bool,
}

/// A drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The size in bytes.
    Bytes(Bytes),
    /// The bytes that the bottleneck sends in this time.
    Time(Duration),
    /// The bytes that the bottleneck sends in one round trip, or in 2 ms if that is more; 256 KiB at least.
    Bdp,
}

/// A token bucket that drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// The rate in the long run.
    pub rate: BitRate,
    /// The bytes that it lets through at once.
    pub burst: Bytes,
}

/// Which segments are lost on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// No segments.
    #[default]
    None,
    /// Each with this probability.
    Random(f64),
    /// Every n-th.
    Every(u64),
    /// Gilbert's chain: from good to bad with the first probability per segment, and back with the second; every segment in the bad state is
    /// lost.
    Burst(f64, f64),
    /// The segments with these numbers, counted from 1 in each direction, in rising order.
    List(Vec<u64>),
}

/// A change of a path while packets flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The time since the lab came up.
    pub at: Duration,
    /// The change.
    pub change: Change,
    /// The time after which the change is taken back; none if it stays.
    pub lasts: Option<Duration>,
}

/// The target of a change.
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

impl Default for LinkSettings {
    fn default() -> LinkSettings {
        LinkSettings {
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

impl LinkSettings {
    /// The length of the queue in bytes, on a path of this RTT; 0 without a bottleneck.
    pub fn queue_bytes(&self, rtt: Duration) -> u64 {
        // Packets arrive as super-packets of 64 KiB, and the lab reads them about every 100 µs.
        const QUEUE_MIN: u64 = 256 << 10;
        const QUEUE_TIME_MIN: Duration = Duration::from_millis(2);
        let sent_in = |time: Duration| match self.rate {
            Some(rate) => (rate.0 as f64 / 8.0 * time.as_secs_f64()) as u64,
            None => 0,
        };
        match (self.rate, self.queue) {
            (None, _) => 0,
            (_, Queue::Bytes(bytes)) => bytes.0,
            (_, Queue::Time(time)) => sent_in(time),
            (_, Queue::Bdp) => sent_in(rtt.max(QUEUE_TIME_MIN)).max(QUEUE_MIN),
        }
    }
}

impl Path {
    /// The sum of the delays of both directions, by their first members. A direction that goes over other sites has no delay of its own and
    /// counts as much as the other direction.
    pub fn rtt(&self) -> Duration {
        let delay = |direction: usize| self.directions[direction].members[0].delay;
        match [0, 1].map(|direction: usize| self.directions[direction].via.is_empty()) {
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
    /// The first thing in it that makes no sense, with its line and the remedy.
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
    /// If the end belongs to another scenario.
    pub fn interface(&self, end: End) -> &Interface {
        &self.sites[end.site].interfaces[end.interface]
    }

    /// A path's number.
    pub fn path(&self, name: &str) -> Option<usize> {
        self.paths.iter().position(|path| path.name == name)
    }
}
