//! Nodes under a name of the user's own: copies, queries and tests with them, and shell completion.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::client::{Client, words};
use crate::node::{LONGHAUL, Node};

fn config_dir(client: &Client) -> PathBuf {
    client.path("").with_file_name("config")
}

/// Writes a file of the user's configuration.
fn configure(client: &Client, name: &str, text: &str, mode: u32) {
    let path = config_dir(client).join("longhaul").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The completions that bash offers for the last word of a line.
fn offered(client: &Client, words: &[&str]) -> Vec<String> {
    let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let script = format!(
        "PATH=\"{}:$PATH\"; source <(longhaul completions bash); COMP_WORDS=({}); COMP_CWORD={}; \
         _longhaul_with_names longhaul '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        Path::new(LONGHAUL).parent().unwrap().display(),
        list.join(" "),
        words.len() - 1
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("XDG_CONFIG_HOME", config_dir(client))
        .current_dir(client.path(""))
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !complaints.contains("not found"), "{complaints}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_name_stands_for_a_node_with_its_key_and_its_defaults() {
    let (node, other, client) = (Node::closed(), Node::closed(), Client::new());
    let key = node.grant(&["--export", "data", "--write"]);
    configure(&client, "cern.key", &format!("{}\n", key.trim()), 0o600);
    let text = format!(
        "[defaults]\nchecksum = \"sha256\"\n[node.cern]\naddress = \"{}\"\nkey-file = \"cern.key\"\nlimit = \"40Mbit/s\"\n\
         [node.other]\naddress = \"{}\"\n",
        node.address(),
        other.address()
    );
    configure(&client, "config.toml", &text, 0o644);
    client.write("run7/f", vec![7; 1_000_000]);
    let receipt = client.cp(0, words!["-r", "run7", "cern:data/"]);
    assert_eq!(fs::read(node.data("run7/f")).unwrap().len(), 1_000_000);
    assert_eq!(receipt["target"], node.at("data/"), "receipts name the node itself");
    let has_sha256 =
        |receipt: &Value| receipt["digests"].as_array().unwrap().iter().any(|digest| digest["algorithm"] == "sha256");
    assert!(has_sha256(&receipt), "{receipt}");
    assert!(receipt["rate_bit_s"].as_u64().unwrap() < 60_000_000, "{receipt}");
    // The command line has precedence.
    let receipt = client.cp(0, words!["cern:data/run7/f", "g", "--limit", "none", "--checksum", "crc32c"]);
    assert!(!has_sha256(&receipt), "{receipt}");
    assert_eq!(client.run(words!["ls", "cern:data/run7"]).expect(0).text(), "f\n");
    assert_eq!(client.run(words!["ls", "cern:"]).expect(0).text(), "data/\n");
    assert!(client.run(words!["digest", "cern:data/run7/f"]).expect(0).text().contains("f"));
    client.run(words!["probe", "limits", "cern"]).expect(0);
    // The key is sent to that node only.
    client.run(words!["ls", "other:data"]).expect(4);
}

#[test]
fn an_invalid_name_is_reported() {
    let (node, client) = (Node::open(), Client::new());
    let text = format!("[node.cern]\naddress = \"{}\"\nkey-file = \"cern.key\"\n", node.address());
    configure(&client, "config.toml", &text, 0o644);
    let missing = client.run(words!["ls", "cern:data"]);
    assert!(missing.code != 0 && missing.err.contains("cern.key"), "{}", missing.err);
    configure(&client, "cern.key", "", 0o644);
    let open = client.run(words!["ls", "cern:data"]);
    assert!(open.err.contains("cern.key") && open.err.contains("chmod"), "others can read it: {}", open.err);
    configure(&client, "config.toml", "[node.cern]\nadress = \"h\"\n", 0o644);
    let wrong = client.run(words!["ls", "cern:data"]).expect(2);
    assert!(wrong.err.contains("config.toml") && wrong.err.contains("adress"), "{}", wrong.err);
}

#[test]
fn node_names_are_completed() {
    let client = Client::new();
    let node = |name: &str| format!("[node.{name}]\naddress = \"{name}.example\"\n");
    configure(&client, "config.toml", &["cern", "cesga", "other"].map(node).concat(), 0o644);
    client.write("cedar", b"x");
    assert_eq!(client.run(words!["names"]).expect(0).text(), "cern:\ncesga:\nother:\n");
    assert_eq!(offered(&client, &["longhaul", "cp", "run7", "ce"]), ["cern:", "cesga:", "cedar"]);
    assert_eq!(offered(&client, &["longhaul", "ls", "o"]), ["other:"]);
    assert!(offered(&client, &["longhaul", "cp", "--no-over"]).contains(&"--no-overwrite".to_owned()));
    let zsh = client.run(words!["completions", "zsh"]).expect(0).text();
    assert!(zsh.starts_with("#compdef longhaul\n") && zsh.matches(":_longhaul_places' \\").count() > 5);
    assert!(client.run(words!["completions", "fish"]).expect(0).text().contains("(longhaul names"));
}
