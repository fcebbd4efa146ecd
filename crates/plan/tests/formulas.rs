//! Every figure says how it came about: its formula over its inputs gives its value.

// Tests may unwrap; clippy.toml knows test functions only.
#![allow(clippy::unwrap_used)]

use evalexpr::{ContextWithMutableFunctions, ContextWithMutableVariables, Function, HashMapContext, Value};
use model::figure::Figure;
use plan::loads::{FlowChoice, loads};
use plan::network::Network;
use plan::routes::Avoid;
use plan::{cost, demand, optics, replication, storage};
use scenario::{SHIPPED, Scenario};

/// The value of a figure's formula.
fn evaluate(figure: &Figure) -> f64 {
    let mut context = HashMapContext::new();
    let ln = |argument: &Value| Ok(Value::Float(argument.as_number()?.ln()));
    context.set_function("ln".into(), Function::new(ln)).unwrap();
    for input in &figure.inputs {
        context.set_value(input.name.clone(), Value::Float(input.value)).unwrap();
    }
    let value = evalexpr::eval_with_context(&figure.formula, &context);
    value
        .and_then(|value| value.as_number())
        .unwrap_or_else(|error| panic!("{}: {}: {error}", figure.name, figure.formula))
}

fn figures_of(scenario: &Scenario) -> Vec<Figure> {
    let choice = FlowChoice::stated(None);
    let total = demand::total(scenario, &choice);
    let mut figures = vec![demand::grown(&total, scenario.demand.growth, 5.0), demand::circuit(&total)];
    figures.extend((0..scenario.sites.len()).map(|site| demand::of_site(scenario, &choice, site)));
    figures.push(demand::nodes(&total, 20.0));
    let capacity = Figure::new("capacity", 30_000.0, "Gbit/s");
    figures.extend(demand::crossing(&total, &capacity, &scenario.demand));
    figures.push(total);
    for option in cost::options(scenario, 2020, 2041, 1) {
        figures.extend([option.total, option.yearly]);
    }
    let network = Network::new(scenario, None);
    let loads = loads(scenario, &network, &choice, &Avoid::default());
    figures.extend(loads.links.iter().map(|load| loads.figure(&network, load)));
    let of_replicas = |replicas| replication::figures(scenario, &network, replicas, (2024, 2033)).all();
    figures.extend(scenario.replicas.iter().flat_map(of_replicas));
    figures
}

#[test]
fn the_formula_of_every_figure_gives_its_value() {
    let mut figures: Vec<Figure> =
        SHIPPED.iter().flat_map(|shipped| figures_of(&Scenario::read(shipped.text).unwrap())).collect();
    figures.extend([
        demand::rate_for("burst", 1.0, 8.0),
        storage::media("tape", 100_000.0, "13EUR".parse().unwrap()),
        storage::recall_rate(32.0, 60.0),
        storage::courier(100.0, 48.0, 20.0),
        storage::network(100.0, 1.0),
        cost::amortised("IRU", "10MUSD".parse().unwrap(), 15.0),
    ]);
    figures.extend(storage::break_even(48.0, 20.0, 1.0));
    figures.extend(optics::capacity(9200.0, 2));
    assert!(figures.len() > 100, "{}", figures.len());
    for figure in &figures {
        let computed = evaluate(figure);
        let is_near = (computed - figure.value).abs() <= 1e-9 * figure.value.abs().max(1.0);
        assert!(is_near, "{}: {} = {computed} and not {}", figure.name, figure.formula, figure.value);
    }
}
