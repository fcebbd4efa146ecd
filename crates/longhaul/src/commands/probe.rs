//! `longhaul probe`: tests with a node, or with a server of another protocol.

mod all;
mod check;
mod disk;
mod latency;
mod limits;
mod path;
mod scan;
mod target;
mod tcp;
mod tcp_peer;
mod udp;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::Exit;
use model::fault::{Blame, Fault};
use model::v1::probe::ProbeDocument;
use probe::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{Probe, ProbeTest};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub use target::{Target, connect};
pub use tcp_peer::TcpPeer;

/// Runs the command. Returns its exit code; with `--check` that of a monitoring plug-in.
///
/// # Errors
/// The other end cannot be reached or refuses the test, or an option is wrong. With `--check` a test that fails is an exit code instead.
pub fn run(probe: &Probe, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let done = |exit: Exit| exit as u8;
    match &probe.test {
        ProbeTest::Tcp(tcp) => tcp::run(tcp, settings, printer, &stop),
        ProbeTest::Latency(latency) => latency::run(latency, settings, printer, &stop),
        ProbeTest::Udp(udp) => udp::run(udp, settings, printer, &stop),
        ProbeTest::Path(path) => path::run(path, settings, printer, &stop).map(done),
        ProbeTest::Disk(disk) => disk::run(disk, settings, printer, &stop).map(done),
        ProbeTest::All(all) => all::run(all, settings, printer, &stop),
        ProbeTest::Limits(limits) => limits::run(limits, settings, printer).map(done),
    }
}

/// A stop flag that SIGINT, SIGTERM and SIGHUP set: the test then ends in order. A second SIGINT or SIGTERM ends the program.
///
/// # Errors
/// A signal handler cannot be set.
pub fn stop_on_signals() -> Result<Stop, Failure> {
    let flag = Arc::<AtomicBool>::default();
    let failed = |e| Failure::local(format!("cannot handle signals: {e}"));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(failed)?;
    }
    // A terminal that goes away sends SIGHUP twice, from the kernel and from the shell: the second one must not end the program.
    // Under nohup the program must go on.
    if !is_ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), SIGHUP) {
        signal_hook::flag::register(SIGHUP, Arc::clone(&flag)).map_err(failed)?;
    }
    Ok(Stop::from(flag))
}

/// Whether a signal is ignored, by the text of /proc/self/status: bit 0 of the mask is signal 1.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

impl From<probe::Error> for Failure {
    fn from(error: probe::Error) -> Failure {
        let usage = matches!(error, probe::Error::Order(_));
        let failure = Failure::from_chain(error.fault(), &error);
        if usage { Failure { exit: Exit::Usage, fault: Fault::Config, ..failure } } else { failure }
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, 13));
        assert!(!is_ignored(status, SIGINT) && !is_ignored("", SIGHUP) && !is_ignored(status, 0));
    }

    #[test]
    fn a_terminal_that_goes_away_ends_the_test_in_order() {
        if is_ignored(&std::fs::read_to_string("/proc/self/status").unwrap(), SIGHUP) {
            println!("SKIPPED a_terminal_that_goes_away_ends_the_test_in_order: SIGHUP is ignored here");
            return;
        }
        let stop = stop_on_signals().unwrap();
        assert!(!stop.is_stopped());
        // SIGHUP comes twice, and the program must survive both.
        raise(SIGHUP).unwrap();
        raise(SIGHUP).unwrap();
        assert!(stop.is_stopped());
    }
}
