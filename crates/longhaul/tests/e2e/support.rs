//! The support dump: its content, and that it holds no secret, wherever one was put.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use flate2::read::GzDecoder;

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until};

/// The members of a dump by their names, without the directory that they are in.
fn members(dump: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(dump).unwrap()));
    let mut found = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let (dir, name) = path.split_once('/').unwrap();
        assert!(dir.starts_with("longhaul-support-"), "{path}");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        found.insert(name.to_owned(), String::from_utf8(bytes).unwrap());
    }
    found
}

/// The forms of a secret that must not be found. For a long secret the end is enough: its start may be a public prefix.
fn forms(secret: &[u8]) -> Vec<String> {
    let end = &secret[secret.len().saturating_sub(24)..];
    let mut forms = Vec::new();
    for part in [secret, end] {
        let hex = auth::hex(part);
        forms.extend([hex.to_uppercase(), hex, STANDARD_NO_PAD.encode(part), URL_SAFE_NO_PAD.encode(part)]);
        forms.extend(String::from_utf8(part.to_vec()));
    }
    forms
}

#[track_caller]
fn assert_without(texts: &BTreeMap<String, String>, secrets: &[(&str, Vec<u8>)]) {
    for (what, secret) in secrets {
        for (name, form) in texts.keys().flat_map(|name| forms(secret).into_iter().map(move |form| (name, form))) {
            assert!(!texts[name].contains(&form), "{what} is in {name} as {form}:\n{}", texts[name]);
        }
    }
}

/// Puts a program of that name, which prints this, into a directory of `PATH`.
fn program(dir: &Path, name: &str, output: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("output"), output).unwrap();
    fs::write(dir.join(name), format!("#!/bin/sh\nexec cat {}\n", dir.join("output").display())).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

const MACAROON_KEY: &[u8; 32] = b"\x80macaroon\xffkey\x81of\xfe32\x82bytes\xfdin\x83all";

/// A node with secrets in its state.
fn node() -> Node {
    let setup = Setup::new().data_export("rw");
    fs::create_dir(setup.state()).unwrap();
    fs::write(setup.state().join("macaroon.key"), MACAROON_KEY).unwrap();
    let policy = "[callout]\ncommand = [\"/bin/false\", \"--password\", \"callout-hunter2\"]\n[[allow]]\nanyone = true\n\
                  export = \"data\"\nrights = [\"read\"]\n";
    fs::write(setup.state().join("access.toml"), policy).unwrap();
    setup.start()
}

#[test]
fn a_dump_contains_diagnostics_and_no_secrets() {
    let node = node();
    let (key, other) = (node.grant(&["--export", "data", "--write", "--for", "7d"]), node.grant(&["--export", "data"]));
    let client = Client::with_key(&key);
    let hash = fs::read_to_string(node.state().join("grants.toml")).unwrap();
    let hashes: Vec<&str> = hash.split('"').filter(|word| word.len() == 64).collect();
    assert_eq!(hashes.len(), 2, "{hash}");
    let token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzdXBwb3J0LXRlc3QifQ.c3VwcG9ydC10ZXN0LXNpZ25hdHVyZQ";
    client.write("key-file", format!("# mine\n{other}\n"));
    let settings = "# comment-hunter2\nexport = [\"data=DATA:rw\", \"s=https://me:userinfo-hunter2@h/b?X=query-hunter2\"]\n\
                    plain = true\nfireflies = [\"h:1?token=firefly-hunter2\"]\npassword = \"unknown-hunter2\"\n";
    client.write("serve.toml", settings.replace("DATA", &node.data("").display().to_string()));
    // A log with everything that must not be in a dump.
    let identity = fs::read(node.state().join("identity.key.der")).unwrap();
    let log = format!(
        "2026-01-01 node[1]: Authorization: Bearer {token}\nkey {key}\nhash {}\nidentity {}\nmacaroon {}\n\
         GET /data/f?authz=log-hunter2 HTTP/1.1\nhello from the log\n-----BEGIN PRIVATE KEY-----\npem-hunter2\n\
         -----END PRIVATE KEY-----\nAWS aws-hunter2-secret\n",
        hashes[0],
        auth::hex(&identity),
        STANDARD_NO_PAD.encode(MACAROON_KEY),
    );
    program(&client.path("bin"), "journalctl", &log);
    // A remembered path, and in place of another one a link to a file elsewhere.
    fs::create_dir_all(node.state().join("paths")).unwrap();
    let path = |name: &str| node.state().join("paths").join(name);
    fs::write(path("192.0.2.7.json"), "{\"v\":1,\"loss\":0.25,\"note\":\"path-hunter2\"}").unwrap();
    fs::write(client.path("link-target"), "{\"loss\":0.5,\"v\":\"link-hunter2\"}").unwrap();
    symlink(client.path("link-target"), path("192.0.2.8.json")).unwrap();
    fs::create_dir_all(node.state().join("journals")).unwrap();
    fs::write(node.state().join("journals/x"), "journal-hunter2").unwrap();
    // A job under way, to a name that looks like a link with a secret.
    client.write("f", pattern(8 << 20));
    let mut copy =
        client.command(words!["cp", client.path("f"), node.at("data/f%3Fauthz=job-hunter2"), "--limit", "8Mbit/s"]);
    copy.env("LONGHAUL_STATE", node.state());
    let running = client.start(copy);
    until("the job is there", LONG, || crate::client::unfinished(&node.data("")).len() == 1);

    let search = format!("{}:{}", client.path("bin").display(), std::env::var("PATH").unwrap());
    let words = words!["support", "--out", client.path("dump.tar.gz"), "--config", client.path("serve.toml")];
    let mut command =
        client.command([words, words!["--state", node.state(), "--key-file", client.path("key-file")]].concat());
    command.env("PATH", search).env("BEARER_TOKEN", token).env("AWS_SECRET_ACCESS_KEY", "aws-hunter2-secret");
    let outcome = client.start(command).finish().expect(0);
    drop(running);

    let dump = client.path("dump.tar.gz");
    assert_eq!(fs::metadata(&dump).unwrap().permissions().mode() & 0o777, 0o600);
    let mut texts = members(&dump);
    let summary = outcome.text();
    assert!(summary.contains("dump.tar.gz"), "{summary}");
    texts.keys().for_each(|name| assert!(summary.contains(name.as_str()), "{name} is not reported: {summary}"));
    for (name, holds) in [
        ("README.txt", "state.txt"),
        ("version.txt", "BEARER_TOKEN is set"),
        ("host.txt", "MemTotal"),
        ("sysctls.txt", "net.core.rmem_max = "),
        ("network.txt", "/proc/net/snmp"),
        ("limits.txt", "Max open files"),
        ("tune-audit.jsonl", "\"schema\":1"),
        ("settings.toml", "plain = true"),
        ("exports.txt", "data (rw)"),
        ("access.txt", "grants: 2, of which 0"),
        ("access.txt", "1 rules"),
        ("access.txt", "identity: SHA256:"),
        ("state.txt", "identity.key.der"),
        ("state.txt", "journals/x"),
        ("paths.jsonl", "192.0.2.7"),
        ("jobs.jsonl", "\"role\":\"receive\""),
        ("nodes.txt", "serve --listen"),
        ("unit.txt", "longhaul.service"),
        ("log.txt", "hello from the log"),
    ] {
        assert!(texts[name].contains(holds), "{holds:?} is not in {name}:\n{}", texts[name]);
    }
    for name in ["tune-audit.jsonl", "paths.jsonl", "jobs.jsonl"] {
        let objects = texts[name].lines().map(serde_json::from_str::<serde_json::Value>);
        assert!(objects.into_iter().all(|object| object.is_ok_and(|value| value.is_object())), "{}", texts[name]);
    }
    assert!(!texts["paths.jsonl"].contains("192.0.2.8"), "{}", texts["paths.jsonl"]);
    texts.insert("stdout".into(), summary);
    texts.insert("stderr".into(), outcome.err);
    let secret_of = |key: &str| URL_SAFE_NO_PAD.decode(key.strip_prefix("lhk1_").unwrap()).unwrap()[8..40].to_vec();
    let mut secrets = vec![
        ("the identity", identity),
        ("the secret of macaroons", MACAROON_KEY.to_vec()),
        ("a key in the environment", key.clone().into_bytes()),
        ("its secret", secret_of(&key)),
        ("a key in a file", other.clone().into_bytes()),
        ("that one's secret", secret_of(&other)),
        ("a token", token.as_bytes().to_vec()),
        ("a secret of the environment", b"aws-hunter2-secret".to_vec()),
        ("anything planted", b"hunter2".to_vec()),
    ];
    secrets.extend(hashes.iter().map(|hash| ("a grant's hash", hash.as_bytes().to_vec())));
    assert_without(&texts, &secrets);
}

#[test]
fn a_dump_overwrites_no_file_and_makes_no_state_directory() {
    let client = Client::new();
    let words = || words!["support", "--out", client.path("d.tar.gz"), "--json"];
    let event = client.run(words()).expect(0).json();
    assert_eq!((event["event"].as_str(), event["v"].as_u64()), (Some("support"), Some(1)));
    assert_eq!(event["bytes"].as_u64(), Some(fs::metadata(client.path("d.tar.gz")).unwrap().len()));
    assert_eq!(event["members"].as_array().unwrap().len(), members(&client.path("d.tar.gz")).len());
    assert!(!client.state().exists(), "looking makes no state directory");
    let again = client.run(words()).expect(6);
    assert!(again.err.contains("exists") && again.err.contains("--out"), "{}", again.err);
    // Without a name it is written here, under a name with the host and the time.
    client.run(words!["support"]).expect(0);
    let mut names: Vec<String> =
        fs::read_dir(client.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(
        names.len() == 2 && names[1].starts_with("longhaul-support-") && names[1].ends_with("Z.tar.gz"),
        "{names:?}"
    );
}
