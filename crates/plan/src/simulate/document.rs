//! The results of a simulation as a public document.
//!
//! Does not know: how documents are printed.

use hdrhistogram::Histogram;
use model::v1::plan::{PlanMoment, PlanQuantiles, PlanResource, PlanSimulation, PlanWork};

use super::{CoursePoint, Outcome, ResourceOutcome, WorkOutcome};

impl Outcome {
    /// The results as a document, for a scenario of this name.
    pub fn document(&self, scenario: &str, seed: u64, year: Option<u16>) -> PlanSimulation {
        PlanSimulation {
            v: 1,
            event: "plan_simulation".to_owned(),
            scenario: scenario.to_owned(),
            seed,
            year,
            simulated_s: self.simulated_s,
            stopped: self.stopped,
            complete: self.complete,
            events: self.events,
            work: self.work.iter().map(work).collect(),
            resources: self.resources.iter().map(resource).collect(),
            course: self.course.iter().map(moment).collect(),
            ignored: self.ignored.clone(),
        }
    }
}

fn work(work: &WorkOutcome) -> PlanWork {
    PlanWork {
        name: work.name.clone(),
        files: work.files,
        done: work.done,
        bytes: work.bytes,
        from_cache: work.from_cache,
        failed: work.failed,
        late: work.late,
        last_s: work.last_s,
        waited: quantiles(&work.waited_ms),
        took: quantiles(&work.took_ms),
    }
}

fn quantiles(histogram: &Histogram<u64>) -> PlanQuantiles {
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    PlanQuantiles { median_s: at(0.5), p95_s: at(0.95), p99_s: at(0.99), max_s: histogram.max() as f64 / 1e3 }
}

fn resource(resource: &ResourceOutcome) -> PlanResource {
    PlanResource {
        name: resource.name.clone(),
        usable_bit_s: Some(resource.usable_bit_s).filter(|rate| rate.is_finite()),
        mean_bit_s: resource.mean_bit_s,
        peak_bit_s: resource.peak_bit_s,
        bound: resource.bound,
    }
}

fn moment(moment: &CoursePoint) -> PlanMoment {
    PlanMoment {
        at_s: moment.at_s,
        rate_bit_s: moment.rate_bit_s,
        waiting: moment.waiting,
        buffered_bytes: moment.buffered_bytes,
    }
}
