//! The arguments of `longhaul plan`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use model::traffic::TrafficShape;

use super::HubOption;

/// Plan a network: its load, its costs, the effect of failures, and how long work takes.
///
/// SCENARIO is a file, or the name of a shipped scenario; `longhaul plan scenarios` lists these. docs/plan.md describes the
/// language and has three worked examples. The command computes everything from the file; it sends and changes nothing.
#[derive(Debug, ClapArgs)]
pub struct PlanArgs {
    #[command(subcommand)]
    pub action: PlanAction,
}

#[derive(Debug, Subcommand)]
pub enum PlanAction {
    /// List the shipped scenarios, or print one
    Scenarios(PlanScenarios),
    /// Check a scenario: flows without a route, links that are too small, missing data
    Check(PlanScenario),
    /// Add up the demand, with its growth and the year in which it exceeds a capacity
    Demand(PlanDemand),
    /// Compare the costs of the options; with --replicas, of the ways to keep replicas
    Cost(PlanCost),
    /// Show the load of each link; with --failures, what each failure changes
    Links(PlanLinks),
    /// Plan a virtual network for a group of sites: a VRF in each country, and where they peer
    Overlay(PlanOverlay),
    /// Verify a forwarding configuration: every prefix is reached, no packet turns in a circle or leaves its virtual network
    Forwarding(PlanForwarding),
    /// Simulate the work with the hub's own scheduler, in virtual time
    Simulate(PlanSimulate),
    /// Simulate several scenarios side by side
    Compare(PlanCompare),
    /// Forecast the traffic of a path, and score the methods; or find a value that drifts towards a limit
    Predict(PlanPredict),
    /// Print a hub's collaboration, with the jobs that wait there, as a scenario
    Twin(HubOption),
    /// Write one page with demand, cost, links, maps and simulation
    Report(PlanReport),
}

#[derive(Debug, ClapArgs)]
pub struct PlanScenarios {
    /// Print this scenario, as a start for your own
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// A scenario, and which parts of it count.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlanScenario {
    /// A scenario file, or the name of a shipped scenario
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Count only the links, flows and costs that exist in this year
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(u16).range(1970..=2200))]
    pub year: Option<u16>,
    /// Count the flows of this switch as well; can be repeated
    #[arg(long = "with", value_name = "SWITCH")]
    pub switches: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanDemand {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The rate of one data transfer node, to compute how many nodes the demand needs
    #[arg(long, value_name = "RATE", default_value = "20Gbit/s")]
    pub node_rate: model::units::BitRate,
    /// Compare the demand with this capacity (default: the sum of the capacities of all links)
    #[arg(long, value_name = "RATE")]
    pub capacity: Option<model::units::BitRate>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanCost {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The first year
    #[arg(long, value_name = "YEAR", default_value_t = 2024, value_parser = clap::value_parser!(u16).range(1970..=2200))]
    pub since: u16,
    /// The last year
    #[arg(long, value_name = "YEAR", default_value_t = 2033, value_parser = clap::value_parser!(u16).range(1970..=2200))]
    pub until: u16,
    /// Show the replica scenarios ([replicas.NAME]) instead: flows, circuits, storage, overloaded links and own costs of each
    #[arg(long)]
    pub replicas: bool,
}

#[derive(Debug, ClapArgs)]
pub struct PlanLinks {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// Let each path and each shared risk fail in turn, and show which flows suffer
    #[arg(long)]
    pub failures: bool,
    /// Find two routes between these sites that share nothing
    #[arg(long, num_args = 2, value_names = ["SITE", "SITE"])]
    pub diverse: Vec<String>,
    /// Write the links to this file as a page, with maps of the loads and of the worst failures
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanOverlay {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The group of sites that belongs to the virtual network
    #[arg(value_name = "GROUP")]
    pub group: String,
}

#[derive(Debug, ClapArgs)]
pub struct PlanForwarding {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The configuration: virtual networks with their prefixes and next hops (TOML)
    #[arg(value_name = "CONFIGURATION")]
    pub configuration: Option<PathBuf>,
    /// Print a configuration of shortest routes between the sites of this group, as a start for your own
    #[arg(long, value_name = "GROUP", conflicts_with = "configuration")]
    pub shortest: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanSimulate {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The seed of all random numbers (default: the scenario's seed)
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Write the result as a page to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Forecast the next 24 hours of a history of traffic.
///
/// Five methods are fitted to the history without its last days, and scored on these days. The method with the least error
/// forecasts the next day. A history needs four weeks more than the days that are held out.
///
/// With --falls-below or --rises-above the values may be anything, like optical power in dBm. The command exits with code 3 if
/// they drift towards the limit.
#[derive(Debug, ClapArgs)]
#[group(id = "history", required = true, args = ["file", "path", "interface", "synthetic"])]
pub struct PlanPredict {
    /// A CSV file with the columns time (seconds since 1970, or RFC 3339) and value (bit/s)
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read the throughput between these sites from the watch's archive
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub path: Vec<String>,
    /// Read the counters of this interface from the watch's archive: what it sends
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Draw 10 weeks of synthetic traffic of this shape: daily, nightly, bursts or shifted
    #[arg(long, value_name = "SHAPE", value_parser = traffic_shape)]
    pub synthetic: Option<TrafficShape>,
    /// Read the archive from this time on
    #[arg(long, value_name = "TIME", default_value = "84d")]
    pub since: String,
    /// The number of days on which the methods are scored
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = clap::value_parser!(u16).range(2..=365))]
    pub held_out: u16,
    /// The seed of all random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Find a drift of the last day that leads below this value
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true, conflicts_with = "rises_above")]
    pub falls_below: Option<f64>,
    /// Find a drift of the last day that leads above this value
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    pub rises_above: Option<f64>,
    /// Report a drift only if it reaches the limit within this number of hours
    #[arg(long, value_name = "HOURS", default_value_t = 48.0)]
    pub within: f64,
    #[command(flatten)]
    pub at: HubOption,
}

fn traffic_shape(name: &str) -> Result<TrafficShape, String> {
    let names = TrafficShape::ALL.map(TrafficShape::name).join(", ");
    TrafficShape::of_name(name).ok_or_else(|| format!("write one of {names}"))
}

#[derive(Debug, ClapArgs)]
pub struct PlanCompare {
    /// Scenario files, or names of shipped scenarios
    #[arg(value_name = "SCENARIO", num_args = 2.., required = true)]
    pub scenarios: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanReport {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}
