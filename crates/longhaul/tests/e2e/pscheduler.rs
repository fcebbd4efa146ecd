//! A node as the second participant of a test that a pScheduler leads: its requests in their order, and the iperf3 of its side.

use serde_json::{Value, json};

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::web::raw::ask;

const TASK: &str = "/pscheduler/tasks/018f0000-0000-7000-8000-000000000001";
const RUN: &str = "/pscheduler/tasks/018f0000-0000-7000-8000-000000000001/runs/018f0000-0000-7000-8000-000000000002";

fn node(responders: &str) -> Node {
    Setup::new().data_export("rw").arg("--plain").arg("--responders").arg(responders).start()
}

fn request(node: &Node, method: &str, target: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let answer = ask(node, method, target, &[("Content-Type", "application/json")], &body);
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

fn request_ok(node: &Node, method: &str, target: &str, body: &Value) -> Value {
    let (status, value) = request(node, method, target, body);
    assert_eq!(status, 200, "{method} {target}: {value}");
    value
}

#[test]
fn a_test_led_by_a_pscheduler_is_run() {
    let node = node("pscheduler");
    assert_eq!(request_ok(&node, "GET", "/pscheduler/api", &Value::Null), 6);
    assert_eq!(request(&node, "GET", "/pscheduler/api?api=7", &Value::Null).0, 501);
    let spec =
        json!({"schema": 1, "source": "127.0.0.1", "dest": "127.0.0.1", "duration": "PT2S", "link-rtt": "PT0.01S"});
    let test = json!({"type": "throughput", "spec": spec});
    let tools = format!("/pscheduler/tools?api=6&test={}", web::target::encode(test.to_string().as_bytes()));
    assert_eq!(request_ok(&node, "GET", &tools, &Value::Null)[0]["tool"]["name"], "iperf3");
    let task = json!({"schema": 3, "test": test, "tool": "iperf3", "participants": ["127.0.0.1", "127.0.0.1"]});
    request_ok(&node, "POST", &format!("{TASK}?participant=1"), &task);
    let detail = request_ok(&node, "GET", &format!("{TASK}?detail=true"), &Value::Null);
    assert_eq!(detail["detail"]["duration"], "PT8S");
    let free = request_ok(&node, "GET", &format!("{TASK}/runtimes"), &Value::Null);
    let start = free[0]["lower"].as_str().unwrap().to_owned();
    let client = Client::new();
    let target = format!("iperf3://{}", node.address());
    assert_ne!(client.run(words!["probe", "tcp", target, "-t", "1s"]).code, 0);
    request_ok(&node, "PUT", RUN, &json!({"start-time": start}));
    let run = request_ok(&node, "GET", RUN, &Value::Null);
    assert_eq!(run["participant-data"]["server_port"], node.port, "iperf3 is answered on the one port");
    request_ok(&node, "PUT", RUN, &json!({"part-data-full": [{"schema": 3}, run["participant-data"]]}));
    // The start time of the run is reached, and the iperf3 of the other side connects.
    client.run(words!["probe", "tcp", target, "-t", "2s"]).expect(0);
    let run = request_ok(&node, "GET", &format!("{RUN}?wait-local=true&wait=20"), &Value::Null);
    assert_eq!((&run["state"], &run["result"]["succeeded"]), (&json!("finished"), &json!(true)), "{run}");
    request_ok(&node, "GET", "/pscheduler/clock", &Value::Null);
    request_ok(&node, "DELETE", RUN, &Value::Null);
    request_ok(&node, "DELETE", TASK, &Value::Null);
    assert_eq!(request(&node, "GET", TASK, &Value::Null).0, 404);
    assert_ne!(client.run(words!["probe", "tcp", target, "-t", "1s"]).code, 0);
}

#[test]
fn an_unknown_pscheduler_is_refused() {
    let node = node("stamp");
    let (status, _) = request(&node, "GET", "/pscheduler/api", &Value::Null);
    assert!(status == 401 || status == 404, "{status}");
    let open = self::node("pscheduler@192.0.2.0/24");
    assert_ne!(request(&open, "POST", &format!("{TASK}?participant=1"), &json!({})).0, 200);
}
