//! Measurements become what is known of paths, and what is wrong with them.

use std::collections::BTreeSet;

use model::v1::watch::AlarmKind;

use super::load::{Patience, Waiting, lasts, push};
use super::places::{site_of, whereabouts};
use super::placing::forget_losses;
use super::{Path, Watch};
use crate::config::Config;
use crate::mesh::{Test, TestKind};
use crate::observation::Observation;

impl Watch {
    pub(super) fn judge(&self, believed: &[(Test, Observation, i64, f64)], now: i64) {
        let (events, watched) = (self.events.lock().clone(), self.watched.load());
        self.note_load(believed, &watched.config);
        let mut touched = BTreeSet::new();
        let mut paths = self.paths.lock();
        for (test, observation, begin, seconds) in believed {
            let key = (test.from.clone(), test.to.clone());
            let Some(path) = paths.get_mut(&key) else { continue };
            match observation {
                Observation::Stream(_) => {
                    let one = Waiting { observation: observation.clone(), begin: *begin, seconds: *seconds };
                    if let Some(oldest) = push(&mut path.waiting, one) {
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
                self.find(key, path, &watched.config, now);
                changes.extend(self.alarms.lock().update(&key.0, &key.1, &path.findings, &events, now));
            }
        }
        drop(paths);
        self.tell(changes);
    }

    /// Remembers which sites were tested with TCP.
    fn note_load(&self, believed: &[(Test, Observation, i64, f64)], config: &Config) {
        let margin = Patience::of(config).margin;
        let mut load = self.load.lock();
        for (test, found, at, seconds) in believed {
            if !matches!(found, Observation::Throughput(_)) {
                continue;
            }
            // A run may have waited for its turn before it was a test.
            let end = at + (seconds * 1e3) as i64;
            let begin = (end - lasts(test)).max(*at);
            for name in [&test.from, &test.to] {
                load.note(site_of(config, name), begin - margin, end + margin);
            }
        }
    }

    /// Judges minutes that have waited for long enough: those alone in which neither site was tested with TCP.
    fn observe_waiting(&self, (from, to): &(String, String), path: &mut Path, config: &Config, now: i64) {
        let hold = Patience::of(config).hold;
        let sites = [from, to].map(|name| site_of(config, name));
        while let Some(one) = path.waiting.pop_front_if(|one| one.end() + hold <= now) {
            if self.load.lock().was_there(sites, one.begin, one.end()) {
                path.judge.passed_over(one.end());
            } else {
                path.judge.observe(TestKind::Latency, &one.observation, one.begin, one.seconds);
            }
        }
    }

    /// Looks at all paths: at what nobody measures any more, and where the trouble is.
    pub fn look(&self, now: i64) {
        let mut paths = self.paths.lock();
        let (events, watched) = (self.events.lock().clone(), self.watched.load());
        let mut changes = Vec::new();
        for (key, path) in paths.iter_mut() {
            self.observe_waiting(key, path, &watched.config, now);
            self.find(key, path, &watched.config, now);
            changes.extend(self.alarms.lock().update(&key.0, &key.1, &path.findings, &events, now));
        }
        let kinds: BTreeSet<AlarmKind> =
            paths.values().flat_map(|path| path.findings.iter().map(|it| it.kind)).collect();
        for (kind, location) in kinds.into_iter().filter_map(|kind| Some((kind, whereabouts(kind)?))) {
            changes.extend(self.place(kind, location, &mut paths, &watched.config));
        }
        forget_losses(&changes, &mut paths, &watched.config);
        drop(paths);
        self.tell(changes);
    }
}
