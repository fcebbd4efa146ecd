//! `longhaul tune calc`: windows, rates and times that follow from the properties of a path.

use model::Exit;
use serde::Serialize;
use tune::calc::{CalculatedLine, Courier, Question, answer};

use crate::args::TuneCalc;
use crate::failure::Failure;
use crate::printer::Printer;

/// The width of the longest name, and a space.
const NAME_WIDTH: usize = 52;

/// The answer as JSON.
#[derive(Serialize)]
struct CalcReport<'a> {
    v: u8,
    event: &'static str,
    lines: Vec<CalcLine<'a>>,
}

#[derive(Serialize)]
struct CalcLine<'a> {
    name: &'a str,
    value: f64,
    unit: &'a str,
    shown: &'a str,
    formula: &'a str,
    source: &'a str,
}

impl<'a> From<&'a CalculatedLine> for CalcLine<'a> {
    fn from(line: &'a CalculatedLine) -> CalcLine<'a> {
        let CalculatedLine { name, value, unit, shown, formula, source } = line;
        CalcLine { name, value: *value, unit, shown, formula, source }
    }
}

/// Prints all values that follow from the options.
///
/// # Errors
/// The options are too few to compute anything.
pub fn run(calc: &TuneCalc, printer: &Printer) -> Result<Exit, Failure> {
    if calc.rate.is_none() && calc.rtt.is_none() && calc.size.is_none() {
        return Err(Failure::usage("nothing can be computed: say at least --rate and --rtt"));
    }
    if calc.size.is_some() && calc.rate.is_none() {
        return Err(Failure::usage("the time for a volume depends on the rate: give --rate as well"));
    }
    let lines = answer(&question(calc)).lines;
    if printer.is_json() {
        printer.object(&CalcReport { v: 1, event: "tune_calc", lines: lines.iter().map(CalcLine::from).collect() });
        return Ok(Exit::Done);
    }
    for line in &lines {
        printer.line(&format!("{:<NAME_WIDTH$} {}", line.name, line.shown));
        printer.line(&format!("    {}   [{}]", line.formula, line.source));
    }
    Ok(Exit::Done)
}

fn question(calc: &TuneCalc) -> Question {
    let courier = calc.ship.map(|journey| Courier {
        journey_s: journey.as_secs_f64(),
        copy_bit_s: calc.ship_copy.map(|rate| rate.0 as f64),
    });
    Question {
        rate_bit_s: calc.rate.map(|rate| rate.0 as f64),
        rtt_s: calc.rtt.map(|rtt| rtt.as_secs_f64()),
        loss: calc.loss,
        mtu_bytes: Some(f64::from(calc.mtu)),
        window_bytes: calc.window.map(|window| window.0 as f64),
        volume_bytes: calc.size.map(|size| size.0 as f64),
        efficiency: calc.efficiency,
        streams: calc.streams,
        courier,
    }
}
