//! The exchange with a lead, step by step, according to the API of pScheduler 5.2. It is written as fixtures, because pScheduler
//! itself cannot be installed from a registry.

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

fn with_task() -> Participant {
    let participant = Participant::default();
    participant.add(id(1), lead(), 1, task(), NOW).unwrap();
    participant
}

fn at(offset: f64) -> Value {
    json!({"start-time": rfc3339(NOW + offset)})
}

#[test]
fn a_lead_books_a_run_and_gets_its_result() {
    let participant = with_task();
    let caller = (lead(), None);
    let detail = participant.task(&id(1), BASE, true, NOW).unwrap();
    // max(1, 150/50) + 0 + 30 + 3 + 2 seconds.
    assert_eq!(
        (&detail["detail"]["duration"], &detail["detail"]["participants"]),
        (&json!("PT38S"), &json!(["a.example.org", "b.example.org"]))
    );
    assert!(detail.get("_key").is_none(), "keys are not shown");
    let free = participant.runtimes(&id(1), NOW, NOW + 600.0, NOW).unwrap();
    assert_eq!(free, json!([{"lower": rfc3339(NOW), "upper": rfc3339(NOW + 600.0)}]));
    participant.put_run(&id(1), id(9), caller, &at(60.0), NOW).unwrap();
    let run = participant.run(&id(1), &id(9), BASE, 7411, NOW).unwrap();
    assert_eq!(
        (&run["participant-data"]["server_port"], &run["state"], &run["result"]),
        (&json!(7411), &json!("pending"), &Value::Null)
    );
    participant
        .put_run(&id(1), id(9), caller, &json!({"part-data-full": [{"schema": 3}, {"schema": 3}]}), NOW)
        .unwrap();
    assert!(!participant.is_expected(lead(), NOW) && participant.is_expected(lead(), NOW + 61.0));
    assert!(!participant.is_expected("198.51.100.7".parse().unwrap(), NOW + 61.0), "iperf3 of another host");
    assert!(participant.is_booked(NOW + 50.0, 20.0) && !participant.is_booked(NOW, 50.0));
    let served = ServedTest { bytes: 1_000, seconds: 30.0, error: None };
    participant.served(lead(), &served, NOW + 62.0);
    assert!(participant.has_ended(&id(1), &id(9), NOW + 95.0));
    let run = participant.run(&id(1), &id(9), BASE, 7411, NOW + 95.0).unwrap();
    let keys: Vec<&String> = run["result"].as_object().unwrap().keys().collect();
    assert_eq!((&run["state"], &run["result"]["succeeded"]), (&json!("finished"), &json!(true)));
    assert_eq!(keys, ["diags", "intervals", "schema", "succeeded", "summary"], "the fields of its schema only");
    participant.remove(&id(1), Some(&id(9)), caller, NOW + 100.0).unwrap();
    participant.remove(&id(1), None, caller, NOW + 100.0).unwrap();
    assert_eq!(participant.task(&id(1), BASE, true, NOW).unwrap_err().status, 404);
}

#[test]
fn runs_do_not_overlap_and_unserved_ones_are_missed() {
    let participant = with_task();
    let caller = (lead(), None);
    participant.put_run(&id(1), id(9), caller, &at(60.0), NOW).unwrap();
    assert_eq!(participant.put_run(&id(1), id(8), caller, &at(90.0), NOW).unwrap_err().status, 409);
    participant.put_run(&id(1), id(8), caller, &at(99.0), NOW).unwrap();
    let free = participant.runtimes(&id(1), NOW, NOW + 300.0, NOW).unwrap();
    assert_eq!(
        free,
        json!([{"lower": rfc3339(NOW), "upper": rfc3339(NOW + 60.0)}, {"lower": rfc3339(NOW + 137.0), "upper": rfc3339(NOW + 300.0)}])
    );
    let run = participant.run(&id(1), &id(9), BASE, 1, NOW + 99.0).unwrap();
    assert_eq!((&run["state"], &run["result"]["succeeded"]), (&json!("missed"), &json!(false)));
}

#[test]
fn other_leads_and_invalid_tasks_are_refused() {
    let participant = with_task();
    let stranger: IpAddr = "198.51.100.7".parse().unwrap();
    assert_eq!(participant.put_run(&id(1), id(9), (stranger, None), &at(60.0), NOW).unwrap_err().status, 403);
    assert!(
        participant.put_run(&id(1), id(9), (stranger, Some("s3cret")), &at(60.0), NOW).is_ok(),
        "a client with the key may"
    );
    assert_eq!(participant.remove(&id(1), None, (stranger, Some("other")), NOW).unwrap_err().status, 403);
    let refused = |task: Value| participant.add(id(2), lead(), 1, task, NOW).unwrap_err();
    let with = |key: &str, value: Value| {
        let mut task = task();
        task["test"]["spec"][key] = value;
        task
    };
    assert!(refused(with("duration", json!("PT1H"))).why.contains("300 s"));
    assert!(refused(with("duration", json!(7))).why.contains("not a duration"));
    assert!(refused(with("single-ended", json!(true))).why.contains("single-ended"));
    assert!(refused(json!({"test": {"type": "rtt", "spec": {}}})).why.contains("throughput"));
    assert!(refused(json!({"tool": "nuttcp", "test": task()["test"]})).why.contains("iperf3"));
    assert_eq!(participant.add(id(3), lead(), 0, task(), NOW).unwrap_err().status, 403);
    assert_eq!(participant.put_run(&id(1), id(7), (lead(), None), &at(-3_600.0), NOW).unwrap_err().status, 400);
    assert_eq!(participant.put_run(&id(1), id(7), (lead(), None), &json!({}), NOW).unwrap_err().status, 400);
}

#[test]
fn tasks_are_bounded_and_idle_ones_are_removed() {
    let participant = Participant::default();
    for number in 0..TASKS_MAX.each as u128 {
        participant.add(id(number), lead(), 1, task(), NOW).unwrap();
    }
    assert_eq!(participant.add(id(999), lead(), 1, task(), NOW).unwrap_err().status, 403);
    assert!(participant.add(id(999), lead(), 1, task(), NOW + TASK_IDLE_S_MAX + 1.0).is_ok());
    assert_eq!(participant.tasks.lock().len(), 1);
}
