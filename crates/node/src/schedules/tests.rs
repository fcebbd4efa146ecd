//! The table of schedules, without a network.

use model::v1::node::StreamTest;

use super::*;

fn schedule(number: u128, rate_packets_s: f64) -> Schedule {
    let test = ScheduledTest::Stream(StreamTest { rate_packets_s, ..StreamTest::default() });
    let (id, target) = (Uuid::from_u128(number), "stamp://192.0.2.1".to_owned());
    Schedule { id, target, test, node: None, credentials: None }
}

fn insert(table: &mut Table, holder: &str, schedule: Schedule) -> Result<(), Unaccepted> {
    let plan = order::read(&schedule).unwrap();
    table.check_room(holder, &plan)?;
    table.insert(Arc::new(ScheduleRecord { holder: holder.into(), created: String::new(), schedule }), &plan);
    Ok(())
}

#[test]
fn schedules_are_bounded() {
    let mut table = Table::default();
    for number in 0..SCHEDULES_MAX.each as u128 {
        assert!(insert(&mut table, "a", schedule(number, 1.0)).is_ok());
    }
    assert!(matches!(insert(&mut table, "a", schedule(5_000, 1.0)), Err(Unaccepted::Full(_))));
    assert!(insert(&mut table, "b", schedule(5_001, 100.0)).is_ok(), "others have their own");
    let mut fast = Table::default();
    for number in 0..50 {
        assert!(insert(&mut fast, "a", schedule(number, 100.0)).is_ok());
    }
    let refused = insert(&mut fast, "a", schedule(99, 0.1));
    assert!(matches!(refused, Err(Unaccepted::Refused(refusal)) if refusal.reason.contains("packets/s")));
}

#[test]
fn due_schedules_are_taken_once() {
    let mut table = Table::default();
    insert(&mut table, "a", schedule(1, 1.0)).unwrap();
    let later = unix_seconds_f() + 1.0;
    assert_eq!(table.take_due(later).len(), 1);
    let entry = table.entries.get_mut(&Uuid::from_u128(1)).unwrap();
    entry.due_s = f64::INFINITY;
    assert!(table.take_due(later + 1e6).is_empty(), "a running stream is not begun again");
}
