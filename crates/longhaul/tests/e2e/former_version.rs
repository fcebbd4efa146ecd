//! The promises between versions, with the program of the release before this one: its wire, its state, its JSON. `make former` builds it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::{Client, words};
use crate::file_copy::{ENOUGH, MIB, SIZE, SLOW, count, resumed};
use crate::node::{LONGHAUL, Node, Setup};
use crate::tree::{assert_copied, pattern, set_time};
use crate::unfinished_state::{assert_nothing_kept, covered, has_no_writer};
use crate::wait::{LONG, skipped, until};

/// The program of the former release; none if it was not built.
fn former(test: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/former/longhaul");
    if !program.exists() {
        skipped(&format!("former_version::{test}"), "the former release is not built (make former)");
        return None;
    }
    Some(program)
}

fn this() -> &'static Path {
    Path::new(LONGHAUL)
}

/// A node whose anonymous clients may read and write `data`.
fn node(program: &Path) -> Node {
    Setup::new().with_program(program).data_export("rw").arg("--anonymous").arg("rw").start()
}

/// Writes a file of some blocks and many small ones.
fn write_tree(root: &Path) {
    fs::create_dir_all(root.join("small")).unwrap();
    fs::write(root.join("large"), pattern(5 * MIB as usize + 7)).unwrap();
    set_time(&root.join("large"), 1_700_000_000, 5);
    for number in 0..200 {
        fs::write(root.join("small").join(number.to_string()), pattern(number * 61)).unwrap();
    }
}

#[test]
fn neighbouring_versions_copy_to_and_from_each_other() {
    let Some(former) = former("neighbouring_versions_copy_to_and_from_each_other") else { return };
    for (of_node, of_client) in [(former.as_path(), this()), (this(), former.as_path())] {
        let (node, client) = (node(of_node), Client::new().with_program(of_client));
        write_tree(&client.path("tree"));
        client.cp(0, words!["-r", client.path("tree"), node.at("data/there")]);
        assert_copied(&client.path("tree"), &node.data("there"));
        client.cp(0, words!["-r", node.at("data/there"), client.path("back")]);
        assert_copied(&client.path("tree"), &client.path("back"));
    }
}

#[test]
fn an_upgraded_node_keeps_its_identity_its_keys_and_what_had_arrived() {
    let Some(former) = former("an_upgraded_node_keeps_its_identity_its_keys_and_what_had_arrived") else { return };
    let mut node = Setup::new().with_program(&former).data_export("rw").start();
    let key = node.grant(&["--export", "data", "--write", "--for", "1d"]);
    for of_client in [former.as_path(), this()] {
        let client = Client::with_key(&key).with_program(of_client);
        let source = client.write("s", pattern(SIZE));
        node.restart_as(&former);
        let target = node.data("f");
        let running =
            client.begin(words!["cp", source, node.at("data/f"), "--streams", "2", "--limit", SLOW, "--json"]);
        until("the journal covers enough", LONG, || covered(&node.state()) >= ENOUGH);
        node.restart_as(this());
        let receipt = running.finish().expect(0).json();
        assert!(resumed(&receipt) >= ENOUGH, "{receipt}");
        assert_eq!(count(&receipt, "bytes"), SIZE as u64, "{receipt}");
        assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap(), "it differs");
        fs::remove_file(target).unwrap();
        assert_nothing_kept(&node.data(""), &node.state());
    }
}

#[test]
fn a_node_that_goes_back_keeps_its_identity_and_its_keys() {
    let Some(former) = former("a_node_that_goes_back_keeps_its_identity_and_its_keys") else { return };
    let mut node = Setup::new().data_export("rw").start();
    let key = node.grant(&["--export", "data", "--write", "--for", "1d"]);
    let client = Client::with_key(&key);
    let source = client.write("s", pattern(100_000));
    client.cp(0, words![source, node.at("data/before")]);
    node.restart_as(&former);
    client.cp(0, words![source, node.at("data/after")]);
    assert!(fs::read(node.data("before")).unwrap() == fs::read(node.data("after")).unwrap());
}

#[test]
fn an_upgraded_client_continues_inside_the_file() {
    let Some(former) = former("an_upgraded_client_continues_inside_the_file") else { return };
    let (node, client) = (node(this()), Client::new().with_program(&former));
    fs::write(node.data("s"), pattern(SIZE)).unwrap();
    let pull = words!["cp", node.at("data/s"), client.path("t"), "--streams", "2", "--json"];
    let mut running = client.begin([pull.clone(), words!["--limit", SLOW]].concat());
    until("the journal covers enough", LONG, || covered(&client.state()) >= ENOUGH);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until("no process writes any more", LONG, || has_no_writer(&client.state()));
    let client = client.with_program(this());
    let receipt = client.run(pull).expect(0).json();
    assert!(resumed(&receipt) >= ENOUGH, "{receipt}");
    assert!(fs::read(node.data("s")).unwrap() == fs::read(client.path("t")).unwrap(), "it differs");
    assert_nothing_kept(&client.path(""), &client.state());
}

/// Adds the paths of all fields of a value.
fn add_fields(value: &Value, path: &str, fields: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                fields.push(format!("{path}.{name}"));
                add_fields(member, &format!("{path}.{name}"), fields);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_fields(item, &format!("{path}[]"), fields)),
        _ => {}
    }
}

/// Fields that have another name now: the changelog says so under **Changed**. Empty again when this version is the former one.
const RENAMED: [(&str, &str); 1] = [(".job", ".transfer")];

#[test]
fn no_field_of_json_is_missing() {
    let Some(former) = former("no_field_of_json_is_missing") else { return };
    let node = node(this());
    fs::write(node.data("f"), pattern(100_000)).unwrap();
    let fields_of = |program: &Path, words: Vec<std::ffi::OsString>| {
        let client = Client::new().with_program(program);
        let mut fields = Vec::new();
        add_fields(&client.run(words).expect(0).json(), "", &mut fields);
        fields
    };
    for words in [
        words!["cp", node.at("data/f"), "f", "--json"],
        words!["ls", node.at("data/"), "--json"],
        words!["stat", node.at("data/f"), "--json"],
        words!["digest", node.at("data/f"), "--json"],
    ] {
        let (before, now) = (fields_of(&former, words.clone()), fields_of(this(), words.clone()));
        assert!(!before.is_empty());
        let new_name = |field: &str| RENAMED.into_iter().find(|(old, _)| *old == field).map(|(_, new)| new.to_owned());
        let is_there = |field: &String| now.contains(&new_name(field).unwrap_or_else(|| field.clone()));
        let missing: Vec<_> = before.iter().filter(|field| !is_there(field)).collect();
        assert!(missing.is_empty(), "{words:?}: {missing:?} is missing in {now:?}");
    }
}
