//! `--check`: a test as a plug-in of a monitoring system. One line, figures after a bar, and the exit code: 0 well, 1 a
//! warning, 2 critical, 3 unknown (Monitoring Plugins Development Guidelines).

use model::Exit;

use crate::args::{Bound, Measure, ProbeCheck};
use crate::commands::standing::Standing;
use crate::failure::Failure;
use crate::printer::Printer;

/// A figure of a test.
pub type Fact = (Measure, f64);

/// Runs a test that gives figures; with `--check` judges them, and a test that fails is unknown.
pub fn judged(
    check: &ProbeCheck,
    printer: &Printer,
    test: impl FnOnce() -> Result<Vec<Fact>, Failure>,
) -> Result<u8, Failure> {
    let facts = test();
    if !check.check {
        return facts.map(|_| Exit::Done as u8);
    }
    let (standing, line) = match &facts {
        Ok(facts) => judge(check, facts),
        Err(failure) => (Standing::Unknown, failure.message.clone()),
    };
    printer.line(&format!("{} - {line}", standing.word()));
    Ok(standing as u8)
}

fn judge(check: &ProbeCheck, facts: &[Fact]) -> (Standing, String) {
    let value = |bound: &Bound| facts.iter().find(|(measure, _)| *measure == bound.measure).map(|(_, value)| *value);
    let (mut standing, mut broken) = (Standing::Well, Vec::new());
    for (bounds, worse) in [(&check.crit, Standing::Critical), (&check.warn, Standing::Warning)] {
        for bound in bounds {
            match value(bound) {
                Some(value) if bound.holds(value) => {}
                Some(_) => {
                    standing = standing.and(worse);
                    broken.push(format!("not {bound}"));
                }
                None => {
                    standing = standing.and(Standing::Unknown);
                    broken.push(format!("this test has no {}", bound.measure.name()));
                }
            }
        }
    }
    let shown = facts.iter().map(|(measure, value)| format!("{} {}", measure.name(), measure.show(*value)));
    let figures = facts.iter().map(|(measure, value)| format!("{}={value}", measure.name())).collect::<Vec<_>>();
    let words = shown.chain(broken).collect::<Vec<_>>().join(", ");
    (standing, format!("{words} | {}", figures.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_bound_decides() {
        let bounds = |text: &str| text.split(',').filter(|b| !b.is_empty()).map(|b| b.parse().unwrap()).collect();
        let facts = [(Measure::Rate, 5e8), (Measure::Loss, 0.002)];
        for (warn, crit, wanted) in [
            ("rate>=400Mbit/s", "", Standing::Well),
            ("rate>=900Mbit/s", "rate>=400Mbit/s", Standing::Warning),
            ("rate>=900Mbit/s", "loss<=0.1%", Standing::Critical),
            ("rtt<=1s", "", Standing::Unknown),
            ("", "loss<=0.1%,rtt<=310ms", Standing::Critical),
            ("", "rtt<=310ms,loss<=0.1%", Standing::Critical),
            ("loss<=0.1%", "rtt<=310ms", Standing::Unknown),
            ("loss<=0.1%,rtt<=310ms", "", Standing::Unknown),
        ] {
            let check = ProbeCheck { check: true, warn: bounds(warn), crit: bounds(crit) };
            let (standing, line) = judge(&check, &facts);
            assert_eq!(standing, wanted, "{line}");
            assert!(line.contains("rate 500 Mbit/s") && line.ends_with("| rate=500000000 loss=0.002"), "{line}");
        }
    }
}
