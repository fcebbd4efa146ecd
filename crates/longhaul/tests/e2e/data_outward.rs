//! The catalogue and other systems: rules that new data gets by itself, webhooks, another hub's catalogue, tables of Rucio's database.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::hub::{Hub, Member};
use crate::wait::{LONG, until, until_some};

/// A hub with two endpoints with storage but without nodes: copies wait.
fn hub() -> Hub {
    let hub = Hub::start(&[]);
    {
        let admin = hub.member("admin", "root", "");
        for (name, region) in [("north", "eu"), ("south", "au")] {
            admin.run(&["hub", "site", "add", name]).expect(0);
            let (url, region) = (format!("lh://{name}.invalid/"), format!("region={region}"));
            let storage = format!("{url}data");
            let words = ["hub", "endpoint", "add", name, "--site", name, "--url", &url];
            admin.run(&[words.as_slice(), &["--storage", &storage, "--attribute", &region]].concat()).expect(0);
        }
    }
    hub
}

/// Asks the hub's API with a body.
fn ask(hub: &Hub, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut curl = std::process::Command::new("curl");
    curl.args([
        "-sk",
        "-X",
        method,
        "-H",
        "Content-Type: application/json",
        "-w",
        "\n%{http_code}",
        "-d",
        &body.to_string(),
    ]);
    let output = curl.args(["--oauth2-bearer", key]).arg(format!("{}{path}", hub.url)).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

fn dataset(hub: &Hub, key: &str, name: &str, metadata: &Value) {
    let list = json!({"data": [{"name": name, "kind": "dataset", "metadata": metadata}]});
    let (status, body) = ask(hub, key, "POST", "/api/v1/data", &list);
    assert_eq!(status, 201, "{body}");
}

fn rules_of(member: &Member<'_>, name: &str) -> Vec<Value> {
    member.json(&["data", "rule", "list", name])
}

#[test]
fn new_data_gets_the_rules_of_a_subscription() {
    let hub = hub();
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let ann = hub.with_key(&key);
    dataset(&hub, &key, "user.ann:old", &json!({"telescope": "low"}));
    let policy = "[subscription.low]\nexisting = true\nfilter.metadata.telescope = \"low\"\n\
                  [[subscription.low.rules]]\nat = \"region=eu\"\nlifetime_s = 3600\n\
                  [[subscription.low.rules]]\nat = \"region=au\"\nfrom = \"region=eu\"\n\
                  [subscription.closed]\nfilter = { names = [\"run*\"], closed = true }\nrules = [{ at = \"north\", priority = 5 }]\n";
    let file = ann.write("policy.toml", policy);
    ann.run(&["data", "subscription", "apply", &file]).expect(0);
    dataset(&hub, &key, "user.ann:new", &json!({"telescope": "low"}));
    dataset(&hub, &key, "user.ann:mid", &json!({"telescope": "mid"}));
    dataset(&hub, &key, "user.ann:run1", &json!({}));
    for name in ["user.ann:old", "user.ann:new"] {
        let rules = until_some("it has both rules", LONG, || Some(rules_of(&ann, name)).filter(|all| all.len() == 2));
        let (onward, first) = (&rules[0], &rules[1]);
        assert_eq!((&first["at"], first["expires"].is_string()), (&"region=eu".into(), true));
        assert_eq!((&onward["at"], &onward["from"]), (&"region=au".into(), &"region=eu".into()));
    }
    assert!(rules_of(&ann, "user.ann:mid").is_empty() && rules_of(&ann, "user.ann:run1").is_empty());
    ask(&hub, &key, "PATCH", "/api/v1/data/user.ann:run1", &json!({"open": false}));
    until("what is closed has its rule", LONG, || rules_of(&ann, "user.ann:run1").len() == 1);
    // Later metadata counts, and each name gets its rules once.
    ask(&hub, &key, "PATCH", "/api/v1/data/user.ann:mid", &json!({"metadata": {"telescope": "low"}}));
    until("it has both rules", LONG, || rules_of(&ann, "user.ann:mid").len() == 2);
    ask(&hub, &key, "PATCH", "/api/v1/data/user.ann:mid", &json!({"metadata": {"beam": 3}}));
    let shown = ann.run(&["data", "subscription", "show", "low"]).expect(0).text();
    assert!(shown.contains("3 names have them") && shown.contains("lifetime_s = 3600"), "{shown}");
    // What is shown can be applied.
    let file = ann.write("shown.toml", &shown);
    ann.run(&["data", "subscription", "apply", &file]).expect(0);
    assert_eq!(rules_of(&ann, "user.ann:mid").len(), 2);

    let bob = hub.member("user", "bob", "astro");
    bob.run(&["data", "subscription", "remove", "low"]).refused(4, &["the subscription low belongs to ann"]);
    ann.run(&["data", "subscription", "remove", "low"]).expect(0);
    assert_eq!(rules_of(&ann, "user.ann:new").len(), 2, "the rules stay");
    for (text, expected) in [
        ("[subscription.x]\nrules = []\n", "1 to 20 rules"),
        ("[subscription.x]\nrules = [{ at = \"region=(\" }]\n", "rule 1: \"region=(\" is not a valid expression"),
        ("[subscription.x]\nrules = [{ at = \"*\", priority = 9 }]\n", "priority is 1 to 5"),
        ("[subscription.\"a b\"]\nrules = [{ at = \"*\" }]\n", "a name of letters"),
        ("[subscription.x]\nfilter.kind = \"file\"\nrules = [{ at = \"*\" }]\n", "kind: dataset or container"),
        ("[subscription.x]\nfilter.colour = 1\nrules = [{ at = \"*\" }]\n", "unknown field `colour`"),
    ] {
        let file = ann.write("wrong.toml", text);
        let outcome = ann.run(&["data", "subscription", "apply", &file]);
        assert!(outcome.code == 2 && outcome.err.contains(expected), "{text}: {}", outcome.err);
    }
}

#[test]
fn a_subscription_reports_why_its_rules_cannot_be_made() {
    let hub = hub();
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let ann = hub.with_key(&key);
    let file = ann.write("policy.toml", "[subscription.moon]\nrules = [{ at = \"region=moon\" }]\n");
    ann.run(&["data", "subscription", "apply", &file]).expect(0);
    dataset(&hub, &key, "user.ann:d", &json!({}));
    let subscription = until_some("it states the reason", LONG, || {
        let subscription = ann.json(&["data", "subscription", "list"]).remove(0);
        subscription["error"].is_string().then_some(subscription)
    });
    assert!(subscription["error"].as_str().unwrap().contains("the expression matches none"), "{subscription}");
    assert_eq!((&subscription["names"], &subscription["waiting"]), (&0.into(), &1.into()));
}

/// Takes requests, answers them with these statuses in turn (the last one for ever), and returns their fields and bodies.
fn receiver(statuses: &'static [u16]) -> (String, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for (at, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            let mut reader = BufReader::new(socket.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let status = statuses[at.min(statuses.len() - 1)];
            write!(socket, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            if sender.send((head, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, received)
}

fn field(head: &str, name: &str) -> String {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {head}")).split_once(':').unwrap().1.trim().to_owned()
}

#[test]
fn a_webhook_is_posted_signed_and_posted_again_after_a_refusal() {
    let hub = hub();
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let ann = hub.with_key(&key);
    ann.run(&["data", "webhook", "list"]).refused(4, &["needs the role operator"]);
    let operator = hub.member("operator", "olga", "");
    dataset(&hub, &key, "user.ann:before", &json!({}));
    let (url, received) = receiver(&[503, 204]);
    let words = ["data", "webhook", "set", "flow", &url, "--kind", "closed", "--names", "user.ann:*"];
    let secret = operator.json(&words).remove(0)["secret"].as_str().unwrap().to_owned();
    for name in ["user.ann:a", "user.ann:b"] {
        dataset(&hub, &key, name, &json!({}));
    }
    ask(&hub, &key, "PATCH", "/api/v1/data/user.ann:a", &json!({"open": false}));
    let (_, refused) = received.recv_timeout(LONG).unwrap();
    let webhook = until_some("the refusal is reported", LONG, || {
        let webhook = operator.json(&["data", "webhook", "list"]).remove(0);
        (webhook["failures"] == 1).then_some(webhook)
    });
    assert!(webhook["error"].as_str().unwrap().contains("answers 503") && webhook["secret"].is_null(), "{webhook}");
    // Ten seconds later.
    let (head, body) = received.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(body, refused, "the same again");
    let events: Value = serde_json::from_str(&body).unwrap();
    let event = &events["events"][0];
    assert_eq!(
        (&event["kind"], &event["name"], &event["account"]),
        (&"closed".into(), &"user.ann:a".into(), &"ann".into())
    );
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
    assert!(head.starts_with("POST /hook?x=1 "), "{head}");
    // As a receiver checks it by Standard Webhooks.
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let signed = format!("{}.{}.{body}", field(&head, "webhook-id"), field(&head, "webhook-timestamp"));
    let sign = aws_lc_rs::hmac::sign(&aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key), signed.as_bytes());
    assert_eq!(field(&head, "webhook-signature"), format!("v1,{}", STANDARD.encode(sign.as_ref())));
    until("it is counted", LONG, || operator.json(&["data", "webhook", "list"])[0]["told"] == 1);
    operator.run(&["data", "webhook", "set", "flow", "ftp://x"]).refused(2, &["url"]);
    operator.run(&["data", "webhook", "remove", "flow"]).expect(0);
    operator.run(&["data", "webhook", "remove", "flow"]).refused(1, &["there is no webhook flow"]);
}

#[test]
fn a_hub_imports_another_hubs_catalogue_and_names_conflicts() {
    let (here, there) = (hub(), hub());
    let key = here.grant(&["--role", "operator", "--name", "ann", "--community", "astro"]);
    let ann = here.with_key(&key);
    ann.run(&["data", "scope", "survey"]).expect(0);
    dataset(&here, &key, "survey:d", &json!({"telescope": "low"}));
    let file = |name: &str, bytes: u64, endpoint: &str| json!({"name": name, "bytes": bytes, "adler32": "0000000a", "replicas": [{"endpoint": endpoint, "path": "elsewhere/x"}]});
    let files = json!({"into": "survey:d", "data": [file("survey:f1", 1, "north"), file("survey:f2", 2, "south")]});
    assert_eq!(ask(&here, &key, "POST", "/api/v1/data", &files).0, 201);
    ask(&here, &key, "PATCH", "/api/v1/data/survey:d", &json!({"open": false}));
    ann.run(&["data", "rule", "add", "survey:d", "--at", "north"]).expect(0);
    let out = ann.write("survey.jsonl", "");
    ann.run(&["data", "export", "survey", "--out", &out]).expect(0);
    let text = fs::read_to_string(&out).unwrap();
    assert_eq!(text.lines().count(), 1 + 3 + 1 + 1 + 1, "{text}");

    let other_key = there.grant(&["--role", "operator", "--name", "ann", "--community", "astro"]);
    let other = there.with_key(&other_key);
    other.run(&["data", "scope", "survey"]).expect(0);
    let import = |words: &[&str], code: i32| -> Value {
        let path = other.write("taken.jsonl", &text);
        let outcome = other.run(&[&["data", "import", &path, "--json"], words].concat()).expect(code);
        serde_json::from_str(outcome.text().lines().last().unwrap()).unwrap()
    };
    let first = import(&["--rules"], 0);
    assert_eq!((&first["new"], &first["known"], &first["rules"]), (&3.into(), &0.into(), &1.into()));
    let again = import(&["--rules"], 0);
    assert_eq!(
        (&again["new"], &again["known"], &again["conflicts"]),
        (&0.into(), &3.into(), &0.into()),
        "again changes nothing"
    );
    let data = other.json(&["data", "find", "survey", "--meta", "telescope=low"]).remove(0);
    assert_eq!((&data["entries"], &data["open"]), (&2.into(), &false.into()));
    let copies = other.json(&["data", "where", "survey:f1", "--files"]).remove(0);
    assert_eq!(copies["replicas"][0]["url"], "lh://north.invalid/data/elsewhere/x");
    assert_eq!(rules_of(&other, "survey:d").len(), 1);

    // A third one has another f1, and other names of the endpoints.
    let third = hub();
    let third_key = third.grant(&["--role", "operator", "--name", "ann", "--community", "astro"]);
    let member = third.with_key(&third_key);
    member.run(&["data", "scope", "survey"]).expect(0);
    let theirs = json!({"data": [{"name": "survey:f1", "bytes": 7}]});
    assert_eq!(ask(&third, &third_key, "POST", "/api/v1/data", &theirs).0, 201);
    let path = member.write("taken.jsonl", &text.replace("\"north\"", "\"cern\"").replace("\"south\"", "\"ral\""));
    let outcome = member.run(&["data", "import", &path, "--endpoint", "ral=south", "--json"]).expect(3);
    assert!(outcome.err.contains("survey:f1: it exists already, with 7 bytes and not 1"), "{}", outcome.err);
    let summary: Value = serde_json::from_str(outcome.text().lines().last().unwrap()).unwrap();
    assert_eq!((&summary["conflicts"], &summary["skipped_replicas"]), (&1.into(), &1.into()));
    assert_eq!(summary["unknown_endpoints"], json!(["cern"]));
    let entries = member.json(&["data", "ls", "survey:d"]);
    assert_eq!(entries.len(), 1, "what is another file here is not put into the dataset: {entries:?}");
    for (text, expected) in [
        ("", ""),
        ("{}", "line 1"),
        ("{\"catalogue\":{\"v\":2,\"scope\":\"s\"}}", "version is 2; this program reads version 1"),
        ("{\"closed\":\"s:d\"}", "does not begin with"),
    ] {
        let path = member.write("wrong.jsonl", text);
        let outcome = member.run(&["data", "import", &path]);
        assert_eq!(outcome.code, if expected.is_empty() { 0 } else { 2 }, "{text}: {}", outcome.err);
        assert!(outcome.err.contains(expected), "{text}: {}", outcome.err);
    }
}

/// 20,000 files of a Rucio, with their datasets, copies and rules.
#[test]
fn tables_of_a_rucio_database_are_imported() {
    const DATASETS: usize = 20;
    const FILES: usize = 1_000;
    let hub = hub();
    let key = hub.grant(&["--role", "operator", "--name", "ann", "--community", ""]);
    let ann = hub.with_key(&key);
    let mut dids = String::from("SCOPE,NAME,ACCOUNT,DID_TYPE,IS_OPEN,MONOTONIC,BYTES,MD5,ADLER32\n");
    let mut contents = String::from("scope,name,child_scope,child_name\n");
    let mut replicas = String::from("rse_id,scope,name,bytes,adler32,state,lock_cnt,path\n");
    let mut rules = String::from("id,account,scope,name,rse_expression,copies,grouping,priority,expires_at,state\n");
    for dataset in 0..DATASETS {
        writeln!(dids, "survey,d{dataset},ann,D,{},0,,,", dataset % 2).unwrap();
        writeln!(rules, "{dataset:032x},bob,survey,d{dataset},region=eu,1,D,3,2040-01-01 00:00:00,O").unwrap();
        for file in 0..FILES {
            let (name, size) = (format!("f{dataset}.{file}"), file + 1);
            writeln!(dids, "survey,{name},ann,F,,,{size},,{file:08x}").unwrap();
            writeln!(contents, "survey,d{dataset},survey,{name}").unwrap();
            writeln!(replicas, "AB01,survey,{name},{size},{file:08x},A,1,").unwrap();
        }
    }
    let mut dir = String::new();
    for (name, text) in [
        ("dids.csv", dids),
        ("contents.csv", contents),
        ("replicas.csv", replicas),
        ("rules.csv", rules),
        ("rses.csv", "id,rse,rse_type\nab01,NORTH_DISK,DISK\n".to_owned()),
        ("scopes.csv", "scope,account\nsurvey,ann\n".to_owned()),
    ] {
        let path = ann.write(&format!("dump/{name}"), &text);
        dir = path.strip_suffix(&format!("/{name}")).unwrap().to_owned();
    }
    let words = ["data", "import", &dir, "--rucio", "--rules", "--endpoint", "NORTH_DISK=north", "--json"];
    // Six seconds of a processor, beside all other tests.
    let outcome = ann.begin(&words).finish_within(Duration::from_secs(400)).expect(0);
    let summary: Value = serde_json::from_str(outcome.text().lines().last().unwrap()).unwrap();
    let all = DATASETS * (FILES + 1);
    assert_eq!(
        (&summary["new"], &summary["known"]),
        (&all.into(), &(DATASETS * FILES).into()),
        "each file, and then its copies"
    );
    assert_eq!((&summary["rules"], &summary["conflicts"]), (&DATASETS.into(), &0.into()));
    let one = ann.json(&["data", "where", "survey:d7"]).remove(0);
    assert_eq!((&one["files"], &one["endpoints"][0]["complete"]), (&FILES.into(), &true.into()));
    until("all rules have found their copies", Duration::from_secs(300), || {
        ann.json(&["data", "rule", "list"]).iter().all(|rule| rule["state"] == "ok")
    });
    let rule = rules_of(&ann, "survey:d7").remove(0);
    assert_eq!((&rule["account"], &rule["id"]), (&"bob".into(), &"00000000-0000-0000-0000-000000000007".into()));
}
