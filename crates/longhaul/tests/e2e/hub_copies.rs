//! Copies between two servers that the hub does not know as nodes: the hub sets only how many of them run at once.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::hub::{Hub, Member};
use crate::node::Node;
use crate::tree::pattern;
use crate::wait::{LONG, until_some};

/// A hub that trusts the authority of the tests.
fn hub(dir: &Path) -> Hub {
    let authority = dir.join("ca.pem");
    fs::write(&authority, crate::https::authority()).unwrap();
    Hub::start(&["--plain", "--cacert", Box::leak(authority.display().to_string().into_boxed_str())])
}

/// Two servers for anonymous clients, described to a hub as WebDAV servers.
fn servers(admin: &Member<'_>) -> (Node, Node) {
    let server = || {
        let policy = "[third_party]\nlocal = true\nguests = true\n";
        crate::https::setup(policy).arg("--anonymous").arg("rw").start()
    };
    let (a, b) = (server(), server());
    for (name, node) in [("da", &a), ("db", &b)] {
        admin.run(&["hub", "endpoint", "add", name, "--kind", "webdav", "--url", &url(node, "")]).expect(0);
    }
    (a, b)
}

fn url(node: &Node, path: &str) -> String {
    format!("davs://127.0.0.1:{}/{path}", node.port)
}

#[test]
fn two_servers_copy_between_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let hub = hub(dir.path());
    let admin = hub.member("admin", "root", "");
    let (a, b) = servers(&admin);
    fs::write(a.data("f"), pattern(1 << 20)).unwrap();
    admin.run(&["submit", &url(&a, "data/f"), &url(&b, "data/in/f"), "--wait"]).expect(0);
    assert_eq!(fs::read(b.data("in/f")).unwrap(), pattern(1 << 20));
    let missing = admin.run(&["submit", &url(&a, "data/none"), &url(&b, "data/none"), "--wait"]);
    assert_eq!(missing.code, 1, "{}", missing.err);
    crate::hub_promises::assert_only_described_files_arrive(&admin, (&a, &url(&a, "data")), (&b, &url(&b, "data")));
}

#[test]
fn two_copies_run_at_once_at_first_and_the_queue_states_why_others_wait() {
    let dir = tempfile::tempdir().unwrap();
    let hub = hub(dir.path());
    let admin = hub.member("admin", "root", "");
    let (a, b) = servers(&admin);
    let list: Vec<String> = (0..40)
        .map(|at| {
            fs::write(a.data(&format!("f{at}")), pattern(1 << 20)).unwrap();
            format!("{} {}\n", url(&a, &format!("data/f{at}")), url(&b, &format!("data/in/f{at}")))
        })
        .collect();
    let id = admin.submit(&["--files-from", &admin.write("list", &list.concat())]);
    let why = until_some("the reason of the wait is reported", LONG, || {
        let lines = admin.json(&["queue", "why", &id]);
        lines.into_iter().find(|line| line["constraint"]["text"].as_str().is_some_and(|text| text.contains("at once")))
    });
    let text = why["constraint"]["text"].as_str().unwrap();
    assert!(text.contains("2 files at once") && text.contains("not their rate"), "{text}");
    let job = admin.ended(&id);
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(40)));
}
