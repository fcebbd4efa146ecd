//! Series as timelines.

use super::*;
use crate::samples::{JOB, SampleRow, series, two_streams};

fn of(text: &str) -> Series {
    read(text.as_bytes()).unwrap()
}

#[test]
fn a_series_becomes_a_timeline() {
    let found = of(&series(JOB, &two_streams(16)));
    assert_eq!((found.job.as_deref(), found.rows, found.unreadable), (Some(JOB), 16 * 3, 0));
    let timeline = &found.timeline;
    assert!(timeline.sends() && !found.lacks_processor_times && !timeline.is_crowded());
    let rates: Vec<f64> = timeline.rates().iter().map(|mean| (mean.mean / 1e6).round()).collect();
    assert_eq!((rates.len(), rates[0], rates[7], rates[15]), (16, 920.0, 0.0, 920.0));
    let facts: Vec<(u32, &StreamFacts)> = timeline.streams().collect();
    assert_eq!(facts.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(
        (facts[0].1.rtt.median(), facts[0].1.min_rtt_s, facts[0].1.cwnd.most()),
        (Some(0.304), Some(0.303), Some(12000.0))
    );
    assert!((facts[0].1.bytes[0] - 480e6 / 8.0 * 3.75).abs() < 1.0, "{:?}", facts[0].1.bytes);
    assert!((facts[1].1.receive_window_s - 1.0).abs() < 1e-9 && (facts[1].1.busy_s - 4.0).abs() < 1e-9);
    let moment = timeline.moments()[3];
    assert!((moment.sender.unwrap().cpu - 0.2).abs() < 0.01 && (moment.receiver.unwrap().socket - 0.9).abs() < 0.01);
}

#[test]
fn a_late_stream_and_a_reused_number_are_shown_at_their_times() {
    let row = |at_s, for_s, stream| SampleRow { at_s, for_s, stream, mbit_s: 80.0, busy: 0.0 };
    // The second stream began at 0.9 s; another stream took the number of the first at 1.9 s, after a break.
    let samples = [row(0.5, 0.5, 1), row(1.0, 0.5, 1), row(1.0, 0.1, 2), row(2.0, 0.1, 1)];
    let timeline = of(&series("", &samples)).timeline;
    let moved: Vec<f64> = timeline.streams().map(|(_, facts)| (facts.bytes[0] / 1e6).round()).collect();
    assert_eq!(moved, [11.0, 1.0], "MB: a second and a tenth, and a tenth, at 10 MB/s");
    let limited: Vec<(f64, bool)> =
        timeline.moments().iter().map(|moment| (moment.from_s, moment.limit.is_some())).collect();
    assert_eq!(
        limited,
        [(0.0, true), (0.25, true), (0.5, true), (0.75, true), (1.0, false), (1.25, false), (1.5, false), (1.75, true)]
    );
    let first = timeline.rates_of(&[1]);
    let when: Vec<(f64, f64)> = first.iter().map(|mean| (mean.from_s, (mean.mean / 1e6).round())).collect();
    assert_eq!(when, [(0.0, 80.0), (0.25, 80.0), (0.5, 80.0), (0.75, 80.0), (1.75, 32.0)]);
}

#[test]
fn a_job_begins_with_its_first_stream() {
    let row = |at_s| SampleRow { at_s, for_s: 0.25, stream: 1, mbit_s: 80.0, busy: 0.0 };
    let timeline = of(&series("", &[row(2.25), row(2.5)])).timeline;
    let rates: Vec<f64> = timeline.rates().iter().map(|mean| (mean.high / 1e6).round()).collect();
    assert_eq!(rates, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 80.0, 80.0]);
    let known: Vec<f64> = timeline.moments().iter().map(|moment| moment.from_s).collect();
    assert_eq!(known, [2.0, 2.25], "the other end had no threads before either");
}

#[test]
fn rows_that_cannot_be_read_are_counted() {
    let text = series(JOB, &two_streams(8)).replace("\n1.000,2,", "\n1.000,<2>,");
    let found = of(&format!("{text}0.5,1,1\n"));
    assert_eq!((found.unreadable, found.rows), (2, 23));
    assert!(found.first_error.starts_with("line 13: stream is \"<2>\""), "{}", found.first_error);
    let backwards = of(&[series(JOB, &two_streams(2)), series(JOB, &two_streams(2))].concat());
    assert_eq!((backwards.unreadable, backwards.rows), (1 + 3, 6 + 3));
    assert!(of(pilot::series::COLUMNS).timeline.rates().is_empty());
}
