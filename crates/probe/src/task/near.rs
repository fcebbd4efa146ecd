//! The end that asks.

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

use crate::host::Watch;
use crate::udp::datagram;
use crate::{Error, Result, Stop, flow, route, stamp, udp};

/// What an end allows itself beyond the length of a test.
const GRACE_S: f64 = 10.0;

/// The other end of tests over flows, as the near end sees it.
pub trait Peer {
    /// Where its datagrams go.
    fn address(&self) -> SocketAddr;
    /// Has it do its part, and hands on what it says until that is over.
    fn ask(&mut self, flows: &Flows, hear: &mut dyn FnMut(FlowLine)) -> Result<()>;
    /// What messages call it.
    fn name(&self) -> &str;
    /// Hears how both hosts did during the last task.
    fn saw(&mut self, hosts: Hosts) {
        drop(hosts);
    }
}

/// The name of a new test.
///
/// # Errors
/// The host gives no random numbers.
pub fn token() -> Result<Token> {
    let mut token = Token::default();
    rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Error::Host { doing: "get random numbers", source: errno.into() })?;
    Ok(token)
}

/// What a near end does once its flows are there: what it found, and how many datagrams it sent, or none where the far end
/// knows by itself when it is over.
type Work<'a, T> = dyn FnMut(&[UdpSocket], &Token) -> Result<(T, Option<u64>)> + Send + 'a;

/// One task: opens the flows, does `work` when the far end is ready, and tells it when that is over. The session is listened
/// to all the while: who is silent for half a minute is taken for gone.
///
/// # Errors
/// Those of the flows, of `work` and of the far end, in this order: the first one tells why the others came.
pub fn run<T: Send>(
    peer: &mut dyn Peer,
    (flows, task): (u32, Task),
    stop: &Stop,
    work: &mut Work<'_, T>,
) -> Result<(T, FlowsDone)> {
    let (to, name) = (peer.address(), peer.name().to_owned());
    let order = Flows { token: token()?, flows, task };
    let (ready, over) = (AtomicBool::new(false), OnceLock::new());
    let (say, hears) = channel();
    let mut done = None;
    let watch = Watch::begin();
    let (found, asked) = std::thread::scope(|scope| {
        let near = Near { to, order: &order, stop, ready: &ready, over: &over, hears };
        let near = scope.spawn(move || near.run(work));
        let asked = peer.ask(&order, &mut |line| match line {
            FlowLine::Waiting | FlowLine::Ready => {
                ready.store(line == FlowLine::Ready, Ordering::Release);
                let _ = say.send(());
            }
            FlowLine::Done(end) => done = Some(Ok(*end)),
            FlowLine::Failed(why) => done = Some(Err(why)),
            // The answer to it is that the far end could not go on.
            FlowLine::Progress { .. } if stop.is_stopped() => flow::close(to, &order.token, 0),
            // It has not heard yet that it is over: what it was told with was lost.
            FlowLine::Progress { .. } => over.get().into_iter().for_each(|sent| flow::close(to, &order.token, *sent)),
        });
        drop(say);
        (near.join().unwrap_or(Some(Err(Error::Interrupted))), asked)
    });
    let protocol = |what: &str| Error::Protocol { peer: name.clone(), protocol: "the test", what: what.into() };
    match (found, done) {
        (Some(Err(error)), _) => Err(error),
        (_, Some(Err(Failure { fault, why }))) => Err(Error::Far { peer: name, fault, why }),
        (Some(Ok(found)), Some(Ok(done))) => {
            peer.saw(Hosts { near: watch.read(), far: Some(done.host.clone()) });
            asked.map(|()| (found, done))
        }
        (None, _) => Err(asked.err().unwrap_or_else(|| protocol("it ended before it was ready"))),
        (Some(Ok(_)), None) => Err(asked.err().unwrap_or_else(|| protocol("it does not say what came of its part"))),
    }
}

/// The near end's own half, beside the thread that listens to the session.
struct Near<'a> {
    to: SocketAddr,
    order: &'a Flows,
    stop: &'a Stop,
    /// The far end has all flows.
    ready: &'a AtomicBool,
    /// All datagrams have been sent, so many.
    over: &'a OnceLock<u64>,
    /// It waits for them, and it has them.
    hears: Receiver<()>,
}

impl Near<'_> {
    /// None where the far end ended before it began.
    fn run<T>(&self, work: &mut Work<'_, T>) -> Option<Result<T>> {
        self.hears.recv().ok()?;
        let is_ready = || self.ready.load(Ordering::Acquire);
        let opened = flow::open(self.to, &self.order.token, self.order.flows, self.stop, &is_ready);
        let done = match opened {
            Ok(sockets) => {
                self.hears.recv().ok()?;
                work(&sockets, &self.order.token)
            }
            Err(error) => Err(error),
        };
        // The far end is told also of a failure, so that it waits for nobody.
        let sent = match &done {
            Ok((_, sent)) => *sent,
            Err(_) => Some(0),
        };
        if let Some(sent) = sent {
            flow::close(self.to, &self.order.token, sent);
            let _ = self.over.set(sent);
        }
        Some(done.map(|(found, _)| found))
    }
}

fn first(sockets: &[UdpSocket]) -> Result<&UdpSocket> {
    sockets.first().ok_or_else(|| Error::Order("a test has a flow at least".into()))
}

fn udp_flow(token: &Token, run: u32) -> udp::Flow {
    udp::Flow { token: datagram::Token(*token), run }
}

/// Latency to a node, whose STAMP reflector answers.
///
/// # Errors
/// Those of [`stamp::run`] and [`run`].
pub fn latency(peer: &mut dyn Peer, order: &stamp::Order, stop: &Stop) -> Result<Latency> {
    order.check()?;
    let seconds = order.packets() as f64 / order.rate_packets_s + 5.0 * order.timeout.as_secs_f64() + GRACE_S;
    let seconds = seconds.min(udp::SECONDS_MAX);
    let mut work =
        |sockets: &[UdpSocket], _: &Token| Ok((stamp::run(first(sockets)?, order, stop, &stamp::HostClock)?, Some(0)));
    run(peer, (1, Task::Reflect { seconds }), stop, &mut work).map(|(latency, _)| latency)
}

/// Latency to a reflector that is not a node's: STAMP, or TWAMP-Light.
///
/// # Errors
/// Those of [`stamp::run`].
pub fn reflected_by(to: SocketAddr, order: &stamp::Order, stop: &Stop) -> Result<Latency> {
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
pub fn send(peer: &mut dyn Peer, order: &UdpOrder, watch: &udp::Watch, stop: &Stop) -> Result<UdpPoint> {
    udp::Plan::of(order)?;
    let mut work = |sockets: &[UdpSocket], token: &Token| {
        let sent = udp::send(first(sockets)?, order, udp_flow(token, 0), watch, stop)?;
        let count = sent.datagrams;
        Ok((sent, Some(count)))
    };
    let (sent, done) = run(peer, (1, Task::Receive { run: 0, order: *order }), stop, &mut work)?;
    let received = done.received.ok_or_else(|| silent_about(peer, "received"))?;
    Ok(udp::point(*order, sent, received))
}

/// One run of datagrams from the node.
///
/// # Errors
/// Those of [`udp::Receiver`] and [`run`].
pub fn receive(peer: &mut dyn Peer, order: &UdpOrder, watch: &udp::Watch, stop: &Stop) -> Result<UdpPoint> {
    udp::Plan::of(order)?;
    let mut work = |sockets: &[UdpSocket], token: &Token| {
        let socket = first(sockets)?;
        let receiver = udp::Receiver::prepare(socket, order, udp_flow(token, 0))?;
        flow::go(socket, token);
        // How many there were its own datagrams tell; where they are lost, silence does.
        let received = receiver.run(&udp::Ending::default(), watch, stop)?;
        Ok((received, Some(0)))
    };
    let (received, done) = run(peer, (1, Task::Send { run: 0, order: *order }), stop, &mut work)?;
    let sent = done.sent.ok_or_else(|| silent_about(peer, "sent"))?;
    Ok(udp::point(*order, sent, received))
}

/// Questions of one size and answers of several.
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
    run(peer, (1, task), stop, &mut work).map(|(requests, _)| requests)
}

/// The way to the node, and the node's way back.
///
/// # Errors
/// Those of [`route::explore`] and [`run`].
pub fn explore(peer: &mut dyn Peer, order: &RouteOrder, stop: &Stop) -> Result<(Route, Option<Route>)> {
    let (flows, seconds) = (u32::from(order.flows.max(1)), 3.0 * order.lasts_s + GRACE_S);
    let mut forward =
        |sockets: &[UdpSocket], token: &Token| Ok((route::explore(sockets, token, order, stop)?, Some(0)));
    let (there, _) = run(peer, (flows, Task::Echo { seconds }), stop, &mut forward)?;
    let (over, lasts) = (Stop::default(), Duration::from_secs_f64(seconds.min(udp::SECONDS_MAX)));
    let mut answers = |sockets: &[UdpSocket], token: &Token| {
        let failed = |source| Error::Host { doing: "answer probes", source };
        let sockets = sockets.iter().map(UdpSocket::try_clone).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        let (token, over) = (*token, over.clone());
        let echo = std::thread::Builder::new().name("echo".into());
        let echo = echo.spawn(move || super::far::echo(&sockets, &token, lasts, &over)).map_err(failed)?;
        Ok((echo, None))
    };
    let asked = run(peer, (flows, Task::Explore(order.clone())), stop, &mut answers);
    over.stop();
    let (echo, done) = asked?;
    // Answers that could not be given are in what the far end found.
    let _ = echo.join();
    Ok((there, done.route))
}

/// Both ways, and in what they differ.
///
/// # Errors
/// Those of [`explore`].
pub fn routes(peer: &mut dyn Peer, order: &RouteOrder, stop: &Stop) -> Result<Routes> {
    let (forward, reverse) = explore(peer, order, stop)?;
    let asymmetries = reverse.as_ref().map_or_else(Vec::new, |reverse| route::asymmetries(&forward, reverse));
    Ok(Routes { forward, reverse, asymmetries })
}

fn silent_about(peer: &dyn Peer, what: &str) -> Error {
    let what = format!("it does not say what it {what}");
    Error::Protocol { peer: peer.name().into(), protocol: "the test", what }
}
