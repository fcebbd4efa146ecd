//! Data of a collaboration, as scientists use it: put under a name, kept at several sites by rules, found, fetched and verified; with a
//! real hub and real nodes, some of which lose their files.

use std::fs;

use serde_json::Value;

use crate::hub::{Hub, Member};
use crate::node::Node;
use crate::tree::pattern;
use crate::wait::{LONG, until, until_some};

/// Three sites, each with a node with storage: two in Europe, one of them with Rucio's naming, and one in America. A scientist has keys
/// to all nodes.
struct Sites {
    nodes: Vec<(&'static str, Node)>,
}

const SITES: [(&str, &str, &str); 3] = [("cern", "eu", "identity"), ("ral", "eu", "hash"), ("bnl", "us", "identity")];

impl Sites {
    fn added_by(admin: &Member<'_>) -> Sites {
        let nodes = SITES.map(|(site, region, naming)| {
            let node = Node::closed();
            let key = admin.write(&format!("{site}.key"), &node.grant(&["--export", "data", "--write"]));
            let (url, storage) = (node.at(""), node.at("data/catalogue"));
            let region = format!("region={region}");
            admin.run(&["hub", "site", "add", site]).expect(0);
            let words = ["hub", "endpoint", "add", site, "--site", site, "--url", &url, "--endpoint-key-file", &key];
            let more = ["--storage", &storage, "--naming", naming, "--attribute", &region];
            admin.run(&[words.as_slice(), more.as_slice()].concat()).expect(0);
            (site, node)
        });
        Sites { nodes: nodes.into() }
    }

    fn node(&self, site: &str) -> &Node {
        &self.nodes.iter().find(|(name, _)| *name == site).unwrap().1
    }

    /// Keys to write at all nodes, separated by commas, for `LONGHAUL_KEY`.
    fn keys(&self) -> String {
        let keys: Vec<String> =
            self.nodes.iter().map(|(_, node)| node.grant(&["--export", "data", "--write"])).collect();
        keys.join(",")
    }
}

/// A scientist with keys to the hub and to all nodes.
fn scientist<'a>(hub: &'a Hub, sites: &Sites, name: &str) -> Member<'a> {
    let key = hub.grant(&["--role", "user", "--name", name, "--community", "astro"]);
    hub.with_key(&format!("{key},{}", sites.keys()))
}

/// Writes a directory with some files, for `data put`.
fn observation(member: &Member<'_>) -> (String, Vec<(&'static str, Vec<u8>)>) {
    let files = vec![
        ("beam 1/visibilities", pattern(2 << 20)),
        ("beam 2/visibilities", pattern(70_001)),
        ("notes.txt", b"clear sky".to_vec()),
    ];
    let mut dir = String::new();
    for (path, bytes) in &files {
        let whole = member.write_bytes(&format!("obs/{path}"), bytes);
        dir = whole.strip_suffix(&format!("/{path}")).unwrap().to_owned();
    }
    (dir, files)
}

fn rule_of(member: &Member<'_>, name: &str) -> Value {
    member.json(&["data", "rule", "list", name]).remove(0)
}

fn fulfilled(member: &Member<'_>, name: &str) -> Value {
    until_some("the rule is fulfilled", LONG, || Some(rule_of(member, name)).filter(|rule| rule["state"] == "ok"))
}

#[test]
fn a_dataset_is_put_copied_found_and_fetched() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::added_by(&admin);
    let ann = scientist(&hub, &sites, "ann");
    let (dir, files) = observation(&ann);

    ann.run(&[
        "data",
        "put",
        &dir,
        "user.ann:obs/7",
        "--to",
        "cern",
        "--at",
        "region=eu",
        "--copies",
        "2",
        "--meta",
        "telescope=low",
    ])
    .expect(0);
    let listener = ann.begin(&["data", "history", "user.ann:obs/7", "--follow", "--json"]);
    until("subscribers are notified", LONG, || listener.out().contains("\"kind\":\"complete\""));
    drop(listener);
    let rule = fulfilled(&ann, "user.ann:obs/7");
    assert_eq!((rule["ok"].as_u64(), rule["bytes_left"].as_u64()), (Some(6), Some(0)));
    for (path, bytes) in &files {
        let at_cern = sites.node("cern").data(&format!("catalogue/user/ann/obs/7/{path}"));
        assert_eq!(&fs::read(at_cern).unwrap(), bytes, "{path}");
    }
    let whole = ann.json(&["data", "where", "user.ann:obs/7"]).remove(0);
    let complete: Vec<&str> =
        whole["endpoints"].as_array().unwrap().iter().map(|at| at["endpoint"].as_str().unwrap()).collect();
    assert_eq!((complete, &whole["endpoints"][1]["complete"]), (vec!["cern", "ral"], &Value::Bool(true)));

    assert_eq!(ann.json(&["data", "find", "user.ann", "--meta", "telescope=low"])[0]["name"], "user.ann:obs/7");
    assert_eq!(ann.json(&["data", "ls", "user.ann:obs/7"]).len(), 3);
    let kinds: Vec<String> = ann
        .json(&["data", "history", "user.ann:obs/7"])
        .iter()
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["created", "attached", "rule", "complete"]);

    // What is fetched is counted.
    ann.run(&["data", "get", "user.ann:obs/7", &ann.write("fetched/x", "").replace("/x", "")]).expect(0);
    let popular = ann.json(&["data", "popular", "user.ann"]).remove(0);
    assert_eq!(
        (&popular["name"], &popular["count"], &popular["files"]),
        (&"user.ann:obs/7".into(), &1.into(), &3.into())
    );

    // Each file is fetched from any node that has it: one of the nodes names files as Rucio does.
    let mut sites = sites;
    for stopped in ["ral", "cern"] {
        let node = sites.nodes.iter_mut().find(|(site, _)| *site == stopped).unwrap();
        node.1.kill();
        let target = ann.write(&format!("without-{stopped}/here"), "");
        let target = target.strip_suffix("/here").unwrap().to_owned();
        ann.run(&["data", "get", "user.ann:obs/7", &target]).expect(0);
        for (path, bytes) in &files {
            assert_eq!(&fs::read(format!("{target}/{path}")).unwrap(), bytes, "{path}");
        }
        node.1.restart();
    }
}

#[test]
fn lost_and_changed_replicas_are_reported_and_never_copied() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::added_by(&admin);
    let ann = scientist(&hub, &sites, "ann");
    let (dir, _) = observation(&ann);
    ann.run(&["data", "put", &dir, "user.ann:obs", "--to", "cern"]).expect(0);
    // A file is changed without the catalogue, and another one is removed.
    fs::write(sites.node("cern").data("catalogue/user/ann/obs/beam 2/visibilities"), pattern(70_000)).unwrap();
    fs::remove_file(sites.node("cern").data("catalogue/user/ann/obs/notes.txt")).unwrap();
    ann.run(&["data", "rule", "add", "user.ann:obs", "--at", "bnl"]).expect(0);
    let why = until_some("two files are stuck", LONG, || {
        let id = rule_of(&ann, "user.ann:obs")["id"].as_str().unwrap().to_owned();
        Some(ann.json(&["data", "rule", "why", &id]).remove(0)).filter(|why| why["rule"]["stuck"] == 2)
    });
    assert_eq!((&why["rule"]["ok"], &why["rule"]["state"]), (&1.into(), &"stuck".into()));
    let errors: Vec<&str> =
        why["locks"].as_array().unwrap().iter().map(|lock| lock["error"].as_str().unwrap()).collect();
    assert!(errors.iter().any(|error| error.contains("No such file")), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("adler32") || error.contains("bytes")), "{errors:?}");
    let text = why["text"].as_str().unwrap();
    assert!(text.contains("2 could not be made and are tried again"), "{text}");
    assert!(
        !sites.node("bnl").data("catalogue/user/ann/obs/beam 2/visibilities").exists(),
        "nothing wrong is put in place"
    );

    let outcome = ann.run(&["data", "get", "user.ann:obs", &ann.write("got/x", "").replace("/x", "")]);
    assert_ne!(outcome.code, 0, "what is not what it was is not fetched: {}", outcome.err);
}

#[test]
fn a_killed_hub_fulfils_its_rules_after_a_restart() {
    let mut hub = Hub::start(&[]);
    let admin_key = hub.grant(&["--role", "admin", "--name", "root"]);
    let (sites, ann_key) = {
        let admin = hub.with_key(&admin_key);
        let sites = Sites::added_by(&admin);
        let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
        let ann_key = format!("{key},{}", sites.keys());
        let ann = hub.with_key(&ann_key);
        let source = ann.write_bytes("run/large", &pattern(12 << 20));
        ann.run(&["data", "put", source.strip_suffix("/large").unwrap(), "user.ann:run", "--to", "cern"]).expect(0);
        admin.run(&["hub", "link", "add", "wan", "--capacity", "40Mbit/s", "--between", "*,*"]).expect(0);
        ann.run(&["data", "rule", "add", "user.ann:run", "--at", "bnl"]).expect(0);
        until("it moves", LONG, || ann.json(&["queue", "list"]).iter().any(|job| job["state"] == "running"));
        (sites, ann_key)
    };
    hub.restart();
    let ann = hub.with_key(&ann_key);
    fulfilled(&ann, "user.ann:run");
    assert_eq!(fs::read(sites.node("bnl").data("catalogue/user/ann/run/large")).unwrap(), pattern(12 << 20));
}

#[test]
fn an_impossible_request_is_refused_with_a_possible_one() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::added_by(&admin);
    let ann = scientist(&hub, &sites, "ann");
    let bob = hub.member("user", "bob", "astro");
    let (dir, _) = observation(&ann);
    ann.run(&["data", "put", &dir, "user.ann:obs", "--to", "cern"]).expect(0);
    let rule = |words: &[&str]| ann.run(&[&["data", "rule", "add", "user.ann:obs"], words].concat());
    rule(&["--at", "region=eu", "--copies", "3"]).refused(2, &["3 copies cannot be placed", "cern, ral", "ask for 2"]);
    rule(&["--at", "region=moon"]).refused(2, &["the expression matches none"]);
    rule(&["--at", "region=("]).refused(2, &["is not a valid expression of endpoints", "at character"]);
    rule(&["--at", "ral", "--expires", "1999-01-01T00:00:00Z"]).refused(2, &["expires has passed"]);
    bob.run(&["data", "put", &dir, "user.ann:mine"]).refused(4, &["the scope user.ann belongs to ann"]);
    assert!(!sites.node("cern").data("catalogue/user/ann/mine").exists(), "nothing was moved for it");
    bob.run(&["data", "scope", "survey"]).refused(4, &["needs the role operator"]);
    admin.run(&["data", "scope", "survey", "--account", "bob"]).expect(0);
    bob.run(&["data", "ls", "survey"]).expect(0);
    ann.run(&["data", "ls", "user.ann:nothing"]).refused(1, &["there is no user.ann:nothing here"]);
    ann.run(&["data", "where", "no-scope"]).refused(2, &["has no scope: names are scope:name"]);
    ann.run(&["data", "where", &format!("s:{}", "x".repeat(5_000))]).refused(2, &["500 bytes at most"]);
    ann.run(&["data", "where", &format!("s:{}", "x".repeat(10_000))]).refused(2, &["longer than 8192 bytes"]);
    ann.run(&["data", "put", &dir, "user.ann:obs2", "--to", "nowhere"])
        .refused(2, &["nowhere matches no endpoint with storage"]);
    ann.run(&["data", "put", &dir, "user.ann:done", "--to", "cern", "--close"]).expect(0);
    ann.run(&["data", "put", &dir, "user.ann:done", "--to", "ral"]).refused(2, &["user.ann:done is closed"]);
    assert!(!sites.node("ral").data("catalogue/user/ann/done").exists(), "nothing was moved for it");
    ann.write("obs/notes.txt", "rain");
    ann.run(&["data", "put", &dir, "user.ann:obs", "--to", "cern"]).refused(2, &["is not what the catalogue knows"]);
    let copy = sites.node("cern").data("catalogue/user/ann/obs/notes.txt");
    assert_eq!(fs::read(copy).unwrap(), b"clear sky", "nothing was written over it");
}

#[test]
fn a_removed_dataset_loses_its_replicas_and_the_removal_can_be_undone() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::added_by(&admin);
    let ann = scientist(&hub, &sites, "ann");
    let (dir, _) = observation(&ann);
    ann.run(&["data", "put", &dir, "user.ann:obs", "--to", "cern", "--at", "region=eu", "--copies", "2"]).expect(0);
    fulfilled(&ann, "user.ann:obs");
    let text = ann.run(&["data", "rm", "user.ann:obs", "--dry-run"]).expect(0).text();
    assert!(text.contains("3 files go") && text.contains("with 6 copies; rules of ann end"), "{text}");
    let text = ann.run(&["data", "rm", "user.ann:obs"]).expect(0).text();
    assert!(text.contains("is removed at"), "{text}");
    ann.run(&["data", "rm", "user.ann:obs", "--undo"]).expect(0);
    assert_eq!(ann.json(&["data", "ls", "user.ann:obs"]).len(), 3);

    // No other user removes it, and no user ends another user's rule.
    let bob = scientist(&hub, &sites, "bob");
    bob.run(&["data", "rm", "user.ann:obs"]).refused(4, &["the scope user.ann belongs to ann"]);
    bob.run(&["data", "rule", "add", "user.ann:obs", "--at", "bnl"]).expect(0);
    ann.run(&["data", "rm", "user.ann:obs", "--now"]).refused(2, &["is held by rules of bob"]);

    // Nor by setting its end.
    let mut curl = std::process::Command::new("curl");
    curl.args([
        "-sk",
        "-X",
        "PATCH",
        "-d",
        "{\"expires\": \"2000-01-01T00:00:00Z\"}",
        "-H",
        "Content-Type: application/json",
    ]);
    curl.args(["--oauth2-bearer", &hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"])]);
    let answer = curl.arg(format!("{}/api/v1/data/user.ann:obs", hub.url)).output().unwrap();
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(text.contains("is held by rules of bob"), "{text}");

    let file = |site: &str| sites.node(site).data("catalogue/user/ann/obs/notes.txt");
    until("bob has his copy", LONG, || file("bnl").exists());
    admin.run(&["data", "rm", "user.ann:obs", "--now"]).expect(0);
    for site in ["cern", "bnl"] {
        until("the copies are removed", LONG, || !file(site).exists());
    }
    until("so is the name", LONG, || ann.run(&["data", "ls", "user.ann:obs"]).code != 0);
}

#[test]
fn a_bad_replica_is_found_and_replaced() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::added_by(&admin);
    let ann = scientist(&hub, &sites, "ann");
    let (dir, _) = observation(&ann);
    ann.run(&["data", "put", &dir, "user.ann:obs", "--to", "cern", "--at", "cern|bnl", "--copies", "2"]).expect(0);
    fulfilled(&ann, "user.ann:obs");
    ann.run(&["data", "verify", "user.ann:obs"]).expect(0);

    // A user verifies the replicas, and declares what is wrong.
    let at_bnl = sites.node("bnl").data("catalogue/user/ann/obs/notes.txt");
    fs::write(&at_bnl, b"dark sky!").unwrap();
    let outcome = ann.run(&["data", "verify", "user.ann:obs", "--declare"]);
    assert_eq!(outcome.code, 3, "{}", outcome.err);
    assert!(outcome.text().contains("bad      user.ann:obs/notes.txt at bnl: its checksum is"), "{}", outcome.text());
    until("it is made anew", LONG, || fs::read(&at_bnl).is_ok_and(|bytes| bytes == b"clear sky"));
    fulfilled(&ann, "user.ann:obs");

    // Without a verification: a copy for another user detects it, and uses the other replica.
    let at_cern = sites.node("cern").data("catalogue/user/ann/obs/notes.txt");
    fs::write(&at_cern, b"cloudy sky").unwrap();
    fs::remove_file(&at_bnl).unwrap();
    fs::write(&at_bnl, b"clear sky").unwrap();
    let rule = ann.json(&["data", "rule", "add", "user.ann:obs", "--at", "ral"]).remove(0);
    let id = rule["id"].as_str().unwrap();
    until("ral has it", LONG, || ann.json(&["data", "rule", "why", id])[0]["rule"]["state"] == "ok");
    let bad = || {
        let history = ann.json(&["data", "history", "user.ann:obs/notes.txt"]);
        history.iter().any(|event| event["kind"] == "replica_bad" && event["facts"]["endpoint"] == "cern")
    };
    // Which source is read first is the hub's choice: where it was the good one, nothing was found.
    if bad() || fs::read(&at_cern).unwrap() != b"cloudy sky" {
        until("it is made anew", LONG, || fs::read(&at_cern).is_ok_and(|bytes| bytes == b"clear sky"));
    }
}

#[test]
fn an_audit_finds_missing_and_unknown_files() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::added_by(&admin);
    let ann = scientist(&hub, &sites, "ann");
    let (dir, _) = observation(&ann);
    ann.run(&["data", "put", &dir, "user.ann:obs", "--to", "cern", "--at", "cern|bnl", "--copies", "2"]).expect(0);
    fulfilled(&ann, "user.ann:obs");
    let bnl = sites.node("bnl");
    let audit = |words: &[&str], code: i32| {
        let outcome = admin.run(&[&["data", "audit", "run", "bnl", "--json"], words].concat()).expect(code);
        serde_json::from_str::<Value>(outcome.text().lines().last().unwrap()).unwrap()
    };
    let fine = audit(&[], 0);
    assert_eq!((&fine["listed"], &fine["state"]), (&3.into(), &"done".into()));

    // One file is lost, one is cut short, one was forgotten long ago, and one is being uploaded.
    let lost = bnl.data("catalogue/user/ann/obs/notes.txt");
    fs::remove_file(&lost).unwrap();
    fs::write(bnl.data("catalogue/user/ann/obs/beam 2/visibilities"), pattern(70)).unwrap();
    let forgotten = bnl.data("catalogue/user/ann/old/forgotten");
    fs::create_dir_all(forgotten.parent().unwrap()).unwrap();
    fs::write(&forgotten, "what was that?").unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 86_400);
    fs::File::options().write(true).open(&forgotten).unwrap().set_modified(long_ago).unwrap();
    let young = bnl.data("catalogue/user/ann/old/young");
    fs::write(&young, "soon").unwrap();
    let found = audit(&[], 3);
    let counts = ["missing", "wrong_size", "dark", "dark_bytes"].map(|word| found[word].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 1, 14], "{found}");
    let number = found["number"].to_string();
    let text = admin.run(&["data", "audit", "show", &number]).expect(0).text();
    for line in [
        "missing   user/ann/obs/notes.txt",
        "size      user/ann/obs/beam 2/visibilities",
        "dark      user/ann/old/forgotten",
    ] {
        assert!(text.contains(line), "{text}");
    }
    until("what was lost is made anew", LONG, || fs::read(&lost).is_ok_and(|bytes| bytes == b"clear sky"));
    fulfilled(&ann, "user.ann:obs");
    assert!(forgotten.exists(), "nothing is deleted without an order");
    let text = admin.run(&["data", "audit", "clean", &number]).expect(0).text();
    assert!(text.contains("1 of them deleted"), "{text}");
    assert!(!forgotten.exists() && young.exists());
    admin.run(&["data", "audit", "clean", &number]).refused(2, &["is not done, or its files were deleted before"]);

    // A listing of another program, of a part.
    let listing = admin.write("listing", "user/ann/obs/notes.txt\t9\t1000000000\nuser/ann/obs/x\t5\n");
    let words = ["--below", "user/ann/obs", "--listing", &listing, "--taken", "2038-01-01T00:00:00Z"];
    admin
        .run(&[&["data", "audit", "run", "bnl"], words.as_slice()].concat())
        .refused(2, &["is not a time that has passed"]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let now =
        String::from_utf8(std::process::Command::new("date").args(["-u", "+%FT%TZ"]).output().unwrap().stdout).unwrap();
    let found = audit(&["--below", "user/ann/obs", "--listing", &listing, "--taken", now.trim()], 3);
    let counts = ["missing", "wrong_size", "dark"].map(|word| found[word].as_u64().unwrap());
    assert_eq!(counts, [2, 0, 1], "the two visibilities are not listed, and x is unknown: {found}");
    ann.run(&["data", "audit", "list"]).refused(4, &["needs the role operator"]);
    admin.run(&["data", "audit", "run", "moon"]).refused(1, &["moon has no storage"]);
    admin.run(&["data", "audit", "run", "bnl", "--below", "../etc"]).refused(2, &["below: a directory below"]);
}
