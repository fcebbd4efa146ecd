//! The arguments of `longhaul plan`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::HubOption;

/// Plan a network: what it carries, what it costs, what fails, how long work takes.
///
/// SCENARIO is a file, or the name of a shipped one: `longhaul plan scenarios` names these. docs/plan.md has the language and
/// three worked examples. Nothing is sent or changed: everything is computed from the file.
#[derive(Debug, ClapArgs)]
pub struct PlanArgs {
    #[command(subcommand)]
    pub action: PlanAction,
}

#[derive(Debug, Subcommand)]
pub enum PlanAction {
    /// Name the shipped scenarios, or print one
    Scenarios(PlanScenarios),
    /// Check a scenario: flows without a route, links that are too small, what is missing
    Check(PlanScenario),
    /// Add up the demand, with growth and the year in which it exceeds a capacity
    Demand(PlanDemand),
    /// Compare the costs of the options
    Cost(PlanCost),
    /// Put the flows on their routes, and fail each link in turn
    Links(PlanLinks),
    /// Simulate the work: the real scheduler in virtual time
    Simulate(PlanSimulate),
    /// Simulate several scenarios side by side
    Compare(PlanCompare),
    /// Print what a hub knows of its collaboration, and what waits there, as a scenario
    Twin(HubOption),
    /// Write one page with demand, cost, links and simulation
    Report(PlanReport),
}

#[derive(Debug, ClapArgs)]
pub struct PlanScenarios {
    /// Print this scenario, as a start for another one
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// A scenario, and what of it counts.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlanScenario {
    /// A scenario file, or the name of a shipped scenario
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// The year: links, flows and costs that do not exist then do not count
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(u16).range(1970..=2200))]
    pub year: Option<u16>,
    /// Count the flows behind this switch too; may be given again
    #[arg(long = "with", value_name = "SWITCH")]
    pub switches: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanDemand {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The rate of one data transfer node: how many does the demand take
    #[arg(long, value_name = "RATE", default_value = "20Gbit/s")]
    pub node_rate: model::units::BitRate,
    /// The capacity that demand is held against; default: what the links of the scenario have in sum
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
}

#[derive(Debug, ClapArgs)]
pub struct PlanLinks {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// Fail each path and each shared risk in turn: who suffers
    #[arg(long)]
    pub failures: bool,
    /// Two routes between these sites that share nothing
    #[arg(long, num_args = 2, value_names = ["SITE", "SITE"])]
    pub diverse: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct PlanSimulate {
    #[command(flatten)]
    pub scenario: PlanScenario,
    /// The seed of all draws, in place of the scenario's
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Write a page to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
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
