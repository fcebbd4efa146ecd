//! The limit of each flow below the caps of an exercise: its max-min share, computed again whenever a flow begins or ends.

use sched::allocation::{Demand, allocate};

use crate::file::{Exercise, ExerciseFlow};

/// The caps of an exercise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    /// The rate of each cap, bytes per second; in each direction of a link its own.
    rates: Vec<f64>,
    /// For each flow, by its number in the phase, its own cap (bytes per second) and the caps that it is below.
    flows: Vec<CappedFlow>,
}

#[derive(Clone, Debug, PartialEq)]
struct CappedFlow {
    own: f64,
    below: Vec<u32>,
}

impl Caps {
    /// The caps of the flows of a phase.
    pub fn new(exercise: &Exercise, flows: &[ExerciseFlow]) -> Caps {
        let mut caps = Caps::default();
        let all = exercise.rate_max_bit_s.map(|bit_s| caps.add(bit_s));
        let links: Vec<(usize, [u32; 2])> = exercise
            .links
            .iter()
            .enumerate()
            .filter_map(|(at, link)| Some((at, link.rate_max_bit_s?)))
            .map(|(at, bit_s)| (at, [caps.add(bit_s), caps.add(bit_s)]))
            .collect();
        for flow in flows {
            let on_links = links.iter().filter_map(|(at, directions)| {
                let [a, b] = &exercise.links[*at].between;
                match (a == &flow.from && b == &flow.to, b == &flow.from && a == &flow.to) {
                    (true, _) => Some(directions[0]),
                    (_, true) => Some(directions[1]),
                    _ => None,
                }
            });
            let below = all.into_iter().chain(on_links).collect();
            let own = flow.rate_max_bit_s.map_or(f64::INFINITY, |bit_s| bit_s / 8.0);
            caps.flows.push(CappedFlow { own, below });
        }
        caps
    }

    fn add(&mut self, bit_s: f64) -> u32 {
        self.rates.push(bit_s / 8.0);
        self.rates.len() as u32 - 1
    }

    /// The limits of all flows, bit/s, while those of `active` move: 0 for none.
    pub fn limits_bit_s(&self, active: &[bool]) -> Vec<u64> {
        let demands: Vec<Demand> = self
            .flows
            .iter()
            .zip(active)
            .map(|(flow, active)| Demand {
                weight: 1.0,
                floor: 0.0,
                cap: if *active { flow.own } else { 0.0 },
                path: flow.below.clone(),
            })
            .collect();
        let shares = allocate(&self.rates, &demands);
        let limit = |rate: f64| if rate.is_finite() { (rate * 8.0) as u64 } else { 0 };
        shares.iter().map(|share| limit(share.rate)).collect()
    }

    /// Whether the flow is below any cap.
    pub fn holds(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.own.is_finite() || !flow.below.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps() -> Caps {
        let text = "[exercise]\ntitle = \"t\"\nrate_max = \"9Gbit/s\"\n\
             [site.a]\nnode = \"https://a:1\"\n[site.b]\nnode = \"https://b:1\"\n[site.c]\nnode = \"https://c:1\"\n\
             [link.a-b]\nbetween = [\"b\", \"a\"]\nrate_max = \"2Gbit/s\"\n[class.x]\nsize = \"1GB\"\n\
             [[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"a\"\nto = [\"b\", \"c\"]\nclass = \"x\"\n\
             [[phase.flow]]\nfrom = \"b\"\nto = \"a\"\nclass = \"x\"\n[[phase.flow]]\nfrom = \"c\"\nto = \"b\"\nclass = \"x\"\nrate_max = \"1Gbit/s\"\n";
        let exercise = Exercise::read(text).unwrap();
        Caps::new(&exercise, &exercise.phases[0].flows)
    }

    #[test]
    fn each_flow_has_its_max_min_share_below_all_caps() {
        let near = |limits: Vec<u64>, wanted: [f64; 4]| {
            assert!(
                limits.iter().zip(wanted).all(|(a, b)| (*a as f64 - b).abs() < 16.0),
                "{limits:?} and not {wanted:?}"
            );
        };
        near(caps().limits_bit_s(&[true; 4]), [2e9, 4e9, 2e9, 1e9]);
        near(caps().limits_bit_s(&[true, false, true, true]), [2e9, 0.0, 2e9, 1e9]);
    }

    #[test]
    fn without_a_cap_there_is_no_limit() {
        let text = "[exercise]\ntitle = \"t\"\n[site.a]\nnode = \"https://a:1\"\n[site.b]\nnode = \"https://b:1\"\n[class.x]\nsize = \"1GB\"\n\
             [[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\n";
        let exercise = Exercise::read(text).unwrap();
        let caps = Caps::new(&exercise, &exercise.phases[0].flows);
        assert_eq!((caps.limits_bit_s(&[true]), caps.holds(0)), (vec![0], false));
    }
}
