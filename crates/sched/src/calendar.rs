//! A calendar of promises: bytes that must have moved over a path by a deadline, placed in slots of time.
//!
//! A request is placed as late as possible before its deadline (Noormohammadpour and others, RCD, arXiv:1707.04019), so that early
//! slots stay free for requests that are not known yet. It is accepted if all its bytes fit; no later request can take its slots. As
//! time passes, [`Calendar::pull`] moves promised bytes forward into the free room of the current slot, so that the path does not idle
//! before a deadline. A request that does not fit is answered with a counter-offer: a later deadline, or fewer bytes by the deadline
//! that was asked for.
//!
//! r resources on a path, s slots before the deadline: O(r·s) for a request.

use std::collections::BTreeMap;

/// The number of a slot, from the calendar's origin; each slot has the calendar's length.
pub type Slot = u64;

/// A request: bytes over a path between two times.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The resources that it uses.
    pub path: Vec<u32>,
    /// The size of the transfer, bytes.
    pub bytes: f64,
    /// The first slot that it may use.
    pub release: Slot,
    /// The slot before which the transfer must have ended.
    pub deadline: Slot,
    /// The highest rate that it can use, bytes per second.
    pub rate_most: f64,
}

/// The counter-offer to a request that does not fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterOffer {
    /// The earliest slot by which all bytes fit; none where that is beyond the calendar's horizon.
    pub deadline: Option<Slot>,
    /// The bytes that fit by the deadline that was asked for.
    pub bytes: f64,
}

/// The number of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromiseId(u64);

#[derive(Clone, Debug)]
struct Promise {
    path: Vec<u32>,
    rate_most: f64,
    /// Bytes by slot.
    placed: BTreeMap<Slot, f64>,
}

/// The promises over some resources.
#[derive(Clone, Debug)]
pub struct Calendar {
    slot_s: f64,
    /// The capacity of each resource, bytes per second.
    capacities: Vec<f64>,
    /// Bytes promised, by resource and slot.
    taken: Vec<BTreeMap<Slot, f64>>,
    promises: BTreeMap<PromiseId, Promise>,
    last: u64,
    /// How many slots ahead a counter-offer looks.
    horizon: Slot,
}

/// Less than this part of a byte counts as nothing.
const NOTHING: f64 = 1e-3;

impl Calendar {
    /// A calendar over resources of these capacities (bytes per second), in slots of `slot_s` seconds; counter-offers reach `horizon`
    /// slots.
    pub fn new(slot_s: f64, capacities: Vec<f64>, horizon: Slot) -> Calendar {
        let taken = vec![BTreeMap::new(); capacities.len()];
        Calendar { slot_s, capacities, taken, promises: BTreeMap::new(), last: 0, horizon }
    }

    /// Places a request as late as possible.
    ///
    /// # Errors
    /// The request does not fit. The counter-offer fits until another request is accepted.
    pub fn accept(&mut self, request: &Request) -> Result<PromiseId, CounterOffer> {
        let (placed, left) = self.place(request, request.deadline);
        if left > NOTHING {
            return Err(self.offer(request, request.bytes - left));
        }
        self.last += 1;
        let id = PromiseId(self.last);
        for (slot, bytes) in &placed {
            self.take(&request.path, *slot, *bytes);
        }
        self.promises.insert(id, Promise { path: request.path.clone(), rate_most: request.rate_most, placed });
        Ok(id)
    }

    /// Places a request with this deadline: the bytes in each slot, and the bytes for which there is no room.
    fn place(&self, request: &Request, deadline: Slot) -> (BTreeMap<Slot, f64>, f64) {
        let mut placed = BTreeMap::new();
        let mut left = request.bytes;
        for slot in (request.release..deadline).rev() {
            let room = self.room(&request.path, slot).min(request.rate_most * self.slot_s).min(left);
            if room > NOTHING {
                placed.insert(slot, room);
                left -= room;
            }
            if left <= NOTHING {
                break;
            }
        }
        (placed, left)
    }

    fn offer(&self, request: &Request, bytes: f64) -> CounterOffer {
        // A later deadline never holds fewer bytes, so the first deadline that fits is found by bisection.
        let fits = |deadline| self.place(request, deadline).1 <= NOTHING;
        let (mut least, mut most) = (request.deadline, request.release.max(request.deadline) + self.horizon);
        if !fits(most) {
            return CounterOffer { deadline: None, bytes };
        }
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if fits(middle) { most = middle } else { least = middle }
        }
        CounterOffer { deadline: Some(most), bytes }
    }

    /// The free room of a path in a slot, in bytes.
    pub fn room(&self, path: &[u32], slot: Slot) -> f64 {
        let room = |resource: &u32| {
            let taken = self.taken[*resource as usize].get(&slot).copied().unwrap_or(0.0);
            (self.capacities[*resource as usize] * self.slot_s - taken).max(0.0)
        };
        path.iter().map(room).fold(f64::INFINITY, f64::min)
    }

    fn take(&mut self, path: &[u32], slot: Slot, bytes: f64) {
        for resource in path {
            let taken = self.taken[*resource as usize].entry(slot).or_default();
            *taken = (*taken + bytes).max(0.0);
        }
    }

    /// The rate of a promise in a slot, bytes per second.
    pub fn rate(&self, id: PromiseId, slot: Slot) -> f64 {
        let placed = self.promises.get(&id).and_then(|promise| promise.placed.get(&slot));
        placed.copied().unwrap_or(0.0) / self.slot_s
    }

    /// The last slot of a promise, as it is placed now.
    pub fn last_slot(&self, id: PromiseId) -> Option<Slot> {
        self.promises.get(&id)?.placed.last_key_value().map(|(slot, _)| *slot)
    }

    /// Moves promised bytes into the free room of this slot, those of the earliest ends first.
    pub fn pull(&mut self, now: Slot) {
        let mut order: Vec<(Slot, PromiseId)> =
            self.promises.iter().filter_map(|(id, promise)| Some((*promise.placed.last_key_value()?.0, *id))).collect();
        order.sort_unstable();
        for (_, id) in order {
            self.pull_one(now, id);
        }
    }

    fn pull_one(&mut self, now: Slot, id: PromiseId) {
        let Some(Promise { path, rate_most, placed }) = self.promises.get(&id).cloned() else { return };
        let has = placed.get(&now).copied().unwrap_or(0.0);
        let room = self.room(&path, now).min((rate_most * self.slot_s - has).max(0.0));
        let mut pulled = 0.0;
        let mut after = placed.clone();
        for (slot, bytes) in placed.range(now + 1..) {
            let part = bytes.min(room - pulled);
            if part <= NOTHING {
                break;
            }
            pulled += part;
            self.take(&path, *slot, -part);
            match bytes - part {
                rest if rest > NOTHING => after.insert(*slot, rest),
                _ => after.remove(slot),
            };
        }
        if pulled > NOTHING {
            after.insert(now, has + pulled);
            self.take(&path, now, pulled);
        }
        if let Some(promise) = self.promises.get_mut(&id) {
            promise.placed = after;
        }
    }

    /// Removes a promise that is kept or given back, and frees the room that it has not used.
    pub fn remove(&mut self, id: PromiseId) {
        let Some(promise) = self.promises.remove(&id) else { return };
        for (slot, bytes) in promise.placed {
            self.take(&promise.path, slot, -bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(bytes: f64, release: Slot, deadline: Slot) -> Request {
        Request { path: vec![0], bytes, release, deadline, rate_most: f64::INFINITY }
    }

    fn calendar() -> Calendar {
        Calendar::new(10.0, vec![100.0], 1000)
    }

    #[test]
    fn a_request_is_placed_late_and_pulled_forward() {
        let mut calendar = calendar();
        let id = calendar.accept(&request(2500.0, 0, 10)).unwrap();
        assert_eq!(
            (calendar.rate(id, 9), calendar.rate(id, 8), calendar.rate(id, 7), calendar.rate(id, 6)),
            (100.0, 100.0, 50.0, 0.0)
        );
        assert_eq!(calendar.room(&[0], 0), 1000.0);
        calendar.pull(0);
        assert_eq!((calendar.rate(id, 0), calendar.room(&[0], 0)), (100.0, 0.0));
        calendar.pull(1);
        calendar.pull(2);
        assert_eq!((calendar.rate(id, 2), calendar.last_slot(id)), (50.0, Some(2)));
    }

    #[test]
    fn a_request_that_does_not_fit_gets_a_counter_offer_that_fits() {
        let mut calendar = calendar();
        calendar.accept(&request(5000.0, 0, 10)).unwrap();
        let offer = calendar.accept(&request(8000.0, 0, 10)).unwrap_err();
        assert_eq!(offer, CounterOffer { deadline: Some(13), bytes: 5000.0 });
        calendar.accept(&request(8000.0, 0, 13)).unwrap();
        let impossible = Request { rate_most: 0.0, ..request(1.0, 0, 10) };
        assert_eq!(calendar.accept(&impossible).unwrap_err().deadline, None);
    }

    #[test]
    fn room_that_is_given_back_is_free_again() {
        let mut calendar = calendar();
        let id = calendar.accept(&request(10_000.0, 0, 10)).unwrap();
        assert!(calendar.accept(&request(1.0, 0, 10)).is_err());
        calendar.remove(id);
        assert!(calendar.accept(&request(10_000.0, 0, 10)).is_ok());
    }

    proptest! {
        /// However requests are accepted, pulled and given back, no slot of a resource promises more than it has, and no promise loses
        /// a byte.
        #[test]
        fn promises_fit(requests in proptest::collection::vec((0u32..3, 0.0..20_000.0f64, 0u64..30, 1u64..30, proptest::bool::ANY), 1..40)) {
            let mut calendar = Calendar::new(10.0, vec![100.0, 60.0, 30.0], 200);
            let mut accepted = Vec::new();
            for (at, (resource, bytes, release, length, is_given_back)) in requests.into_iter().enumerate() {
                let path = if resource == 0 { vec![0] } else { vec![0, resource] };
                let request = Request { path, bytes, release, deadline: release + length, rate_most: 80.0 };
                match calendar.accept(&request) {
                    Ok(id) if is_given_back => calendar.remove(id),
                    Ok(id) => accepted.push((id, bytes)),
                    Err(CounterOffer { deadline: Some(deadline), .. }) => {
                        prop_assert!(calendar.clone().accept(&Request { deadline, ..request }).is_ok(), "the offer does not hold");
                    }
                    Err(_) => {}
                }
                calendar.pull(at as Slot);
            }
            for (resource, slots) in calendar.taken.iter().enumerate() {
                for (slot, taken) in slots {
                    prop_assert!(*taken <= calendar.capacities[resource] * 10.0 + 1.0, "slot {slot} of {resource}: {taken}");
                }
            }
            for (id, bytes) in accepted {
                let placed: f64 = calendar.promises[&id].placed.values().sum();
                prop_assert!((placed - bytes).abs() < 1.0, "{placed} of {bytes}");
            }
        }
    }
}
