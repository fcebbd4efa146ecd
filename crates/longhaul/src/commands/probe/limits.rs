//! `longhaul probe limits`: the bounds that a node sets to tests.

use model::Exit;
use model::units::{BitRate, Bytes};

use super::ProbeDocument;
use super::target::{Target, connect};
use crate::args::ProbeLimits;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// Prints the limits of a node.
///
/// # Errors
/// The node cannot be reached.
pub fn run(probe: &ProbeLimits, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let limits = connect(&Target::node(&probe.target, "limits", settings)?, settings)?.limits()?;
    if printer.is_json() {
        printer.object(&ProbeDocument::of("result", "limits", &probe.target, &limits));
        return Ok(Exit::Done);
    }
    printer.line(&format!("longest test        {} s", limits.seconds));
    printer.line(&format!("tests at once       {} of one client", limits.tests));
    let day = Bytes(limits.bytes_a_day);
    let left = Bytes(limits.bytes_left);
    printer.line(&format!("volume in a day     {day} of one address, both directions; {left} left for yours"));
    let datagrams = match limits.anonymous_udp_bit_s {
        0 => "no bound".to_owned(),
        rate => format!("{} for all anonymous clients together", BitRate(rate)),
    };
    printer.line(&format!("rate of datagrams   {datagrams}"));
    Ok(Exit::Done)
}
