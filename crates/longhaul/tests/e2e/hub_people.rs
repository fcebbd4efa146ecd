//! Commands for the users of a hub besides jobs: marks and the audit trail, estimates, pauses and repeats, share links.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::hub::{Hub, pair};
use crate::node::Setup;
use crate::tree::pattern;
use crate::wait::{LONG, until, until_some};

/// Sends a request without a key.
fn ask(method: &str, url: &str, body: &Value) -> (u16, Value) {
    let mut curl = Command::new("curl");
    curl.args(["-sk", "-X", method, "-H", "Content-Type: application/json", "-w", "\n%{http_code}"]);
    let output = curl.args(["-d", &body.to_string(), url]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(text).unwrap_or_default())
}

#[test]
fn an_operator_sets_a_mark_and_the_audit_trail_records_changes_and_refusals() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let _pair = pair(&admin);
    admin.run(&["hub", "link", "add", "wan", "--capacity", "1Gbit/s", "--between", "alpha,beta"]).expect(0);
    let (operator, user) = (hub.member("operator", "op", ""), hub.member("user", "ann", ""));
    operator.run(&["hub", "mark", "wan", "40"]).expect(0);
    user.run(&["hub", "mark", "wan", "90"]).expect(4);
    operator.run(&["hub", "mark", "nowhere", "40"]).expect(1);
    let shown = admin.run(&["hub", "show"]).expect(0).text();
    assert!(shown.contains("mark = 0.4"), "{shown}");
    ask("POST", &format!("{}/api/v1/shared/{}", hub.url, "5".repeat(64)), &json!({}));
    let actions = until_some("the trail is kept", LONG, || {
        let all = operator.json(&["hub", "actions"]);
        all.iter().any(|action| action["what"] == "openShareLink").then_some(all)
    });
    let refusal_of = |by: &str, status: u16| {
        let is_one = |action: &&Value| action["by"] == by && action["status"] == status && action["what"] == "set_mark";
        actions.iter().find(is_one).cloned()
    };
    assert_eq!(refusal_of("op", 200).unwrap()["path"], "/api/v1/marks/wan");
    assert!(refusal_of("ann", 403).is_some() && refusal_of("op", 404).is_some(), "{actions:?}");
    assert!(!json!(actions).to_string().contains("5555"), "the token of a link is a secret");
    user.run(&["hub", "actions"]).expect(4);
    assert_eq!(operator.json(&["hub", "actions", "--by", "ann"]).len(), 1);
}

#[test]
fn a_job_is_estimated_paused_and_repeated() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let pair = pair(&admin);
    let (a, b) = (pair.a.at("data/"), pair.b.at("data/"));
    admin.run(&["hub", "link", "add", "wan", "--capacity", "8Mbit/s", "--between", "alpha,beta"]).expect(0);
    (0..4).for_each(|file| fs::write(pair.a.data(&format!("f{file}")), pattern(950_000)).unwrap());
    let list: String = (0..4).map(|file| format!("{a}f{file} {b} 950000\n")).collect();
    let list = admin.write("list", &list);
    // 95 % of 1 MB/s.
    let estimate = admin.json(&["submit", "--estimate", "--files-from", &list]).remove(0);
    assert_eq!((&estimate["seconds"], &estimate["bytes"]), (&json!(4.0), &json!(3_800_000)));
    assert!(admin.run(&["submit", "--estimate", "--files-from", &list]).expect(0).text().contains("link wan"));
    assert_eq!(admin.json(&["queue", "list", "--all"]).len(), 0, "nothing was submitted");

    admin.run(&["hub", "stop", "all"]).expect(0);
    let id = admin.submit(&["--files-from", &list]);
    admin.run(&["queue", "pause", &id]).expect(0);
    admin.run(&["hub", "start", "all"]).expect(0);
    assert_eq!(admin.job(&id)["state"], "paused");
    until("the reason is reported", LONG, || {
        let why = admin.json(&["queue", "why", &id]);
        why.iter().any(|why| why["constraint"]["text"].as_str().unwrap().contains("queue resume"))
    });
    assert!(pair.b.is_empty());
    admin.run(&["queue", "resume", &id]).expect(0);
    assert_eq!(admin.ended(&id)["state"], "done");

    let repeat = admin.json(&["submit", "--every", "day", "--at", "02:30", &format!("{a}f0"), &b]).remove(0);
    assert!(repeat["next"].as_str().unwrap().ends_with("T02:30:00Z"), "{repeat}");
    assert!(admin.run(&["queue", "repeats"]).expect(0).text().contains("every day at 02:30 UTC"));
    admin.run(&["submit", "--every", "day", "--at", "25:00", &format!("{a}f0"), &b]).expect(2);
    admin.run(&["queue", "end-repeat", repeat["id"].as_str().unwrap()]).expect(0);
    assert_eq!(admin.json(&["queue", "repeats"]).len(), 0);
}

#[test]
fn a_hub_posts_no_ended_job_to_its_own_host() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let pair = pair(&admin);
    fs::write(pair.a.data("f"), "f").unwrap();
    let (source, target) = (pair.a.at("data/f"), pair.b.at("data/"));
    admin.run(&["submit", &source, &target, "--notify", "ftp://x.example/"]).expect(2);
    // Users cannot make the hub connect to its own machine.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let hook = format!("http://{}/hook", server.local_addr().unwrap());
    let id = admin.submit(&[&source, &target, "--notify", &hook]);
    assert_eq!(admin.ended(&id)["state"], "done");
    until("the hub logs the refusal", LONG, || hub.log().contains("the notice of a job is not accepted"));
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err());
}

#[test]
fn a_hub_posts_an_ended_job_where_the_policy_permits_it() {
    let dir = tempfile::tempdir().unwrap();
    let access = dir.path().join("access.toml");
    fs::write(&access, "[third_party]\nlocal = true\n").unwrap();
    let access = String::leak(access.display().to_string());
    let hub = Hub::start(&["--access", access]);
    let admin = hub.member("admin", "root", "");
    let pair = pair(&admin);
    fs::write(pair.a.data("f"), "f").unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let hook = format!("http://{}/hook", server.local_addr().unwrap());
    let delivery = std::thread::spawn(move || {
        let (mut socket, _) = server.accept().unwrap();
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&all).contains("\"event\":\"job\"") {
            let got = socket.read(&mut piece).unwrap();
            assert!(got > 0, "{}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&piece[..got]);
        }
        socket.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(all).unwrap()
    });
    let id = admin.submit(&[&pair.a.at("data/f"), &pair.b.at("data/"), "--notify", &hook]);
    let request = delivery.join().unwrap();
    assert!(request.starts_with("POST /hook HTTP/1.1") && request.contains(&id), "{request}");
}

#[test]
fn a_share_link_is_made_by_a_command_and_opened_without_an_account() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let node = Setup::new().data_export("rw").with_macaroons().start();
    let key = admin.write("key", &node.grant(&["--export", "data", "--write"]));
    let url = node.at("");
    admin.run(&["hub", "endpoint", "add", "a", "--url", &url, "--endpoint-key-file", &key]).expect(0);
    fs::create_dir(node.data("run")).unwrap();
    fs::write(node.data("run/f"), b"shared").unwrap();
    let user = hub.member("user", "ann", "");
    let password = user.write("password", "correct horse\n");
    let folder = node.at("data/run/");
    let output = user.run(&["share", "add", &folder, "--for", "1h", "--password-file", &password]).expect(0).text();
    let page = output.lines().last().unwrap().to_owned();
    let api = page.replace("/s/", "/api/v1/shared/");
    assert!(page.starts_with(&hub.url), "{output}");

    assert_eq!(ask("POST", &api, &json!({})).1["needs_password"], true);
    let (status, shared) = ask("POST", &api, &json!({"password": "correct horse"}));
    assert_eq!((status, &shared["entries"][0]["name"]), (200, &json!("f")));
    let ticket = shared["ticket"].as_str().unwrap();
    let (status, link) = ask("POST", &format!("{api}/downloads"), &json!({"path": "f", "ticket": ticket}));
    assert_eq!(status, 201);
    let fetched = Command::new("curl").args(["-sk", link["url"].as_str().unwrap()]).output().unwrap();
    assert_eq!(fetched.stdout, b"shared");
    // Not without the password, not with an invented ticket, not to write, not outside the folder.
    let downloads = format!("{api}/downloads");
    for (url, body) in [
        (&downloads, json!({"path": "f"})),
        (&downloads, json!({"path": "f", "ticket": format!("9{ticket}")})),
        (&format!("{api}/uploads"), json!({"path": "g", "ticket": ticket})),
    ] {
        assert_eq!(ask("POST", url, &body).0, 403, "{url} {body}");
    }
    assert_eq!(ask("POST", &downloads, &json!({"path": "../run/f", "ticket": ticket})).0, 400);
    // After five wrong passwords all are refused for a minute, the right one too.
    let wrong = |_| ask("POST", &api, &json!({"password": "wrong horse!"})).0;
    assert_eq!((0..5).map(wrong).collect::<Vec<_>>(), [403; 5]);
    assert_eq!(ask("POST", &api, &json!({"password": "correct horse"})).0, 429);

    let links = user.json(&["share", "list"]);
    assert_eq!((links.len(), &links[0]["opened"], links[0].get("page")), (1, &json!(1), None));
    let id = links[0]["id"].as_str().unwrap();
    hub.member("user", "bob", "").run(&["share", "end", id]).expect(1);
    user.run(&["share", "end", id]).expect(0);
    assert_eq!(ask("POST", &api, &json!({})).0, 404);
    user.run(&["share", "add", &node.at("data/nothing")]).expect(1);
    user.run(&["share", "add", &node.at("data/run")]).expect(2);
}
