//! The largest packet that gets through, in one direction: by sending packets of several sizes that nobody may fragment,
//! and seeing which are answered (RFC 8899). What routers say of it (ICMP) is a hint, tried like any other size.
//!
//! It takes a node at the far end, as other hosts do not say what arrived. Large probes get short answers, so the way
//! back has no part in it: the far end finds that direction's MTU by the same, towards us.

mod search;
mod seeker;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::route::Mtu;

use super::drive::{Ending, Pace, Run, drive};
use super::echo::Token;
use super::flow::{Flow, PROBE_BYTES_MAX};
use crate::{Error, Result, Stop};

use seeker::Seeker;

/// How to look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// No larger packets are tried, in bytes of IP; 576 to 65,535.
    pub bytes_max: u32,
    /// A far end that has not answered the least probes for so long is not there; up to a minute.
    pub patience: Duration,
    /// From one probe to the next; up to a second.
    pub interval: Duration,
    /// Probes leave no faster than this, so that they do not fill a queue and are lost there; 100 kbit/s or more.
    pub rate_bit_s: u64,
    /// All of it ends then.
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
        match faults.iter().find(|(is_so, _)| *is_so) {
            Some((_, what)) => Err(Error::Order(format!("the MTU cannot be found like that: {what}"))),
            None => Ok(()),
        }
    }
}

/// Finds the MTU of the way to a node, over a connected socket (see [`super::open`]).
///
/// # Errors
/// The plan makes no sense, the socket fails, the far end does not answer the least probes, the time is over before
/// anything is known for sure, or it was stopped.
pub fn mtu(socket: &UdpSocket, token: &Token, plan: &Plan, stop: &Stop) -> Result<Mtu> {
    plan.check()?;
    let start = Instant::now();
    let flow = Flow::new(socket, *token)?;
    let far = flow.far();
    let script = Seeker::new(*plan, far);
    let mut runs = [Run { flow, script }];
    let pace = Pace { interval: plan.interval, rate_bit_s: plan.rate_bit_s, lasts: plan.lasts };
    let ending = drive(&mut runs, &pace, stop)?;
    let [Run { script, .. }] = runs;
    let silent = || Error::Silent { peer: far.to_string(), seconds: start.elapsed().as_secs() };
    match ending {
        Ending::Stopped => Err(Error::Interrupted),
        // What is known by then: at least this gets through, unconfirmed.
        Ending::Done | Ending::OutOfTime => {
            let found = script.found().ok_or_else(silent)?;
            Ok(Mtu { seconds: start.elapsed().as_secs_f64(), ..found })
        }
    }
}
