//! The promises of a hub: exactly the bytes that were submitted, deadlines, and metrics for operators.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::hub::{Hub, Member, Pair, pair};
use crate::node::Node;
use crate::tree::pattern;
use crate::wait::{LONG, until};

/// Submits files of which two differ from their description: they fail for good, with both values, and do not arrive.
pub fn assert_only_described_files_arrive(
    admin: &Member<'_>,
    (from, source): (&Node, &str),
    (to, target): (&Node, &str),
) {
    fs::write(from.data("nine"), "123456789").unwrap();
    fs::write(from.data("same"), "123456789").unwrap();
    fs::write(from.data("another"), "123456789").unwrap();
    let line = |name: &str, options: &str| format!("{source}/nine {target}/in/{name} {options}\n");
    let list = [
        line("good", "9 adler32:091e01de"),
        line("wrong", "9 adler32:091e01df").replace("/nine ", "/same "),
        line("longer", "10").replace("/nine ", "/another "),
    ];
    let list = admin.write("list", &list.concat());
    let id = admin.submit(&["--files-from", &list]);
    admin.ended(&id);
    let files = admin.files(&id);
    let states: Vec<_> = files.iter().map(|file| (file["state"].as_str(), file["fault"].as_str())).collect();
    let failed = (Some("failed"), Some("integrity"));
    assert_eq!(states, [(Some("done"), None), failed, failed], "{files:?}");
    let reason = files[1]["error"].as_str().unwrap();
    assert!(reason.contains("adler32:091e01de") && reason.contains("adler32:091e01df"), "{reason}");
    let there = |name: &str| to.data(&format!("in/{name}")).exists();
    assert_eq!((there("good"), there("wrong"), there("longer")), (true, false, false));
}

#[test]
fn a_file_that_is_not_what_was_submitted_does_not_arrive() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    let (source, target) = (a.at("data"), b.at("data"));
    assert_only_described_files_arrive(&admin, (&a, &source), (&b, &target));
}

#[test]
fn a_deadline_is_promised_and_kept_or_refused_with_a_possible_one() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    fs::write(a.data("bulk"), pattern(60 << 20)).unwrap();
    fs::write(a.data("due"), pattern(12 << 20)).unwrap();
    let submit = |name: &str, bytes: u64, deadline: Option<Duration>| {
        let line = format!("{} {} {bytes}\n", a.at(&format!("data/{name}")), b.at(&format!("data/in/{name}")));
        let list = admin.write("list", &line);
        let mut words = vec!["submit".to_owned(), "--files-from".into(), list];
        if let Some(from_now) = deadline {
            let at = (std::time::SystemTime::now() + from_now).duration_since(std::time::UNIX_EPOCH).unwrap();
            words.extend(["--deadline".into(), jiff::Timestamp::from_second(at.as_secs() as i64).unwrap().to_string()]);
        }
        admin.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let unbounded = submit("due", 12 << 20, Some(Duration::from_secs(60)));
    assert!(unbounded.code == 2 && unbounded.err.contains("the capacity from"), "{}", unbounded.err);
    // 2.4 MB/s below the mark, of which nine tenths can be promised.
    let link = ["hub", "link", "add", "wan", "--capacity", "24Mbit/s", "--mark", "0.8", "--between", "alpha,beta"];
    admin.run(&link).expect(0);
    let full = submit("due", 12 << 30, Some(Duration::from_secs(30)));
    assert!(full.code == 2 && full.err.contains("it does not fit before"), "{} {}", full.code, full.err);
    assert!(full.err.contains("all of it fits by 20"), "{}", full.err);

    let bulk = submit("bulk", 60 << 20, None).expect(0).text().lines().last().unwrap().to_owned();
    until("the bulk moves", LONG, || admin.job(&bulk)["state"] == "running");
    // Half of the link would be 1.2 MB/s: at the share alone 12 MiB take some 11 s, and with 4 others longer.
    let others: Vec<String> = (0..4)
        .map(|at| {
            let name = format!("other{at}");
            fs::write(a.data(&name), pattern(60 << 20)).unwrap();
            submit(&name, 60 << 20, None).expect(0).text().lines().last().unwrap().to_owned()
        })
        .collect();
    let promised = Duration::from_secs(20);
    let begun = Instant::now();
    let due = submit("due", 12 << 20, Some(promised)).expect(0).text().lines().last().unwrap().to_owned();
    let shown = admin.json(&["queue", "show"]);
    let reserved: Vec<_> = shown.iter().filter(|line| line["deadline"].is_string()).collect();
    assert_eq!((reserved.len(), &reserved[0]["late_bytes"]), (1, &Value::Null), "{shown:?}");
    let job = admin.ended(&due);
    assert_eq!(job["state"], "done");
    // Its promise, and as much again: this machine has other load as well.
    assert!(begun.elapsed() < promised * 2, "{:?}", begun.elapsed());
    assert_eq!(fs::read(b.data("in/due")).unwrap(), pattern(12 << 20));
    assert_eq!(admin.job(&bulk)["state"], "running");
    for id in others.iter().chain([&bulk]) {
        admin.run(&["queue", "cancel", id]).expect(0);
    }
}

#[test]
fn operators_read_exactly_the_documented_metrics() {
    let hub = Hub::start(&["--plain"]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    let line = |name: &str| {
        fs::write(a.data(name), "12345").unwrap();
        format!("{} {}\n", a.at(&format!("data/{name}")), b.at(&format!("data/{name}")))
    };
    let list = admin.write("list", &["f", "g", "h"].map(line).concat());
    let id = admin.submit(&["--files-from", &list]);
    admin.ended(&id);
    let ask = |key: &str| {
        let url = format!("{}/metrics", hub.url.replace("https:", "http:"));
        let bearer = format!("Authorization: Bearer {key}");
        Command::new("curl").args(["-s", "-S", "-i", "-H", &bearer, &url]).output().unwrap().stdout
    };
    let refused = String::from_utf8(ask(&hub.grant(&["--role", "user", "--name", "ann", "--community", "x"]))).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let text = String::from_utf8(ask(&hub.grant(&["--role", "operator", "--name", "eve", "--community", ""]))).unwrap();
    assert!(
        text.contains("openmetrics-text") && text.contains("longhaul_hub_attempts_total{outcome=\"done\"} 3"),
        "{text}"
    );
    assert!(text.contains("longhaul_hub_done_bytes_total 15") && text.trim_end().ends_with("# EOF"), "{text}");
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
    let documented: std::collections::BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for family in &documented {
        let is_there = document.contains(&format!("`{family}`")) || document.contains(&format!("`{family}_total`"));
        assert!(is_there, "docs/metrics.md says nothing of {family}");
    }
    assert_eq!(documented.len(), document.matches("| `longhaul_hub_").count());
}
