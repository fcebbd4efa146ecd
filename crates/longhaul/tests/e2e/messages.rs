//! The messages about files that a broker gets, as FTS's consumers read them.

use std::fs;

use serde_json::{Value, json};

use crate::hub::{Hub, pair};
use crate::rabbitmq::{Broker, Consumer, free_port, is_installed};
use crate::wait::{LONG, until};

/// The JSON of the next message, its destination and its organisation.
fn next(consumer: &mut Consumer) -> (String, String, Value) {
    let message = consumer.receive();
    let header = |name: &str| {
        let line = message.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().to_owned()
    };
    let json = message.body.strip_suffix('\u{4}').unwrap_or_else(|| panic!("{message:?}"));
    (header("destination"), header("vo"), serde_json::from_str(json).unwrap())
}

#[test]
fn a_broker_that_was_away_gets_all_messages_in_order() {
    if !is_installed("a_broker_that_was_away_gets_all_messages_in_order") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let (file, password) = (dir.path().join("messages.toml"), dir.path().join("password"));
    fs::write(&password, "guest\n").unwrap();
    // Messages of both kinds go to one exchange, so that the consumer gets them in their order.
    let text = format!(
        "brokers = [\"stomp://127.0.0.1:{port}\"]\nuser = \"guest\"\npassword-file = {password:?}\n\
         destination = \"/exchange/amq.topic/fts.\"\nendpoint = \"hub.example\"\n"
    );
    fs::write(&file, text).unwrap();
    let mut hub = Hub::start(&["--plain", "--messages", Box::leak(file.display().to_string().into_boxed_str())]);
    let nodes = {
        let admin = hub.member("admin", "root", "");
        let nodes = pair(&admin);
        fs::write(nodes.a.data("f"), "1234567").unwrap();
        let ann = hub.member("user", "ann", "astro");
        ann.run(&["submit", &nodes.a.at("data/f"), &nodes.b.at("data/g"), "--wait"]).expect(0);
        nodes
    };
    // Messages that were not delivered yet outlast a restart of the hub.
    hub.restart();

    let broker = Broker::start(port);
    let mut consumer = Consumer::of(port, &["/exchange/amq.topic/fts.*"]);
    let messages: Vec<(String, String, Value)> = (0..4).map(|_| next(&mut consumer)).collect();
    let kinds: Vec<&str> = messages.iter().map(|(destination, _, _)| destination.rsplit('.').next().unwrap()).collect();
    assert_eq!(kinds, ["state", "state", "complete", "state"]);
    assert!(messages.iter().all(|(_, vo, _)| vo == "astro"), "{messages:?}");
    let states: Vec<&Value> = messages.iter().map(|(_, _, body)| &body["file_state"]).collect();
    assert_eq!(states, [&json!("SUBMITTED"), &json!("ACTIVE"), &Value::Null, &json!("FINISHED")]);
    let complete = &messages[2].2;
    assert_eq!((&complete["t_final_transfer_state"], &complete["job_state"]), (&json!("Ok"), &json!("FINISHED")));
    assert_eq!((&complete["endpnt"], &complete["tr_bt_transfered"]), (&json!("hub.example"), &json!(7)));
    assert_eq!((&complete["src_url"], &complete["vo"]), (&json!(nodes.a.at("data/f")), &json!("astro")));

    // A file that fails while the broker runs.
    let ann = hub.member("user", "ann", "astro");
    let failed = ann.run(&["submit", &nodes.a.at("data/none"), &nodes.b.at("data/none"), "--wait"]);
    assert_ne!(failed.code, 0);
    let messages: Vec<(String, String, Value)> = (0..4).map(|_| next(&mut consumer)).collect();
    let complete = &messages[2].2;
    assert_eq!((&complete["t_final_transfer_state"], &complete["is_recoverable"]), (&json!("Error"), &json!(false)));
    assert!(!complete["t__error_message"].as_str().unwrap().is_empty() && messages[3].2["file_state"] == "FAILED");
    drop(broker);
    until("the hub logs that the broker is unreachable", LONG, || hub.log().contains("messages wait for the broker"));
}
