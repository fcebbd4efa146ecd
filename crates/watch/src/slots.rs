//! Books heavy tests into the slots of a period: no two tests that need the same node or link share a slot.
//!
//! The booking is pure and depends on the set of tests only, not on their order: every process with the same configuration books the same slots, without a
//! lock. It is a greedy colouring of the conflict graph: a test takes the first slot in which all its resources are free. Tests are booked in the order
//! of a hash of their names, so that no site is always last. With r resources for each test and at most Δ tests on a resource, r(Δ - 1) + 1 slots are
//! enough.

use std::collections::HashMap;

/// A test to be booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its unique name.
    pub name: String,
    /// Nodes and links that it needs exclusively.
    pub resources: Vec<String>,
}

/// Slots for a number of demands.
#[derive(Clone, Debug, PartialEq)]
pub struct Booking {
    /// The slot of each demand, from 0, in the order in which the demands came.
    pub slots: Vec<u32>,
    /// The number of slots.
    pub count: u32,
    /// The length of each, seconds.
    pub slot_s: f64,
    /// The period, seconds: the requested one, or the shortest in which all slots fit.
    pub period_s: f64,
}

impl Booking {
    /// The offset of a test in each period, seconds.
    pub fn offset_s(&self, demand: usize) -> f64 {
        self.slots.get(demand).map_or(0.0, |slot| f64::from(*slot) * self.slot_s)
    }
}

/// A set of slots.
#[derive(Clone, Debug, Default)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    fn insert(&mut self, slot: u32) {
        let word = (slot / 64) as usize;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (slot % 64);
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }
}

/// FNV-1a: the order depends on the name only.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Books all demands; each test lasts `length_s` seconds, and is repeated every `period_s` if all slots fit.
pub fn book(demands: &[Demand], length_s: f64, period_s: f64) -> Booking {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut booked: Vec<SlotSet> = Vec::new();
    let needs: Vec<Vec<usize>> = demands
        .iter()
        .map(|demand| {
            let number = |name| {
                let next = numbers.len();
                *numbers.entry(name).or_insert(next)
            };
            demand.resources.iter().map(String::as_str).map(number).collect()
        })
        .collect();
    booked.resize(numbers.len(), SlotSet::default());
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_cached_key(|at| (hash(&demands[*at].name), demands[*at].name.clone()));
    let mut slots = vec![0; demands.len()];
    let mut count = 0;
    for at in order {
        let slot = first_free(&needs[at], &booked);
        needs[at].iter().for_each(|resource| booked[*resource].insert(slot));
        slots[at] = slot;
        count = count.max(slot + 1);
    }
    let count = count.max(1);
    let period_s = period_s.max(f64::from(count) * length_s);
    Booking { slots, count, slot_s: period_s / f64::from(count), period_s }
}

fn first_free(needs: &[usize], booked: &[SlotSet]) -> u32 {
    let words = needs.iter().map(|resource| booked[*resource].0.len()).max().unwrap_or(0);
    for at in 0..=words {
        let busy = needs.iter().fold(0, |busy, resource| busy | booked[*resource].word(at));
        if busy != u64::MAX {
            return at as u32 * 64 + busy.trailing_ones();
        }
    }
    words as u32 * 64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn demand(from: usize, to: usize) -> Demand {
        let resources = [from, to].iter().flat_map(|at| [format!("node {at}"), format!("link {at}")]).collect();
        Demand { name: format!("{from}>{to}"), resources }
    }

    fn mesh(sites: usize) -> Vec<Demand> {
        let pairs = (0..sites).flat_map(|a| (0..sites).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b).map(|(a, b)| demand(a, b)).collect()
    }

    /// Panics where two tests of one slot share a resource.
    fn check(demands: &[Demand], booking: &Booking) {
        let mut seen = HashSet::new();
        for (demand, slot) in demands.iter().zip(&booking.slots) {
            for resource in &demand.resources {
                assert!(seen.insert((*slot, resource.clone())), "{resource} twice in slot {slot}");
            }
        }
    }

    #[test]
    fn a_hundred_sites_are_booked_quickly() {
        let demands = mesh(100);
        let started = std::time::Instant::now();
        let booking = book(&demands, 20.0, 6.0 * 3_600.0);
        let took = started.elapsed();
        check(&demands, &booking);
        assert_eq!(demands.len(), 9_900);
        // Each site has 198 tests: no booking has fewer slots, and a greedy one has less than twice as many.
        assert!((198..396).contains(&booking.count), "{} slots", booking.count);
        assert!(took.as_secs_f64() < 10.0, "the bound is ten times the goal, for a busy machine: {took:?}");
        // The tests of a site are spread over the period: no site rests while others are tested repeatedly.
        let half = booking.count / 2;
        for site in 0..100 {
            let of_site =
                demands.iter().zip(&booking.slots).filter(|(d, _)| d.resources.contains(&format!("node {site}")));
            let early = of_site.filter(|(_, slot)| **slot < half).count();
            assert!((79..=160).contains(&early), "{early} of 198 tests of site {site} are in the first half");
        }
    }

    #[test]
    fn a_period_that_is_too_short_is_stretched() {
        let booking = book(&mesh(3), 60.0, 120.0);
        assert_eq!((booking.count, booking.period_s, booking.slot_s), (6, 360.0, 60.0));
        assert_eq!(booking.offset_s(0), f64::from(booking.slots[0]) * 60.0);
        let empty = book(&[], 60.0, 120.0);
        assert_eq!((empty.count, empty.period_s), (1, 120.0));
    }

    proptest! {
        #[test]
        fn a_booking_has_no_conflicts_and_ignores_the_order_of_demands(
            pairs in prop::collection::hash_set((0usize..12, 0usize..12), 1..80),
            seed in any::<u64>(),
        ) {
            let mut demands: Vec<Demand> = pairs.iter().filter(|(a, b)| a != b).map(|(a, b)| demand(*a, *b)).collect();
            let booking = book(&demands, 10.0, 600.0);
            check(&demands, &booking);
            prop_assert_eq!(booking.slots.len(), demands.len());
            let tests_of = |resource: &String| demands.iter().filter(|d| d.resources.contains(resource)).count();
            let busiest = demands.iter().flat_map(|d| &d.resources).map(tests_of).max().unwrap_or(0);
            prop_assert!(booking.count as usize <= (4 * busiest.saturating_sub(1) + 1).max(1));
            let named: std::collections::BTreeMap<_, _> =
                demands.iter().map(|d| d.name.clone()).zip(booking.slots.iter().copied()).collect();
            let mut random = fastrand::Rng::with_seed(seed);
            random.shuffle(&mut demands);
            let shuffled = book(&demands, 10.0, 600.0);
            let renamed = demands.iter().map(|d| d.name.clone()).zip(shuffled.slots.iter().copied()).collect();
            prop_assert_eq!(named, renamed);
        }
    }
}
