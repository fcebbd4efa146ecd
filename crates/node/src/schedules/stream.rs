//! Streams of schedules: begun when their target has an address, and begun again when the address may have changed.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use model::HostPort;
use model::id::Uuid;
use model::v1::node::Found;
use probe::stamp::stream::driver::{StreamTarget, Streams};
use probe::stamp::stream::{Event, Settings};

use super::order::{self, SchedulePlan, Target};
use super::{ScheduleRecord, Schedules, unix_seconds_f};

impl Schedules {
    /// Begins a stream on a thread of its own, because its target's name is looked up. A failure is noted in the schedule, and the
    /// stream is tried again.
    pub(super) fn begin_stream(self: &Arc<Self>, id: &Uuid, record: &Arc<ScheduleRecord>) {
        let Ok(SchedulePlan::Stream { target, settings }) = order::read(&record.schedule) else { return };
        // Not due again until the attempt has failed or the stream falls silent.
        self.set_due(id, f64::INFINITY);
        let schedules = Arc::clone(self);
        let id = *id;
        let work = move || {
            if let Err(why) = schedules.try_stream(&id, &target, settings) {
                schedules.set_error(&id, Some(why));
                schedules.set_due(&id, order::retry_s(unix_seconds_f()));
            }
        };
        if std::thread::Builder::new().name("stream-begin".into()).spawn(work).is_err() {
            self.set_due(&id, order::retry_s(unix_seconds_f()));
        }
    }

    fn set_due(&self, id: &Uuid, due_s: f64) {
        if let Some(entry) = self.table().entries.get_mut(id) {
            entry.due_s = due_s;
        }
    }

    fn try_stream(self: &Arc<Self>, id: &Uuid, target: &Target, settings: Settings) -> Result<(), String> {
        let remote = match target {
            Target::Node(at) | Target::Stamp(at) => StreamTarget::Stamp(self.resolve(at)?),
            Target::Ping(host) => StreamTarget::Ping(self.resolve(&HostPort { host: host.clone(), port: 1 })?.ip()),
            Target::Twamp(at) => {
                let session =
                    probe::twamp::begin(self.resolve(at)?, settings.test()).map_err(|error| error.to_string())?;
                StreamTarget::Twamp { socket: session.socket, control: session.control }
            }
            Target::Iperf3(_) | Target::Pscheduler(_) => return Err("its protocol has no streams".into()),
        };
        let Some(key) = self.table().entries.get(id).map(|entry| entry.key) else { return Ok(()) };
        let mut streams = self.streams.lock();
        if streams.is_none() {
            let schedules = Arc::downgrade(self);
            let on_event = Box::new(move |key, event| {
                if let Some(schedules) = schedules.upgrade() {
                    schedules.handle_event(key, event);
                }
            });
            *streams = Some(Streams::start(on_event).map_err(|error| error.to_string())?);
        }
        match &*streams {
            Some(streams) => streams.add(key, settings, remote).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// The first address of a host that the policy allows this node to test.
    ///
    /// # Errors
    /// The name has no address, or the policy allows none.
    pub(super) fn resolve(&self, at: &HostPort) -> Result<SocketAddr, String> {
        let unknown = |error: std::io::Error| format!("{at}: {error}");
        let mut denied = format!("{at} has no address");
        for address in (at.host.as_str(), at.port).to_socket_addrs().map_err(unknown)? {
            match self.services.access.may_dial(address.ip(), self.on_loopback) {
                Ok(()) => return Ok(address),
                Err(why) => denied = why,
            }
        }
        Err(denied)
    }

    /// Handles an event of a stream, on the driver's thread.
    fn handle_event(&self, key: u64, event: Event) {
        let Some(id) = self.table().streams.get(&key).copied() else { return };
        let seconds = |ns: i64| ns as f64 / 1e9;
        match event {
            Event::Report { at_ns, seconds: lasted, report } => {
                self.add_measurement(&id, seconds(at_ns), lasted, Found::Stream(*report));
            }
            Event::Silent { at_ns } => {
                self.add_measurement(&id, seconds(at_ns), 0.0, Found::Silent);
                // Begun again after two pauses unless it answers before: the target's name may have another address by then.
                self.set_due(&id, order::retry_s(order::retry_s(unix_seconds_f())));
            }
            Event::Answers { at_ns } => {
                self.add_measurement(&id, seconds(at_ns), 0.0, Found::Answers);
                self.set_due(&id, f64::INFINITY);
            }
        }
    }
}
