//! The far end of a task.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use model::fault::Blame;
use model::v1::probe::{Failure, FlowLine, Flows, FlowsDone, Task, Token};

use crate::flow::{self, FLOWS_MAX, Test};
use crate::host::HostUsage;
use crate::stamp::{HostClock, Reflector, Trust};
use crate::udp::{self, datagram};
use crate::{Error, Result, Stop, route, stamp};

/// Time between checks whether the task is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time between lines of progress, which also show whether the near end still reads.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// How long datagrams in flight are answered after the near end has ended the task.
const LINGER: Duration = Duration::from_millis(300);
/// A task ends by itself this long after its time.
const GRACE: Duration = Duration::from_secs(15);

/// The longest that a task may last.
///
/// # Errors
/// [`Error::Order`]: the field that is out of bounds, and its bounds.
pub fn longest(flows: &Flows) -> Result<Duration> {
    if !(1..=FLOWS_MAX).contains(&flows.flows) {
        return Err(Error::Order(format!("{} flows; a test has from 1 to {FLOWS_MAX}", flows.flows)));
    }
    let seconds = match &flows.task {
        Task::Reflect { seconds } | Task::Answer { seconds, .. } | Task::Echo { seconds } => *seconds,
        Task::Receive { order, .. } | Task::Send { order, .. } => {
            udp::Plan::of(order)?;
            order.seconds.unwrap_or(udp::SECONDS_MAX)
        }
        Task::Explore(order) => 3.0 * order.lasts_s,
    };
    if seconds > 0.0 && seconds <= udp::SECONDS_MAX {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(Error::Order(format!("{seconds} s; a test lasts more than 0 and at most {} s", udp::SECONDS_MAX)))
    }
}

/// Called with the bytes moved since the last call; `false` ends the test.
pub type ReportBytes<'a> = &'a dyn Fn(u64) -> bool;

/// Does the far end's half of a task for a session from `near`, over sockets that share the port of `local` with the node's own socket.
/// `report` sends a line to the near end, and returns whether the near end still reads.
///
/// # Errors
/// The order is out of bounds, flows are missing, or the half fails. The failure has been reported to the near end.
pub fn answer(
    tests: &flow::Flows,
    order: &Flows,
    near: IpAddr,
    local: SocketAddr,
    stop: &Stop,
    moved: ReportBytes<'_>,
    report: &mut dyn FnMut(&FlowLine) -> bool,
) -> Result<()> {
    let result = carry_out(tests, order, near, local, stop, moved, report);
    match &result {
        Ok(done) => report(&FlowLine::Done(Box::new(done.clone()))),
        Err(error) => report(&FlowLine::Failed(Failure { fault: error.fault(), why: chain(error) })),
    };
    result.map(drop)
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |e| e.source()).fold(error.to_string(), |text, e| format!("{text}: {e}"))
}

/// Gathers the flows and does the far end's half.
fn carry_out(
    tests: &flow::Flows,
    order: &Flows,
    near: IpAddr,
    local: SocketAddr,
    stop: &Stop,
    moved: ReportBytes<'_>,
    report: &mut dyn FnMut(&FlowLine) -> bool,
) -> Result<FlowsDone> {
    let lasts = longest(order)?;
    let Some(mut test) = tests.begin(order.token, near) else {
        return Err(Error::Order("another test has this token".into()));
    };
    let watch = HostUsage::begin();
    if !report(&FlowLine::Waiting) {
        return Err(Error::Interrupted);
    }
    let sockets = test.gather(local, order.flows, stop)?;
    let mut done = FarHalf { order, sockets: &sockets, lasts, stop, moved, test: &mut test, report }.run()?;
    done.host = watch.read();
    Ok(done)
}

/// The far end's half of a task: a worker thread does it, this thread supervises and reports.
struct FarHalf<'a> {
    order: &'a Flows,
    sockets: &'a [UdpSocket],
    lasts: Duration,
    stop: &'a Stop,
    moved: ReportBytes<'a>,
    test: &'a mut Test,
    report: &'a mut dyn FnMut(&FlowLine) -> bool,
}

/// The handles by which this thread controls the worker.
#[derive(Default)]
struct WorkerControl {
    stop: Stop,
    ending: udp::EndNotice,
    watch: udp::RunProgress,
}

impl FarHalf<'_> {
    fn run(mut self) -> Result<FlowsDone> {
        let Some(socket) = self.sockets.first() else { return Err(Error::Order("no flows".into())) };
        let token = self.order.token;
        let sockets = self.sockets;
        let lasts = self.lasts;
        let control = WorkerControl::default();
        let flow = |run| udp::FlowId { token: datagram::Token(token), run };
        let done = FlowsDone::default();
        match &self.order.task {
            Task::Reflect { .. } => self.work(&control, || reflect(socket, &control.stop).map(|()| done)),
            Task::Echo { .. } => self.work(&control, || echo(sockets, &token, lasts, &control.stop).map(|()| done)),
            Task::Receive { run, order } => {
                // The receiver must be ready before the near end is told to send.
                let receiver = udp::Receiver::prepare(socket, order, flow(*run))?;
                self.work(&control, || {
                    let received = receiver.run(&control.ending, &control.watch, &control.stop)?;
                    Ok(FlowsDone { received: Some(received), ..done })
                })
            }
            Task::Send { run, order } => self.work(&control, || {
                flow::wait_until_ready(socket, &token, &control.stop)?;
                let sent = udp::send(socket, order, flow(*run), &control.watch, &control.stop)?;
                Ok(FlowsDone { sent: Some(sent), ..done })
            }),
            Task::Answer { run, answer_bytes_max, .. } => self.work(&control, || {
                let answered =
                    udp::request::answer(socket, flow(*run), *answer_bytes_max, &control.watch, &control.stop)?;
                Ok(FlowsDone { answered: Some(answered), ..done })
            }),
            Task::Explore(order) => self.work(&control, || {
                let route = route::explore(sockets, &token, order, &control.stop)?;
                Ok(FlowsDone { route: Some(route), ..done })
            }),
        }
    }

    /// Reports that all flows are open, runs `work` in a thread of its own, and ends it when the near end ends the task, the
    /// node stops, or the task's time is over.
    fn work(&mut self, control: &WorkerControl, work: impl FnOnce() -> Result<FlowsDone> + Send) -> Result<FlowsDone> {
        if !(self.report)(&FlowLine::Ready) {
            return Err(Error::Interrupted);
        }
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name("probe".into()).spawn_scoped(scope, work);
            let worker = worker.map_err(|source| Error::Host { doing: "start a thread", source })?;
            let is_cut_short = self.watch(control, &|| worker.is_finished());
            let done = worker.join().unwrap_or(Err(Error::Interrupted))?;
            if is_cut_short { Err(Error::Interrupted) } else { Ok(done) }
        })
    }

    /// Supervises the worker until it finishes. Returns whether it was cut short: the near end no longer reads, `moved` refuses, the
    /// node stops, or the time is over.
    fn watch(&mut self, control: &WorkerControl, is_finished: &dyn Fn() -> bool) -> bool {
        let begun = Instant::now();
        let mut reported = begun;
        let mut over = None;
        let mut is_cut_short = false;
        let mut counted = 0;
        // All datagrams that the watch counts have one size.
        let mut account = |control: &WorkerControl| {
            let more = control.watch.datagrams().saturating_sub(counted);
            counted += more;
            (self.moved)(more.saturating_mul(datagram_bytes(&self.order.task)))
        };
        while !is_finished() {
            std::thread::sleep(CHECK_INTERVAL);
            if over.is_none()
                && let Some(sent) = self.test.datagrams_sent()
            {
                control.ending.set(sent);
                over = Some(Instant::now());
            }
            if reported.elapsed() >= PROGRESS_INTERVAL {
                reported = Instant::now();
                let datagrams = control.watch.datagrams();
                let missing = control.watch.missing();
                is_cut_short |= !account(control) || !(self.report)(&FlowLine::Progress { datagrams, missing });
            }
            is_cut_short |= self.stop.is_stopped() || begun.elapsed() > self.lasts + GRACE;
            // A receiver waits for datagrams in flight by itself.
            let receives = matches!(self.order.task, Task::Receive { .. });
            if is_cut_short || !receives && over.is_some_and(|at: Instant| at.elapsed() >= LINGER) {
                control.stop.stop();
            }
        }
        account(control);
        is_cut_short
    }
}

/// Payload bytes of a task's datagrams; 0 where they are not counted.
fn datagram_bytes(task: &Task) -> u64 {
    match task {
        Task::Receive { order, .. } | Task::Send { order, .. } => order.bytes.into(),
        Task::Answer { answer_bytes_max, .. } => u64::from(*answer_bytes_max),
        Task::Reflect { .. } | Task::Echo { .. } | Task::Explore(_) => 0,
    }
}

fn reflect(socket: &UdpSocket, stop: &Stop) -> Result<()> {
    let peer =
        socket.peer_addr().map_err(|source| Error::Host { doing: "find out whom a socket is connected to", source })?;
    // The peer's address is that of an authenticated session, so no third host can be flooded with answers.
    let trust = |from: SocketAddr| if from == peer { Trust::Verified } else { Trust::None };
    stamp::serve(socket, stop, &HostClock, &mut Reflector::default(), &trust).map(drop)
}

/// Answers probes on all flows, with a thread for each.
pub(super) fn echo(sockets: &[UdpSocket], token: &Token, lasts: Duration, stop: &Stop) -> Result<()> {
    std::thread::scope(|scope| {
        let serve = |socket| move || route::echo::serve(socket, |its| its == token, lasts, stop);
        let serving: Vec<_> = sockets.iter().map(|socket| scope.spawn(serve(socket))).collect();
        serving.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Interrupted)).map(drop))
    })
}
