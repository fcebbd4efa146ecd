//! Results of the tests that were ordered when an alarm was raised: they are archived like results of schedules, and explain the path's findings.

use model::v1::node::{Found, Measurement, PathProbe, Probe, ProbeTest, Repeat, ScheduledTest};
use model::v1::probe::Direction;
use model::v1::probe::route::Routes;

use super::{Watch, WatchedPath};
use crate::diagnosis::Diagnosis;
use crate::judge::Finding;
use crate::mesh::{Test, TestKind};
use crate::observation;
use crate::outgoing::OutgoingMeasurement;
use crate::time;

impl Watch {
    /// Takes the result of a path's tests: stores it, and adds it to the evidence of the path's alarms.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub async fn take_diagnosis(&self, (from, to): (&str, &str), outcome: Result<Probe, String>) -> Result<(), String> {
        let now = time::now();
        let taken = match outcome {
            Ok(probe) => self.store_diagnosis((from, to), probe, now).await?,
            Err(why) => Err(why),
        };
        let diagnosis = taken.unwrap_or_else(|why| Diagnosis::failed(why, now));
        tracing::info!(from, to, ?diagnosis, "the tests that an alarm asked for have ended");
        if let Some(path) = self.paths.lock().get_mut(&(from.to_owned(), to.to_owned())) {
            path.diagnosis = Some(diagnosis);
        }
        self.alarms.lock().renew(from, to);
        self.judge_all_paths(now);
        Ok(())
    }

    /// Stores a plausible report of a path like the result of a schedule; why it is not plausible otherwise.
    async fn store_diagnosis(
        &self,
        (from, to): (&str, &str),
        probe: Probe,
        now: i64,
    ) -> Result<Result<Diagnosis, String>, String> {
        let began = |text: &Option<String>| text.as_deref().and_then(time::parse);
        let at = began(&probe.started).unwrap_or(now);
        let seconds = (began(&probe.ended).unwrap_or(now) - at).max(0) as f64 / 1e3;
        let report = probe.report.unwrap_or_default();
        let Ok(routes) = serde_json::from_value::<Routes>(report.clone()) else {
            return Ok(Err("the node sent no report of a path".into()));
        };
        let order = Repeat {
            test: ProbeTest::Path(PathProbe::default()),
            every_s: 0.0,
            offset_s: 0.0,
            slip_s: 0.0,
            waits_for_transfers: false,
        };
        let test = Test {
            from: from.to_owned(),
            to: to.to_owned(),
            kind: TestKind::Path,
            direction: Direction::Forward,
            order: ScheduledTest::Repeat(order),
            every_s: 0.0,
        };
        let found = Found::Report(report);
        let measurement = Measurement { number: 0, schedule: probe.id, at_s: at as f64 / 1e3, seconds, found };
        let observation = match observation::read(&test, &measurement, now as f64 / 1e3) {
            Ok(observation) => observation,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(row) = observation.row(at, seconds) {
            let row = self.new_row(&test, row, &measurement).await.map_err(|error| error.to_string())?;
            self.archive.append(&[row], None).await.map_err(|error| error.to_string())?;
        }
        self.outgoing.load().push(|| OutgoingMeasurement { test, observation, at, seconds });
        Ok(Ok(Diagnosis::of(&routes, at)))
    }
}

/// Explains the findings of a path by its last diagnosis, or drops a diagnosis that is of no use any more.
pub(super) fn explain_by_diagnosis(path: &mut WatchedPath, now: i64) {
    let findings: &mut [Finding] = &mut path.findings;
    match &path.diagnosis {
        Some(diagnosis) if diagnosis.is_of_use(findings, now) => {
            findings.iter_mut().for_each(|finding| diagnosis.explain(finding));
        }
        _ => path.diagnosis = None,
    }
}
