//! Receipts and series that belong together, and those that do not.

use super::*;
use crate::samples::{JOB, receipt, series, two_streams};
use crate::series::read;

fn a_receipt(job: &str) -> ReportInput {
    ReportInput::Receipt(Box::new(Receipt { transfer: job.into(), ..receipt() }), Vec::new())
}

fn a_series(job: &str) -> ReportInput {
    ReportInput::Series(Box::new(read(series(job, &two_streams(4)).as_bytes()).unwrap()))
}

/// The files of each story, with `*` if it has a timeline, and `?` if the series was joined by position.
fn joined(found: Vec<(&str, ReportInput)>) -> Vec<String> {
    let named = found.into_iter().map(|(file, found)| (file.to_owned(), found)).collect();
    let (stories, remarks) = stories(named);
    assert!(remarks.is_empty(), "{remarks:?}");
    let joined = |story: Story| {
        let is_guessed = story.remarks.iter().any(|remark| remark.contains("by the order of the files"));
        let marks = [story.timeline.is_some().then_some("*"), is_guessed.then_some("?")];
        story.files.join("+") + &marks.into_iter().flatten().collect::<String>()
    };
    stories.into_iter().map(joined).collect()
}

#[test]
fn a_series_joins_the_receipt_of_its_job() {
    let all = vec![("a", a_receipt("A")), ("b", a_receipt("B")), ("sb", a_series("B")), ("sa", a_series("A"))];
    assert_eq!(joined(all), ["a+sa*", "b+sb*"]);
    assert_eq!(joined(vec![("s", a_series(JOB)), ("r", a_receipt(JOB))]), ["r+s*"], "in either order");
    assert_eq!(joined(vec![("s", a_series("X")), ("r", a_receipt(JOB))]), ["s*", "r"], "of another job");
    assert_eq!(joined(vec![("s", a_series("A")), ("t", a_series("A")), ("r", a_receipt("A"))]), ["t*", "r+s*"]);
}

#[test]
fn a_series_without_a_job_joins_by_position() {
    let all = || vec![("a", a_receipt("A")), ("b", a_receipt("B")), ("s", a_series("")), ("t", a_series(""))];
    assert_eq!(joined(all()), ["a+s*?", "b+t*?"]);
    let mut mixed = all();
    mixed.swap(1, 2);
    assert_eq!(joined(mixed), ["a+s*?", "b+t*?"]);
    let mut fewer = all();
    fewer.pop();
    assert_eq!(joined(fewer), ["a", "b", "s*"], "two receipts and one series do not match");
    let known = vec![("a", a_receipt("A")), ("b", a_receipt("B")), ("s", a_series("B")), ("t", a_series(""))];
    assert_eq!(joined(known), ["a+t*?", "b+s*"]);
}

#[test]
fn the_same_receipt_twice_is_one() {
    let points = vec![Point { seconds: 1.0, bytes: 5 }];
    let printed = ReportInput::Receipt(Box::new(Receipt { transfer: "A".into(), ..receipt() }), points);
    assert_eq!(joined(vec![("a", a_receipt("A")), ("out", printed), ("b", a_receipt("B"))]), ["a+out*", "b"]);
    let other = ReportInput::Receipt(Box::new(Receipt { transfer: "A".into(), files: 7, ..receipt() }), Vec::new());
    assert_eq!(joined(vec![("a", a_receipt("A")), ("later", other)]), ["a", "later"]);
}

#[test]
fn rows_that_cannot_be_read_are_reported() {
    let text = series(JOB, &two_streams(4)).replace("\n0.500,1,", "\nx,1,");
    let found = ReportInput::Series(Box::new(read(text.as_bytes()).unwrap()));
    let (stories, remarks) = stories(vec![("s.csv".into(), found)]);
    assert_eq!(remarks.len(), 1);
    assert!(
        remarks[0].starts_with("s.csv: 1 row could not be read, the first: line 5: time_s is \"x\""),
        "{remarks:?}"
    );
    assert!(stories[0].remarks.iter().any(|remark| remark.starts_with("1 row of the series could not be read")));
}
