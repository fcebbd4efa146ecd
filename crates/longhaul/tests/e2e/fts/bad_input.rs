//! Invalid input is refused with the right status and one clear sentence in FTS's form, and nothing of it is stored.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::ask;
use crate::hub::Hub;

/// Sends a body unchanged; returns status and answer.
fn post(hub: &Hub, key: &str, path: &str, body: &[u8]) -> (u64, String) {
    let url = format!("{}/fts3{path}", hub.url.replace("https://", "http://"));
    let mut curl = Command::new("curl");
    curl.args(["-s", "-X", "POST", "-w", "\n%{http_code}", "--oauth2-bearer", key, "--data-binary", "@-", &url]);
    let mut child = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // An early refusal closes the connection before all of it was sent.
    let _ = child.stdin.take().unwrap().write_all(body);
    let answer = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let (text, status) = answer.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), text.to_owned())
}

/// The sentence of a refusal.
#[track_caller]
fn sentence(status: u64, text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{status}: no JSON: {text:?}"));
    assert!(answer["status"].as_str().unwrap().starts_with(&status.to_string()), "{answer}");
    let message = answer["message"].as_str().unwrap().to_owned();
    assert!(!message.is_empty() && !message.contains('\n') && message.len() < 700, "{message:?}");
    message
}

#[track_caller]
fn assert_no_jobs(hub: &Hub, key: &str) {
    let (status, jobs) = ask(hub, key, "GET", "/jobs?state_in=SUBMITTED,ACTIVE,FINISHED,FAILED,CANCELED", None);
    assert_eq!((status, jobs), (200, json!([])), "something was stored");
}

#[test]
fn an_invalid_document_is_refused_as_a_whole() {
    let hub = Hub::start(&["--plain"]);
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let good = r#"{"sources": ["davs://a.example/1"], "destinations": ["davs://b.example/1"]}"#;
    for (body, expected) in [
        (String::new(), "not JSON"),
        ("{\"files\": [".to_owned(), "not JSON"),
        ("7".to_owned(), "cannot be read"),
        ("\u{0}\u{ff}".to_owned(), "not JSON"),
        ("[".repeat(100_000), "cannot be read"),
        (r#"{"files": []}"#.to_owned(), "at least one file"),
        (r#"{"files": null}"#.to_owned(), "wrong type"),
        (format!(r#"{{"files": [{good}, {{"sources": [], "destinations": []}}]}}"#), "file 1: it needs sources"),
        (format!(r#"{{"files": [{good}], "params": {{"overwrite": true, "overwrite_on_retry": true}}}}"#), "exclude"),
        (format!(r#"{{"files": [{good}], "params": {{"bring_online": 60}}}}"#), "no tape"),
    ] {
        let (status, text) = post(&hub, &key, "/jobs", body.as_bytes());
        assert_eq!(status, 400, "{text}");
        let message = sentence(status, &text);
        assert!(message.contains(expected), "{message}");
    }
    let (status, text) = post(&hub, &key, "/jobs", br#"{"delete": ["davs://a.example/1"]}"#);
    assert_eq!(status, 405);
    assert!(sentence(status, &text).contains("delete at the storage"));
    assert_no_jobs(&hub, &key);
}

#[test]
fn hostile_urls_are_refused_and_not_repeated() {
    let hub = Hub::start(&["--plain"]);
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let long = format!("davs://a.example/{}", "x".repeat(5000));
    for url in [
        "file:///etc/passwd",
        "gsiftp://a.example/1",
        "davs://user:s3cret@a.example/1",
        "davs:///1",
        "davs://a.example\\@evil.example/1",
        "davs://a.example/1\r\nX-Evil: 1",
        "javascript:alert(1)",
        " davs://a.example/1",
        "",
        &long,
    ] {
        for at in [0, 1] {
            let mut ends = ["davs://a.example/1", "davs://b.example/1"];
            ends[at] = url;
            let body = json!({"files": [{"sources": ["davs://a.example/0"], "destinations": ["davs://b.example/0"]},
                {"sources": [ends[0]], "destinations": [ends[1]]}]});
            let (status, text) = post(&hub, &key, "/jobs", body.to_string().as_bytes());
            assert_eq!(status, 400, "{url:?}: {text}");
            let message = sentence(status, &text);
            assert!(message.starts_with("file 1: ") && !message.contains("s3cret"), "{message}");
        }
    }
    assert_no_jobs(&hub, &key);
}

#[test]
fn a_million_files_and_one_are_too_many() {
    let hub = Hub::start(&["--plain"]);
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let file = r#"{"sources":["davs://a.example/1"],"destinations":["davs://b.example/1"]},"#;
    let mut body = String::with_capacity(file.len() * 1_000_001 + 20);
    body += "{\"files\": [";
    (0..1_000_001).for_each(|_| body += file);
    body.pop();
    body += "]}";
    let (status, text) = post(&hub, &key, "/jobs", body.as_bytes());
    assert_eq!(status, 400, "{text}");
    let message = sentence(status, &text);
    assert!(message.contains("and this one has 1000001"), "{message}");
    assert_no_jobs(&hub, &key);
}

#[test]
fn invalid_keys_and_tokens_are_refused_in_one_sentence() {
    let hub = Hub::start(&["--plain"]);
    let key = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let good =
        json!({"files": [{"sources": ["davs://a.example/1"], "destinations": ["davs://b.example/1"]}]}).to_string();
    let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4iLCJpc3MiOiJodHRwczovL2V2aWwuZXhhbXBsZSJ9.";
    let mut other = key.clone();
    other.replace_range(other.len() - 4.., "AAAA");
    for wrong in ["nonsense", token, other.as_str()] {
        let (status, text) = post(&hub, wrong, "/jobs", good.as_bytes());
        assert!(status == 401 || status == 403, "{status} {text}");
        assert!(!sentence(status, &text).contains(wrong), "the credential is repeated");
    }
    for (tokens, expected) in [
        (json!({"source_tokens": ["A"]}), "1 and 0 came for 1 and 1"),
        (json!({"source_tokens": ["A", "B"], "destination_tokens": ["C"]}), "2 and 1 came for 1 and 1"),
        (json!({"source_tokens": ["s3cret\nX: y"], "destination_tokens": ["C"]}), "a token is a word"),
    ] {
        let mut body: Value = serde_json::from_str(&good).unwrap();
        body["files"][0].as_object_mut().unwrap().extend(tokens.as_object().unwrap().clone());
        let (status, text) = post(&hub, &key, "/jobs", body.to_string().as_bytes());
        let message = sentence(status, &text);
        assert!(status == 400 && message.contains(expected) && !message.contains("s3cret"), "{status} {message}");
    }
    assert_no_jobs(&hub, &key);
}
