//! Servers that ask for a pause: it holds for all requests of the process.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::fault::{Blame, Fault};
use remote::ServerSettings;
use store::Store;
use web::Headers;

use super::{content, dav, impatient, refused};
use crate::script::{Reply, Script};
use crate::servers::{path, settings};

/// A server that answers the first request with this `Retry-After`, and the moments of its requests.
fn busy(retry_after: &'static str) -> (Script, Arc<Mutex<Vec<Instant>>>) {
    let asked_at = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked_at);
    let script = Script::new(move |request| {
        let mut noted = noted.lock().unwrap();
        noted.push(Instant::now());
        match noted.len() {
            1 => Reply::new(429, Headers::new().with("Retry-After", retry_after), b"slow down"),
            _ => Reply::honest(request, &content(1000)),
        }
    });
    (script, asked_at)
}

#[test]
fn a_pause_holds_for_all_requests_to_the_server() {
    let (script, asked_at) = busy("2");
    // The first request is alone: the pause is known before the others begin.
    let hasty = ServerSettings { patience: Duration::from_secs(1), ..settings() };
    assert!(dav(&script, hasty).stat(&path("f")).is_err());
    std::thread::scope(|scope| {
        // Other files, other connections, other stores.
        for _ in 0..3 {
            let script = &script;
            scope.spawn(move || assert_eq!(dav(script, settings()).stat(&path("f")).unwrap().meta.size, 1000));
        }
    });
    let asked_at = asked_at.lock().unwrap();
    assert!(asked_at.len() >= 4);
    let first = asked_at[1].duration_since(asked_at[0]);
    assert!(first >= Duration::from_millis(1900), "a request came after {first:?}");
}

#[test]
fn a_pause_beyond_the_time_for_tries_fails_the_attempt_and_the_next_one() {
    let (script, asked_at) = busy("30");
    let ask = || dav(&script, impatient()).stat(&path("f"));
    refused(ask().map(|_| Vec::new()), Fault::Path, "answered 429: slow down; it asks for a pause of 30 s");
    let began = Instant::now();
    let error = ask().unwrap_err();
    assert!(error.is_fatal() && error.fault() == Fault::Path, "a job waits for it: {error}");
    let says = |left: u64| error.to_string().contains(&format!("asks for a pause of another {left} s"));
    assert!((20..=30).any(says), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(asked_at.lock().unwrap().len(), 1, "no further request is made");
}
