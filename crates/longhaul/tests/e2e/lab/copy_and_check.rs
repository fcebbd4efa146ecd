//! A node at one site and a copy at the other; and a lab that measures itself.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Labs, PAIR};
use crate::client::words;
use crate::node::LONGHAUL;
use crate::wait::skipped;

/// Canberra and Paris, at a third of their real round-trip time.
const FAR: &str = "seed = 7\n[site.canberra]\nmtu = 1500\n[site.paris]\nmtu = 1500\n[path.canberra-paris]\n\
                   rtt = \"100ms\"\nrate = \"500Mbit/s\"\nloss = \"0.1%\"\n";

/// Bytes that no two blocks have in common.
fn bytes(count: usize) -> Vec<u8> {
    crate::tree::pattern(count)
}

fn copy(labs: &Labs, from: &Path, name: &str) -> Value {
    let to = format!("lh://paris/data/{name}");
    let receipt = labs.run(words!["exec", "canberra", "--", LONGHAUL, "cp", "--json", from, to]).expect(0).json();
    assert!(fs::read(from).unwrap() == fs::read(labs.client.path("data").join(name)).unwrap(), "{receipt}");
    receipt
}

/// A counter of the lab for the path from Canberra to Paris.
fn counted(labs: &Labs, counter: &str) -> u64 {
    labs.status()["links"][0][counter].as_u64().unwrap()
}

#[test]
fn a_copy_survives_loss_and_damage_on_a_long_path() {
    let Some(labs) = Labs::of("a_copy_survives_loss_and_damage_on_a_long_path") else { return };
    labs.run(words!["up", labs.file("far", FAR)]).expect(0);
    let node = labs.serve("paris", &[]);
    let source = labs.client.write("source", bytes(20_000_000));
    let receipt = copy(&labs, &source, "lost");
    assert_eq!((&receipt["state"], &receipt["bytes"]), (&"done".into(), &20_000_000.into()));
    // One in a thousand of some 13,700 segments: that none is lost has a chance of one in 900,000.
    assert!(counted(&labs, "lost") > 0 && counted(&labs, "corrupted_silently") == 0);
    assert_eq!(receipt["resent_bytes"], 0, "TCP's own repairs are no concern of the engine's: {receipt}");

    // Damage that the kernel's checksums do not see: the engine's own must.
    labs.run(words!["set", "canberra-paris", "--direction", "ab", "corrupt_silent=0.1%", "loss=none"]).expect(0);
    let receipt = copy(&labs, &source, "damaged");
    assert_eq!(receipt["state"], "done");
    assert!(counted(&labs, "corrupted_silently") > 0);
    assert!(receipt["resent_bytes"].as_u64().unwrap() > 0, "{receipt}");
    drop(node);
}

#[test]
fn a_lab_measures_itself() {
    let Some(labs) = Labs::of("a_lab_measures_itself") else { return };
    let text = labs.run(words!["check", labs.file("alone", "[site.left]\n")]).expect(0).text();
    assert_eq!(text, "alone is as it should be: 0 of 0 measurements within tolerance\n");
    let file = labs.file("pair", PAIR);
    // Other load on this machine disturbs the measurement: hence a few attempts.
    for _ in 0..5 {
        let outcome = labs.run(words!["check", &file, "--json"]);
        let summary = outcome.json();
        assert_eq!(summary["event"], "lab_check");
        assert_eq!(summary["ok"], outcome.code == 0, "{summary}");
        let fields = ["v", "lab", "back_end", "right", "wrong", "not_judged", "ceiling_bit_s", "ceiling_rtt_s"];
        fields.iter().for_each(|field| assert!(!summary[field].is_null(), "{field} is not in {summary}"));
        let text = outcome.text();
        let findings = text.lines().filter(|line| line.contains("\"event\":\"lab_finding\"")).count();
        assert_eq!(findings as u64, 5, "rtt once, rate and loss in each direction: {text}");
        assert!(labs.is_clean());
        if outcome.code == 0 {
            assert_eq!(summary["right"], 5);
            return;
        }
        assert_eq!(outcome.code, 1);
    }
    skipped("a_lab_measures_itself", "this machine is too busy to measure anything");
}
