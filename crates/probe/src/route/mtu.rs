//! Finds the largest packet that passes in one direction: sends packets of several sizes that may not be fragmented, and checks
//! which are answered (RFC 8899). A size that a router reports by ICMP is a hint, and is tried like any other size.
//!
//! The far end must be a node, as other hosts do not report what has arrived. Large probes get short answers, so the reverse path
//! does not matter: the far end finds the reverse MTU by the same method.

mod search;
mod seeker;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::route::Mtu;

use super::drive::{Ending, Pace, ScriptedFlow, drive};
use super::echo::Token;
use super::flow::{PROBE_BYTES_MAX, ProbeFlow};
use crate::{Error, Result, Stop};

use seeker::Seeker;

/// The plan of a search for the MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The largest packet to try, in bytes of IP; 576 to 65,535.
    pub bytes_max: u32,
    /// The search fails if the far end has not answered the smallest probes for this long; up to a minute.
    pub patience: Duration,
    /// Time from one probe to the next; up to a second.
    pub interval: Duration,
    /// The highest rate of probes, so that they do not overflow a queue; 100 kbit/s or more.
    pub rate_bit_s: u64,
    /// Time after which the search ends.
    pub lasts: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            bytes_max: 9_216,
            patience: Duration::from_secs(2),
            interval: Duration::from_millis(2),
            rate_bit_s: 10_000_000,
            lasts: Duration::from_secs(120),
        }
    }
}

impl Plan {
    pub(super) fn check(&self) -> Result<()> {
        let minute = Duration::from_secs(60);
        let faults = [
            (!(576..=PROBE_BYTES_MAX).contains(&self.bytes_max), "the largest size is 576 to 65535 bytes"),
            (self.patience.is_zero() || self.patience > minute, "the patience is above 0 and up to 60 s"),
            (self.interval > Duration::from_secs(1), "the interval is up to 1 s"),
            (self.rate_bit_s < 100_000, "the rate is 100 kbit/s or more"),
        ];
        match faults.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(Error::Order(format!("a search for the MTU is out of bounds: {what}"))),
            None => Ok(()),
        }
    }
}

/// Finds the MTU of the path to a node, over a connected socket (see [`super::open`]).
///
/// # Errors
/// The plan is out of bounds, the socket fails, the far end does not answer the smallest probes, the time is over before any
/// result, or the search was stopped.
pub fn mtu(socket: &UdpSocket, token: &Token, plan: &Plan, stop: &Stop) -> Result<Mtu> {
    plan.check()?;
    let start = Instant::now();
    let flow = ProbeFlow::new(socket, *token)?;
    let far = flow.far();
    let script = Seeker::new(*plan, far);
    let mut runs = [ScriptedFlow { flow, script }];
    let pace = Pace { interval: plan.interval, rate_bit_s: plan.rate_bit_s, lasts: plan.lasts };
    let ending = drive(&mut runs, &pace, stop)?;
    let [ScriptedFlow { script, .. }] = runs;
    let silent = || Error::Silent { peer: far.to_string(), seconds: start.elapsed().as_secs() };
    match ending {
        Ending::Stopped => Err(Error::Interrupted),
        // If the time was over: the largest size that has passed by then, unconfirmed.
        Ending::Done | Ending::OutOfTime => {
            let found = script.found().ok_or_else(silent)?;
            Ok(Mtu { seconds: start.elapsed().as_secs_f64(), ..found })
        }
    }
}
