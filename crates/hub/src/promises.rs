//! Promises: jobs with a deadline. Files with one deadline have a queue of their own. Its bytes are placed in a calendar over the resources of
//! its path, as late as they fit; the bytes in the present slot give the rate that the queue does not go below.
//!
//! The calendar is built anew from the bytes that the queues still have to move: bytes that have moved early free slots that come later.

use std::collections::HashMap;

use model::v1::hub::Offer;
use sched::calendar::{Calendar, PromiseId, Request, Slot};

use crate::database::queues::Queue;
use crate::database::submissions::QueueKey;
use crate::time;
use crate::topology::Topology;

/// The part of a resource below its mark that may be promised: the rest is for other queues, and for the time that a start takes.
const PROMISED_PART: f64 = 0.9;
/// The part of the time before a deadline in which nothing is promised: files take time to begin and end.
const SPARE_PART: f64 = 0.05;
/// The least such time, milliseconds: a transfer reaches its rate after some seconds.
const SPARE_LEAST_MS: f64 = 5000.0;
/// The shortest slot, seconds.
const SLOT_LEAST_S: f64 = 5.0;
/// Slots before the last deadline.
const SLOTS: f64 = 2000.0;
/// How much later than asked for a counter-offer may be, in slots.
const HORIZON: Slot = 200_000;

/// Bytes that are to be moved by a deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct PromiseRequest {
    /// The endpoint that is read.
    pub source: String,
    /// The endpoint that is written.
    pub target: String,
    /// The community.
    pub community: String,
    /// Milliseconds since 1970.
    pub deadline: i64,
    /// Bytes.
    pub bytes: i64,
}

/// The state of a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromiseStatus {
    /// The rate that its queue does not go below now, bytes per second.
    pub floor: f64,
    /// Bytes that do not fit before the deadline any more; 0 where the promise will be kept.
    pub late_bytes: f64,
}

/// Why a deadline is not promised, and what would be instead.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// No resource on its path has a known capacity: source and target.
    Unbounded(String, String),
    /// It does not fit.
    Full {
        /// The earliest deadline for all bytes, milliseconds since 1970; none where they do not fit at all.
        deadline: Option<i64>,
        /// The bytes that fit before the wanted deadline.
        bytes: i64,
    },
}

/// The promises at one moment.
#[derive(Debug)]
pub struct Promises<'a> {
    topology: &'a Topology,
    calendar: Calendar,
    now: i64,
    slot_ms: f64,
    /// The present slot. Slots are aligned to the clock, and not to the round: bytes that are placed in one stay there until it has passed.
    slot: Slot,
    standings: HashMap<i64, PromiseStatus>,
}

impl<'a> Promises<'a> {
    /// The promises of all queues with a deadline. `usable` is the rate that each resource may be used for, bytes per second; `moved` are the bytes
    /// that the transfers of each queue have moved of files that have not ended; `latest` is the latest deadline that will be asked for.
    pub fn new(
        topology: &'a Topology,
        usable: &[f64],
        queues: &[Queue],
        moved: &HashMap<i64, f64>,
        latest: i64,
        now: i64,
    ) -> Promises<'a> {
        let mut promised: Vec<&Queue> = queues.iter().filter(|queue| queue.key.deadline > 0).collect();
        promised.sort_by_key(|queue| (queue.key.deadline, queue.id));
        let last = promised.last().map_or(latest, |queue| queue.key.deadline.max(latest));
        let slot_s = ((last - now).max(0) as f64 / 1000.0 / SLOTS).max(SLOT_LEAST_S);
        let capacities: Vec<f64> = usable.iter().map(|usable| usable * PROMISED_PART).collect();
        let calendar = Calendar::new(slot_s, capacities.clone(), HORIZON);
        let slot_ms = slot_s * 1000.0;
        let slot = (now.max(0) as f64 / slot_ms) as Slot;
        let mut all = Promises { topology, calendar, now, slot_ms, slot, standings: HashMap::new() };
        all.take_passed(&capacities);
        for queue in promised {
            let moved = moved.get(&queue.id).copied().unwrap_or(0.0);
            let left = ((queue.queued_bytes + queue.running_bytes) as f64 - moved).max(0.0);
            all.place(queue, left);
        }
        all
    }

    /// Takes the part of the present slot that has passed out of the calendar.
    fn take_passed(&mut self, capacities: &[f64]) {
        let passed_s = (self.slot_ms / 1000.0 - self.left_of_slot_s()).max(0.0);
        for (resource, capacity) in capacities.iter().enumerate().filter(|(_, capacity)| capacity.is_finite()) {
            let path = vec![resource as u32];
            let (release, deadline) = (self.slot, self.slot + 1);
            let passed = Request { path, bytes: capacity * passed_s, release, deadline, rate_most: f64::INFINITY };
            let _ = self.calendar.accept(&passed);
        }
    }

    /// Seconds until the present slot ends, at least 1: a rate holds for a second or longer.
    fn left_of_slot_s(&self) -> f64 {
        let end = (self.slot + 1) as f64 * self.slot_ms;
        ((end - self.now as f64) / 1000.0).max(1.0)
    }

    /// The state of a queue's promise; none where it has no deadline.
    pub fn standing(&self, queue: i64) -> Option<PromiseStatus> {
        self.standings.get(&queue).copied()
    }

    /// Adds promises: all of them, or none.
    ///
    /// # Errors
    /// They do not fit beside the promises that exist.
    pub fn accept(&mut self, all: &[PromiseRequest]) -> Result<(), Refusal> {
        for wanted in all {
            let key = [&wanted.source, &wanted.target, &wanted.community];
            let request = self.request(key, wanted.bytes as f64, wanted.deadline);
            if !self.is_bounded(&request.path) {
                return Err(Refusal::Unbounded(wanted.source.clone(), wanted.target.clone()));
            }
            self.calendar.accept(&request).map_err(|offer| Refusal::Full {
                deadline: offer.deadline.map(|slot| self.asked_for(slot)),
                bytes: offer.bytes as i64,
            })?;
        }
        Ok(())
    }

    fn is_bounded(&self, path: &[u32]) -> bool {
        path.iter().any(|resource| self.topology.resources[*resource as usize].capacity.is_finite())
    }

    /// Places the bytes of a queue. Where they no longer all fit, the queue keeps the slots for those that do, and gets the rate that would still be in time.
    fn place(&mut self, queue: &Queue, left: f64) {
        let QueueKey { source, target, community, deadline, .. } = &queue.key;
        let request = self.request([source, target, community], left, *deadline);
        // A second before the deadline: a rate is given for one.
        let seconds = ((deadline - self.now) as f64 / 1000.0 - 1.0).max(1.0);
        let standing = match self.calendar.accept(&request) {
            Ok(id) => {
                PromiseStatus { floor: self.placed_now(id) / self.left_of_slot_s().min(seconds), late_bytes: 0.0 }
            }
            Err(offer) => {
                let fits = Request { bytes: offer.bytes.max(0.0) * (1.0 - 1e-9), ..request };
                let _ = self.calendar.accept(&fits);
                PromiseStatus { floor: left / seconds, late_bytes: left - offer.bytes }
            }
        };
        self.standings.insert(queue.id, standing);
    }

    /// Bytes of a promise in the present slot.
    fn placed_now(&self, id: PromiseId) -> f64 {
        self.calendar.rate(id, self.slot) * self.slot_ms / 1000.0
    }

    fn request(&self, [source, target, community]: [&String; 3], bytes: f64, deadline: i64) -> Request {
        let span = (deadline - self.now).max(0) as f64;
        let spare = (span * SPARE_PART).max(SPARE_LEAST_MS);
        let end = ((self.now as f64 + span - spare).max(0.0) / self.slot_ms) as Slot;
        Request {
            path: self.topology.path(source, target, community),
            bytes,
            release: self.slot,
            // At the very end, the rest belongs into the present slot.
            deadline: end.max(self.slot + 1),
            rate_most: f64::INFINITY,
        }
    }

    /// The deadline to ask for so that the bytes end by a slot.
    fn asked_for(&self, slot: Slot) -> i64 {
        let placed = slot as f64 * self.slot_ms - self.now as f64;
        let span = (placed / (1.0 - SPARE_PART)).max(placed + SPARE_LEAST_MS).ceil();
        // Whole seconds, as people write them.
        ((self.now as f64 + span) / 1000.0).ceil() as i64 * 1000
    }
}

impl Refusal {
    /// The counter-offer, for programs; none where nothing can be promised.
    pub fn offer(&self) -> Option<Offer> {
        match self {
            Refusal::Unbounded(..) => None,
            Refusal::Full { deadline, bytes } => {
                Some(Offer { deadline: deadline.map(time::show), bytes: (*bytes).max(0) as u64 })
            }
        }
    }

    /// The refusal in one sentence, with the counter-offer.
    pub fn text(&self, asked: i64) -> String {
        let asked = time::show(asked);
        match self {
            Refusal::Unbounded(source, target) => format!(
                "nobody has said what the way from {source} to {target} carries, so nothing can be promised there: describe a link \
                 (longhaul hub link add) or the endpoints' rates, or submit without a deadline"
            ),
            Refusal::Full { deadline: Some(deadline), bytes } => format!(
                "it does not fit before {asked} beside what is promised already: all of it would by {}, and {} by {asked}",
                time::show(*deadline),
                model::Bytes((*bytes).max(0) as u64)
            ),
            Refusal::Full { deadline: None, bytes } => format!(
                "it does not fit before {asked} nor for long after it: {} would by {asked}",
                model::Bytes((*bytes).max(0) as u64)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
        [site.a]
        [site.b]
        [site.c]
        [endpoint.a]
        site = "a"
        urls = ["lh://a"]
        [endpoint.b]
        site = "b"
        urls = ["lh://b"]
        [endpoint.c]
        site = "c"
        urls = ["lh://c"]
        [link.wan]
        capacity_bit_s = 80000
        mark = 1.0
        [[route]]
        from = "a"
        to = "b"
        links = ["wan"]
    "#;

    fn topology() -> Topology {
        Topology::new(toml::from_str(TOML).unwrap()).unwrap()
    }

    fn queue(id: i64, deadline_s: i64, bytes: i64) -> Queue {
        let key = QueueKey {
            source: "a".into(),
            target: "b".into(),
            community: "astro".into(),
            activity: "default".into(),
            owner: "ann".into(),
            priority: 3,
            deadline: deadline_s * 1000,
            limited: 0,
        };
        Queue { id, key, queued: 1, staging: 0, queued_bytes: bytes, running: 0, running_bytes: 0, limit: None }
    }

    fn wanted(target: &str, deadline_s: i64, bytes: i64) -> PromiseRequest {
        let (source, target, community) = ("a".to_owned(), target.to_owned(), "astro".to_owned());
        PromiseRequest { source, target, community, deadline: deadline_s * 1000, bytes }
    }

    fn promises<'a>(topology: &'a Topology, queues: &[Queue]) -> Promises<'a> {
        let usable: Vec<f64> = topology.resources.iter().map(|resource| resource.capacity).collect();
        Promises::new(topology, &usable, queues, &HashMap::new(), 100_000, 0)
    }

    #[test]
    fn what_is_promised_late_needs_nothing_now_and_what_is_due_has_its_rate() {
        // 10,000 bytes per second, of which 9,000 are promised; 95 of 100 s are 19 slots of 5 s.
        let topology = topology();
        let late = promises(&topology, &[queue(1, 100, 90_000)]);
        assert_eq!(late.standing(1), Some(PromiseStatus { floor: 0.0, late_bytes: 0.0 }));
        let due = promises(&topology, &[queue(1, 100, 850_000)]);
        let standing = due.standing(1).unwrap();
        assert!((standing.floor - 8_000.0).abs() < 1.0 && standing.late_bytes == 0.0, "{standing:?}");
        assert_eq!(due.standing(2), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_an_offer_that_does() {
        let topology = topology();
        let queues = [queue(1, 100, 500_000)];
        assert_eq!(promises(&topology, &queues).accept(&[wanted("b", 100, 300_000)]), Ok(()));
        let refused = promises(&topology, &queues).accept(&[wanted("b", 100, 800_000)]).unwrap_err();
        let Refusal::Full { deadline: Some(deadline), bytes } = refused else { panic!("{refused:?}") };
        assert!((350_000..=355_000).contains(&bytes), "{bytes}");
        let offered = deadline / 1000;
        assert!((145..165).contains(&offered), "{offered}");
        assert_eq!(promises(&topology, &queues).accept(&[wanted("b", offered, 800_000)]), Ok(()));
        assert_eq!(promises(&topology, &queues).accept(&[wanted("b", 100, bytes)]), Ok(()));
        assert!(refused.text(100_000).starts_with("it does not fit before 1970-01-01T00:01:40Z"));
    }

    #[test]
    fn several_parts_are_promised_together_or_not_at_all() {
        let topology = topology();
        let parts = [wanted("b", 100, 500_000), wanted("b", 100, 500_000)];
        assert!(promises(&topology, &[]).accept(&parts[..1]).is_ok());
        assert!(promises(&topology, &[]).accept(&parts).is_err());
        let unbounded = promises(&topology, &[]).accept(&[wanted("c", 100, 1)]).unwrap_err();
        assert!(unbounded.text(1).contains("from a to c"), "{unbounded:?}");
    }

    /// Steps the promise of one queue second by second, which has its floor and no more; when it has ended, seconds.
    fn ends_after(bytes: f64, deadline_s: i64, start_s: i64) -> i64 {
        let topology = topology();
        let usable: Vec<f64> = topology.resources.iter().map(|resource| resource.capacity).collect();
        let (mut left, mut second) = (bytes, 0);
        while left > 1.0 {
            let queues = [queue(1, start_s + deadline_s, left as i64)];
            let now = (start_s + second) * 1000;
            let promises = Promises::new(&topology, &usable, &queues, &HashMap::new(), 0, now);
            left -= promises.standing(1).unwrap().floor.min(9_500.0);
            second += 1;
            assert!(second < 2 * deadline_s, "{left} bytes of {bytes} are left");
        }
        second
    }

    #[test]
    fn whoever_has_its_floor_and_no_more_is_in_time() {
        for start in 1000..1010 {
            for (bytes, deadline) in
                [(90_000.0, 30), (200_000.0, 30), (5_000.0, 30), (800_000.0, 100), (2_000_000.0, 3600)]
            {
                let ended = ends_after(bytes, deadline, start);
                assert!(ended <= deadline, "{bytes} bytes by {deadline} s ended after {ended} s, from {start} on");
            }
        }
    }

    #[test]
    fn what_cannot_be_in_time_any_more_asks_for_what_would_be() {
        let topology = topology();
        let standing = promises(&topology, &[queue(1, 100, 2_000_000)]).standing(1).unwrap();
        assert!(standing.floor >= 20_000.0 && standing.late_bytes > 1_000_000.0, "{standing:?}");
        let over = promises(&topology, &[queue(1, -5, 1_000)]).standing(1);
        assert_eq!(over.map(|it| it.floor), None, "a deadline before 1970 is none");
    }
}
