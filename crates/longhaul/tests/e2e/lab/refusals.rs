//! Refusals of `longhaul lab`: invalid input, and users without the right. None of the tests needs a lab.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use lab::scenario::SHIPPED;

use super::{Labs, PAIR, lab_words};
use crate::client::{Client, words};
use crate::node::LONGHAUL;
use crate::wait::skipped;

fn run(client: &Client, words: Vec<std::ffi::OsString>) -> crate::client::Outcome {
    let mut command = client.command(lab_words(words));
    command.env_remove("LONGHAUL_LAB");
    client.start(command).finish()
}

#[test]
fn a_dry_run_reads_and_makes_nothing() {
    let client = Client::new();
    for shipped in SHIPPED {
        for action in ["up", "run", "check"] {
            let text = run(&client, words![action, shipped.name, "--dry-run"]).expect(0).text();
            assert!(text.starts_with(&format!("{} is valid: ", shipped.name)), "{text}");
        }
        // What is printed is a scenario itself.
        let text = run(&client, words!["scenarios", shipped.name]).expect(0).text();
        run(&client, words!["up", client.write("mine.toml", text), "--dry-run"]).expect(0);
    }
    // A directory of that name is no scenario.
    fs::create_dir(client.path("lan")).unwrap();
    run(&client, words!["up", "lan", "--dry-run"]).expect(0);
    let list = run(&client, words!["scenarios"]).expect(0).text();
    assert_eq!(list.lines().count(), SHIPPED.len());
    assert!(!client.state().exists());
}

/// A lab's name is the name of its directory, which is removed with the lab.
#[test]
fn names_that_lead_elsewhere_are_refused() {
    let client = Client::new();
    fs::create_dir_all(client.path("elsewhere/sites")).unwrap();
    let outside_dir = client.path("elsewhere");
    for name in ["", ".", "..", "../..", "a/b", outside_dir.to_str().unwrap()] {
        run(&client, words!["down", name]).refused(2, &["cannot be a lab's name", "--lab"]);
        for words in [words!["status"], words!["exec", "a", "--", "true"], words!["up", "lan"]] {
            run(&client, [words!["--lab", name], words].concat()).refused(2, &["cannot be a lab's name"]);
        }
    }
    assert!(client.path("elsewhere/sites").is_dir());
    assert!(!client.state().exists());
}

#[test]
fn a_wrong_file_is_refused_with_the_line() {
    let client = Client::new();
    let cases = [
        (format!("{PAIR}los = \"1%\"\n"), "line 6: ", "did you mean \"loss\"?"),
        ("[site.left]\n[path.left-right]\n".to_owned(), "line 2: ", "there is no site"),
        (format!("{PAIR}queue = 40\n"), "line 6: ", "40MB"),
        ("[site.left".to_owned(), "line 1: this is not TOML", "toml.io"),
    ];
    for (text, line, remedy) in cases {
        let file = client.write("wrong.toml", text);
        for words in [words!["up", &file], words!["run", &file, "--", "true"], words!["check", &file, "--dry-run"]] {
            run(&client, words).refused(2, &["wrong.toml: ", line, remedy]);
        }
    }
    let object = run(&client, words!["up", client.path("wrong.toml"), "--json"]).expect(2).json();
    assert_eq!((object["event"].as_str(), object["exit"].as_u64()), (Some("error"), Some(2)));
    assert!(!client.state().exists());
}

#[test]
fn unknown_names_are_refused() {
    let client = Client::new();
    for words in [words!["up", "canbera-paris"], words!["scenarios", "canbera-paris"]] {
        run(&client, words).refused(2, &["canbera-paris", "canberra-paris", "ska"]);
    }
    run(&client, words!["run", "lan", "--in", "middle", "--", "true"]).refused(2, &["middle", "left, right"]);
    let file = client.write("a b.toml", PAIR);
    run(&client, words!["up", &file]).refused(2, &["a b", "--lab"]);
    for name in ["", ".hidden", "a/b", &"n".repeat(41)] {
        run(&client, words!["up", "lan", "--lab", name]).refused(2, &["--lab"]);
    }
    for words in [words!["exec", "left", "--", "true"], words!["set", "a-b", "loss=1%"], words!["down"]] {
        run(&client, words).refused(1, &["no lab is up", "longhaul lab up"]);
    }
    run(&client, words!["exec", "left", "--lab", "x", "--", "true"]).refused(1, &["no lab x is up"]);
    assert!(!client.state().exists());
    for words in [words!["run", "lan"], words!["exec", "left"], words!["set", "a-b"], words!["up"]] {
        assert_eq!(run(&client, words).code, 2);
    }
}

#[test]
fn words_that_a_running_lab_does_not_know_are_refused() {
    let Some(labs) = Labs::of("words_that_a_running_lab_does_not_know_are_refused") else { return };
    labs.run(words!["up", labs.file("pair", PAIR)]).expect(0);
    let cases = [
        (words!["set", "left-right", "los=1%"], "did you mean \"loss\"?"),
        (words!["set", "left-right", "rate=1"], "with its unit"),
        (words!["set", "left-rigth", "loss=1%"], "did you mean \"left-right\"?"),
        (words!["set", "left", "loss=1%"], "uplink"),
        (words!["set", "left-right", "--member", "2", "loss=1%"], "ecmp"),
        (words!["set", "left-right", "--direction", "ab", "rtt=1ms"], "delay"),
        (words!["set", "left-right", "loss"], "loss=1%"),
        (words!["set", "left-right", "loss=1"], "\"1%\", or \"100%\""),
        (words!["set", "left-right", "loss=1%", "--for", "0s"], "leave it out"),
        (words!["exec", "middle", "--", "true"], "left, right"),
    ];
    for (words, remedy) in cases {
        labs.run(words).refused(2, &[remedy]);
    }
}

#[test]
fn a_setting_that_the_kernel_refuses_is_reported() {
    let Some(labs) = Labs::of("a_setting_that_the_kernel_refuses_is_reported") else { return };
    let file = labs.file("wrong", "[site.left]\nsysctl = { \"net.ipv4.no_such_setting\" = 1 }\n");
    let outcome = labs.run(words!["up", &file]);
    assert!(outcome.code != 0, "{outcome:?}");
    assert!(outcome.err.contains("left") && outcome.err.contains("net.ipv4.no_such_setting"), "{}", outcome.err);
    assert!(labs.is_clean());
}

#[test]
fn an_ordinary_user_is_refused_with_the_reason() {
    const TEST: &str = "an_ordinary_user_is_refused_with_the_reason";
    let client = Client::new();
    let state = client.path("anyone's");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return skipped(TEST, "needs root");
    }
    let nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", LONGHAUL, "lab"]).args(words);
        command.current_dir("/").env_remove("LONGHAUL_LAB").env_remove("LONGHAUL_KEY");
        command.env("LONGHAUL_STATE", &state).output()
    };
    match nobody(&["scenarios"]) {
        Ok(output) if output.status.success() => {}
        other => return skipped(TEST, &format!("the user nobody cannot run the program: {other:?}")),
    }
    for words in [&["up", "lan"][..], &["run", "lan", "--", "true"], &["check", "lan"]] {
        let output = nobody(words).unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), complaints.lines().count()), (Some(1), 1), "{complaints}");
        assert!(complaints.contains("no lab can run here") && complaints.contains("root"), "{complaints}");
    }
    assert!(fs::read_dir(&state).unwrap().next().is_none());
}
