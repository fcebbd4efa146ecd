//! Third-party copies between a node and xrootd's HTTP server, in all four combinations; and between nodes.

use super::pattern;
use crate::case::Case;
use crate::clients::Reply;
use crate::scene::{CaseContext, ServerDir};

const COPY: &str = "third-party";

pub const CASES: &[Case] = &[
    Case::new(COPY, "pull", "we pull from xrootd", "202, markers, `success`", pull).stock("201"),
    Case::new(COPY, "push", "we push to xrootd", "202, markers, `success`", push).stock("201"),
    Case::new(COPY, "pulled", "xrootd pulls from us", "`success`", pulled),
    Case::new(COPY, "pushed", "xrootd pushes to us", "`success`", pushed),
    Case::new(COPY, "pull-tls", "we pull from xrootd over TLS", "202, `success`", pull_tls).stock("201"),
    Case::new(COPY, "push-tls", "we push to xrootd over TLS", "202, `success`", push_tls).stock("201"),
    Case::new(COPY, "pulled-tls", "xrootd pulls from us over TLS", "`success`", pulled_tls),
    Case::new(COPY, "pushed-tls", "xrootd pushes to us over TLS", "`success`", pushed_tls),
    Case::new(COPY, "pull-tokens", "we pull, tokens on both sides", "202, `success`", pull_tokens).stock("201"),
    Case::new(COPY, "push-tokens", "we push, tokens on both sides", "202, `success`", push_tokens).stock("201"),
    Case::new(COPY, "pulled-tokens", "xrootd pulls from us, tokens on both sides", "`success`", pulled_tokens),
    Case::new(COPY, "pushed-tokens", "xrootd pushes to us, tokens on both sides", "`success`", pushed_tokens),
    Case::new(COPY, "pull-streams", "we pull with `X-Number-Of-Streams: 4`", "202, every byte", pull_streams)
        .stock("201"),
    Case::new(COPY, "pulled-streams", "xrootd pulls from us with 4 streams", "every byte", pulled_streams),
    Case::new(COPY, "pull-empty", "we pull an empty file", "202, an empty file", pull_empty).stock("201"),
    Case::new(
        COPY,
        "pull-parents",
        "we pull to below directories that are not there",
        "202, they are made",
        pull_parents,
    )
    .stock("400"),
    Case::new(COPY, "pull-overwrite", "we pull over a file", "202, the new one", pull_overwrite).stock("201"),
    Case::new(COPY, "pull-headers", "headers that do not concern us: ClientInfo, SciTag, …", "202, `success`", headers)
        .stock("201"),
    Case::new(COPY, "between-nodes", "a node pulls from another, and pushes to it", "202, `success`", between)
        .stock("201"),
];

const MANY: usize = 8_000_000;

/// A COPY whose answer is a stream that ends in success.
fn copied(scene: &CaseContext, words: &[&str], url: &str) -> Reply {
    let reply = scene.curl(&[&["-X", "COPY"], words, &[url]].concat());
    let text = reply.text();
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    assert!(last.starts_with("success"), "{}: {text}", reply.status);
    reply
}

/// What clients read in a stream of ours: davix's parser has a fixed place for two of the numbers.
fn ours(reply: &Reply, bytes: usize) {
    assert_eq!(reply.status, 202, "{reply:?}");
    let text = reply.text();
    let of = |name: &str| text.lines().filter_map(|l| l.trim_start().strip_prefix(name)).next_back().map(str::to_owned);
    for word in ["Perf Marker", "End", "Timestamp: ", "Stripe Index: 0"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(word)), "{word}: {text}");
    }
    let count = of("Total Stripe Count: ").unwrap_or_default();
    assert!(count.parse::<u32>().is_ok_and(|count| count >= 1), "{text}");
    let moved = of("Stripe Bytes Transferred: ").unwrap_or_default();
    assert!(moved.parse::<usize>().is_ok_and(|moved| moved <= bytes), "{text}");
    assert!(of("RemoteConnections: ").is_some_and(|them| them.starts_with("tcp:")), "{text}");
}

fn source(url: &str) -> String {
    format!("Source: {url}")
}

fn destination(url: &str) -> String {
    format!("Destination: {url}")
}

/// The active server pulls `f` from the passive one.
fn pulls(scene: &CaseContext, active: &ServerDir, passive: &ServerDir, tls: bool, more: &[&str]) -> Reply {
    let bytes = pattern(MANY);
    passive.put("f", &bytes);
    let url = |room: &ServerDir, name: &str| if tls { room.https(name) } else { room.http(name) };
    let from = source(&url(passive, "f"));
    let reply = copied(scene, &[&["-H", &from], more].concat(), &url(active, "g"));
    assert!(active.get("g") == bytes);
    reply
}

/// The active server pushes its `f` to the passive one.
fn pushes(scene: &CaseContext, active: &ServerDir, passive: &ServerDir, tls: bool, more: &[&str]) -> Reply {
    let bytes = pattern(MANY);
    active.put("f", &bytes);
    let url = |room: &ServerDir, name: &str| if tls { room.https(name) } else { room.http(name) };
    let to = destination(&url(passive, "g"));
    let reply = copied(scene, &[&["-H", &to], more].concat(), &url(active, "f"));
    assert!(passive.get("g") == bytes);
    reply
}

fn pull(scene: &CaseContext) {
    let reply = pulls(scene, &scene.open(), &scene.stock(), false, &[]);
    ours(&reply, MANY);
    assert_eq!(scene.open().names(), ["g"]);
}

fn push(scene: &CaseContext) {
    ours(&pushes(scene, &scene.open(), &scene.stock(), false, &[]), MANY);
}

fn pulled(scene: &CaseContext) {
    pulls(scene, &scene.stock(), &scene.open(), false, &[]);
}

fn pushed(scene: &CaseContext) {
    pushes(scene, &scene.stock(), &scene.open(), false, &[]);
}

fn pull_tls(scene: &CaseContext) {
    ours(&pulls(scene, &scene.open(), &scene.stock(), true, &["-H", "Credential: none"]), MANY);
}

fn push_tls(scene: &CaseContext) {
    ours(&pushes(scene, &scene.open(), &scene.stock(), true, &["-H", "Credential: none"]), MANY);
}

fn pulled_tls(scene: &CaseContext) {
    pulls(scene, &scene.stock(), &scene.open(), true, &[]);
}

fn pushed_tls(scene: &CaseContext) {
    pushes(scene, &scene.stock(), &scene.open(), true, &[]);
}

/// Headers with a token for each side, of no more rights than it takes.
fn both(scene: &CaseContext, active: &str, passive: &str) -> Vec<String> {
    vec![
        "-H".into(),
        format!("Authorization: Bearer {}", scene.token(&[active])),
        "-H".into(),
        format!("TransferHeaderAuthorization: Bearer {}", scene.token(&[passive])),
        "-H".into(),
        "Credential: none".into(),
    ]
}

fn words(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

fn pull_tokens(scene: &CaseContext) {
    let headers = both(scene, "modify", "read");
    ours(&pulls(scene, &scene.closed(), &scene.guarded(), true, &words(&headers)), MANY);
}

fn push_tokens(scene: &CaseContext) {
    let headers = both(scene, "read", "modify");
    ours(&pushes(scene, &scene.closed(), &scene.guarded(), true, &words(&headers)), MANY);
}

fn pulled_tokens(scene: &CaseContext) {
    let headers = both(scene, "modify", "read");
    pulls(scene, &scene.guarded(), &scene.closed(), true, &words(&headers));
}

fn pushed_tokens(scene: &CaseContext) {
    let headers = both(scene, "read", "modify");
    pushes(scene, &scene.guarded(), &scene.closed(), true, &words(&headers));
}

fn pull_streams(scene: &CaseContext) {
    ours(&pulls(scene, &scene.open(), &scene.stock(), false, &["-H", "X-Number-Of-Streams: 4"]), MANY);
    ours(&pulls(scene, &scene.open(), &scene.stock(), true, &["-H", "X-Number-Of-Streams: 0"]), MANY);
}

fn pulled_streams(scene: &CaseContext) {
    pulls(scene, &scene.stock(), &scene.open(), false, &["-H", "X-Number-Of-Streams: 4"]);
}

fn pull_empty(scene: &CaseContext) {
    let (active, passive) = (scene.open(), scene.stock());
    passive.put("f", b"");
    let reply = copied(scene, &["-H", &source(&passive.http("f"))], &active.http("g"));
    assert_eq!((reply.status, active.get("g")), (202, Vec::new()));
}

fn pull_parents(scene: &CaseContext) {
    let (active, passive) = (scene.open(), scene.stock());
    passive.put("f", b"here");
    copied(scene, &["-H", &source(&passive.http("f"))], &active.http("a/b/g"));
    assert_eq!(active.get("a/b/g"), b"here");
}

fn pull_overwrite(scene: &CaseContext) {
    let active = scene.open();
    active.put("g", b"old");
    ours(&pulls(scene, &active, &scene.stock(), false, &["-H", "Overwrite: T"]), MANY);
}

fn headers(scene: &CaseContext) {
    let more = [
        "-H",
        "ClientInfo: job-id=1;file-id=2;retry=0",
        "-H",
        "SciTag: 453",
        "-H",
        "TransferHeaderX-Amz-Something: else",
        "-H",
        "Secure-Redirection: 1",
        "-H",
        "RequireChecksumVerification: false",
    ];
    ours(&pulls(scene, &scene.open(), &scene.stock(), false, &more), MANY);
}

fn between(scene: &CaseContext) {
    // Both lead to one directory in the eyes of neither.
    ours(&pulls(scene, &scene.open(), &scene.cautious(), false, &[]), MANY);
    ours(&pushes(scene, &scene.open(), &scene.cautious(), true, &[]), MANY);
}
