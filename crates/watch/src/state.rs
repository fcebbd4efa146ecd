//! The state that the parts of a running watch share: the tests, the judge of each path, the alarms.

mod counting;
mod diagnosing;
mod exercises;
mod judging;
mod load;
mod locating;
mod measured;
mod places;
mod talkers;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use model::id::Uuid;
use model::v1::node::Measurement;
use model::v1::probe::Direction;
use model::v1::watch::{Acknowledgement, Alarm, Annotation, Cell, Grid, History, Why};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::alarms::{Alarms, Change};
use crate::archive::store::{Archive, ArchiveError, NewRow, SeriesKey};
use crate::archive::{Level, Row};
use crate::config::{Config, ConfigError, schedule_id};
use crate::counters::Interfaces;
use crate::diagnosis::Diagnosis;
use crate::directory::DirectoryKey;
use crate::judge::Finding;
use crate::judge::path::{PathJudge, PathKnowledge};
use crate::mesh::{Mesh, Test, TestKind};
use crate::observation;
use crate::outgoing::{Outgoing, OutgoingMeasurement};
use crate::records::Record;
use crate::time;
use load::{Load, WaitingReport};
pub use measured::MeasuredSitePath;
use places::knowledge;
use talkers::NodeFlows;

/// The largest number of rows of a history.
pub const HISTORY_ROWS_MAX: usize = 10_000;
/// The greatest age of an annotation that a new alarm may name, milliseconds.
const EVENTS_SPAN_MS: i64 = 12 * 3_600_000;

/// A configuration and the tests that follow from it; it is replaced as a whole.
#[derive(Debug, Default)]
pub struct WatchPlan {
    /// The configuration.
    pub config: Config,
    /// Its tests.
    pub mesh: Mesh,
    /// Tests by the ids of their schedules.
    pub by_schedule: HashMap<Uuid, usize>,
}

impl WatchPlan {
    /// Derives the tests of a configuration.
    ///
    /// # Errors
    /// It has too many tests.
    pub fn of(config: Config) -> Result<WatchPlan, ConfigError> {
        let mesh = Mesh::of(&config)?;
        let by_schedule = mesh
            .tests
            .iter()
            .enumerate()
            .map(|(at, test)| (schedule_id(&test.from, &test.to, &test.word()), at))
            .collect();
        Ok(WatchPlan { config, mesh, by_schedule })
    }

    /// The tests that a node makes, with their schedules' ids.
    pub fn tests_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (Uuid, &'a Test)> {
        let of_node = self.by_schedule.iter().map(|(id, at)| (*id, &self.mesh.tests[*at]));
        of_node.filter(move |(_, test)| test.from == node)
    }
}

/// A path with its judge and its present findings.
struct WatchedPath {
    judge: PathJudge,
    findings: Vec<Finding>,
    /// Reports that wait for results of tests that may have loaded the path meanwhile.
    waiting: VecDeque<WaitingReport>,
    /// What the tests showed that were ordered when an alarm was raised.
    diagnosis: Option<Diagnosis>,
}

/// The status of a node's collector.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// Tests that it makes for the watch.
    pub tests: usize,
    /// Tests that it does not make, and why.
    pub refused: Vec<String>,
    /// Measurements so far.
    pub measurements: u64,
    /// Measurements that were refused as implausible.
    pub disbelieved: u64,
    /// The reason of the last refusal.
    pub disbelieved_why: String,
    /// Measurements that the node dropped before they were fetched.
    pub dropped: u64,
    /// Why nothing can be fetched now.
    pub error: Option<String>,
    /// When it last answered (RFC 3339).
    pub heard: Option<String>,
}

/// A running watch.
pub struct Watch {
    /// The configuration and its tests.
    pub watched: ArcSwap<WatchPlan>,
    /// The archive of measurements.
    pub archive: Archive,
    paths: Mutex<BTreeMap<(String, String), WatchedPath>>,
    alarms: Mutex<Alarms>,
    events: Mutex<Vec<Annotation>>,
    nodes: Mutex<BTreeMap<String, NodeStatus>>,
    load: Mutex<Load>,
    talkers: Mutex<BTreeMap<String, NodeFlows>>,
    /// The key of the directory, once it is known.
    directory_key: OnceLock<DirectoryKey>,
    interfaces: Mutex<Interfaces>,
    /// Takes changes that are to be sent to recipients.
    changes: mpsc::UnboundedSender<Change>,
    /// The receivers of all measurements.
    outgoing: ArcSwap<Outgoing>,
}

impl Watch {
    /// A watch of a configuration, with the alarms that lasted when the archive was used last; changes of alarms go to the receiver.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub async fn new(
        watched: WatchPlan,
        archive: Archive,
    ) -> Result<(Watch, mpsc::UnboundedReceiver<Change>), ArchiveError> {
        let now = time::now();
        let (changes, receiver) = mpsc::unbounded_channel();
        let lasting = archive.alarms(None, crate::alarms::ALARMS_MAX as i64).await?;
        let events = archive.annotations(now - EVENTS_SPAN_MS, i64::MAX).await?;
        let alarms = Alarms::new(lasting, watched.config.judge.scale, now);
        let watch = Watch {
            watched: ArcSwap::from_pointee(WatchPlan::default()),
            archive,
            paths: Mutex::default(),
            alarms: Mutex::new(alarms),
            events: Mutex::new(events),
            nodes: Mutex::default(),
            load: Mutex::default(),
            talkers: Mutex::default(),
            directory_key: OnceLock::new(),
            interfaces: Mutex::default(),
            changes,
            outgoing: ArcSwap::default(),
        };
        watch.replace(watched);
        Ok((watch, receiver))
    }

    /// Replaces the configuration; the judges of paths that stay are kept.
    pub fn replace(&self, watched: WatchPlan) {
        let now = time::now();
        let mut wanted: BTreeMap<(String, String), PathKnowledge> = BTreeMap::new();
        for test in &watched.mesh.tests {
            let key = (test.from.clone(), test.to.clone());
            let knowledge = wanted.entry(key).or_insert_with(|| knowledge(&watched.config, &test.from, &test.to));
            let kind = TestKind::ALL.iter().position(|kind| *kind == test.kind).unwrap_or(0);
            knowledge.every[kind] = Some(test.every_s * 1e3);
        }
        let mut paths = self.paths.lock();
        paths.retain(|key, _| wanted.contains_key(key));
        for (key, knowledge) in wanted {
            match paths.get_mut(&key) {
                Some(path) => path.judge.update(knowledge),
                None => {
                    let judge = PathJudge::new(knowledge, &watched.config.judge, now);
                    paths.insert(
                        key,
                        WatchedPath { judge, findings: Vec::new(), waiting: VecDeque::new(), diagnosis: None },
                    );
                }
            }
        }
        let is_watched = |from: &str, to: &str| paths.contains_key(&(from.to_owned(), to.to_owned()));
        let ended = self.alarms.lock().end_unwatched(is_watched, now);
        drop(paths);
        self.send_changes(ended);
        let named: BTreeSet<String> = watched.config.nodes().map(|(name, _)| name.clone()).collect();
        self.nodes.lock().retain(|name, _| named.contains(name));
        self.talkers.lock().retain(|name, _| named.contains(name));
        self.interfaces.lock().retain(&watched.config.interfaces);
        self.watched.store(Arc::new(watched));
    }

    /// Sets the key that signs the directory.
    pub fn sign_with(&self, key: DirectoryKey) {
        // The key does not change while the watch runs.
        let _ = self.directory_key.set(key);
    }

    /// The key that signs the directory; none before it is set.
    pub fn directory_key(&self) -> Option<&DirectoryKey> {
        self.directory_key.get()
    }

    /// Sets the receivers of all measurements.
    pub fn set_outgoing(&self, outgoing: Outgoing) {
        self.outgoing.store(Arc::new(outgoing));
    }

    /// Stores a record of an archiver of perfSONAR. It is shown, but only tests of the watch are judged.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub async fn take_record(&self, record: Record) -> Result<(), ArchiveError> {
        let series = self.archive.series(&record.key).await?;
        let columns = record.key.columns();
        self.archive.append(&[NewRow { series, columns, row: record.row, report: None }], None).await
    }

    fn send_changes(&self, changes: Vec<Change>) {
        for change in changes {
            // The receiver is gone only when the watch ends.
            let _ = self.changes.send(change);
        }
    }

    /// Stores measurements of a node together with its cursor `next`, both or neither, and judges them.
    ///
    /// # Errors
    /// The archive cannot be written: the measurements have to be fetched again.
    pub async fn take(&self, node: &str, measurements: Vec<Measurement>, next: u64) -> Result<(), ArchiveError> {
        let watched = self.watched.load_full();
        let now = time::now();
        let mut rows = Vec::new();
        let mut accepted = Vec::new();
        for measurement in &measurements {
            let Some(test) = watched.by_schedule.get(&measurement.schedule).map(|at| &watched.mesh.tests[*at]) else {
                continue;
            };
            match observation::read(test, measurement, now as f64 / 1e3) {
                Ok(found) if test.from == node => {
                    let begin = (measurement.at_s * 1e3) as i64;
                    if let Some(row) = found.row(begin, measurement.seconds) {
                        rows.push(self.new_row(test, row, measurement).await?);
                    }
                    accepted.push((test.clone(), found, begin, measurement.seconds));
                }
                Ok(_) => self.refuse(node, "it is of another node's test".into()),
                Err(why) => self.refuse(node, why),
            }
        }
        self.archive.append(&rows, Some((node, next))).await?;
        self.update_status(node, |status| {
            status.measurements += measurements.len() as u64;
            status.heard = Some(time::show(now));
        });
        let outgoing = self.outgoing.load();
        for (test, found, at, seconds) in &accepted {
            outgoing.push(|| OutgoingMeasurement {
                test: test.clone(),
                observation: found.clone(),
                at: *at,
                seconds: *seconds,
            });
        }
        self.judge(&accepted, now);
        Ok(())
    }

    async fn new_row(&self, test: &Test, row: Row, measurement: &Measurement) -> Result<NewRow, ArchiveError> {
        let key = SeriesKey { from: test.from.clone(), to: test.to.clone(), test: test.word() };
        let report = match &measurement.found {
            model::v1::node::Found::Report(report) => Some(report.to_string()),
            _ => None,
        };
        Ok(NewRow { series: self.archive.series(&key).await?, columns: key.columns(), row, report })
    }

    fn refuse(&self, node: &str, why: String) {
        tracing::debug!(node, why, "a measurement is refused");
        self.update_status(node, |status| {
            status.disbelieved += 1;
            status.disbelieved_why = why;
        });
    }

    /// Changes the status of the collector of a node.
    pub fn update_status(&self, node: &str, change: impl FnOnce(&mut NodeStatus)) {
        let mut nodes = self.nodes.lock();
        let status = nodes.entry(node.to_owned()).or_default();
        node.clone_into(&mut status.node);
        change(status);
    }

    /// The status of all collectors.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.nodes.lock().values().cloned().collect()
    }

    /// Sets the number of an alarm that was stored.
    pub fn set_alarm_id(&self, alarm: &Alarm) {
        self.alarms.lock().set_id(alarm);
    }

    /// Alarms that last.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.alarms.lock().all()
    }

    /// Acknowledges an alarm.
    pub fn acknowledge(&self, id: i64, acknowledged: Acknowledgement) -> Option<Alarm> {
        let alarm = self.alarms.lock().acknowledge(id, acknowledged)?;
        self.send_changes(vec![Change::Changed(alarm.clone())]);
        Some(alarm)
    }

    /// Stores an annotation.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub async fn annotate(&self, annotation: Annotation) -> Result<(), ArchiveError> {
        self.archive.annotate(&annotation).await?;
        let mut events = self.events.lock();
        events.push(annotation);
        let oldest = time::show(time::now() - EVENTS_SPAN_MS);
        events.retain(|event| event.at >= oldest);
        Ok(())
    }

    /// The grid of the pairs that `sees` allows, of all tests or of one.
    pub fn grid(&self, test: Option<TestKind>, sees: &dyn Fn(&str, &str) -> bool) -> Grid {
        let now = time::now();
        let paths = self.paths.lock();
        let watched = self.watched.load();
        let mut names = BTreeSet::new();
        let mut cells = Vec::new();
        for ((from, to), path) in paths.iter().filter(|((from, to), _)| sees(from, to)) {
            names.extend([from.clone(), to.clone()]);
            for kind in TestKind::ALL.into_iter().filter(|kind| test.is_none_or(|test| test == *kind)) {
                if !watched.has(from, to, kind) {
                    continue;
                }
                let half = |direction| path.judge.half(kind, direction, &path.findings, now);
                cells.push(Cell {
                    from: from.clone(),
                    to: to.clone(),
                    test: kind.word().to_owned(),
                    forward: half(Direction::Forward),
                    reverse: half(Direction::Reverse),
                });
            }
        }
        Grid { at: time::show(now), names: names.into_iter().collect(), cells }
    }

    /// A pair in the order in which it is tested; none if it is not watched.
    pub fn pair(&self, a: &str, b: &str) -> Option<(String, String)> {
        let paths = self.paths.lock();
        [(a, b), (b, a)]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .into_iter()
            .find(|pair| paths.contains_key(pair))
    }

    /// Explains the health of a path; none if it is not watched.
    pub fn why(&self, from: &str, to: &str) -> Option<Why> {
        let now = time::now();
        let paths = self.paths.lock();
        let path = paths.get(&(from.to_owned(), to.to_owned()))?;
        let explain = |direction| path.judge.explain(direction, &path.findings, now);
        let forward = explain(Direction::Forward);
        let reverse = explain(Direction::Reverse);
        let rtt_s = path.judge.rtt_s();
        drop(paths);
        let watched = self.watched.load();
        let tests = watched.mesh.tests.iter().filter(|test| test.from == from && test.to == to);
        let tests = tests.map(|test| {
            let every = model::duration::show(std::time::Duration::from_secs_f64(test.every_s));
            format!("{} every {every}", test.word())
        });
        let places = [from, to];
        let concerns = |event: &&Annotation| event.place.is_empty() || places.contains(&event.place.as_str());
        Some(Why {
            from: from.to_owned(),
            to: to.to_owned(),
            at: time::show(now),
            rtt_s,
            forward,
            reverse,
            alarms: self.alarms.lock().of(from, to),
            tests: tests.collect(),
            annotations: self.events.lock().iter().filter(concerns).cloned().collect(),
        })
    }

    /// The rows of a series from `since` up to `until`, rolled up to at most `rows_max`.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub async fn history(
        &self,
        key: &SeriesKey,
        since: i64,
        until: i64,
        rows_max: usize,
    ) -> Result<History, ArchiveError> {
        let (level, step) = level_for(since, until, rows_max);
        let rows = self.archive.rows(key, level, since, until).await?;
        let columns = key.columns();
        let rows = match step {
            Some(step) => crate::archive::columns::roll_up(columns, &rows, step),
            None => rows,
        };
        let shown = |row: &Row| {
            let values = row.values.iter().map(|value| value.map(|value| value as f64));
            std::iter::once(Some(row.at as f64 / 1e3)).chain(values).collect()
        };
        let alarms = self.archive.alarms(Some(since), 1_000).await?;
        let concerns = |alarm: &Alarm| alarm.from == key.from && alarm.to == key.to;
        Ok(History {
            from: key.from.clone(),
            to: key.to.clone(),
            test: key.test.clone(),
            step_s: step.or(level.step()).unwrap_or(0) as f64 / 1e3,
            columns: std::iter::once("at_s")
                .chain(columns.iter().map(|column| column.name))
                .map(str::to_owned)
                .collect(),
            rows: rows.iter().map(shown).collect(),
            annotations: self.archive.annotations(since, until).await?,
            alarms: alarms.into_iter().filter(concerns).collect(),
        })
    }
}

/// The coarsest level that gives enough rows, and the step to which they are rolled up further, milliseconds. Steps divide an hour, or a day, so that a row
/// never holds measurements of two hours, or of two days: a row of nine minutes that begins before the hour would count as one of the hour before.
fn level_for(since: i64, until: i64, rows_max: usize) -> (Level, Option<i64>) {
    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    let span = (until - since).max(1);
    let least = span / rows_max.clamp(1, HISTORY_ROWS_MAX) as i64 + 1;
    if least <= MINUTE {
        return (Level::Minutes, None);
    }
    let minutes = [2, 3, 4, 5, 6, 10, 12, 15, 20, 30].map(|count| count * MINUTE);
    let hours = [1, 2, 3, 4, 6, 8, 12].map(|count| count * HOUR);
    let fits = |step: &i64| *step >= least;
    match (minutes.into_iter().find(fits), hours.into_iter().find(fits)) {
        (Some(step), _) => (Level::Minutes, Some(step)),
        (None, Some(step)) => (Level::Hours, Some(step)),
        (None, None) => (Level::Hours, Some((least + 24 * HOUR - 1) / (24 * HOUR) * 24 * HOUR)),
    }
}

impl WatchPlan {
    fn has(&self, from: &str, to: &str, kind: TestKind) -> bool {
        self.by_schedule.contains_key(&schedule_id(from, to, kind.word()))
    }
}

#[cfg(test)]
mod tests;
