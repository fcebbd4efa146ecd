//! Reports the progress of a copy to the client while other threads move its bytes: a marker at once and every few seconds. Cancels
//! a copy that stalls or whose client hangs up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use model::Fault;
use web::copy::marker::Marker;

use crate::clock::now;
use crate::copies::progress::{CopyProgress, Failure};
use crate::http::refused::Outcome;
use crate::http::request_context::RequestContext;

/// Time between two markers, as clients expect it.
const MARKER_EVERY: Duration = Duration::from_secs(5);
/// How often the client's connection is checked.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// The timeouts of a copy.
struct CopyTimeouts {
    /// Time between two markers.
    marker: Duration,
    /// A copy has stalled after this time without a byte.
    stall: Duration,
    /// A copy without its first byte has stalled after this time: the peer may have to compute a digest or to recall the file from
    /// tape.
    first: Duration,
}

const TIMEOUTS: CopyTimeouts =
    CopyTimeouts { marker: MARKER_EVERY, stall: Duration::from_secs(60), first: Duration::from_secs(120) };

/// The client of a copy.
trait Listener {
    /// Sends a text to the client.
    fn send_marker(&mut self, text: &str) -> std::io::Result<()>;
    /// Whether the client has hung up.
    fn is_gone(&self) -> bool;
}

impl Listener for RequestContext<'_> {
    fn send_marker(&mut self, text: &str) -> std::io::Result<()> {
        self.exchange.write(text.as_bytes())
    }

    fn is_gone(&self) -> bool {
        self.exchange.is_closed_by_peer()
    }
}

/// The marker of the current progress.
pub(crate) fn marker(progress: &CopyProgress) -> String {
    let mut text = String::new();
    let marker = Marker {
        timestamp_s: now().seconds,
        bytes: progress.bytes(),
        remotes: progress.remotes(),
        ..Marker::default()
    };
    marker.write(&mut text);
    text
}

/// The failure of a copy that has stalled, by its direction.
fn stalled(pulls: bool, span: Duration) -> Failure {
    let seconds = span.as_secs();
    let text = if pulls {
        format!("no bytes have been received from the source (pull mode) in {seconds} seconds: operation timeout")
    } else {
        format!("the destination (push mode) has taken no bytes in {seconds} seconds: operation timeout")
    };
    Failure::new(Fault::Path, 504, text)
}

/// Runs `work` on a thread of its own and reports the progress to the client.
pub(crate) fn run<T: Send>(
    context: &mut RequestContext<'_>,
    progress: &CopyProgress,
    pulls: bool,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Outcome<Result<T, Failure>> {
    Ok(run_with(context, progress, pulls, &TIMEOUTS, work)?)
}

fn run_with<T: Send>(
    client: &mut dyn Listener,
    progress: &CopyProgress,
    pulls: bool,
    timeouts: &CopyTimeouts,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> std::io::Result<Result<T, Failure>> {
    client.send_marker(&marker(progress))?;
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
        let mut last_marker = Instant::now();
        let mut last_progress = (Instant::now(), 0);
        let mut cancelled = None;
        loop {
            match result.recv_timeout(CHECK_EVERY) {
                Ok(result) => return Ok(cancelled.map_or(result, Err)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Err(Failure::new(Fault::Bug, 500, "the copy ended without a result")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if last_progress.1 != progress.bytes() || progress.has_all_moved() {
                last_progress = (Instant::now(), progress.bytes());
            }
            let bound = if last_progress.1 == 0 { timeouts.first } else { timeouts.stall };
            let reason = if client.is_gone() {
                Some(Failure::new(Fault::Interrupted, 499, "the client hung up"))
            } else if last_progress.0.elapsed() > bound {
                Some(stalled(pulls, bound))
            } else {
                None
            };
            if let (Some(reason), None) = (reason, &cancelled) {
                cancelled = Some(reason);
                progress.cancel();
            }
            if last_marker.elapsed() >= timeouts.marker && cancelled.is_none() {
                last_marker = Instant::now();
                progress.report_flows();
                if client.send_marker(&marker(progress)).is_err() {
                    cancelled = Some(Failure::new(Fault::Interrupted, 499, "the client hung up"));
                    progress.cancel();
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A client that hangs up after a number of markers.
    struct HangsUpAfter(Vec<String>, usize);

    impl Listener for HangsUpAfter {
        fn send_marker(&mut self, text: &str) -> std::io::Result<()> {
            self.0.push(text.to_owned());
            Ok(())
        }

        fn is_gone(&self) -> bool {
            self.0.len() >= self.1
        }
    }

    /// A client whose markers are counted.
    struct CountingListener<'a>(HangsUpAfter, &'a AtomicUsize);

    impl Listener for CountingListener<'_> {
        fn send_marker(&mut self, text: &str) -> std::io::Result<()> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.send_marker(text)
        }

        fn is_gone(&self) -> bool {
            self.0.is_gone()
        }
    }

    fn timeouts(marker_ms: u64, stall_ms: u64, first_ms: u64) -> CopyTimeouts {
        let [marker, stall, first] = [marker_ms, stall_ms, first_ms].map(Duration::from_millis);
        CopyTimeouts { marker, stall, first }
    }

    fn until_cancelled(progress: &CopyProgress) -> Result<(), Failure> {
        while !progress.is_cancelled() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::new(Fault::Path, 502, "the connection broke"))
    }

    #[test]
    fn a_stalled_copy_fails_with_its_reason() {
        let bounds = timeouts(60_000, 400, 1200);
        for (bytes, pulls, least, reason) in
            [(0, true, 1200, "received from the source"), (9, false, 400, "destination")]
        {
            let (progress, mut client) = (CopyProgress::default(), HangsUpAfter(Vec::new(), 99));
            progress.add(bytes);
            let began = Instant::now();
            let failure =
                run_with(&mut client, &progress, pulls, &bounds, || until_cancelled(&progress)).unwrap().unwrap_err();
            assert!(began.elapsed() >= Duration::from_millis(least), "{:?}", began.elapsed());
            let last = failure.last().line();
            // FTS tries again after these words.
            assert!(last.contains(reason) && last.contains("operation timeout"), "{last}");
            assert_eq!((failure.status, client.0.len()), (504, 1));
        }
    }

    #[test]
    fn a_copy_whose_bytes_have_all_moved_does_not_count_as_stalled() {
        let progress = CopyProgress::default();
        let markers = AtomicUsize::new(0);
        let mut client = CountingListener(HangsUpAfter(Vec::new(), 99), &markers);
        let work = || {
            progress.add(1);
            progress.all_moved();
            // No byte moves for a second or more, until the third marker was sent.
            while markers.load(Ordering::SeqCst) < 3 && !progress.is_cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        };
        run_with(&mut client, &progress, true, &timeouts(500, 300, 60_000), work).unwrap().unwrap();
        let sent = client.0.0;
        assert!(sent.len() >= 3 && sent.iter().all(|marker| marker.ends_with("End\n")), "{sent:?}");
    }

    #[test]
    fn a_client_that_hangs_up_ends_the_copy() {
        let (progress, mut client) = (CopyProgress::default(), HangsUpAfter(Vec::new(), 1));
        let began = Instant::now();
        let bounds = timeouts(60_000, 60_000, 60_000);
        let failure =
            run_with(&mut client, &progress, true, &bounds, || until_cancelled(&progress)).unwrap().unwrap_err();
        assert!(failure.last().line().starts_with("aborted: ") && began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_panic_of_the_copy_is_a_failure() {
        let (progress, mut client) = (CopyProgress::default(), HangsUpAfter(Vec::new(), 99));
        let result =
            run_with(&mut client, &progress, true, &TIMEOUTS, || -> Result<(), Failure> { panic!("meant to") });
        assert_eq!(result.unwrap().unwrap_err().status, 500);
    }
}
