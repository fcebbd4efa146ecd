//! A table of orders of one kind, transfers or tests, in the sequence of their arrival: those that wait, those under way, and those
//! that have ended and are remembered. Pure: the entry knows what an order is and how it is shown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use model::id::Uuid;

use crate::holder_bound::HolderBound;
use crate::retention::Retention;

/// An entry of a table, and the bounds of the table: each pair is the bound of one holder, and of all.
pub(crate) trait OrderEntry {
    /// Orders under way at once.
    const RUNNING_MAX: HolderBound;
    /// Orders that have not ended.
    const UNENDED_MAX: HolderBound;

    fn id(&self) -> Uuid;
    fn holder(&self) -> &str;
}

/// Selects a page of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageQuery<S> {
    /// Only orders in this state.
    pub state: Option<S>,
    /// Only orders after this one.
    pub after: Option<Uuid>,
    /// The greatest length of the page.
    pub limit: usize,
}

/// A page of a table.
#[derive(Debug)]
pub(crate) struct Page<P> {
    pub found: Vec<P>,
    /// The last order of this page, if there is a next page.
    pub next: Option<Uuid>,
    /// Entries that were examined for the page.
    pub examined: usize,
}

/// All orders of a kind, by a number that grows with their arrival.
pub(crate) struct OrderTable<T> {
    entries: BTreeMap<u64, T>,
    ids: HashMap<Uuid, u64>,
    queued: BTreeSet<u64>,
    under_way: BTreeSet<u64>,
    ended: Retention,
    /// The highest number that was given.
    numbers: u64,
}

impl<T> Default for OrderTable<T> {
    fn default() -> OrderTable<T> {
        OrderTable {
            entries: BTreeMap::new(),
            ids: HashMap::new(),
            queued: BTreeSet::new(),
            under_way: BTreeSet::new(),
            ended: Retention::default(),
            numbers: 0,
        }
    }
}

/// The number of entries of one holder, and of all.
fn own_and_all<'a, T: OrderEntry + 'a>(entries: impl Iterator<Item = &'a T>, holder: &str) -> (usize, usize) {
    entries.fold((0, 0), |(own, all), entry| (own + usize::from(entry.holder() == holder), all + 1))
}

impl<T: OrderEntry> OrderTable<T> {
    pub fn get(&self, id: &Uuid) -> Option<&T> {
        self.entries.get(self.ids.get(id)?)
    }

    pub fn get_mut(&mut self, id: &Uuid) -> Option<&mut T> {
        self.entries.get_mut(self.ids.get(id)?)
    }

    /// An order, if it is this holder's.
    pub fn of(&self, holder: &str, id: &Uuid) -> Option<&T> {
        self.get(id).filter(|entry| entry.holder() == holder)
    }

    /// An order to change, if it is this holder's.
    pub fn of_mut(&mut self, holder: &str, id: &Uuid) -> Option<&mut T> {
        self.get_mut(id).filter(|entry| entry.holder() == holder)
    }

    /// The orders that wait, oldest first.
    pub fn queued(&self) -> impl Iterator<Item = &T> {
        self.queued.iter().filter_map(|number| self.entries.get(number))
    }

    /// The orders under way, oldest first: few, however long the table is.
    pub fn under_way(&self) -> impl Iterator<Item = &T> {
        self.under_way.iter().filter_map(|number| self.entries.get(number))
    }

    /// The orders that wait, and those under way.
    pub fn unended(&self) -> impl Iterator<Item = &T> {
        self.queued().chain(self.under_way())
    }

    /// The number of orders that wait.
    pub fn waiting(&self) -> usize {
        self.queued.len()
    }

    /// The number of orders under way: of one holder, and of all.
    pub fn running(&self, holder: &str) -> (usize, usize) {
        own_and_all(self.under_way(), holder)
    }

    /// The number of known orders: of one holder, and of all.
    pub fn known(&self, holder: &str) -> (usize, usize) {
        (own_and_all(self.unended(), holder).0 + self.ended.of(holder), self.entries.len())
    }

    /// Whether a holder, or all holders together, have as many unended orders as allowed.
    pub fn is_full_for(&self, holder: &str) -> bool {
        let (own, all) = own_and_all(self.unended(), holder);
        own >= T::UNENDED_MAX.each || all >= T::UNENDED_MAX.all
    }

    /// Adds an order, which waits behind all others.
    pub fn insert(&mut self, entry: T) {
        self.numbers += 1;
        self.queued.insert(self.numbers);
        self.ids.insert(entry.id(), self.numbers);
        self.entries.insert(self.numbers, entry);
    }

    /// Starts the next order: the first preferred one of a holder below its bound, or else the first of such a holder. It counts as
    /// under way from here on.
    pub fn start_next(&mut self, is_preferred: impl Fn(&T) -> bool) -> Option<Uuid> {
        let id = self.next_id(is_preferred)?;
        let number = *self.ids.get(&id)?;
        self.queued.remove(&number);
        self.under_way.insert(number);
        Some(id)
    }

    fn next_id(&self, is_preferred: impl Fn(&T) -> bool) -> Option<Uuid> {
        if self.under_way.len() >= T::RUNNING_MAX.all {
            return None;
        }
        let mut running: HashMap<&str, usize> = HashMap::new();
        self.under_way().for_each(|entry| *running.entry(entry.holder()).or_default() += 1);
        let has_room = |entry: &&T| running.get(entry.holder()).is_none_or(|own| *own < T::RUNNING_MAX.each);
        let mut eligible = self.queued().filter(has_room).peekable();
        let first = *eligible.peek()?;
        Some(eligible.find(|entry| is_preferred(entry)).unwrap_or(first).id())
    }

    /// Removes an order from the queue; `false` if it does not wait.
    pub fn dequeue(&mut self, id: &Uuid) -> bool {
        self.ids.get(id).is_some_and(|number| self.queued.remove(number))
    }

    /// Ends an order, which counts with `bytes` among those that are remembered.
    pub fn end(&mut self, id: &Uuid, bytes: usize) {
        let Some(number) = self.ids.get(id) else { return };
        self.queued.remove(number);
        self.under_way.remove(number);
        if let Some(entry) = self.entries.get(number) {
            self.ended.add(entry.holder(), *number, bytes);
        }
    }

    /// Removes an order that has not ended.
    pub fn remove(&mut self, id: &Uuid) -> Option<T> {
        let number = self.ids.remove(id)?;
        self.queued.remove(&number);
        self.under_way.remove(&number);
        self.entries.remove(&number)
    }

    /// Removes ended orders beyond `count` and `bytes`, each time the oldest of the holder with the most.
    pub fn forget_beyond(&mut self, count: usize, bytes: usize) -> Vec<T> {
        let numbers = std::iter::from_fn(|| self.ended.take_beyond(count, bytes));
        let gone: Vec<T> = numbers.filter_map(|number| self.entries.remove(&number)).collect();
        for entry in &gone {
            self.ids.remove(&entry.id());
        }
        gone
    }

    /// A page of a holder's orders, as they are shown; none if the order of `after` is not known.
    pub fn page<S: PartialEq, P>(
        &self,
        holder: &str,
        query: &PageQuery<S>,
        show: impl Fn(&T) -> P,
        state: impl Fn(&P) -> S,
    ) -> Option<Page<P>> {
        let is_wanted = |shown: &P| query.state.as_ref().is_none_or(|wanted| *wanted == state(shown));
        let from = match &query.after {
            None => 0,
            Some(id) => self.of(holder, id).and_then(|_| self.ids.get(id)).copied()?,
        };
        let mut page = Page { found: Vec::new(), next: None, examined: 0 };
        let mut last = None;
        for entry in self.entries.range((Bound::Excluded(from), Bound::Unbounded)).map(|(_, entry)| entry) {
            page.examined += 1;
            let shown = (entry.holder() == holder).then(|| show(entry)).filter(is_wanted);
            let Some(shown) = shown else { continue };
            if page.found.len() == query.limit {
                page.next = last;
                break;
            }
            page.found.push(shown);
            last = Some(entry.id());
        }
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Entry(u128, &'static str);

    impl OrderEntry for Entry {
        const RUNNING_MAX: HolderBound = HolderBound { each: 1, all: 2 };
        const UNENDED_MAX: HolderBound = HolderBound { each: 3, all: 4 };

        fn id(&self) -> Uuid {
            Uuid::from_u128(self.0)
        }

        fn holder(&self) -> &str {
            self.1
        }
    }

    fn table(orders: &[(u128, &'static str)]) -> OrderTable<Entry> {
        let mut table = OrderTable::default();
        orders.iter().for_each(|(id, holder)| table.insert(Entry(*id, holder)));
        table
    }

    fn end(table: &mut OrderTable<Entry>, id: u128) -> Vec<u128> {
        table.end(&Uuid::from_u128(id), 10);
        table.forget_beyond(2, 100).iter().map(|entry| entry.0).collect()
    }

    #[test]
    fn a_preferred_order_starts_first_within_the_bounds() {
        let mut table = table(&[(1, "a"), (2, "a"), (3, "b"), (4, "c")]);
        let start_next =
            |table: &mut OrderTable<Entry>, prefer| table.start_next(|e| e.1 == prefer).map(|id| id.as_u128());
        assert_eq!((start_next(&mut table, "b"), start_next(&mut table, "b")), (Some(3), Some(1)));
        assert_eq!((start_next(&mut table, "c"), table.running("a"), table.waiting()), (None, (1, 2), 2));
        end(&mut table, 3);
        assert_eq!(start_next(&mut table, "a"), Some(4), "a has enough under way");
        assert!(table.remove(&Uuid::from_u128(1)).is_some());
        assert_eq!((start_next(&mut table, "b"), table.known("a"), table.known("b")), (Some(2), (1, 3), (1, 3)));
    }

    #[test]
    fn unended_orders_are_bounded() {
        let mut table = table(&[(1, "a"), (2, "a"), (3, "a")]);
        assert!(table.is_full_for("a") && !table.is_full_for("b"));
        table.insert(Entry(4, "b"));
        assert!(table.is_full_for("c"));
        assert!(table.dequeue(&Uuid::from_u128(1)) && !table.dequeue(&Uuid::from_u128(1)));
        assert!(!table.is_full_for("a") && !table.is_full_for("c"));
    }

    #[test]
    fn ended_orders_are_remembered_up_to_a_bound() {
        let mut table = table(&[(1, "a"), (2, "b"), (3, "b")]);
        assert!(end(&mut table, 1).is_empty() && end(&mut table, 3).is_empty());
        assert_eq!(end(&mut table, 2), [2]);
        assert!(table.get(&Uuid::from_u128(2)).is_none() && table.of("b", &Uuid::from_u128(1)).is_none());
    }

    #[test]
    fn a_page_has_the_orders_of_one_holder() {
        let table = table(&[(1, "a"), (2, "b"), (3, "a"), (4, "a"), (5, "b")]);
        let page = |after: Option<u128>, limit, is_odd| {
            let query = PageQuery { state: is_odd, after: after.map(Uuid::from_u128), limit };
            let page = table.page("a", &query, |entry| entry.0, |id| id % 2 == 1)?;
            Some((page.found, page.next.map(|id| id.as_u128()), page.examined))
        };
        assert_eq!(page(None, 2, None), Some((vec![1, 3], Some(3), 4)));
        assert_eq!(page(Some(3), 2, None), Some((vec![4], None, 2)));
        assert_eq!(page(None, 2, Some(false)), Some((vec![4], None, 5)));
        assert_eq!(page(Some(2), 2, None), None, "an order of another holder");
    }
}
