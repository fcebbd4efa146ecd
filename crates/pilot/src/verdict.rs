//! Says what limited a transfer, with evidence and remedy, from the time of the threads of both ends and the kernel's counters of the
//! streams.
//!
//! A thread works for the job or waits for one of four things: a file, the socket, a limit, an order. Where the threads of one end hardly
//! ever wait, that end is the limit. Where both ends wait for their sockets, the limit lies between them: windows, loss, or the path.

mod network;
mod shares;
mod waits;

use std::time::Duration;

use model::account::{Account, Stage, TargetWaits};
use model::units::BitRate;
use model::v1::{self, Limit, Stream};

pub use shares::{LimitingPart, Shares, limiting_part};

/// The measurements of a transfer by its two ends.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Statistics of the streams, from the end that sent; number 0 is the control connection.
    pub streams: Vec<Stream>,
    /// The account of this end.
    pub account: Account,
    /// The last account of the other end.
    pub peer: Option<Account>,
    /// Files that were put in place.
    pub files: u64,
    /// The bytes of those files.
    pub bytes: u64,
    /// Files that were in place before.
    pub skipped: u64,
    /// How long the receiving end waited at its target.
    pub waited: TargetWaits,
    /// The time from the start of the transfer until the whole tree was known.
    pub scanned_after: Option<Duration>,
    /// The transfer failed.
    pub failed: bool,
}

/// The input of a verdict.
pub struct Case<'a> {
    /// The measurements.
    pub measured: &'a Measured,
    /// Whether this end sent.
    pub pushing: bool,
    /// The limit that was set, bit/s; 0 for none.
    pub limit_bit_s: u64,
    /// The limit was set at the other end.
    pub limit_is_remote: bool,
    /// This end of the job is a pipe.
    pub pipe: bool,
    /// How long there was no session, or no message on it.
    pub unreachable: Duration,
    /// The time of all attempts together.
    pub all_attempts: Duration,
    /// The time from the first request to the last byte, of the last attempt.
    pub elapsed: Duration,
}

impl<'a> Case<'a> {
    /// A job without a limit or a pipe, of one attempt from its start to its last byte.
    pub fn new(measured: &'a Measured, pushing: bool, elapsed: Duration) -> Case<'a> {
        Case {
            measured,
            pushing,
            limit_bit_s: 0,
            limit_is_remote: false,
            pipe: false,
            unreachable: Duration::ZERO,
            all_attempts: elapsed,
            elapsed,
        }
    }
}

/// One end of a case.
#[derive(Clone, Copy)]
struct AccountedEnd<'a> {
    account: &'a Account,
    shares: Shares,
    /// The end reads from a pipe, or writes into one.
    pipe: bool,
}

impl<'a> AccountedEnd<'a> {
    /// The sending end; none if its threads did nothing at all.
    fn sending(account: &'a Account, spare: f64, pipe: bool) -> Option<AccountedEnd<'a>> {
        Some(AccountedEnd { account, shares: Shares::of_sender(account, spare)?, pipe })
    }

    fn receiving(account: &'a Account, spare: f64, pipe: bool) -> Option<AccountedEnd<'a>> {
        Some(AccountedEnd { account, shares: Shares::of_receiver(account, spare)?, pipe })
    }
}

/// A job that took less time than this shows no limit.
const SHORT_JOB: Duration = Duration::from_millis(100);

/// The share from which on something takes most of the time.
const MOST: f64 = 0.5;

/// A stream that carried less than this part of the busiest one's bytes was not needed.
const SPARE: f64 = 0.05;

/// The part of the streams, given the bytes of each, that carried next to nothing. A file whose digest needs the bytes in order goes on
/// one stream, however many there are; the time in which the others wait is no evidence.
pub fn spare(bytes: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = bytes.clone().fold(0.0, f64::max);
    let (unused, all) =
        bytes.fold((0.0, 0.0), |(unused, all), bytes| (unused + f64::from(u8::from(bytes < most * SPARE)), all + 1.0));
    if all > 0.0 { unused / all } else { 0.0 }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn limit(part: &str, evidence: String, remedy: impl Into<String>) -> Limit {
    Limit { part: part.into(), evidence, remedy: remedy.into() }
}

/// Judges which part limited a transfer.
pub fn of(case: &Case<'_>) -> Limit {
    let streams = data_streams(case);
    let (sent_by, received_by) = accounts(case);
    let (sender, receiver) = threads(case);
    if let Some(limit) = waits::verdict(case) {
        return limit;
    }
    let measured = case.measured;
    let all_skipped = measured.files == 0 && measured.bytes == 0 && measured.skipped > 0;
    if all_skipped || sender.is_none() && receiver.is_none() {
        return without_streams(case);
    }
    if case.elapsed < SHORT_JOB {
        let evidence = format!("the whole job took {:.0} ms: too little to tell", case.elapsed.as_secs_f64() * 1e3);
        return limit("latency", evidence, "nothing: so little data cannot go faster");
    }
    let limiting_part = limiting_part(sender.as_ref().map(|s| &s.shares), receiver.as_ref().map(|r| &r.shares));
    match (limiting_part, &sender, &receiver) {
        (LimitingPart::Cap, Some(s), _) => cap(case, &s.shares),
        (LimitingPart::Target | LimitingPart::ReceiverCpu, _, Some(r)) => {
            receiving(r, sender.as_ref(), &network::idle(case, &streams))
        }
        (LimitingPart::Source | LimitingPart::SenderCpu, Some(s), _) => {
            sending(s, receiver.as_ref(), &network::idle(case, &streams))
        }
        (LimitingPart::Orders, Some(s), _) => starved(case, s, receiver.as_ref()),
        _ => {
            let waited = sender.or(receiver).map_or(0.0, |end| end.shares.socket);
            network::verdict(&network::NetworkFacts { case, streams: &streams, sent_by, received_by, waited })
        }
    }
}

/// The numbers of both ends, this one first, for the receipt.
pub fn ends(case: &Case<'_>) -> Vec<v1::End> {
    let (sender, receiver) = threads(case);
    let (ours, theirs) = if case.pushing { (sender, receiver) } else { (receiver, sender) };
    let end = |here: bool, end: Option<AccountedEnd<'_>>| {
        let AccountedEnd { account, shares, .. } = end?;
        let share = |share: f64| (share * 1e4).round() / 1e4;
        Some(v1::End {
            here,
            sends: here == case.pushing,
            threads: account.threads,
            processors: account.processors,
            busy: f64::from(account.busy_permille) / 1e3,
            receive_buffer_max_bytes: account.receive_buffer_max,
            send_buffer_max_bytes: account.send_buffer_max,
            window_scaling: account.scales_windows,
            cpu: share(shares.cpu),
            storage: share(shares.storage),
            socket: share(shares.socket),
            pace: share(shares.pace),
            idle: share(shares.idle),
        })
    };
    [end(true, ours), end(false, theirs)].into_iter().flatten().collect()
}

fn data_streams<'a>(case: &Case<'a>) -> Vec<&'a Stream> {
    case.measured.streams.iter().filter(|s| s.id > 0).collect()
}

/// The accounts of the end that sent and of the end that received.
fn accounts<'a>(case: &Case<'a>) -> (Option<&'a Account>, Option<&'a Account>) {
    let (ours, theirs) = (Some(&case.measured.account), case.measured.peer.as_ref());
    if case.pushing { (ours, theirs) } else { (theirs, ours) }
}

/// The ends that sent and received, if their threads did anything.
fn threads<'a>(case: &Case<'a>) -> (Option<AccountedEnd<'a>>, Option<AccountedEnd<'a>>) {
    let spare = spare(data_streams(case).iter().map(|s| s.bytes as f64));
    let (sent_by, received_by) = accounts(case);
    let sender = sent_by.and_then(|a| AccountedEnd::sending(a, spare, case.pipe && case.pushing));
    let receiver = received_by.and_then(|a| AccountedEnd::receiving(a, spare, case.pipe && !case.pushing));
    (sender, receiver)
}

/// The verdict where no stream carried data.
fn without_streams(case: &Case<'_>) -> Limit {
    let measured = case.measured;
    if measured.files > 0 {
        let evidence = "all of it went on the control connection, within a few round trips";
        return limit("latency", evidence.into(), "nothing: so little data cannot go faster");
    }
    if measured.skipped > 0 {
        let files = if measured.skipped == 1 { "file was" } else { "files were" };
        let evidence = format!("nothing had to be sent: {} {files} there already, and only compared", measured.skipped);
        return limit(
            "latency",
            evidence,
            "nothing to do; if the comparison takes long, look at the directories at both ends",
        );
    }
    limit("unknown", "no stream carried anything".into(), "")
}

/// The verdict where the threads waited for a limit.
fn cap(case: &Case<'_>, sender: &Shares) -> Limit {
    let waited = sender.pace;
    if case.limit_bit_s == 0 {
        let evidence = format!("sending threads waited {} of their time for a limit or a pause", percent(waited));
        return limit("cap", evidence, "nothing now: neither is in force any more");
    }
    let whose = if case.limit_is_remote { "set at the other end" } else { "set here" };
    let evidence = format!(
        "the job's limit of {}, {whose}; sending threads waited {} of their time for it",
        BitRate(case.limit_bit_s),
        percent(waited)
    );
    let remedy = if case.limit_is_remote {
        "ask whoever runs the other end to lift it: `longhaul job set ID --limit none`"
    } else {
        "raise --limit, or `longhaul job set ID --limit none`"
    };
    limit("cap", evidence, remedy)
}

/// The verdict where the receiving host is the limit.
fn receiving(receiver: &AccountedEnd<'_>, sender: Option<&AccountedEnd<'_>>, network_idle: &str) -> Limit {
    let network =
        sender.map_or(String::new(), |sender| format!(", senders waiting for it {}", percent(sender.shares.waiting())));
    let shares = &receiver.shares;
    if shares.storage < shares.cpu {
        let evidence =
            format!("receiving threads kept processors busy {}{}{network}", percent(shares.cpu), shared(receiver));
        return limit("receiver_cpu", evidence, cpu_remedy(shares, "receiving"));
    }
    let evidence =
        format!("writers busy {}, processors {}{network_idle}{network}", percent(shares.storage), percent(shares.cpu));
    let remedy = if receiver.pipe {
        "what reads from the pipe is slower than all the rest: look there"
    } else {
        "a faster disk or file system at the target; `longhaul cp zero:10GB FILE` there shows what it takes in"
    };
    limit("target", evidence, remedy)
}

/// The verdict where the sending host is the limit.
fn sending(sender: &AccountedEnd<'_>, receiver: Option<&AccountedEnd<'_>>, network_idle: &str) -> Limit {
    let far = receiver.map_or(String::new(), |receiver| {
        format!(", receivers waiting for data {}", percent(receiver.shares.waiting()))
    });
    let shares = &sender.shares;
    if shares.storage < shares.cpu {
        let evidence = format!("sending threads kept processors busy {}{}{far}", percent(shares.cpu), shared(sender));
        return limit("sender_cpu", evidence, cpu_remedy(shares, "sending"));
    }
    let evidence =
        format!("readers busy {}, processors {}{network_idle}{far}", percent(shares.storage), percent(shares.cpu));
    let remedy = if sender.pipe {
        "what writes into the pipe is slower than all the rest: look there"
    } else {
        "a faster disk or file system at the source; `longhaul cp FILE null:` there shows what it gives"
    };
    limit("source", evidence, remedy)
}

/// From this number of files on, small files are named as the reason.
const SMALL_FILES_MIN: u64 = 100;
const SMALL_FILE_BYTES: u64 = 1 << 20;

/// A job of fewer round trips than these is too short to be limited by anything but latency.
const FEW_ROUNDS: f64 = 8.0;

/// The verdict where streams were ready, and there was no data to send.
fn starved(case: &Case<'_>, sender: &AccountedEnd<'_>, receiver: Option<&AccountedEnd<'_>>) -> Limit {
    let idle = percent(sender.shares.idle);
    let each = sender.shares.seconds.max(1e-9);
    // One thread puts the last file in place while all others wait: the flush of a large file.
    let longest = receiver.map_or(0.0, |r| r.account.spent.longest[Stage::Storage as usize].as_secs_f64());
    if longest > each * MOST / 2.0 {
        let evidence = format!("one write or flush of a file took {longest:.1} s; senders had nothing to do {idle}");
        return limit(
            "target",
            evidence,
            "a faster disk or file system at the target; without --durable nothing waits",
        );
    }
    let scan = case.measured.scanned_after.map_or(0.0, |d| d.as_secs_f64());
    if scan > case.elapsed.as_secs_f64() * MOST && scan > 0.5 {
        let evidence = format!("listing the source took {scan:.1} s; senders had nothing to do {idle} of their time");
        return limit("source", evidence, "a faster directory at the source, or fewer and larger files");
    }
    let rtt = case.measured.streams.iter().map(|s| s.min_rtt_s).fold(0.0, f64::max);
    let rounds = case.elapsed.as_secs_f64() / rtt.max(1e-6);
    if rounds < FEW_ROUNDS {
        let evidence = format!("the whole job took {rounds:.1} round trips of {}", network::ms(rtt));
        return limit("latency", evidence, "nothing: so little data cannot go faster");
    }
    let evidence = format!("sending threads waited {idle} of their time for the receiver to ask for more");
    let measured = case.measured;
    let remedy = if measured.files >= SMALL_FILES_MIN && measured.bytes / measured.files < SMALL_FILE_BYTES {
        "many small files: look at the metadata rate of the target's file system, or pack them"
    } else {
        "the target was slow to take files in: another writer, a full disk that was waited for, or a slow directory there"
    };
    limit("latency", evidence, remedy)
}

/// The ratio of wall to processor time from which on processors were shared with other work.
const SHARED: f64 = 1.4;

fn shared(end: &AccountedEnd<'_>) -> String {
    let a = end.account;
    let stretch = end.shares.stretch;
    let host = format!(" ({} processors, {:.0} % of them in use)", a.processors, f64::from(a.busy_permille) / 10.0);
    if stretch > SHARED {
        format!("{host}, and got one for {} of the time that they wanted it", percent(1.0 / stretch))
    } else {
        host
    }
}

fn cpu_remedy(shares: &Shares, doing: &str) -> String {
    if shares.stretch > SHARED {
        return format!(
            "other work takes the processors of the {doing} host, or its share of them is limited: look at `top` there"
        );
    }
    format!("more or faster processors at the {doing} host; --plain or fewer --checksum save some")
}

#[cfg(test)]
mod tests;
