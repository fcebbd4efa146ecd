//! A test for a remote client. It runs in a thread of its own, so that the client gets a line twice a second even if a point
//! takes an hour, and so that the test ends soon after the client has gone.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use model::v1::probe::DiskLine;
use model::v1::probe::disk::{Order, Point, Report};

use super::test_directory::OpenDirectory;
use crate::{Error, Result, Stop};

/// The longest time without a line.
const LINE_INTERVAL: Duration = Duration::from_millis(500);

/// Measures the disk of a directory. `report_line` sends a line for each finished point, and in between lines that say that
/// the test is running. The test ends when `report_line` returns `false`, as the client has gone, or at the stop.
/// `report_line` is called in this thread, so that a slow client delays no measurement.
///
/// # Errors
/// As [`measure_on`](super::measure_on); [`Error::Host`]: the test's thread cannot be started.
pub fn answer(
    directory: &OpenDirectory,
    order: &Order,
    stop: &Stop,
    report_line: &mut dyn FnMut(&DiskLine) -> bool,
) -> Result<Report> {
    let test_stop = Stop::default();
    let (points, done) = channel();
    let outcome = std::thread::scope(|scope| {
        // The channel closes with this thread, even if it panics.
        let borrowed_stop = &test_stop;
        let sender = points;
        let work = move || {
            let mut note = |point: &Point| drop(sender.send(point.clone()));
            super::measure_on(directory, order, borrowed_stop, &mut note)
        };
        let thread = std::thread::Builder::new().name("probe-disk-test".into()).spawn_scoped(scope, work);
        let thread = thread.map_err(|source| Error::Host { doing: "start a thread for the test", source })?;
        loop {
            let line = match done.recv_timeout(LINE_INTERVAL) {
                Ok(point) => DiskLine::Point(Box::new(point)),
                Err(RecvTimeoutError::Timeout) => DiskLine::Working,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if stop.is_stopped() || !report_line(&line) {
                test_stop.stop();
            }
        }
        Ok(thread.join())
    });
    // A panic is a defect of this program, and is passed on.
    outcome?.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
