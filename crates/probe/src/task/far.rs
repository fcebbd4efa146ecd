//! The end that is asked.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use model::fault::Blame;
use model::v1::probe::{Failure, FlowLine, Flows, FlowsDone, Task, Token};

use crate::flow::{self, FLOWS_MAX, Test};
use crate::host::Watch;
use crate::stamp::{HostClock, Reflector, Trust};
use crate::udp::{self, datagram};
use crate::{Error, Result, Stop, route, stamp};

/// How often the far end looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// How often it says that it lives, and so learns whether anybody listens.
const SAY: Duration = Duration::from_secs(1);
/// After the last word of the near end, what is still on its way is answered.
const LINGER: Duration = Duration::from_millis(300);
/// Tasks end by themselves after their time and so much more.
const GRACE: Duration = Duration::from_secs(15);

/// How long a task may last; none where its order makes no sense.
///
/// # Errors
/// [`Error::Order`]: what makes no sense, and the bounds.
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
    match seconds > 0.0 && seconds <= udp::SECONDS_MAX {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(Error::Order(format!("{seconds} s; a test lasts more than 0 and at most {} s", udp::SECONDS_MAX))),
    }
}

/// Hears of bytes as they move; `false` ends the test.
pub type Moved<'a> = &'a dyn Fn(u64) -> bool;

/// Does the far end's part for a session from `near`, over sockets that share `local` with the node's own; `tell` gives
/// its lines to the near end, and says whether that still listens.
///
/// # Errors
/// The near end has been told.
pub fn answer(
    tests: &flow::Flows,
    order: &Flows,
    (near, local): (IpAddr, SocketAddr),
    (stop, moved): (&Stop, Moved<'_>),
    tell: &mut dyn FnMut(&FlowLine) -> bool,
) -> Result<()> {
    let result = part(tests, order, (near, local), (stop, moved), tell);
    match &result {
        Ok(done) => tell(&FlowLine::Done(Box::new(done.clone()))),
        Err(error) => tell(&FlowLine::Failed(Failure { fault: error.fault(), why: chain(error) })),
    };
    result.map(drop)
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |e| e.source()).fold(error.to_string(), |text, e| format!("{text}: {e}"))
}

fn part(
    tests: &flow::Flows,
    order: &Flows,
    (near, local): (IpAddr, SocketAddr),
    (stop, moved): (&Stop, Moved<'_>),
    tell: &mut dyn FnMut(&FlowLine) -> bool,
) -> Result<FlowsDone> {
    let lasts = longest(order)?;
    let Some(mut test) = tests.begin(order.token, near) else {
        return Err(Error::Order("another test has this token".into()));
    };
    let watch = Watch::begin();
    if !tell(&FlowLine::Waiting) {
        return Err(Error::Interrupted);
    }
    let sockets = test.gather(local, order.flows, stop)?;
    let mut done = Part { order, sockets: &sockets, lasts, stop, moved, test: &mut test, tell }.run()?;
    done.host = watch.read();
    Ok(done)
}

/// The far end while its part lasts: one thread works, this one watches and speaks.
struct Part<'a> {
    order: &'a Flows,
    sockets: &'a [UdpSocket],
    lasts: Duration,
    stop: &'a Stop,
    moved: Moved<'a>,
    test: &'a mut Test,
    tell: &'a mut dyn FnMut(&FlowLine) -> bool,
}

/// What the watching thread holds of the working one.
#[derive(Default)]
struct Reins {
    stop: Stop,
    ending: udp::Ending,
    watch: udp::Watch,
}

impl Part<'_> {
    fn run(mut self) -> Result<FlowsDone> {
        let Some(socket) = self.sockets.first() else { return Err(Error::Order("no flows".into())) };
        let (token, sockets, lasts) = (self.order.token, self.sockets, self.lasts);
        let reins = Reins::default();
        let flow = |run| udp::Flow { token: datagram::Token(token), run };
        let done = FlowsDone::default();
        match &self.order.task {
            Task::Reflect { .. } => self.work(&reins, || reflect(socket, &reins.stop).map(|()| done)),
            Task::Echo { .. } => self.work(&reins, || echo(sockets, &token, lasts, &reins.stop).map(|()| done)),
            Task::Receive { run, order } => {
                // Before the near end hears that it may send.
                let receiver = udp::Receiver::prepare(socket, order, flow(*run))?;
                self.work(&reins, || {
                    let received = receiver.run(&reins.ending, &reins.watch, &reins.stop)?;
                    Ok(FlowsDone { received: Some(received), ..done })
                })
            }
            Task::Send { run, order } => self.work(&reins, || {
                flow::wait_for_go(socket, &token, &reins.stop)?;
                let sent = udp::send(socket, order, flow(*run), &reins.watch, &reins.stop)?;
                Ok(FlowsDone { sent: Some(sent), ..done })
            }),
            Task::Answer { run, answer_bytes_max, .. } => self.work(&reins, || {
                let answered =
                    udp::request::answer(socket, flow(*run), *answer_bytes_max, (&reins.watch, &reins.stop))?;
                Ok(FlowsDone { answered: Some(answered), ..done })
            }),
            Task::Explore(order) => self.work(&reins, || {
                let route = route::explore(sockets, &token, order, &reins.stop)?;
                Ok(FlowsDone { route: Some(route), ..done })
            }),
        }
    }

    /// Says that all is ready, does the work in a thread of its own, and ends it when the near end, the node or the time
    /// says so.
    fn work(&mut self, reins: &Reins, work: impl FnOnce() -> Result<FlowsDone> + Send) -> Result<FlowsDone> {
        if !(self.tell)(&FlowLine::Ready) {
            return Err(Error::Interrupted);
        }
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name("probe".into()).spawn_scoped(scope, work);
            let worker = worker.map_err(|source| Error::Host { doing: "start a thread", source })?;
            let gone = self.watch(reins, &|| worker.is_finished());
            let done = worker.join().unwrap_or(Err(Error::Interrupted))?;
            if gone { Err(Error::Interrupted) } else { Ok(done) }
        })
    }

    /// Whether nobody listens any more, the node stops, or there was no end to it.
    fn watch(&mut self, reins: &Reins, is_finished: &dyn Fn() -> bool) -> bool {
        let begun = Instant::now();
        let (mut said, mut over, mut gone) = (begun, None, false);
        let mut counted = 0;
        // What the watch counts are datagrams of one size.
        let mut moves = |reins: &Reins| {
            let more = reins.watch.datagrams().saturating_sub(counted);
            counted += more;
            (self.moved)(more.saturating_mul(datagram_bytes(&self.order.task)))
        };
        while !is_finished() {
            std::thread::sleep(LOOK);
            if over.is_none()
                && let Some(sent) = self.test.is_over()
            {
                reins.ending.tell(sent);
                over = Some(Instant::now());
            }
            if said.elapsed() >= SAY {
                said = Instant::now();
                let (datagrams, missing) = (reins.watch.datagrams(), reins.watch.missing());
                gone |= !moves(reins) || !(self.tell)(&FlowLine::Progress { datagrams, missing });
            }
            gone |= self.stop.is_stopped() || begun.elapsed() > self.lasts + GRACE;
            // Who receives hears out what is on its way by itself.
            let receives = matches!(self.order.task, Task::Receive { .. });
            if gone || !receives && over.is_some_and(|at: Instant| at.elapsed() >= LINGER) {
                reins.stop.stop();
            }
        }
        moves(reins);
        gone
    }
}

/// Payload of the datagrams that a task is about.
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
    // The flow is of a session at this very address: nobody forges it.
    let trust = |from: SocketAddr| if from == peer { Trust::Whole } else { Trust::None };
    stamp::serve(socket, stop, &HostClock, &mut Reflector::default(), &trust).map(drop)
}

/// Answers probes on all flows at once.
pub(super) fn echo(sockets: &[UdpSocket], token: &Token, lasts: Duration, stop: &Stop) -> Result<()> {
    std::thread::scope(|scope| {
        let serve = |socket| move || route::echo::serve(socket, |its| its == token, lasts, stop);
        let serving: Vec<_> = sockets.iter().map(|socket| scope.spawn(serve(socket))).collect();
        serving.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Interrupted)).map(drop))
    })
}
