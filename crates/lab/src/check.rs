//! Checks that a lab does what its scenario says, by measurements from its sites: RTT, rate, and loss, exact to the packet. It also
//! measures the rate that this machine can carry at the longest RTT.
//!
//! Events do not take place during a check.

mod ceiling;
mod trial;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::lab::Lab;
use crate::reading::Reading;
use crate::scenario::{End, LinkSettings, Scenario};
use crate::topology::Route;

pub use ceiling::Ceiling;
use trial::{OfferedLoad, Outcome, Trial};

/// How far the RTT may be off: 1 %, or this.
const RTT_TOLERANCE: Duration = Duration::from_micros(300);
/// How far the rate may be off, as a fraction.
const RATE_TOLERANCE: f64 = 0.005;
/// How often a measurement is made at most, where this machine is the limit.
const ATTEMPTS: u32 = 5;
/// The rate that is offered where there is no bottleneck, if the path carries it.
const GENTLE_BIT_S: f64 = 100e6;

/// The verdict on one measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Within its tolerance.
    Right,
    /// Outside of its tolerance.
    Wrong,
    /// The lab, or this machine, was the limit: the measurement says nothing about the scenario.
    Limited(String),
    /// It cannot be judged, for this reason.
    NotJudged(&'static str),
}

/// One thing that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Path and direction.
    pub path_and_direction: String,
    /// `rtt`, `rate` or `loss`.
    pub what: &'static str,
    /// As the scenario says, with its unit.
    pub wanted: String,
    /// As measured, with its unit.
    pub measured: String,
    /// How the two compare.
    pub verdict: Verdict,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the paths.
    pub findings: Vec<Finding>,
    /// What this machine carries at the longest RTT.
    pub ceiling: Option<Ceiling>,
}

impl Report {
    /// Whether every measurement that could be judged is right.
    pub fn is_right(&self) -> bool {
        let is_bad = |finding: &Finding| matches!(finding.verdict, Verdict::Wrong | Verdict::Limited(_));
        !self.findings.iter().any(is_bad)
    }
}

/// One direction of a path, with its route and that of the other direction.
struct MeasuredDirection<'a> {
    lab: &'a Lab,
    name: String,
    ends: [End; 2],
    addresses: [IpAddr; 2],
    route: &'a Route,
    reverse: &'a Route,
}

/// Checks a scenario, path by path, and passes each finding to `report` as soon as it is made. `dir` is the lab's directory.
///
/// # Errors
/// The lab cannot be brought up, or a measurement cannot be made.
pub fn run(scenario: &Scenario, dir: &Path, mut report: impl FnMut(&Finding)) -> Result<Report, Error> {
    let static_scenario = Scenario { events: Vec::new(), ..scenario.clone() };
    let lab = Lab::up("check", &static_scenario, dir)?;
    let mut findings = Vec::new();
    for (number, path) in static_scenario.paths.iter().enumerate() {
        for direction in [0, 1] {
            let Some(measured) = MeasuredDirection::of(&lab, number, direction) else { continue };
            let mut new = Vec::new();
            // The RTT is measured once per path; where a firewall lets connections out only, from behind it.
            let has_firewall = path.ends.map(|end| static_scenario.sites[end.site].firewall.is_some());
            if direction == usize::from(has_firewall == [false, true]) {
                new.push(measured.rtt()?);
            }
            new.extend(measured.flow()?);
            new.iter().for_each(&mut report);
            findings.extend(new);
        }
    }
    drop(lab);
    let ceiling = ceiling::measure(&static_scenario, dir)?;
    Ok(Report { findings, ceiling })
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

impl<'a> MeasuredDirection<'a> {
    fn of(lab: &'a Lab, path: usize, direction: usize) -> Option<MeasuredDirection<'a>> {
        let path = &lab.scenario().paths[path];
        let mut ends = path.ends;
        if direction == 1 {
            ends.reverse();
        }
        let interface = |end: End| &lab.scenario().sites[end.site].interfaces[end.interface];
        let [a, b] = ends.map(interface);
        let addresses: [IpAddr; 2] = match (a.v4, b.v4, a.v6, b.v6) {
            (Some(a), Some(b), ..) => [a.0.into(), b.0.into()],
            (_, _, Some(a), Some(b)) => [a.0.into(), b.0.into()],
            _ => return None,
        };
        let topology = lab.topology();
        let port = |end: End| topology.ports.iter().position(|port| *port == end);
        let (from, to) = (port(ends[0])?, port(ends[1])?);
        let route = &topology.routes[topology.route(from, addresses[1])?];
        let reverse = &topology.routes[topology.route(to, addresses[0])?];
        let site = |end: End| lab.scenario().sites[end.site].name.as_str();
        let name = format!("{} {} -> {}", path.name, site(ends[0]), site(ends[1]));
        Some(MeasuredDirection { lab, name, ends, addresses, route, reverse })
    }

    fn link_settings(&self, route: &'a Route) -> impl Iterator<Item = &'a LinkSettings> + use<'a> {
        let lab = self.lab;
        route.legs.iter().flat_map(|leg| &leg.members).map(|link| &lab.topology().links[*link].settings)
    }

    /// The delay of a route; of several members, that of the first.
    fn delay(&self, route: &Route) -> Duration {
        route.legs.iter().map(|leg| self.lab.topology().links[leg.members[0]].settings.delay).sum()
    }

    fn expected_rtt(&self) -> Duration {
        self.delay(self.route) + self.delay(self.reverse)
    }

    fn trial(&self) -> Trial<'a> {
        let [from, to] = self.ends.map(|end| &self.lab.sites()[end.site]);
        let interface = |end: End| &self.lab.scenario().sites[end.site].interfaces[end.interface];
        let holes = self.link_settings(self.route).filter_map(|settings| settings.mtu_black_hole);
        let mtu = holes.fold(self.route.mtu.min(interface(self.ends[0]).mtu), u16::min);
        let time_in_queue = |link: &usize| {
            let link = &self.lab.topology().links[*link];
            let rate = link.settings.rate.map_or(1e12, |rate| rate.0 as f64);
            Duration::from_secs_f64(link.settings.queue_bytes(link.rtt) as f64 * 8.0 / rate) + link.settings.reorder_by
        };
        let queues: Duration = self.route.legs.iter().flat_map(|leg| &leg.members).map(time_in_queue).sum();
        let delay_max = self.expected_rtt() + queues;
        Trial { from: (from, self.addresses[0]), to: (to, self.addresses[1]), mtu, delay_max }
    }

    fn finding(&self, what: &'static str, wanted: String, measured: String, verdict: Verdict) -> Finding {
        Finding { path_and_direction: self.name.clone(), what, wanted, measured, verdict }
    }

    fn rtt(&self) -> Result<Finding, Error> {
        let expected = self.expected_rtt();
        let both = || self.link_settings(self.route).chain(self.link_settings(self.reverse));
        let jitter: Duration = both().map(|settings| settings.jitter).sum();
        let wanted = format!("{:.2} ms", ms(expected));
        let not_judged = |why| Ok(self.finding("rtt", wanted.clone(), "-".into(), Verdict::NotJudged(why)));
        if both().any(|settings| settings.down) {
            return not_judged("the path is down");
        }
        let mut limit = None;
        let mut trips = Vec::new();
        for _ in 0..ATTEMPTS {
            let before = self.lab.reading()?;
            trips = self.trial().round_trips(if jitter.is_zero() { 21 } else { 101 })?;
            if trips.len() < 5 {
                return not_judged("too few packets were answered");
            }
            limit = self.lab.limited(&self.lab.reading()?.since(&before));
            if limit.is_none() {
                break;
            }
        }
        // The quickest round trip saw the path alone: the others waited in the queue of other traffic, or for this machine to run the probe. The
        // lateness of the lab itself is judged separately. With jitter there is no such round trip.
        let measured = if jitter.is_zero() { trips[0] } else { trips[trips.len() / 2] };
        // The median of 101 uniform pairs is within a fifth of the largest deviation.
        let tolerance = (expected / 100).max(RTT_TOLERANCE) + jitter / 5;
        let verdict = match limit {
            Some(why) => Verdict::Limited(why),
            None if measured.abs_diff(expected) <= tolerance => Verdict::Right,
            None => Verdict::Wrong,
        };
        Ok(self.finding("rtt", wanted, format!("{:.2} ms", ms(measured)), verdict))
    }

    /// The lowest rate on the path, if it has a bottleneck.
    fn bottleneck(&self) -> Option<f64> {
        let rates = self
            .link_settings(self.route)
            .flat_map(|settings| [settings.rate, settings.policer.map(|policer| policer.rate)]);
        rates.flatten().map(|rate| rate.0 as f64).min_by(f64::total_cmp)
    }

    /// Measures rate and loss. Where this machine was the limit, it measures again: other programs may have kept it busy.
    fn flow(&self) -> Result<Vec<Finding>, Error> {
        if self.link_settings(self.route).any(|settings| settings.down) {
            let down = Verdict::NotJudged("the path is down");
            return Ok(vec![self.finding("loss", "all of it".into(), "-".into(), down)]);
        }
        let is_limited = |finding: &Finding| matches!(finding.verdict, Verdict::Limited(_));
        let mut findings = self.one_flow()?;
        for _ in 1..ATTEMPTS {
            if !findings.iter().any(is_limited) {
                break;
            }
            findings = self.one_flow()?;
        }
        Ok(findings)
    }

    /// Measures one flow that offers a tenth more than the bottleneck carries.
    fn one_flow(&self) -> Result<Vec<Finding>, Error> {
        let trial = self.trial();
        let bottleneck = self.bottleneck();
        let rate_bit_s = bottleneck.map_or(GENTLE_BIT_S, |rate| rate * 1.1);
        let packet_s = f64::from(trial.mtu) * 8.0 / rate_bit_s;
        let lasts = Duration::from_secs_f64((200.0 * packet_s).clamp(1.5, 20.0));
        let before = self.lab.reading()?;
        let outcome = trial.offer(OfferedLoad { rate_bit_s, lasts })?;
        let reading = self.lab.reading()?.since(&before);
        let limited = self.lab.limited(&reading);
        let mut findings = Vec::new();
        if let Some(rate) = bottleneck {
            findings.push(self.rate(rate, &outcome, &reading, limited.clone()));
        }
        findings.push(self.loss(&outcome, &reading, limited));
        Ok(findings)
    }

    fn counted(&self, reading: &Reading, count: impl Fn(&crate::link::Counts) -> u64) -> u64 {
        self.route.legs.iter().flat_map(|leg| &leg.members).map(|link| count(&reading.links[*link].counts)).sum()
    }

    fn rate(&self, rate: f64, outcome: &Outcome, reading: &Reading, limited: Option<String>) -> Finding {
        // Packets that were lost after the bottleneck had used its time.
        let dropped_later = self.counted(reading, |counts| counts.lost) + outcome.checksum_errors;
        let duplicated = self.counted(reading, |counts| counts.duplicated);
        let at_bottleneck = (outcome.received + dropped_later).saturating_sub(duplicated) as f64;
        let measured = outcome.rate_bit_s * at_bottleneck / outcome.received.max(1) as f64;
        let error = measured / rate - 1.0;
        let is_shared = self.link_settings(self.route).any(|settings| settings.cross_traffic.is_some());
        let is_policed = self.link_settings(self.route).any(|settings| settings.policer.is_some());
        let has_members = self.route.legs.iter().filter(|leg| leg.members.len() > 1).count() > 0;
        let idle = self.counted(reading, |counts| counts.idle_ns) as f64 / 1e9 / outcome.lasted.as_secs_f64().max(1e-3);
        let verdict = match limited {
            _ if is_shared => Verdict::NotJudged("cross traffic uses the path as well"),
            // The burst that the bucket lets through adds to the rate, and joined datagrams reach the bucket as a whole.
            _ if is_policed => Verdict::NotJudged("a policer's burst adds to the rate"),
            _ if has_members && error.abs() > RATE_TOLERANCE => Verdict::NotJudged("one flow takes one member"),
            Some(why) => Verdict::Limited(why),
            None if outcome.no_room > 0 => Verdict::Limited("the receiver's buffer was full".into()),
            None if error.abs() <= RATE_TOLERANCE => Verdict::Right,
            None if idle > RATE_TOLERANCE => {
                let why =
                    format!("this machine's sender left the bottleneck idle for {:.1} % of the time", idle * 100.0);
                Verdict::Limited(why)
            }
            None => Verdict::Wrong,
        };
        let mbit = |rate: f64| format!("{:.2} Mbit/s", rate / 1e6);
        self.finding("rate", mbit(rate), format!("{} ({:+.2} %)", mbit(measured), error * 100.0), verdict)
    }

    /// Whether the packets that are missing at the receiver are exactly those that the lab counted as dropped.
    fn loss(&self, outcome: &Outcome, reading: &Reading, limited: Option<String>) -> Finding {
        let dropped = self.counted(reading, |c| c.lost + c.queue_dropped + c.policed + c.down + c.black_hole);
        let damaged = self.counted(reading, |c| c.corrupted);
        let duplicated = self.counted(reading, |c| c.duplicated);
        let expected = (outcome.sent + duplicated).saturating_sub(dropped + damaged);
        let is_exact = expected == outcome.received && damaged == outcome.checksum_errors;
        let legs = self.route.legs.iter().flat_map(|leg| leg.members.first());
        let mut earlier = legs.map(|link| &self.lab.topology().links[*link].settings).collect::<Vec<_>>();
        earlier.pop();
        let is_unclear = earlier.iter().any(|settings| settings.corrupt > 0.0 || settings.duplicate > 0.0);
        let verdict = match limited {
            _ if is_exact => Verdict::Right,
            _ if is_unclear => Verdict::NotJudged("what one link damaged or repeated, a later one dropped"),
            Some(why) => Verdict::Limited(why),
            None if outcome.no_room > 0 => Verdict::Limited("the receiver's buffer was full".into()),
            None => Verdict::Wrong,
        };
        let wanted =
            format!("{expected} of {} ({dropped} dropped, {damaged} damaged, {duplicated} twice)", outcome.sent);
        let measured = format!("{} ({} wrong checksums)", outcome.received, outcome.checksum_errors);
        self.finding("loss", wanted, measured, verdict)
    }
}
