//! `plan demand` and `plan cost`: figures with their formulas.

use model::Exit;
use model::figure::Figure;
use model::v1::plan::{PlanFigure, PlanFigures, PlanInput};
use plan::{cost, demand};

use super::LoadedScenario;
use crate::args::{PlanCost, PlanDemand};
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints the demand.
///
/// # Errors
/// The scenario has no flow that counts.
pub fn demand(args: &PlanDemand, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    let figures = demand_figures(args.node_rate.0 as f64 / 1e9, args.capacity.map(|rate| rate.0 as f64), loaded)?;
    print(loaded, &figures, printer);
    Ok(Exit::Done)
}

/// Refuses a period that ends before it begins.
///
/// # Errors
/// The years are in the wrong order.
pub fn check_years(args: &PlanCost) -> Result<(), Failure> {
    if args.until < args.since {
        return Err(Failure::usage(format!("--until {} is before --since {}", args.until, args.since)));
    }
    Ok(())
}

/// Prints the costs of all options.
///
/// # Errors
/// The scenario has no costs, or the years are in the wrong order.
pub fn cost(args: &PlanCost, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    check_years(args)?;
    if loaded.scenario.costs.is_empty() {
        return Err(Failure::usage(format!("{} has no costs: add a table like [cost.primary-links]", loaded.name)));
    }
    print(loaded, &cost_figures(args.since, args.until, loaded), printer);
    Ok(Exit::Done)
}

/// The figures of the demand: in sum, of each receiving site, nodes, growth.
///
/// # Errors
/// The scenario has no flow that counts.
pub fn demand_figures(
    node_gbit_s: f64,
    capacity_bit_s: Option<f64>,
    loaded: &LoadedScenario,
) -> Result<Vec<Figure>, Failure> {
    let scenario = &loaded.scenario;
    let flows = loaded.flows();
    if !scenario.flows.iter().any(|flow| flows.counts(flow)) {
        return Err(Failure::usage(format!("{} has no flow that counts: add a table like [flow.raw]", loaded.name)));
    }
    let total = demand::total(scenario, &flows);
    let mut figures = vec![total.clone()];
    for site in 0..scenario.sites.len() {
        let received = demand::of_site(scenario, &flows, site);
        if received.value > 0.0 {
            figures.extend([demand::circuit(&received), demand::nodes(&received, node_gbit_s)]);
            figures.insert(figures.len() - 2, received);
        }
    }
    if scenario.demand.growth > 0.0 {
        figures.extend([5.0, 10.0].map(|years| demand::grown(&total, scenario.demand.growth, years)));
    }
    let capacity = capacity_bit_s.unwrap_or_else(|| {
        let finite = loaded.network().links.into_iter().map(|link| link.capacity_bit_s).filter(|rate| rate.is_finite());
        // Both directions of a path count once: demand is stated in one direction.
        finite.sum::<f64>() / 2.0
    });
    let capacity = Figure::new("capacity of the links", capacity / 1e9, "Gbit/s");
    figures.extend(demand::crossing(&total, &capacity, &scenario.demand));
    Ok(figures)
}

/// The figures of the costs.
pub fn cost_figures(since: u16, until: u16, loaded: &LoadedScenario) -> Vec<Figure> {
    let options = cost::options(&loaded.scenario, since, until, loaded.scenario.seed);
    options.into_iter().flat_map(|option| [option.total, option.yearly]).collect()
}

/// Prints figures, each with its formula in a second line.
pub fn print(loaded: &LoadedScenario, figures: &[Figure], printer: &Printer) {
    if printer.is_json() {
        return printer.object(&PlanFigures {
            v: 1,
            event: "plan_figures".to_owned(),
            scenario: loaded.name.clone(),
            year: loaded.year,
            figures: figures.iter().map(document).collect(),
        });
    }
    for figure in figures {
        printer.line(&format!("{:<52} {}", figure.name, show(figure)));
        if printer.is_chatty() {
            printer.line(&format!("    = {}", explain(figure)));
        }
    }
}

/// The value with its unit and its range.
pub fn show(figure: &Figure) -> String {
    let range = figure.range.map_or(String::new(), |(low, high)| format!(" ({} to {})", number(low), number(high)));
    format!("{} {}{range}", number(figure.value), figure.unit)
}

/// A number for people: thousands separated, no more than three decimals.
fn number(value: f64) -> String {
    let text = match value.abs() {
        magnitude if magnitude >= 1000.0 || value.fract() == 0.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    // A year has no separator.
    if whole.len() <= 4 {
        return text;
    }
    let digits = whole.len();
    let grouped: String = whole
        .chars()
        .enumerate()
        .flat_map(|(at, digit)| {
            (at > 0 && (digits - at) % 3 == 0 && digit.is_ascii_digit()).then_some(',').into_iter().chain([digit])
        })
        .collect();
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

/// The formula with its inputs and its source.
fn explain(figure: &Figure) -> String {
    let inputs = figure.inputs.iter().map(|input| format!("{} = {} {}", input.name, number(input.value), input.unit));
    let inputs: Vec<String> = inputs.map(|input| input.trim_end().to_owned()).collect();
    let source = if figure.source.is_empty() { String::new() } else { format!("; {}", figure.source) };
    format!("{}, where {}{source}", figure.formula, inputs.join(", "))
}

/// A figure as a document.
fn document(figure: &Figure) -> PlanFigure {
    let input = |input: &model::figure::Input| PlanInput {
        name: input.name.clone(),
        value: input.value,
        unit: input.unit.clone(),
    };
    PlanFigure {
        name: figure.name.clone(),
        value: figure.value,
        unit: figure.unit.clone(),
        formula: figure.formula.clone(),
        inputs: figure.inputs.iter().map(input).collect(),
        source: figure.source.clone(),
        low: figure.range.map(|(low, _)| low),
        high: figure.range.map(|(_, high)| high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_but_years_are_not() {
        let shown = [2028.0, 1_140_000.0, 12_500.5, 92.59, 0.2, 4800.0].map(number);
        assert_eq!(shown, ["2028", "1,140,000", "12,500", "92.6", "0.200", "4800"]);
    }
}
