//! Tests that clients run with this node, within bounds. The far half runs on the thread that answers the request.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use auth::Access;
use engine::node::{AnswerPart, Requester};
use model::fault::{Blame, Fault};
use model::units::{BitRate, Bytes};
use model::v1::probe::tcp::{Order, TcpSampleLine};
use model::v1::probe::udp::{UdpOrder, UdpPace};
use model::v1::probe::{DiskLine, Failure, FlowLine, Flows, Limits, Task, Test, TestRequest, disk};
use model::{Refusal, v1};
use parking_lot::Mutex;
use probe::Stop;
use probe::disk::OpenDirectory;
use probe::tcp::Bounds;

use crate::claims::TestClaims;
use crate::pscheduler::Participant;

/// Audits the host's settings: a line that names the host, then one for each finding.
pub type Audit = fn(&model::v1::tune::AuditRequest) -> Result<Vec<String>, Refusal>;

/// The bounds of tests. A grant lifts the bound on datagrams.
pub(crate) const LIMITS: Limits = Limits {
    seconds: 3_600.0,
    tests: 32,
    bytes_a_day: 10_000_000_000_000,
    bytes_left: 10_000_000_000_000,
    anonymous_udp_bit_s: 1_000_000_000,
    clock: 0,
};
/// How long a test may last beyond its order: for messages on their way, and streams that drain.
const GRACE: Duration = Duration::from_secs(15);
const DAY: Duration = Duration::from_secs(86_400);
/// Tests at once, of all clients.
const TESTS_IN_ALL: u32 = 256;
/// Networks whose volume is remembered; the oldest is forgotten first.
const NETWORKS_MAX: usize = 10_000;

/// The test service: running tests by holder, their volume by network, and the flows that wait for datagrams.
#[derive(Default)]
pub(crate) struct TestService {
    running: Mutex<HashMap<String, RunningTests>>,
    moved: Mutex<HashMap<IpAddr, (Instant, u64)>>,
    /// The flows that get datagrams of the node's UDP port.
    pub flows: probe::flow::Flows,
    /// Ends all tests when the node stops.
    pub stop: Stop,
    /// The counts of tests, for the metrics.
    pub counts: TestCounts,
    participant: Arc<Participant>,
}

/// Kinds of tests, for [`TestCounts`].
pub(crate) const KINDS: [&str; 5] = ["tcp", "flows", "disk", "audit", "iperf3"];

/// Tests that have begun, by kind, and the bytes that they moved.
#[derive(Debug, Default)]
pub(crate) struct TestCounts {
    pub begun: [AtomicU64; KINDS.len()],
    pub bytes: AtomicU64,
}

impl TestCounts {
    /// Counts a test of this kind that begins.
    pub fn count_begun(&self, kind: &str) {
        if let Some(at) = KINDS.iter().position(|known| *known == kind) {
            self.begun[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn kind(test: &Test) -> &'static str {
    match test {
        Test::Tcp(_) => "tcp",
        Test::Flows(_) => "flows",
        Test::Disk(_) => "disk",
        Test::Audit(_) => "audit",
        Test::Limits => "limits",
        Test::Claim(_) => "claim",
    }
}

/// The running tests of one holder.
#[derive(Debug, Default)]
struct RunningTests {
    tests: u32,
    /// The tests that fill a path or a disk.
    heavy: u32,
    /// Payload rate of all datagrams, bit/s.
    udp_bit_s: f64,
}

/// A permit for a running test, released when dropped.
struct TestPermit<'a> {
    service: &'a TestService,
    holder: String,
    udp_bit_s: f64,
    is_heavy: bool,
}

impl Drop for TestPermit<'_> {
    fn drop(&mut self) {
        let mut running = self.service.running.lock();
        if let Some(of_holder) = running.get_mut(&self.holder) {
            of_holder.tests -= 1;
            of_holder.heavy -= u32::from(self.is_heavy);
            of_holder.udp_bit_s -= self.udp_bit_s;
            if of_holder.tests == 0 {
                running.remove(&self.holder);
            }
        }
    }
}

impl TestPermit<'_> {
    /// Records whether the test fills a path or a disk.
    fn with_load(mut self, is_heavy: bool) -> Self {
        if let Some(of_holder) = self.service.running.lock().get_mut(&self.holder) {
            of_holder.heavy += u32::from(is_heavy);
            self.is_heavy = is_heavy;
        }
        self
    }
}

/// Whether a test fills a path or a disk, so that it disturbs the measurements of others.
fn is_heavy(test: &Test) -> bool {
    match test {
        Test::Tcp(_) | Test::Disk(_) => true,
        Test::Flows(flows) => matches!(flows.task, Task::Receive { .. } | Task::Send { .. }),
        Test::Limits | Test::Audit(_) | Test::Claim(_) => false,
    }
}

/// The network that volume is counted by: an IPv4 address, or an IPv6 /64, the size that one client has (RFC 6177).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

fn over_bound(why: String) -> Refusal {
    Refusal::new(Fault::Auth, why)
}

fn invalid(error: &probe::Error) -> Refusal {
    Refusal::new(Fault::Config, error.to_string())
}

/// The parts of the node that a test may need.
pub(crate) struct TestEnvironment<'a> {
    /// Opens the directory of a disk test for the principal.
    pub directory: &'a dyn Fn(&str) -> Result<OpenDirectory, Refusal>,
    /// The audit of the host's settings, if the node offers it.
    pub audit: Option<Audit>,
    pub claims: &'a TestClaims,
    /// Transfers under way.
    pub transfers: u64,
}

impl TestService {
    /// The test service of a node that takes part in tests of pSchedulers.
    pub fn new(participant: Arc<Participant>) -> TestService {
        TestService { participant, ..TestService::default() }
    }

    /// A permit for a test of a holder whose datagrams have this rate; `bound` is the rate that all of the holder's tests may have.
    fn permit(&self, holder: &str, udp_bit_s: f64, bound: f64) -> Result<TestPermit<'_>, Refusal> {
        let mut running = self.running.lock();
        let in_all: u32 = running.values().map(|of_holder| of_holder.tests).sum();
        let of_holder = running.entry(holder.to_owned()).or_default();
        let refused = if in_all >= TESTS_IN_ALL {
            Some(format!("{TESTS_IN_ALL} tests run here already; this node runs no more at once"))
        } else if of_holder.tests >= LIMITS.tests {
            Some(format!(
                "{} tests of yours run here already; this node runs no more at once for one client",
                LIMITS.tests
            ))
        } else if of_holder.udp_bit_s + udp_bit_s > bound {
            let bound = BitRate(LIMITS.anonymous_udp_bit_s);
            Some(format!(
                "anonymous clients may send datagrams at up to {bound} in all: lower the rate, or use an access key"
            ))
        } else {
            None
        };
        if let Some(why) = refused {
            running.retain(|_, of_holder| of_holder.tests > 0);
            return Err(over_bound(why));
        }
        of_holder.tests += 1;
        of_holder.udp_bit_s += udp_bit_s;
        Ok(TestPermit { service: self, holder: holder.to_owned(), udp_bit_s, is_heavy: false })
    }

    /// The reason why a test with a claim of `seconds` must wait: tests of clients, booked runs, or `transfers`.
    pub fn obstacle(&self, transfers: u64, seconds: f64) -> Option<String> {
        let now = crate::clock::now();
        if self.participant.is_booked(now.seconds as f64, seconds) {
            return Some("a pScheduler has booked this time".into());
        }
        let heavy: u32 = self.running.lock().values().map(|of_holder| of_holder.heavy).sum();
        match (heavy, transfers) {
            (0, 0) => None,
            (0, transfers) => Some(format!("{transfers} transfers are under way")),
            (tests, _) => Some(format!("{tests} tests of others are under way")),
        }
    }

    /// The number of running tests.
    pub fn running(&self) -> u64 {
        self.running.lock().values().map(|of_holder| u64::from(of_holder.tests)).sum()
    }

    /// Bytes that the tests of an address may still move today.
    pub fn bytes_left(&self, address: IpAddr) -> u64 {
        let mut moved = self.moved.lock();
        moved.retain(|_, (since, _)| since.elapsed() < DAY);
        let moved = moved.get(&network(address)).map_or(0, |(_, bytes)| *bytes);
        LIMITS.bytes_a_day.saturating_sub(moved)
    }

    /// Counts bytes that were moved; returns whether the address may move more.
    pub fn count(&self, address: IpAddr, bytes: u64) -> bool {
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut moved = self.moved.lock();
        let network = network(address);
        if moved.len() >= NETWORKS_MAX && !moved.contains_key(&network) {
            let first = moved.iter().min_by_key(|(_, (since, _))| *since).map(|(network, _)| *network);
            first.map(|first| moved.remove(&first));
        }
        let entry = moved.entry(network).or_insert((Instant::now(), 0));
        entry.1 = entry.1.saturating_add(bytes);
        entry.1 < LIMITS.bytes_a_day
    }

    /// Runs the far half of a test.
    ///
    /// # Errors
    /// The test is unknown or invalid, exceeds a bound, or is not offered to this principal.
    pub fn answer(
        &self,
        requester: Requester<'_>,
        ask: &str,
        environment: &TestEnvironment<'_>,
        emit: &mut dyn FnMut(AnswerPart) -> bool,
    ) -> Result<(), Refusal> {
        let unknown =
            |e: serde_json::Error| Refusal::new(Fault::Config, format!("this node does not know that test: {e}"));
        let ask: TestRequest = serde_json::from_str(ask).map_err(unknown)?;
        let peer = requester.peer.ip();
        let bytes_left = self.bytes_left(peer);
        if matches!(ask.test, Test::Limits) {
            let limits = Limits { bytes_left, clock: probe::host::clock(), ..LIMITS };
            emit(AnswerPart::Text(serde_json::to_string(&limits).unwrap_or_default()));
            return Ok(());
        }
        if let Test::Claim(claim) = &ask.test {
            let transfers = if claim.waits_for_transfers { environment.transfers } else { 0 };
            let answer = environment.claims.claim(claim, self.obstacle(transfers, claim.seconds));
            emit(AnswerPart::Text(serde_json::to_string(&answer).unwrap_or_default()));
            return Ok(());
        }
        if bytes_left == 0 {
            let a_day = Bytes(LIMITS.bytes_a_day);
            return Err(over_bound(format!(
                "the tests of {peer} have moved {a_day} within a day; this node allows no more"
            )));
        }
        // Anonymous clients have no holder: they are counted by their network.
        let is_anonymous = requester.access.is_anonymous();
        let holder = if is_anonymous { network(peer).to_string() } else { requester.access.holder().to_owned() };
        let bound = if is_anonymous { LIMITS.anonymous_udp_bit_s as f64 } else { f64::INFINITY };
        let udp_bit_s = match &ask.test {
            Test::Flows(flows) if is_anonymous => datagrams_bit_s(&flows.task),
            _ => 0.0,
        };
        let _permit = self.permit(&holder, udp_bit_s, bound)?.with_load(is_heavy(&ask.test));
        self.counts.count_begun(kind(&ask.test));
        match &ask.test {
            Test::Tcp(order) => self.tcp(requester, order, ask.first_stream, emit),
            Test::Flows(flows) => self.flows(&requester, flows, emit),
            Test::Disk(disk) => self.disk(&(environment.directory)(&disk.place)?, &disk.order, emit),
            Test::Audit(ask) => {
                let lines = audit_lines(environment.audit, requester.access, ask)?;
                // Stops if the client has gone.
                let _ = lines.into_iter().all(|line| emit(AnswerPart::Text(line)));
                Ok(())
            }
            Test::Limits | Test::Claim(_) => Ok(()),
        }
    }

    /// The audit of the host's settings as lines of JSON, for a request of the API.
    ///
    /// # Errors
    /// Too many tests run, the node offers no audit, or the principal is anonymous.
    pub fn audit(
        &self,
        audit: Option<Audit>,
        access: &Access,
        ask: &v1::tune::AuditRequest,
    ) -> Result<Vec<String>, Refusal> {
        let _permit = self.permit(access.holder(), 0.0, f64::INFINITY)?;
        audit_lines(audit, access, ask)
    }

    fn tcp(
        &self,
        requester: Requester<'_>,
        order: &Order,
        first: u32,
        emit: &mut dyn FnMut(AnswerPart) -> bool,
    ) -> Result<(), Refusal> {
        within(order.seconds + order.omit_s)?;
        probe::tcp::check(order).map_err(|error| invalid(&error))?;
        let peer = requester.peer.ip();
        let mut send =
            |line: &TcpSampleLine| serde_json::to_string(line).is_ok_and(|text| emit(AnswerPart::Text(text)));
        let moved = |bytes| self.count(peer, bytes);
        let lasts = if order.bytes > 0 { LIMITS.seconds } else { order.seconds + order.omit_s };
        let bounds = Bounds { lasts: Duration::from_secs_f64(lasts) + GRACE, moved: &moved };
        // Streams are numbered from the session's beginning, those of a test from 1; 0 is no stream of the test.
        let number = |number: u32| number.checked_sub(first).and_then(|at| at.checked_add(1)).unwrap_or(0);
        // A stream counts as one of the node's connections for as long as the test may use it.
        let mut places = Vec::new();
        let mut next = |wait| {
            let joined = requester.joined.recv_timeout(wait)?;
            places.push(joined.permit);
            Ok((joined.socket, number(joined.id)))
        };
        // A failure has been sent as a line: the session goes on.
        let _ = probe::tcp::answer(order, &mut next, &self.stop, bounds, &mut send);
        Ok(())
    }

    fn flows(
        &self,
        requester: &Requester<'_>,
        flows: &Flows,
        emit: &mut dyn FnMut(AnswerPart) -> bool,
    ) -> Result<(), Refusal> {
        within(probe::task::longest(flows).map_err(|error| invalid(&error))?.as_secs_f64())?;
        let Some(local) = requester.local else {
            return Err(Refusal::new(Fault::Local, "this node does not know the local address of your connection"));
        };
        let peer = requester.peer.ip();
        let mut send = |line: &FlowLine| serde_json::to_string(line).is_ok_and(|text| emit(AnswerPart::Text(text)));
        // A failure has been sent as a line.
        let _ = probe::task::answer(
            &self.flows,
            flows,
            peer,
            local,
            &self.stop,
            &|bytes| self.count(peer, bytes),
            &mut send,
        );
        Ok(())
    }

    fn disk(
        &self,
        directory: &OpenDirectory,
        order: &disk::Order,
        emit: &mut dyn FnMut(AnswerPart) -> bool,
    ) -> Result<(), Refusal> {
        probe::disk::check(order).map_err(|error| invalid(&error))?;
        within(probe::disk::longest(order).as_secs_f64())?;
        let mut send = |line: &DiskLine| serde_json::to_string(line).is_ok_and(|text| emit(AnswerPart::Text(text)));
        let line = match probe::disk::answer(directory, order, &self.stop, &mut send) {
            Ok(report) => DiskLine::Done(Box::new(report)),
            Err(error) => DiskLine::Failed(Failure { fault: error.fault(), why: Refusal::from_error(&error).reason }),
        };
        send(&line);
        Ok(())
    }
}

/// The audit of the host's settings, for principals with a key only: it shows the weak points of the host.
fn audit_lines(audit: Option<Audit>, access: &Access, ask: &v1::tune::AuditRequest) -> Result<Vec<String>, Refusal> {
    let refused = |why: &str| Refusal::new(Fault::Auth, why);
    let audit = audit.ok_or_else(|| {
        refused("this node does not show the audit of its settings; its operator can allow it: `serve --audit`")
    })?;
    if access.is_anonymous() {
        return Err(refused(
            "this node shows the audit of its settings only to clients with an access key: ask its operator for one",
        ));
    }
    audit(ask)
}

fn within(seconds: f64) -> Result<(), Refusal> {
    if seconds <= LIMITS.seconds {
        return Ok(());
    }
    Err(over_bound(format!("{seconds} s; tests with this node last {} s at most", LIMITS.seconds)))
}

/// Payload rate of a task's datagrams at most, bit/s.
fn datagrams_bit_s(task: &Task) -> f64 {
    match task {
        Task::Receive { order, .. } | Task::Send { order, .. } => rate(order),
        _ => 0.0,
    }
}

/// Payload rate of a run at most, bit/s.
fn rate(order: &UdpOrder) -> f64 {
    let bits = f64::from(order.bytes) * 8.0;
    match order.pace {
        UdpPace::Spacing { spacing_s } => bits / spacing_s,
        UdpPace::Rate { rate_bit_s } => rate_bit_s as f64,
        UdpPace::Bursts { length, spacing_s, gap_s } => {
            bits * f64::from(length) / (f64::from(length) * spacing_s + gap_s)
        }
        UdpPace::Max => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_volume_of_a_client_are_bounded() {
        let service = TestService::default();
        let permit = |who: &str| service.permit(who, 0.0, f64::INFINITY);
        let permits: Vec<_> = (0..LIMITS.tests).map(|_| permit("a holder").unwrap()).collect();
        assert!(permit("a holder").is_err_and(|refusal| refusal.reason.contains("32 tests")));
        assert!(permit("another holder").is_ok());
        let many = TESTS_IN_ALL / LIMITS.tests;
        let others: Vec<_> = (1..many)
            .flat_map(|n| (0..LIMITS.tests).map(move |_| n))
            .map(|n| permit(&n.to_string()).unwrap())
            .collect();
        assert!(permit("one too many").is_err_and(|refusal| refusal.reason.contains("256 tests")));
        drop((permits, others));
        assert!(permit("a holder").is_ok());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(service.count(at("192.0.2.1"), LIMITS.bytes_a_day - 1));
        assert!(!service.count(at("::ffff:192.0.2.1"), 5), "the bound is exceeded");
        let bytes_left = |text: &str| service.bytes_left(at(text));
        assert_eq!((bytes_left("192.0.2.1"), bytes_left("192.0.2.2")), (0, LIMITS.bytes_a_day));
        service.count(at("2001:db8::1"), 7);
        assert_eq!(bytes_left("2001:db8::ffff:1"), LIMITS.bytes_a_day - 7, "addresses of one network count together");
        assert_eq!(bytes_left("2001:db8:0:1::1"), LIMITS.bytes_a_day);
    }

    #[test]
    fn counted_networks_are_bounded() {
        let service = TestService::default();
        for number in 0..=NETWORKS_MAX as u32 {
            service.count(std::net::Ipv4Addr::from_bits(number).into(), 1);
        }
        assert_eq!(service.moved.lock().len(), NETWORKS_MAX);
        let last = std::net::Ipv4Addr::from_bits(NETWORKS_MAX as u32);
        assert_eq!(service.bytes_left(last.into()), LIMITS.bytes_a_day - 1);
    }

    #[test]
    fn datagrams_of_anonymous_clients_are_limited() {
        let bit_s = |pace| {
            datagrams_bit_s(&Task::Send {
                run: 0,
                order: UdpOrder { bytes: 1_250, pace, count: Some(1), seconds: None },
            })
        };
        let bound = LIMITS.anonymous_udp_bit_s as f64;
        let service = TestService::default();
        let permit = |pace| service.permit("192.0.2.1", bit_s(pace), bound);
        let first = permit(UdpPace::Spacing { spacing_s: 11e-6 });
        assert!(first.is_ok());
        assert!(permit(UdpPace::Spacing { spacing_s: 11e-6 }).is_err(), "two such tests exceed the bound");
        drop(first);
        assert!(permit(UdpPace::Spacing { spacing_s: 0.0 }).is_err());
        assert!(permit(UdpPace::Rate { rate_bit_s: 1_000_000_001 }).is_err());
        assert!(permit(UdpPace::Bursts { length: 100, spacing_s: 0.0, gap_s: 0.01 }).is_ok());
        assert!(permit(UdpPace::Max).is_err());
        assert!(permit(UdpPace::Rate { rate_bit_s: 1_000_000_000 }).is_ok(), "the rate is released");
        assert_eq!(datagrams_bit_s(&Task::Echo { seconds: 1.0 }), 0.0);
    }
}
