//! Tests that guests run with this node: within bounds, the far half on the thread that answers the question.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::node::{Asker, Said};
use model::fault::Fault;
use model::v1::probe::tcp::Line;
use model::v1::probe::{Ask, Test};
use wire::frame::Refusal;

/// Tests of one holder of a key at once; the anonymous are one holder.
const TESTS_MAX: usize = 32;
/// Seconds of a test.
const SECONDS_MAX: f64 = 3_600.0;

/// Tests that run, by who asked.
#[derive(Default)]
pub(crate) struct Probes(Mutex<HashMap<String, usize>>);

/// A running test's place.
struct Seat<'a>(&'a Probes, String);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut running = self.0.running();
        if let Some(count) = running.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.1);
            }
        }
    }
}

/// A test in the words of the access log.
pub(crate) fn describe(ask: &str) -> String {
    match serde_json::from_str::<Ask>(ask).map(|ask| ask.test) {
        Ok(Test::Tcp(order)) => format!("probe tcp {:?}, {} streams", order.direction, order.streams),
        Err(_) => "probe of an unknown kind".into(),
    }
}

impl Probes {
    fn running(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(&self, holder: &str) -> Result<Seat<'_>, Refusal> {
        let mut running = self.running();
        let count = running.entry(holder.to_owned()).or_default();
        if *count >= TESTS_MAX {
            let why = format!("{TESTS_MAX} tests of yours run here already; this node has no more at once for one guest");
            return Err(Refusal::new(Fault::Auth, why));
        }
        *count += 1;
        Ok(Seat(self, holder.to_owned()))
    }

    /// Runs the far half of a test.
    pub fn answer(
        &self,
        asker: Asker<'_>,
        ask: &str,
        emit: &mut dyn FnMut(Said) -> bool,
    ) -> Result<(), Refusal> {
        let unknown = |e: serde_json::Error| Refusal::new(Fault::Config, format!("this node does not know that test: {e}"));
        let ask: Ask = serde_json::from_str(ask).map_err(unknown)?;
        let Test::Tcp(order) = &ask.test;
        if order.seconds > SECONDS_MAX {
            let why = format!("{} s; tests with this node last {SECONDS_MAX} s at most", order.seconds);
            return Err(Refusal::new(Fault::Auth, why));
        }
        probe::tcp::check(order).map_err(|error| Refusal::new(Fault::Config, error.to_string()))?;
        let _seat = self.seat(asker.access.holder())?;
        let mut tell = |line: &Line| serde_json::to_string(line).is_ok_and(|text| emit(Said::Text(text)));
        // Streams are numbered from the session's beginning, those of a test from 1; 0 is none of a test.
        let number = |number: u32| number.checked_sub(ask.first_stream).map_or(0, |at| at + 1);
        let mut next = |wait| asker.joined.recv_timeout(wait).map(|(socket, id)| (socket, number(id)));
        // What failed has been told as a line: the session goes on.
        let _ = probe::tcp::answer(order, &mut next, &probe::Stop::default(), &mut tell);
        Ok(())
    }
}
