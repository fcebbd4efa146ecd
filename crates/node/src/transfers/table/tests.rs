//! The table of transfers, without files, threads and clocks.

use super::*;
use auth::{Grant, Rights};
use engine::control::Label;
use model::spec::LiveSettings;

fn access(name: u8) -> Access {
    Access::Granted(Grant::new([name; 8], &[2; 32], "d".into(), &model::RelPath::root(), Rights::Write, 0))
}

fn add(table: &mut Table, holder: u8, id: u128) -> Uuid {
    let order = Order::new(Uuid::from_u128(id), format!("/data/run-{id}/events.root"), "lh://far.example.org/data/");
    table.insert(Entry::new(order, access(holder), "2026-01-01T00:00:00Z".into(), None), id as u64);
    Uuid::from_u128(id)
}

fn end(table: &mut Table, id: Uuid) -> Vec<(Uuid, String)> {
    let ended = Transfer { state: Stage::Done, ..(*table.get(&id).unwrap().show()).clone() };
    table.end(&id, ended, None, 0)
}

fn control() -> Control {
    Control::new(Label::default(), LiveSettings::default(), Arc::default())
}

fn all(limit: usize) -> PageQuery<Stage> {
    PageQuery { state: None, after: None, limit }
}

fn holder(name: u8) -> String {
    access(name).holder().to_owned()
}

#[test]
fn transfers_start_in_order_within_the_bound_of_each_holder() {
    let mut table = Table::default();
    let ids: Vec<Uuid> = (1..=100).map(|n| add(&mut table, 1, n)).collect();
    let other = add(&mut table, 2, 200);
    let mut started = Vec::new();
    while let Some(id) = table.start_next() {
        started.push(id);
    }
    assert_eq!(started.len(), RUNNING_MAX.each + 1);
    assert_eq!((started[0], started[RUNNING_MAX.each]), (ids[0], other), "one holder leaves room for the next");
    assert_eq!(
        (table.orders.running(&holder(1)), table.orders.waiting()),
        ((RUNNING_MAX.each, RUNNING_MAX.each + 1), 36)
    );
    end(&mut table, ids[7]);
    assert_eq!(table.start_next(), Some(ids[RUNNING_MAX.each]));
    assert_eq!(table.start_next(), None);
    // A waiting transfer can be ended as well, and frees no place.
    end(&mut table, ids[99]);
    assert_eq!((table.orders.waiting(), table.orders.running(&holder(1)).0), (34, RUNNING_MAX.each));
    table.remove(&ids[98]);
    assert_eq!((table.orders.waiting(), table.get(&ids[98]).is_none()), (33, true));
}

#[test]
fn oldest_ended_transfers_are_forgotten_first() {
    let mut table = Table::default();
    let first = add(&mut table, 1, 1);
    for n in 2..=REMEMBERED_MAX as u128 + 1 {
        let id = add(&mut table, 1, n);
        assert!(end(&mut table, id).is_empty());
    }
    assert_eq!(end(&mut table, first), [(first, holder(1))], "it was added first");
    let unended = table.orders.unended().count();
    assert_eq!((unended, table.orders.known("").1, table.changes.len()), (0, REMEMBERED_MAX, REMEMBERED_MAX));
}

/// The cost of a list of 10,000 is counted here, and timed by `make bench-api`: each transfer is examined once, ended ones are
/// not copied, and a page examines little more than its own transfers.
#[test]
fn listing_ten_thousand_transfers_examines_each_once() {
    let mut table = Table::default();
    for n in 1..=10_000 {
        let id = add(&mut table, 1, n);
        end(&mut table, id);
    }
    let page = table.page(&holder(1), &all(10_000)).unwrap();
    assert_eq!((page.found.len(), page.examined, page.next), (10_000, 10_000, None));
    assert!(page.found.iter().zip(1..).all(|(transfer, n)| transfer.id.as_u128() == n));
    let kept = table.get(&Uuid::from_u128(5)).unwrap();
    assert!(Arc::ptr_eq(&kept.base, &page.found[4]));
    let bytes = serde_json::to_vec(&page.found.iter().map(|t| &**t).collect::<Vec<&Transfer>>()).unwrap().len();
    assert!((2_000_000..10_000_000).contains(&bytes), "{bytes}");
    let middle = PageQuery { after: Some(Uuid::from_u128(5_000)), ..all(100) };
    let page = table.page(&holder(1), &middle).unwrap();
    assert_eq!((page.found.len(), page.examined), (100, 101));
    assert_eq!((page.found[0].id.as_u128(), page.next), (5_001, Some(Uuid::from_u128(5_100))));
}

#[test]
fn pages_match_their_query() {
    let mut table = Table::default();
    let ids: Vec<Uuid> = (1..=6).map(|n| add(&mut table, 1 + (n % 2) as u8, n)).collect();
    assert_eq!(table.start_next(), Some(ids[0]));
    table.begin(&ids[0], control(), None, "2026-01-01T00:00:01Z".into(), 0);
    end(&mut table, ids[1]);
    let page = |name: u8, state: Option<Stage>, after: Option<Uuid>, limit: usize| {
        let page = table.page(&holder(name), &PageQuery { state, after, limit })?;
        Some((page.found.iter().map(|t| t.id.as_u128()).collect::<Vec<_>>(), page.next.map(|id| id.as_u128())))
    };
    assert_eq!(page(2, None, None, 10), Some((vec![1, 3, 5], None)));
    assert_eq!(page(2, None, None, 2), Some((vec![1, 3], Some(3))));
    assert_eq!(page(2, None, Some(ids[2]), 2), Some((vec![5], None)));
    assert_eq!(page(2, Some(Stage::Running), None, 10), Some((vec![1], None)));
    assert_eq!(page(1, Some(Stage::Done), None, 10), Some((vec![2], None)));
    assert_eq!(page(2, None, Some(ids[1]), 10), None, "another holder's transfer is unknown");
    assert_eq!(page(3, None, None, 10), Some((vec![], None)));
}

#[test]
fn changes_are_listed_once_and_in_order() {
    let mut table = Table::default();
    let ids: Vec<Uuid> = (1..=3).map(|n| add(&mut table, 1, n)).collect();
    let changed = |table: &Table, mark| {
        let changed = table.changed_since(mark, &holder(1), None);
        changed.iter().map(|c| (c.revision, c.transfer.id.as_u128())).collect::<Vec<_>>()
    };
    assert_eq!(changed(&table, 0), [(1, 1), (2, 2), (3, 3)]);
    table.touch(&ids[0], 50);
    assert_eq!(changed(&table, 2), [(3, 3), (50, 1)]);
    // The numbers grow even if the clock goes back.
    table.touch(&ids[1], 10);
    assert_eq!(changed(&table, 50), [(51, 2)]);
    assert!(table.changed_since(0, &holder(2), None).is_empty());
    assert_eq!(table.changed_since(0, &holder(1), Some(&ids[2])).len(), 1);
    // A transfer that is read from its record keeps the number of its last change.
    let record = TransferRecord {
        ended: Some(Transfer { state: Stage::Done, ..Transfer::default() }),
        ..table.get(&ids[1]).unwrap().record()
    };
    let mut later = Table::default();
    later.insert(Entry::from_record(record, None, &Budget::new(0, 0)), 5);
    assert_eq!((later.revision(), later.changed_since(50, &holder(1), None).len()), (51, 1));
}

#[test]
fn ended_transfers_have_no_secrets() {
    let mut table = Table::default();
    let credentials = model::v1::node::Credentials { token: Some("t0ken".into()), ..Default::default() };
    let order =
        Order { credentials: Some(credentials), ..Order::new(Uuid::from_u128(1), "/d/a", "https://s/x?sig=5ecret") };
    table.insert(Entry::new(order, access(1), String::new(), None), 1);
    let id = Uuid::from_u128(1);
    let text = |table: &Table| serde_json::to_string(&table.get(&id).unwrap().record()).unwrap();
    let shown = serde_json::to_string(&*table.get(&id).unwrap().show()).unwrap();
    assert!(!shown.contains("t0ken") && !shown.contains("5ecret"), "{shown}");
    assert!(text(&table).contains("t0ken"), "it is needed after a restart");
    end(&mut table, id);
    assert!(!text(&table).contains("t0ken") && !text(&table).contains("5ecret"), "{}", text(&table));
}

#[test]
fn orders_of_one_holder_do_not_displace_those_of_another() {
    let mut table = Table::default();
    let quiet = add(&mut table, 1, 1);
    end(&mut table, quiet);
    let mut forgotten = Vec::new();
    for n in 2..=REMEMBERED_MAX as u128 + 100 {
        let id = add(&mut table, 2, n);
        forgotten.extend(end(&mut table, id));
    }
    assert_eq!(forgotten.len(), 100);
    assert!(forgotten.iter().all(|(_, of)| *of == holder(2)));
    assert!(table.get(&quiet).is_some());
    assert_eq!(
        (table.orders.known(&holder(1)), table.orders.known(&holder(2)).0),
        ((1, REMEMBERED_MAX), REMEMBERED_MAX - 1)
    );
}

/// The long fields of an order are not kept, and a repeated order is still recognised.
#[test]
fn ended_transfers_take_little_memory() {
    let filter = |n: usize| model::v1::node::Filter { include: true, pattern: format!("{n}-{}", "x".repeat(4000)) };
    let options = model::v1::node::Options { filters: (0..100).map(filter).collect(), ..Default::default() };
    let order = Order { options, ..Order::new(Uuid::from_u128(1), "/d/a", "lh://h/e/x") };
    assert!(footprint(&order) > 400_000);
    let budget = Budget::new(1 << 20, 1 << 20);
    let mut part = budget.part("me");
    part.grow(footprint(&order)).unwrap();
    let mut table = Table::default();
    table.insert(Entry::new(order.clone(), access(1), String::new(), Some(part)), 1);
    assert!(budget.taken() > 400_000);
    end(&mut table, order.id);
    let entry = table.get(&order.id).unwrap();
    assert!(entry.bytes() < 2000 && entry.is_of(&order), "{}", entry.bytes());
    assert!(!entry.is_of(&Order { limit_bit_s: 5, ..order }));
    assert_eq!(budget.taken(), 0);
}

#[test]
fn cancellations_in_old_records_are_read() {
    let mut table = Table::default();
    let id = add(&mut table, 1, 1);
    let mut written = serde_json::to_value(table.get(&id).unwrap().record()).unwrap();
    let is_cancelled = |written: &serde_json::Value| {
        let record: TransferRecord = serde_json::from_value(written.clone()).unwrap();
        Entry::from_record(record, Some(access(1)), &Budget::new(1 << 20, 1 << 20)).changes.cancel
    };
    assert!(!is_cancelled(&written));
    written["cancelled"] = true.into();
    assert!(is_cancelled(&written));
}
