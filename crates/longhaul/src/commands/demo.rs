//! `longhaul demo`: shows a collaboration on this machine: three nodes, a hub with a watch, and running transfers.

mod collaboration;
mod data;
mod network;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use model::fault::Exit;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::collaboration::Collaboration;
use self::network::DemoNetwork;
use crate::args::Demo;
use crate::failure::Failure;
use crate::printer::Printer;

/// The time between two rounds of transfers: about as long as one round takes below the mark.
const ROUND: Duration = Duration::from_secs(25);
/// How often the main thread checks for a signal.
const SIGNAL_CHECK_EVERY: Duration = Duration::from_millis(100);

/// Runs until a signal ends it.
///
/// # Errors
/// A process or the emulated network cannot be started, or the hub refuses a job.
pub fn run(demo: &Demo, printer: &Printer) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| Failure::local(format!("cannot handle signals: {error}")))?;
    }
    let dir = tempfile::Builder::new().prefix("longhaul-demo-").tempdir();
    let dir = dir.map_err(|error| Failure::local(format!("cannot make a temporary directory: {error}")))?;
    let started = Instant::now();
    let (network, why) = DemoNetwork::make(demo.loopback, dir.path())?;
    printer.line(&match why {
        None => "an emulated network: round trips of 20 ms from geneva to amsterdam, 250 ms to perth".to_owned(),
        Some(why) => format!("over plain loopback ({why}): no long paths, and no soft failure to find"),
    });
    let collaboration = Collaboration::start(network, demo.listen, dir.path(), &stop)?;
    printer.line(&format!("three nodes, a hub and its watch run ({:.0} s)", started.elapsed().as_secs_f64()));
    print_instructions(&collaboration, printer);
    // Another thread submits the data: a slow hub must not delay the handling of a signal.
    let (end_sender, end_receiver) = mpsc::channel::<()>();
    let submitted = std::thread::scope(|scope| {
        let running = &collaboration;
        let submitter = scope.spawn(move || submit_rounds(running, &end_receiver));
        while !stop.load(Ordering::Relaxed) && !submitter.is_finished() {
            std::thread::sleep(SIGNAL_CHECK_EVERY);
        }
        drop(end_sender);
        submitter.join().unwrap_or(Ok(()))
    });
    drop(collaboration);
    submitted?;
    printer.line("all of it has ended, and nothing is left");
    Ok(Exit::Done)
}

/// Submits data in rounds, until the other end of the channel is dropped.
fn submit_rounds(collaboration: &Collaboration, end: &mpsc::Receiver<()>) -> Result<(), Failure> {
    for round in 0.. {
        collaboration.submit_round(round)?;
        if end.recv_timeout(ROUND) != Err(mpsc::RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
    Ok(())
}

/// Prints the address of the portal, and steps to follow there.
fn print_instructions(collaboration: &Collaboration, printer: &Printer) {
    let at = collaboration.portal();
    printer.line(&format!("\nportal:   {at}/\nsign in:  {at}/#key={}\n", collaboration.key()));
    printer.line("What to click:");
    let mut steps = vec![
        "Transfers, also of others: data moves from amsterdam to perth; open one: its rate, and what limits it",
        "Queue: the link to perth is used up to its mark, half of it; Operation: stop an endpoint and see what waits",
        "Files: geneva on the left, amsterdam on the right; mark something and move it; look at observation.fits",
        "Files: mark a folder and share it; open the link in a private window",
        "Map: the three sites, and what moves between them",
    ];
    if collaboration.has_soft_failure() {
        steps.push(
            "Watch: within two minutes an alarm names the path from geneva to perth that loses 1 % of its packets",
        );
    } else {
        steps.push("Watch: the paths between the nodes, measured all the time");
    }
    for (number, step) in (1..).zip(steps) {
        printer.line(&format!("  {number}. {step}"));
    }
    printer.line("\nCtrl-C ends all of it.");
}
