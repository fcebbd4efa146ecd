//! `--check`: a test as a plug-in of a monitoring system. It prints one line with figures after a bar; the exit code is 0 for OK,
//! 1 for a warning, 2 for critical, 3 for unknown (Monitoring Plugins Development Guidelines).

use model::Exit;

use crate::args::{Bound, Measure, ProbeCheck};
use crate::commands::check_status::CheckStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// A measured figure of a test.
pub type Figure = (Measure, f64);

/// Runs a test that returns figures. With `--check` the figures are judged, and a test that fails is unknown.
///
/// # Errors
/// Without `--check`: the test fails.
pub fn run_checked(
    check: &ProbeCheck,
    printer: &Printer,
    test: impl FnOnce() -> Result<Vec<Figure>, Failure>,
) -> Result<u8, Failure> {
    let figures = test();
    if !check.check {
        return figures.map(|_| Exit::Done as u8);
    }
    let (status, line) = match &figures {
        Ok(figures) => judge(check, figures),
        Err(failure) => (CheckStatus::Unknown, failure.message.clone()),
    };
    printer.line(&format!("{} - {line}", status.word()));
    Ok(status as u8)
}

fn judge(check: &ProbeCheck, figures: &[Figure]) -> (CheckStatus, String) {
    let value = |bound: &Bound| figures.iter().find(|(measure, _)| *measure == bound.measure).map(|(_, value)| *value);
    let mut status = CheckStatus::Well;
    let mut broken = Vec::new();
    for (bounds, worse) in [(&check.crit, CheckStatus::Critical), (&check.warn, CheckStatus::Warning)] {
        for bound in bounds {
            match value(bound) {
                Some(value) if bound.holds(value) => {}
                Some(_) => {
                    status = status.and(worse);
                    broken.push(format!("not {bound}"));
                }
                None => {
                    status = status.and(CheckStatus::Unknown);
                    broken.push(format!("this test has no {}", bound.measure.name()));
                }
            }
        }
    }
    let shown = figures.iter().map(|(measure, value)| format!("{} {}", measure.name(), measure.show(*value)));
    let performance_data =
        figures.iter().map(|(measure, value)| format!("{}={value}", measure.name())).collect::<Vec<_>>();
    let words = shown.chain(broken).collect::<Vec<_>>().join(", ");
    (status, format!("{words} | {}", performance_data.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_bound_decides() {
        let bounds = |text: &str| text.split(',').filter(|b| !b.is_empty()).map(|b| b.parse().unwrap()).collect();
        let figures = [(Measure::Rate, 5e8), (Measure::Loss, 0.002)];
        for (warn, crit, wanted) in [
            ("rate>=400Mbit/s", "", CheckStatus::Well),
            ("rate>=900Mbit/s", "rate>=400Mbit/s", CheckStatus::Warning),
            ("rate>=900Mbit/s", "loss<=0.1%", CheckStatus::Critical),
            ("rtt<=1s", "", CheckStatus::Unknown),
            ("", "loss<=0.1%,rtt<=310ms", CheckStatus::Critical),
            ("", "rtt<=310ms,loss<=0.1%", CheckStatus::Critical),
            ("loss<=0.1%", "rtt<=310ms", CheckStatus::Unknown),
            ("loss<=0.1%,rtt<=310ms", "", CheckStatus::Unknown),
        ] {
            let check = ProbeCheck { check: true, warn: bounds(warn), crit: bounds(crit) };
            let (status, line) = judge(&check, &figures);
            assert_eq!(status, wanted, "{line}");
            assert!(line.contains("rate 500 Mbit/s") && line.ends_with("| rate=500000000 loss=0.002"), "{line}");
        }
    }
}
