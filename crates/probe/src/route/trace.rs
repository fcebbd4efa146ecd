//! A trace: the hops of one flow.

mod tracer;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::route::{End, Path};

use super::drive::{Ending, Pace, ScriptedFlow, drive};
use super::echo::Token;
use super::flow::ProbeFlow;
use crate::{Error, Result, Stop};

pub(super) use tracer::{Tracer, least_and_median};

/// The plan of a trace. The defaults suit a path of 300 ms and routers that answer a few probes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The highest TTL; 1 to 64.
    pub ttl_max: u8,
    /// Tracing ends after this many silent hops in a row; 1 to 64.
    pub gap: u8,
    /// Probes for each hop; 1 to 16.
    pub queries: u8,
    /// Most probes without an answer at one time; 1 to 64.
    pub window: usize,
    /// A probe without an answer for this long is lost, although a later answer still counts; up to a minute.
    pub patience: Duration,
    /// Time from one probe to the next; up to a second.
    pub interval: Duration,
    /// Pause between two rounds over all hops, as routers limit their answers; up to a minute.
    pub pause: Duration,
    /// Time after which the trace ends.
    pub lasts: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            ttl_max: 30,
            gap: 5,
            queries: 3,
            window: 16,
            patience: Duration::from_secs(1),
            interval: Duration::from_millis(5),
            pause: Duration::from_millis(200),
            lasts: Duration::from_secs(60),
        }
    }
}

impl Plan {
    /// Checks the bounds of the plan.
    ///
    /// # Errors
    /// [`Error::Order`]: the field that is out of bounds, and its bounds.
    pub fn check(&self) -> Result<()> {
        let minute = Duration::from_secs(60);
        let faults = [
            (!(1..=64).contains(&self.ttl_max), "the highest TTL is 1 to 64"),
            (!(1..=64).contains(&self.gap), "the gap is 1 to 64 hops"),
            (!(1..=16).contains(&self.queries), "the probes for each hop are 1 to 16"),
            (!(1..=64).contains(&self.window), "the window is 1 to 64 probes"),
            (self.patience.is_zero() || self.patience > minute, "the patience is above 0 and up to 60 s"),
            (self.interval > Duration::from_secs(1), "the interval is up to 1 s"),
            (self.pause > minute, "the pause is up to 60 s"),
        ];
        match faults.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(Error::Order(format!("a trace is out of bounds: {what}"))),
            None => Ok(()),
        }
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { interval: self.interval, rate_bit_s: u64::MAX, lasts: self.lasts }
    }
}

/// Traces the flow of a connected socket (see [`super::open`]).
///
/// # Errors
/// [`Error::Order`]: the plan is out of bounds. [`Error::Host`]: the socket fails. A silent far end is a result.
pub fn trace(socket: &UdpSocket, token: &Token, plan: &Plan, stop: &Stop) -> Result<Path> {
    let start = Instant::now();
    let (mut runs, ending) = trace_all(&[socket], token, plan, stop)?;
    let Some(run) = runs.pop() else { return Ok(Path::default()) };
    Ok(path(&run, ending, start.elapsed()))
}

/// Traces several flows at once.
pub(super) fn trace_all<'a>(
    sockets: &[&'a UdpSocket],
    token: &Token,
    plan: &Plan,
    stop: &Stop,
) -> Result<(Vec<ScriptedFlow<'a, Tracer>>, Ending)> {
    plan.check()?;
    let prepare = |socket: &&'a UdpSocket| {
        let flow = ProbeFlow::new(socket, *token)?;
        let script = Tracer::new(*plan, flow.far());
        Ok(ScriptedFlow { flow, script })
    };
    let mut runs = sockets.iter().map(prepare).collect::<Result<Vec<_>>>()?;
    let ending = drive(&mut runs, &plan.pace(), stop)?;
    Ok((runs, ending))
}

/// The path of a trace.
pub(super) fn path(run: &ScriptedFlow<'_, Tracer>, ending: Ending, took: Duration) -> Path {
    let mut path = run.script.path();
    path.source = run.flow.near().to_string();
    path.target = run.flow.far().to_string();
    path.seconds = took.as_secs_f64();
    match ending {
        Ending::Done => {}
        // The end of the route is known, so an early end of the trace does not matter.
        _ if matches!(path.end, End::Reached | End::Blocked) => {}
        Ending::OutOfTime => path.end = End::OutOfTime,
        Ending::Stopped => path.end = End::Interrupted,
    }
    path
}
