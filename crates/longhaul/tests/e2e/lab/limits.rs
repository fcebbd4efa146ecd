//! The limit of a job in its receipt, over paths and hosts that are made to limit it: windows, loss, a policer, queues, a
//! narrow link. In both directions; sizes and times are small, so the tests assert the cause and not its numbers.

use std::process::Stdio;

use lab::fixture::up;
use serde_json::Value;

use super::{CpuWaitBaseline, is_judged, serve_at_b};
use crate::node::LONGHAUL;

struct Case {
    name: &'static str,
    /// The settings of both sites, and those of the second one alone.
    both: &'static str,
    second: &'static str,
    path: &'static str,
    size: &'static str,
    words: &'static [&'static str],
    evidence: &'static str,
    /// For a push, and for a pull.
    remedy: [&'static str; 2],
}

fn assert_limited_by(case: &Case) {
    let scenario = format!("[site.a]\n{0}\n[site.b]\n{0}{1}\n[path.a-b]\n{2}\n", case.both, case.second, case.path);
    let Some(fixture) = up(case.name, &scenario) else { return };
    let (dir, since) = (tempfile::tempdir().unwrap(), CpuWaitBaseline::now());
    let serving = serve_at_b(&fixture, &dir);
    for (at, direction) in ["push", "pull"].iter().enumerate() {
        let (zeros, far) = (format!("zero:{}", case.size), format!("lh://b:{}/", serving.address.port()));
        let (source, target) =
            if at == 0 { (zeros, format!("{far}null:")) } else { (format!("{far}{zeros}"), "null:".to_owned()) };
        let mut command = fixture.command("a", LONGHAUL).unwrap();
        // What one case learnt about a path must not be remembered in the next.
        command.args(["cp", &source, &target, "--quiet", "--json", "--state"]).arg(dir.path().join(direction));
        let output = command.args(case.words).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}, {direction}: {complaints}", case.name);
        let receipt: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let by = &receipt["limited_by"];
        let states = |field: &str, word: &str| by[field].as_str().unwrap().contains(word);
        let fits = by["part"] == "network" && states("evidence", case.evidence) && states("remedy", case.remedy[at]);
        let limited = || fixture.limited(&fixture.reading().unwrap());
        assert!(fits || !is_judged(case.name, limited(), &since), "{}, {direction}: {receipt}", case.name);
    }
}

const DEFAULT_CASE: Case = Case {
    name: "",
    both: "",
    second: "",
    path: "rtt = \"40ms\"\nrate = \"200Mbit/s\"",
    size: "8MB",
    words: &["--streams", "1"],
    evidence: "",
    remedy: ["", ""],
};

#[test]
fn a_receipt_names_windows_that_are_too_small() {
    assert_limited_by(&Case {
        name: "a small receive window",
        both: "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 393216\" }",
        evidence: "receive window",
        remedy: ["raise net.ipv4.tcp_rmem (now 384 KiB)"; 2],
        ..DEFAULT_CASE
    });
    assert_limited_by(&Case {
        name: "a small send buffer",
        both: "sysctl = { \"net.ipv4.tcp_wmem\" = \"4096 16384 393216\" }",
        evidence: "send buffer 384 KiB",
        remedy: ["raise net.ipv4.tcp_wmem (now 384 KiB)"; 2],
        ..DEFAULT_CASE
    });
    assert_limited_by(&Case {
        name: "windows that are not scaled",
        second: "sysctl = { \"net.ipv4.tcp_window_scaling\" = \"0\" }",
        size: "4MB",
        evidence: "no window scale was agreed",
        remedy: ["to 1 at the receiving host", "to 1 at the sending host"],
        ..DEFAULT_CASE
    });
}

#[test]
fn a_receipt_names_loss_and_a_policer() {
    assert_limited_by(&Case {
        name: "loss under reno",
        // Some 25 losses: enough to compare them with reno's response to loss.
        path: "rtt = \"20ms\"\nrate = \"200Mbit/s\"\nloss = \"2%\"",
        words: &["--streams", "1", "--congestion", "reno"],
        size: "11MB",
        evidence: "path loss ",
        remedy: ["--congestion bbr"; 2],
        ..DEFAULT_CASE
    });
    assert_limited_by(&Case {
        name: "a policer",
        path: "rtt = \"20ms\"\nrate = \"1Gbit/s\"\npolicer = \"40Mbit/s\"",
        size: "10MB",
        evidence: "of the bytes sent again",
        remedy: ["lost without a queue: a policer"; 2],
        ..DEFAULT_CASE
    });
}

#[test]
fn a_receipt_names_the_path_as_the_limit() {
    assert_limited_by(&Case {
        name: "a narrow link",
        path: "rtt = \"20ms\"\nrate = \"20Mbit/s\"",
        size: "4MB",
        evidence: "the path gave ",
        remedy: ["a faster path"; 2],
        ..DEFAULT_CASE
    });
    assert_limited_by(&Case {
        name: "a shallow queue",
        path: "rtt = \"40ms\"\nrate = \"100Mbit/s\"\nqueue = \"64KiB\"",
        size: "20MB",
        evidence: "round trip ",
        ..DEFAULT_CASE
    });
}
