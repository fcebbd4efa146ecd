//! What can be typed after `longhaul tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use model::units::{BitRate, Bytes};

/// No port is as fast: a rate above it is a slip of the finger.
const RATE_MAX: BitRate = BitRate(100_000_000_000_000);
/// Light is to the Moon and back in 2.6 s.
const RTT_MAX: Duration = Duration::from_secs(60);

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
    /// What a rate, a round trip, a loss and a volume imply, with formula and source
    Calc(TuneCalc),
}

/// What the host is meant for.
#[derive(Debug, Clone, ClapArgs)]
pub struct TuneTarget {
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
    #[command(flatten)]
    pub target: TuneTarget,
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
    /// The window of each stream: 64MiB
    #[arg(long, value_name = "SIZE")]
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
    match rate <= RATE_MAX {
        true => Ok(rate),
        false => Err(format!("{rate} is more than any port can ({RATE_MAX})")),
    }
}

fn rtt(text: &str) -> Result<Duration, String> {
    let rtt = model::duration::parse(text).map_err(|e| e.to_string())?;
    match rtt.is_zero() || rtt > RTT_MAX {
        true => Err("a round trip takes more than nothing, and no minute".into()),
        false => Ok(rtt),
    }
}

/// A share, with its unit: a bare number could be either.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|number| number / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write it in per cent, like 0.001%, and at most 100%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_path_has_is_refused() {
        assert_eq!(rate("400Gbit/s").map(|rate| rate.0), Ok(400_000_000_000));
        assert!(rate("101Tbit/s").is_err() && rate("10").is_err() && rate("0Gbit/s").is_err());
        assert_eq!(rtt("303ms"), Ok(Duration::from_millis(303)));
        assert!(rtt("0s").is_err() && rtt("2min").is_err() && rtt("303").is_err());
    }

    #[test]
    fn shares_have_their_unit() {
        assert_eq!((percent("50%"), percent("0 %")), (Ok(0.5), Ok(0.0)));
        assert!(
            percent("0.5").is_err() && percent("101%").is_err() && percent("-1%").is_err() && percent("nan%").is_err()
        );
    }
}
