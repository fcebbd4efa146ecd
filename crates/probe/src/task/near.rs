//! The near end of a task.

use std::net::{SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use model::v1::probe::host::Hosts;
use model::v1::probe::latency::Latency;
use model::v1::probe::route::{Route, RouteOrder, Routes};
use model::v1::probe::udp::{UdpOrder, UdpPoint, UdpRequestOrder, UdpRequests};
use model::v1::probe::{Failure, FlowLine, Flows, FlowsDone, Task, Token};

use crate::host::HostUsage;
use crate::udp::datagram;
use crate::{Error, Result, Stop, flow, route, stamp, udp};

/// Seconds that an end may take beyond the length of a test.
const GRACE_S: f64 = 10.0;

/// The other end of tests over flows, as the near end sees it.
pub trait Peer {
    /// The address for datagrams to the peer.
    fn address(&self) -> SocketAddr;
    /// Has the peer do its half of a task, and passes each of the peer's lines to `hear` until the task is over.
    ///
    /// # Errors
    /// The peer refuses the task, or the session to it breaks.
    fn ask(&mut self, flows: &Flows, hear: &mut dyn FnMut(FlowLine)) -> Result<()>;
    /// The peer's name in messages.
    fn name(&self) -> &str;
    /// Receives the measured use of both hosts during the last task.
    fn record_hosts(&mut self, hosts: Hosts) {
        drop(hosts);
    }
}

/// A new token for a test.
///
/// # Errors
/// [`Error::Host`]: the host gives no random numbers.
pub fn token() -> Result<Token> {
    let mut token = Token::default();
    rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Error::Host { doing: "get random numbers", source: errno.into() })?;
    Ok(token)
}

/// The near end's half, once its flows are open. Returns the result, and how many datagrams it sent; none where the far end
/// knows by itself when the task is over.
type NearWork<'a, T> = dyn FnMut(&[UdpSocket], &Token) -> Result<(T, Option<u64>)> + Send + 'a;

/// Runs one task: opens the flows, does `work` when the far end is ready, and tells the far end when `work` is over. This
/// thread reads the session meanwhile: a peer that is silent for half a minute counts as gone.
///
/// # Errors
/// The first error of the flows, of `work` and of the far end, in this order, as an earlier one causes the later ones.
pub fn run<T: Send>(
    peer: &mut dyn Peer,
    flows: u32,
    task: Task,
    stop: &Stop,
    work: &mut NearWork<'_, T>,
) -> Result<(T, FlowsDone)> {
    let to = peer.address();
    let name = peer.name().to_owned();
    let order = Flows { token: token()?, flows, task };
    let ready = AtomicBool::new(false);
    let sent = OnceLock::new();
    let (signal, signals) = channel();
    let mut done = None;
    let watch = HostUsage::begin();
    let (found, session) = std::thread::scope(|scope| {
        let near = NearHalf { to, order: &order, stop, ready: &ready, sent: &sent, signals };
        let near = scope.spawn(move || near.run(work));
        let session = peer.ask(&order, &mut |line| match line {
            FlowLine::Waiting | FlowLine::Ready => {
                ready.store(line == FlowLine::Ready, Ordering::Release);
                let _ = signal.send(());
            }
            FlowLine::Done(end) => done = Some(Ok(*end)),
            FlowLine::Failed(why) => done = Some(Err(why)),
            // The far end answers with a failure, which ends the session's wait.
            FlowLine::Progress { .. } if stop.is_stopped() => flow::close(to, &order.token, 0),
            // The far end still runs, so the datagram that ended the task was lost: it is sent again.
            FlowLine::Progress { .. } => sent.get().into_iter().for_each(|sent| flow::close(to, &order.token, *sent)),
        });
        drop(signal);
        (near.join().unwrap_or(Some(Err(Error::Interrupted))), session)
    });
    let protocol = |what: &str| Error::Protocol { peer: name.clone(), protocol: "the test", what: what.into() };
    match (found, done) {
        (Some(Err(error)), _) => Err(error),
        (_, Some(Err(Failure { fault, why }))) => Err(Error::Far { peer: name, fault, why }),
        (Some(Ok(found)), Some(Ok(done))) => {
            peer.record_hosts(Hosts { near: watch.read(), far: Some(done.host.clone()) });
            session.map(|()| (found, done))
        }
        (None, _) => Err(session.err().unwrap_or_else(|| protocol("it ended before it was ready"))),
        (Some(Ok(_)), None) => Err(session.err().unwrap_or_else(|| protocol("it ended the task without a result"))),
    }
}

/// The near end's half, in a thread beside the one that reads the session.
struct NearHalf<'a> {
    to: SocketAddr,
    order: &'a Flows,
    stop: &'a Stop,
    /// The far end has all flows.
    ready: &'a AtomicBool,
    /// The number of datagrams, once all have been sent.
    sent: &'a OnceLock<u64>,
    /// Two signals from the far end: it waits for the flows, and it has them.
    signals: Receiver<()>,
}

impl NearHalf<'_> {
    /// Does the near end's half; none where the far end ended before it was ready.
    fn run<T>(&self, work: &mut NearWork<'_, T>) -> Option<Result<T>> {
        self.signals.recv().ok()?;
        let is_ready = || self.ready.load(Ordering::Acquire);
        let opened = flow::open(self.to, &self.order.token, self.order.flows, self.stop, &is_ready);
        let done = match opened {
            Ok(sockets) => {
                self.signals.recv().ok()?;
                work(&sockets, &self.order.token)
            }
            Err(error) => Err(error),
        };
        // Ends the task at the far end also after a failure here.
        let sent = match &done {
            Ok((_, sent)) => *sent,
            Err(_) => Some(0),
        };
        if let Some(sent) = sent {
            flow::close(self.to, &self.order.token, sent);
            let _ = self.sent.set(sent);
        }
        Some(done.map(|(found, _)| found))
    }
}

fn first(sockets: &[UdpSocket]) -> Result<&UdpSocket> {
    sockets.first().ok_or_else(|| Error::Order("a test has at least one flow".into()))
}

fn udp_flow(token: &Token, run: u32) -> udp::FlowId {
    udp::FlowId { token: datagram::Token(*token), run }
}

/// Latency to a node, by its STAMP reflector.
///
/// # Errors
/// Those of [`stamp::run`] and [`run`].
pub fn latency(peer: &mut dyn Peer, order: &stamp::Order, stop: &Stop) -> Result<Latency> {
    order.check()?;
    let seconds = order.packets() as f64 / order.rate_packets_s + 5.0 * order.timeout.as_secs_f64() + GRACE_S;
    let seconds = seconds.min(udp::SECONDS_MAX);
    let mut work =
        |sockets: &[UdpSocket], _: &Token| Ok((stamp::run(first(sockets)?, order, stop, &stamp::HostClock)?, Some(0)));
    run(peer, 1, Task::Reflect { seconds }, stop, &mut work).map(|(latency, _)| latency)
}

/// Latency to another reflector of STAMP or TWAMP-Light.
///
/// # Errors
/// Those of [`stamp::run`].
pub fn latency_to_reflector(to: SocketAddr, order: &stamp::Order, stop: &Stop) -> Result<Latency> {
    let from: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket =
        UdpSocket::bind(from).map_err(|source| Error::Host { doing: "make a socket for datagrams", source })?;
    socket.connect(to).map_err(|source| Error::Connect { to: to.to_string(), source })?;
    stamp::run(&socket, order, stop, &stamp::HostClock)
}

/// One run of datagrams to the node.
///
/// # Errors
/// Those of [`udp::send`] and [`run`].
pub fn send(peer: &mut dyn Peer, order: &UdpOrder, watch: &udp::RunProgress, stop: &Stop) -> Result<UdpPoint> {
    udp::Plan::of(order)?;
    let mut work = |sockets: &[UdpSocket], token: &Token| {
        let sent = udp::send(first(sockets)?, order, udp_flow(token, 0), watch, stop)?;
        let count = sent.datagrams;
        Ok((sent, Some(count)))
    };
    let (sent, done) = run(peer, 1, Task::Receive { run: 0, order: *order }, stop, &mut work)?;
    let received = done.received.ok_or_else(|| missing_result(peer, "received"))?;
    Ok(udp::point(*order, sent, received))
}

/// One run of datagrams from the node.
///
/// # Errors
/// Those of [`udp::Receiver`] and [`run`].
pub fn receive(peer: &mut dyn Peer, order: &UdpOrder, watch: &udp::RunProgress, stop: &Stop) -> Result<UdpPoint> {
    udp::Plan::of(order)?;
    let mut work = |sockets: &[UdpSocket], token: &Token| {
        let socket = first(sockets)?;
        let receiver = udp::Receiver::prepare(socket, order, udp_flow(token, 0))?;
        flow::announce_ready(socket, token);
        // The sender's last datagrams tell how many there were; where these are lost, silence ends the run.
        let received = receiver.run(&udp::EndNotice::default(), watch, stop)?;
        Ok((received, Some(0)))
    };
    let (received, done) = run(peer, 1, Task::Send { run: 0, order: *order }, stop, &mut work)?;
    let sent = done.sent.ok_or_else(|| missing_result(peer, "sent"))?;
    Ok(udp::point(*order, sent, received))
}

/// Round trips of requests of one size with answers of several sizes.
///
/// # Errors
/// Those of [`udp::request::measure`] and [`run`].
pub fn request(peer: &mut dyn Peer, order: &UdpRequestOrder, stop: &Stop) -> Result<UdpRequests> {
    let sizes = order.answer_bytes.len() as f64;
    let seconds = (order.count as f64 * sizes * order.timeout_s + GRACE_S).min(udp::SECONDS_MAX);
    let answer_bytes_max = order.answer_bytes.iter().copied().max().unwrap_or(0);
    let task = Task::Answer { run: 0, answer_bytes_max, seconds };
    let mut work = |sockets: &[UdpSocket], token: &Token| {
        Ok((udp::request::measure(first(sockets)?, order, udp_flow(token, 0), stop)?, Some(0)))
    };
    run(peer, 1, task, stop, &mut work).map(|(requests, _)| requests)
}

/// The route to the node, and the route from the node back.
///
/// # Errors
/// Those of [`route::explore`] and [`run`].
pub fn explore(peer: &mut dyn Peer, order: &RouteOrder, stop: &Stop) -> Result<(Route, Option<Route>)> {
    let flows = u32::from(order.flows.max(1));
    let seconds = 3.0 * order.lasts_s + GRACE_S;
    let mut forward =
        |sockets: &[UdpSocket], token: &Token| Ok((route::explore(sockets, token, order, stop)?, Some(0)));
    let (to_node, _) = run(peer, flows, Task::Echo { seconds }, stop, &mut forward)?;
    let over = Stop::default();
    let lasts = Duration::from_secs_f64(seconds.min(udp::SECONDS_MAX));
    let mut answers = |sockets: &[UdpSocket], token: &Token| {
        let failed = |source| Error::Host { doing: "answer probes", source };
        let sockets = sockets.iter().map(UdpSocket::try_clone).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        let token = *token;
        let over = over.clone();
        let echo = std::thread::Builder::new().name("echo".into());
        let echo = echo.spawn(move || super::far::echo(&sockets, &token, lasts, &over)).map_err(failed)?;
        Ok((echo, None))
    };
    let explored = run(peer, flows, Task::Explore(order.clone()), stop, &mut answers);
    over.stop();
    let (echo, done) = explored?;
    // A failure of the echo thread shows as missing answers in the far end's result.
    let _ = echo.join();
    Ok((to_node, done.route))
}

/// The routes in both directions, and their differences.
///
/// # Errors
/// Those of [`explore`].
pub fn routes(peer: &mut dyn Peer, order: &RouteOrder, stop: &Stop) -> Result<Routes> {
    let (forward, reverse) = explore(peer, order, stop)?;
    let asymmetries = reverse.as_ref().map_or_else(Vec::new, |reverse| route::asymmetries(&forward, reverse));
    Ok(Routes { forward, reverse, asymmetries })
}

/// The error where the far end's result lacks the counters of what it `did` ("sent", "received").
fn missing_result(peer: &dyn Peer, did: &str) -> Error {
    let what = format!("its result lacks what it {did}");
    Error::Protocol { peer: peer.name().into(), protocol: "the test", what }
}
