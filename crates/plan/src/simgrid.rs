//! The flow model of SimGrid (`network_cm02`), for comparison: what the simulator of this crate and the model that most planning studies use say about the
//! same flows. Velho, Schnorr, Casanova, Legrand: On the Validity of Flow-level TCP Network Models for Grid and Cloud Simulations, ACM TOMACS 23(4), 2013.
//!
//! Does not know: scenarios. All flows begin together, and none ends: shares are those of the beginning.

use sched::allocation::{Demand, allocate};

/// The constants of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// The factor on the sum of the links' latencies at the start of a flow.
    pub latency_factor: f64,
    /// The part of a link's bandwidth that payload gets.
    pub bandwidth_factor: f64,
    /// Bytes that a link adds to the weight of a flow, divided by its bandwidth.
    pub weight_bytes: f64,
    /// The largest window, bytes; 0 for none.
    pub gamma_bytes: f64,
}

/// The variant of 2002 (Casanova and Marchal), with the default window.
pub const CM02: Constants =
    Constants { latency_factor: 1.0, bandwidth_factor: 1.0, weight_bytes: 0.0, gamma_bytes: 4_194_304.0 };
/// The variant fitted to packet-level simulations, which is the default.
pub const LV08: Constants =
    Constants { latency_factor: 13.01, bandwidth_factor: 0.97, weight_bytes: 20_537.0, gamma_bytes: 4_194_304.0 };

/// A link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimgridLink {
    /// Bytes per second.
    pub bandwidth_bytes_s: f64,
    /// Seconds.
    pub latency_s: f64,
}

/// A flow over links, by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct SimgridFlow {
    /// Its size.
    pub bytes: f64,
    /// The links.
    pub links: Vec<usize>,
}

/// The rates of flows that are there together, bytes per second.
pub fn rates(constants: Constants, links: &[SimgridLink], flows: &[SimgridFlow]) -> Vec<f64> {
    let capacities: Vec<f64> = links.iter().map(|link| link.bandwidth_bytes_s * constants.bandwidth_factor).collect();
    let demand = |flow: &SimgridFlow| {
        let of_flow = || flow.links.iter().map(|link| links[*link]);
        let latency: f64 = of_flow().map(|link| link.latency_s).sum();
        let added: f64 = of_flow().map(|link| constants.weight_bytes / link.bandwidth_bytes_s).sum();
        let has_window = constants.gamma_bytes > 0.0 && latency > 0.0;
        Demand {
            weight: 1.0 / (latency + added).max(f64::MIN_POSITIVE.sqrt()),
            floor: 0.0,
            cap: if has_window { constants.gamma_bytes / (2.0 * latency) } else { f64::INFINITY },
            path: flow.links.iter().map(|link| *link as u32).collect(),
        }
    };
    let demands: Vec<Demand> = flows.iter().map(demand).collect();
    allocate(&capacities, &demands).into_iter().map(|rate| rate.rate).collect()
}

/// The time of a flow that is alone, seconds.
pub fn time_alone_s(constants: Constants, links: &[SimgridLink], flow: &SimgridFlow) -> f64 {
    let latency: f64 = flow.links.iter().map(|link| links[*link].latency_s).sum();
    let rate = rates(constants, links, std::slice::from_ref(flow))[0];
    constants.latency_factor * latency + flow.bytes / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published cases of the window (SimGrid, teshsuite/models/cm02-tcpgamma): 10 GB over a link of 10 GB/s, with the times computed by hand there.
    #[test]
    fn the_published_cases_of_the_window_are_reproduced() {
        let time = |latency_s: f64, gamma_bytes: f64| {
            let links = [SimgridLink { bandwidth_bytes_s: 1e10, latency_s }];
            time_alone_s(Constants { gamma_bytes, ..CM02 }, &links, &SimgridFlow { bytes: 1e10, links: vec![0] })
        };
        for (latency_s, gamma_bytes, published_s) in [
            (0.0, 4_194_304.0, 1.000_000),
            (0.000_01, 4_194_304.0, 1.000_010),
            (0.001, 4_194_304.0, 4.769_372),
            (0.1, 4_194_304.0, 476.937_158),
            (0.001, 0.0, 1.001_000),
        ] {
            let computed_s = time(latency_s, gamma_bytes);
            assert!(
                (computed_s - published_s).abs() < 1e-6,
                "{latency_s} s, {gamma_bytes} B: {computed_s} and not {published_s}"
            );
        }
    }

    #[test]
    fn flows_share_a_link_in_inverse_proportion_to_their_latencies() {
        let near = SimgridLink { bandwidth_bytes_s: 1e12, latency_s: 0.010 };
        let far = SimgridLink { bandwidth_bytes_s: 1e12, latency_s: 0.040 };
        let shared = SimgridLink { bandwidth_bytes_s: 1e9, latency_s: 0.0 };
        let flow = |link: usize| SimgridFlow { bytes: 1e12, links: vec![link, 2] };
        let constants = Constants { gamma_bytes: 0.0, ..CM02 };
        let given = rates(constants, &[near, far, shared], &[flow(0), flow(1)]);
        assert!((given[0] / given[1] - 4.0).abs() < 1e-9, "{given:?}");
        assert!((given[0] + given[1] - 1e9).abs() < 1.0);
    }

    #[test]
    fn the_default_variant_adds_latency_and_takes_three_percent() {
        let links = [SimgridLink { bandwidth_bytes_s: 1.25e8, latency_s: 0.010 }];
        let flow = SimgridFlow { bytes: 1.25e9, links: vec![0] };
        let constants = Constants { gamma_bytes: 0.0, ..LV08 };
        assert!((time_alone_s(constants, &links, &flow) - (0.1301 + 10.0 / 0.97)).abs() < 1e-9);
    }
}
