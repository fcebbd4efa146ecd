//! One job over several paths: it is faster than over either alone, uses each in proportion to its rate, and continues over the
//! others when one is cut.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

use serde_json::Value;

use super::Labs;
use crate::client::{Running, unfinished, words};
use crate::node::LONGHAUL;
use crate::unfinished_state::written;
use crate::wait::{LONG, until};

/// Two sites with two interfaces each; a program chooses by the address that it connects to.
fn scenario(short: &str, long: &str) -> String {
    format!(
        "[site.here]\n[site.here.interface.eth1]\n[site.there]\n[site.there.interface.eth1]\n\
         [path.short]\nsites = [\"here\", \"there\"]\nrtt = \"20ms\"\nrate = \"{short}\"\nqueue = \"50ms\"\n\
         [path.long]\nsites = [\"here/eth1\", \"there/eth1\"]\nrtt = \"60ms\"\nrate = \"{long}\"\nqueue = \"50ms\"\n"
    )
}

/// Options that make a node take streams at both of its addresses.
const BOTH: [&str; 2] = ["--advertise", "10.77.2.1,10.77.2.2"];

fn copy(labs: &Labs, from: impl Into<OsString>, to: impl Into<OsString>) -> Running {
    let first = words!["exec", "here", "--", LONGHAUL, "cp", "--json"];
    labs.begin([first, vec![from.into(), to.into()]].concat())
}

/// Bytes by the node's address.
fn by_path(receipt: &Value) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for stream in receipt["streams"].as_array().unwrap().iter().filter(|stream| stream["id"] != 0) {
        let peer = stream["peer_address"].as_str().unwrap().rsplit_once(':').unwrap().0.to_owned();
        *sums.entry(peer).or_default() += stream["bytes"].as_u64().unwrap();
    }
    sums
}

#[test]
fn two_paths_carry_more_than_either() {
    let Some(labs) = Labs::of("two_paths_carry_more_than_either") else { return };
    labs.run(words!["up", labs.file("pair", &scenario("50Mbit/s", "50Mbit/s"))]).expect(0);
    let _node = labs.serve("there", &BOTH);
    for (from, to) in [("zero:50MB", "lh://10.77.2.1/null:"), ("lh://10.77.2.1/zero:50MB", "null:")] {
        let receipt = copy(&labs, from, to).finish().expect(0).json();
        // Headers and slow start leave less than that of one path of 50 Mbit/s.
        assert!(receipt["rate_bit_s"].as_f64().unwrap() > 55e6 || !labs.is_judged(), "{from}: {receipt}");
        let sums = by_path(&receipt);
        assert_eq!(sums.len(), 2, "{from}: {sums:?} in {receipt}");
        let both = sums.values().all(|bytes| *bytes > 15_000_000);
        assert!(both || !labs.is_judged(), "{from}: {sums:?} in {receipt}");
    }
}

#[test]
fn unequal_paths_get_unequal_parts() {
    let Some(labs) = Labs::of("unequal_paths_get_unequal_parts") else { return };
    labs.run(words!["up", labs.file("pair", &scenario("40Mbit/s", "80Mbit/s"))]).expect(0);
    let _node = labs.serve("there", &BOTH);
    let receipt = copy(&labs, "zero:120MB", "lh://10.77.2.1/null:").finish().expect(0).json();
    let sums = by_path(&receipt);
    let parts = sums["10.77.2.2"] as f64 / sums["10.77.2.1"] as f64;
    assert!((1.5..2.7).contains(&parts) || !labs.is_judged(), "{parts}: {sums:?} in {receipt}");
}

#[test]
fn a_job_continues_over_the_remaining_path() {
    let Some(labs) = Labs::of("a_job_continues_over_the_remaining_path") else { return };
    labs.run(words!["up", labs.file("pair", &scenario("60Mbit/s", "60Mbit/s"))]).expect(0);
    let _node = labs.serve("there", &BOTH);
    let bytes = crate::tree::pattern(60_000_000);
    let source = labs.client.write("source", &bytes);
    // The second one carries the control connection as well.
    for cut in ["long", "short"] {
        let name = format!("cut-{cut}");
        let running = copy(&labs, &source, format!("lh://10.77.2.1/data/{name}"));
        let under_way = || unfinished(&labs.client.path("data")).iter().any(|path| written(path) > 10 << 20);
        until("a part has arrived", LONG, under_way);
        labs.run(words!["set", cut, "down=true"]).expect(0);
        let receipt = running.finish().expect(0).json();
        assert!(fs::read(labs.client.path("data").join(&name)).unwrap() == bytes, "{cut}: {receipt}");
        assert_eq!(receipt["state"], "done");
        labs.run(words!["set", cut, "down=false"]).expect(0);
    }
}

#[test]
fn a_job_outlives_the_loss_of_all_paths() {
    let Some(labs) = Labs::of("a_job_outlives_the_loss_of_all_paths") else { return };
    labs.run(words!["up", labs.file("pair", &scenario("60Mbit/s", "60Mbit/s"))]).expect(0);
    let _node = labs.serve("there", &BOTH);
    let bytes = crate::tree::pattern(40_000_000);
    let source = labs.client.write("source", &bytes);
    let running = copy(&labs, &source, "lh://10.77.2.1/data/f");
    let under_way = || unfinished(&labs.client.path("data")).iter().any(|path| written(path) > 8 << 20);
    until("a part has arrived", LONG, under_way);
    for path in ["short", "long"] {
        labs.run(words!["set", path, "down=true", "--for", "8s"]).expect(0);
    }
    let receipt = running.finish().expect(0).json();
    assert!(fs::read(labs.client.path("data").join("f")).unwrap() == bytes, "{receipt}");
}
