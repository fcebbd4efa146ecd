//! Files of all kinds: whole, truncated and random.

use std::fs;

use model::fault::{Blame, Fault, with_causes};
use proptest::prelude::*;

use super::*;
use crate::samples::{JOB, receipt, series, two_streams};

fn of(text: impl AsRef<[u8]>) -> Result<Vec<ReportInput>, Error> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, text).unwrap();
    read(&file)
}

/// The message about a file that is refused, without the name of the file.
#[track_caller]
fn refused(text: impl AsRef<[u8]>) -> String {
    let failure = of(text).unwrap_err();
    assert_eq!(failure.fault(), Fault::Config);
    with_causes(&failure).split_once("file: ").unwrap().1.to_owned()
}

#[test]
fn receipts_are_recognised_in_all_their_forms() {
    let receipt = receipt();
    let (line, pretty) = (serde_json::to_string(&receipt).unwrap(), serde_json::to_string_pretty(&receipt).unwrap());
    let point = |seconds, bytes| {
        format!("{{\"v\":1,\"event\":\"progress\",\"seconds\":{seconds},\"bytes\":{bytes},\"more\":[{{}}]}}\n")
    };
    let points = point(0.5, 100) + &point(1.5, 300);
    let shown = format!("{{\"v\":1,\"job\":\"x\",\"state\":\"ended\",\"receipt\":{line}}}");
    for (text, many, progress) in [
        (line.clone(), 1, 0),
        (format!("\n \n{pretty}\n"), 1, 0),
        (format!("{points}{line}\n"), 1, 2),
        (format!("{pretty}\n{points}{line}{pretty}"), 3, 2),
        (format!("[{line},\n{pretty}]"), 2, 0),
        (shown, 1, 0),
        (format!("{{\"v\":1,\"event\":\"would\",\"path\":\"a\"}}\n{line}\n"), 1, 0),
    ] {
        let found = of(&text).unwrap();
        assert_eq!(found.len(), many, "{text}");
        let mut seen = 0;
        for found in found {
            let ReportInput::Receipt(one, points) = found else { panic!("{text}") };
            assert_eq!(*one, receipt);
            seen += points.len();
        }
        assert_eq!(seen, progress, "{text}");
    }
}

#[test]
fn a_series_is_recognised_by_its_columns() {
    let found = of(series(JOB, &two_streams(4))).unwrap();
    assert!(matches!(&found[..], [ReportInput::Series(series)] if series.rows == 12));
}

#[test]
fn truncated_output_is_reported_as_far_as_it_goes() {
    let points = "{\"event\":\"progress\",\"seconds\":1,\"bytes\":5}\n{\"event\":\"progress\",\"seconds\":2,\"by";
    assert!(matches!(&of(points).unwrap()[..], [ReportInput::Unfinished(points)] if points.len() == 1));
    let error =
        "{\"event\":\"progress\",\"seconds\":1,\"bytes\":5}\n{\"v\":1,\"event\":\"error\",\"message\":\"no <key>\"}\n";
    let found = of(error).unwrap();
    assert!(
        matches!(&found[..], [ReportInput::Failed(why, points)] if why == "no <key>" && points.len() == 1),
        "{found:?}"
    );
}

#[test]
fn an_error_names_its_line() {
    let line = serde_json::to_string(&receipt()).unwrap();
    let pretty = serde_json::to_string_pretty(&receipt()).unwrap();
    let line_of = |what: &str| pretty.lines().position(|line| line.contains(what)).unwrap() + 1;
    let at = line_of("\"seconds\"");
    let edited = |from: &str, to: &str| {
        assert!(pretty.contains(from), "{from}");
        pretty.replacen(from, to, 1)
    };
    for (text, expected) in [
        (String::new(), "is empty: neither".to_owned()),
        (" \n\n".into(), "is empty".into()),
        ("hello, world\n".into(), "line 1: neither a receipt".into()),
        ("<html>".into(), "line 1: neither a receipt".into()),
        ("{}".into(), "line 1: an object is neither".into()),
        ("[]".into(), "line 1: an empty list of receipts".into()),
        ("{\"v\":2,\"event\":\"receipt\"}".into(), "line 1: written by a later version (v is 2".into()),
        ("{\"v\":1,\"event\":\"result\",\"test\":\"udp\"}".into(), "line 1: \"result of udp\" is neither".into()),
        ("\n\n{\"v\":1,\"event\":\"receipt\",\n \"job\":\"x\"}".into(), "line 4: missing field".into()),
        (format!("{line}\n{{\"event\":\"receipt\"}}"), "line 2: missing field".into()),
        (format!("{line}\n[1]"), "line 2: not an object".into()),
        (format!("{line}\n17"), "line 2: not an object".into()),
        (format!("{line}\n{{]"), "line 2: ".into()),
        (edited("\"seconds\": 10.0", "\"seconds\": NaN"), format!("line {at}: ")),
        (edited("\"seconds\": 10.0", "\"seconds\": null"), format!("line {at}: invalid type: null")),
        (edited("\"seconds\": 10.0", "\"seconds\": 1e999"), format!("line {at}: number out of range")),
        (
            edited("\"files\": 3", "\"files\": -3"),
            format!("line {}: invalid value: integer `-3`", line_of("\"files\": 3")),
        ),
        (
            edited("\"state\": \"partial\"", "\"state\": \"splendid\""),
            format!("line {}: unknown variant `splendid`", line_of("\"state\"")),
        ),
        ("[".repeat(100_000), "line 1: ".into()),
    ] {
        let why = refused(&text);
        assert!(why.starts_with(&expected), "{why:?} is not {expected:?}");
    }
    let header = "time_s,stream,records\n1,2,3\n";
    assert!(refused(header).starts_with("line 1: has no column storage_ms_per_record"), "{}", refused(header));
}

#[test]
fn a_file_that_is_not_there_is_missing() {
    let failure = read(Path::new("/no/such/receipt.json")).unwrap_err();
    assert_eq!(failure.fault(), Fault::Missing);
    assert!(with_causes(&failure).starts_with("cannot read /no/such/receipt.json: "), "{failure}");
    let failure = read(Path::new("/")).unwrap_err();
    assert_eq!(failure.fault(), Fault::Storage, "a directory: {failure}");
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000), kind in 0usize..4) {
        let mut text = [&b""[..], b"{\"v\":1,", b"[", b"time_s,stream\n"][kind].to_vec();
        text.extend(bytes);
        let _ = of(text);
    }

    #[test]
    fn any_part_of_a_receipt_is_read_or_refused(from in 0usize..3000, length in 0usize..3000, with in any::<String>()) {
        let mut text = serde_json::to_string_pretty(&receipt()).unwrap().into_bytes();
        let from = from.min(text.len());
        let to = (from + length).min(text.len());
        text.splice(from..to, with.into_bytes());
        let _ = of(text);
    }
}
