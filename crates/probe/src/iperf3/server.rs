//! The server's end: many tests at once, told apart by their cookies, within bounds that are stated.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::units::{BitRate, Bytes};
use socket2::SockRef;

use super::control::{Control, Cookie, PARAMS_MAX, PATIENCE, RESULTS_MAX, State};
use super::datagrams::{self, Pace, WELCOME, is_hello};
use super::message::{Params, Results, StreamResult};
use super::stream_id;
use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::tcp::stream::{Flow, Manner, Team};

/// What a server lets people do.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Seconds of a test.
    pub seconds_max: u32,
    /// Tests at once.
    pub tests_max: usize,
    /// Of one address.
    pub tests_per_address_max: usize,
    /// What a test's datagrams may come to, over all its streams, each way; 0 for no bound.
    pub datagram_bit_s_max: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { seconds_max: 3_600, tests_max: 64, tests_per_address_max: 32, datagram_bit_s_max: 0 }
    }
}

/// What a test was, for a log.
#[derive(Clone, Debug)]
pub struct Done {
    /// What was asked.
    pub params: Params,
    /// What this end counted.
    pub results: Results,
    /// How long it ran.
    pub elapsed: Duration,
}

/// A test that waits for its streams.
struct Seat {
    address: IpAddr,
    /// Connections with the number that they were accepted under, in whatever order their first bytes were read.
    streams: Sender<(u64, TcpStream)>,
    datagrams: Sender<SocketAddr>,
}

/// Tests in progress.
#[derive(Clone, Default)]
pub struct Server {
    seats: Arc<Mutex<HashMap<Cookie, Seat>>>,
    bounds: Bounds,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tests", &self.seats().len()).field("bounds", &self.bounds).finish()
    }
}

/// Frees a seat.
struct Guard<'a>(&'a Server, Cookie);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.seats().remove(&self.1);
    }
}

/// What comes to a seat.
struct Arrivals {
    streams: Receiver<(u64, TcpStream)>,
    datagrams: Receiver<SocketAddr>,
}

/// Stock's numbers for what is wrong (iperf_api.h): how long, how many, what size; parameters in general.
const WRONG_DURATION: i32 = 5;
const WRONG_STREAMS: i32 = 6;
const WRONG_PARAMS: i32 = 114;

impl Server {
    /// A server with these bounds.
    pub fn new(bounds: Bounds) -> Server {
        Server { bounds, ..Server::default() }
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<Cookie, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that begins with a cookie, the `accepted`-th of this node: a stream of a test in progress, which is
    /// handed over (`None`); or a new test, which is run to its end.
    ///
    /// # Errors
    /// A peer that vanishes, says what nobody asked for, or wants more than the bounds let it have; it has been told.
    pub fn serve(&self, mut socket: TcpStream, accepted: u64, stop: &Stop) -> Result<Option<Done>> {
        let cookie = {
            let copy = socket.try_clone().map_err(|source| Error::Host { doing: "copy a socket", source })?;
            let mut control = Control::new(copy, stop)?;
            let mut cookie = [0; super::COOKIE_BYTES];
            control.read(&mut cookie, PATIENCE)?;
            Cookie::from_bytes(cookie)
        };
        let address = peer_of(&socket)?.ip();
        {
            let seats = self.seats();
            if let Some(seat) = seats.get(&cookie) {
                if seat.address == address && seat.streams.send((accepted, socket)).is_ok() {
                    return Ok(None);
                }
                return Err(Error::Refused { peer: address.to_string(), why: "its stream is one too many".into() });
            }
        }
        let seated = self.seat(cookie, address);
        let (_guard, arrivals) = match seated {
            Ok(seated) => seated,
            Err(error) => {
                // As stock does when it is busy.
                let _ = std::io::Write::write_all(&mut socket, &[State::AccessDenied as i8 as u8]);
                return Err(error);
            }
        };
        let mut control = Control::new(socket, stop)?;
        let result = self.run(&mut control, &arrivals, stop);
        if result.is_err() {
            let _ = control.say(State::ServerTerminate);
        }
        result.map(Some)
    }

    /// A datagram that belongs to no flow yet: whether it was a test's hello. The answer comes from the test itself.
    pub fn datagram(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        if !is_hello(datagram) {
            return false;
        }
        // Only to an address that has completed a handshake: it holds a test's control connection.
        self.seats().values().any(|seat| seat.address == from.ip() && seat.datagrams.send(from).is_ok())
    }

    fn seat(&self, cookie: Cookie, address: IpAddr) -> Result<(Guard<'_>, Arrivals)> {
        let mut seats = self.seats();
        let of_address = seats.values().filter(|seat| seat.address == address).count();
        if seats.len() >= self.bounds.tests_max || of_address >= self.bounds.tests_per_address_max {
            let why = format!("{} tests at once, {} of them from one address", self.bounds.tests_max, self.bounds.tests_per_address_max);
            return Err(Error::Refused { peer: "this node".into(), why });
        }
        let ((streams, arriving), (datagrams, hellos)) = (channel(), channel());
        seats.insert(cookie, Seat { address, streams, datagrams });
        Ok((Guard(self, cookie), Arrivals { streams: arriving, datagrams: hellos }))
    }

    fn run(&self, control: &mut Control, arrivals: &Arrivals, stop: &Stop) -> Result<Done> {
        control.say(State::ParamExchange)?;
        let text = control.hear_text(PARAMS_MAX)?;
        let params = Params::parse(&text).and_then(|params| self.allowed(&params).map(|()| params));
        let params = match params {
            Ok(params) => params,
            Err(why) => {
                let number = if why.contains("second") { WRONG_DURATION } else if why.contains("parallel") { WRONG_STREAMS } else { WRONG_PARAMS };
                control.say(State::ServerError)?;
                control.send(&[number.to_be_bytes(), 0i32.to_be_bytes()].concat())?;
                return Err(control.wrong(why));
            }
        };
        control.say(State::CreateStreams)?;
        let mut running = match params.udp {
            true => Running::Datagrams(gather_datagrams(control, &params, arrivals, stop)?),
            false => Running::Streams(gather_streams(control, &params, arrivals, stop)?),
        };
        control.say(State::TestStart)?;
        control.say(State::TestRunning)?;
        let (output, mark) = self.follow(control, &params, &mut running)?;
        let elapsed = running.elapsed();
        let mut results = running.finish(&mark);
        results.output = params.wants_output.then_some(output);
        control.say(State::ExchangeResults)?;
        let theirs = control.hear_text(RESULTS_MAX)?;
        Results::parse(&theirs).map_err(|what| control.wrong(what))?;
        control.send_text(&results.encode())?;
        control.say(State::DisplayResults)?;
        // Some clients close at once.
        let _ = control.hear(PATIENCE);
        Ok(Done { params, results, elapsed })
    }

    fn allowed(&self, params: &Params) -> std::result::Result<(), String> {
        if params.time_s > self.bounds.seconds_max {
            return Err(format!("{} seconds; this node's tests last {} at most", params.time_s, self.bounds.seconds_max));
        }
        let most = self.bounds.datagram_bit_s_max;
        let asked = params.rate_bit_s.saturating_mul(params.parallel.into());
        if params.udp && most > 0 && (asked > most || params.rate_bit_s == 0) {
            return Err(format!("datagrams at {}; {} is the most here", BitRate(asked), BitRate(most)));
        }
        Ok(())
    }

    /// Until the client says that it is over; its lines for people, and what counting began with.
    fn follow(&self, control: &mut Control, params: &Params, running: &mut Running) -> Result<(String, Mark)> {
        let mut output = String::from("[ ID] Interval           Transfer     Bitrate\n");
        let bound = u64::from(self.bounds.seconds_max) + u64::from(params.omit_s) + PATIENCE.as_secs();
        let mut last = (Duration::ZERO, running.bytes());
        let mut moved = (Instant::now(), 0);
        let omit = Duration::from_secs(params.omit_s.into());
        let mut mark = omit.is_zero().then(Mark::default);
        loop {
            match control.heard()? {
                Some(State::TestEnd) => break,
                Some(state) => return Err(control.unwanted(state, State::TestEnd)),
                None => {}
            }
            let now = running.elapsed();
            if now.as_secs() >= bound {
                return Err(control.wrong(format!("a test that is not over after {bound} s")));
            }
            if mark.is_none() && now >= omit {
                mark = Some(running.mark(now));
            }
            let bytes = running.bytes();
            let sum: u64 = bytes.iter().map(|(_, bytes)| bytes).sum();
            if sum != moved.1 {
                moved = (Instant::now(), sum);
            } else if moved.0.elapsed() > PATIENCE * 2 {
                return Err(Error::Silent { peer: control.peer().to_owned(), seconds: PATIENCE.as_secs() * 2 });
            }
            if params.wants_output && (now - last.0) >= Duration::from_secs(1) && output.len() < RESULTS_MAX / 4 {
                lines(&mut output, (last.0, now), &last.1, &bytes);
                last = (now, bytes);
            }
        }
        running.settle();
        let total = running.bytes();
        let none: Vec<(u32, u64)> = total.iter().map(|(id, _)| (*id, 0)).collect();
        lines(&mut output, (Duration::ZERO, running.elapsed()), &none, &total);
        Ok((output, mark.unwrap_or_default()))
    }
}

fn lines(output: &mut String, (from, to): (Duration, Duration), before: &[(u32, u64)], after: &[(u32, u64)]) {
    for ((id, then), (_, now)) in before.iter().zip(after) {
        let (bytes, span) = (now.saturating_sub(*then), (to - from).as_secs_f64());
        let rate = BitRate::mean(Bytes(bytes), span);
        let _ = writeln!(output, "[{id:3}] {:6.2}-{:<6.2} sec  {}  {rate}", from.as_secs_f64(), to.as_secs_f64(), Bytes(bytes));
    }
}

fn peer_of(socket: &TcpStream) -> Result<SocketAddr> {
    socket.peer_addr().map_err(|source| Error::Broken { peer: "a client".into(), source })
}

/// A running test of either kind.
enum Running {
    Streams(Team),
    Datagrams(datagrams::Team),
}

/// What had been counted of a stream when counting began: what the client leaves out (`-O`), we leave out too.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes: u64,
    retransmits: u64,
    packets: u64,
    lost: i64,
}

/// The moment when counting began.
#[derive(Debug, Default)]
struct Mark {
    at: Duration,
    streams: Vec<(u32, Counted)>,
}

impl Mark {
    fn of(&self, id: u32) -> Counted {
        self.streams.iter().find(|(of, _)| *of == id).map_or_else(Counted::default, |(_, counted)| *counted)
    }

    /// A stream's whole less what was not to count.
    fn take_off(&self, mut result: StreamResult) -> StreamResult {
        let before = self.of(result.id);
        result.bytes = result.bytes.saturating_sub(before.bytes);
        result.retransmits = result.retransmits.map(|sum| sum.saturating_sub(before.retransmits));
        // Of datagrams the client wants the whole, and what of it does not count.
        result.omitted = Some((before.lost, before.packets));
        result.span_s = (0.0, (result.span_s.1 - self.at.as_secs_f64()).max(0.0));
        result
    }
}

/// What is on its way when the client says that it is over may still arrive: as long as something does, and no longer.
const SETTLE: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_millis(80);

impl Running {
    fn elapsed(&self) -> Duration {
        match self {
            Running::Streams(team) => team.started().elapsed(),
            Running::Datagrams(team) => team.started().elapsed(),
        }
    }

    fn bytes(&self) -> Vec<(u32, u64)> {
        match self {
            Running::Streams(team) => team.look().iter().map(|look| (look.id, look.bytes)).collect(),
            Running::Datagrams(team) => team.look().into_iter().map(|(id, _, tally)| (id, tally.bytes)).collect(),
        }
    }

    fn settle(&self) {
        match self {
            Running::Streams(team) => team.hush(),
            Running::Datagrams(team) => team.hush(),
        }
        let (from, mut last) = (Instant::now(), self.bytes());
        while from.elapsed() < SETTLE {
            std::thread::sleep(QUIET);
            let now = self.bytes();
            if now == last {
                break;
            }
            last = now;
        }
    }

    fn mark(&self, at: Duration) -> Mark {
        let streams = match self {
            Running::Streams(team) => {
                let counted = |look: &crate::tcp::stream::Look| Counted {
                    bytes: look.bytes,
                    retransmits: look.tcp.retransmits,
                    ..Counted::default()
                };
                team.look().iter().map(|look| (look.id, counted(look))).collect()
            }
            Running::Datagrams(team) => {
                let counted = |tally: &datagrams::Tally| Counted {
                    bytes: tally.bytes,
                    retransmits: 0,
                    packets: tally.packets,
                    lost: tally.lost,
                };
                team.look().iter().map(|(id, _, tally)| (*id, counted(tally))).collect()
            }
        };
        Mark { at, streams }
    }

    fn finish(self, mark: &Mark) -> Results {
        let elapsed = self.elapsed().as_secs_f64();
        match self {
            Running::Streams(team) => {
                team.abandon();
                let ended = team.finish();
                let sends = ended.iter().any(|end| end.look.sends);
                let cpu: f64 = ended.iter().map(|end| end.cpu.as_secs_f64()).sum::<f64>() / elapsed.max(1e-9) * 100.0;
                let stream = |end: &crate::tcp::stream::Ended| StreamResult {
                    id: end.look.id,
                    bytes: end.look.bytes,
                    retransmits: end.look.sends.then_some(end.look.tcp.retransmits),
                    span_s: (0.0, elapsed),
                    ..StreamResult::default()
                };
                Results {
                    // Which part of it was the kernel's is not counted by thread.
                    cpu_percent: (cpu, 0.0, cpu),
                    has_retransmits: if sends { 1 } else { -1 },
                    congestion: ended.first().map(|end| end.congestion.clone()),
                    streams: ended.iter().map(stream).map(|whole| mark.take_off(whole)).collect(),
                    output: None,
                }
            }
            Running::Datagrams(team) => {
                let ends = team.finish();
                let streams = ends.into_iter().map(|(_, whole)| mark.take_off(whole)).collect();
                Results { has_retransmits: -1, streams, ..Results::default() }
            }
        }
    }
}

/// A test's streams in the order in which the client opened them: its sending ones first.
fn roles(params: &Params) -> Vec<(u32, bool)> {
    let count = params.parallel * if params.both { 2 } else { 1 };
    let sends = |at: u32| if params.both { at >= params.parallel } else { params.reverse };
    (0..count).map(|at| (stream_id(at), sends(at))).collect()
}

fn wait<T>(arrivals: &Receiver<T>, deadline: Instant, stop: &Stop, control: &Control) -> Result<T> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match arrivals.recv_timeout(left.min(Duration::from_millis(100))) {
            Ok(arrival) => return Ok(arrival),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) if stop.is_stopped() => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) if left.is_zero() || sys::tcp::is_closed_by_peer(control.socket()) => {
                return Err(Error::Silent { peer: control.peer().to_owned(), seconds: PATIENCE.as_secs() });
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn gather_streams(control: &Control, params: &Params, arrivals: &Arrivals, stop: &Stop) -> Result<Team> {
    let (roles, deadline) = (roles(params), Instant::now() + PATIENCE);
    let mut sockets = Vec::new();
    while sockets.len() < roles.len() {
        sockets.push(wait(&arrivals.streams, deadline, stop, control)?);
    }
    // Numbers are given in the order of the client's connections, and first bytes may be read in any order.
    sockets.sort_by_key(|(accepted, _)| *accepted);
    let mut flows = Vec::new();
    for ((id, sends), (_, socket)) in roles.into_iter().zip(sockets) {
        settle_stream(&socket, params, sends);
        flows.push(Flow { id, up: !sends, sends, socket, quota: params.quota() });
    }
    let block_bytes = if params.block_bytes == 0 { 128 << 10 } else { params.block_bytes as usize };
    Team::start(flows, Manner { block_bytes, cores: &[], lasts: crate::tcp::LASTS_MAX, shuts: false })
}

/// What a host does not take is left as it is: stock's clients ask for what their own host has.
fn settle_stream(socket: &TcpStream, params: &Params, sends: bool) {
    let reference = SockRef::from(socket);
    let _ = reference.set_tcp_nodelay(true);
    if params.window_bytes > 0 {
        let bytes = params.window_bytes as usize;
        let _ = reference.set_recv_buffer_size(bytes).and_then(|()| reference.set_send_buffer_size(bytes));
    }
    if let Some(name) = params.congestion.as_ref().filter(|_| sends) {
        let _ = sys::tcp::set_congestion(socket, name);
    }
    if sends {
        // The kernel paces a stream that has a target.
        let rate = [params.pacing_bit_s, params.rate_bit_s].into_iter().filter(|rate| *rate > 0).min();
        if let Some(rate) = rate {
            let _ = sys::tcp::set_pacing(socket, (rate / 8).max(1));
        }
    }
}

fn gather_datagrams(control: &Control, params: &Params, arrivals: &Arrivals, stop: &Stop) -> Result<datagrams::Team> {
    let deadline = Instant::now() + PATIENCE;
    let host = |doing| move |source| Error::Host { doing, source };
    let local = control.socket().local_addr().map_err(host("read a socket's address"))?;
    let mut streams: Vec<(SocketAddr, datagrams::Stream)> = Vec::new();
    for (id, sends) in roles(params) {
        let from = loop {
            let from = wait(&arrivals.datagrams, deadline, stop, control)?;
            match streams.iter().find(|(known, _)| *known == from) {
                // Asked again: the answer was lost.
                Some((_, known)) => drop(known.socket.send(&WELCOME)),
                None => break from,
            }
        };
        let socket = crate::flow::beside(local, from).map_err(host("make a socket for datagrams"))?;
        socket.send(&WELCOME).map_err(host("send a datagram"))?;
        streams.push((from, datagrams::Stream { id, sends, socket }));
    }
    let bytes = if params.block_bytes == 0 { 1460 } else { params.block_bytes as usize };
    let bytes = bytes.max(datagrams::HEADER_MAX);
    let pace = Pace { bytes, rate_bit_s: params.rate_bit_s, quota: params.quota(), wide: params.wide_numbers };
    datagrams::Team::start(streams.into_iter().map(|(_, stream)| stream).collect(), pace)
}
