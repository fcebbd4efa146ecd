//! The arguments of `longhaul tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

/// The highest rate that is accepted. No port is as fast, so a higher rate is a typing error.
pub const RATE_MAX: BitRate = BitRate(100_000_000_000_000);
/// The longest round trip that is accepted. Light takes 2.6 s to the Moon and back.
pub const RTT_MAX: Duration = Duration::from_secs(60);

/// Audit a data transfer node: explain its settings, change them, take that back.
///
/// An audit needs no root, changes nothing and sends nothing. What cannot be read is said to be unknown.
#[derive(Debug, ClapArgs)]
pub struct Tune {
    #[command(subcommand)]
    pub action: TuneAction,
    /// Look at a recorded host: a tree with proc/, sys/ and etc/ in place of this one
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// How every setting stands, the worst first, and why it matters
    Audit(TuneAudit),
    /// What would be changed, as a script and as a diff; nothing is done
    Plan(TunePlan),
    /// Change it; all that is there is kept first, and `undo` brings it back
    Apply(TuneApply),
    /// Bring back what was there before `apply`
    Undo(TuneUndo),
    /// What changes do, measured: as it is and changed, by turns
    Verify(TuneVerify),
    /// Where the settings of two hosts drift apart
    Compare(TuneCompare),
    /// Keep an eye on drops, and on settings that somebody changes
    Watch(TuneWatch),
    /// What a rate, a round trip, a loss and a volume imply, with formula and source
    Calc(TuneCalc),
}

/// What a host is meant for.
#[derive(Debug, Clone, ClapArgs)]
pub struct TunePurpose {
    /// The rate that transfers are to reach: 100Gbit/s
    ///
    /// Default: each NIC's own speed; where that is not known, what depends on it is unknown.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<BitRate>,
    /// The longest round trip to those that it transfers to or from: 303ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = rtt)]
    pub rtt: Duration,
    /// What the host does
    #[arg(long, value_name = "ROLE", default_value = "both")]
    pub role: TuneRole,
}

/// What the host is meant for, and what of it is looked at.
#[derive(Debug, Clone, ClapArgs)]
pub struct TuneTarget {
    #[command(flatten)]
    pub purpose: TunePurpose,
    /// Only this NIC; may be given again
    ///
    /// Default: all that are up and real; in a container all that are up.
    #[arg(long, value_name = "IF")]
    pub nic: Vec<String>,
    /// The disk that the data lie on: a directory on it, or its name; may be given again
    ///
    /// Without it no disk is looked at.
    #[arg(long, value_name = "PATH")]
    pub disk: Vec<PathBuf>,
}

/// What a host does.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TuneRole {
    /// It transfers data
    Dtn,
    /// It measures
    Measurement,
    /// Both
    Both,
}

#[derive(Debug, ClapArgs)]
pub struct TuneAudit {
    /// All there is to say of these rules: why, who says so, the command, how it lasts
    #[arg(value_name = "RULE", conflicts_with = "check")]
    pub rules: Vec<String>,
    #[command(flatten)]
    pub target: TuneTarget,
    /// Leave these rules out: what is known and accepted here; may be given again, or separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// List also what is as wanted, and what is not for this host
    #[arg(long)]
    pub all: bool,
    /// Write all of it as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// One line and the exit code of a monitoring plug-in: 0 well, 1 a warning, 2 critical, 3 unknown
    ///
    /// Critical where a setting of severity high is not as wanted, a warning where another is; unknown where none is,
    /// but one of severity high or medium could not be read. Severity info never counts.
    #[arg(long, conflicts_with = "all")]
    pub check: bool,
}

#[derive(Debug, ClapArgs)]
pub struct TunePlan {
    /// Only these rules, by the ids that `audit` shows
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    #[command(flatten)]
    pub target: TuneTarget,
    /// The script alone
    #[arg(long, conflicts_with = "diff")]
    pub script: bool,
    /// The diff alone
    #[arg(long)]
    pub diff: bool,
}

/// Change settings; all that is there is kept first, and `undo` brings it back.
///
/// Where the kernel refuses a change half-way, those before it are taken back. Without RULE everything that differs and
/// can be changed here is, after it was shown and agreed to.
#[derive(Debug, ClapArgs)]
pub struct TuneApply {
    /// Only these rules, by the ids that `audit` shows
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    #[command(flatten)]
    pub target: TuneTarget,
    /// Let it survive a reboot, in files of our own: sysctl.d, a unit of systemd, rules of udev
    #[arg(long)]
    pub persist: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, ClapArgs)]
pub struct TuneUndo {
    /// Which, as --list names it, or a file
    ///
    /// Default: the last one that was not undone yet.
    pub snapshot: Option<String>,
    /// List what can be undone
    #[arg(long, conflicts_with = "snapshot")]
    pub list: bool,
}

/// What changes do, measured: as it is and changed, by turns; in the end all is as it was.
///
/// A difference that chance alone brings about more often than once in a hundred times is called noise (rank-sum test of
/// Mann and Whitney). Five rounds reach that only where the two sides do not overlap at all; more rounds find less.
#[derive(Debug, ClapArgs)]
pub struct TuneVerify {
    /// Only these rules, by the ids that `audit` shows
    ///
    /// Default: all that differ, can be changed here and are about what is measured.
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    /// What it is measured with: a node (HOST[:PORT]), iperf3://HOST, or a directory for the disk below it
    #[arg(long, value_name = "TARGET")]
    pub with: String,
    #[command(flatten)]
    pub target: TuneTarget,
    /// How long one test lasts; one of a disk at most so long for writing and for reading
    #[arg(long, short = 't', value_name = "TIME", default_value = "3s", value_parser = test_time)]
    pub time: Duration,
    /// How often each side is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=30))]
    pub rounds: u32,
    /// Streams, or files at once
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub streams: u32,
    /// From the other end to here: what settings of a receiver do
    #[arg(long, short = 'R')]
    pub reverse: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// Where the settings of two hosts drift apart, and which of them is to change.
///
/// A host is `here`, a node (HOST[:PORT]) whose operator lets holders of a key ask (`serve --audit`), or a file that
/// `tune audit --json` has written. What one of the two cannot say is left out.
#[derive(Debug, ClapArgs)]
pub struct TuneCompare {
    /// The one: here, HOST[:PORT], or a file
    pub a: String,
    /// The other
    pub b: String,
    #[command(flatten)]
    pub purpose: TunePurpose,
    /// One line and the exit code of a monitoring plug-in, as of `tune audit`
    #[arg(long)]
    pub check: bool,
}

/// Keep an eye on drops, and on settings that somebody changes: a line for each.
///
/// At the start it also says what `tune apply` had set and is something else by now.
#[derive(Debug, ClapArgs)]
pub struct TuneWatch {
    #[command(flatten)]
    pub target: TuneTarget,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = every)]
    pub every: Duration,
    /// How long
    ///
    /// Default: until it is stopped; with --check ten seconds.
    #[arg(long, short = 't', value_name = "TIME", value_parser = every)]
    pub time: Option<Duration>,
    /// One line at the end and the exit code of a monitoring plug-in
    ///
    /// Critical where a setting of severity high is not as wanted any more, a warning where another is, or something was
    /// dropped.
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, ClapArgs)]
pub struct TuneCalc {
    /// The rate of the line: 10Gbit/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<BitRate>,
    /// The round trip: 150ms
    #[arg(long, value_name = "TIME", value_parser = rtt)]
    pub rtt: Option<Duration>,
    /// Packets lost at random: 0.001%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub loss: Option<f64>,
    /// The largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(68..=65_535))]
    pub mtu: u32,
    /// The window of each stream: 64MiB; at most 1023.98MiB, TCP's largest (RFC 7323)
    ///
    /// Default: the largest, which is what is to be expected where buffers allow it.
    #[arg(long, value_name = "SIZE", value_parser = window)]
    pub window: Option<Bytes>,
    /// What is to be moved: 1TB
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Streams that share the rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub streams: Option<u32>,
    /// The share of the rate that is payload: 80%
    ///
    /// Default: what headers leave of full packets.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub efficiency: Option<f64>,
    /// Disks in a parcel instead: how long from door to door
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse, requires = "size")]
    pub ship: Option<Duration>,
    /// How fast those disks are filled, and emptied again
    ///
    /// Default: copying costs no time.
    #[arg(long, value_name = "RATE", requires = "ship")]
    pub ship_copy: Option<BitRate>,
}

fn rate(text: &str) -> Result<BitRate, String> {
    let rate: BitRate = text.parse().map_err(|e: model::units::UnitError| e.to_string())?;
    if rate <= RATE_MAX { Ok(rate) } else { Err(format!("{rate} is faster than any port (at most {RATE_MAX})")) }
}

fn rtt(text: &str) -> Result<Duration, String> {
    let rtt = model::duration::parse(text).map_err(|e| e.to_string())?;
    if rtt.is_zero() || rtt > RTT_MAX {
        Err("a round trip takes more than 0 s, and at most a minute".into())
    } else {
        Ok(rtt)
    }
}

/// Parses the duration of a test: long enough to measure a rate, short enough to be repeated.
fn test_time(text: &str) -> Result<Duration, String> {
    let time = model::duration::parse(text).map_err(|e| e.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(600);
    if allowed.contains(&time) { Ok(time) } else { Err("a test takes from 1s to 10min".into()) }
}

/// Parses the interval between two audits. An audit itself takes some tenths of a second.
fn every(text: &str) -> Result<Duration, String> {
    let every = model::duration::parse(text).map_err(|e| e.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    if allowed.contains(&every) { Ok(every) } else { Err("the interval is from 1s to 24h".into()) }
}

/// Parses a window, of at most the size that TCP can advertise.
fn window(text: &str) -> Result<Bytes, String> {
    let window: Bytes = text.parse().map_err(|e: model::units::UnitError| e.to_string())?;
    if (1..=model::laws::WINDOW_BYTES_MAX).contains(&window.0) {
        Ok(window)
    } else {
        Err(format!("a TCP window has from 1 to {} bytes (RFC 7323)", model::laws::WINDOW_BYTES_MAX))
    }
}

/// Parses a share with its unit. A number without a unit is refused: it could be a fraction or a percentage.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|number| number / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write it in per cent, like 0.001%, and at most 100%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_rates_and_round_trips_are_refused() {
        assert_eq!(rate("400Gbit/s").map(|rate| rate.0), Ok(400_000_000_000));
        assert!(rate("101Tbit/s").is_err() && rate("10").is_err() && rate("0Gbit/s").is_err());
        assert_eq!(rtt("303ms"), Ok(Duration::from_millis(303)));
        assert!(rtt("0s").is_err() && rtt("2min").is_err() && rtt("303").is_err());
    }

    #[test]
    fn a_share_needs_its_unit() {
        assert_eq!((percent("50%"), percent("0 %")), (Ok(0.5), Ok(0.0)));
        assert!(
            percent("0.5").is_err() && percent("101%").is_err() && percent("-1%").is_err() && percent("nan%").is_err()
        );
    }
}
