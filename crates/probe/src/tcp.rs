//! TCP tests: streams in either direction, both ends counted, with what limits them.
//!
//! The near end is where the command runs. It dials all streams, whichever way data goes, and asks the far end to run its
//! half; both halves are the same code ([`half`]).

pub(crate) mod course;
mod expect;
mod order;
pub mod scan;
pub(crate) mod stream;

use std::net::TcpStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use model::fault::Blame;
use model::v1::probe::Failure;
use model::v1::probe::tcp::{Directions, End, Interval, Line, Order, Report};
use socket2::SockRef;

pub use expect::directions;
pub use order::check;
pub use stream::Flow;

use crate::error::{Error, Result};
use crate::host::Watch;
use crate::stop::Stop;
use course::Course;
use stream::{Look, Manner, Team};

/// How often the streams are looked at.
const STEP: Duration = Duration::from_millis(20);
/// How long streams may stand still before the test is given up.
const STILL: Duration = Duration::from_secs(15);
/// How long the far end waits for all streams.
const GATHER: Duration = Duration::from_secs(20);
/// What may wait unsent in a socket: a test that has ended is not waited for while megabytes of it drain.
const UNSENT_BYTES: u32 = 4 << 20;

/// The longest that streams work where nothing else bounds them.
pub(crate) const LASTS_MAX: Duration = Duration::from_secs(86_400);

/// What an end allows a test, whatever its order says.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// No stream works longer.
    pub lasts: Duration,
    /// Hears of bytes as they move, and of the last ones however it ends; `false` ends it.
    pub moved: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Bounds<'_> {
    /// Of who asks for a test.
    pub const OWN: Bounds<'static> = Bounds { lasts: LASTS_MAX, moved: &|_| true };
}

/// The other end of a test, as its near end sees it.
pub trait Peer {
    /// Dials the streams with these numbers, with the settings that a socket must have before it is connected.
    fn dial(&mut self, ids: &[u32], order: &Order) -> Result<Vec<(u32, TcpStream)>>;
    /// Has the far end run its half, and hands on what it says until it is over.
    fn ask(&mut self, order: &Order, hear: &mut dyn FnMut(Line)) -> Result<()>;
    /// What messages call it.
    fn name(&self) -> &str;
}

/// A stream's part in a test: its number, whether data goes up, and how much, at most.
fn parts(order: &Order) -> Vec<(u32, bool, u64)> {
    let ways: &[bool] = match order.direction {
        Directions::Forward => &[true],
        Directions::Reverse => &[false],
        Directions::Both => &[true, false],
    };
    let share = |at: u32| match order.bytes {
        0 => u64::MAX,
        bytes => bytes / u64::from(order.streams) + u64::from(u64::from(at) < bytes % u64::from(order.streams)),
    };
    let way = |(at, up): (usize, &bool)| {
        let (up, first) = (*up, at as u32 * order.streams);
        (0..order.streams).map(move |at| (first + at + 1, up, share(at)))
    };
    ways.iter().enumerate().flat_map(way).collect()
}

/// The streams of one end of a test.
fn flows(order: &Order, sockets: Vec<(u32, TcpStream)>, near: bool) -> Vec<Flow> {
    let parts = parts(order);
    let flow = |(id, socket)| {
        let (_, up, quota) = parts.iter().find(|part| part.0 == id).copied()?;
        Some(Flow { id, up, sends: up == near, socket, quota })
    };
    sockets.into_iter().filter_map(flow).collect()
}

/// Gives connected streams the settings of the order; what the host does not take is said.
pub(crate) fn settle(flows: &[Flow], order: &Order, remarks: &mut Vec<String>) {
    let mut remark = |text: String| {
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    };
    for flow in flows {
        let socket = SockRef::from(&flow.socket);
        let _ = socket.set_tcp_nodelay(true);
        let _ = sys::tcp::set_unsent_limit(&flow.socket, UNSENT_BYTES);
        if order.dscp > 0 {
            let class = u32::from(order.dscp) << 2;
            // An IPv6 socket of a node may carry IPv4.
            let set = match flow.socket.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_ipv4()) {
                true => socket.set_tos_v4(class),
                false => socket.set_tclass_v6(class),
            };
            if let Err(error) = set {
                remark(format!("DSCP {} was not taken: {error}", order.dscp));
            }
        }
        if order.window_bytes > 0 {
            let bytes = usize::try_from(order.window_bytes).unwrap_or(usize::MAX);
            let _ = socket.set_recv_buffer_size(bytes).and_then(|()| socket.set_send_buffer_size(bytes));
            // The kernel doubles what it grants, for its own structures (socket(7)).
            let sizes = [(socket.send_buffer_size(), "wmem_max"), (socket.recv_buffer_size(), "rmem_max")];
            for (got, setting) in sizes.map(|(got, setting)| (got.unwrap_or(0) / 2, setting)) {
                if got < bytes {
                    remark(format!(
                        "buffers of {bytes} bytes were asked for, and {got} given: raise net.core.{setting}"
                    ));
                }
            }
        }
        if let Some(name) = order.congestion.as_ref().filter(|_| flow.sends)
            && let Err(error) = sys::tcp::set_congestion(&flow.socket, name)
        {
            remark(format!("congestion control {name} was not taken ({error}): the host's own is in force"));
        }
        if order.pace_bit_s > 0 && flow.sends {
            let each = (order.pace_bit_s / 8 / u64::from(order.streams)).max(1);
            if let Err(error) = sys::tcp::set_pacing(&flow.socket, each) {
                remark(format!("pacing was not taken: {error}"));
            }
        }
    }
}

/// Runs one end of a test over its streams; `note` hears of each interval, and ends the test by `false`.
///
/// # Errors
/// A stream that breaks, streams that stand still for 15 s, [`Error::Interrupted`] where `stop`, `bounds` or `note` say so.
pub fn half(
    flows: Vec<Flow>,
    order: &Order,
    (cores, bounds): (&[u32], Bounds<'_>),
    stop: &Stop,
    note: &mut dyn FnMut(&Interval) -> bool,
) -> Result<End> {
    let peer = flows.first().and_then(|flow| flow.socket.peer_addr().ok());
    let peer = peer.map_or_else(|| "the other end".to_owned(), |address| address.to_string());
    let (watch, mut remarks) = (Watch::begin(), Vec::new());
    settle(&flows, order, &mut remarks);
    let seconds = |span: f64| Duration::from_secs_f64(span);
    let mut course = Course::new(seconds(order.interval_s), seconds(order.omit_s));
    let team = Team::start(
        flows,
        Manner { block_bytes: order.block_bytes as usize, cores, lasts: bounds.lasts, shuts: true },
    )?;
    let mut counted = 0;
    let mut moved = |sum: u64| {
        let more = sum.saturating_sub(counted);
        counted += more;
        (bounds.moved)(more)
    };
    let result = follow(&team, order, &mut course, stop, (note, &mut moved), &peer);
    if result.is_err() {
        team.abandon();
    }
    let ended = team.finish();
    moved(ended.iter().map(|ended| ended.look.bytes).sum());
    let host = watch.read();
    result?;
    if let Some(source) = ended.iter().find_map(|ended| ended.error.as_ref()) {
        return Err(Error::Broken { peer, source: std::io::Error::new(source.kind(), source.to_string()) });
    }
    Ok(End { totals: ended.iter().map(|ended| course.total(ended)).collect(), host, remarks })
}

/// Hears of an interval; `false` ends the test.
type Note<'a> = &'a mut dyn FnMut(&Interval) -> bool;
/// Hears of the bytes of all streams so far; `false` ends the test.
type Moves<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Looks at the streams until all have come to their end.
fn follow(
    team: &Team,
    order: &Order,
    course: &mut Course,
    stop: &Stop,
    (note, moves): (Note<'_>, Moves<'_>),
    peer: &str,
) -> Result<()> {
    let end = (order.seconds > 0.0).then(|| Duration::from_secs_f64(order.seconds + order.omit_s));
    let (mut moved, mut bytes) = (Instant::now(), 0);
    loop {
        let now = team.started().elapsed();
        if end.is_some_and(|end| now >= end) {
            team.hush();
        }
        let over = team.is_over();
        let looks = team.look();
        if stop.is_stopped() || !moves(looks.iter().map(|look| look.bytes).sum()) {
            return Err(Error::Interrupted);
        }
        let sum: u64 = looks.iter().map(progress).sum();
        if sum != bytes {
            (moved, bytes) = (Instant::now(), sum);
        } else if moved.elapsed() > STILL {
            return Err(Error::Silent { peer: peer.to_owned(), seconds: STILL.as_secs() });
        }
        // The last piece of an interval is one where it is long enough to mean something.
        let interval = match over {
            true => (course.since_last(now) > STEP * 5).then(|| course.close(now, looks)),
            false => course.saw(now, looks),
        };
        if interval.is_some_and(|interval| !note(&interval)) {
            return Err(Error::Interrupted);
        }
        if over {
            return Ok(());
        }
        let until = course.due().saturating_sub(team.started().elapsed()).min(STEP);
        std::thread::sleep(until.max(Duration::from_millis(1)));
    }
}

/// What shows that a stream lives: bytes of its own, or those that the other end has confirmed.
fn progress(look: &Look) -> u64 {
    look.bytes + look.tcp.bytes_acked
}

/// Where the far end's streams come from: the next one with its number, within so long.
pub type Next<'a> = &'a mut dyn FnMut(Duration) -> std::result::Result<(TcpStream, u32), RecvTimeoutError>;

/// The far end's part: gathers the streams, runs its half, and says how it goes.
///
/// # Errors
/// As [`half`]; streams that do not come. The near end has been told.
pub fn answer(
    order: &Order,
    next: Next<'_>,
    (stop, bounds): (&Stop, Bounds<'_>),
    tell: &mut dyn FnMut(&Line) -> bool,
) -> Result<()> {
    let result = gather(order, next, stop).and_then(|sockets| {
        if !tell(&Line::Ready) {
            return Err(Error::Interrupted);
        }
        let mut note = |interval: &Interval| tell(&Line::Interval(interval.clone()));
        half(flows(order, sockets, false), order, (&order.far_cores, bounds), stop, &mut note)
    });
    match result {
        Ok(end) => {
            tell(&Line::End(Box::new(end)));
            Ok(())
        }
        Err(error) => {
            tell(&Line::Failed(Failure { fault: error.fault(), why: error.to_string() }));
            Err(error)
        }
    }
}

fn gather(order: &Order, next: Next<'_>, stop: &Stop) -> Result<Vec<(u32, TcpStream)>> {
    check(order)?;
    let (mut missing, mut sockets) = (parts(order), Vec::new());
    let deadline = Instant::now() + GATHER;
    while !missing.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match next(left.min(Duration::from_millis(200))) {
            Ok((socket, id)) => {
                let wanted = missing.len();
                missing.retain(|part| part.0 != id);
                // Any other is one of an earlier test that comes late.
                if missing.len() < wanted {
                    sockets.push((id, socket));
                }
            }
            Err(RecvTimeoutError::Timeout) if left.is_zero() || stop.is_stopped() => {
                return Err(Error::Silent { peer: "the near end".into(), seconds: GATHER.as_secs() });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
        }
    }
    Ok(sockets)
}

/// What the far end has said.
#[derive(Default)]
struct Heard {
    intervals: Vec<Interval>,
    end: Option<End>,
    failed: Option<Failure>,
}

/// Runs a test from its near end; `note` hears of the near end's intervals while it runs.
///
/// # Errors
/// An order that cannot be carried out, a far end that refuses, streams that break.
pub fn test(
    order: &Order,
    peer: &mut dyn Peer,
    stop: &Stop,
    note: &mut (dyn FnMut(&Interval) + Send),
) -> Result<Report> {
    check(order)?;
    let ids: Vec<u32> = parts(order).iter().map(|part| part.0).collect();
    let flows = flows(order, peer.dial(&ids, order)?, true);
    let mut intervals = Vec::new();
    let mut heard = Heard::default();
    let (begin, begins) = channel();
    let (near, asked) = std::thread::scope(|scope| {
        let kept = &mut intervals;
        let near = scope.spawn(move || {
            // The far end that refuses never says that it is ready.
            if begins.recv().is_err() {
                return Err(Error::Interrupted);
            }
            let mut keep = |interval: &Interval| {
                note(interval);
                kept.push(interval.clone());
                true
            };
            half(flows, order, (&order.near_cores, Bounds::OWN), stop, &mut keep)
        });
        let asked = peer.ask(order, &mut |line| match line {
            Line::Ready => drop(begin.send(())),
            Line::Interval(interval) => heard.intervals.push(interval),
            Line::End(end) => heard.end = Some(*end),
            Line::Failed(why) => heard.failed = Some(why),
        });
        drop(begin);
        (near.join().unwrap_or(Err(Error::Interrupted)), asked)
    });
    if stop.is_stopped() {
        return Err(Error::Interrupted);
    }
    asked?;
    if let Some(Failure { fault, why }) = heard.failed {
        // Where both ends fail, ours knows more of why; that it never began is no reason, nor is that the other end hung up.
        let far = Error::Far { peer: peer.name().to_owned(), fault, why };
        return Err(near
            .err()
            .filter(|error| !matches!(error, Error::Interrupted | Error::Broken { .. }))
            .unwrap_or(far));
    }
    let near = near?;
    let silent = || Error::Silent { peer: peer.name().to_owned(), seconds: STILL.as_secs() };
    let far = heard.end.ok_or_else(silent)?;
    let directions = directions(order, &near, &far);
    Ok(Report { order: order.clone(), directions, intervals, far_intervals: heard.intervals, near, far })
}

#[cfg(test)]
mod tests;
