//! The arguments of `longhaul tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

/// The highest rate that is accepted. No port is as fast, so a higher rate is a typing error.
pub const RATE_MAX: BitRate = BitRate(100_000_000_000_000);
/// The longest round trip that is accepted. Light takes 2.6 s to the Moon and back.
pub const RTT_MAX: Duration = Duration::from_secs(60);

/// Audit a data transfer node: explain its settings, change them, undo the changes.
///
/// An audit needs no root, changes nothing and sends nothing. It reports a setting that it cannot read as unknown.
#[derive(Debug, ClapArgs)]
pub struct Tune {
    #[command(subcommand)]
    pub action: TuneAction,
    /// Audit a recorded host instead of this one: a directory with proc/, sys/ and etc/
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Show every setting, the worst first, and why it matters
    Audit(TuneAudit),
    /// Show the changes that `apply` would make, as a script and as a diff; change nothing
    Plan(TunePlan),
    /// Change settings, after saving the present values; `undo` restores them
    Apply(TuneApply),
    /// Restore the values from before `apply`
    Undo(TuneUndo),
    /// Measure the effect of changes: test without and with each change, by turns
    Verify(TuneVerify),
    /// Compare the settings of two hosts
    Compare(TuneCompare),
    /// Report dropped packets and changed settings as they happen
    Watch(TuneWatch),
    /// Calculate from a rate, a round trip, a loss and a volume, with formula and source
    Calc(TuneCalc),
}

/// The purpose of a host.
#[derive(Debug, Clone, ClapArgs)]
pub struct TunePurpose {
    /// The rate that transfers should reach: 100Gbit/s
    ///
    /// Default: the speed of each NIC. If that is not known, the settings that depend on it are unknown.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<BitRate>,
    /// The longest round trip to the other ends of its transfers: 303ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = rtt)]
    pub rtt: Duration,
    /// The role of the host
    #[arg(long, value_name = "ROLE", default_value = "both")]
    pub role: TuneRole,
}

/// The purpose of the host, and the parts of it to audit.
#[derive(Debug, Clone, ClapArgs)]
pub struct TuneTarget {
    #[command(flatten)]
    pub purpose: TunePurpose,
    /// Audit only this NIC; can be repeated
    ///
    /// Default: all physical NICs that are up; in a container, all NICs that are up.
    #[arg(long, value_name = "IF")]
    pub nic: Vec<String>,
    /// Audit the disk of the data: a directory on it, or the name of the disk; can be repeated
    ///
    /// Default: no disk is audited.
    #[arg(long, value_name = "PATH")]
    pub disk: Vec<PathBuf>,
}

/// The role of a host.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TuneRole {
    /// The host transfers data
    Dtn,
    /// The host makes measurements
    Measurement,
    /// Both
    Both,
}

#[derive(Debug, ClapArgs)]
pub struct TuneAudit {
    /// Explain these rules in full: the reason, the source, the command, how the change survives a reboot
    #[arg(value_name = "RULE", conflicts_with = "check")]
    pub rules: Vec<String>,
    #[command(flatten)]
    pub target: TuneTarget,
    /// Ignore these rules, for example those that you have accepted; can be repeated, or separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Also list settings that are as wanted, and rules that do not apply to this host
    #[arg(long)]
    pub all: bool,
    /// Also write everything as a page to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one line and exit as a monitoring plug-in: 0 ok, 1 warning, 2 critical, 3 unknown
    ///
    /// Critical: a setting of severity high is not as wanted. Warning: another setting is not as wanted. Unknown: all settings that
    /// could be read are as wanted, but one of severity high or medium could not be read. Severity info never counts.
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
    /// Print only the script
    #[arg(long, conflicts_with = "diff")]
    pub script: bool,
    /// Print only the diff
    #[arg(long)]
    pub diff: bool,
}

/// Change settings, after saving the present values; `undo` restores them.
///
/// If the kernel refuses a change, the command undoes the changes before it. Without RULE, the command shows all settings that
/// differ and that can be changed on this host, asks, and changes them.
#[derive(Debug, ClapArgs)]
pub struct TuneApply {
    /// Only these rules, by the ids that `audit` shows
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    #[command(flatten)]
    pub target: TuneTarget,
    /// Make the changes survive a reboot, in files of Longhaul's own: sysctl.d, a systemd unit, udev rules
    #[arg(long)]
    pub persist: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, ClapArgs)]
pub struct TuneUndo {
    /// The snapshot to restore: a name from --list, or a file
    ///
    /// Default: the last snapshot that has not been undone yet.
    pub snapshot: Option<String>,
    /// List the snapshots that can be undone
    #[arg(long, conflicts_with = "snapshot")]
    pub list: bool,
}

/// Measure the effect of changes: test without and with each change, by turns; then restore the settings.
///
/// A difference that chance alone causes more often than once in a hundred times is called noise (rank-sum test of Mann and
/// Whitney). Five rounds get below this only if the two sides do not overlap at all; more rounds find smaller differences.
#[derive(Debug, ClapArgs)]
pub struct TuneVerify {
    /// Only these rules, by the ids that `audit` shows
    ///
    /// Default: all rules that differ, that can be changed on this host, and that concern what the test measures.
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    /// Measure with this target: a node (HOST[:PORT]), iperf3://HOST, or a directory for the disk below it
    #[arg(long, value_name = "TARGET")]
    pub with: String,
    #[command(flatten)]
    pub target: TuneTarget,
    /// The length of one test; for a disk, the longest time for writing and for reading each
    #[arg(long, short = 't', value_name = "TIME", default_value = "3s", value_parser = test_time)]
    pub time: Duration,
    /// The number of tests of each side
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=30))]
    pub rounds: u32,
    /// The number of streams; for a disk, of files at the same time
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub streams: u32,
    /// Measure from the other end to this host, for the settings of a receiver
    #[arg(long, short = 'R')]
    pub reverse: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

/// Compare the settings of two hosts, and show which host should change.
///
/// A host is `here`, a node (HOST[:PORT]) that its operator runs with `serve --audit` and for which you have a key, or a file
/// that `tune audit --json` has written. The comparison leaves out settings that one of the hosts cannot read.
#[derive(Debug, ClapArgs)]
pub struct TuneCompare {
    /// The first host: here, HOST[:PORT], or a file
    pub a: String,
    /// The second host
    pub b: String,
    #[command(flatten)]
    pub purpose: TunePurpose,
    /// Print one line and exit as a monitoring plug-in, as `tune audit --check` does
    #[arg(long)]
    pub check: bool,
}

/// Report dropped packets and changed settings as they happen, a line for each.
///
/// At the start, the command also reports settings that have changed since `tune apply` set them.
#[derive(Debug, ClapArgs)]
pub struct TuneWatch {
    #[command(flatten)]
    pub target: TuneTarget,
    /// The interval between two checks
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = every)]
    pub every: Duration,
    /// Watch for this time
    ///
    /// Default: until the command is stopped; with --check, 10s.
    #[arg(long, short = 't', value_name = "TIME", value_parser = every)]
    pub time: Option<Duration>,
    /// At the end, print one line and exit as a monitoring plug-in
    ///
    /// Critical: a setting of severity high is no longer as wanted. Warning: another setting is no longer as wanted, or packets
    /// were dropped.
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
    /// The share of packets that are lost at random: 0.001%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub loss: Option<f64>,
    /// The largest IP packet, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(68..=65_535))]
    pub mtu: u32,
    /// The window of each stream: 64MiB; at most 1023.98MiB, the largest of TCP (RFC 7323)
    ///
    /// Default: the largest, which TCP reaches if the buffers allow it.
    #[arg(long, value_name = "SIZE", value_parser = window)]
    pub window: Option<Bytes>,
    /// The volume to move: 1TB
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// The number of streams that share the rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub streams: Option<u32>,
    /// The share of the rate that is payload: 80%
    ///
    /// Default: the share that headers leave in full packets.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub efficiency: Option<f64>,
    /// Compare with disks in a parcel, which take this time from door to door
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse, requires = "size")]
    pub ship: Option<Duration>,
    /// The rate at which those disks are filled, and emptied again
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
        Err("a round trip must be longer than 0 s, and at most 60 s".into())
    } else {
        Ok(rtt)
    }
}

/// Parses the duration of a test: long enough to measure a rate, short enough to be repeated.
fn test_time(text: &str) -> Result<Duration, String> {
    let time = model::duration::parse(text).map_err(|e| e.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(600);
    if allowed.contains(&time) { Ok(time) } else { Err("the time of a test is from 1s to 10min".into()) }
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
    share.ok_or_else(|| "write a percentage, like 0.001%, of at most 100%".to_owned())
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
