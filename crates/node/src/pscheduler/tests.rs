//! The exchange of a lead, step by step, after its API server (pscheduler 5.2, participant contract). It is written as fixtures,
//! because the program itself is in no registry.

use super::*;

const NOW: f64 = 1_790_000_000.0;
const BASE: &str = "https://b.example.org/pscheduler";

fn lead() -> IpAddr {
    "192.0.2.10".parse().unwrap()
}

fn task() -> Value {
    json!({"schema": 3, "tool": "iperf3", "_key": "s3cret",
        "test": {"type": "throughput", "spec": {"schema": 3, "source": "a.example.org", "dest": "b.example.org",
            "duration": "PT30S", "link-rtt": "PT0.15S", "parallel": 4}}})
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn told() -> Participant {
    let participant = Participant::default();
    participant.add(id(1), lead(), 1, task(), NOW).unwrap();
    participant
}

fn at(offset: f64) -> Value {
    json!({"start-time": show(NOW + offset)})
}

#[test]
fn the_ten_steps_of_a_lead() {
    let participant = told();
    let who = (lead(), None);
    let detail = participant.task(&id(1), BASE, true, NOW).unwrap();
    // max(1, 150/50) + 0 + 30 + 3 + 2 seconds.
    assert_eq!(
        (&detail["detail"]["duration"], &detail["detail"]["participants"]),
        (&json!("PT38S"), &json!(["a.example.org", "b.example.org"]))
    );
    assert!(detail.get("_key").is_none(), "keys are nobody's to read");
    let free = participant.runtimes(&id(1), NOW, NOW + 600.0, NOW).unwrap();
    assert_eq!(free, json!([{"lower": show(NOW), "upper": show(NOW + 600.0)}]));
    participant.put_run(&id(1), id(9), who, &at(60.0), NOW).unwrap();
    let run = participant.run(&id(1), &id(9), BASE, 7411, NOW).unwrap();
    assert_eq!(
        (&run["participant-data"]["server_port"], &run["state"], &run["result"]),
        (&json!(7411), &json!("pending"), &Value::Null)
    );
    participant.put_run(&id(1), id(9), who, &json!({"part-data-full": [{"schema": 3}, {"schema": 3}]}), NOW).unwrap();
    assert!(!participant.is_expected(lead(), NOW) && participant.is_expected(lead(), NOW + 61.0));
    assert!(!participant.is_expected("198.51.100.7".parse().unwrap(), NOW + 61.0), "nobody else's iperf3");
    assert!(participant.is_booked(NOW + 50.0, 20.0) && !participant.is_booked(NOW, 50.0));
    let served = ServedTest { bytes: 1_000, seconds: 30.0, error: None };
    participant.served(lead(), &served, NOW + 62.0);
    assert!(participant.has_ended(&id(1), &id(9), NOW + 95.0));
    let run = participant.run(&id(1), &id(9), BASE, 7411, NOW + 95.0).unwrap();
    let keys: Vec<&String> = run["result"].as_object().unwrap().keys().collect();
    assert_eq!((&run["state"], &run["result"]["succeeded"]), (&json!("finished"), &json!(true)));
    assert_eq!(
        keys,
        ["diags", "intervals", "schema", "succeeded", "summary"],
        "what its schema wants, and nothing else"
    );
    participant.remove(&id(1), Some(&id(9)), who, NOW + 100.0).unwrap();
    participant.remove(&id(1), None, who, NOW + 100.0).unwrap();
    assert_eq!(participant.task(&id(1), BASE, true, NOW).unwrap_err().status, 404);
}

#[test]
fn runs_do_not_meet_and_what_did_not_come_is_missed() {
    let participant = told();
    let who = (lead(), None);
    participant.put_run(&id(1), id(9), who, &at(60.0), NOW).unwrap();
    assert_eq!(participant.put_run(&id(1), id(8), who, &at(90.0), NOW).unwrap_err().status, 409);
    participant.put_run(&id(1), id(8), who, &at(99.0), NOW).unwrap();
    let free = participant.runtimes(&id(1), NOW, NOW + 300.0, NOW).unwrap();
    assert_eq!(
        free,
        json!([{"lower": show(NOW), "upper": show(NOW + 60.0)}, {"lower": show(NOW + 137.0), "upper": show(NOW + 300.0)}])
    );
    let run = participant.run(&id(1), &id(9), BASE, 1, NOW + 99.0).unwrap();
    assert_eq!((&run["state"], &run["result"]["succeeded"]), (&json!("missed"), &json!(false)));
}

#[test]
fn strangers_and_liars_are_refused_by_name() {
    let participant = told();
    let stranger: IpAddr = "198.51.100.7".parse().unwrap();
    assert_eq!(participant.put_run(&id(1), id(9), (stranger, None), &at(60.0), NOW).unwrap_err().status, 403);
    assert!(
        participant.put_run(&id(1), id(9), (stranger, Some("s3cret")), &at(60.0), NOW).is_ok(),
        "who knows the key"
    );
    assert_eq!(participant.remove(&id(1), None, (stranger, Some("other")), NOW).unwrap_err().status, 403);
    let refused = |task: Value| participant.add(id(2), lead(), 1, task, NOW).unwrap_err();
    let with = |key: &str, value: Value| {
        let mut task = task();
        task["test"]["spec"][key] = value;
        task
    };
    assert!(refused(with("duration", json!("PT1H"))).why.contains("300 s"));
    assert!(refused(with("duration", json!(7))).why.contains("no duration"));
    assert!(refused(with("single-ended", json!(true))).why.contains("single-ended"));
    assert!(refused(json!({"test": {"type": "rtt", "spec": {}}})).why.contains("throughput"));
    assert!(refused(json!({"tool": "nuttcp", "test": task()["test"]})).why.contains("iperf3"));
    assert_eq!(participant.add(id(3), lead(), 0, task(), NOW).unwrap_err().status, 403);
    assert_eq!(participant.put_run(&id(1), id(7), (lead(), None), &at(-3_600.0), NOW).unwrap_err().status, 400);
    assert_eq!(participant.put_run(&id(1), id(7), (lead(), None), &json!({}), NOW).unwrap_err().status, 400);
}

#[test]
fn tasks_are_bounded_and_old_ones_go() {
    let participant = Participant::default();
    for number in 0..TASKS_MAX.0 as u128 {
        participant.add(id(number), lead(), 1, task(), NOW).unwrap();
    }
    assert_eq!(participant.add(id(999), lead(), 1, task(), NOW).unwrap_err().status, 403);
    assert!(participant.add(id(999), lead(), 1, task(), NOW + TASK_IDLE_S + 1.0).is_ok());
    assert_eq!(participant.tasks.lock().len(), 1);
}
