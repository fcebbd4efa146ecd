//! Whether goals can be reached at all: sums of goals against what links, interfaces and disks give, before anything runs.

use std::collections::BTreeMap;
use std::fmt;

use model::units::BitRate;

use crate::file::{Exercise, ExerciseFlow, ExercisePhase};

/// What packets need beside payload, as a factor.
const HEADERS: f64 = 1.05;

/// Goals that something cannot carry.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortfall {
    /// The phase.
    pub phase: String,
    /// What is too small: `the link geneva-perth from geneva`.
    pub what: String,
    /// What the goals add up to, with headers where these count, bit/s.
    pub asked_bit_s: f64,
    /// What there is, bit/s.
    pub given_bit_s: f64,
    /// The number of flows that ask.
    pub flows: usize,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bit_s: f64| BitRate(bit_s.round() as u64);
        write!(
            f,
            "phase {}: the goals of {} flows need {} of {}, and it gives {}; lower them to {:.0} %",
            self.phase,
            self.flows,
            rate(self.asked_bit_s),
            self.what,
            rate(self.given_bit_s),
            (self.given_bit_s / self.asked_bit_s * 100.0).floor()
        )
    }
}

/// Everything that is too small for the goals of a phase, the worst first.
pub fn shortfalls(exercise: &Exercise) -> Vec<Shortfall> {
    let mut all: Vec<Shortfall> = exercise.phases.iter().flat_map(|phase| of_phase(exercise, phase)).collect();
    let ratio = |shortfall: &Shortfall| shortfall.given_bit_s / shortfall.asked_bit_s;
    all.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    all
}

/// A sum of goals over something that they share.
struct Sum {
    asked_bit_s: f64,
    given_bit_s: f64,
    flows: usize,
}

fn of_phase(exercise: &Exercise, phase: &ExercisePhase) -> Vec<Shortfall> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for flow in &phase.flows {
        let Some(goal_bit_s) = flow.goal_bit_s else { continue };
        for (what, given_bit_s, factor) in limits(exercise, flow) {
            let sum = sums.entry(what).or_insert(Sum { asked_bit_s: 0.0, given_bit_s, flows: 0 });
            sum.asked_bit_s += goal_bit_s * factor;
            sum.flows += 1;
        }
    }
    for goal in &phase.site_goals {
        let interface = exercise.sites.get(&goal.site).and_then(|site| site.interface_bit_s);
        let Some(given_bit_s) = interface else { continue };
        let direction = if goal.sends { "sending" } else { "receiving" };
        let what = format!("the interface of {}, {direction} (the goal of the site)", goal.site);
        sums.insert(what, Sum { asked_bit_s: goal.goal_bit_s * HEADERS, given_bit_s, flows: 1 });
    }
    let too_much = sums.into_iter().filter(|(_, sum)| sum.asked_bit_s > sum.given_bit_s);
    too_much
        .map(|(what, Sum { asked_bit_s, given_bit_s, flows })| Shortfall {
            phase: phase.name.clone(),
            what,
            asked_bit_s,
            given_bit_s,
            flows,
        })
        .collect()
}

/// What a flow shares with others: its name, what it gives (bit/s), and the factor of a goal there.
fn limits(exercise: &Exercise, flow: &ExerciseFlow) -> Vec<(String, f64, f64)> {
    let mut limits = Vec::new();
    let mut add =
        |what: String, given: Option<f64>, factor: f64| limits.extend(given.map(|given| (what, given, factor)));
    let (from, to) = (&flow.from, &flow.to);
    add("all flows together (rate_max of the exercise)".into(), exercise.rate_max_bit_s, 1.0);
    add(format!("the flow {} (its rate_max)", flow.name), flow.rate_max_bit_s, 1.0);
    for link in exercise.links.iter().filter(|link| link.joins(from, to)) {
        add(format!("the link {} from {from} (capacity)", link.name), link.capacity_bit_s, HEADERS);
        add(format!("the link {} from {from} (rate_max)", link.name), link.rate_max_bit_s, 1.0);
    }
    let (source, target) = (exercise.sites.get(from), exercise.sites.get(to));
    add(format!("the interface of {from}, sending"), source.and_then(|site| site.interface_bit_s), HEADERS);
    add(format!("the interface of {to}, receiving"), target.and_then(|site| site.interface_bit_s), HEADERS);
    if flow.class.medium.reads() {
        add(format!("the disks of {from}, reading"), source.and_then(|site| site.read_bit_s), 1.0);
    }
    if flow.class.medium.writes() {
        add(format!("the disks of {to}, writing"), target.and_then(|site| site.write_bit_s), 1.0);
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(goal: &str, more: &str) -> Vec<Shortfall> {
        let text = format!(
            "[exercise]\ntitle = \"t\"\n{more}\n[site.a]\nnode = \"https://a:1\"\n[site.b]\nnode = \"https://b:1\"\nwrite = \"8Gbit/s\"\n\
             [site.c]\nnode = \"https://c:1\"\n[link.a-b]\nbetween = [\"a\", \"b\"]\ncapacity = \"10Gbit/s\"\n\
             [class.large]\nfiles = 1\nsize = \"1GB\"\n[[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = [\"a\", \"c\"]\nto = \"b\"\nclass = \"large\"\ngoal = \"{goal}\"\n"
        );
        shortfalls(&Exercise::read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}")))
    }

    #[test]
    fn goals_that_fit_are_not_reported() {
        assert_eq!(found("3Gbit/s", ""), []);
    }

    #[test]
    fn the_worst_shortfall_comes_first_with_its_numbers() {
        let all = found("9.8Gbit/s", "");
        let whats: Vec<&str> = all.iter().map(|shortfall| shortfall.what.as_str()).collect();
        assert_eq!(whats, ["the disks of b, writing", "the link a-b from a (capacity)"]);
        assert!((all[0].asked_bit_s - 19.6e9).abs() < 1.0 && all[0].flows == 2);
        let text = all[0].to_string();
        assert!(text.contains("19.6 Gbit/s") && text.contains("8.00 Gbit/s") && text.contains("40 %"), "{text}");
    }

    #[test]
    fn the_goal_of_a_site_must_fit_its_interface() {
        let text = "[exercise]\ntitle = \"t\"\n[site.a]\nnode = \"https://a:1\"\ninterface = \"10Gbit/s\"\n[site.b]\nnode = \"https://b:1\"\n\
             [class.x]\nsize = \"1GB\"\n[[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\n\
             [[phase.site]]\nname = \"a\"\nsends = \"9.9Gbit/s\"\nreceives = \"1Gbit/s\"\n";
        let all = shortfalls(&Exercise::read(text).unwrap());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].what, "the interface of a, sending (the goal of the site)");
    }

    #[test]
    fn a_cap_below_the_goals_is_a_shortfall_and_the_scale_lowers_both() {
        assert_eq!(found("3Gbit/s", "rate_max = \"5Gbit/s\"")[0].what, "all flows together (rate_max of the exercise)");
        assert_eq!(found("9.8Gbit/s", "scale = 0.3"), []);
    }
}
