//! Sends measurements to other receivers as well: to a receiver of Prometheus remote-write, and to archives of perfSONAR. A thread of its
//! own sends them, so that a slow receiver does not delay the watch.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use web::Dialer;

use crate::archive::store::SeriesKey;
use crate::config::{Config, PostRecords};
use crate::mesh::Test;
use crate::observation::Observation;
use crate::records::records;
use crate::remote_write::RemoteWrite;

/// How often collected measurements are sent.
const EVERY: Duration = Duration::from_secs(5);
/// The largest number of records that wait for one archive: some 50 MB.
const WAITING_MAX: usize = 50_000;
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(20);

/// An accepted measurement.
#[derive(Clone, Debug)]
pub struct OutgoingMeasurement {
    /// The test.
    pub test: Test,
    /// Its result.
    pub observation: Observation,
    /// When it began, milliseconds since 1970.
    pub at: i64,
    /// How long it lasted, seconds.
    pub seconds: f64,
}

/// A handle that queues measurements for the receivers; without receivers it drops them.
#[derive(Clone, Debug, Default)]
pub struct Outgoing(Option<Sender<OutgoingMeasurement>>);

impl Outgoing {
    /// Starts the thread for the receivers of a configuration. It ends when all handles are gone.
    ///
    /// # Errors
    /// The host cannot start a thread.
    pub fn start(config: &Config, dialer: &Dialer) -> std::io::Result<Outgoing> {
        let remote_write = config.remote_write.as_ref().map(|url| RemoteWrite::new(url, dialer.clone()));
        let archives: Vec<RecordArchive> =
            config.post_records.iter().map(|to| RecordArchive::new(to.clone(), dialer.clone())).collect();
        if remote_write.is_none() && archives.is_empty() {
            return Ok(Outgoing(None));
        }
        let (sender, measurements) = channel();
        let worker = Worker { measurements, remote_write, archives };
        std::thread::Builder::new().name("watch outgoing".into()).spawn(move || worker.run())?;
        Ok(Outgoing(Some(sender)))
    }

    /// Whether two configurations have the same receivers.
    pub fn is_same(a: &Config, b: &Config) -> bool {
        a.remote_write == b.remote_write && a.post_records == b.post_records
    }

    /// Queues a measurement.
    pub fn push(&self, measurement: impl FnOnce() -> OutgoingMeasurement) {
        if let Some(sender) = &self.0 {
            // The thread is gone only after a panic, which is in the log.
            let _ = sender.send(measurement());
        }
    }
}

struct Worker {
    measurements: Receiver<OutgoingMeasurement>,
    remote_write: Option<RemoteWrite>,
    archives: Vec<RecordArchive>,
}

impl Worker {
    fn run(mut self) {
        let mut sent = Instant::now();
        loop {
            match self.measurements.recv_timeout(EVERY) {
                Ok(measurement) => self.push(&measurement),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.send(),
            }
            if sent.elapsed() >= EVERY {
                sent = Instant::now();
                self.send();
            }
        }
    }

    fn send(&mut self) {
        self.remote_write.iter_mut().for_each(RemoteWrite::send);
        self.archives.iter_mut().for_each(RecordArchive::send);
    }

    fn push(&mut self, measurement: &OutgoingMeasurement) {
        let OutgoingMeasurement { test, observation, at, seconds } = measurement;
        if let (Some(remote_write), Some(row)) = (&mut self.remote_write, observation.row(*at, *seconds)) {
            let key = SeriesKey { from: test.from.clone(), to: test.to.clone(), test: test.word() };
            remote_write.push(key, row);
        }
        if !self.archives.is_empty() {
            for record in records(test, observation, *at, *seconds) {
                self.archives.iter_mut().for_each(|archive| archive.push(record.clone()));
            }
        }
    }
}

/// An archive of perfSONAR: its pipeline takes one record in each request.
struct RecordArchive {
    to: PostRecords,
    dialer: Dialer,
    waiting: VecDeque<Value>,
    retry_at: Instant,
}

impl RecordArchive {
    fn new(to: PostRecords, dialer: Dialer) -> RecordArchive {
        RecordArchive { to, dialer, waiting: VecDeque::new(), retry_at: Instant::now() }
    }

    fn push(&mut self, record: Value) {
        self.waiting.push_back(record);
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
    }

    fn send(&mut self) {
        while self.retry_at <= Instant::now() {
            let Some(record) = self.waiting.front() else { return };
            match web::post::document(&self.dialer, &self.to.url, &self.to.headers, record) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(why) => {
                    tracing::warn!(%why, waiting = self.waiting.len(), "records cannot be posted to an archive; they are posted again later");
                    self.retry_at = Instant::now() + RETRY_PAUSE;
                }
            }
        }
    }
}
