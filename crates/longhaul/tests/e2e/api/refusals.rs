//! Orders that the API refuses, and its answers to stock clients.

use std::fs;
use std::process::Command;

use model::id::Uuid;
use model::v1::Stage;
use model::v1::node::{Order, Problem};
use nodeapi::PageQuery;

use super::{api, ended, full_key, pair, plain, with_key};
use crate::https;
use crate::node::Node;
use crate::wait::skipped;
use crate::web::raw::{Raw, ask};

#[test]
fn an_invalid_order_is_refused_in_one_sentence() {
    let pair = pair();
    let bearer = format!("Bearer {}", full_key(&pair.here));
    let post = |kind: &str, body: &[u8]| {
        let fields = [("Authorization", bearer.as_str()), ("Content-Type", kind)];
        let answer = ask(&pair.here, "POST", "/api/v1/transfers", &fields, body);
        assert_eq!(answer.field("content-type"), Some("application/problem+json"), "{}", answer.text());
        let read: Problem = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(read.status, answer.status);
        (answer.status, read.reason)
    };
    let assert_refused = |status: u16, words: &str, (got, reason): (u16, String)| {
        assert!(got == status && reason.contains(words), "{words:?} is not in {got} {reason:?}");
    };
    const JSON: &str = "application/json";
    let id = Uuid::now_v7();
    let order = |rest: &str| format!("{{\"id\":\"{id}\",\"source\":[\"/data/f\"],\"target\":\"lh://h/d/x\"{rest}}}");
    assert_refused(400, "not JSON", post(JSON, b"{"));
    assert_refused(400, "missing field", post(JSON, b"{}"));
    assert_refused(400, "unknown field `retries`", post(JSON, order(",\"retries\":3").as_bytes()));
    assert_refused(400, "unknown field `speed`", post(JSON, order(",\"options\":{\"speed\":3}").as_bytes()));
    assert_refused(400, "wrong type", post(JSON, order(",\"streams\":\"many\"").as_bytes()));
    assert_refused(400, "wrong type", post(JSON, order("").replace(&id.to_string(), "../../etc").as_bytes()));
    assert_refused(415, "Content-Type", post("text/plain", order("").as_bytes()));
    assert_refused(400, "say which node", post(JSON, order("").as_bytes()));
    assert_refused(400, "exactly one end", post(JSON, order("").replace("lh://h/d/x", "/data/g").as_bytes()));
    assert_refused(
        400,
        "must not name a user",
        post(JSON, order("").replace("lh://h/d/x", "https://me:5ecret@h/x").as_bytes()),
    );
    assert_refused(413, "at most", post(JSON, &vec![b' '; (1 << 20) + 1]));
    // A chunked body, which states no length, is refused at the same bound.
    let mut raw = Raw::to(&pair.here);
    raw.send(format!("POST /api/v1/transfers HTTP/1.1\r\nHost: h\r\nAuthorization: {bearer}\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"));
    let chunk = [b"40000\r\n".to_vec(), vec![b' '; 0x40000], b"\r\n".to_vec()].concat();
    for _ in 0..5 {
        raw.try_send(&chunk);
    }
    assert_eq!(raw.receive().unwrap().status, 413);
    let get = |target: &str| ask(&pair.here, "GET", target, &[("Authorization", &bearer)], &[]).status;
    assert_eq!(get("/api/v1/transfers/../../data/f"), 400);
    for (target, status) in [
        ("/api/v1/transfers/none", 400),
        ("/api/v1/transfers?limit=0", 400),
        ("/api/v1/transfers?limit=10001", 400),
        ("/api/v1/transfers?state=lost", 400),
        ("/api/v1/transfers?sort=up", 400),
        ("/api/v1/transfers?limit=10000&state=done", 200),
        ("/api/v2", 404),
        ("/api", 404),
    ] {
        assert_eq!(get(target), status, "{target}");
    }
    assert_eq!(ask(&pair.here, "PUT", "/api/v1/transfers", &[("Authorization", &bearer)], b"x").status, 405);
    assert!(pair.api.list_transfers(PageQuery::default()).unwrap().transfers.is_empty());
}

#[test]
fn clients_cannot_make_a_node_connect_to_local_addresses() {
    // It listens on all addresses, so it connects to nothing on its loopback for its clients.
    let here = plain().on_all_addresses().start();
    let api = api(&here, &full_key(&here));
    let there = Node::open();
    let key = full_key(&there);
    fs::write(here.data("f"), b"x").unwrap();
    let orders = [
        Order { credentials: with_key(&key), ..Order::new(Uuid::now_v7(), "/data/f", there.at("data/f")) },
        Order { credentials: with_key(&key), ..Order::new(Uuid::now_v7(), there.at("data/f"), "/data/g") },
        Order::new(Uuid::now_v7(), "/data/f", format!("https://127.0.0.1:{}/data/f", there.port)),
        Order::new(Uuid::now_v7(), format!("http://127.0.0.1:{}/data/f", there.port), "/data/g"),
        Order::new(Uuid::now_v7(), "https://169.254.169.254/latest", "/data/g"),
    ];
    for order in orders {
        api.create_transfer(&order).unwrap();
        let transfer = ended(&api, order.id);
        let error = transfer.error.unwrap_or_default();
        assert!(transfer.state == Stage::Failed && error.contains("copies nothing to or from"), "{error}");
    }
    assert!(there.is_empty() && !here.data("g").exists());
}

#[test]
fn curl_drives_a_node() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skipped("curl_drives_a_node", "curl is not installed");
    }
    let (here, there) = (https::setup("").start(), Node::closed());
    let ca = here.data("").with_file_name("ca.pem");
    let own = full_key(&here);
    fs::write(here.data("f"), b"by curl").unwrap();
    let curl = |words: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--cacert"]).arg(&ca).args(["--oauth2-bearer", &own]).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for (version, name) in [("--http1.1", "one"), ("--http2", "two")] {
        let base = format!("https://127.0.0.1:{}/api/v1", here.port);
        let order = Order {
            credentials: with_key(&full_key(&there)),
            ..Order::new(Uuid::now_v7(), "/data/f", there.at(&format!("data/{name}")))
        };
        let body = serde_json::to_string(&order).unwrap();
        let created = curl(&[version, "--json", &body, "--write-out", "%{http_code}", &format!("{base}/transfers")]);
        assert!(created.ends_with("201"), "{created}");
        let events = curl(&[version, "--no-buffer", &format!("{base}/transfers/{}/events", order.id)]);
        assert!(events.contains("event: transfer\ndata: {") && events.contains("\"state\":\"done\""), "{events}");
        let receipt = curl(&[version, &format!("{base}/transfers/{}/receipt", order.id)]);
        assert!(receipt.contains("\"event\":\"receipt\""), "{receipt}");
        let unknown =
            curl(&[version, "--request", "PATCH", "--json", "{}", &format!("{base}/transfers/{}", Uuid::now_v7())]);
        assert!(unknown.contains("\"fault\":\"missing\""), "{unknown}");
        assert_eq!(fs::read(there.data(name)).unwrap(), b"by curl");
    }
}
