//! Tests series as Longhaul writes them, as they are cut short, and as strangers make them.

use model::account::Account;
use proptest::prelude::*;

use super::super::RowWriter;
use super::*;
use crate::Sample;

/// A series of one sample and one account.
fn written(sample: &Sample, far: &Account) -> String {
    let mut writer = RowWriter::new("01987654-3210".into());
    let mut text = format!("{COLUMNS}\n");
    let now = Duration::from_millis(400);
    writer.stream(&mut text, now, sample);
    writer.far_end(&mut text, now, far);
    text
}

fn sample() -> Sample {
    let mut sample = Sample { stream: 3, congestion: "bbr".into(), unread_bytes: 7, ..Sample::default() };
    sample.spent.records = 4;
    sample.spent.wall = [10, 20, 100, 0, 30].map(Duration::from_millis);
    sample.spent.cpu = [2, 20, 8, 0, 0].map(Duration::from_millis);
    sample.spent.longest[Stage::Socket as usize] = Duration::from_millis(60);
    sample.tcp.rtt = Duration::from_micros(303_500);
    sample.tcp.cwnd_segments = 10;
    sample.tcp.mss_bytes = 1448;
    sample.tcp.pacing_max_bytes_s = Some(1_250_000);
    sample.tcp.bytes_sent = 1 << 40;
    sample.tcp.bytes_received = 99;
    sample.tcp.busy = Duration::from_millis(150);
    sample
}

fn all(text: &str) -> Vec<Result<Row, RowError>> {
    Rows::new(text.as_bytes()).unwrap().collect()
}

#[test]
fn a_series_is_read_as_written() {
    let mut far = Account::default();
    far.spent.records = 2;
    far.spent.wall[Stage::Socket as usize] = Duration::from_millis(500);
    far.spent.cpu[Stage::Compute as usize] = Duration::from_millis(6);
    let text = written(&sample(), &far);
    let rows = Rows::new(text.as_bytes()).unwrap();
    assert!(rows.has_processor_times());
    let rows: Vec<Row> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].job.as_deref(), &rows[1].job), (Some("01987654-3210"), &None));
    assert_eq!((rows[0].spent.wall, rows[0].spent.cpu), (sample().spent.wall, sample().spent.cpu));
    assert_eq!(rows[0].spent.longest[Stage::Socket as usize], Duration::from_millis(60));
    let kernel = rows[0].kernel.as_ref().unwrap();
    assert_eq!((kernel.stream, kernel.rtt_s, kernel.cwnd_segments, kernel.mss_bytes), (3, 0.3035, 10, 1448));
    assert_eq!((kernel.pace_bit_s, kernel.sent_bytes, kernel.received_bytes), (Some(10e6), 1 << 40, 99));
    assert_eq!((kernel.busy_s, kernel.unread_bytes, kernel.congestion.as_str()), (0.15, 7, "bbr"));
    assert_eq!((&rows[1].kernel, rows[1].spent.records), (&None, 2));
    assert_eq!(rows[1].spent.wall_in(Stage::Socket), Duration::from_millis(500));
    assert_eq!(rows[1].spent.cpu_in(Stage::Compute), Duration::from_millis(6));
}

#[test]
fn columns_may_be_in_any_order_and_later_ones_missing() {
    let text = written(&sample(), &Account::default());
    let turned: Vec<String> = text
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').rev().skip(5).collect();
            format!("more,{}", cells.join(","))
        })
        .collect();
    let turned = format!("\u{feff}{}\r\n\r\n{}", turned[0], turned[1]);
    assert!(is_head(turned.lines().next().unwrap()));
    let rows = Rows::new(turned.as_bytes()).unwrap();
    assert!(!rows.has_processor_times());
    let row = rows.map(Result::unwrap).next().unwrap();
    assert_eq!((row.spent.wall, row.spent.cpu, row.job), (sample().spent.wall, [Duration::ZERO; 5], None));
    assert_eq!(row.kernel.unwrap().received_bytes, 0);
}

#[test]
fn a_file_that_is_not_a_series_is_refused() {
    for (text, why) in [
        ("", "line 1: is empty"),
        ("\n", "line 1: has no column time_s"),
        ("a,b,c\n1,2,3\n", "line 1: has no column time_s"),
        ("time_s,stream,records\n", "line 1: has no column storage_ms_per_record"),
        (&"x".repeat(100_000), "line 1: longer than 65536 bytes"),
    ] {
        assert!(Rows::new(text.as_bytes()).unwrap_err().to_string().starts_with(why), "{why}");
    }
    let bytes = [0xff, 0xfe, b',', b'\n'];
    assert_eq!(Rows::new(&bytes[..]).unwrap_err().to_string(), "line 1: is not text");
}

#[test]
fn a_bad_row_is_reported_and_the_others_are_read() {
    let text = written(&sample(), &Account::default());
    let (head, good) = text.trim_end().split_once('\n').unwrap();
    let with = |column: &str, cell: &str| {
        let at = COLUMNS.split(',').position(|name| name == column).unwrap();
        let cells = good.split(',').enumerate().map(|(n, old)| if n == at { cell } else { old });
        cells.collect::<Vec<_>>().join(",")
    };
    for (column, cell, why) in [
        ("time_s", "NaN", "time_s is \"NaN\""),
        ("time_s", "-1", "time_s is \"-1\""),
        ("time_s", "1e300", "time_s is \"1e300\""),
        ("stream", "<b>", "stream is \"<b>\""),
        ("stream", "4294967296", "stream is \"4294967296\""),
        ("records", "-3", "records is \"-3\""),
        ("storage_ms_per_record", "inf", "storage_ms_per_record is \"inf\""),
        ("socket_ms_per_record", "1e18", "socket_ms_per_record is \"1000000000000000000 for each of 4\""),
        ("rtt_ms", "", "rtt_ms is \"\""),
        ("cwnd_segments", "1.5", "cwnd_segments is \"1.5\""),
        ("sent_bytes", "99999999999999999999999", "sent_bytes is \"99999999999999999999999\""),
        ("pace_mbit_s", "fast", "pace_mbit_s is \"fast\""),
        ("busy_s", "1e17", "busy_s is \"1e17\""),
        ("received_bytes", "x\u{7}", "received_bytes is \"x\\u{7}\""),
        ("compute_cpu_ms_per_record", "-inf", "compute_cpu_ms_per_record is \"-inf\""),
    ] {
        let rows = all(&format!("{head}\n{good}\n{}\n{good}\n", with(column, cell)));
        assert!(rows.len() == 3 && rows[0].is_ok() && rows[2].is_ok(), "{rows:?}");
        let message = rows[1].as_ref().unwrap_err().to_string();
        assert!(message.starts_with(&format!("line 3: {why}")), "{message} is not {why}");
    }
    let long = all(&format!("{head}\n{}\n{good}\n", "9".repeat(200_000)));
    assert!(long.len() == 2 && long[1].is_ok(), "{}", long.len());
    assert_eq!(long[0].as_ref().unwrap_err().to_string(), "line 2: longer than 65536 bytes");
    let long_name = &all(&format!("{head}\n{}\n", with("congestion", &"c".repeat(1000))))[0];
    assert_eq!(long_name.as_ref().unwrap().kernel.as_ref().unwrap().congestion.len(), 40);
}

#[test]
fn a_series_that_was_cut_short_is_read_as_far_as_it_goes() {
    let text = written(&sample(), &Account::default());
    let (head, good) = text.trim_end().split_once('\n').unwrap();
    let rows = all(&format!("{head}\n{good}\n{}", &good[..good.len() / 2]));
    assert!(rows.len() == 2 && rows[0].is_ok());
    let message = rows[1].as_ref().unwrap_err().to_string();
    assert!(message.starts_with("line 3: ") && message.ends_with("the file ends in the middle of it"), "{message}");
    assert!(all(&format!("{head}\n{good}"))[0].is_ok(), "only its line end is missing");
    assert!(all(head).is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_rows_or_errors(body in prop::collection::vec(any::<u8>(), 0..4000)) {
        let mut text = format!("{COLUMNS}\n").into_bytes();
        text.extend(body);
        for row in Rows::new(text.as_slice()).unwrap().flatten() {
            prop_assert!((0.0..=SECONDS_MAX).contains(&row.time_s));
        }
        let _ = Rows::new(&text[1..]);
    }

    #[test]
    fn any_cells_are_rows_or_errors(cells in prop::collection::vec(
        prop_oneof![60 => "[0-9]{1,9}", 1 => "far|-?[0-9]{0,20}(\\.[0-9]{1,4})?|NaN|-?1e[0-9]{1,3}"], 32,
    )) {
        let text = format!("{COLUMNS}\n{}\n", cells.join(","));
        for row in Rows::new(text.as_bytes()).unwrap().flatten() {
            let kernel = row.kernel.unwrap_or_default();
            for number in [row.time_s, kernel.delivered_bit_s, kernel.rtt_s, kernel.busy_s, kernel.pace_bit_s.unwrap_or(0.0)] {
                prop_assert!(number.is_finite() && number >= 0.0);
            }
            prop_assert!(row.spent.total().as_secs_f64() <= 5.0 * SECONDS_MAX);
        }
    }
}
