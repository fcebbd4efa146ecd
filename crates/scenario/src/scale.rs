//! A scenario as the lab brings it up: all rates and sizes of queues divided by the scale, so that one machine can carry them.
//!
//! Does not know: what one machine can carry.

use model::units::{BitRate, Bytes};

use super::read::LAB_SITES_MAX;
use super::{LinkSettings, Policer, Problem, Queue, Scenario, Word};

/// Beyond this rate a packet takes less than the lab's smallest unit of time.
const LAB_RATE_MAX: BitRate = BitRate(1_000_000_000_000);

impl Scenario {
    /// The scenario as the lab brings it up. Rates, sizes of queues and bursts are divided by the scale; delays stay.
    ///
    /// # Errors
    /// The lab cannot bring it up: it has more than 64 sites, or a rate above 1 Tbit/s after the division.
    pub fn for_lab(mut self) -> Result<Scenario, Problem> {
        if self.sites.len() > LAB_SITES_MAX {
            let what = format!("more than {LAB_SITES_MAX} sites: this scenario is for planning alone");
            return Err(Problem::new(0, what, "describe fewer sites for the lab"));
        }
        let scale = std::mem::replace(&mut self.scale, 1.0);
        for settings in self.all_settings() {
            settings.divide(scale);
            if settings.rate.is_some_and(|rate| rate > LAB_RATE_MAX) {
                return Err(Problem::new(
                    0,
                    "the lab has no rate above 1Tbit/s",
                    "write a larger scale, like scale = 1000",
                ));
            }
        }
        for word in self.events.iter_mut().flat_map(|event| &mut event.change.words) {
            word.divide(scale);
        }
        Ok(self)
    }

    fn all_settings(&mut self) -> impl Iterator<Item = &mut LinkSettings> {
        let uplinks = self.sites.iter_mut().filter_map(|site| site.uplink.as_mut());
        let members =
            self.paths.iter_mut().flat_map(|path| &mut path.directions).flat_map(|direction| &mut direction.members);
        uplinks.chain(members)
    }
}

impl LinkSettings {
    fn divide(&mut self, scale: f64) {
        let rate = |rate: &mut Option<BitRate>| *rate = rate.map(|rate| divided(rate, scale));
        rate(&mut self.rate);
        rate(&mut self.cross_traffic);
        self.queue = divided_queue(self.queue, scale);
        self.policer = self.policer.map(|policer| divided_policer(policer, scale));
    }
}

impl Word {
    fn divide(&mut self, scale: f64) {
        match self {
            Word::Rate(rate) | Word::CrossTraffic(rate) => *rate = rate.map(|rate| divided(rate, scale)),
            Word::Queue(queue) => *queue = divided_queue(*queue, scale),
            Word::Policer(policer) => *policer = policer.map(|policer| divided_policer(policer, scale)),
            _ => {}
        }
    }
}

fn divided(rate: BitRate, scale: f64) -> BitRate {
    BitRate((rate.0 as f64 / scale).round() as u64)
}

fn divided_queue(queue: Queue, scale: f64) -> Queue {
    match queue {
        Queue::Bytes(bytes) => Queue::Bytes(Bytes((bytes.0 as f64 / scale).round().max(1.0) as u64)),
        Queue::Time(_) | Queue::Bdp => queue,
    }
}

fn divided_policer(policer: Policer, scale: f64) -> Policer {
    let burst = Bytes((policer.burst.0 as f64 / scale).round().max(1.0) as u64);
    Policer { rate: divided(policer.rate, scale), burst }
}
