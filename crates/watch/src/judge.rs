//! Judges paths: finds what is wrong with a path from its measurements. Pure, and in the order of the measurements.
//!
//! [`path`] holds the state of one path; [`loss`], [`shift`] and [`delay`] are its detectors, [`expect`] computes the rate that it should give.
//! Statistical tests alone raise too many alarms where their baseline is estimated, and fixed thresholds alone miss small effects: each detector
//! requires both a shift that noise does not explain and a least effect.

pub mod delay;
pub mod expect;
pub mod loss;
pub mod path;
pub mod ports;
pub mod shift;

use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind, Health};

/// Something that is wrong with a path now.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is wrong.
    pub kind: AlarmKind,
    /// Its direction; none for both.
    pub direction: Option<Direction>,
    /// Its severity.
    pub severity: Health,
    /// The evidence, with numbers.
    pub evidence: String,
    /// The cause, as far as this path alone shows it.
    pub cause: CauseKind,
}

/// A direction as part of a sentence.
pub(crate) fn in_direction(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Forward) => "forward",
        Some(Direction::Reverse) => "in reverse",
        None => "in one of the directions",
    }
}

/// A share in percent, for people.
pub(crate) fn percent(share: f64) -> String {
    let digits = if share >= 0.01 || share == 0.0 { 1 } else { 4 };
    format!("{:.digits$} %", share * 100.0)
}

/// The remedy for a cause.
pub fn remedy(cause: CauseKind) -> &'static str {
    match cause {
        CauseKind::RandomLoss => {
            "loss that does not depend on load: check errors and light levels of the interfaces of this segment, clean its fibres, and check what was \
             changed when the loss began"
        }
        CauseKind::LossyMember => {
            "some source ports lose and others do not: ask the operator of the bundle to check the errors of each member, and to take the bad one out"
        }
        CauseKind::Congestion => {
            "other traffic fills this path: check the utilisation of its links at that time, and who uses them"
        }
        CauseKind::ShallowQueue => {
            "deepen the queue of the bottleneck, or pace: fq and a maxrate below the bottleneck's"
        }
        CauseKind::Policer => {
            "packets above a rate are dropped: replace the policer with a shaper, or stay below its rate (--limit)"
        }
        CauseKind::NarrowLink => {
            "a link gives less than it did: a member of a bundle that is down, a wrong speed, a shaper"
        }
        CauseKind::SlowReceiver => {
            "the receiving host limits: `longhaul tune audit` there; its windows, processors, storage"
        }
        CauseKind::SlowSender => {
            "the sending host limits: `longhaul tune audit` there; its buffers, processors, storage"
        }
        CauseKind::MtuHole => {
            "one MTU for all interfaces of that segment, or let ICMP \"too big\" through; until then tcp_mtu_probing = 1"
        }
        CauseKind::RouteChange => {
            "packets take another route: ask the network that routes this direction whether that is intended"
        }
        CauseKind::ClockStep => {
            "a clock was set: keep it with chrony or another NTP client; nothing is wrong with the path"
        }
        CauseKind::Outage => "nothing passes: check whether the other end and the path are up",
        CauseKind::Optics => "clean the fibre, look at the light levels, change the optic",
        CauseKind::Unknown => "`longhaul probe all` between the two ends says more",
    }
}
