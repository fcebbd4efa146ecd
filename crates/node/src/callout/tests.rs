//! Programs that answer, that do not answer, and that answer wrongly.

use auth::policy::AskedWhen;

use super::*;

fn script(text: &str) -> Callout {
    let command = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    Callout { command, timeout: Duration::from_secs(5), asked: AskedWhen::Undecided }
}

fn question<'a>(path: &'a str) -> Question<'a> {
    let credential = CredentialFacts { kind: "token", issuer: Some("https://i"), ..CredentialFacts::default() };
    let peer = "192.0.2.1".parse().unwrap();
    Question {
        v: 1,
        peer,
        who: "a@i",
        method: "GET",
        export: "data",
        path,
        action: "read",
        policy: "refuses",
        credential,
    }
}

fn ask(text: &str) -> Verdict {
    Callouts::default().ask(&script(text), "token:1", b"p", &question("p")).unwrap()
}

#[test]
fn the_program_gets_the_question_and_its_answer_decides() {
    let yes = ask(r#"grep -q '"path":"p".*"kind":"token","issuer":"https://i"' && echo '{"allow":true}'"#);
    assert_eq!(yes, Verdict { allow: true, reason: String::new() });
    let no = ask(r#"cat >/dev/null; printf '{"allow":false,"reason":"not\\non Sundays"}'"#);
    assert_eq!(no, Verdict { allow: false, reason: "noton Sundays".into() });
    // The program does not inherit the node's environment.
    assert!(ask(r#"test -z "$HOME$CARGO_PKG_NAME" && test -n "$PATH" && echo '{"allow":true}'"#).allow);
}

#[test]
fn anything_but_a_valid_permission_is_a_refusal() {
    for text in ["exit 0", "echo yes", "echo '{\"allow\":true}'; exit 1", "echo '{\"allow\":\"true\"}'", "kill -9 $$"] {
        assert!(!ask(text).allow, "{text}");
    }
    let missing = Callout { command: vec!["/no/such/program".into()], ..script("") };
    assert!(!Callouts::default().ask(&missing, "h", b"p", &question("p")).unwrap().allow);
}

#[test]
fn a_program_that_does_not_answer_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let slow = Callout {
        timeout: Duration::from_millis(200),
        ..script(&format!("(sleep 2; touch {}) & sleep 200", mark.display()))
    };
    let began = Instant::now();
    assert!(!Callouts::default().ask(&slow, "h", b"p", &question("p")).unwrap().allow);
    assert!(began.elapsed() < Duration::from_secs(60));
    std::thread::sleep(Duration::from_millis(2300));
    assert!(!mark.exists());
}

#[test]
fn a_verdict_is_remembered_by_holder_and_path() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let callout = script(&format!("echo >>{}; echo '{{\"allow\":true}}'", count.display()));
    let callouts = Callouts::default();
    for (holder, path) in [("a", "p"), ("a", "p"), ("b", "p"), ("a", "q"), ("a", "p")] {
        assert!(callouts.ask(&callout, holder, path.as_bytes(), &question(path)).unwrap().allow);
    }
    assert_eq!(std::fs::read_to_string(count).unwrap().lines().count(), 3);
}

#[test]
fn a_missing_answer_is_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let callout = script(&format!("test -e {0} && echo '{{\"allow\":true}}'; touch {0}", mark.display()));
    let callouts = Callouts::default();
    assert!(!callouts.ask(&callout, "h", b"p", &question("p")).unwrap().allow);
    assert!(callouts.ask(&callout, "h", b"p", &question("p")).unwrap().allow);
}

#[test]
fn programs_about_anonymous_clients_leave_room_for_others() {
    let callouts = Callouts::default();
    let at_once = Duration::ZERO;
    let site = |last: u8| IpAddr::from([192, 0, 2, last]);
    let mut held = Vec::new();
    let mut fill = |last: u8, has_credential: bool| {
        let before = held.len();
        held.extend(std::iter::from_fn(|| callouts.acquire(site(last), has_credential, at_once).ok()));
        held.len() - before
    };
    assert_eq!(fill(1, false), ANONYMOUS_OF_CLIENT_MAX);
    let others: usize = (2..20).map(|last| fill(last, false)).sum();
    assert_eq!(ANONYMOUS_OF_CLIENT_MAX + others, ANONYMOUS_MAX);
    assert_eq!(fill(1, true), AUTHENTICATED_OF_CLIENT_MAX, "behind the same address as strangers");
    assert_eq!(fill(2, true), RUNNING_MAX - ANONYMOUS_MAX - AUTHENTICATED_OF_CLIENT_MAX);
    held.clear();
    assert!(callouts.running.lock().by_client.is_empty());
}

#[test]
fn without_a_permit_there_is_no_verdict_and_a_question_waits_for_one() {
    let callouts = Callouts::default();
    let peer = question("p").peer;
    let mut held: Vec<_> =
        (0..AUTHENTICATED_OF_CLIENT_MAX).map(|_| callouts.acquire(peer, true, Duration::ZERO).unwrap()).collect();
    let callout = Callout { timeout: Duration::from_millis(50), ..script("echo '{\"allow\":true}'") };
    assert_eq!(callouts.ask(&callout, "h", b"p", &question("p")), Err(Full));
    let patient = script("echo '{\"allow\":true}'");
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| callouts.ask(&patient, "h", b"p", &question("p")));
        std::thread::sleep(Duration::from_millis(50));
        held.pop();
        assert!(asks.join().unwrap().unwrap().allow);
    });
}
