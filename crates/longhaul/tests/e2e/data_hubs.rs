//! The catalogue of two hubs on one PostgreSQL. One or the other hub is killed at any moment: all rules are fulfilled, and nothing is
//! copied twice.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::hub::{Hub, Member};
use crate::node::Node;
use crate::postgres::{MISSING, Postgres};
use crate::tree::pattern;
use crate::wait::{skipped, until};

const SITES: [&str; 3] = ["cern", "ral", "bnl"];
const DATASETS: usize = 6;
const FILES: usize = 5;
const BYTES: usize = 200_000;

/// Rows that must not exist once all is quiet: their meaning, and the query.
const FORBIDDEN_ROWS: [(&str, &str); 5] = [
    (
        "a lock is ok if and only if its replica is there",
        "SELECT l.file FROM locks l JOIN replicas r ON r.file = l.file AND r.store = l.store WHERE (l.state = 1) <> (r.state = 0)",
    ),
    (
        "a replica counts its locks",
        "SELECT r.file FROM replicas r WHERE r.locks <> (SELECT COUNT(*) FROM locks l WHERE l.file = r.file AND l.store = r.store)",
    ),
    (
        "a rule counts its locks",
        "SELECT u.number FROM rules u WHERE u.ok <> (SELECT COUNT(*) FROM locks l WHERE l.rule = u.number AND l.state = 1)",
    ),
    (
        "what is at an endpoint is counted",
        "SELECT s.id FROM stores s WHERE s.bytes <> (SELECT COALESCE(SUM(r.bytes), 0) FROM replicas r WHERE r.store = s.id)",
    ),
    (
        "an account's holds are counted",
        "SELECT h.store FROM held h WHERE h.bytes <> (SELECT COALESCE(SUM(l.bytes), 0) FROM locks l JOIN rules u ON u.number = l.rule \
         WHERE u.account = h.account AND l.store = h.store)",
    ),
];

fn add_nodes(admin: &Member<'_>) -> Vec<Node> {
    let node = |site: &&str| {
        let node = Node::closed();
        let key = admin.write(&format!("{site}.key"), &node.grant(&["--export", "data", "--write"]));
        let (url, storage) = (node.at(""), node.at("data/c"));
        admin.run(&["hub", "site", "add", site]).expect(0);
        let words = ["hub", "endpoint", "add", site, "--site", site, "--url", &url, "--endpoint-key-file", &key];
        admin.run(&[words.as_slice(), &["--storage", &storage]].concat()).expect(0);
        node
    };
    SITES.iter().map(node).collect()
}

/// Enters datasets whose files are at the first node into the catalogue.
fn enter_datasets(hub: &Hub, key: &str, nodes: &[Node]) {
    for dataset in 0..DATASETS {
        let name = |file: usize| format!("d{dataset}.f{file}");
        let data: Vec<Value> = (0..FILES)
            .map(|file| {
                let path = nodes[0].data(&format!("c/user/root/{}", name(file)));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, pattern(BYTES)).unwrap();
                serde_json::json!({"name": format!("user.root:{}", name(file)), "bytes": BYTES, "replicas": [{"endpoint": "cern"}]})
            })
            .collect();
        for list in [
            serde_json::json!({"data": [{"name": format!("user.root:d{dataset}"), "kind": "dataset"}]}),
            serde_json::json!({"into": format!("user.root:d{dataset}"), "data": data}),
        ] {
            let mut curl = std::process::Command::new("curl");
            curl.args([
                "-skf",
                "--oauth2-bearer",
                key,
                "-H",
                "Content-Type: application/json",
                "-d",
                &list.to_string(),
            ]);
            assert!(curl.arg(format!("{}/api/v1/data", hub.url)).output().unwrap().status.success());
        }
    }
}

#[test]
fn two_hubs_fulfil_all_rules_whichever_is_killed() {
    let Some(server) = Postgres::start() else {
        return skipped("data_hubs::two_hubs_fulfil_all_rules_whichever_is_killed", MISSING);
    };
    let url = server.database("hub");
    let start = || Hub::start(&["--db", Box::leak(url.clone().into_boxed_str())]);
    let (mut first, mut second) = (start(), start());
    // A key contains the identity of its hub.
    let [key, other_key] =
        [&first, &second].map(|hub| hub.grant(&["--role", "admin", "--name", "root", "--community", ""]));
    let keys = format!("{key},{other_key}");
    let nodes = add_nodes(&first.with_key(&keys));
    enter_datasets(&first, &key, &nodes);
    {
        let admin = first.with_key(&keys);
        admin.run(&["hub", "link", "add", "wan", "--capacity", "16Mbit/s", "--between", "*,*"]).expect(0);
        for dataset in 0..DATASETS {
            let name = format!("user.root:d{dataset}");
            admin.run(&["data", "rule", "add", &name, "--at", "ral|bnl", "--copies", "2"]).expect(0);
        }
    }
    for round in 0..6u64 {
        // The kill comes at an arbitrary moment of the hubs' work.
        std::thread::sleep(Duration::from_millis(300 + 370 * round));
        let (killed, other) = if round % 2 == 0 { (&mut first, &second) } else { (&mut second, &first) };
        killed.kill();
        let admin = other.with_key(&keys);
        match round {
            // Meanwhile a rule ends, and another one is changed.
            1 => {
                let rule = admin.json(&["data", "rule", "list", "user.root:d0"]).remove(0);
                admin.run(&["data", "rule", "remove", rule["id"].as_str().unwrap()]).expect(0);
            }
            2 => {
                let rule = admin.json(&["data", "rule", "list", "user.root:d1"]).remove(0);
                admin.run(&["data", "rule", "set", rule["id"].as_str().unwrap(), "--priority", "5"]).expect(0);
            }
            _ => {}
        }
        killed.restart();
    }
    let admin = second.with_key(&keys);
    // A copy that broke off twice is tried again after two and four minutes.
    until("all rules that are left are fulfilled", Duration::from_secs(700), || {
        let rules = admin.json(&["data", "rule", "list"]);
        rules.len() == DATASETS - 1 && rules.iter().all(|rule| rule["state"] == "ok")
    });
    for node in &nodes[1..] {
        for dataset in 1..DATASETS {
            for file in 0..FILES {
                let path = node.data(&format!("c/user/root/d{dataset}.f{file}"));
                assert_eq!(fs::read(&path).unwrap(), pattern(BYTES), "{}", path.display());
            }
        }
    }
    for (meaning, query) in FORBIDDEN_ROWS {
        assert_eq!(server.rows("hub", query), Vec::<String>::new(), "{meaning}");
    }
    // What one hub had begun was continued, and not moved once more by the other.
    for node in &nodes[1..] {
        let pushes = node.log().matches("event=\"push\"").count();
        assert!(pushes <= 2 * DATASETS + 6, "{pushes} transfers for {DATASETS} datasets: {}", node.log());
    }
}
