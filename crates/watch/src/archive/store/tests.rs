//! The archive on SQLite: what is stored comes out, at every level, over packing and restarts.

use super::*;
use crate::archive::columns::LATENCY;
use crate::config::Keep;

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

fn key() -> SeriesKey {
    SeriesKey { from: "a".into(), to: "b".into(), test: "latency".into() }
}

fn new_row(series: i64, at: i64, sent: i64) -> NewRow {
    let mut values = vec![None; LATENCY.len()];
    values[1] = Some(sent);
    NewRow { series, row: Row { at, values }, columns: LATENCY, report: None }
}

async fn archive(dir: &tempfile::TempDir) -> Archive {
    Archive::open(&format!("sqlite:{}/watch.db", dir.path().display())).await.unwrap()
}

fn sent(rows: &[Row]) -> Vec<(i64, i64)> {
    rows.iter().map(|row| (row.at, row.values[1].unwrap())).collect()
}

#[tokio::test]
async fn rows_are_the_same_before_and_after_they_are_packed() {
    let dir = tempfile::tempdir().unwrap();
    let archive_ = archive(&dir).await;
    let series = archive_.series(&key()).await.unwrap();
    let begin = 20_000 * DAY - 2 * HOUR;
    // Four hours over midnight, without the second one.
    let minutes: Vec<i64> = (0..240).filter(|minute| !(60..120).contains(minute)).map(|m| begin + m * MINUTE).collect();
    let rows: Vec<NewRow> = minutes.iter().map(|at| new_row(series, *at, 600)).collect();
    archive_.append(&rows, Some(("a", 180))).await.unwrap();
    archive_.append(&rows[..10], Some(("a", 180))).await.unwrap();
    let end = begin + 4 * HOUR;
    let view = |archive: Archive, level| async move { sent(&archive.rows(&key(), level, begin, end).await.unwrap()) };
    let before = (view(archive_.clone(), Level::Minutes).await, view(archive_.clone(), Level::Hours).await);
    assert_eq!(before.0.len(), 180);
    assert_eq!(
        before.1,
        [(begin, 36_000), (begin + 2 * HOUR, 36_000), (begin + 3 * HOUR, 36_000)],
        "a gap stays a gap"
    );
    assert_eq!(archive_.pack(begin + 3 * HOUR).await.unwrap(), 120);
    assert_eq!((view(archive_.clone(), Level::Minutes).await, view(archive_.clone(), Level::Hours).await), before);
    assert_eq!(archive_.pack(end).await.unwrap(), 60);
    drop(archive_);
    let archive_ = archive(&dir).await;
    assert_eq!((view(archive_.clone(), Level::Minutes).await, view(archive_.clone(), Level::Hours).await), before);
    assert_eq!(archive_.cursor("a").await.unwrap(), 180);
    assert_eq!(archive_.series(&key()).await.unwrap(), series);
    let keep = Keep { minutes: std::time::Duration::from_secs(86_400), ..Keep::default() };
    archive_.forget(end + 3 * DAY, &keep).await.unwrap();
    assert!(view(archive_.clone(), Level::Minutes).await.is_empty());
    assert_eq!(view(archive_, Level::Hours).await.len(), 3);
}

fn loss_alarm() -> Alarm {
    Alarm {
        id: 0,
        from: "a".into(),
        to: "b".into(),
        kind: model::v1::watch::AlarmKind::Loss,
        direction: None,
        severity: model::v1::watch::Health::Warning,
        since: time::show(1_000),
        ended: None,
        evidence: "3 of 600 packets".into(),
        cause: model::v1::watch::CauseKind::RandomLoss,
        segment: "network".into(),
        remedy: String::new(),
        event: None,
        acknowledged: None,
    }
}

#[tokio::test]
async fn alarms_and_annotations_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(&dir).await;
    let mut alarm = loss_alarm();
    archive.write_alarm(&mut alarm).await.unwrap();
    assert_eq!(archive.alarms(None, 10).await.unwrap(), [alarm.clone()]);
    alarm.ended = Some(time::show(5_000));
    archive.write_alarm(&mut alarm).await.unwrap();
    assert!(archive.alarms(None, 10).await.unwrap().is_empty());
    assert_eq!(archive.alarms(Some(4_000), 10).await.unwrap(), [alarm]);
    assert!(archive.alarms(Some(6_000), 10).await.unwrap().is_empty());
    let note =
        Annotation { at: time::show(2_000), text: "firewall update".into(), place: "a".into(), by: "noc".into() };
    archive.annotate(&note).await.unwrap();
    assert_eq!(archive.annotations(0, 3_000).await.unwrap(), [note]);
    assert!(archive.annotations(3_000, 9_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn no_alarm_is_read_before_all_of_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(&dir).await;
    let writer = archive.clone();
    let writing = tokio::spawn(async move {
        for _ in 0..100 {
            writer.write_alarm(&mut loss_alarm()).await.unwrap();
        }
    });
    while !writing.is_finished() {
        archive.alarms(None, 10).await.unwrap();
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
    assert_eq!(archive.alarms(None, 1_000).await.unwrap().len(), 100);
}
