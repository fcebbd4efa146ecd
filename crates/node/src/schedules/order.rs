//! Reads a schedule. Nothing is sent to its target yet; an invalid schedule is refused here.

use std::ffi::OsStr;

use model::fault::Fault;
use model::locator::NodePlace;
use model::v1::node::{ProbeOrder, ProbeTest, Repeat, Schedule, ScheduledTest};
use model::{HostPort, Locator, Refusal};
use probe::stamp::stream::Settings;

use crate::test_orders;

/// The interval of runs, seconds: the shortest and the longest.
const EVERY_S: (f64, f64) = (10.0, 30.0 * 86_400.0);
/// The pause before another attempt at a stream that could not begin, seconds.
const RETRY_S: f64 = 30.0;
/// Bytes of a target: a DNS name has at most 253 characters.
const TARGET_BYTES_MAX: usize = 300;

/// The target of a schedule, by its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A node; its STAMP reflector is at the same UDP port.
    Node(HostPort),
    Stamp(HostPort),
    Twamp(HostPort),
    Iperf3(HostPort),
    Pscheduler(HostPort),
    Ping(String),
}

/// A schedule that has been read.
#[derive(Debug)]
pub(super) enum SchedulePlan {
    Stream { target: Target, settings: Settings },
    Repeat { target: Target, repeat: Repeat },
}

fn wrong(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

/// Reads a schedule.
///
/// # Errors
/// The target or the times are invalid, or the target does not answer such a test.
pub(super) fn read(schedule: &Schedule) -> Result<SchedulePlan, Refusal> {
    let target = target(&schedule.target)?;
    match &schedule.test {
        ScheduledTest::Stream(test) => {
            let renews = matches!(target, Target::Node(_) | Target::Stamp(_));
            let settings = Settings::new(*test, renews).map_err(|error| wrong(error.to_string()))?;
            if matches!(target, Target::Iperf3(_) | Target::Pscheduler(_)) {
                return Err(wrong("iperf3 and pScheduler do not answer streams: nodes, ping, STAMP and TWAMP do"));
            }
            Ok(SchedulePlan::Stream { target, settings })
        }
        ScheduledTest::Repeat(repeat) => {
            times(repeat)?;
            match (&target, &repeat.test) {
                (Target::Node(_), _) => test_orders::check(&order_of(schedule, repeat))?,
                (Target::Iperf3(_) | Target::Pscheduler(_), ProbeTest::Tcp(_)) | (_, ProbeTest::Path(_)) => {}
                (_, test) => {
                    let target = &schedule.target;
                    return Err(wrong(format!("{target} does not answer tests of {}: a node does", test.word())));
                }
            }
            Ok(SchedulePlan::Repeat { target, repeat: repeat.clone() })
        }
    }
}

/// The order of one run of a schedule.
pub(super) fn order_of(schedule: &Schedule, repeat: &Repeat) -> ProbeOrder {
    ProbeOrder {
        id: schedule.id,
        target: schedule.target.clone(),
        test: repeat.test.clone(),
        node: schedule.node.clone(),
        credentials: schedule.credentials.clone(),
    }
}

fn times(repeat: &Repeat) -> Result<(), Refusal> {
    if !(EVERY_S.0..=EVERY_S.1).contains(&repeat.every_s) {
        return Err(wrong(format!("a test is repeated every {} s to {} s (30 days)", EVERY_S.0, EVERY_S.1)));
    }
    let is_part = |seconds: f64| (0.0..=repeat.every_s).contains(&seconds);
    if !is_part(repeat.offset_s) || !is_part(repeat.slip_s) {
        return Err(wrong("offset_s and slip_s are from 0 to every_s"));
    }
    Ok(())
}

fn target(text: &str) -> Result<Target, Refusal> {
    let unread =
        || wrong("the target is SCHEME://HOST[:PORT], where SCHEME is lh, stamp, twamp, iperf3, pscheduler or ping");
    if text.len() > TARGET_BYTES_MAX {
        return Err(unread());
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(unread)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() || rest.contains(['/', '@', '?', '#']) || rest.starts_with('-') {
        return Err(unread());
    }
    let at = |port: u16| {
        // Locators of nodes define the form of HOST[:PORT]; a host without a port gets its protocol's port.
        let has_port = rest.rsplit_once(':').is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
        let whole = if has_port || port == 0 { format!("lh://{rest}") } else { format!("lh://{rest}:{port}") };
        match Locator::parse(OsStr::new(&whole)) {
            Ok(Locator::Node { at, place: NodePlace::Exports, .. }) => Ok(at),
            _ => Err(unread()),
        }
    };
    match scheme.to_ascii_lowercase().as_str() {
        "lh" => at(0).map(Target::Node),
        "stamp" => at(862).map(Target::Stamp),
        "twamp" => at(862).map(Target::Twamp),
        "iperf3" => at(5201).map(Target::Iperf3),
        "pscheduler" => at(443).map(Target::Pscheduler),
        "ping" => at(1).map(|at| Target::Ping(at.host)),
        _ => Err(unread()),
    }
}

/// Packets per second of a stream; 0 of anything else.
pub(super) fn packets_s(schedule: &Schedule) -> f64 {
    match &schedule.test {
        ScheduledTest::Stream(stream) => stream.rate_packets_s,
        ScheduledTest::Repeat(_) => 0.0,
    }
}

impl SchedulePlan {
    /// Packets per second of a stream; 0 of anything else.
    pub fn packets_s(&self) -> f64 {
        match self {
            SchedulePlan::Stream { settings, .. } => settings.test().rate_packets_s,
            SchedulePlan::Repeat { .. } => 0.0,
        }
    }

    /// The time of the next run after `now_s`; for a stream the time of the next attempt.
    pub fn next_s(&self, now_s: f64) -> f64 {
        match self {
            SchedulePlan::Stream { .. } => now_s,
            SchedulePlan::Repeat { repeat, .. } => {
                let runs = ((now_s - repeat.offset_s) / repeat.every_s).floor() + 1.0;
                runs * repeat.every_s + repeat.offset_s
            }
        }
    }
}

/// The time of the next attempt at a stream that could not begin or is silent.
pub(super) fn retry_s(now_s: f64) -> f64 {
    now_s + RETRY_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::v1::node::{PathProbe, StreamTest, TcpProbe, UdpProbe};

    fn schedule(target: &str, test: ScheduledTest) -> Schedule {
        Schedule { id: model::id::Uuid::nil(), target: target.into(), test, node: None, credentials: None }
    }

    fn repeat(test: ProbeTest) -> Repeat {
        Repeat { test, every_s: 3_600.0, offset_s: 90.0, slip_s: 60.0, waits_for_transfers: false }
    }

    #[test]
    fn targets_answer_the_tests_of_their_protocol() {
        let stream = |target: &str| read(&schedule(target, ScheduledTest::Stream(StreamTest::default())));
        let target_of = |target: &str| match stream(target) {
            Ok(SchedulePlan::Stream { target, settings }) => (target, settings.test().ports),
            other => panic!("{other:?}"),
        };
        let at = |host: &str, port| HostPort { host: host.into(), port };
        assert_eq!(target_of("stamp://far"), (Target::Stamp(at("far", 862)), 8));
        assert_eq!(target_of("stamp://[2001:db8::1]"), (Target::Stamp(at("2001:db8::1", 862)), 8));
        assert_eq!(target_of("TWAMP://far:8620"), (Target::Twamp(at("far", 8620)), 1));
        assert_eq!(target_of("ping://192.0.2.1").0, Target::Ping("192.0.2.1".into()));
        assert!(matches!(target_of("lh://far:7000").0, Target::Node(HostPort { port: 7000, .. })));
        for bad in [
            "far",
            "http://far",
            "stamp://",
            "stamp://a/b",
            "stamp://u@h",
            "ping://-f",
            "stamp://a:b:c",
            "iperf3://far",
        ] {
            assert!(stream(bad).is_err(), "{bad}");
        }
        let run = |target: &str, test| read(&schedule(target, ScheduledTest::Repeat(repeat(test))));
        assert!(run("iperf3://far", ProbeTest::Tcp(TcpProbe::default())).is_ok());
        assert!(
            run("pscheduler://far", ProbeTest::Tcp(TcpProbe::default())).is_ok() && stream("pscheduler://far").is_err()
        );
        assert!(run("ping://far", ProbeTest::Path(PathProbe::default())).is_ok());
        assert!(run("iperf3://far", ProbeTest::Udp(UdpProbe::default())).unwrap_err().reason.contains("udp"));
        assert!(run("lh://far", ProbeTest::default()).unwrap_err().reason.contains("which node"));
    }

    #[test]
    fn runs_are_at_multiples_of_the_interval_plus_the_offset() {
        let plan = SchedulePlan::Repeat { target: Target::Ping("x".into()), repeat: repeat(ProbeTest::default()) };
        assert_eq!((plan.next_s(7_200.0), plan.next_s(7_290.0), plan.next_s(7_300.0)), (7_290.0, 10_890.0, 10_890.0));
        let bad = [
            Repeat { every_s: 1.0, ..repeat(ProbeTest::default()) },
            Repeat { every_s: f64::NAN, ..repeat(ProbeTest::default()) },
            Repeat { offset_s: 3_601.0, ..repeat(ProbeTest::default()) },
            Repeat { slip_s: -1.0, ..repeat(ProbeTest::default()) },
            Repeat { every_s: 1e9, ..repeat(ProbeTest::default()) },
        ];
        assert!(bad.iter().all(|repeat| times(repeat).is_err()));
    }
}
