//! The FTS API of a hub, driven by curl; FTS's own client sends the same requests (docs/fts.md).

mod bad_input;
mod config;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::hub::{Hub, pair};
use crate::node::{LONGHAUL, Node};
use crate::tree::pattern;
use crate::wait::{LONG, until, until_some};

/// Sends a request; returns status and answer.
fn ask(hub: &Hub, key: &str, method: &str, path: &str, body: Option<&Value>) -> (u64, Value) {
    let url = format!("{}/fts3{path}", hub.url.replace("https://", "http://"));
    let mut curl = Command::new("curl");
    curl.args(["-s", "-X", method, "-w", "\n%{http_code}", "--oauth2-bearer", key, &url]);
    if let Some(body) = body {
        curl.args(["-d", &body.to_string()]);
    }
    let answer = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    let (text, status) = answer.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(text).unwrap_or_default())
}

#[test]
fn a_job_is_submitted_and_shown_by_the_fts_api() {
    let hub = Hub::start(&["--plain"]);
    let admin = hub.member("admin", "root", "");
    let nodes = pair(&admin);
    fs::write(nodes.a.data("f"), "1234567").unwrap();
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);

    assert_eq!(ask(&hub, &key, "GET", "/", None).1["api"]["major"], 3);
    let (status, who) = ask(&hub, &key, "GET", "//whoami", None);
    assert_eq!((status, who["user_dn"].as_str(), &who["vos"]), (200, Some("/CN=ann"), &json!(["astro"])));

    let submission = json!({
        "files": [{"sources": [nodes.a.at("data/f")], "destinations": [nodes.b.at("data/g")], "metadata": {"request_id": "r1"}}],
        "params": {"job_metadata": {"issuer": "rucio"}, "id_generator": "deterministic", "sid": "s1", "overwrite": true},
    });
    let (status, submitted) = ask(&hub, &key, "POST", "//jobs", Some(&submission));
    let id = submitted["job_id"].as_str().unwrap().to_owned();
    assert_eq!(status, 200);
    let (status, again) = ask(&hub, &key, "POST", "/jobs", Some(&submission));
    assert_eq!((status, again["status"].as_str()), (409, Some("409 Conflict")));

    let path = format!("/jobs/{id}?files=file_state,dest_surl,finish_time,reason,source_surl,file_metadata");
    let job = until_some("it is finished", LONG, || {
        Some(ask(&hub, &key, "GET", &path, None).1).filter(|job| job["job_state"] == "FINISHED")
    });
    assert_eq!((job["http_status"].as_str(), &job["job_metadata"]["issuer"]), (Some("200 Ok"), &json!("rucio")));
    let file = &job["files"][0];
    assert_eq!((&file["file_state"], &file["file_metadata"]["request_id"]), (&json!("FINISHED"), &json!("r1")));
    assert_eq!((&file["dest_surl"], &file["reason"]), (&json!(nodes.b.at("data/g")), &Value::Null));
    assert_eq!(file.as_object().unwrap().len(), 6, "only the requested fields");
    assert_eq!(fs::read(nodes.b.data("g")).unwrap(), b"1234567");

    let (status, mixed) = ask(&hub, &key, "GET", &format!("/jobs/{id},nope"), None);
    assert_eq!((status, mixed[1]["http_status"].as_str()), (207, Some("404 Not Found")));
    assert_eq!(ask(&hub, &key, "GET", "/jobs/nope", None).0, 404);
    assert_eq!(ask(&hub, &key, "GET", &format!("/jobs/{id}/files"), None).1[0]["filesize"], 7);
    assert_eq!(ask(&hub, &key, "GET", &format!("/jobs/{id}/dm"), None).1, json!([]));
    assert_eq!(ask(&hub, &key, "DELETE", &format!("/jobs/{id}"), None).1["http_status"], "304 Not Modified");
}

#[test]
fn the_fts_api_takes_several_sources_hops_and_bans() {
    let hub = Hub::start(&["--plain"]);
    let admin = hub.grant(&["--role", "admin", "--name", "root"]);
    let ban = json!({"storage": "davs://dav.example", "status": "wait", "allow_submit": true, "message": "moving"});
    assert_eq!(ask(&hub, &admin, "POST", "/ban/se", Some(&ban)).0, 200);
    assert_eq!(ask(&hub, &admin, "GET", "/ban/se", None).1[0]["message"], "moving");

    let submit = |document: Value| {
        let (status, answer) = ask(&hub, &admin, "POST", "/jobs", Some(&document));
        assert_eq!(status, 200, "{answer}");
        answer["job_id"].as_str().unwrap().to_owned()
    };
    let states = |id: &str| -> Vec<String> {
        let files = ask(&hub, &admin, "GET", &format!("/jobs/{id}/files"), None).1;
        files.as_array().unwrap().iter().map(|file| file["file_state"].as_str().unwrap().to_owned()).collect()
    };
    let several = json!({"files": [{"sources": ["davs://dav.example/1", "davs://other.example/1"], "destinations": ["davs://dav.example/2"]}]});
    let id = submit(several);
    assert_eq!(ask(&hub, &admin, "GET", &format!("/jobs/{id}"), None).1["job_type"], "R");
    assert_eq!(states(&id), ["SUBMITTED", "NOT_USED"]);

    let hop = |from: &str, to: &str| json!({"sources": [from], "destinations": [to]});
    let hops = json!({"files": [hop("davs://dav.example/1", "davs://b.example/1"), hop("davs://b.example/1", "davs://c.example/1")],
        "params": {"multihop": true}});
    let hops = submit(hops);
    let job = ask(&hub, &admin, "GET", &format!("/jobs/{hops}"), None).1;
    assert_eq!((&job["job_type"], &job["dest_se"]), (&json!("H"), &json!("davs://c.example")));
    assert_eq!(states(&hops), ["SUBMITTED", "NOT_USED"]);
    assert_eq!(ask(&hub, &admin, "DELETE", &format!("/jobs/{hops}"), None).1["job_state"], "CANCELED");
    assert_eq!(states(&hops), ["CANCELED", "CANCELED"]);
    let priority = json!({"params": {"priority": 5}});
    assert_eq!(ask(&hub, &admin, "POST", &format!("/jobs/{id}"), Some(&priority)).1["priority"], 5);

    assert_eq!(ask(&hub, &admin, "DELETE", "/ban/se?storage=davs://dav.example", None).0, 204);
    let (status, refused) = ask(&hub, "lhk1_nonsense", "POST", "/jobs", Some(&priority));
    assert!(status == 401 || status == 403, "{status} {refused}");
    let (status, refused) = ask(&hub, &admin, "POST", "/jobs", Some(&json!({"files": 7})));
    assert_eq!((status, refused["status"].as_str()), (400, Some("400 Bad Request")));
}

#[test]
fn a_stalled_transfer_moves_to_another_source() {
    let hub = Hub::start(&["--plain"]);
    let admin = hub.member("admin", "root", "");
    let nodes = pair(&admin);
    let other = Node::closed();
    let key = admin.write("other.key", &other.grant(&["--export", "data", "--write"]));
    admin.run(&["hub", "endpoint", "add", "nc", "--url", &other.at(""), "--endpoint-key-file", &key]).expect(0);
    admin.run(&["hub", "link", "add", "wan", "--capacity", "8Mbit/s", "--between", "alpha,beta"]).expect(0);
    let bytes = pattern(8 << 20);
    fs::write(nodes.a.data("f"), &bytes).unwrap();
    fs::write(other.data("f"), &bytes).unwrap();
    fs::write(other.data("rest"), pattern(64 << 20)).unwrap();
    // The sources are tried in the order of the job; otherwise the one behind the narrow link would not be read.
    let file = |sources: &[String], target: &str, size: usize| json!({"sources": sources, "destinations": [nodes.b.at(target)], "filesize": size, "selection_strategy": "orderly"});
    let (narrow, wide) = (nodes.a.at("data/f"), other.at("data/f"));
    let files =
        [file(&[narrow.clone(), wide], "data/g", 8 << 20), file(&[other.at("data/rest")], "data/rest", 64 << 20)];
    let key = hub.grant(&["--role", "admin", "--name", "root2"]);
    let (status, answer) = ask(&hub, &key, "POST", "/jobs", Some(&json!({"files": files})));
    assert_eq!(status, 200, "{answer}");
    let id = answer["job_id"].as_str().unwrap();
    let transfer = until_some("it moves", LONG, || {
        let files = admin.files(id);
        let file = files.iter().find(|file| file["source"] == narrow.as_str())?;
        file["transfer"].as_str().map(str::to_owned)
    });
    let pause =
        || Command::new(LONGHAUL).args(["job", "pause", &transfer]).env("LONGHAUL_STATE", nodes.a.state()).status();
    until("its node pauses it", LONG, || pause().is_ok_and(|status| status.success()));
    let job = admin.ended(id);
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(2)), "{job} {:?}", admin.files(id));
    assert_eq!(fs::read(nodes.b.data("g")).unwrap(), bytes);
    let files = admin.files(id);
    let given_up = files.iter().find(|file| file["source"] == narrow.as_str()).unwrap();
    assert!(given_up["error"].as_str().is_some_and(|why| why.contains("another source")), "{given_up}");
}

/// Each file of a job that waits for a banned storage can be cancelled alone.
#[test]
fn files_of_a_job_are_cancelled_one_by_one() {
    let hub = Hub::start(&["--plain"]);
    let admin = hub.grant(&["--role", "admin", "--name", "root"]);
    let ban = json!({"storage": "davs://dav.example", "status": "wait", "allow_submit": true});
    assert_eq!(ask(&hub, &admin, "POST", "/ban/se", Some(&ban)).0, 200);
    let file = |at: usize| json!({"sources": [format!("davs://dav.example/{at}")], "destinations": [format!("davs://b.example/{at}")]});
    let job = json!({"files": [file(0), file(1), file(2)]});
    let id = ask(&hub, &admin, "POST", "/jobs", Some(&job)).1["job_id"].as_str().unwrap().to_owned();
    let files = ask(&hub, &admin, "GET", &format!("/jobs/{id}/files"), None).1;
    let number = |at: usize| files[at]["file_id"].as_i64().unwrap();
    let cancel = |which: &str| ask(&hub, &admin, "DELETE", &format!("/jobs/{id}/files/{which}"), None);
    assert_eq!(cancel(&number(0).to_string()), (200, json!("CANCELED")), "the answer for one id is a text, not a list");
    assert_eq!(ask(&hub, &admin, "GET", &format!("/jobs/{id}"), None).1["job_state"], "SUBMITTED");
    let (status, refused) = cancel(&(number(2) + 1).to_string());
    assert_eq!((status, refused["status"].as_str()), (404, Some("404 Not Found")));
    assert_eq!(cancel(&format!("{},nonsense", number(1))).0, 404);
    let states = ask(&hub, &admin, "GET", &format!("/jobs/{id}/files"), None).1;
    assert_eq!(states[1]["file_state"], "SUBMITTED", "what was refused changed nothing");
    assert_eq!(
        cancel(&format!("{},{},{}", number(0), number(1), number(2))),
        (200, json!(["CANCELED", "CANCELED", "CANCELED"]))
    );
    let job = ask(&hub, &admin, "GET", &format!("/jobs/{id}"), None).1;
    assert_eq!((&job["job_state"], job["job_finished"].is_string()), (&json!("CANCELED"), true));
    assert_eq!(ask(&hub, &admin, "GET", "/archive", None).1[0]["job_id"], json!(id));
    assert_eq!(ask(&hub, &admin, "GET", &format!("/archive/{id}/job_state"), None), (200, json!("CANCELED")));

    let several = json!({"files": [{"sources": ["davs://dav.example/1", "davs://c.example/1"], "destinations": ["davs://b.example/9"]}]});
    let id = ask(&hub, &admin, "POST", "/jobs", Some(&several)).1["job_id"].as_str().unwrap().to_owned();
    let number = ask(&hub, &admin, "GET", &format!("/jobs/{id}/files"), None).1[0]["file_id"].as_i64().unwrap();
    let (status, refused) = ask(&hub, &admin, "DELETE", &format!("/jobs/{id}/files/{number}"), None);
    assert_eq!(status, 400);
    assert!(refused["message"].as_str().unwrap().contains("cancel the job"), "{refused}");
    assert_eq!(ask(&hub, &admin, "GET", &format!("/archive/{id}"), None).0, 404);
}

/// Rucio asks for a hundred jobs in one path.
#[test]
fn many_jobs_are_shown_by_one_request() {
    let hub = Hub::start(&["--plain"]);
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let job = |at: usize| json!({"files": [{"sources": [format!("davs://a.example/{at}")], "destinations": ["davs://b.example/1"]}]});
    let ids: Vec<String> = (0..100)
        .map(|at| ask(&hub, &key, "POST", "/jobs", Some(&job(at))).1["job_id"].as_str().unwrap().to_owned())
        .collect();
    let (status, jobs) = ask(&hub, &key, "GET", &format!("/jobs/{}?files=file_state", ids.join(",")), None);
    assert_eq!((status, jobs.as_array().unwrap().len()), (200, 100));
    assert!(jobs.as_array().unwrap().iter().zip(&ids).all(|(job, id)| job["job_id"] == **id));
}

#[test]
fn a_separate_port_serves_the_fts_api_at_its_root() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(LONGHAUL);
    command.args([
        "hub",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--fts-listen",
        "127.0.0.1:0",
        "--plain",
        "--anonymous",
        "rw",
    ]);
    command.arg("--state").arg(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let own = lines.next().unwrap().unwrap().replace("listening on https", "http");
    let fts = lines.next().unwrap().unwrap().replace("FTS3's API on https", "http");
    let status = |url: &str| {
        let output = Command::new("curl").args(["-s", "-o", "/dev/null", "-w", "%{http_code}", url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let seen =
        [format!("{fts}/whoami"), format!("{fts}//jobs"), format!("{fts}/api/v1/jobs"), format!("{own}/fts3/whoami")];
    let seen = seen.map(|url| status(&url));
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(seen, ["200", "200", "404", "200"]);
}

/// Parameters that the hub ignores are kept with the job, and shown under FTS's names.
#[test]
fn parameters_that_only_fts_knows_are_shown_again() {
    let hub = Hub::start(&["--plain"]);
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let file = |at: usize| {
        json!({"sources": [format!("davs://a.example/{at}")], "destinations": [format!("davs://b.example/{at}")],
            "selection_strategy": "orderly", "scitag": 66, "source_tokens": ["S3cret"], "destination_tokens": ["S3cret"]})
    };
    let shown = |params: Value| {
        let job = json!({"files": [file(0), file(1)], "params": params});
        let (status, answer) = ask(&hub, &key, "POST", "/jobs", Some(&job));
        assert_eq!(status, 200, "{answer}");
        let id = answer["job_id"].as_str().unwrap().to_owned();
        let job = ask(&hub, &key, "GET", &format!("/jobs/{id}"), None).1;
        let files = ask(&hub, &key, "GET", &format!("/jobs/{id}/files"), None).1;
        assert!(!format!("{job}{files}").contains("S3cret"), "a token is repeated");
        (job, files)
    };
    let (job, files) = shown(json!({"reuse": true, "overwrite": true, "retry_delay": 7, "max_time_in_queue": 2}));
    assert_eq!((&job["job_type"], &job["overwrite_flag"], &job["retry_delay"]), (&json!("Y"), &json!("Y"), &json!(7)));
    assert_eq!(files[0]["selection_strategy"], "orderly");
    let (job, _) = shown(json!({"reuse": false, "overwrite_on_retry": true, "unknown": {"x": 1}}));
    assert_eq!((&job["job_type"], &job["overwrite_flag"]), (&json!("N"), &json!("R")));
}
