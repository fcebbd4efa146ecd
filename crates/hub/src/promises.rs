//! Promises: jobs with a deadline. Files with the same deadline have a queue of their own. Its bytes are placed in a calendar over the
//! resources of its path, as late as they fit. The bytes in the present slot give the least rate of the queue.
//!
//! Each time, the calendar is built from the bytes that the queues still have to move: bytes that have moved early free later slots.

use std::collections::HashMap;

use model::v1::hub::Offer;
use sched::calendar::{Calendar, PromiseId, Request, Slot};

use crate::database::queues::Queue;
use crate::database::submissions::QueueKey;
use crate::time;
use crate::topology::Topology;

/// The part of a resource below its mark that may be promised. The rest is for other queues, and covers the start of transfers.
const PROMISED_PART: f64 = 0.9;
/// The part of the time before a deadline in which nothing is promised: files take time to begin and end.
const SPARE_PART: f64 = 0.05;
/// The shortest such time, milliseconds: a transfer reaches its rate after some seconds.
const SPARE_LEAST_MS: f64 = 5000.0;
/// The shortest slot, seconds.
const SLOT_LEAST_S: f64 = 5.0;
/// The number of slots before the last deadline.
const SLOTS: f64 = 2000.0;
/// How much later than the wanted deadline a counter-offer may be, in slots.
const HORIZON: Slot = 200_000;

/// A request to move bytes by a deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct PromiseRequest {
    /// The endpoint that is read.
    pub source: String,
    /// The endpoint that is written.
    pub target: String,
    /// The community.
    pub community: String,
    /// The deadline, milliseconds since 1970.
    pub deadline: i64,
    /// The bytes to move.
    pub bytes: i64,
}

/// The state of a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromiseStatus {
    /// The least rate that its queue gets now, bytes per second.
    pub floor: f64,
    /// Bytes that do not fit before the deadline any more; 0 if the promise will be kept.
    pub late_bytes: f64,
}

/// Why a deadline is not promised, and the counter-offer.
#[derive(Clone, Debug, PartialEq)]
pub enum PromiseRefusal {
    /// No resource on the path from this source to this target has a known capacity.
    Unbounded(String, String),
    /// The bytes do not fit before the deadline.
    Full {
        /// The earliest deadline for all bytes, milliseconds since 1970; `None` if they do not fit at all.
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
    /// The present slot. Slots are aligned to the clock, not to the rounds of the scheduler: bytes that are placed in a slot stay there
    /// until it has passed.
    slot: Slot,
    statuses: HashMap<i64, PromiseStatus>,
}

impl<'a> Promises<'a> {
    /// The promises of all queues with a deadline. `usable` is the usable capacity of each resource, bytes per second. `moved` has for each
    /// queue the bytes that its transfers have moved of files that have not ended. `latest` is the latest deadline of the requests that
    /// follow.
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
        let mut all = Promises { topology, calendar, now, slot_ms, slot, statuses: HashMap::new() };
        all.reserve_passed(&capacities);
        for queue in promised {
            let moved = moved.get(&queue.id).copied().unwrap_or(0.0);
            let left = ((queue.queued_bytes + queue.running_bytes) as f64 - moved).max(0.0);
            all.place(queue, left);
        }
        all
    }

    /// Reserves the part of the present slot that has passed, so that nothing is placed there.
    fn reserve_passed(&mut self, capacities: &[f64]) {
        let passed_s = (self.slot_ms / 1000.0 - self.left_of_slot_s()).max(0.0);
        for (resource, capacity) in capacities.iter().enumerate().filter(|(_, capacity)| capacity.is_finite()) {
            let path = vec![resource as u32];
            let (release, deadline) = (self.slot, self.slot + 1);
            let passed = Request { path, bytes: capacity * passed_s, release, deadline, rate_most: f64::INFINITY };
            let _ = self.calendar.accept(&passed);
        }
    }

    /// Seconds until the present slot ends, at least 1: a round sets a rate for a second or longer.
    fn left_of_slot_s(&self) -> f64 {
        let end = (self.slot + 1) as f64 * self.slot_ms;
        ((end - self.now as f64) / 1000.0).max(1.0)
    }

    /// The state of a queue's promise; `None` if the queue has no deadline.
    pub fn status(&self, queue: i64) -> Option<PromiseStatus> {
        self.statuses.get(&queue).copied()
    }

    /// Adds promises, all of them or none.
    ///
    /// # Errors
    /// The requests do not fit beside the existing promises, or the capacity of a path is not known.
    pub fn accept(&mut self, all: &[PromiseRequest]) -> Result<(), PromiseRefusal> {
        for wanted in all {
            let key = [&wanted.source, &wanted.target, &wanted.community];
            let request = self.request(key, wanted.bytes as f64, wanted.deadline);
            if !self.is_bounded(&request.path) {
                return Err(PromiseRefusal::Unbounded(wanted.source.clone(), wanted.target.clone()));
            }
            self.calendar.accept(&request).map_err(|offer| PromiseRefusal::Full {
                deadline: offer.deadline.map(|slot| self.deadline_for(slot)),
                bytes: offer.bytes as i64,
            })?;
        }
        Ok(())
    }

    fn is_bounded(&self, path: &[u32]) -> bool {
        path.iter().any(|resource| self.topology.resources[*resource as usize].capacity.is_finite())
    }

    /// Places the bytes of a queue. If they do not all fit any more, the queue keeps slots for those that fit, and its least rate is the
    /// one that would still be in time.
    fn place(&mut self, queue: &Queue, left: f64) {
        let QueueKey { source, target, community, deadline, .. } = &queue.key;
        let request = self.request([source, target, community], left, *deadline);
        // The bytes must end a second before the deadline: a round sets a rate for a second.
        let seconds = ((deadline - self.now) as f64 / 1000.0 - 1.0).max(1.0);
        let status = match self.calendar.accept(&request) {
            Ok(id) => {
                PromiseStatus { floor: self.bytes_in_slot(id) / self.left_of_slot_s().min(seconds), late_bytes: 0.0 }
            }
            Err(offer) => {
                let fits = Request { bytes: offer.bytes.max(0.0) * (1.0 - 1e-9), ..request };
                let _ = self.calendar.accept(&fits);
                PromiseStatus { floor: left / seconds, late_bytes: left - offer.bytes }
            }
        };
        self.statuses.insert(queue.id, status);
    }

    /// Bytes of a promise in the present slot.
    fn bytes_in_slot(&self, id: PromiseId) -> f64 {
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
            // Just before the deadline, the rest is placed in the present slot.
            deadline: end.max(self.slot + 1),
            rate_most: f64::INFINITY,
        }
    }

    /// The deadline of a request whose bytes end by a slot.
    fn deadline_for(&self, slot: Slot) -> i64 {
        let placed = slot as f64 * self.slot_ms - self.now as f64;
        let span = (placed / (1.0 - SPARE_PART)).max(placed + SPARE_LEAST_MS).ceil();
        // Rounded up to whole seconds, as people write deadlines.
        ((self.now as f64 + span) / 1000.0).ceil() as i64 * 1000
    }
}

impl PromiseRefusal {
    /// The counter-offer, for programs; `None` if nothing can be promised.
    pub fn offer(&self) -> Option<Offer> {
        match self {
            PromiseRefusal::Unbounded(..) => None,
            PromiseRefusal::Full { deadline, bytes } => {
                Some(Offer { deadline: deadline.map(time::show), bytes: (*bytes).max(0) as u64 })
            }
        }
    }

    /// The refusal in one sentence, with the counter-offer.
    pub fn text(&self, wanted: i64) -> String {
        let wanted = time::show(wanted);
        match self {
            PromiseRefusal::Unbounded(source, target) => format!(
                "the capacity from {source} to {target} is not known, so that no deadline can be promised: describe a link \
                 (longhaul hub link add) or the endpoints' rates, or submit without a deadline"
            ),
            PromiseRefusal::Full { deadline: Some(deadline), bytes } => format!(
                "it does not fit before {wanted} beside the existing promises: all of it fits by {}, and {} of it by {wanted}",
                time::show(*deadline),
                model::Bytes((*bytes).max(0) as u64)
            ),
            PromiseRefusal::Full { deadline: None, bytes } => format!(
                "it does not fit before {wanted}, nor long after it: only {} of it fits by {wanted}",
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
            limited_job: 0,
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
    fn a_late_promise_needs_no_rate_now_and_a_promise_that_is_due_has_its_rate() {
        // 10,000 bytes per second, of which 9,000 are promised; 95 of 100 s are 19 slots of 5 s.
        let topology = topology();
        let late = promises(&topology, &[queue(1, 100, 90_000)]);
        assert_eq!(late.status(1), Some(PromiseStatus { floor: 0.0, late_bytes: 0.0 }));
        let due = promises(&topology, &[queue(1, 100, 850_000)]);
        let status = due.status(1).unwrap();
        assert!((status.floor - 8_000.0).abs() < 1.0 && status.late_bytes == 0.0, "{status:?}");
        assert_eq!(due.status(2), None);
    }

    #[test]
    fn a_refusal_has_a_counter_offer_that_fits() {
        let topology = topology();
        let queues = [queue(1, 100, 500_000)];
        assert_eq!(promises(&topology, &queues).accept(&[wanted("b", 100, 300_000)]), Ok(()));
        let refused = promises(&topology, &queues).accept(&[wanted("b", 100, 800_000)]).unwrap_err();
        let PromiseRefusal::Full { deadline: Some(deadline), bytes } = refused else { panic!("{refused:?}") };
        assert!((350_000..=355_000).contains(&bytes), "{bytes}");
        let offered = deadline / 1000;
        assert!((145..165).contains(&offered), "{offered}");
        assert_eq!(promises(&topology, &queues).accept(&[wanted("b", offered, 800_000)]), Ok(()));
        assert_eq!(promises(&topology, &queues).accept(&[wanted("b", 100, bytes)]), Ok(()));
        assert!(refused.text(100_000).starts_with("it does not fit before 1970-01-01T00:01:40Z"));
    }

    #[test]
    fn several_requests_are_promised_together_or_not_at_all() {
        let topology = topology();
        let parts = [wanted("b", 100, 500_000), wanted("b", 100, 500_000)];
        assert!(promises(&topology, &[]).accept(&parts[..1]).is_ok());
        assert!(promises(&topology, &[]).accept(&parts).is_err());
        let unbounded = promises(&topology, &[]).accept(&[wanted("c", 100, 1)]).unwrap_err();
        assert!(unbounded.text(1).contains("from a to c"), "{unbounded:?}");
    }

    /// Steps one queue second by second at its floor; returns the second at which its bytes have moved.
    fn ends_after(bytes: f64, deadline_s: i64, start_s: i64) -> i64 {
        let topology = topology();
        let usable: Vec<f64> = topology.resources.iter().map(|resource| resource.capacity).collect();
        let mut left = bytes;
        let mut second = 0;
        while left > 1.0 {
            let queues = [queue(1, start_s + deadline_s, left as i64)];
            let now = (start_s + second) * 1000;
            let promises = Promises::new(&topology, &usable, &queues, &HashMap::new(), 0, now);
            left -= promises.status(1).unwrap().floor.min(9_500.0);
            second += 1;
            assert!(second < 2 * deadline_s, "{left} bytes of {bytes} are left");
        }
        second
    }

    #[test]
    fn a_queue_at_its_floor_is_in_time() {
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
    fn a_late_queue_has_the_floor_that_would_be_in_time() {
        let topology = topology();
        let status = promises(&topology, &[queue(1, 100, 2_000_000)]).status(1).unwrap();
        assert!(status.floor >= 20_000.0 && status.late_bytes > 1_000_000.0, "{status:?}");
        let over = promises(&topology, &[queue(1, -5, 1_000)]).status(1);
        assert_eq!(over.map(|it| it.floor), None, "a deadline before 1970 is none");
    }
}
