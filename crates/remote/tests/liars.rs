//! Servers that send wrong data, throttle, lose files, redirect and break off: the store copes with them, or fails with one sentence
//! that says whose fault it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod script;
mod servers;

#[path = "liars/buckets.rs"]
mod buckets;
#[path = "liars/leftovers.rs"]
mod leftovers;
#[path = "liars/pages.rs"]
mod pages;
#[path = "liars/redirects.rs"]
mod redirects;
#[path = "liars/throttle.rs"]
mod throttle;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::fault::{Blame, Fault};
use model::{RelPath, Timestamp};
use remote::{Dav, ServerSettings};
use script::{Reply, Script, ScriptedRequest};
use servers::{path, settings};
use store::{FileAnnouncement, Finish, Store};
use web::{Headers, Response};

/// The content of the file on each server.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

fn impatient() -> ServerSettings {
    ServerSettings { patience: Duration::from_secs(2), ..settings() }
}

fn dav(script: &Script, settings: ServerSettings) -> Dav {
    Dav::new(settings, &script.url(), RelPath::root())
}

fn read_all(dav: &Dav, len: usize) -> store::Result<Vec<u8>> {
    let source = dav.open(&path("f"))?;
    let mut bytes = vec![0; len];
    let got = source.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Reads a file from a server that answers like this.
fn read_from(
    len: usize,
    answer: impl Fn(&ScriptedRequest, &[u8]) -> Reply + Send + Sync + 'static,
) -> store::Result<Vec<u8>> {
    let bytes = content(len);
    let script = Script::new(move |request| answer(request, &bytes));
    read_all(&dav(&script, impatient()), len)
}

fn refused(result: store::Result<Vec<u8>>, fault: Fault, word: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(word), "{error}");
    assert_eq!(error.fault(), fault, "{error}");
    assert_eq!(error.to_string().lines().count(), 1, "one sentence: {error}");
}

const LARGE: usize = (20 << 20) + 77;

#[test]
fn an_honest_server_is_read_over_several_connections() {
    let busy = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let seen = Arc::clone(&busy);
    let read = read_from(LARGE, move |request, bytes| {
        let now = seen.0.fetch_add(1, Ordering::SeqCst) + 1;
        seen.1.fetch_max(now, Ordering::SeqCst);
        let reply = Reply::honest(request, bytes);
        let (begun, patience) = (Instant::now(), Duration::from_secs(10));
        while request.range().is_some() && seen.1.load(Ordering::SeqCst) < 2 && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        seen.0.fetch_sub(1, Ordering::SeqCst);
        reply
    });
    assert!(read.unwrap() == content(LARGE));
    assert!(busy.1.load(Ordering::SeqCst) > 1, "chunks are fetched ahead, side by side");
}

#[test]
fn a_response_with_another_range_is_refused() {
    let lies = |request: &ScriptedRequest, bytes: &[u8]| match request.range() {
        Some((from, to)) => {
            let range = format!("bytes {}-{}/{}", from + 1, to + 1, bytes.len() + 1);
            Reply::new(206, Headers::new().with("Content-Range", range), &bytes[from..=to])
        }
        None => Reply::honest(request, bytes),
    };
    refused(read_from(LARGE, lies), Fault::Peer, "when asked for bytes 0-8388607");
}

#[test]
fn a_response_of_another_length_is_refused() {
    // More bytes than the range has, with a right head.
    let more = |request: &ScriptedRequest, bytes: &[u8]| match request.range() {
        Some((from, to)) => {
            let range = format!("bytes {from}-{to}/{}", bytes.len());
            Reply::new(206, Headers::new().with("Content-Range", range), &[&bytes[from..=to], b"x"].concat())
        }
        None => Reply::honest(request, bytes),
    };
    refused(read_from(LARGE, more), Fault::Peer, "bytes where");
    // A file that is shorter than HEAD reported.
    let less = |request: &ScriptedRequest, bytes: &[u8]| match request.method() {
        "GET" => Reply::new(200, Headers::new(), &bytes[..1000]),
        _ => Reply::honest(request, bytes),
    };
    refused(read_from(5000, less), Fault::Storage, "changed");
}

#[test]
fn a_read_continues_after_its_connection_breaks() {
    let count = AtomicUsize::new(0);
    let breaks = move |request: &ScriptedRequest, bytes: &[u8]| match request.method() {
        "GET" if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => Reply::honest(request, bytes).cut(3000),
        _ => Reply::honest(request, bytes),
    };
    assert!(read_from(LARGE, breaks).unwrap() == content(LARGE));
}

#[test]
fn a_server_that_never_finishes_is_given_up() {
    let began = Instant::now();
    let cuts = |request: &ScriptedRequest, bytes: &[u8]| match request.method() {
        "GET" => Reply::honest(request, bytes).cut(3000),
        _ => Reply::honest(request, bytes),
    };
    refused(read_from(LARGE, cuts), Fault::Peer, "broke");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_server_without_ranges_is_read_in_order() {
    let whole = |request: &ScriptedRequest, bytes: &[u8]| match request.method() {
        "GET" => Reply::new(200, Headers::new().with("ETag", "\"one\""), bytes),
        _ => Reply::honest(request, bytes),
    };
    assert!(read_from(LARGE, whole).unwrap() == content(LARGE));
}

#[test]
fn a_server_without_ranges_serves_many_readers() {
    let bytes = content(LARGE);
    let script = Script::new(move |request| match request.method() {
        "GET" => Reply::new(200, Headers::new(), &bytes),
        _ => Reply::honest(request, &bytes),
    });
    let dav = dav(&script, impatient());
    let source = dav.open(&path("f")).unwrap();
    let (next, wanted) = (AtomicUsize::new(0), content(LARGE));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1 << 20, Ordering::SeqCst);
                    if at >= LARGE {
                        return;
                    }
                    let mut piece = vec![0; 1 << 20];
                    let got = source.read_at(&mut piece, at as u64).unwrap();
                    assert!(piece[..got] == wanted[at..at + got]);
                }
            });
        }
    });
}

#[test]
fn a_file_that_changes_while_it_is_read_fails() {
    for (name, changed) in [("ETag", "\"two\""), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")] {
        let count = AtomicUsize::new(0);
        let changes = move |request: &ScriptedRequest, bytes: &[u8]| {
            let mut reply = Reply::honest(request, bytes);
            reply.set("Last-Modified", "Sat, 05 Nov 1994 08:49:37 GMT");
            if request.method() == "GET" && count.fetch_add(1, Ordering::SeqCst) > 0 {
                reply.set(name, changed);
            }
            reply
        };
        refused(read_from(LARGE, changes), Fault::Storage, "changed");
    }
    let gone = |request: &ScriptedRequest, bytes: &[u8]| match request.method() {
        "GET" => Reply::new(404, Headers::new(), b""),
        _ => Reply::honest(request, bytes),
    };
    refused(read_from(1000, gone), Fault::Storage, "changed");
}

#[test]
fn a_throttled_request_is_tried_again_after_the_pause() {
    for status in [429, 503] {
        let count = AtomicUsize::new(0);
        let began = Instant::now();
        let busy = move |request: &ScriptedRequest, bytes: &[u8]| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(status, Headers::new().with("Retry-After", "1"), b"slow down"),
            _ => Reply::honest(request, bytes),
        };
        let bytes = content(1000);
        let script = Script::new(move |request| busy(request, &bytes));
        assert!(read_all(&dav(&script, settings()), 1000).unwrap() == content(1000));
        assert!(began.elapsed() >= Duration::from_secs(1), "the pause that the server asks for is kept");
    }
}

#[test]
fn a_server_that_always_throttles_fails_the_read() {
    let busy = |_: &ScriptedRequest, _: &[u8]| Reply::new(503, Headers::new(), b"<h1>no</h1>");
    refused(read_from(1000, busy), Fault::Path, "answered 503");
    let asks_much =
        |_: &ScriptedRequest, _: &[u8]| Reply::new(429, Headers::new().with("Retry-After", "3600"), b"later");
    let began = Instant::now();
    refused(read_from(1000, asks_much), Fault::Path, "answered 429: later");
    assert!(began.elapsed() < Duration::from_secs(10), "an hour is longer than the tries may take: it fails at once");
}

/// After three requests the server accepts only a newer token.
#[test]
fn a_token_that_expires_is_read_again() {
    let bytes = content(LARGE);
    let (count, issued) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (now, renewed) = (Arc::clone(&issued), Arc::new(AtomicUsize::new(0)));
    let refusals = Arc::clone(&renewed);
    let script = Script::secure(move |request| {
        if count.fetch_add(1, Ordering::SeqCst) == 2 {
            now.fetch_add(1, Ordering::SeqCst);
        }
        let good = format!("Bearer token{}", now.load(Ordering::SeqCst));
        if request.headers().get("authorization") == Some(good.as_str()) {
            return Reply::honest(request, &bytes);
        }
        refusals.fetch_add(1, Ordering::SeqCst);
        Reply::new(401, Headers::new(), b"expired")
    });
    let fresh = move || Ok(Some(format!("token{}", issued.load(Ordering::SeqCst))));
    let dav = dav(&script, ServerSettings { token: Arc::new(fresh), ..script.settings() });
    assert!(read_all(&dav, LARGE).unwrap() == content(LARGE));
    assert!(renewed.load(Ordering::SeqCst) > 0);
    // One that is not renewed is refused, with the remedy.
    let script = Script::secure(|_| Reply::new(401, Headers::new(), b"expired"));
    let stale = self::dav(&script, ServerSettings { token: Arc::new(|| Ok(Some("old".into()))), ..script.settings() });
    refused(read_all(&stale, 10), Fault::Auth, "BEARER_TOKEN");
}

#[test]
fn a_token_is_sent_neither_in_clear_nor_to_another_server() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let clear = Script::new(move |request| {
        noted.lock().unwrap().push(request.headers().get("authorization").map(str::to_owned));
        Reply::honest(request, &content(100))
    });
    let token: Arc<remote::TokenSource> = Arc::new(|| Ok(Some("secret".into())));
    let dav_clear = dav(&clear, ServerSettings { token: Arc::clone(&token), ..impatient() });
    assert!(read_all(&dav_clear, 100).is_ok());
    assert!(seen.lock().unwrap().iter().all(Option::is_none), "no token in clear text");
    // A redirect to another server is followed without the token. A redirect from TLS to clear text is not followed.
    let to = clear.url();
    let sends_on =
        Script::secure(move |_| Reply::new(307, Headers::new().with("Location", to.join("/f").unwrap().as_str()), b""));
    let store = dav(&sends_on, ServerSettings { token: Arc::clone(&token), ..sends_on.settings() });
    refused(read_all(&store, 100), Fault::Auth, "to clear text");
    let noted = Arc::clone(&seen);
    let other = Script::secure(move |request| {
        noted.lock().unwrap().push(request.headers().get("authorization").map(str::to_owned));
        Reply::honest(request, &content(100))
    });
    let to = other.url();
    let from = Script::secure_as(&other, move |_| {
        Reply::new(302, Headers::new().with("Location", to.join("/f").unwrap().as_str()), b"")
    });
    let store = dav(&from, ServerSettings { token, ..from.settings() });
    assert!(read_all(&store, 100).unwrap() == content(100));
    assert!(seen.lock().unwrap().iter().all(Option::is_none));
}

#[test]
fn a_circle_of_redirects_is_refused() {
    let circle = |_: &ScriptedRequest, _: &[u8]| Reply::new(302, Headers::new().with("Location", "/f"), b"");
    refused(read_from(1000, circle), Fault::Peer, "redirects");
}

fn listing(entries: &str) -> Reply {
    let body = format!("<?xml version='1.0'?><d:multistatus xmlns:d='DAV:'>{entries}</d:multistatus>");
    Reply::new(207, Headers::new().with("Content-Type", "application/xml"), body.as_bytes())
}

fn entry(href: &str, dir: bool) -> String {
    let (kind, size) = if dir { ("<d:collection/>", "") } else { ("", "<d:getcontentlength>3</d:getcontentlength>") };
    format!(
        "<d:response><d:href>{href}</d:href><d:propstat><d:prop><d:resourcetype>{kind}</d:resourcetype>{size}</d:prop>\
         <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    )
}

#[test]
fn a_listing_with_an_entry_of_another_directory_is_refused() {
    let honest = [entry("/d/", true), entry("/d/f", false), entry("/d/sub/", true)].concat();
    let list = |text: String| {
        let script = Script::new(move |_| listing(&text));
        let entries = dav(&script, settings()).list(&path("d"))?;
        Ok::<_, store::Error>(entries.map(|e| e.unwrap().0.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(list(honest.clone()).unwrap(), ["f", "sub"]);
    // With a prefix, as servers behind a proxy write them.
    assert_eq!(list(honest.replace("/d/", "/remote/d/")).unwrap(), ["f", "sub"]);
    for lie in ["/etc/passwd", "/d/../x", "/d/%2e%2e", "/d/a%2fb", "/d/%00", "/dd", "/d/sub/deep"] {
        let error = list(format!("{honest}{}", entry(lie, false))).unwrap_err();
        assert!(error.to_string().contains("as if it were in d"), "{lie}: {error}");
    }
    let script = Script::new(|_| Reply::new(207, Headers::new(), b"<html>hello"));
    let error = dav(&script, settings()).list(&path("d")).err().unwrap();
    assert!(error.to_string().contains("listing"), "{error}");
    let script = Script::new(|_| Reply::new(200, Headers::new(), b"<html>hello</html>"));
    let error = dav(&script, settings()).list(&path("d")).err().unwrap();
    assert!(error.to_string().contains("no WebDAV server"), "{error}");
}

/// The replies of a server that accepts files; `reports` replies to requests for their facts.
fn takes(request: &ScriptedRequest, reports: &dyn Fn() -> Reply) -> Reply {
    match request.method() {
        "PUT" => Reply::new(201, Headers::new(), b""),
        "OPTIONS" => Reply::new(200, Headers::new().with("Allow", "GET,PUT,MOVE,DELETE").with("DAV", "1"), b""),
        "MOVE" => Reply::new(201, Headers::new(), b""),
        "DELETE" => Reply::new(204, Headers::new(), b""),
        _ => reports(),
    }
}

fn put(dav: &Dav, bytes: &[u8]) -> store::Result<()> {
    put_at(dav, "f", bytes)
}

fn put_at(store: &dyn Store, at: &str, bytes: &[u8]) -> store::Result<()> {
    let sink = store.create(&path(at), "tag")?;
    let mtime = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    sink.announce(&FileAnnouncement { size: Some(bytes.len() as u64), mtime, replace: true })?;
    sink.write_at(bytes, 0)?;
    let size = bytes.len() as u64;
    sink.commit(&Finish { size, mode: 0o644, mtime, durable: false, replace: true, attributes: None })
}

#[test]
fn a_server_that_reports_other_bytes_than_were_sent_fails_the_file() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&requests);
    let bytes = content(1000);
    let script = Script::new(move |request| {
        noted.lock().unwrap().push(format!("{} {}", request.method(), request.target()));
        let head = Headers::new().with("Content-Length", "999");
        match request.method() {
            "PROPFIND" => Reply::new(405, Headers::new(), b""),
            _ => takes(request, &|| Reply::head(200, head.clone())),
        }
    });
    let error = put(&dav(&script, impatient()), &bytes).unwrap_err();
    assert_eq!(error.fault(), Fault::Integrity);
    assert!(error.to_string().contains("accepted 1000 bytes and then reports 999"), "{error}");
    let requests = requests.lock().unwrap().clone();
    let is_ours = |line: &str| line.starts_with("DELETE /.longhaul-") && line.ends_with("-tag.upload");
    assert!(requests.iter().any(|line| is_ours(line)), "{requests:?}");
    assert!(!requests.iter().any(|line| line.starts_with("MOVE")), "{requests:?}");
    // The right length, and another digest.
    let script = Script::new(|request| match request.method() {
        "PROPFIND" => Reply::new(405, Headers::new(), b""),
        _ => takes(request, &|| {
            Reply::head(200, Headers::new().with("Content-Length", "1000").with("Digest", "adler32=00000001"))
        }),
    });
    let error = put(&dav(&script, impatient()), &content(1000)).unwrap_err();
    assert_eq!((error.fault(), error.to_string().contains("other bytes")), (Fault::Integrity, true), "{error}");
}

#[test]
fn a_redirected_put_sends_its_bytes_only_to_the_last_server() {
    let stored = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&stored);
    let keeps = Script::new(move |request| {
        *kept.lock().unwrap() = request.body().to_vec();
        Reply::new(201, Headers::new(), b"")
    });
    let to = keeps.url();
    let bodies = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&bodies);
    let names = Script::new(move |request| match request.method() {
        "PUT" => {
            seen.fetch_add(request.body().len(), Ordering::SeqCst);
            Reply::early(Response { status: 307, minor: 1, headers: Headers::new().with("Location", to.as_str()) })
        }
        "PROPFIND" => listing(&entry("/f", false).replace(">3<", ">1000<")),
        _ => takes(request, &|| Reply::head(200, Headers::new().with("Content-Length", "1000"))),
    });
    put(&dav(&names, impatient()), &content(1000)).unwrap();
    assert!(*stored.lock().unwrap() == content(1000));
    assert_eq!(bodies.load(Ordering::SeqCst), 0, "the redirecting server gets no byte of the file");
}

#[test]
fn a_put_that_breaks_off_is_a_fault_of_the_path() {
    let script = Script::new(|request| match request.method() {
        "PUT" => Reply::hang_up(),
        "PROPFIND" => Reply::new(404, Headers::new(), b""),
        _ => takes(request, &|| Reply::new(404, Headers::new(), b"")),
    });
    let error = put(&dav(&script, impatient()), &content(100)).unwrap_err();
    assert_eq!((error.fault(), error.is_fatal()), (Fault::Path, true), "{error}");
}

#[test]
fn a_server_whose_rename_fails_gets_later_files_under_their_final_names() {
    let puts = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&puts);
    let script = Script::new(move |request| match request.method() {
        "MOVE" => Reply::new(403, Headers::new(), b"no"),
        "PUT" => {
            noted.lock().unwrap().push(request.target().to_owned());
            Reply::new(201, Headers::new(), b"")
        }
        "PROPFIND" => listing(&entry("/f", false).replace(">3<", ">100<")),
        _ => takes(request, &|| Reply::head(200, Headers::new().with("Content-Length", "100"))),
    });
    let dav = dav(&script, impatient());
    let error = put(&dav, &content(100)).unwrap_err();
    assert_eq!(error.fault(), Fault::Path, "to be tried again: {error}");
    put(&dav, &content(100)).unwrap();
    let mut puts = puts.lock().unwrap().clone();
    // The script is called for the head, and again for the whole request.
    puts.dedup();
    assert!(puts[0].starts_with("/.longhaul-") && puts[0].ends_with("-tag.upload"), "{puts:?}");
    assert_eq!(puts[1..], ["/f"]);
}
