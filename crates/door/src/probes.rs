//! Tests that guests run with this node: within bounds, the far half on the thread that answers the question.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::node::{Asker, Said};
use model::fault::Fault;
use model::units::{BitRate, Bytes};
use model::v1::probe::tcp::{Line, Order};
use model::v1::probe::udp::{UdpOrder, UdpPace};
use model::v1::probe::{Ask, DiskLine, FlowLine, Flows, Limits, Task, Test, disk};
use probe::Stop;
use probe::disk::Ground;
use wire::frame::Refusal;

/// Within which bounds tests run here. A grant lifts the last one.
const LIMITS: Limits = Limits {
    seconds: 3_600.0,
    tests: 32,
    bytes_a_day: 10_000_000_000_000,
    bytes_left: 10_000_000_000_000,
    anonymous_udp_bit_s: 1_000_000_000,
};
const DAY: Duration = Duration::from_secs(86_400);
/// Addresses whose volume is remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Tests that run, by who asked; what they moved, by address; and those that wait for datagrams.
#[derive(Default)]
pub(crate) struct Probes {
    running: Mutex<HashMap<String, u32>>,
    moved: Mutex<HashMap<IpAddr, (Instant, u64)>>,
    /// The node's UDP port gives datagrams to these.
    pub flows: probe::flow::Flows,
    /// The node stops.
    pub stop: Stop,
}

/// A running test's place.
struct Seat<'a>(&'a Probes, String);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut running = lock(&self.0.running);
        if let Some(count) = running.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.1);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_much(why: String) -> Refusal {
    Refusal::new(Fault::Auth, why)
}

fn senseless(error: &probe::Error) -> Refusal {
    Refusal::new(Fault::Config, error.to_string())
}

/// A test in the words of the access log.
pub(crate) fn describe(ask: &str) -> String {
    match serde_json::from_str::<Ask>(ask).map(|ask| ask.test) {
        Ok(Test::Tcp(order)) => format!("probe tcp {:?}, {} streams", order.direction, order.streams),
        Ok(Test::Flows(flows)) => format!("probe {}, {} flows", task(&flows.task), flows.flows),
        Ok(Test::Disk(ask)) => format!("probe disk {}", ask.place),
        Ok(Test::Limits) => "probe limits".into(),
        Err(_) => "probe of an unknown kind".into(),
    }
}

fn task(task: &Task) -> &'static str {
    match task {
        Task::Reflect { .. } => "latency",
        Task::Receive { .. } => "udp up",
        Task::Send { .. } => "udp down",
        Task::Answer { .. } => "udp request",
        Task::Echo { .. } => "path up",
        Task::Explore(_) => "path down",
    }
}

/// The directory of a disk test, open, for who asks.
pub(crate) type Directory<'a> = &'a dyn Fn(&str) -> Result<Ground, Refusal>;

impl Probes {
    fn seat(&self, holder: &str) -> Result<Seat<'_>, Refusal> {
        let mut running = lock(&self.running);
        let count = running.entry(holder.to_owned()).or_default();
        if *count >= LIMITS.tests {
            let why = format!("{} tests of yours run here already; this node has no more at once for one guest", LIMITS.tests);
            return Err(too_much(why));
        }
        *count += 1;
        Ok(Seat(self, holder.to_owned()))
    }

    /// What the tests of an address may still move today.
    fn left(&self, address: IpAddr) -> u64 {
        let mut moved = lock(&self.moved);
        moved.retain(|_, (since, _)| since.elapsed() < DAY);
        let moved = moved.get(&address.to_canonical()).map_or(0, |(_, bytes)| *bytes);
        LIMITS.bytes_a_day.saturating_sub(moved)
    }

    fn count(&self, address: IpAddr, bytes: u64) {
        let mut moved = lock(&self.moved);
        if moved.len() < ADDRESSES_MAX || moved.contains_key(&address.to_canonical()) {
            moved.entry(address.to_canonical()).or_insert((Instant::now(), 0)).1 += bytes;
        }
    }

    /// Runs the far half of a test.
    pub fn answer(
        &self,
        asker: Asker<'_>,
        ask: &str,
        directory: Directory<'_>,
        emit: &mut dyn FnMut(Said) -> bool,
    ) -> Result<(), Refusal> {
        let unknown = |e: serde_json::Error| Refusal::new(Fault::Config, format!("this node does not know that test: {e}"));
        let ask: Ask = serde_json::from_str(ask).map_err(unknown)?;
        let peer = asker.peer.ip();
        let left = self.left(peer);
        if matches!(ask.test, Test::Limits) {
            let limits = Limits { bytes_left: left, ..LIMITS };
            emit(Said::Text(serde_json::to_string(&limits).unwrap_or_default()));
            return Ok(());
        }
        if left == 0 {
            let a_day = Bytes(LIMITS.bytes_a_day);
            return Err(too_much(format!("the tests of {peer} have moved {a_day} within a day; this node allows no more")));
        }
        let _seat = self.seat(asker.access.holder())?;
        match &ask.test {
            Test::Tcp(order) => self.tcp(asker, order, ask.first_stream, emit),
            Test::Flows(flows) => self.flows(&asker, flows, emit),
            Test::Disk(disk) => self.disk(&directory(&disk.place)?, &disk.order, emit),
            Test::Limits => Ok(()),
        }
    }

    fn tcp(&self, asker: Asker<'_>, order: &Order, first: u32, emit: &mut dyn FnMut(Said) -> bool) -> Result<(), Refusal> {
        within(order.seconds + order.omit_s)?;
        probe::tcp::check(order).map_err(|error| senseless(&error))?;
        let peer = asker.peer.ip();
        let mut tell = |line: &Line| {
            if let Line::Interval(interval) = line {
                self.count(peer, interval.flows.iter().map(|flow| flow.bytes).sum());
            }
            serde_json::to_string(line).is_ok_and(|text| emit(Said::Text(text)))
        };
        // Streams are numbered from the session's beginning, those of a test from 1; 0 is none of a test.
        let number = |number: u32| number.checked_sub(first).map_or(0, |at| at + 1);
        let mut next = |wait| asker.joined.recv_timeout(wait).map(|(socket, id)| (socket, number(id)));
        // What failed has been told as a line: the session goes on.
        let _ = probe::tcp::answer(order, &mut next, &self.stop, &mut tell);
        Ok(())
    }

    fn flows(&self, asker: &Asker<'_>, flows: &Flows, emit: &mut dyn FnMut(Said) -> bool) -> Result<(), Refusal> {
        within(probe::task::longest(flows).map_err(|error| senseless(&error))?.as_secs_f64())?;
        if asker.access.grant().is_none() {
            modest(&flows.task)?;
        }
        let Some(local) = asker.local else {
            return Err(Refusal::new(Fault::Local, "this node does not know at which of its addresses you are"));
        };
        let peer = asker.peer.ip();
        let mut tell = |line: &FlowLine| {
            if let FlowLine::Done(done) = line {
                let sent = done.sent.as_ref().map_or(0, |sent| sent.bytes);
                self.count(peer, sent + done.received.as_ref().map_or(0, |received| received.bytes));
            }
            serde_json::to_string(line).is_ok_and(|text| emit(Said::Text(text)))
        };
        // What failed has been told as a line.
        let _ = probe::task::answer(&self.flows, flows, (peer, local), &self.stop, &mut tell);
        Ok(())
    }

    fn disk(&self, ground: &Ground, order: &disk::Order, emit: &mut dyn FnMut(Said) -> bool) -> Result<(), Refusal> {
        probe::disk::check(order).map_err(|error| senseless(&error))?;
        within(probe::disk::longest(order).as_secs_f64())?;
        let mut say = |line: &DiskLine| serde_json::to_string(line).is_ok_and(|text| emit(Said::Text(text)));
        let line = match probe::disk::answer(ground, order, &self.stop, &mut say) {
            Ok(report) => DiskLine::Done(Box::new(report)),
            Err(error) => DiskLine::Failed(Refusal::from_error(&error).reason),
        };
        say(&line);
        Ok(())
    }
}

fn within(seconds: f64) -> Result<(), Refusal> {
    match seconds <= LIMITS.seconds {
        true => Ok(()),
        false => Err(too_much(format!("{seconds} s; tests with this node last {} s at most", LIMITS.seconds))),
    }
}

/// Whether datagrams are slow enough for guests without a key.
fn modest(task: &Task) -> Result<(), Refusal> {
    let (Task::Receive { order, .. } | Task::Send { order, .. }) = task else { return Ok(()) };
    match rate(order) <= LIMITS.anonymous_udp_bit_s as f64 {
        true => Ok(()),
        false => {
            let bound = BitRate(LIMITS.anonymous_udp_bit_s);
            Err(too_much(format!("guests without a key may send datagrams at up to {bound}: lower the rate, or get a key")))
        }
    }
}

/// Payload per second of a run, at most.
fn rate(order: &UdpOrder) -> f64 {
    let bits = f64::from(order.bytes) * 8.0;
    match order.pace {
        UdpPace::Spacing { spacing_s } => bits / spacing_s,
        UdpPace::Rate { rate_bit_s } => rate_bit_s as f64,
        UdpPace::Bursts { length, spacing_s, gap_s } => bits * f64::from(length) / (f64::from(length) * spacing_s + gap_s),
        UdpPace::Max => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_guest_has_so_many_tests_and_so_much_volume() {
        let probes = Probes::default();
        let seats: Vec<_> = (0..LIMITS.tests).map(|_| probes.seat("somebody").unwrap()).collect();
        assert!(probes.seat("somebody").is_err_and(|refusal| refusal.reason.contains("32 tests")));
        assert!(probes.seat("somebody else").is_ok());
        drop(seats);
        assert!(probes.seat("somebody").is_ok());
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        probes.count(one, LIMITS.bytes_a_day - 1);
        probes.count("::ffff:192.0.2.1".parse().unwrap(), 5);
        assert_eq!((probes.left(one), probes.left(other)), (0, LIMITS.bytes_a_day));
    }

    #[test]
    fn guests_without_a_key_send_slowly() {
        let send = |pace| Task::Send { run: 0, order: UdpOrder { bytes: 1_250, pace, count: Some(1), seconds: None } };
        assert!(modest(&send(UdpPace::Spacing { spacing_s: 11e-6 })).is_ok());
        assert!(modest(&send(UdpPace::Spacing { spacing_s: 0.0 })).is_err());
        assert!(modest(&send(UdpPace::Rate { rate_bit_s: 1_000_000_001 })).is_err());
        assert!(modest(&send(UdpPace::Bursts { length: 100, spacing_s: 0.0, gap_s: 0.01 })).is_ok());
        assert!(modest(&send(UdpPace::Max)).is_err());
        assert!(modest(&Task::Echo { seconds: 1.0 }).is_ok());
    }
}
