//! What a network is to carry: sums of flows, provisioning, growth, bursts, and the equipment for it. Every result is a figure.
//!
//! Does not know: routes. Rates are in bit/s, shown in Gbit/s.

use model::figure::Figure;
use scenario::{DemandSettings, Scenario};

use crate::loads::{FlowChoice, identifier};

/// Rates at which circuits are sold, Gbit/s.
pub const CIRCUITS_GBIT_S: [f64; 7] = [1.0, 10.0, 40.0, 100.0, 200.0, 400.0, 800.0];
/// The year after which no crossing is looked for.
const LAST_YEAR: u16 = 2100;

/// The total demand, with bursts and overprovisioning: `sum × burst × overprovision`.
pub fn total(scenario: &Scenario, choice: &FlowChoice) -> Figure {
    let flows: Vec<(String, f64)> = scenario
        .flows
        .iter()
        .filter(|flow| choice.counts(flow))
        .map(|flow| {
            let pairs = flow.from.iter().map(|from| flow.to.iter().filter(|to| *to != from).count()).sum::<usize>();
            (identifier(&flow.name), flow.rate_bit_s * pairs as f64 * choice.factor / 1e9)
        })
        .collect();
    let sum: f64 = flows.iter().map(|(_, rate)| rate).sum();
    let DemandSettings { burst, overprovision, .. } = scenario.demand;
    let names: Vec<&str> = flows.iter().map(|(name, _)| name.as_str()).collect();
    let sum_formula = if names.is_empty() { "0".to_owned() } else { names.join(" + ") };
    let formula = format!("({sum_formula}) * burst * overprovision");
    let mut figure = Figure::new("demand in sum", sum * burst * overprovision, "Gbit/s").formula(formula);
    for (name, rate) in &flows {
        figure = figure.with(name.clone(), *rate, "Gbit/s");
    }
    figure.with("burst", burst, "").with("overprovision", overprovision, "").source("the flows of the scenario")
}

/// The demand of one site: the sum of what it receives.
pub fn of_site(scenario: &Scenario, choice: &FlowChoice, site: usize) -> Figure {
    let mut figure = Figure::new(format!("received by {}", scenario.sites[site].name), 0.0, "Gbit/s");
    let mut names = Vec::new();
    for flow in scenario.flows.iter().filter(|flow| choice.counts(flow) && flow.to.contains(&site)) {
        let senders = flow.from.iter().filter(|from| **from != site).count() as f64;
        let rate = flow.rate_bit_s * senders * choice.factor / 1e9;
        let name = identifier(&flow.name);
        figure.value += rate;
        figure = figure.with(name.clone(), rate, "Gbit/s");
        names.push(name);
    }
    let formula = if names.is_empty() { "0".to_owned() } else { names.join(" + ") };
    figure.formula(formula).source("the flows of the scenario")
}

/// The circuit to buy for a rate: the smallest that is sold, or as many of the largest as it takes.
pub fn circuit(rate: &Figure) -> Figure {
    let largest = CIRCUITS_GBIT_S[CIRCUITS_GBIT_S.len() - 1];
    let smallest = CIRCUITS_GBIT_S.into_iter().find(|circuit| rate.value <= circuit * (1.0 + 1e-9));
    let circuit = smallest.unwrap_or(largest);
    let name = format!("circuit for {}", rate.name);
    Figure::new(name, (rate.value / circuit).ceil().max(1.0) * circuit, "Gbit/s")
        .formula("max(1, ceil(demand / circuit)) * circuit")
        .with("demand", rate.value, "Gbit/s")
        .with("circuit", circuit, "Gbit/s")
        .source("the smallest circuit that is sold (1, 10, 40, 100, 200, 400, 800 Gbit/s) and carries the demand")
}

/// The rate that moves a volume in a time.
pub fn rate_for(name: &str, petabytes: f64, hours: f64) -> Figure {
    Figure::new(name, petabytes * 8e6 / (hours * 3600.0), "Gbit/s")
        .formula("volume * 8000000 / (time * 3600)")
        .with("volume", petabytes, "PB")
        .with("time", hours, "h")
}

/// The data transfer nodes that a rate takes.
pub fn nodes(rate: &Figure, node_gbit_s: f64) -> Figure {
    Figure::new(format!("nodes for {}", rate.name), (rate.value / node_gbit_s).ceil(), "nodes")
        .formula("ceil(demand / node)")
        .with("demand", rate.value, "Gbit/s")
        .with("node", node_gbit_s, "Gbit/s")
}

/// A demand after some years of growth.
pub fn grown(rate: &Figure, growth: f64, years: f64) -> Figure {
    Figure::new(
        format!("{} after {years} years", rate.name),
        rate.value * (1.0 + growth).powf(years),
        rate.unit.clone(),
    )
    .formula("demand * (1 + growth) ^ years")
    .with("demand", rate.value, rate.unit.clone())
    .with("growth", growth, "a year")
    .with("years", years, "years")
}

/// The first year in which a growing demand exceeds a growing capacity; none before 2100, or if capacity grows as fast.
pub fn crossing(demand: &Figure, capacity: &Figure, settings: &DemandSettings) -> Option<Figure> {
    let first = settings.year?;
    let ratio = (1.0 + settings.growth) / (1.0 + settings.capacity_growth);
    let exceeds = |year: u16| demand.value * ratio.powi(i32::from(year - first)) > capacity.value;
    let year = (first..=LAST_YEAR).find(|year| exceeds(*year))?;
    let after = f64::from(year - first);
    let figure = Figure::new(format!("{} exceeds {}", demand.name, capacity.name), f64::from(year), "year");
    let figure = if after == 0.0 {
        figure.formula("first")
    } else {
        figure.formula("first + floor(ln(capacity / demand) / ln((1 + growth) / (1 + capacity_growth))) + 1")
    };
    Some(
        figure
            .with("first", f64::from(first), "year")
            .with("demand", demand.value, demand.unit.clone())
            .with("capacity", capacity.value, capacity.unit.clone())
            .with("growth", settings.growth, "a year")
            .with("capacity_growth", settings.capacity_growth, "a year"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_petabyte_in_a_shift_takes_278_gbit_s() {
        assert!((rate_for("burst", 1.0, 8.0).value - 277.8).abs() < 0.1);
    }

    #[test]
    fn a_circuit_is_the_smallest_that_carries_the_demand() {
        let circuit_for = |gbit_s: f64| circuit(&Figure::new("demand", gbit_s, "Gbit/s")).value;
        assert_eq!([0.5, 10.0, 70.0, 92.6, 100.0, 101.0].map(circuit_for), [1.0, 10.0, 100.0, 100.0, 100.0, 200.0]);
        assert_eq!(circuit_for(1700.0), 2400.0, "three of 800");
    }

    #[test]
    fn demand_that_grows_by_half_a_year_exceeds_four_times_its_capacity_after_four_years() {
        let settings = DemandSettings { growth: 0.5, year: Some(2024), ..DemandSettings::default() };
        let year = |capacity: f64| {
            let demand = Figure::new("demand", 100.0, "Gbit/s");
            crossing(&demand, &Figure::new("capacity", capacity, "Gbit/s"), &settings).map(|figure| figure.value)
        };
        assert_eq!(year(400.0), Some(2028.0), "1.5 ^ 3 = 3.4, 1.5 ^ 4 = 5.1");
        assert_eq!(year(90.0), Some(2024.0));
        assert_eq!(
            crossing(
                &Figure::new("d", 1.0, ""),
                &Figure::new("c", 2.0, ""),
                &DemandSettings { year: Some(2024), ..DemandSettings::default() }
            ),
            None
        );
    }
}
