//! Pages of all kinds of stories: whole, well-formed, bounded, and the same each time.

use std::path::PathBuf;

use model::v1::{self, Receipt};
use proptest::prelude::*;

use super::*;
use crate::html::tests::well_formed;
use crate::pairs;
use crate::read::{Point, ReportInput};
use crate::samples::{JOB, SampleRow, receipt, series, two_streams};
use crate::series::{Series, read};

fn of(found: Vec<ReportInput>) -> String {
    let named = found.into_iter().enumerate().map(|(at, found)| (format!("file {at}"), found)).collect();
    page(None, &pairs::stories(named).0)
}

fn a_receipt(receipt: Receipt) -> ReportInput {
    ReportInput::Receipt(Box::new(receipt), Vec::new())
}

fn a_series(text: &str) -> Series {
    read(text.as_bytes()).unwrap()
}

fn whole() -> Vec<ReportInput> {
    vec![a_receipt(receipt()), ReportInput::Series(Box::new(a_series(&series(JOB, &two_streams(16)))))]
}

/// `LONGHAUL_BLESS=1 cargo test -p report` writes the page anew.
#[test]
fn a_page_is_that_of_the_golden_file() {
    let page = of(whole());
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/report.html");
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &page).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = page.lines().zip(golden.lines()).find(|(now, golden)| now != golden);
    assert!(page == golden, "the page is not that of testdata/report.html: {differs:?}");
}

#[test]
fn a_page_has_the_facts_of_its_files() {
    let text = well_formed(&of(whole()));
    for part in [
        "Done in part: 1.00 GiB in 3 files in 10.00 s, 859 Mbit/s. Limited by the network.",
        "Evidence: the path gave 938 Mbit/s and no more when it was full",
        "Remedy: a faster path, or less of other traffic",
        "1.00 GiB (1073741824 bytes)",
        "Highest rate seen920 Mbit/s",
        "/srv/run7 → lh://dtn.example/data/run7",
        "crc32c (3 files)",
        "run7/<pipe>storagea FIFO, socket or device: not copied",
        "192.0.2.1:40001198.51.100.7:74110.00 s – 4.00 s512 MiB303 ms304 ms304 ms12000 (16.6 MiB)12000 (16.6 MiB)1448 Bbbrsealed",
        "connect0.90 s9.0 %name, TCP and TLS",
        "network 100 %",
        "1.75 s – 2.00 s0 bit/s0 bit/s0 bit/s",
        "0.00 s – 0.25 s920 Mbit/s920 Mbit/s920 Mbit/s",
        "longhaul/0.1.0 here, longhaul/0.1.0 there",
        "file 1",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(of(whole()), of(whole()));
}

#[test]
fn several_jobs_stand_side_by_side() {
    let other =
        Receipt { transfer: "other".into(), state: v1::State::Failed, exit: 6, rate_bit_s: 1_000_000, ..receipt() };
    let mut all = whole();
    all.push(a_receipt(other));
    all.push(ReportInput::Series(Box::new(a_series(&series("other", &two_streams(8))))));
    all.push(ReportInput::Failed("no <key>".into(), vec![Point { seconds: 2.0, bytes: 1_000_000 }]));
    let page = of(all);
    let text = well_formed(&page);
    assert!(
        text.contains("3 jobs or tests: 1 in part, 2 failed; mean rates from 1.00 Mbit/s to 859 Mbit/s."),
        "{text}"
    );
    assert!(text.contains("no <key>") && text.contains("Rates side by side"), "{text}");
    assert_eq!((page.matches("<section").count(), page.matches("id=\"job3-rate\"").count()), (3, 1));
    // Every id is unique.
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn a_hostile_receipt_stays_text_of_bounded_length() {
    let evil = "</title><script>alert('x')</script>\u{202e}\u{0}\"onload=\"".repeat(200);
    let mut all = Receipt {
        transfer: evil.clone(),
        source: vec![evil.clone(); 1000],
        target: evil.clone(),
        error: Some(evil.clone()),
        bytes: u64::MAX,
        files: u64::MAX,
        failed: u64::MAX,
        special: u64::MAX,
        resent_bytes: u64::MAX,
        rate_bit_s: u64::MAX,
        seconds: -1e308,
        phases: v1::Phases { connect: f64::MAX, scan: -1.0, transfer: f64::MIN_POSITIVE, finish: -0.0 },
        ..receipt()
    };
    all.limited_by = v1::Limit { part: evil.clone(), evidence: evil.clone(), remedy: evil.clone() };
    all.versions = v1::Versions { client: evil.clone(), node: evil.clone(), protocol: 9 };
    all.failures =
        vec![v1::Miss { path: evil.clone(), path_b64: None, fault: evil.clone(), reason: evil.clone() }; 2_000];
    all.digests = vec![v1::Verified { algorithm: evil.clone(), files: 1, value: Some(evil.clone()) }; 1000];
    let odd = v1::Stream {
        bytes: u64::MAX,
        rtt_s: f64::MAX,
        min_rtt_s: -1.0,
        busy_s: -5.0,
        receive_window_limited_s: f64::MAX,
        sent_bytes: u64::MAX,
        congestion: evil.clone(),
        payload: evil.clone(),
        address: evil.clone(),
        ..v1::Stream::default()
    };
    all.streams = (0..10_000).map(|id| v1::Stream { id, ..odd.clone() }).collect();
    all.ends = vec![v1::End { busy: f64::MAX, cpu: -1.0, ..v1::End::default() }; 1000];
    let page = of(vec![a_receipt(all)]);
    let text = well_formed(&page);
    assert!(text.contains("</title><script>alert('x')</script>\\u{202e}\\u{0}\"onload=\""));
    assert!(!page.contains("<script") && !page.contains('\u{202e}'));
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
    assert!(text.contains("… and 9936 more") && text.contains("more that are not named here"));
}

#[test]
fn a_long_series_makes_a_page_of_bounded_size() {
    let rows = |quarters| {
        of(vec![a_receipt(receipt()), ReportInput::Series(Box::new(a_series(&series(JOB, &two_streams(quarters)))))])
    };
    let (short, long) = (rows(200), rows(30_000));
    assert!(long.len() < 2 * short.len() && long.len() < 400_000, "{} and {} bytes", short.len(), long.len());
    // Of two hours, the one sample at which both streams stood still shows in the table: one row has 0 as its lowest rate.
    assert_eq!(long.matches("<td>0 bit/s</td><td>920 Mbit/s</td>").count(), 1);
    well_formed(&long);
}

#[test]
fn empty_inputs_make_a_page() {
    let empty = Receipt {
        streams: Vec::new(),
        ends: Vec::new(),
        failures: Vec::new(),
        digests: Vec::new(),
        special: 0,
        ..receipt()
    };
    let text = well_formed(&of(vec![a_receipt(empty), ReportInput::Series(Box::default())]));
    assert!(text.contains("Verified at both ends bynothing") && text.contains("The series has no rows"), "{text}");
    let one = [SampleRow { at_s: 0.05, for_s: 0.05, stream: 1, mbit_s: 800.0, busy: 0.9 }];
    let text = well_formed(&of(vec![ReportInput::Series(Box::new(a_series(&series("", &one))))]));
    assert!(text.contains("5.00 MB") || text.contains("4.77 MiB"), "{text}");
    assert!(text.contains("Limited most of all by the sending host's processors"), "{text}");
    let points = vec![Point { seconds: 1.0, bytes: 1 }, Point { seconds: 0.5, bytes: 0 }];
    well_formed(&of(vec![ReportInput::Unfinished(points)]));
    let titled = page(Some("A <title>"), &pairs::stories(vec![("f".into(), a_receipt(receipt()))]).0);
    assert!(well_formed(&titled).trim_start().starts_with("A <title>"));
}

#[test]
fn the_number_of_sections_is_bounded() {
    let numbered = |n: u32| a_receipt(Receipt { transfer: n.to_string(), ..receipt() });
    let many: Vec<ReportInput> = (0..1200).map(numbered).collect();
    let page = of(many);
    let text = well_formed(&page);
    assert_eq!(page.matches("<section").count(), SECTIONS_MAX);
    assert!(text.contains("… and 200 more.") && text.contains("The other 1168 are in the comparison above."));
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
}

fn samples() -> impl Strategy<Value = Vec<SampleRow>> {
    let row = (0.0..100.0f64, 0.0..10.0f64, 0u32..12, 0.0..1e6f64, 0.0..1.0f64);
    prop::collection::vec(row, 0..120).prop_map(|samples| {
        let mut now_s = 0.0;
        let row = |(gap_s, for_s, stream, mbit_s, busy)| {
            now_s += gap_s;
            SampleRow { at_s: now_s, for_s, stream, mbit_s, busy }
        };
        samples.into_iter().map(row).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_series_is_a_page(samples in samples(), job in "[a-c]?", cut in 0usize..20_000) {
        let mut text = series(&job, &samples);
        let head = text.find('\n').unwrap_or(0) + 1;
        text.truncate(head.max(text.len().saturating_sub(cut)));
        let receipt = a_receipt(Receipt { transfer: "a".into(), ..receipt() });
        let page = of(vec![receipt, ReportInput::Series(Box::new(a_series(&text)))]);
        well_formed(&page);
        prop_assert!(!["NaN", ">inf", ">-inf", "Minf", "Hinf", "Vinf"].iter().any(|odd| page.contains(odd)), "{}", page);
        prop_assert!(page.len() < 400_000);
    }

    #[test]
    fn any_names_and_numbers_are_a_page(
        name in any::<String>(),
        reason in any::<String>(),
        seconds in any::<f64>(),
        bytes in any::<u64>(),
        points in prop::collection::vec((0.0..1e9f64, any::<u64>()), 0..50),
    ) {
        let miss = v1::Miss { path: name.clone(), path_b64: None, fault: reason.clone(), reason: reason.clone() };
        let seconds = if seconds.is_finite() { seconds } else { 0.0 };
        let odd = Receipt { source: vec![name.clone()], target: reason, failures: vec![miss], seconds, bytes, transfer: name, ..receipt() };
        let points = points.into_iter().map(|(seconds, bytes)| Point { seconds, bytes }).collect();
        well_formed(&of(vec![ReportInput::Receipt(Box::new(odd), points)]));
    }
}
