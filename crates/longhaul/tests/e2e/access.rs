//! Access to a node: which clients are admitted, to which paths, and the messages of a refusal.

use std::fs;

use serde_json::Value;

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::tree::pattern;

fn node_with_files() -> Node {
    let node = Node::closed();
    fs::create_dir_all(node.data("in/deep")).unwrap();
    fs::write(node.data("in/deep/f"), b"f").unwrap();
    fs::write(node.data("out"), b"o").unwrap();
    node
}

#[test]
fn a_node_admits_no_client_without_a_key() {
    let (node, client) = (node_with_files(), Client::new());
    client.write("f", b"x");
    for words in [
        words!["ls", node.at("")],
        words!["stat", node.at("data/out")],
        words!["rm", node.at("data/out")],
        words!["cp", client.path("f"), node.at("data/f")],
        words!["cp", node.at("data/out"), client.path("g")],
        words!["cp", "zero:1MiB", node.at("null:")],
    ] {
        client.run(words).refused(4, &["without a key", "LONGHAUL_KEY"]);
    }
    assert!(!node.data("f").exists() && !client.path("g").exists() && node.data("out").exists());
}

#[test]
fn a_key_opens_only_its_export_and_rights() {
    let node = node_with_files();
    let (read, write, create) = (
        Client::with_key(&node.grant(&["--export", "data"])),
        Client::with_key(&node.grant(&["--export", "data", "--write"])),
        Client::with_key(&node.grant(&["--export", "data", "--create"])),
    );
    for client in [&read, &write, &create] {
        client.write("f", b"new");
    }
    // Read: list and fetch.
    assert_eq!(read.run(words!["ls", node.at("")]).expect(0).text(), "data/\n");
    read.run(words!["cp", node.at("data/out"), read.path("g")]).expect(0);
    for words in [
        words!["cp", read.path("f"), node.at("data/new")],
        words!["mkdir", node.at("data/d")],
        words!["rm", node.at("data/out")],
        words!["mv", node.at("data/out"), node.at("data/moved")],
    ] {
        read.run(words).refused(4, &["read"]);
    }
    // Create: put what is new, no more.
    create.run(words!["cp", create.path("f"), node.at("data/new")]).expect(0);
    create.run(words!["mkdir", node.at("data/made/deep")]).expect(0);
    let over = create.run(words!["cp", create.path("f"), node.at("data/out")]).expect(4);
    assert!(over.err.contains("create"), "{}", over.err);
    for words in [
        words!["cp", node.at("data/out"), create.path("g")],
        words!["ls", node.at("data")],
        words!["rm", node.at("data/new")],
    ] {
        create.run(words).refused(4, &["create"]);
    }
    assert_eq!(fs::read(node.data("out")).unwrap(), b"o");
    // Write: everything.
    write.run(words!["cp", write.path("f"), node.at("data/out")]).expect(0);
    assert_eq!(fs::read(node.data("out")).unwrap(), b"new");
    write.run(words!["mv", node.at("data/out"), node.at("data/moved")]).expect(0);
    write.run(words!["rm", node.at("data/moved")]).expect(0);
    assert!(!node.data("moved").exists() && node.data("new").exists() && node.data("made/deep").is_dir());
}

#[test]
fn a_key_with_a_prefix_opens_only_paths_below_it() {
    let node = node_with_files();
    let client = Client::with_key(&node.grant(&["--export", "data", "--write", "--path", "in/deep"]));
    client.write("f", b"x");
    client.run(words!["cp", node.at("data/in/deep/f"), client.path("g")]).expect(0);
    client.run(words!["cp", client.path("f"), node.at("data/in/deep/new/f")]).expect(0);
    for words in [
        words!["ls", node.at("data")],
        words!["ls", node.at("data/in")],
        words!["cp", node.at("data/out"), client.path("h")],
        words!["cp", client.path("f"), node.at("data/in/f")],
        words!["cp", client.path("f"), node.at("data/in/deeper")],
        words!["rm", node.at("data/out")],
        words!["mv", node.at("data/in/deep/f"), node.at("data/f")],
    ] {
        client.run(words).refused(4, &["in/deep"]);
    }
    assert!(node.data("in/deep/f").exists() && !node.data("f").exists() && !node.data("in/f").exists());
}

#[test]
fn a_key_expires_and_can_be_revoked() {
    let node = node_with_files();
    let keys: Vec<String> = (0..2).map(|_| node.grant(&["--export", "data", "--for", "7d"])).collect();
    for key in &keys {
        Client::with_key(key).run(words!["ls", node.at("data")]).expect(0);
    }
    let list = node.grant_command(&["list", "--json"]);
    let grants: Vec<Value> =
        String::from_utf8(list.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(grants.len() == 2 && grants.iter().all(|grant| grant["expires"].is_string()));
    // The first is revoked, the second's end is moved into the past; the running node takes notice.
    assert!(node.grant_command(&["revoke", grants[0]["id"].as_str().unwrap()]).status.success());
    assert_eq!(node.grant_command(&["revoke", grants[0]["id"].as_str().unwrap()]).status.code(), Some(1));
    Client::with_key(&keys[0]).run(words!["ls", node.at("data")]).refused(4, &["revoked"]);
    let file = node.state().join("grants.toml");
    let text: String = fs::read_to_string(&file).unwrap();
    let edited = text.lines().map(|line| if line.starts_with("expires") { "expires = 1000" } else { line });
    fs::write(&file, edited.collect::<Vec<_>>().join("\n")).unwrap();
    Client::with_key(&keys[1]).run(words!["ls", node.at("data")]).refused(4, &["expired"]);
    assert!(String::from_utf8(node.grant_command(&["list"]).stdout).unwrap().contains("EXPIRED"));
    // Grants that cannot be read admit no client, and the node names the file.
    fs::write(&file, "what is this").unwrap();
    Client::with_key(&keys[1]).run(words!["ls", node.at("data")]).refused(1, &["log"]);
    assert!(node.log().contains("grants.toml"));
}

#[test]
fn a_key_belongs_to_one_node() {
    let (node, other) = (node_with_files(), node_with_files());
    let (key, other_key) = (node.grant(&["--export", "data"]), other.grant(&["--export", "data"]));
    let wrong = Client::with_key(&other_key).run(words!["ls", node.at("data")]);
    wrong.refused(4, &[&node.address(), "SHA256:", "key"]);
    // Of several keys the one for the node is taken, from the environment and from files.
    let both = Client::with_key(&format!("{other_key},{key}"));
    both.run(words!["ls", node.at("data")]).expect(0);
    both.run(words!["ls", other.at("data")]).expect(0);
    let file = Client::new();
    file.write("keys", format!("# mine\n\n{other_key}\n{key}\n"));
    file.run(words!["ls", node.at("data"), "--key-file", "keys"]).expect(0);
    file.run(words!["ls", other.at("data"), "--key-file", "keys"]).expect(0);
    file.run(words!["ls", node.at("data"), "--key-file", "missing"]).expect(2);
    let other = if &key[20..21] == "A" { "B" } else { "A" };
    let damaged = format!("{}{other}{}", &key[..20], &key[21..]);
    for text in ["nonsense", &damaged, &key[..key.len() - 1]] {
        let outcome = Client::with_key(text).run(words!["ls", node.at("data")]).refused(2, &["key"]);
        assert!(!outcome.err.contains(text), "a key is never repeated: {}", outcome.err);
    }
    // A key for the node that is not one of its own: another secret under the same identity.
    let forged = node.grant(&["--export", "data"]);
    fs::remove_file(node.state().join("grants.toml")).unwrap();
    Client::with_key(&forged).run(words!["ls", node.at("data")]).refused(4, &["not valid"]);
}

#[test]
fn read_only_exports_stay_as_they_are() {
    let setup = Setup::new().data_export("ro").arg("--anonymous").arg("rw");
    fs::write(setup.data().join("f"), b"f").unwrap();
    let (node, client) = (setup.start(), Client::new());
    client.write("new", b"x");
    let key = node.grant(&["--export", "data", "--write"]);
    for client in [&client, &Client::with_key(&key)] {
        client.run(words!["cp", node.at("data/f"), client.path("back")]).expect(0);
        let put = client.write("new", b"x");
        for words in [
            words!["cp", put, node.at("data/new")],
            words!["rm", node.at("data/f")],
            words!["mkdir", node.at("data/d")],
        ] {
            client.run(words).refused(4, &["read-only"]);
        }
    }
    assert_eq!(fs::read_dir(node.data("")).unwrap().count(), 1);
}

#[test]
fn anonymous_clients_have_the_rights_that_the_operator_set() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("ro").start();
    fs::write(node.data("f"), b"f").unwrap();
    let client = Client::new();
    client.write("g", b"g");
    client.run(words!["cp", node.at("data/f"), client.path("f")]).expect(0);
    client.run(words!["cp", client.path("g"), node.at("data/g")]).expect(4);
    client.run(words!["rm", node.at("data/f")]).expect(4);
    assert!(node.data("f").exists() && !node.data("g").exists());
    let open = Node::open();
    client.run(words!["cp", client.path("g"), open.at("data/g")]).expect(0);
    client.run(words!["rm", open.at("data/g")]).expect(0);
}

#[test]
fn a_changed_identity_is_refused() {
    let (mut node, client) = (Node::open(), Client::new());
    let first = client.run(words!["ls", node.at("data")]).expect(0);
    assert!(first.err.contains("remembered"), "{}", first.err);
    let fingerprint = |text: &str| text.split_whitespace().find(|w| w.starts_with("SHA256:")).unwrap().to_owned();
    let old = fingerprint(&first.err);
    assert_eq!(client.run(words!["ls", node.at("data")]).expect(0).err, "", "a known node is no news");
    node.kill();
    for file in ["identity.key.der", "identity.cert.der"] {
        fs::remove_file(node.state().join(file)).unwrap();
    }
    node.restart();
    let new = fingerprint(&Client::new().run(words!["ls", node.at("data")]).expect(0).err);
    assert_ne!(old, new);
    for words in [words!["ls", node.at("data")], words!["cp", node.at("data"), client.path("t"), "-r"]] {
        client.run(words).refused(4, &[&old, &new, &node.address(), "known_nodes"]);
    }
    // The remedy works.
    fs::remove_file(client.state().join("known_nodes")).unwrap();
    client.run(words!["ls", node.at("data")]).expect(0);
}

#[test]
fn a_key_is_shown_once_and_nowhere_else() {
    let node = node_with_files();
    let made = node.grant_command(&["--export", "data", "--write", "--name", "for tests"]);
    let out = String::from_utf8(made.stdout).unwrap();
    let key = out.lines().last().unwrap();
    assert!(key.starts_with("lhk1_") && !key.contains(' ') && out.matches("lhk1_").count() == 1, "{out}");
    let link = format!("https://127.0.0.1:{}/data?authz={key}", node.port);
    assert!(String::from_utf8(made.stderr).unwrap().contains(&link), "the link stands on stderr");
    let json = node.grant_command(&["--export", "data", "--json", "--at", "dtn.example.org"]);
    let json = String::from_utf8(json.stdout).unwrap();
    let (first, last) = json.trim_end().split_once('\n').unwrap();
    let grant: Value = serde_json::from_str(first).unwrap();
    assert_eq!(grant["url"], format!("https://dtn.example.org:{}/data?authz={last}", node.port));
    assert!(last.starts_with("lhk1_"));
    let quiet = String::from_utf8(node.grant_command(&["--export", "data", "-q"]).stdout).unwrap();
    assert!(quiet.lines().count() == 1 && quiet.starts_with("lhk1_"), "{quiet}");
    let list = String::from_utf8(node.grant_command(&["list"]).stdout).unwrap();
    assert!(list.lines().count() == 3 && list.contains("for tests") && list.contains("write"), "{list}");
    let client = Client::with_key(key);
    client.write("f", pattern(2 << 20));
    let mut texts = list;
    for words in [
        words!["cp", client.path("f"), node.at("data/f")],
        words!["cp", client.path("f"), node.at("data/g"), "--json", "--receipt", "receipt"],
        words!["cp", node.at("nowhere/f"), client.path("g")],
        words!["ls", node.at("data"), "--long", "--json"],
    ] {
        let outcome = client.run(words);
        texts += &(outcome.text() + &outcome.err);
    }
    texts += &fs::read_to_string(client.path("receipt")).unwrap();
    texts += &node.log();
    for file in ["grants.toml", "lock"] {
        texts += &fs::read_to_string(node.state().join(file)).unwrap();
    }
    assert!(!texts.contains(key) && !texts.contains("lhk1_"), "the key was repeated");
    assert!(node.log().contains("for tests"), "the log names the grant");
}

#[test]
fn an_invalid_grant_is_refused_with_its_reason() {
    let node = Node::closed();
    for words in
        [&["--export", "a/b"][..], &[], &["--export", "data", "--path", "../x"], &["--export", "data", "--for", "soon"]]
    {
        assert_eq!(node.grant_command(words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(node.grant_command(&["--export", "data", "--write", "--create"]).status.code(), Some(2));
    assert!(node.grant_command(&["list"]).stdout.is_empty());
    // Without a node running, and before one ever did.
    let client = Client::new();
    client.run(words!["grant", "--export", "x", "--state", client.path("fresh")]).expect(0);
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(client.path("fresh")).unwrap());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn two_nodes_may_share_their_state() {
    let first = Setup::new().data_export("ro").start();
    let state = first.state();
    let second = Setup::new();
    let (dir, key) = (second.data(), first.grant(&["--export", "data"]));
    fs::write(dir.join("g"), b"g").unwrap();
    let second = second.export("data", &dir, "ro").with_state(&state).start();
    let client = Client::with_key(&key);
    client.run(words!["ls", first.at("data")]).expect(0);
    assert_eq!(client.run(words!["ls", second.at("data")]).expect(0).text(), "g\n");
}
