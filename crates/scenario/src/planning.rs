//! What a scenario says for planning: facts of sites and links, flows, work, costs. The lab ignores all of it.
//!
//! Does not know: routes, money of other currencies, simulation.

use std::time::Duration;

use model::money::Money;
use model::traffic::{ForecastMethod, TrafficShape};
use model::units::{BitRate, Bytes};

/// The years in which something exists, from the first to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Years {
    /// The first year; none for always.
    pub from: Option<u16>,
    /// The last year; none for ever.
    pub until: Option<u16>,
}

/// Facts of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteFacts {
    /// Names of groups that the site belongs to: tiers, regions, communities.
    pub groups: Vec<String>,
    /// The country, a word of the scenario's author.
    pub country: Option<String>,
    /// Degrees north and degrees east.
    pub position: Option<[f64; 2]>,
    /// The number of data transfer nodes.
    pub nodes: Option<u32>,
    /// The rate of one node, from network to disk.
    pub node_rate: Option<BitRate>,
    /// The rate at which the site's disks read.
    pub read_rate: Option<BitRate>,
    /// The rate at which the site's disks write.
    pub write_rate: Option<BitRate>,
    /// The rate at which the site reads from tape.
    pub tape_rate: Option<BitRate>,
    /// Space for data.
    pub disk: Option<Bytes>,
    /// The share of the uplink that transfers may use: the high-water mark.
    pub mark: Option<f64>,
}

/// Facts of the link that a path stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkFacts {
    /// The length of the fibre.
    pub distance_km: Option<f64>,
    /// Who runs it.
    pub owner: Option<String>,
    /// Names of what it shares with others: a cable, a duct, a landing station.
    pub shared_risk: Vec<String>,
    /// When it exists.
    pub years: Years,
    /// The share that transfers may use: the high-water mark.
    pub mark: Option<f64>,
}

/// The paths that traffic between two sites takes, whatever the shortest route is. It holds in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedRoute {
    /// As in the file.
    pub name: String,
    /// One end.
    pub from: usize,
    /// The other end.
    pub to: usize,
    /// The paths, in order. They need not be joined: a collaboration may know which links it shares without knowing what lies between them.
    pub over: Vec<Crossing>,
    /// The round-trip time, if it is more than the sum of those of the paths.
    pub rtt: Option<Duration>,
}

/// A path that a fixed route crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The number of the path.
    pub path: usize,
    /// Whether it is crossed from `b` to `a`; this matters only where the paths of the route are not joined.
    pub against: bool,
}

/// A rate that is to flow from each of its sources to each of its targets.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowDemand {
    /// As in the file.
    pub name: String,
    /// The line of its header.
    pub line: usize,
    /// The sending sites.
    pub from: Vec<usize>,
    /// The receiving sites; a site that also sends gets nothing from itself.
    pub to: Vec<usize>,
    /// The rate of each pair.
    pub rate_bit_s: f64,
    /// Sites that the flow goes over, in order.
    pub via: Vec<usize>,
    /// The flow counts only if this switch is on; none for always.
    pub switch: Option<String>,
    /// When it flows.
    pub years: Years,
    /// Where the number comes from.
    pub source: Option<String>,
}

/// How demand is provisioned and how it grows.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandSettings {
    /// The factor for bursts.
    pub burst: f64,
    /// The factor for capacity beyond the demand.
    pub overprovision: f64,
    /// The growth in a year, a fraction.
    pub growth: f64,
    /// The growth of capacity in a year, a fraction.
    pub capacity_growth: f64,
    /// The year that the flows are stated for.
    pub year: Option<u16>,
}

/// The sizes of the files of a work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// All files have the mean size.
    #[default]
    Equal,
    /// The logarithm of the size is normal, with a deviation of 1.
    Lognormal,
}

/// How the sources of a work serve its targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServingOrder {
    /// All targets at the same time.
    #[default]
    Parallel,
    /// One target after the other.
    InTurn,
}

/// Files that are to be at sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// As in the file.
    pub name: String,
    /// The line of its header.
    pub line: usize,
    /// Sites that have files; each has an equal part.
    pub from: Vec<usize>,
    /// Sites that get files.
    pub to: Vec<usize>,
    /// Bytes of all files.
    pub bytes: Bytes,
    /// The mean size of a file.
    pub file: Bytes,
    /// The sizes around that mean.
    pub sizes: Sizes,
    /// When the first file is there.
    pub at: Duration,
    /// The time over which files arrive evenly; zero if all are there at once.
    pub over: Duration,
    /// How many of the targets each file is copied to.
    pub copies: u32,
    /// Whether targets are served in parallel or in turn.
    pub order: ServingOrder,
    /// Each site with the sites that get their files from it instead of from the source.
    pub relays: Vec<(usize, Vec<usize>)>,
    /// The community and the activity, for fair shares.
    pub activity: String,
    /// From 1 to 5.
    pub priority: u8,
    /// The time after `at` by which all files are to be there.
    pub deadline: Option<Duration>,
    /// The share of the attempts that fail and are tried again.
    pub failures: f64,
    /// Streams of a transfer; none leaves the number to the pilot.
    pub streams: Option<u32>,
    /// The files are on tape.
    pub on_tape: bool,
    /// Files are requests for named data, and each target has a cache; none if each file is asked for once.
    pub cache: Option<CacheSettings>,
    /// An agent asks for an optical path before a transfer, and releases it afterwards.
    pub on_demand: bool,
}

/// Requests for named data that a cache answers where it can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheSettings {
    /// Bytes of the cache at each target; zero for none.
    pub bytes: f64,
    /// The number of different objects.
    pub objects: usize,
    /// The exponent of Zipf's law: the object of rank k is asked for in proportion to 1 / k^exponent.
    pub exponent: f64,
}

/// Optical paths on demand: what each link has, and how long agents take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LightSettings {
    /// Wavelengths of each link, in each direction.
    pub wavelengths: usize,
    /// What one carries.
    pub rate: BitRate,
    /// From a request to light at both ends.
    pub setup: Duration,
    /// From a cut to light over another route.
    pub restoration: Duration,
}

/// A cost: a number of equal things, each for a one-time price and a yearly price.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// As in the file.
    pub name: String,
    /// The line of its header.
    pub line: usize,
    /// The option that it belongs to; costs without one belong to all options.
    pub option: Option<String>,
    /// How many.
    pub count: f64,
    /// The one-time price of each.
    pub once: Option<Money>,
    /// The yearly price of each.
    pub per_year: Option<Money>,
    /// When it is paid. The one-time price is paid in the first year.
    pub years: Years,
    /// Years after which the one-time price is due again; none for never.
    pub term: Option<u16>,
    /// The uncertainty of both prices: the price is between (1 − spread) and (1 + spread) times the stated one.
    pub spread: f64,
    /// The year of the prices.
    pub prices: Option<u16>,
    /// Where the price comes from.
    pub source: Option<String>,
}

/// What others send over a path, in each of its directions. Each hour has its own rate, drawn by the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// As in the file.
    pub name: String,
    /// The line of its header.
    pub line: usize,
    /// The number of the path.
    pub path: usize,
    /// How it varies.
    pub shape: TrafficShape,
    /// Its mean, roughly.
    pub mean: BitRate,
    /// By how much its day is later than UTC.
    pub later: Duration,
}

/// How a queue of the simulator gets its route, when its first file is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteChoice {
    /// The shortest route, or the fixed one.
    #[default]
    Shortest,
    /// Among the four shortest, the one with the most free capacity at that time.
    LeastLoaded,
    /// Among the four shortest, the one on which the queue will be done first, by a forecast of the background traffic.
    Forecast(ForecastMethod),
}

/// How transfers get their rates in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The hub's scheduler gives each transfer a rate.
    #[default]
    Hub,
    /// Transfers share links by their congestion control alone.
    None,
}

/// The congestion control of all transfers in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// BBR: shares of a link do not depend on the round-trip time, and random loss does not matter.
    #[default]
    Bbr,
    /// CUBIC.
    Cubic,
    /// Reno.
    Reno,
}

/// A way to keep copies of what sources produce at other sites.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaScenario {
    /// As in the file. Costs of the option of this name belong to it.
    pub name: String,
    /// The line of its header.
    pub line: usize,
    /// Sites that produce data.
    pub from: Vec<usize>,
    /// Sites that keep copies.
    pub to: Vec<usize>,
    /// What each source sends to sites of other countries in sum, for one copy of its data.
    pub sum_bit_s: f64,
    /// What each source produces in a day; none for what the sum carries in a day.
    pub daily: Option<Bytes>,
    /// Whether the sites get their parts in parallel, or one of them gets all for a while.
    pub order: ServingOrder,
    /// Copies of each file.
    pub copies: u32,
    /// Copies beyond the first are sent by the sites that have one, and not by the source.
    pub passed_on: bool,
    /// Sources, each with the site that its flows to other countries go over.
    pub via: Vec<(usize, usize)>,
    /// The time for which the sites of `via` hold the data; they then feed the others. Zero if they only route.
    pub hold: Duration,
    /// Sites that get everything, besides their part.
    pub full: Vec<usize>,
    /// What a circuit carries.
    pub circuit_bit_s: f64,
    /// Where the numbers come from.
    pub source: Option<String>,
}

/// Settings of the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationSettings {
    /// The simulated time.
    pub duration: Duration,
    /// The time between two rounds of the scheduler; zero recomputes at each change.
    pub step: Duration,
    /// How transfers get their rates.
    pub scheduler: Scheduler,
    /// The congestion control of all transfers.
    pub congestion: Congestion,
    /// The time after which routes avoid a link that is down, and use it again.
    pub reroute: Duration,
    /// How queues get their routes.
    pub choice: RouteChoice,
    /// Optical paths for work that asks for them; none if links have no wavelengths to spare.
    pub light: Option<LightSettings>,
}

impl Years {
    /// Whether `year` is one of them.
    pub fn contains(&self, year: u16) -> bool {
        self.from.is_none_or(|from| from <= year) && self.until.is_none_or(|until| year <= until)
    }
}

impl Default for DemandSettings {
    fn default() -> DemandSettings {
        DemandSettings { burst: 1.0, overprovision: 1.0, growth: 0.0, capacity_growth: 0.0, year: None }
    }
}

impl Default for SimulationSettings {
    fn default() -> SimulationSettings {
        SimulationSettings {
            duration: Duration::from_secs(86_400),
            step: Duration::from_secs(10),
            scheduler: Scheduler::default(),
            congestion: Congestion::default(),
            reroute: Duration::from_secs(30),
            choice: RouteChoice::default(),
            light: None,
        }
    }
}
