//! The documents of `longhaul plan`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Figures of a scenario: demand, cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFigures {
    /// Always 1.
    pub v: u8,
    /// `plan_figures`.
    pub event: String,
    /// The scenario, as it was named.
    pub scenario: String,
    /// The year that the figures are for; none for all years together.
    pub year: Option<u16>,
    /// The figures, in the order of the text output.
    pub figures: Vec<PlanFigure>,
}

/// A computed number with what it takes to check it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFigure {
    /// What the number says.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of the value; empty for a count or a ratio.
    pub unit: String,
    /// The formula over the names of the inputs.
    pub formula: String,
    /// The inputs, in the order of the formula.
    pub inputs: Vec<PlanInput>,
    /// Where inputs and formula come from; empty if the scenario does not say.
    pub source: String,
    /// The lower end of the interval that holds the value in nine of ten draws; none for a certain value.
    pub low: Option<f64>,
    /// The upper end of that interval.
    pub high: Option<f64>,
}

/// An input of a formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanInput {
    /// The name in the formula.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of the value.
    pub unit: String,
}

/// The loads of links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanLinks {
    /// Always 1.
    pub v: u8,
    /// `plan_links`.
    pub event: String,
    /// The scenario, as it was named.
    pub scenario: String,
    /// The year of the network; none for all links that the scenario has.
    pub year: Option<u16>,
    /// Links that carry something, the fullest first.
    pub links: Vec<PlanLink>,
    /// Flows that have no route.
    pub unreachable: Vec<PlanFlow>,
    /// The failure of each path and of each shared risk, if these were asked for; the worst first.
    pub failures: Vec<PlanFailure>,
    /// The two routes between the pair that was asked for, which share nothing; empty if there are none.
    pub diverse: Vec<PlanRoute>,
    /// How far light gets on each path whose length the scenario states.
    #[serde(default)]
    pub reach: Vec<PlanReach>,
}

/// How far light gets on a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanReach {
    /// The path's name.
    pub path: String,
    /// Its length.
    pub distance_km: f64,
    /// The rate that it is to carry; none if the scenario does not say.
    pub rate_bit_s: Option<f64>,
    /// Whether some wavelength in production gets from end to end without regeneration.
    pub reaches: bool,
    /// The kinds of wavelengths, the best first: those in production before those of trials, then the least regeneration, then the highest rate.
    pub wavelengths: Vec<PlanWavelength>,
}

/// A kind of wavelength on a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanWavelength {
    /// The rate of one.
    pub rate_bit_s: f64,
    /// The width of its channel.
    pub width_ghz: f64,
    /// Its rate for each hertz: the modulation.
    pub bit_s_hz: f64,
    /// How far it gets without regeneration.
    pub reach_km: f64,
    /// Whether it runs in production, and not only in trials.
    pub production: bool,
    /// The regenerators that one needs on the path.
    pub regenerators: u32,
    /// How many of them carry the rate of the path; none if that has no rate.
    pub count: Option<u32>,
}

/// A forwarding configuration whose packets were followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanForwarding {
    /// Always 1.
    pub v: u8,
    /// `plan_forwarding`.
    pub event: String,
    /// The scenario, as it was named.
    pub scenario: String,
    /// The year of the network; none for all links that the scenario has.
    pub year: Option<u16>,
    /// Pairs of a member and a class of packets that were followed.
    pub followed: usize,
    /// What is wrong; empty if every packet arrives.
    pub faults: Vec<PlanForwardingFault>,
}

/// A fault of a forwarding configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanForwardingFault {
    /// `lost`, `loop` or `leak`.
    pub kind: String,
    /// The virtual network whose packets they are.
    pub vrf: String,
    /// The prefix that they are for.
    pub prefix: String,
    /// The site that has the prefix; none if nobody has it.
    pub owner: Option<String>,
    /// The site where it happens.
    pub at: String,
    /// The sites that the packets go over, from the member that sends them; a loop ends with the site where it began.
    pub path: Vec<String>,
    /// The virtual network that they leak into; none for other faults.
    pub into: Option<String>,
    /// Further members whose packets meet it at the same place.
    pub others: Vec<String>,
    /// The fault as a sentence with its remedy.
    pub what: String,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanLink {
    /// The path's name and the direction.
    pub name: String,
    /// What the link carries at most; none if the scenario does not say.
    pub capacity_bit_s: Option<f64>,
    /// The sum of its flows.
    pub load_bit_s: f64,
    /// Whether that is more than transfers may use of it.
    pub overloaded: bool,
    /// The flows on it.
    pub flows: Vec<PlanFlow>,
}

/// A flow from one site to one other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFlow {
    /// The name of the flow in the scenario.
    pub flow: String,
    /// The sending site.
    pub from: String,
    /// The receiving site.
    pub to: String,
    /// The rate.
    pub rate_bit_s: f64,
}

/// What a failure does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFailure {
    /// The path or the shared risk that fails.
    pub name: String,
    /// Flows that take another route.
    pub rerouted: usize,
    /// Flows that have no route any more.
    pub cut: Vec<PlanFlow>,
    /// Links that are overloaded then, and were not before.
    pub overloaded: Vec<String>,
    /// Flows without a route, and flows over links that are overloaded then.
    pub suffering: usize,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRoute {
    /// The sites, ends included.
    pub sites: Vec<String>,
    /// The sum of the one-way delays.
    pub delay_s: f64,
    /// The least capacity; none if the scenario states none.
    pub capacity_bit_s: Option<f64>,
}

/// A virtual network over several countries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanOverlay {
    /// Always 1.
    pub v: u8,
    /// `plan_overlay`.
    pub event: String,
    /// The scenario, as it was named.
    pub scenario: String,
    /// The group of sites that belongs to it.
    pub group: String,
    /// The VRF of each country.
    pub countries: Vec<PlanCountry>,
    /// Sites of the group without a country, which no VRF can take.
    pub sites_without_country: Vec<String>,
    /// Countries that no chain of peerings joins to the first.
    pub unconnected: Vec<String>,
}

/// The VRF of a country.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanCountry {
    /// The country.
    pub country: String,
    /// The number of its route distinguisher and route target, behind the number of the autonomous system.
    pub number: u32,
    /// The backbones that carry it.
    pub backbones: Vec<String>,
    /// Its sites.
    pub sites: Vec<String>,
    /// The countries that it peers with.
    pub peers: Vec<PlanPeering>,
}

/// Where two VRFs peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanPeering {
    /// The other country.
    pub country: String,
    /// The links between the two.
    pub links: Vec<String>,
}

/// The results of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanSimulation {
    /// Always 1.
    pub v: u8,
    /// `plan_simulation`.
    pub event: String,
    /// The scenario, as it was named.
    pub scenario: String,
    /// The seed of all draws.
    pub seed: u64,
    /// The year of the network; none for all links that the scenario has.
    pub year: Option<u16>,
    /// The simulated time.
    pub simulated_s: f64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Whether all work was done before its end.
    pub complete: bool,
    /// Starts and completions of files.
    pub events: u64,
    /// Each work, in the order of the scenario.
    pub work: Vec<PlanWork>,
    /// What was used, the fullest first.
    pub resources: Vec<PlanResource>,
    /// The state over time.
    pub course: Vec<PlanMoment>,
    /// What the simulator does not know of the scenario.
    pub ignored: Vec<String>,
}

/// The results of one work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanWork {
    /// Its name.
    pub name: String,
    /// Its files; each copy is one.
    pub files: u64,
    /// Files that arrived.
    pub done: u64,
    /// Their bytes.
    pub bytes: f64,
    /// Files among them that a cache at the target had, so that they crossed no link.
    #[serde(default)]
    pub from_cache: u64,
    /// Attempts that failed and were repeated.
    pub failed: u64,
    /// Files that arrived after the deadline.
    pub late: u64,
    /// When the last file was complete.
    pub last_s: f64,
    /// From the arrival of a file at the source to its start.
    pub waited: PlanQuantiles,
    /// From the arrival of a file at the source to its completion.
    pub took: PlanQuantiles,
}

/// Quantiles of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanQuantiles {
    /// Half of the files took less.
    pub median_s: f64,
    /// 95 % took less.
    pub p95_s: f64,
    /// 99 % took less.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
}

/// The use of a link, an uplink, disks, tape or nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanResource {
    /// Its name.
    pub name: String,
    /// What transfers may use of it; none if the scenario does not say.
    pub usable_bit_s: Option<f64>,
    /// The mean rate.
    pub mean_bit_s: f64,
    /// The highest mean of one round.
    pub peak_bit_s: f64,
    /// The share of the queues' active time in which this resource limited them.
    pub bound: f64,
}

/// The state at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanMoment {
    /// The simulated time.
    pub at_s: f64,
    /// The rate of all transfers, on average since the moment before.
    pub rate_bit_s: f64,
    /// Files that wait.
    pub waiting: u64,
    /// Bytes that wait at their sources.
    pub buffered_bytes: f64,
}

/// Forecasts of traffic, and how good they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanPrediction {
    /// Always 1.
    pub v: u8,
    /// `plan_prediction`.
    pub event: String,
    /// Where the history comes from.
    pub source: String,
    /// Hours of history, gaps included.
    pub hours: u64,
    /// The days at the end of the history that the methods did not see before they forecast them.
    pub held_out_days: u64,
    /// The scores of the methods on these days, the simplest method first.
    pub scores: Vec<PlanScore>,
    /// The method with the least error.
    pub best: String,
    /// The forecast of the best method for the hours after the history.
    pub forecast: Vec<PlanForecastHour>,
}

/// How good the forecasts of a method are: means over days, each with its standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanScore {
    /// The method.
    pub method: String,
    /// The mean absolute error, percent of the mean.
    pub error_percent: PlanEstimate,
    /// The mean absolute percentage error (MAPE) of the hours with at least a tenth of the mean.
    pub mape_percent: PlanEstimate,
    /// The pinball loss of the quantiles 10, 50 and 90 %, percent of the mean.
    pub pinball_percent: PlanEstimate,
    /// The share of hours between the quantiles 10 and 90 %; 80 is right.
    pub covered_percent: PlanEstimate,
    /// The error less that of the seasonal naive forecast of the same days; negative if the method is better.
    pub over_naive_percent: PlanEstimate,
}

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEstimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

/// The forecast of one hour, bit/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanForecastHour {
    /// The beginning of the hour (RFC 3339).
    pub at: String,
    /// The rate is below in one of ten hours.
    pub low_bit_s: f64,
    /// The rate is below in five of ten hours.
    pub median_bit_s: f64,
    /// The rate is below in nine of ten hours.
    pub high_bit_s: f64,
}

/// Whether a value drifts towards a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEarlySign {
    /// Always 1.
    pub v: u8,
    /// `plan_early_sign`.
    pub event: String,
    /// Where the history comes from.
    pub source: String,
    /// The limit.
    pub limit: f64,
    /// Whether the value drifts towards the limit and reaches it soon.
    pub drifts: bool,
    /// The change in an hour; none without a drift.
    pub slope_per_hour: Option<f64>,
    /// Hours until the limit is reached; none without a drift.
    pub hours_left: Option<f64>,
}
