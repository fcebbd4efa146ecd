//! Copies over ssh through firewalls that pass connections in one direction only. Each test has a network of its own: the
//! remote end is behind a pair of virtual cables, with a packet filter in front of it.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Client, Outcome, words};
use crate::sshd::{Setup, Sshd};
use crate::tree::pattern;
use crate::wait::skipped;
use crate::wrappers::with_network;

const HERE: &str = "10.83.0.1";
const THERE: &str = "10.83.0.2";

/// Another host: a network that lives as long as a process in it.
struct RemoteHost(Child);

impl Drop for RemoteHost {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{}: {error}", words[0])),
    }
}

impl RemoteHost {
    /// Starts a host that a cable joins to this one.
    fn new() -> Result<RemoteHost, String> {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().map_err(|e| e.to_string())?;
        let there = RemoteHost(child);
        let pid = there.0.id().to_string();
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        crate::wait::until("the other network is there", crate::wait::LONG, || {
            fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|other| other != own)
        });
        run(&["ip", "link", "set", "lo", "up"])?;
        run(&["ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &pid])?;
        run(&["ip", "addr", "add", &format!("{HERE}/24"), "dev", "near"])?;
        run(&["ip", "link", "set", "near", "up"])?;
        there.run(&["ip", "link", "set", "lo", "up"])?;
        there.run(&["ip", "addr", "add", &format!("{THERE}/24"), "dev", "far"])?;
        there.run(&["ip", "link", "set", "far", "up"])?;
        Ok(there)
    }

    fn wrapper(&self) -> Vec<String> {
        ["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.0.id())].into()
    }

    fn run(&self, words: &[&str]) -> Result<(), String> {
        let wrapper = self.wrapper();
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        run(&[&wrapper[..], words].concat())
    }

    /// Drops packets that open a connection through a hook of that host, except to the port of ssh. Returns why, where there is no packet
    /// filter.
    fn drop_new(&self, hook: &str, ssh: u16) -> Result<(), String> {
        let table = format!("wall_{hook}");
        self.run(&["nft", "add", "table", "inet", &table])?;
        let chain = format!("{{ type filter hook {hook} priority 0; }}");
        self.run(&["nft", "add", "chain", "inet", &table, "openings", &chain])?;
        let rule = format!("tcp flags & (syn | ack) == syn tcp dport != {ssh} drop");
        let ruled = self.run(&["nft", "add", "rule", "inet", &table, "openings", &rule]);
        assert!(ruled.is_ok(), "{ruled:?}");
        Ok(())
    }
}

/// Copies in both directions with these hooks closed for new connections.
fn copy_with_closed_hooks(test: &str, closed: &[&str], check: fn(&Sshd, &Outcome)) {
    let there = match RemoteHost::new() {
        Ok(there) => there,
        Err(why) => return skipped(test, &why),
    };
    let setup = Setup { host: THERE, wrapper: there.wrapper(), ..Setup::default() };
    let Some(sshd) = Sshd::start_as(test, &setup) else { return };
    for hook in closed {
        if let Err(why) = there.drop_new(hook, sshd.port) {
            return skipped(test, &format!("no packet filter (package nftables): {why}"));
        }
    }
    let client = Client::new();
    let file = client.write("f", pattern(20 << 20));
    fs::write(sshd.home().join("there"), pattern(20 << 20)).unwrap();
    // Slow enough that all streams are open before the end. Both copies run at once, because a client waits long for a firewall.
    let options = words!["cp", "--ssh", sshd.command(), "--streams", "3", "--limit", "60Mbit/s", "--json"];
    std::thread::scope(|scope| {
        for words in [words![file, sshd.at("f")], words![sshd.at("there"), client.path("back")]] {
            let words = [options.clone(), words].concat();
            scope.spawn(|| check(&sshd, &client.run(words)));
        }
    });
    crate::wait::until("the far end has ended", crate::wait::LONG, || sshd.remote_ends().is_empty());
    for copy in [sshd.home().join("f"), client.path("back")].iter().filter(|path| path.exists()) {
        assert!(fs::read(copy).unwrap() == pattern(20 << 20));
    }
}

fn assert_arrived(outcome: &Outcome, connects_back: bool) {
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let receipt = outcome.json();
    assert_eq!(receipt["bytes"], 20 << 20);
    let data = receipt["streams"].as_array().unwrap().iter().filter(|stream| stream["id"] != 0).count();
    assert_eq!(data, 3, "{receipt}");
    assert_eq!(outcome.err.contains("connect back"), connects_back, "{}", outcome.err);
}

#[test]
fn the_remote_end_connects_back_where_incoming_connections_are_dropped() {
    const TEST: &str = "oneway::the_remote_end_connects_back_where_incoming_connections_are_dropped";
    with_network(TEST, || copy_with_closed_hooks(TEST, &["input"], |_, outcome| assert_arrived(outcome, true)));
}

#[test]
fn the_client_connects_where_outgoing_connections_are_dropped() {
    const TEST: &str = "oneway::the_client_connects_where_outgoing_connections_are_dropped";
    with_network(TEST, || copy_with_closed_hooks(TEST, &["output"], |_, outcome| assert_arrived(outcome, false)));
}

#[test]
fn an_open_path_is_used_forward() {
    const TEST: &str = "oneway::an_open_path_is_used_forward";
    with_network(TEST, || copy_with_closed_hooks(TEST, &[], |_, outcome| assert_arrived(outcome, false)));
}

#[test]
fn a_path_that_is_closed_in_both_directions_is_unreachable() {
    const TEST: &str = "oneway::a_path_that_is_closed_in_both_directions_is_unreachable";
    with_network(TEST, || {
        let started = Instant::now();
        copy_with_closed_hooks(TEST, &["input", "output"], |sshd, outcome| {
            assert_eq!(outcome.code, 5, "{}", outcome.err);
            assert!(outcome.err.contains(THERE) && outcome.err.contains("connect back"), "{}", outcome.err);
            assert!(!sshd.home().join("f").exists());
        });
        assert!(started.elapsed() < Duration::from_secs(300), "{:?}", started.elapsed());
    });
}
