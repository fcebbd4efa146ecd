//! Native sessions and HTTP requests at a fixed rate, at the same time.
//!
//! The latency of a request counts from the moment at which it was due: a node that is late with one answer is late with all that wait for
//! it on the same connection.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use engine::Trust;
use engine::session::{Connect, Session};
use model::HostPort;
use model::locator::NodePlace;
use wire::frame::Request;

use crate::file_service::requests::{RequestKind, RequestedFiles};
use crate::statistics::{median, spread};

/// Threads of this program that share the native sessions.
const SESSION_THREADS: u32 = 8;

/// The load of one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfferedLoad {
    /// Native sessions that are open.
    pub sessions: u32,
    /// The interval at which each of them asks for the exports.
    pub session_interval: Duration,
    /// HTTP connections.
    pub connections: u32,
    /// Requests per second over all of them.
    pub requests_s: u32,
    /// The time of the phase.
    pub time: Duration,
}

/// The latencies of one connection, in seconds.
type ConnectionLatencies = Vec<f64>;

/// The latencies of one kind of request in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Requests that were answered in a second.
    pub answered_s: f64,
    /// The latency that half of them stayed below, seconds.
    pub median_s: f64,
    /// The latency that 99 % of them stayed below, seconds.
    pub p99_s: f64,
    /// The highest latency, seconds.
    pub slowest_s: f64,
    /// The mean latency of the connection with the highest one, divided by the median of these means. A pause of the machine, which delays
    /// one answer, counts.
    pub mean_unfairness: f64,
    /// The same with the median latency of each connection: how much worse than others a connection is served all the time.
    pub median_unfairness: f64,
}

impl Latencies {
    /// Sums up the connections of a phase that took `seconds`; none without an answer.
    pub fn of(connections: &[ConnectionLatencies], seconds: f64) -> Option<Latencies> {
        let mut all: Vec<f64> = connections.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all.get(((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1))).copied();
        let asked: Vec<&ConnectionLatencies> = connections.iter().filter(|one| !one.is_empty()).collect();
        let means = asked.iter().map(|one| one.iter().sum::<f64>() / one.len() as f64);
        let medians = asked.iter().filter_map(|one| median(one.iter().copied()));
        Some(Latencies {
            answered_s: all.len() as f64 / seconds,
            median_s: at(0.5)?,
            p99_s: at(0.99)?,
            slowest_s: at(1.0)?,
            mean_unfairness: most_by_median(means)?,
            median_unfairness: most_by_median(medians)?,
        })
    }
}

/// The highest value divided by the median of all.
fn most_by_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    spread(values).map(|values| values.most / values.median)
}

/// The result of a phase.
#[derive(Clone, Copy, Debug)]
pub struct LoadResult {
    /// Of queries by native sessions.
    pub sessions: Option<Latencies>,
    /// Of HTTP requests.
    pub requests: Option<Latencies>,
}

/// Puts a load on the node at this port of loopback.
///
/// # Errors
/// The node cannot be reached, or a request fails.
pub fn run(port: u16, file: &str, load: OfferedLoad) -> Result<LoadResult> {
    let files = RequestedFiles { small: file.to_owned(), large: (file.to_owned(), 0) };
    // All sessions are open before the phase begins and until it is over: neither opening nor closing a thousand of them belongs to it.
    let mut sessions = open_sessions(port, load.sessions)?;
    let begin = Instant::now() + Duration::from_secs(1);
    thread::scope(|scope| {
        let native = (0..).zip(&mut sessions);
        let native = native.map(|(thread, own)| scope.spawn(move || ask_in_turn(own, load, thread, begin)));
        let native: Vec<_> = native.collect();
        let http = (0..load.connections).map(|at| {
            let files = &files;
            scope.spawn(move || request_at_rate(port, files, load, at, begin))
        });
        let http: Vec<_> = http.collect();
        let mut of_sessions = Vec::new();
        for handle in native {
            of_sessions.extend(handle.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        let mut of_requests = Vec::new();
        for handle in http {
            of_requests.push(handle.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        let seconds = load.time.as_secs_f64();
        Ok(LoadResult {
            sessions: Latencies::of(&of_sessions, seconds),
            requests: Latencies::of(&of_requests, seconds),
        })
    })
}

/// Opens sessions, as many for each thread; none where there are none.
fn open_sessions(port: u16, count: u32) -> Result<Vec<Vec<Session>>> {
    let at = HostPort { host: "127.0.0.1".into(), port };
    let open =
        |_| -> Result<Session> { Ok(Session::connect(&at, &Connect::new(Trust::Fingerprints(Vec::new()), &[])?)?) };
    let share = |thread: u32| (thread..count).step_by(SESSION_THREADS as usize).map(open).collect::<Result<Vec<_>>>();
    let threads = 0..SESSION_THREADS.min(count);
    threads.map(|thread| share(thread).with_context(|| format!("{count} native sessions"))).collect()
}

/// Has each session of a thread ask at its interval until the phase is over; the queries of all threads are spread evenly.
fn ask_in_turn(
    sessions: &mut [Session],
    load: OfferedLoad,
    thread: u32,
    begin: Instant,
) -> Result<Vec<ConnectionLatencies>> {
    let mut latencies = vec![Vec::new(); sessions.len()];
    let step = load.session_interval / sessions.len().max(1) as u32;
    let mut due = begin + step * thread / SESSION_THREADS;
    for at in (0..sessions.len()).cycle() {
        if due >= begin + load.time {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        sessions[at].query(Request::List(NodePlace::Exports), |_| ())?;
        latencies[at].push(due.elapsed().as_secs_f64());
        due += step;
    }
    Ok(latencies)
}

/// Makes requests over one connection at its part of the rate until the phase is over.
fn request_at_rate(
    port: u16,
    files: &RequestedFiles,
    load: OfferedLoad,
    at: u32,
    begin: Instant,
) -> Result<ConnectionLatencies> {
    let mut call = RequestKind::Get.caller(port, files)?;
    call()?;
    let step = Duration::from_secs(1) * load.connections / load.requests_s.max(1);
    let mut due = begin + step * at / load.connections.max(1);
    let mut latencies = Vec::new();
    while due < begin + load.time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // A node that falls behind must not prolong the phase.
        if begin.elapsed() > load.time {
            break;
        }
        call()?;
        latencies.push(due.elapsed().as_secs_f64());
        due += step;
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_connections_are_summed_up() {
        let even: Vec<ConnectionLatencies> =
            vec![(1..=50).map(f64::from).collect(), (51..=100).map(f64::from).collect()];
        let all = Latencies::of(&even, 10.0).unwrap();
        assert_eq!((all.answered_s, all.median_s, all.p99_s), (10.0, 51.0, 100.0));
        assert_eq!(all.slowest_s, 100.0);
        let one_waits = Latencies::of(&[vec![1.0; 10], vec![1.0; 10], vec![5.0; 10]], 1.0).unwrap();
        assert_eq!((one_waits.mean_unfairness, one_waits.median_unfairness), (5.0, 5.0));
        let one_pause = Latencies::of(&[vec![1.0; 3], vec![1.0; 3], vec![1.0, 10.0, 1.0]], 1.0).unwrap();
        assert_eq!((one_pause.mean_unfairness, one_pause.median_unfairness), (4.0, 1.0));
        assert_eq!(Latencies::of(&[Vec::new()], 1.0), None);
    }
}
