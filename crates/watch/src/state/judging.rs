//! Passes measurements to the judges of their paths, and findings to the alarms.

use std::collections::BTreeSet;

use model::v1::watch::AlarmKind;

use super::load::{HoldTimes, WaitingReport, length_ms, queue_report};
use super::locating::forget_losses;
use super::places::{fault_location, site_of};
use super::{Watch, WatchedPath};
use crate::config::Config;
use crate::mesh::{Test, TestKind};
use crate::observation::Observation;

impl Watch {
    /// Judges measurements, and updates the alarms of their paths.
    pub(super) fn judge(&self, accepted: &[(Test, Observation, i64, f64)], now: i64) {
        let events = self.events.lock().clone();
        let watched = self.watched.load();
        self.note_load(accepted, &watched.config);
        let mut touched = BTreeSet::new();
        let mut paths = self.paths.lock();
        for (test, observation, begin, seconds) in accepted {
            let key = (test.from.clone(), test.to.clone());
            let Some(path) = paths.get_mut(&key) else { continue };
            match observation {
                Observation::Stream(_) => {
                    let report = WaitingReport { observation: observation.clone(), begin: *begin, seconds: *seconds };
                    if let Some(oldest) = queue_report(&mut path.waiting, report) {
                        path.judge.observe(TestKind::Latency, &oldest.observation, oldest.begin, oldest.seconds);
                    }
                }
                _ => path.judge.observe(test.kind, observation, *begin, *seconds),
            }
            touched.insert(key);
        }
        let mut changes = Vec::new();
        for key in &touched {
            if let Some(path) = paths.get_mut(key) {
                self.observe_waiting(key, path, &watched.config, now);
                self.update_findings(key, path, &watched.config, now);
                changes.extend(self.alarms.lock().update(&key.0, &key.1, &path.findings, &events, now));
            }
        }
        // Most alarms end here, with a measurement of their own path.
        forget_losses(&changes, &mut paths, &watched.config);
        drop(paths);
        self.send_changes(changes);
    }

    /// Records when sites were tested with TCP.
    fn note_load(&self, accepted: &[(Test, Observation, i64, f64)], config: &Config) {
        let margin = HoldTimes::of(config).margin;
        let mut load = self.load.lock();
        for (test, found, at, seconds) in accepted {
            if !matches!(found, Observation::Throughput(_)) {
                continue;
            }
            // A measurement includes the time that a test waited for its turn.
            let end = at + (seconds * 1e3) as i64;
            let begin = (end - length_ms(test)).max(*at);
            for name in [&test.from, &test.to] {
                load.add(site_of(config, name), begin - margin, end + margin);
            }
        }
    }

    /// Judges reports that have waited long enough, if neither site was tested with TCP meanwhile.
    fn observe_waiting(&self, (from, to): &(String, String), path: &mut WatchedPath, config: &Config, now: i64) {
        let hold = HoldTimes::of(config).hold;
        let sites = [from, to].map(|name| site_of(config, name));
        while let Some(report) = path.waiting.pop_front_if(|report| report.end() + hold <= now) {
            if self.load.lock().was_loaded(sites, report.begin, report.end()) {
                path.judge.skip_report(report.end());
            } else {
                path.judge.observe(TestKind::Latency, &report.observation, report.begin, report.seconds);
            }
        }
    }

    /// Judges all paths, including those without new measurements, and locates their faults.
    pub fn judge_all_paths(&self, now: i64) {
        let mut paths = self.paths.lock();
        let events = self.events.lock().clone();
        let watched = self.watched.load();
        let mut changes = Vec::new();
        for (key, path) in paths.iter_mut() {
            self.observe_waiting(key, path, &watched.config, now);
            self.update_findings(key, path, &watched.config, now);
            changes.extend(self.alarms.lock().update(&key.0, &key.1, &path.findings, &events, now));
        }
        let kinds: BTreeSet<AlarmKind> =
            paths.values().flat_map(|path| path.findings.iter().map(|it| it.kind)).collect();
        for (kind, location) in kinds.into_iter().filter_map(|kind| Some((kind, fault_location(kind)?))) {
            changes.extend(self.locate(kind, location, &mut paths, &watched.config));
        }
        forget_losses(&changes, &mut paths, &watched.config);
        drop(paths);
        self.send_changes(changes);
    }
}
