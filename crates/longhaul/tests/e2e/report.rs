//! `longhaul report`: pages of the records of real jobs and tests, checked against their numbers; and messages about files that
//! are no records.

use std::fs;

use serde_json::Value;

use crate::client::{Client, words};
use crate::node::Node;

/// A number as a page has it: with the unit that fits.
fn shown_rate(bit_s: &Value) -> String {
    model::BitRate(bit_s.as_u64().unwrap()).to_string()
}

fn shown_bytes(bytes: &Value) -> String {
    model::Bytes(bytes.as_u64().unwrap()).to_string()
}

/// The visible text of the page, without markup.
fn text(page: &str) -> String {
    let body = page.split_once("</head>").unwrap().1;
    let mut text = String::new();
    for part in body.split('<').skip(1) {
        text.push_str(part.split_once('>').unwrap().1);
        text.push(' ');
    }
    text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'")
}

#[track_caller]
fn assert_contains(page: &str, all: &[&str]) {
    let text = text(page);
    all.iter().for_each(|part| assert!(text.contains(part), "{part:?} is not in {text}"));
}

fn assert_complete(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for foreign in ["<script", "src=", "href=", "http:", "https:", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn a_copy_s_receipt_and_series_are_a_page() {
    let (node, client) = (Node::open(), Client::new());
    let (receipt, series, page) = (client.path("r.json"), client.path("s.csv"), client.path("page.html"));
    client.write("tree/a & <b>", vec![7; 5_000_000]);
    // Slow enough for rows: at 10 Mbit/s four seconds, a rate that a busy machine reaches too.
    let printed = client.run(words![
        "cp",
        "-r",
        client.path("tree"),
        node.at("data/tree"),
        "--limit",
        "10Mbit/s",
        "--streams",
        "2",
        "--json",
        "--receipt",
        receipt,
        "--series",
        series
    ]);
    let job = printed.expect(0).json();
    assert_eq!((&job["files"], &job["bytes"]), (&1.into(), &5_000_000.into()), "{job}");
    client.run(words!["report", receipt, series, "--out", page]).expect(0);
    let first = fs::read_to_string(&page).unwrap();
    assert_complete(&first);
    let streams = job["streams"].as_array().unwrap();
    let ports: Vec<&str> = streams.iter().map(|stream| stream["address"].as_str().unwrap()).collect();
    assert!(ports.len() == 3 && ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{job}");
    assert!(streams.iter().all(|stream| stream["peer_address"] == node.address()), "{job}");
    let evidence = job["limited_by"]["evidence"].as_str().unwrap();
    assert_eq!(job["limited_by"]["part"], "cap", "{job}");
    assert_contains(
        &first,
        &[
            "Limited by a limit that was set",
            evidence,
            &shown_rate(&job["rate_bit_s"]),
            &format!("{} (5000000 bytes)", shown_bytes(&job["bytes"])),
            job["transfer"].as_str().unwrap(),
            ports[1],
            ports[2],
            "crc32c",
            "Rate of each stream",
            "The sending end's threads",
            "The receiving end's threads",
            "a limit",
        ],
    );
    // Both ends described their hosts.
    let ends = job["ends"].as_array().unwrap();
    assert_eq!((ends.len(), &ends[0]["sends"], &ends[1]["sends"]), (2, &true.into(), &false.into()), "{job}");
    assert!(ends.iter().all(|end| end["processors"].as_u64().unwrap() > 0), "{job}");
    assert!(ends[0]["pace"].as_f64().unwrap() > 0.5, "it was the limit: {job}");
    // The same page again, whatever the order, and on standard output.
    for files in [words!["report", series, receipt], words!["report", receipt, series]] {
        assert!(client.run(files).expect(0).text() == first);
    }
}

#[test]
fn the_records_of_a_pull_are_a_page() {
    let (node, client) = (Node::open(), Client::new());
    fs::write(node.data("f"), vec![7; 5_000_000]).unwrap();
    let (series, printed) = (client.path("s.csv"), client.path("out.json"));
    let out = client.run(words![
        "cp",
        node.at("data/f"),
        client.path("f"),
        "--limit",
        "10Mbit/s",
        "--json",
        "--series",
        series
    ]);
    let out = out.expect(0);
    let job = out.json();
    fs::write(&printed, &out.out).unwrap();
    let page = client.run(words!["report", printed, series, "--title", "A <pull>"]).expect(0).text();
    assert_complete(&page);
    assert!(page.contains("<title>A &lt;pull&gt;</title>"));
    assert_contains(
        &page,
        &["A <pull>", &shown_rate(&job["rate_bit_s"]), "Highest rate seen", "The receiving end's threads"],
    );
    let streams = job["streams"].as_array().unwrap();
    assert!(streams.iter().all(|stream| stream["peer_address"] == node.address()), "{job}");
    // Its rate is that of the arrived bytes: the rows of its one series add up to the file.
    let rows = fs::read_to_string(&series).unwrap();
    let names: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
    let at = names.iter().position(|name| *name == "received_bytes").unwrap();
    let received = rows.lines().skip(1).filter_map(|row| row.split(',').nth(at)?.parse::<u64>().ok()).max().unwrap();
    assert!(received > 1_000_000, "{rows}");
    assert!(rows.lines().nth(1).unwrap().ends_with(job["transfer"].as_str().unwrap()), "{rows}");
}

#[test]
fn a_test_and_a_copy_are_on_one_page() {
    let (node, client) = (Node::open(), Client::new());
    let test = client.run(words!["probe", "tcp", node.at(""), "-t", "1s", "--interval", "200ms", "-P", "2", "--json"]);
    let test = test.expect(0);
    let found = test.json();
    let (tested, copied, page) = (client.path("test"), client.path("copy"), client.path("page.html"));
    fs::write(&tested, &test.out).unwrap();
    client.write("f", b"small");
    client.run(words!["cp", client.path("f"), node.at("data/f"), "--receipt", copied, "--quiet"]).expect(0);
    let event = client.run(words!["report", tested, copied, "--out", page, "--json"]).expect(0).json();
    assert_eq!((&event["event"], &event["stories"], &event["v"]), (&"report".into(), &2.into(), &1.into()), "{event}");
    let page = fs::read_to_string(page).unwrap();
    assert_complete(&page);
    let direction = &found["directions"][0];
    assert_contains(
        &page,
        &[
            &shown_rate(&direction["rate_bit_s"]),
            direction["limit"].as_str().unwrap(),
            "2 jobs or tests: 1 done, 1 without a verdict",
        ],
    );
    assert_contains(
        &page,
        &["TCP test: here → ", "net.ipv4.tcp_rmem", "Done: 5 B in 1 file", "What could be expected"],
    );
}

#[test]
fn a_file_that_is_no_receipt_is_named() {
    let client = Client::new();
    client.write("empty", b"");
    client.write("words", b"hello\n");
    client.write("cut.json", b"{\"v\":1,\n\"event\":\"receipt\",\n\"job\"");
    client.write("head.csv", b"time_s,stream\n");
    for (code, words, expected) in [
        (2, words!["report"], vec!["required"]),
        (1, words!["report", "none.json"], vec!["cannot read none.json"]),
        (6, words!["report", "."], vec!["cannot read .: "]),
        (2, words!["report", "empty"], vec!["empty: is empty"]),
        (2, words!["report", "words"], vec!["words: line 1: neither a receipt"]),
        (2, words!["report", "cut.json"], vec!["cut.json: line 3: EOF"]),
        (2, words!["report", "head.csv"], vec!["head.csv: line 1: has no column records"]),
        (2, words!["report", "words", "--json"], vec!["--out"]),
        (2, words!["report", "words", "--out", "./words"], vec!["write over it"]),
        (2, words!["report", "-", "-"], vec!["read once"]),
    ] {
        let shown = format!("{words:?}");
        let outcome = client.run(words).expect(code);
        expected
            .iter()
            .for_each(|word| assert!(outcome.err.contains(word), "{shown}: {word:?} is not in {}", outcome.err));
        assert!(outcome.out.is_empty() || shown.contains("--json"), "{shown}");
    }
    assert_eq!(fs::read(client.path("words")).unwrap(), b"hello\n");
    let node = Node::open();
    client.write("f", b"x");
    client.run(words!["cp", client.path("f"), node.at("data/f"), "--receipt", client.path("r"), "--quiet"]).expect(0);
    client.run(words!["report", "r", "--out", "no/such/page"]).refused(6, &["cannot write the page to no/such/page"]);
    let mut full = client.command(words!["report", "r"]);
    let status = full.stdout(fs::File::options().write(true).open("/dev/full").unwrap()).status().unwrap();
    assert_eq!(status.code(), Some(6), "a page that did not fit is no page");
}
