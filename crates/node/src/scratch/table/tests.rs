//! Tests of the table of scratch places.

use auth::Rights;
use model::RelPath;
use model::v1::node::{ScratchFile, ScratchFiles};

use super::*;

const GB: u64 = 1_000_000_000;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn orderer(holder: &str) -> Orderer {
    Orderer { holder: holder.into(), who: holder.into(), peer: ([127, 0, 0, 1], 1).into() }
}

fn grant(number: u128) -> Grant {
    let prefix = RelPath::parse(id(number).to_string().as_bytes()).unwrap();
    Grant::new([number as u8; 8], &[7; 32], "exercise".into(), &prefix, Rights::Write, 0)
}

/// Orders the place of this number for a minute.
fn order(table: &mut ScratchTable, number: u128, quota_bytes: u64, now: Instant) -> Result<bool, ScratchRefused> {
    let order = ScratchOrder { id: id(number), lifetime_s: 60, quota_bytes };
    table.order(&order, orderer("me"), grant(number), now)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_key_is_valid_until_the_very_moment_of_expiry() {
    let (mut table, now) = (ScratchTable::new(GB, &[]), Instant::now());
    assert!(order(&mut table, 1, GB, now).unwrap());
    let last = now + seconds(60) - Duration::from_nanos(1);
    for (secret, at, is_valid) in [(7, now, true), (7, last, true), (8, now, false), (7, now + seconds(60), false)] {
        assert_eq!(table.grant_of_key(&[1; 8], &[secret; 32], at).is_some(), is_valid, "{secret} {at:?}");
    }
    assert!(table.grant(&auth::hex(&[1; 8]), last).is_some() && table.grant(&auth::hex(&[2; 8]), last).is_none());
    assert!(table.take_ended(last).is_empty());
    let ended = table.take_ended(now + seconds(60));
    assert_eq!(ended.iter().map(|ended| (ended.id, ended.cause)).collect::<Vec<_>>(), [(id(1), EndCause::Expired)]);
    assert!(ended[0].place.as_ref().is_some_and(|place| place.has_ended.load(Ordering::Acquire)));
    assert!(table.take_ended(now + seconds(99)).is_empty(), "it ends once");
}

#[test]
fn a_place_is_renewed_by_its_holder_alone() {
    let (mut table, now) = (ScratchTable::new(GB, &[]), Instant::now());
    order(&mut table, 1, GB, now).unwrap();
    assert!(matches!(table.renew("other", &id(1), 60, now), Err(ScratchRefused::Unknown(_))));
    assert!(matches!(table.remove("other", &id(1), now), Err(ScratchRefused::Unknown(_))));
    for lifetime_s in [0, 61] {
        assert!(matches!(table.renew("me", &id(1), lifetime_s, now), Err(ScratchRefused::Lifetime(_))));
    }
    table.renew("me", &id(1), 30, now + seconds(59)).unwrap();
    assert!(table.living(&id(1), now + seconds(88)).is_some());
    // The same order again renews it as well, and another one of that id is refused.
    assert!(!order(&mut table, 1, GB, now + seconds(88)).unwrap());
    assert!(matches!(order(&mut table, 1, 5, now + seconds(88)), Err(ScratchRefused::IdTaken(_))));
    let by_other = ScratchOrder { id: id(1), lifetime_s: 60, quota_bytes: GB };
    assert!(matches!(
        table.order(&by_other, orderer("other"), grant(1), now + seconds(88)),
        Err(ScratchRefused::IdTaken(_))
    ));
    let late = now + seconds(88 + 60);
    assert!(matches!(table.renew("me", &id(1), 60, late), Err(ScratchRefused::Unknown(_))));
    assert!(matches!(order(&mut table, 1, GB, late), Err(ScratchRefused::Ending(_))), "its directory is still there");
    table.take_ended(late);
    table.gone(&id(1));
    assert!(order(&mut table, 1, GB, late).unwrap());
}

#[test]
fn the_quotas_of_all_places_fit_into_that_of_the_node() {
    let (mut table, now) = (ScratchTable::new(GB, &[id(9)]), Instant::now());
    order(&mut table, 1, GB - 10, now).unwrap();
    let refused = order(&mut table, 2, 11, now).unwrap_err();
    assert!(matches!(refused, ScratchRefused::NodeQuota { asked: 11, left: 10, all: GB }), "{refused}");
    order(&mut table, 2, 10, now).unwrap();
    order(&mut table, 3, 0, now).unwrap();
    table.remove("me", &id(1), now).unwrap();
    assert!(order(&mut table, 4, GB - 10, now).is_err(), "its files are still there");
    assert_eq!(table.take_ended(now).len(), 2, "that one, and the one that was left behind");
    table.gone(&id(1));
    order(&mut table, 4, GB - 10, now).unwrap();
    assert!(matches!(order(&mut table, 9, 0, now), Err(ScratchRefused::Ending(_))));
}

#[test]
fn a_node_has_64_scratch_places() {
    let (mut table, now) = (ScratchTable::new(GB, &[]), Instant::now());
    for number in 1..=PLACES_MAX as u128 {
        assert!(order(&mut table, number, 1, now).unwrap(), "{number}");
    }
    assert!(matches!(order(&mut table, 65, 1, now), Err(ScratchRefused::Full)));
    assert!(!order(&mut table, 64, 1, now).unwrap(), "one that is there is renewed");
    table.remove("me", &id(1), now).unwrap();
    table.take_ended(now);
    table.gone(&id(1));
    assert!(order(&mut table, 65, 1, now).unwrap());
    table.close();
    assert_eq!(table.take_ended(now).len(), PLACES_MAX);
    assert!(matches!(order(&mut table, 66, 1, now), Err(ScratchRefused::Stopping)));
}

#[test]
fn the_quota_of_a_place_holds_for_every_byte() {
    let (mut table, now) = (ScratchTable::new(GB, &[]), Instant::now());
    order(&mut table, 1, 100, now).unwrap();
    let files = |bytes| {
        let files = vec![ScratchFile { path: format!("f{bytes}"), bytes }];
        FileOrder::read(&ScratchFiles { seed: 0, files }).unwrap()
    };
    assert!(table.order_files("me", &id(1), files(60), now).unwrap());
    assert!(matches!(
        table.order_files("me", &id(1), files(41), now),
        Err(ScratchRefused::PlaceQuota { asked: 41, left: 40, quota: 100 })
    ));
    assert!(!table.order_files("me", &id(1), files(60), now).unwrap(), "the same order again is done once");
    // Files that are to be made have their room, whatever clients write.
    assert_eq!(table.grow(&id(1), 41, now), Err(NoRoom::Quota { used_bytes: 60, quota_bytes: 100 }));
    table.grow(&id(1), 40, now).unwrap();
    table.of("me", &id(1), now).unwrap().files.take_next();
    table.grow(&id(1), 60, now).unwrap();
    assert!(table.grow(&id(1), 1, now).is_err());
    assert_eq!(table.grow(&id(1), 0, now + seconds(60)), Err(NoRoom::NoPlace));
    assert_eq!(table.grow(&id(2), 0, now), Err(NoRoom::NoPlace));
}

#[test]
fn the_memory_for_paths_is_bounded() {
    let (mut table, now) = (ScratchTable::new(GB, &[]), Instant::now());
    order(&mut table, 1, GB, now).unwrap();
    order(&mut table, 2, 0, now).unwrap();
    let long = |number: usize| path(&format!("{}/{number}", vec!["x".repeat(200); 19].join("/")));
    let count = PATH_BYTES_MAX / memory_of(&long(10_000));
    for number in 10_000..10_000 + count {
        table.check_path(&id(1), &long(number), now).unwrap();
        table.living_mut(&id(1)).unwrap().usage.finish(&long(number), 0, 0);
    }
    assert_eq!(table.check_path(&id(2), &long(0), now), Err(NoRoom::Paths), "of all places together");
    let files = vec![ScratchFile { path: long(0).to_string(), bytes: 0 }];
    let more = FileOrder::read(&ScratchFiles { seed: 0, files }).unwrap();
    assert!(matches!(table.order_files("me", &id(2), more, now), Err(ScratchRefused::Paths)));
    table.living_mut(&id(1)).unwrap().usage.remove(&long(10_000));
    table.check_path(&id(2), &long(10_000), now).unwrap();
}
