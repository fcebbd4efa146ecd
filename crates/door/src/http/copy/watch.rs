//! The thread that tells the client how far a copy is while others move its bytes: a marker at once and every few seconds,
//! an end to what stalls, and an end to all of it when the client hangs up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use model::Fault;
use web::copy::marker::Marker;

use super::gauge::{Failure, Gauge};
use crate::http::now;
use crate::http::refused::Outcome;
use crate::http::visit::Visit;

/// Between two markers: what clients are used to.
const MARKER_EVERY: Duration = Duration::from_secs(5);
/// How often it is looked whether the client is still there.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Without a byte for that long a copy has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// Before the first byte: a peer may have to make a digest or to fetch the file from tape.
const STALLED_BEFORE_FIRST: Duration = Duration::from_secs(120);

/// Where the copy is by now.
pub(crate) fn marker(gauge: &Gauge) -> String {
    let mut text = String::new();
    let (timestamp_s, bytes, remotes) = (now().seconds, gauge.bytes(), gauge.remotes());
    Marker { timestamp_s, bytes, remotes, ..Marker::default() }.write(&mut text);
    text
}

/// What has stalled, in the words of which direction it was.
fn stalled(pulls: bool, span: Duration) -> Failure {
    let seconds = span.as_secs();
    let text = if pulls {
        format!("no bytes have been received from the source (pull mode) in {seconds} seconds: operation timeout")
    } else {
        format!("the destination (push mode) has taken no bytes in {seconds} seconds: operation timeout")
    };
    Failure::new(Fault::Path, 504, text)
}

/// Runs `work` on a thread of its own and tells the client how far it is.
pub(crate) fn run<T: Send>(
    visit: &mut Visit<'_>,
    gauge: &Gauge,
    pulls: bool,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Outcome<Result<T, Failure>> {
    visit.exchange.write(marker(gauge).as_bytes())?;
    let (sender, result) = channel();
    let run = move || {
        let bug = |_| Err(Failure::new(Fault::Bug, 500, "the node failed while copying; its log says where"));
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(bug));
    };
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new().name("copy".into()).spawn_scoped(scope, run);
        if let Err(error) = spawned {
            return Ok(Err(Failure::new(Fault::Local, 503, format!("no thread for the copy: {error}"))));
        }
        let mut told = Instant::now();
        let mut progress = (Instant::now(), 0);
        let mut ends = None;
        loop {
            match result.recv_timeout(LOOK_EVERY) {
                Ok(result) => return Ok(ends.map_or(result, Err)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Err(Failure::new(Fault::Bug, 500, "the copy ended without a result")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if progress.1 != gauge.bytes() {
                progress = (Instant::now(), gauge.bytes());
            }
            let patience = if progress.1 == 0 { STALLED_BEFORE_FIRST } else { STALLED_AFTER };
            let reason = if visit.exchange.is_gone() {
                Some(Failure::new(Fault::Interrupted, 499, "the client hung up"))
            } else if progress.0.elapsed() > patience {
                Some(stalled(pulls, patience))
            } else {
                None
            };
            if let (Some(reason), None) = (reason, &ends) {
                ends = Some(reason);
                gauge.cancel();
            }
            if told.elapsed() >= MARKER_EVERY && ends.is_none() {
                told = Instant::now();
                gauge.tell();
                if visit.exchange.write(marker(gauge).as_bytes()).is_err() {
                    ends = Some(Failure::new(Fault::Interrupted, 499, "the client hung up"));
                    gauge.cancel();
                }
            }
        }
    })
}
