//! The client's end: a test against somebody's iperf3 server.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use model::v1::probe::Direction;
use model::v1::probe::tcp::{Directions, End, Flow as Seen, Interval, Order, Report, Total};

use super::control::{Control, Cookie, PATIENCE, RESULTS_MAX, State, busy};
use super::datagrams::{self, HELLO, Pace, WELCOME};
use super::message::{Params, Results, StreamResult};
use super::stream_id;
use crate::error::{Error, Result};
use crate::host::Watch;
use crate::stop::Stop;
use crate::tcp::course::Course;
use crate::tcp::stream::{Flow, Manner, Team};
use crate::tcp::{check, directions};

/// How often streams are looked at.
const STEP: Duration = Duration::from_millis(20);

/// What a UDP test found: both ends' counts of each stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// Ours; whether it sent.
    pub near: Vec<(bool, StreamResult)>,
    /// Theirs.
    pub far: Vec<StreamResult>,
    /// How long it ran.
    pub seconds: f64,
}

/// A control connection whose test is under way.
struct Session {
    control: Control,
    cookie: Cookie,
    to: SocketAddr,
}

impl Session {
    /// Connects, and agrees on the test.
    fn begin(to: SocketAddr, params: &Params, stop: &Stop) -> Result<Session> {
        let socket = TcpStream::connect_timeout(&to, PATIENCE);
        let socket = socket.map_err(|source| Error::Connect { to: to.to_string(), source })?;
        let mut session = Session { control: Control::new(socket, stop)?, cookie: Cookie::random(), to };
        // A server that is busy closes without reading, and a reset may overtake its word.
        let greeted =
            session.control.send(session.cookie.as_bytes()).and_then(|()| session.control.awaits(State::ParamExchange));
        greeted.map_err(|error| match error {
            Error::Broken { peer, .. } => busy(&peer),
            other => other,
        })?;
        session.control.send_text(&params.encode())?;
        session.control.awaits(State::CreateStreams)?;
        Ok(session)
    }

    fn start(&mut self) -> Result<()> {
        self.control.awaits(State::TestStart)?;
        self.control.awaits(State::TestRunning)
    }

    /// Says that it is over, and exchanges results.
    fn exchange(&mut self, ours: &Results) -> Result<Results> {
        self.control.send_text(&ours.encode())?;
        let text = self.control.hear_text(RESULTS_MAX)?;
        let theirs = Results::parse(&text).map_err(|what| self.control.wrong(what))?;
        self.control.awaits(State::DisplayResults)?;
        self.control.say(State::Done)?;
        Ok(theirs)
    }

    /// Whether the server has ended the test meanwhile.
    fn check(&mut self) -> Result<()> {
        match self.control.heard()? {
            None => Ok(()),
            Some(state) => Err(self.control.unwanted(state, State::TestRunning)),
        }
    }
}

/// Each stream of a test in the order in which it is opened: its number, and whether we send.
fn roles(direction: Directions, streams: u32) -> Vec<(u32, bool)> {
    let sends = |at: u32| match direction {
        Directions::Forward => true,
        Directions::Reverse => false,
        Directions::Both => at < streams,
    };
    let count = if direction == Directions::Both { streams * 2 } else { streams };
    (0..count).map(|at| (stream_id(at), sends(at))).collect()
}

fn params(order: &Order) -> Params {
    Params {
        omit_s: order.omit_s.round() as u32,
        time_s: order.seconds.ceil() as u32,
        bytes: order.bytes,
        parallel: order.streams,
        // Stock takes no larger blocks.
        block_bytes: order.block_bytes.min(1 << 20),
        reverse: order.direction == Directions::Reverse,
        both: order.direction == Directions::Both,
        window_bytes: order.window_bytes,
        mss_bytes: order.mss_bytes,
        congestion: order.congestion.clone(),
        tos: u32::from(order.dscp) << 2,
        pacing_bit_s: order.pace_bit_s / u64::from(order.streams.max(1)),
        ..Params::default()
    }
}

/// A TCP test against a server.
///
/// # Errors
/// A server that is not there, is busy, says what it should not, or ends the test.
pub fn test(to: SocketAddr, order: &Order, stop: &Stop, note: &mut dyn FnMut(&Interval)) -> Result<Report> {
    check(order)?;
    let watch = Watch::begin();
    let params = params(order);
    let mut session = Session::begin(to, &params, stop)?;
    let mut flows = Vec::new();
    for (id, sends) in roles(order.direction, order.streams) {
        let mut socket = crate::dial(to, order)?;
        let sent = std::io::Write::write_all(&mut socket, session.cookie.as_bytes());
        sent.map_err(|source| Error::Broken { peer: to.to_string(), source })?;
        flows.push(Flow { id, up: sends, sends, socket, quota: params.quota() });
    }
    let mut remarks = Vec::new();
    crate::tcp::settle(&flows, order, &mut remarks);
    session.start()?;
    let span = Duration::from_secs_f64;
    let mut course = Course::new(span(order.interval_s), span(order.omit_s));
    let mut intervals = Vec::new();
    let manner = Manner {
        block_bytes: order.block_bytes as usize,
        cores: &order.near_cores,
        lasts: crate::tcp::LASTS_MAX,
        shuts: false,
    };
    let team = Team::start(flows, manner)?;
    let followed = follow(&mut session, &team, order, &mut course, stop, &mut |interval| {
        note(&interval);
        intervals.push(interval);
    });
    let elapsed = team.started().elapsed().as_secs_f64();
    // What the server still has on its way is taken in until it has heard that this is the end.
    let ended = followed
        .and_then(|()| session.control.say(State::TestEnd))
        .and_then(|()| session.control.awaits(State::ExchangeResults));
    team.abandon();
    let totals: Vec<Total> = team.finish().iter().map(|ended| course.total(ended)).collect();
    ended?;
    let near = End { totals, host: watch.read(), remarks };
    let theirs = session.exchange(&ours(&near, elapsed))?;
    let far = far(&near, &theirs, elapsed);
    let directions = directions(order, &near, &far);
    Ok(Report { order: order.clone(), directions, intervals, far_intervals: Vec::new(), near, far })
}

fn follow(
    session: &mut Session,
    team: &Team,
    order: &Order,
    course: &mut Course,
    stop: &Stop,
    note: &mut dyn FnMut(Interval),
) -> Result<()> {
    let end = (order.seconds > 0.0).then(|| Duration::from_secs_f64(order.seconds + order.omit_s));
    let mut moved = (Instant::now(), 0);
    loop {
        let now = team.started().elapsed();
        let looks = team.look();
        let sum: u64 = looks.iter().map(|look| look.bytes).sum();
        if sum != moved.1 {
            moved = (Instant::now(), sum);
        } else if moved.0.elapsed() > PATIENCE {
            return Err(Error::Silent { peer: session.control.peer().to_owned(), seconds: PATIENCE.as_secs() });
        }
        // Where bytes end it, the client still says so: once it has sent, or got, all of them.
        let enough =
            order.bytes > 0 && looks.iter().map(|look| look.bytes).sum::<u64>() >= order.bytes && team.has_sent();
        let over = end.is_some_and(|end| now >= end) || enough;
        if stop.is_stopped() {
            let _ = session.control.say(State::ClientTerminate);
            return Err(Error::Interrupted);
        }
        if over {
            team.hush();
            note(course.close(now, looks));
            return Ok(());
        }
        if let Some(interval) = course.saw(now, looks) {
            note(interval);
        }
        session.check()?;
        std::thread::sleep(STEP.min(course.due().saturating_sub(team.started().elapsed())));
    }
}

/// What we tell the server.
fn ours(near: &End, elapsed: f64) -> Results {
    let cpu = near.totals.iter().map(|total| total.cpu_s).sum::<f64>() / elapsed.max(1e-9) * 100.0;
    let stream = |total: &Total| StreamResult {
        id: total.flow.stream,
        bytes: total.counted_bytes,
        retransmits: total.flow.kernel.map(|kernel| kernel.retransmits),
        span_s: (0.0, total.counted_s),
        ..StreamResult::default()
    };
    Results {
        cpu_percent: (cpu, 0.0, cpu),
        has_retransmits: if near.totals.iter().any(|total| total.flow.kernel.is_some()) { 1 } else { -1 },
        congestion: near.totals.first().map(|total| total.congestion.clone()),
        streams: near.totals.iter().map(stream).collect(),
        output: None,
    }
}

/// What the server said, as an end of the test. It tells what it counted after the start that was to be left out; how
/// much that was at its end, only ours says.
pub(super) fn far(near: &End, theirs: &Results, elapsed: f64) -> End {
    let cpu_s = theirs.cpu_percent.0 / 100.0 * elapsed / theirs.streams.len().max(1) as f64;
    let total = |result: &StreamResult| {
        let ours = near.totals.iter().find(|total| total.flow.stream == result.id);
        let direction = Direction::of(ours.is_some_and(|total| total.flow.direction.is_forward()));
        let left_out = ours.map_or(0, |total| total.flow.bytes.saturating_sub(total.counted_bytes));
        let seconds = if result.span_s.1 > result.span_s.0 { result.span_s.1 - result.span_s.0 } else { elapsed };
        // Its seconds are its own word, and rates are summed.
        let rate_bit_s = (result.bytes as f64 * 8.0 / seconds.max(1e-9)).min(1e16) as u64;
        Total {
            flow: Seen {
                stream: result.id,
                direction,
                bytes: result.bytes.saturating_add(left_out),
                rate_bit_s,
                kernel: None,
            },
            counted_bytes: result.bytes,
            counted_s: seconds,
            congestion: theirs.congestion.clone().unwrap_or_default(),
            cpu_s,
        }
    };
    End { totals: theirs.streams.iter().map(total).collect(), ..End::default() }
}

/// How datagrams are to go.
#[derive(Clone, Copy, Debug)]
pub struct DatagramOrder {
    /// Streams each way.
    pub streams: u32,
    /// Which way.
    pub direction: Directions,
    /// How long.
    pub seconds: f64,
    /// Bytes of a datagram's payload.
    pub bytes: u32,
    /// Rate of each stream.
    pub rate_bit_s: u64,
}

/// A UDP test against a server.
///
/// # Errors
/// As [`test`]; a server whose answers to the first datagrams do not come.
pub fn test_datagrams(to: SocketAddr, order: &DatagramOrder, stop: &Stop) -> Result<Datagrams> {
    let params = Params {
        udp: true,
        time_s: order.seconds.ceil() as u32,
        parallel: order.streams,
        block_bytes: order.bytes,
        rate_bit_s: order.rate_bit_s,
        reverse: order.direction == Directions::Reverse,
        both: order.direction == Directions::Both,
        wide_numbers: true,
        ..Params::default()
    };
    let mut session = Session::begin(to, &params, stop)?;
    let mut streams = Vec::new();
    for (id, sends) in roles(order.direction, order.streams) {
        streams.push(datagrams::Stream { id, sends, socket: greet(session.to)? });
    }
    session.start()?;
    let bytes = (order.bytes as usize).max(datagrams::HEADER_MAX);
    let team = datagrams::Team::start(streams, Pace { bytes, rate_bit_s: order.rate_bit_s, wide: true })?;
    let end = Duration::from_secs_f64(order.seconds);
    while team.started().elapsed() < end {
        if stop.is_stopped() {
            let _ = session.control.say(State::ClientTerminate);
            return Err(Error::Interrupted);
        }
        session.check()?;
    }
    team.hush();
    // Before the server settles, which is no part of the test.
    let over = team.started().elapsed();
    session.control.say(State::TestEnd)?;
    session.control.awaits(State::ExchangeResults)?;
    let near = team.finish(over);
    let streams = near.iter().map(|(_, result)| result.clone()).collect();
    let far = session.exchange(&Results { has_retransmits: -1, streams, ..Results::default() })?.streams;
    Ok(Datagrams { near, far, seconds: over.as_secs_f64() })
}

/// Opens a UDP stream: a hello, until it is answered.
fn greet(to: SocketAddr) -> Result<UdpSocket> {
    let host = |doing| move |source| Error::Host { doing, source };
    let local: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(local).and_then(|socket| socket.connect(to).map(|()| socket));
    let socket = socket.map_err(host("make a socket for datagrams"))?;
    socket.set_read_timeout(Some(Duration::from_millis(500))).map_err(host("set up a socket"))?;
    for _ in 0..10 {
        socket.send(&HELLO).map_err(host("send a datagram"))?;
        let mut answer = [0; 64];
        // In reverse the first data may overtake the answer.
        if socket.recv(&mut answer).is_ok_and(|got| answer[..got] == WELCOME || got >= datagrams::HEADER_MAX) {
            return Ok(socket);
        }
    }
    let why = "its UDP port does not answer: is UDP let through on the same number as TCP?";
    Err(Error::Connect { to: to.to_string(), source: std::io::Error::new(std::io::ErrorKind::TimedOut, why) })
}
