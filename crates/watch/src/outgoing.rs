//! What is measured goes to others as well: to a receiver of Prometheus remote-write, to archives of perfSONAR. One thread: who receives slowly delays
//! nobody but itself.

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

/// How often is sent what has come together.
const EVERY: Duration = Duration::from_secs(5);
/// Records that wait for one archive: some 50 MB.
const WAITING_MAX: usize = 50_000;
/// After a failure it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(20);

/// A measurement that was believed.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Of this test.
    pub test: Test,
    /// What it found.
    pub found: Observation,
    /// When it began, milliseconds since 1970.
    pub at: i64,
    /// How long it lasted.
    pub seconds: f64,
}

/// Hands measurements on. Those of a configuration without receivers go nowhere.
#[derive(Clone, Debug, Default)]
pub struct Outgoing(Option<Sender<Measured>>);

impl Outgoing {
    /// To the receivers of a configuration, on a thread that ends when all handles are gone.
    ///
    /// # Errors
    /// The host gives no thread.
    pub fn start(config: &Config, dialer: &Dialer) -> std::io::Result<Outgoing> {
        let remote_write = config.remote_write.as_ref().map(|url| RemoteWrite::new(url, dialer.clone()));
        let archives: Vec<RecordArchive> =
            config.post_records.iter().map(|to| RecordArchive::new(to.clone(), dialer.clone())).collect();
        if remote_write.is_none() && archives.is_empty() {
            return Ok(Outgoing(None));
        }
        let (sender, measured) = channel();
        let worker = Worker { measured, remote_write, archives };
        std::thread::Builder::new().name("watch outgoing".into()).spawn(move || worker.run())?;
        Ok(Outgoing(Some(sender)))
    }

    /// Whether two configurations have the same receivers.
    pub fn is_same(a: &Config, b: &Config) -> bool {
        a.remote_write == b.remote_write && a.post_records == b.post_records
    }

    /// One more.
    pub fn push(&self, measured: impl FnOnce() -> Measured) {
        if let Some(sender) = &self.0 {
            // The thread is gone only when it broke off: what the log says before is why.
            let _ = sender.send(measured());
        }
    }
}

struct Worker {
    measured: Receiver<Measured>,
    remote_write: Option<RemoteWrite>,
    archives: Vec<RecordArchive>,
}

impl Worker {
    fn run(mut self) {
        let mut sent = Instant::now();
        loop {
            match self.measured.recv_timeout(EVERY) {
                Ok(measured) => self.take(&measured),
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

    fn take(&mut self, measured: &Measured) {
        let Measured { test, found, at, seconds } = measured;
        if let (Some(remote_write), Some(row)) = (&mut self.remote_write, found.row(*at, *seconds)) {
            let key = SeriesKey { from: test.from.clone(), to: test.to.clone(), test: test.word() };
            remote_write.push(key, row);
        }
        if !self.archives.is_empty() {
            for record in records(test, found, *at, *seconds) {
                self.archives.iter_mut().for_each(|archive| archive.push(record.clone()));
            }
        }
    }
}

/// An archive of perfSONAR: one record in a request, as its pipeline takes them.
struct RecordArchive {
    to: PostRecords,
    dialer: Dialer,
    waiting: VecDeque<Value>,
    again: Instant,
}

impl RecordArchive {
    fn new(to: PostRecords, dialer: Dialer) -> RecordArchive {
        RecordArchive { to, dialer, waiting: VecDeque::new(), again: Instant::now() }
    }

    fn push(&mut self, record: Value) {
        self.waiting.push_back(record);
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
    }

    fn send(&mut self) {
        while self.again <= Instant::now() {
            let Some(record) = self.waiting.front() else { return };
            match web::post::document(&self.dialer, &self.to.url, &self.to.headers, record) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(why) => {
                    tracing::warn!(%why, waiting = self.waiting.len(), "an archive takes no records; it is tried again");
                    self.again = Instant::now() + AGAIN;
                }
            }
        }
    }
}
