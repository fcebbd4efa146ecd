//! Confinement: keys stay within their path, names within their source, copies within this process, and a broken pipe is
//! not taken for a whole file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::client::{Client, unfinished, words};
use crate::node::{LONGHAUL, Node};
use crate::tree::pattern;
use crate::unfinished_state::{assert_kept, covered};
use crate::wait::{LONG, until};

#[test]
fn a_link_does_not_lead_out_of_a_keys_prefix() {
    let node = Node::closed();
    fs::create_dir_all(node.data("mine")).unwrap();
    fs::create_dir_all(node.data("secret")).unwrap();
    fs::write(node.data("secret/s"), b"secret").unwrap();
    let client = Client::with_key(&node.grant(&["--export", "data", "--path", "mine", "--write"]));
    fs::create_dir_all(client.path("t")).unwrap();
    symlink("../../secret", client.path("t/link")).unwrap();
    client.run(words!["cp", "-r", client.path("t"), node.at("data/mine/t")]).expect(0);
    // A link of the operator's that stays inside the export leads out of the prefix just as well.
    symlink("../secret", node.data("mine/there")).unwrap();
    client.write("f", b"x");
    for through in ["data/mine/t/link", "data/mine/there"] {
        for words in [
            words!["cp", node.at(&format!("{through}/s")), client.path("got")],
            words!["ls", node.at(&format!("{through}/s"))],
            words!["rm", node.at(&format!("{through}/s"))],
            words!["cp", client.path("f"), node.at(&format!("{through}/new"))],
            words!["mv", node.at(&format!("{through}/s")), node.at("data/mine/s")],
        ] {
            client.run(words).expect(4);
        }
    }
    assert!(!client.path("got").exists() && !node.data("secret/new").exists());
    assert_eq!(fs::read(node.data("secret/s")).unwrap(), b"secret");
    // Without links the key works below its prefix, also where that does not exist yet.
    client.run(words!["cp", client.path("f"), node.at("data/mine/f")]).expect(0);
    let early = Client::with_key(&node.grant(&["--export", "data", "--path", "later/on", "--create"]));
    early.write("f", b"x");
    early.run(words!["cp", early.path("f"), node.at("data/later/on/f")]).expect(0);
    assert_eq!(fs::read(node.data("later/on/f")).unwrap(), b"x");
}

#[test]
fn a_grant_with_an_invalid_path_opens_nothing() {
    let node = Node::closed();
    fs::write(node.data("f"), b"x").unwrap();
    let client = Client::with_key(&node.grant(&["--export", "data", "--path", "mine"]));
    let grants = node.state().join("grants.toml");
    let text = fs::read_to_string(&grants).unwrap().replace("prefix = \"mine\"", "prefix = \"../x\"");
    fs::write(&grants, text).unwrap();
    client.run(words!["cp", node.at("data/f"), client.path("f")]).expect(4);
}

#[test]
fn a_create_only_key_changes_no_directory() {
    let node = Node::closed();
    fs::create_dir(node.data("there")).unwrap();
    fs::set_permissions(node.data("there"), fs::Permissions::from_mode(0o750)).unwrap();
    let before = fs::metadata(node.data("there")).unwrap();
    let client = Client::with_key(&node.grant(&["--export", "data", "--create"]));
    client.write("there/new/f", b"x");
    fs::set_permissions(client.path("there"), fs::Permissions::from_mode(0o777)).unwrap();
    client.run(words!["cp", "-r", client.path("there"), node.at("data/there")]).expect(0);
    assert_eq!(fs::read(node.data("there/new/f")).unwrap(), b"x");
    assert_eq!(fs::metadata(node.data("there")).unwrap().mode(), before.mode());
}

#[test]
fn two_sources_of_one_name_are_refused() {
    let (node, client) = (Node::open(), Client::new());
    client.write("a/same", b"a");
    client.write("b/same", b"b");
    let push = words!["cp", client.path("a/same"), client.path("b/same"), node.at("data/d/")];
    client.run(push).refused(2, &["same"]);
    fs::create_dir_all(node.data("x")).unwrap();
    fs::create_dir_all(node.data("y")).unwrap();
    fs::write(node.data("x/same"), b"x").unwrap();
    fs::write(node.data("y/same"), b"y").unwrap();
    let pull = words!["cp", node.at("data/x/same"), node.at("data/y/same"), client.path("d/")];
    client.run(pull).expect(2);
    assert!(!client.path("d/same").exists() && !node.data("d/same").exists());
}

#[test]
fn a_pipe_is_not_tried_again() {
    let (mut node, client) = (Node::open(), Client::new());
    let big = client.write("big", pattern(32 << 20));
    let mut command = client.command(words!["cp", "--limit", "8Mbit/s", "-", node.at("data/piped")]);
    command.stdin(fs::File::open(big).unwrap());
    let running = client.start(command);
    until("blocks arrive", LONG, || !unfinished(&node.data("")).is_empty());
    node.kill();
    node.restart();
    running.finish().expect(5);
    assert!(!node.data("piped").exists(), "half a pipe got its name");
}

#[test]
fn a_key_for_another_node_does_not_replace_a_known_one() {
    let (mut known, other) = (Node::closed(), Node::closed());
    let client = Client::with_key(&known.grant(&["--export", "data"]));
    client.run(words!["ls", known.at("data")]).expect(0);
    // The port now answers as another node, for which the client holds a key as well.
    let keys = format!("{},{}", known.grant(&["--export", "data"]), other.grant(&["--export", "data"]));
    let identity = ["identity.cert.der", "identity.key.der"];
    known.kill();
    for file in identity {
        fs::copy(other.state().join(file), known.state().join(file)).unwrap();
    }
    known.restart();
    let mut command = client.command(words!["ls", known.at("data")]);
    command.env("LONGHAUL_KEY", keys);
    client.start(command).finish().refused(4, &["identity"]);
}

#[test]
fn a_stopped_node_keeps_its_unfinished_files() {
    let (mut node, client) = (Node::open(), Client::new());
    let big = client.write("big", pattern(32 << 20));
    let words = words!["cp", "--limit", "8Mbit/s", "--retry-for", "0s", big, node.at("data/big")];
    let running = client.begin(words);
    // Not before a block is complete: a file that was only opened cannot be resumed.
    until("blocks arrive", LONG, || covered(&node.state()) > 0);
    assert_eq!(node.stop(), Some(0));
    assert_kept(&node.data(""), &node.state());
    assert!(!node.data("big").exists());
    running.finish().expect(5);
}

#[test]
fn clients_of_a_stopping_node_are_not_reported_as_interrupted() {
    let (mut node, client) = (Node::open(), Client::new());
    let big = client.write("big", pattern(64 << 20));
    let begin = |at: usize| {
        let target = node.at(&format!("data/big{at}"));
        client.begin(words!["cp", "--streams", "1", "--limit", "8Mbit/s", "--retry-for", "0s", big, target])
    };
    let running: Vec<_> = (0..16).map(begin).collect();
    until("all are under way", LONG, || unfinished(&node.data("")).len() == running.len());
    assert_eq!(node.stop(), Some(0));
    // Each would try again if it had time: only a client that was interrupted reports "interrupted".
    running.into_iter().for_each(|running| drop(running.finish().expect(5)));
}

#[test]
fn the_binary_needs_glibc_and_libgcc_only() {
    let out = std::process::Command::new("ldd").arg(LONGHAUL).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let allowed =
        ["linux-vdso.so", "libgcc_s.so", "libc.so", "libm.so", "ld-linux", "libpthread.so", "libdl.so", "librt.so"];
    for line in text.lines() {
        assert!(allowed.iter().any(|name| line.contains(name)), "{line}");
    }
    assert!(text.contains("libc.so"), "{text}");
}
