//! What held a job back, with the evidence and the remedy: from where the threads of both ends spent their time, and from
//! what the kernel says about the streams.
//!
//! A thread works for the job or waits for one of four things: a file, the socket, a limit, an order. Where a thread of
//! one end hardly ever waits, that end is the limit; where both ends wait for their sockets, it is what lies between
//! them: windows, loss, or the path itself.

mod network;

use std::time::Duration;

use model::account::{Account, Stage};
use model::units::BitRate;
use model::v1::{Limit, Stream};

use crate::session::Report;

/// What a verdict is about.
pub struct Case<'a> {
    /// How the job went.
    pub report: &'a Report,
    /// These threads sent.
    pub pushing: bool,
    /// The limit that was set, bit/s; 0 for none.
    pub limit_bit_s: u64,
    /// It was set at the other end.
    pub limit_is_theirs: bool,
    /// Time from the first request to the last byte.
    pub elapsed: Duration,
}

/// Shares of the time of one end's threads.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    /// With a processor, or waiting for one.
    cpu: f64,
    /// Waiting for files.
    storage: f64,
    /// Waiting for the socket.
    socket: f64,
    /// Waiting for a limit.
    pace: f64,
    /// Waiting for something to do.
    idle: f64,
    /// How much longer than its processor time did take what needs nothing but a processor: 1 for a processor of one's
    /// own.
    stretch: f64,
}

impl Shares {
    fn of(account: &Account) -> Option<Shares> {
        let (wall, cpu) =
            (|stage| account.spent.wall_in(stage).as_secs_f64(), |stage| account.spent.cpu_in(stage).as_secs_f64());
        let total = account.spent.total().as_secs_f64();
        if total <= 0.0 {
            return None;
        }
        // Checksums never wait for anything but a processor. A few milliseconds say nothing.
        let stretch = match cpu(Stage::Compute) {
            busy if busy > 0.005 => (wall(Stage::Compute) / busy).max(1.0),
            _ => 1.0,
        };
        let working = |stage| (cpu(stage) * stretch).min(wall(stage));
        Some(Shares {
            cpu: (wall(Stage::Compute) + working(Stage::Storage) + working(Stage::Socket)) / total,
            storage: (wall(Stage::Storage) - working(Stage::Storage)) / total,
            socket: (wall(Stage::Socket) - working(Stage::Socket)) / total,
            pace: wall(Stage::Pace) / total,
            idle: wall(Stage::Idle) / total,
            stretch,
        })
    }

    /// How much of the time these threads were kept busy by their own host.
    fn used(&self) -> f64 {
        self.cpu + self.storage
    }
}

/// From this share on a thread is the limit.
const BUSY: f64 = 0.6;

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn limit(part: &str, evidence: String, remedy: impl Into<String>) -> Limit {
    Limit { part: part.into(), evidence, remedy: remedy.into() }
}

/// The limiting part of a job.
pub fn of(case: &Case<'_>) -> Limit {
    let ours = Shares::of(&case.report.account);
    let Some(ours) = ours else {
        if case.report.totals.files == 0 {
            return limit("unknown", "no stream carried anything".into(), "");
        }
        let evidence = "all of it went on the control connection, within a few round trips";
        return limit("latency", evidence.into(), "nothing: so little data cannot go faster");
    };
    let theirs = case.report.peer.as_ref().and_then(Shares::of);
    let (sender, receiver) = if case.pushing { (Some(ours), theirs) } else { (theirs, Some(ours)) };
    let (sent_by, received_by) = match case.pushing {
        true => (Some(&case.report.account), case.report.peer.as_ref()),
        false => (case.report.peer.as_ref(), Some(&case.report.account)),
    };
    if let Some(capped) = cap(case, sender) {
        return capped;
    }
    if let Some(r) = receiver.filter(|r| r.used() > BUSY) {
        return far_end(&r, received_by, sender.as_ref());
    }
    if let Some(s) = sender.filter(|s| s.used() > BUSY) {
        return near_end(&s, sent_by, receiver.as_ref());
    }
    let starved = sender.filter(|s| s.idle > 0.5);
    if let Some(s) = starved {
        let evidence =
            format!("sending threads waited {} of their time for the receiver to ask for more", percent(s.idle));
        return limit(
            "latency",
            evidence,
            "many small files, or a slow directory at the target: look at its metadata rate",
        );
    }
    let streams: Vec<&Stream> = case.report.streams.iter().filter(|s| s.id > 0).collect();
    let waited = sender.or(receiver).map_or(0.0, |s| s.socket);
    network::verdict(&network::Facts { case, streams: &streams, sent_by, received_by, waited })
}

fn cap(case: &Case<'_>, sender: Option<Shares>) -> Option<Limit> {
    let waited = sender.map_or(0.0, |s| s.pace);
    let rate = case.report.totals.bytes as f64 * 8.0 / case.elapsed.as_secs_f64().max(1e-9);
    let kept = case.limit_bit_s > 0 && rate > 0.85 * case.limit_bit_s as f64;
    if case.limit_bit_s == 0 || !(kept || waited > 0.3) {
        return None;
    }
    let whose = if case.limit_is_theirs { "set at the other end" } else { "set here" };
    let evidence = format!(
        "the job's limit of {}, {whose}; sending threads waited {} of their time for it",
        BitRate(case.limit_bit_s),
        percent(waited)
    );
    let remedy = match case.limit_is_theirs {
        true => "ask whoever runs the other end to lift it: `longhaul job set ID --limit none`",
        false => "raise --limit, or `longhaul job set ID --limit none`",
    };
    Some(limit("cap", evidence, remedy))
}

/// The receiving host is the limit.
fn far_end(r: &Shares, account: Option<&Account>, sender: Option<&Shares>) -> Limit {
    let network = sender.map_or(String::new(), |s| format!(", senders waiting for the network {}", percent(s.socket)));
    if r.storage >= r.cpu {
        let evidence = format!("writers busy {}, processors {}{network}", percent(r.storage), percent(r.cpu));
        let remedy =
            "a faster disk or file system at the target; `longhaul cp zero:10GB FILE` there shows what it takes in";
        return limit("target", evidence, remedy);
    }
    let evidence = format!("receiving threads kept processors busy {}{}{network}", percent(r.cpu), shared(r, account));
    limit("receiver_cpu", evidence, relief(r, "receiving"))
}

/// The sending host is the limit.
fn near_end(s: &Shares, account: Option<&Account>, receiver: Option<&Shares>) -> Limit {
    let far = receiver.map_or(String::new(), |r| format!(", receivers waiting for data {}", percent(r.socket)));
    if s.storage >= s.cpu {
        let evidence = format!("readers busy {}, processors {}{far}", percent(s.storage), percent(s.cpu));
        let remedy =
            "a faster disk, file system or pipe at the source; `longhaul cp FILE null:` there shows what it gives";
        return limit("source", evidence, remedy);
    }
    let evidence = format!("sending threads kept processors busy {}{}{far}", percent(s.cpu), shared(s, account));
    limit("sender_cpu", evidence, relief(s, "sending"))
}

/// A processor had to be shared from here on.
const SHARED: f64 = 1.4;

fn shared(shares: &Shares, account: Option<&Account>) -> String {
    let host = account.map_or(String::new(), |a| {
        format!(" ({} processors, {:.0} % of them in use)", a.processors, f64::from(a.busy_permille) / 10.0)
    });
    match shares.stretch > SHARED {
        true => format!("{host}, and got one for {} of the time that they wanted it", percent(1.0 / shares.stretch)),
        false => host,
    }
}

fn relief(shares: &Shares, doing: &str) -> String {
    if shares.stretch > SHARED {
        return format!(
            "other work takes the processors of the {doing} host, or its share of them is limited: look at `top` there"
        );
    }
    format!("more or faster processors at the {doing} host; --plain or fewer --checksum save some")
}

#[cfg(test)]
mod tests;
