//! The command line itself: help, usage, manual, completions, settings, and failures as JSON.

use std::fs;

use crate::client::{Client, words};
use crate::node::{LONGHAUL, Node, Setup};

#[test]
fn help_and_version_are_results() {
    let client = Client::new();
    let help = client.run(words!["--help"]).expect(0);
    assert!(help.text().contains("EXIT STATUS") && help.err.is_empty());
    assert!(client.run(words!["--version"]).expect(0).text().starts_with("longhaul "));
    for command in
        ["cp", "serve", "grant", "ls", "stat", "mkdir", "rm", "mv", "digest", "job", "lab", "report", "completions"]
    {
        let text = client.run(words![command, "--help"]).expect(0).text();
        assert!(text.contains("Usage: longhaul"), "{command}: {text}");
        assert!(help.text().contains(&format!("  {command}")), "{command} is not in the help");
    }
}

#[test]
fn an_invalid_command_line_is_a_usage_error() {
    let client = Client::new();
    for words in [
        words![],
        words!["frobnicate"],
        words!["cp"],
        words!["cp", "only-one"],
        words!["cp", "--no-such-option", "a", "b"],
        words!["cp", "--sync", "sometimes", "a", "b"],
        words!["cp", "--retry-for", "later", "a", "b"],
        words!["cp", "a", ""],
        words!["cp", "a", "gopher://x/y"],
        words!["cp", "a", "gsiftp://x/y"],
        words!["cp", "a", "user@:b"],
        words!["cp", "a", "lh://host:0/x"],
        words!["ls", "lh://host:notaport/"],
        words!["ls", "lh://me@host/"],
        words!["serve", "--export", "nodir"],
        words!["serve", "--export", "a/b=/tmp"],
        words!["serve", "--anonymous", "perhaps"],
        words!["serve", "--listen", "nonsense:port"],
        words!["serve", "--config", "missing.toml"],
        words!["grant"],
        words!["completions", "klingon"],
    ] {
        let shown = format!("{words:?}");
        let outcome = client.run(words);
        assert_eq!(outcome.code, 2, "{shown}: {}", outcome.err);
        assert!(!outcome.err.is_empty() && outcome.out.is_empty(), "{shown}");
    }
}

#[test]
fn failures_are_json_objects_too() {
    let (node, client) = (Node::closed(), Client::new());
    for (code, fault, words) in [
        (4, "auth", words!["ls", node.at(""), "--json"]),
        (5, "path", words!["ls", "lh://127.0.0.1:1/", "--json"]),
        (1, "missing", words!["stat", client.path("none"), "--json"]),
        (2, "config", words!["cp", client.path("none"), "gopher://x/", "--json"]),
    ] {
        let outcome = client.run(words).expect(code);
        let object = outcome.json();
        assert_eq!((&object["v"], &object["exit"]), (&1.into(), &code.into()), "{object}");
        match object["event"].as_str() {
            Some("error") => {
                assert_eq!(object["fault"], fault);
                assert!(outcome.err.contains(object["message"].as_str().unwrap()), "{}", outcome.err);
            }
            other => panic!("{other:?}"),
        }
    }
    // A job that began and failed ends with its receipt.
    client.write("f", b"x");
    let receipt = client.run(words!["cp", client.path("f"), node.at("data/f"), "--json"]).expect(4).json();
    assert_eq!((&receipt["event"], &receipt["state"]), (&"receipt".into(), &"failed".into()));
    assert!(receipt["error"].as_str().unwrap().contains("key"), "{receipt}");
}

#[test]
fn manual_and_completions_are_made() {
    let client = Client::new();
    assert!(client.run(words!["man"]).expect(0).text().contains(".TH longhaul"));
    client.run(words!["man", "--out", client.path("man")]).expect(0);
    for page in ["longhaul.1", "longhaul-cp.1", "longhaul-serve.1", "longhaul-lab.1", "longhaul-lab-run.1"] {
        assert!(fs::read_to_string(client.path("man").join(page)).unwrap().contains(".SH"), "{page}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = client.run(words!["completions", shell]).expect(0).text();
        assert!(text.contains("longhaul") && text.contains("no-overwrite"), "{shell}");
    }
}

#[test]
fn serve_reads_a_file_of_settings() {
    let setup = Setup::new();
    let (data, file) = (setup.data(), setup.data().with_file_name("serve.toml"));
    let text = format!("export = [\"data={}:rw\"]\nanonymous = \"rw\"\nplain = true\n", data.display());
    fs::write(&file, text).unwrap();
    let node = setup.arg("--config").arg(&file).start();
    let client = Client::new();
    client.write("f", b"x");
    client.run(words!["cp", client.path("f"), node.at("data/f")]).expect(0);
    assert_eq!(fs::read(node.data("f")).unwrap(), b"x");
    client.write("bad.toml", "exprot = []\n");
    let outcome = client.run(words!["serve", "--config", client.path("bad.toml")]).expect(2);
    assert!(outcome.err.contains("bad.toml") && outcome.err.contains("exprot"), "{}", outcome.err);
}

#[test]
fn serve_reports_why_it_cannot_start() {
    let (node, client) = (Node::open(), Client::new());
    let taken =
        client.run(words!["serve", "--listen", node.address(), "--export", "x=/tmp"]).refused(1, &[&node.address()]);
    assert!(taken.out.is_empty());
    let missing = words!["serve", "--listen", "127.0.0.1:0", "--export", "x=/no/such/dir"];
    let outcome = client.run(missing);
    assert!(outcome.err.contains("no/such/dir") && outcome.code != 0 && outcome.out.is_empty(), "{}", outcome.err);
    let twice = words!["serve", "--listen", "127.0.0.1:0", "--export", "x=/tmp", "--export", "x=/"];
    client.run(twice).expect(2);
    fs::write(client.path("file"), b"").unwrap();
    let state = words!["serve", "--listen", "127.0.0.1:0", "--export", "x=/tmp", "--state", client.path("file/state")];
    client.run(state).refused(1, &["LONGHAUL_STATE"]);
}

#[test]
fn a_closed_output_pipe_is_no_failure() {
    let node = Node::open();
    for n in 0..2000 {
        fs::write(node.data(&format!("{n:0>100}")), b"").unwrap();
    }
    let line = format!("{LONGHAUL} ls {} | head -1; echo ${{PIPESTATUS[0]}}", node.at("data"));
    let client = Client::new();
    let output = std::process::Command::new("bash").arg("-c").arg(line).env("LONGHAUL_STATE", client.state()).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().last(), Some("0"), "{text} {}", String::from_utf8_lossy(&output.stderr));
}
