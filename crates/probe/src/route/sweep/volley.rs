//! Many probes to the far end: loss and round trips of one flow. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use model::v1::probe::route::RouterReply;

use super::super::drive::{Next, Script};
use super::super::flow::{ProbeEvent, ProbeFlow, ProbeSpec};
use super::super::trace::least_and_median;

/// The usual initial TTL.
const TTL: u8 = 64;

/// The probes of one flow.
pub struct Volley {
    probes: u32,
    patience: Duration,
    bytes: u32,
    /// When each probe was sent, and its round trip if it was answered.
    sent: Vec<(Duration, Option<Duration>)>,
    /// The first and the last answered probe: its number, and the far end's count at that time.
    first_and_last: Option<[(usize, u32); 2]>,
    by_node: bool,
}

impl Volley {
    /// A volley of `probes` to `far`.
    pub fn new(probes: u32, patience: Duration, far: SocketAddr) -> Volley {
        let bytes = ProbeFlow::bytes_min(far);
        Volley { probes, patience, bytes, sent: Vec::new(), first_and_last: None, by_node: false }
    }

    /// Probes sent, and answered. If the volley was cut short at a time, probes whose answers could still arrive then are left out,
    /// answered or not: counting only their quick answers would make the flow look better than it is.
    pub fn counts(&self, cut_short: Option<Duration>) -> (u32, u32) {
        let is_over = |at: Duration| cut_short.is_none_or(|end| end.saturating_sub(at) >= self.patience);
        let over = || self.sent.iter().filter(|(at, _)| is_over(*at));
        (over().count() as u32, over().filter(|(_, rtt)| rtt.is_some()).count() as u32)
    }

    /// Probes between the first and the last answered one that did not reach the far end.
    pub fn lost_forward(&self) -> u32 {
        let Some([(first, before), (last, after)]) = self.first_and_last else { return 0 };
        ((last - first) as u32).saturating_sub(after.wrapping_sub(before))
    }

    /// The least round trip and the median, in seconds.
    pub fn rtts(&self) -> (Option<f64>, Option<f64>) {
        least_and_median(&self.sent.iter().filter_map(|(_, rtt)| *rtt).collect::<Vec<_>>())
    }

    /// Whether the far end is a node.
    pub fn is_answered_by_node(&self) -> bool {
        self.by_node
    }
}

impl Script for Volley {
    fn next(&mut self, now: Duration) -> Next {
        if self.sent.len() < self.probes as usize {
            self.sent.push((now, None));
            return Next::Send(ProbeSpec { ttl: TTL, bytes: self.bytes });
        }
        let until = self.sent.last().map_or(Duration::ZERO, |(at, _)| *at + self.patience);
        if self.sent.iter().all(|(_, rtt)| rtt.is_some()) || now >= until { Next::Done } else { Next::Wait(until) }
    }

    fn handle(&mut self, _: Duration, event: &ProbeEvent) {
        let (probe, rtt) = match event {
            ProbeEvent::Answer { probe, rtt, count, .. } => {
                self.by_node = true;
                let this = (*probe, *count);
                let [first, last] = self.first_and_last.unwrap_or([this; 2]);
                self.first_and_last = Some([first.min(this), last.max(this)]);
                (*probe, *rtt)
            }
            ProbeEvent::Icmp { probe: Some(probe), rtt: Some(rtt), reply: RouterReply::PortUnreachable, .. } => {
                (*probe, *rtt)
            }
            ProbeEvent::Icmp { .. } | ProbeEvent::TooBigHere { .. } => return,
        };
        if let Some((_, known)) = self.sent.get_mut(probe) {
            known.get_or_insert(rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_in_flight_are_not_lost() {
        let seconds = Duration::from_secs;
        let mut volley = Volley::new(10, seconds(2), "127.0.0.1:1".parse().unwrap());
        for n in 0..5 {
            assert!(matches!(volley.next(seconds(n)), Next::Send(_)));
        }
        for probe in [0, 3] {
            volley.handle(
                seconds(4),
                &ProbeEvent::Answer {
                    probe,
                    rtt: seconds(1),
                    hops: None,
                    hops_reverse: None,
                    ttl_reverse: None,
                    count: 7 + probe as u32 / 2,
                },
            );
        }
        assert_eq!(volley.counts(None), (5, 2));
        assert_eq!(volley.lost_forward(), 2, "of the three probes after the first, the far end counted one");
        // The probes sent at 3 s and 4 s had less than two seconds; one of them was answered.
        assert_eq!(volley.counts(Some(seconds(4))), (3, 1));
        assert_eq!(volley.counts(Some(Duration::from_millis(1_500))), (0, 0));
    }
}
