//! Ranges: their meaning, the length of the answer, and the bounded cost of a request.

use std::fs;

use super::raw::{Answer, Raw, ask, open};
use crate::node::Node;
use crate::tree::pattern;

fn ranged(node: &Node, ranges: &str) -> Answer {
    ask(node, "GET", "/data/f", &[("Range", ranges)], &[])
}

#[test]
fn single_ranges_are_served_exactly() {
    let node = open();
    let data = pattern(1000);
    fs::write(node.data("f"), &data).unwrap();
    let most = u64::MAX;
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=-1", 999, 1000),
        ("bytes=-5000", 0, 1000),
        ("bytes=999-", 999, 1000),
        ("bytes=5-18446744073709551615", 5, 1000),
        ("bytes=5-36893488147419103232", 5, 1000),
        ("bytes=-36893488147419103232", 0, 1000),
    ] {
        let answer = ranged(&node, range).expect(206);
        assert!(answer.whole && answer.body == data[from..to], "{range}");
        assert_eq!(answer.field("content-range").unwrap(), format!("bytes {from}-{}/1000", to - 1), "{range}");
    }
    for range in ["bytes=-0", "bytes=1000-", &format!("bytes={most}-"), &format!("bytes={most}-{most}")] {
        let answer = ranged(&node, range).expect(416);
        assert_eq!(answer.field("content-range"), Some("bytes */1000"), "{range}");
    }
    // Other units than bytes are ignored (RFC 9110, section 14.2).
    for range in ["bytes=5-4", "bytes=a-b", "lines=0-1", "bytes=", "bytes", "bytes=--5", "bytes=1-2-3", "bytes=+1-2"] {
        assert_eq!(ranged(&node, range).expect(200).body, data, "{range}");
    }
    fs::write(node.data("f"), b"").unwrap();
    assert_eq!(ranged(&node, "bytes=0-0").status, 416);
    assert!(matches!(ranged(&node, "bytes=-1").status, 200 | 416));
}

#[test]
fn several_ranges_have_the_announced_length() {
    let node = open();
    let data = pattern(500_000);
    fs::write(node.data("f"), &data).unwrap();
    let many: Vec<String> = (0..500).map(|at| format!("{}-{}", at * 1000, at * 1000 + 99)).collect();
    let many = format!("bytes={}", many.join(","));
    let mut sealed = Raw::sealed(&node);
    for ranges in ["bytes=0-0,-1", "bytes=0-99999,200000-399999,499999-600000", "bytes=300000-400000,0-9", &many] {
        // The connection continues after it: it was neither too long nor too short.
        for _ in 0..2 {
            let answer = sealed.ask("GET", "/data/f", &[("Range", ranges)], &[]).expect(206);
            assert!(answer.whole, "{ranges}");
        }
        let mut raw = Raw::to(&node);
        let answer = raw.ask("GET", "/data/f", &[("Range", ranges)], &[]).expect(206);
        assert_eq!(raw.ask("GET", "/data/f", &[("Range", "bytes=0-0")], &[]).body, &data[..1]);
        let kind = answer.field("content-type").unwrap().to_owned();
        let boundary = kind.split_once("boundary=").unwrap().1.trim_matches('"');
        let end = format!("\r\n--{boundary}--\r\n").into_bytes();
        assert!(answer.body.ends_with(&end), "{ranges}");
        let requested = ranges.split(',').count();
        let mark = format!("--{boundary}\r\n").into_bytes();
        assert_eq!(answer.body.windows(mark.len()).filter(|window| *window == mark).count(), requested);
        // HEAD ignores ranges.
        assert_eq!(ask(&node, "HEAD", "/data/f", &[("Range", ranges)], &[]).field("content-length"), Some("500000"));
    }
}

#[test]
fn excessive_ranges_get_the_whole_file_once() {
    let node = open();
    let data = pattern(100_000);
    fs::write(node.data("f"), &data).unwrap();
    let bombs = [
        format!("bytes={}", vec!["0-"; 10_000].join(",")),
        format!("bytes={}", (0..10_000).map(|at| at.to_string() + "-").collect::<Vec<_>>().join(",")),
        format!("bytes={}", vec!["0-99999"; 100].join(",")),
        format!("bytes={}", (0..1000).rev().map(|at| format!("{at}-{at}")).collect::<Vec<_>>().join(",")),
        format!("bytes={}", ["-99999"; 5].join(",")),
    ];
    for bomb in bombs {
        let answer = ranged(&node, &bomb);
        assert!(answer.status == 200 && answer.body == data || answer.status == 431, "{}", answer.status);
    }
    // All of them behind the end.
    let beyond = format!("bytes={}", vec!["200000-"; 500].join(","));
    assert_eq!(ranged(&node, &beyond).status, 416);
}
