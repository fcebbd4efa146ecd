//! Tests of a path: with a node, with a stock iperf3 server, and a node's answers to stock iperf3 clients.

mod flows;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, words};
use crate::node::{Node, Setup, signal};
use crate::wait::{LONG, skipped, until};

fn tcp(client: &Client, target: &str, more: &[&str]) -> Value {
    let words = words!["probe", "tcp", target, "--json", "-t", "1s", "-i", "250ms"];
    let more = more.iter().map(std::ffi::OsString::from);
    client.run(words.into_iter().chain(more).collect()).expect(0).json()
}

#[test]
fn a_node_runs_the_other_end_of_a_test() {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data"]));
    for (more, directions, streams) in [(&["-P", "2"][..], 1, 2), (&["-R"], 1, 1), (&["--both", "-P", "2"], 2, 4)] {
        let result = tcp(&client, &node.address(), more);
        assert_eq!((&result["event"], &result["test"], &result["v"]), (&"result".into(), &"tcp".into(), &1.into()));
        assert_eq!(result["directions"].as_array().unwrap().len(), directions, "{result}");
        for direction in result["directions"].as_array().unwrap() {
            assert_eq!(direction["sent_bytes"], direction["received_bytes"], "{direction}");
            assert!(
                direction["rate_bit_s"].as_u64().unwrap() > 1_000_000
                    && direction["limit"].as_str().unwrap().len() > 10,
                "{direction}"
            );
            assert!(direction["expected"].as_array().unwrap().len() >= 2, "{direction}");
        }
        for end in ["near", "far"] {
            assert_eq!(result[end]["totals"].as_array().unwrap().len(), streams, "{result}");
            assert!(result[end]["host"]["kernel"].as_str().unwrap().len() > 3, "{result}");
            assert!(result[end]["host"]["settings"]["net.ipv4.tcp_rmem"].is_string(), "{result}");
        }
        assert!(result["intervals"].as_array().unwrap().len() >= 2, "{result}");
        assert!(result["far_intervals"].as_array().unwrap().len() >= 2, "{result}");
    }
    assert!(node.log().is_empty() || !node.log().contains("panicked"), "{}", node.log());
}

#[test]
fn a_test_prints_its_progress_and_a_verdict() {
    let (node, client) = (Node::open(), Client::new());
    let outcome = client.run(words!["probe", "tcp", node.at(""), "-t", "2s", "--pace", "20Mbit/s"]).expect(0);
    let lines: Vec<&str> = outcome.err.lines().filter(|line| line.starts_with('[')).collect();
    assert!(
        lines.len() >= 2 && lines.iter().all(|line| line.contains("bit/s") && line.contains("rtt ")),
        "{}",
        outcome.err
    );
    let text = outcome.text();
    assert!(text.contains("limited by the pace that was asked for, 20.0 Mbit/s"), "{text}");
    assert!(text.contains("all of it arrived") && text.contains("this end") && text.contains("other end"), "{text}");
}

#[test]
fn an_impossible_test_is_reported() {
    let node = Node::closed();
    let keyless = Client::new();
    keyless.run(words!["probe", "tcp", node.at("")]).refused(4, &["key"]);
    let client = Client::with_key(&node.grant(&["--export", "data"]));
    let at = node.at("");
    client.run(words!["probe", "tcp", at, "-P", "0"]).refused(2, &["0 streams", "1 to 128"]);
    client.run(words!["probe", "tcp", at, "-t", "1ms"]).refused(2, &["0.1 s"]);
    client.run(words!["probe", "tcp", at, "--dscp", "64"]).refused(2, &["0 to 63"]);
    client.run(words!["probe", "tcp", at, "-t", "2h"]).refused(4, &["3600 s at most"]);
    client.run(words!["probe", "tcp", "ftp://host"]).refused(2, &["iperf3://"]);
    for cores in ["--cores", "--far-cores"] {
        client.run(words!["probe", "tcp", at, "-t", "1s", cores, "4000"]).refused(2, &["processor 4000"]);
    }
    client.run(words!["probe", "magic", at]).expect(2);
    // A node's port serves no iperf3 without the option.
    let as_iperf3 = format!("iperf3://{}", node.address());
    client.run(words!["probe", "tcp", as_iperf3]).refused(4, &["busy"]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    client.run(words!["probe", "tcp", closed.to_string()]).expect(5);
    client.run(words!["probe", "tcp", format!("iperf3://{closed}")]).refused(5, &["cannot reach"]);
}

/// A node that disappears in the middle ends the test, and so does the user.
#[test]
fn a_test_ends_when_either_end_does() {
    let mut node = Node::open();
    let client = Client::new();
    let running = client.begin(words!["probe", "tcp", node.at(""), "-t", "60s", "--both"]);
    until("it runs", LONG, || running.err().lines().filter(|line| line.starts_with('[')).count() >= 2);
    node.kill();
    let outcome = running.finish();
    assert!(outcome.code == 5, "{outcome:?}");
    node.restart();
    let running = client.begin(words!["probe", "tcp", node.at(""), "-t", "60s", "--both"]);
    until("it runs", LONG, || running.err().lines().filter(|line| line.starts_with('[')).count() >= 2);
    let idle = node.descriptors();
    signal(&running.child, Signal::INT);
    running.finish().expect(130);
    until("the node has closed the connections of the test", LONG, || node.descriptors() < idle);
}

/// Whether stock iperf3 is installed; reports where it is not.
fn has_iperf3(test: &str) -> bool {
    let there = Command::new("iperf3").arg("--version").output().is_ok_and(|out| out.status.success());
    if !there {
        skipped(test, "iperf3 is not installed (scripts/setup.sh installs it)");
    }
    there
}

fn responder() -> Node {
    Setup::new().data_export("ro").arg("--responders").arg("iperf3").start()
}

/// Runs a stock client; returns its JSON report.
fn iperf3(node: &Node, more: &[&str]) -> Value {
    let port = node.port.to_string();
    let span: &[&str] = if more.contains(&"-n") { &[] } else { &["-t", "1"] };
    let words = ["-c", "127.0.0.1", "-p", &port, "-J"];
    let output = Command::new("iperf3").args(words).args(span).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {more:?}: {text}"));
    assert!(output.status.success() && value.get("error").is_none(), "{more:?}: {value}; the node: {}", node.log());
    value
}

/// The sent and received bytes of each direction, as the client reports them.
fn sums(value: &Value) -> Vec<(u64, u64)> {
    let pair = |suffix: &str| {
        let bytes = |end: &str| value["end"][format!("sum_{end}{suffix}")]["bytes"].as_u64();
        Some((bytes("sent")?, bytes("received")?))
    };
    ["", "_bidir_reverse"].into_iter().filter_map(pair).collect()
}

#[test]
fn stock_clients_test_with_a_node_over_tcp() {
    if !has_iperf3("stock_clients_test_with_a_node_over_tcp") {
        return;
    }
    let node = responder();
    // Each direction and each option, but not all combinations.
    let options = [&["-P", "1"][..], &["-P", "3"], &["-O", "3"], &["-l", "8K"], &["-w", "256K"], &["-C", "reno"]];
    for (flags, more) in [&[][..], &["-R"], &["--bidir"]].into_iter().cycle().zip(options) {
        let value = iperf3(&node, &[flags, more].concat());
        let sums = sums(&value);
        assert_eq!(sums.len(), if flags == ["--bidir"] { 2 } else { 1 }, "{value}");
        for (sent, received) in sums {
            // With `-O`, each end cuts off the start that does not count at its own moment.
            let most = if more[0] == "-O" { sent * 2 } else { sent };
            assert!(sent > 1_000_000 && received > 0 && received <= most, "{flags:?} {more:?}: {sent}, {received}");
            assert!(more[0] != "-O" || received >= sent / 2, "{flags:?} {more:?}: {sent}, {received}");
        }
    }
    // This number of bytes, and each of them counted at both ends.
    for flags in [&[][..], &["-R"]] {
        let value = iperf3(&node, &[&["-n", "20M"][..], flags].concat());
        let (sent, received) = sums(&value)[0];
        assert!(sent >= 20 << 20 && received >= 20 << 20 && received <= sent, "{flags:?}: {sent}, {received}");
    }
    let value = iperf3(&node, &["--get-server-output"]);
    let output = value["server_output_text"].as_str().unwrap_or_else(|| panic!("{value}"));
    assert!(output.contains("Interval") && output.contains("bit/s"), "{output}");
    until("every test is in the log", LONG, || !node.log().contains("failed"));
}

#[test]
fn stock_clients_test_with_a_node_over_udp() {
    if !has_iperf3("stock_clients_test_with_a_node_over_udp") {
        return;
    }
    let node = responder();
    // Each direction and each option, at a rate that also a busy node reaches.
    let options = [&["-P", "1"][..], &["-P", "3"], &["--udp-counters-64bit"], &["-l", "800"]];
    for (flags, more) in [&[][..], &["-R"], &["--bidir"]].into_iter().cycle().zip(options) {
        let value = iperf3(&node, &[&["-u", "-b", "1M", "-l", "1200"][..], flags, more].concat());
        let sum = &value["end"]["sum"];
        let (packets, lost) = (sum["packets"].as_f64().unwrap(), sum["lost_packets"].as_f64().unwrap());
        assert!(packets > 20.0 && lost < packets * 0.05, "{flags:?} {more:?}: {sum}");
    }
}

/// Stock servers refuse the second.
#[test]
fn twenty_stock_clients_are_served_at_once() {
    if !has_iperf3("twenty_stock_clients_are_served_at_once") {
        return;
    }
    let node = responder();
    std::thread::scope(|scope| {
        let run = || iperf3(&node, &["-b", "4M", "-t", "2"]);
        let clients: Vec<_> = (0..20).map(|_| scope.spawn(run)).collect();
        for client in clients {
            let value = client.join().unwrap();
            assert!(sums(&value)[0].1 > 100_000, "{value}");
        }
    });
}

/// A stock server on a port of its own, until it is dropped.
struct StockServer {
    child: Child,
    port: u16,
}

impl Drop for StockServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stock_server() -> StockServer {
    let free = || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        UdpSocket::bind(("127.0.0.1", port)).is_ok().then_some(port)
    };
    let port = std::iter::repeat_with(free).flatten().next().unwrap();
    let mut child = Command::new("iperf3")
        .args(["-s", "-B", "127.0.0.1", "-p", &port.to_string(), "--forceflush"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It prints a line before it listens, and one when it does.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines = lines.skip_while(|line| !line.contains("listening"));
    assert!(lines.next().is_some(), "the server reports that it listens");
    std::thread::spawn(move || lines.for_each(drop));
    StockServer { child, port }
}

#[test]
fn a_client_tests_with_a_stock_server() {
    if !has_iperf3("a_client_tests_with_a_stock_server") {
        return;
    }
    let (server, client) = (stock_server(), Client::new());
    let target = format!("iperf3://127.0.0.1:{}", server.port);
    for (more, streams) in
        [(&["-P", "1"][..], 1), (&["-R", "-P", "3"], 3), (&["--both", "-P", "2"], 4), (&["-O", "3s"], 1)]
    {
        let result = tcp(&client, &target, more);
        for direction in result["directions"].as_array().unwrap() {
            let (sent, received) =
                (direction["sent_bytes"].as_u64().unwrap(), direction["received_bytes"].as_u64().unwrap());
            // Each end cuts off the start that does not count at its own moment.
            let most = if more[0] == "-O" { sent * 2 } else { sent };
            assert!(received > 1_000_000 && received <= most, "{more:?}: {direction}");
        }
        assert_eq!(result["near"]["totals"].as_array().unwrap().len(), streams, "{more:?}: {result}");
        assert_eq!(result["far"]["totals"].as_array().unwrap().len(), streams, "{more:?}: {result}");
    }
    // A stock server counts the bytes that it has read when the message of the end arrives; it leaves the rest in its socket.
    let counted = || {
        let exact = client.run(words!["probe", "tcp", target, "--json", "--bytes", "20MB"]).expect(0).json();
        assert_eq!(exact["directions"][0]["sent_bytes"], 20_000_000, "{exact}");
        exact["directions"][0]["received_bytes"].as_u64().unwrap()
    };
    let counts: Vec<u64> = std::iter::repeat_with(counted).take(5).collect();
    assert!(counts.contains(&20_000_000) && counts.iter().all(|count| *count <= 20_000_000), "{counts:?}");
}
