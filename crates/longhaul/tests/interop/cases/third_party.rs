//! Third-party copies between a node and xrootd's HTTP server, in all four combinations; and between nodes.

use super::pattern;
use crate::case::Case;
use crate::clients::Reply;
use crate::context::{CaseContext, ServerDir};

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

/// Requests a COPY, whose answer must be a stream that ends in success.
fn copy(context: &CaseContext, words: &[&str], url: &str) -> Reply {
    let reply = context.curl(&[&["-X", "COPY"], words, &[url]].concat());
    let text = reply.text();
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    assert!(last.starts_with("success"), "{}: {text}", reply.status);
    reply
}

/// Asserts that an answer is the stream of a node as clients read it: davix's parser has a fixed place for two of the numbers.
fn assert_node_stream(reply: &Reply, bytes: usize) {
    assert_eq!(reply.status, 202, "{reply:?}");
    let text = reply.text();
    let last_value =
        |name: &str| text.lines().filter_map(|l| l.trim_start().strip_prefix(name)).next_back().map(str::to_owned);
    for word in ["Perf Marker", "End", "Timestamp: ", "Stripe Index: 0"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(word)), "{word}: {text}");
    }
    let count = last_value("Total Stripe Count: ").unwrap_or_default();
    assert!(count.parse::<u32>().is_ok_and(|count| count >= 1), "{text}");
    let moved = last_value("Stripe Bytes Transferred: ").unwrap_or_default();
    assert!(moved.parse::<usize>().is_ok_and(|moved| moved <= bytes), "{text}");
    assert!(last_value("RemoteConnections: ").is_some_and(|them| them.starts_with("tcp:")), "{text}");
}

fn source(url: &str) -> String {
    format!("Source: {url}")
}

fn destination(url: &str) -> String {
    format!("Destination: {url}")
}

/// The active server pulls `f` from the passive one.
fn pulls(context: &CaseContext, active: &ServerDir, passive: &ServerDir, tls: bool, more: &[&str]) -> Reply {
    let bytes = pattern(MANY);
    passive.put("f", &bytes);
    let url = |dir: &ServerDir, name: &str| if tls { dir.https(name) } else { dir.http(name) };
    let from = source(&url(passive, "f"));
    let reply = copy(context, &[&["-H", &from], more].concat(), &url(active, "g"));
    assert!(active.get("g") == bytes);
    reply
}

/// The active server pushes its `f` to the passive one.
fn pushes(context: &CaseContext, active: &ServerDir, passive: &ServerDir, tls: bool, more: &[&str]) -> Reply {
    let bytes = pattern(MANY);
    active.put("f", &bytes);
    let url = |dir: &ServerDir, name: &str| if tls { dir.https(name) } else { dir.http(name) };
    let to = destination(&url(passive, "g"));
    let reply = copy(context, &[&["-H", &to], more].concat(), &url(active, "f"));
    assert!(passive.get("g") == bytes);
    reply
}

fn pull(context: &CaseContext) {
    let reply = pulls(context, &context.open(), &context.stock(), false, &[]);
    assert_node_stream(&reply, MANY);
    assert_eq!(context.open().names(), ["g"]);
}

fn push(context: &CaseContext) {
    assert_node_stream(&pushes(context, &context.open(), &context.stock(), false, &[]), MANY);
}

fn pulled(context: &CaseContext) {
    pulls(context, &context.stock(), &context.open(), false, &[]);
}

fn pushed(context: &CaseContext) {
    pushes(context, &context.stock(), &context.open(), false, &[]);
}

fn pull_tls(context: &CaseContext) {
    assert_node_stream(&pulls(context, &context.open(), &context.stock(), true, &["-H", "Credential: none"]), MANY);
}

fn push_tls(context: &CaseContext) {
    assert_node_stream(&pushes(context, &context.open(), &context.stock(), true, &["-H", "Credential: none"]), MANY);
}

fn pulled_tls(context: &CaseContext) {
    pulls(context, &context.stock(), &context.open(), true, &[]);
}

fn pushed_tls(context: &CaseContext) {
    pushes(context, &context.stock(), &context.open(), true, &[]);
}

/// Headers with a token for each side, each with only the rights that the copy needs there.
fn token_headers(context: &CaseContext, active: &str, passive: &str) -> Vec<String> {
    vec![
        "-H".into(),
        format!("Authorization: Bearer {}", context.token(&[active])),
        "-H".into(),
        format!("TransferHeaderAuthorization: Bearer {}", context.token(&[passive])),
        "-H".into(),
        "Credential: none".into(),
    ]
}

fn words(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

fn pull_tokens(context: &CaseContext) {
    let headers = token_headers(context, "modify", "read");
    assert_node_stream(&pulls(context, &context.closed(), &context.guarded(), true, &words(&headers)), MANY);
}

fn push_tokens(context: &CaseContext) {
    let headers = token_headers(context, "read", "modify");
    assert_node_stream(&pushes(context, &context.closed(), &context.guarded(), true, &words(&headers)), MANY);
}

fn pulled_tokens(context: &CaseContext) {
    let headers = token_headers(context, "modify", "read");
    pulls(context, &context.guarded(), &context.closed(), true, &words(&headers));
}

fn pushed_tokens(context: &CaseContext) {
    let headers = token_headers(context, "read", "modify");
    pushes(context, &context.guarded(), &context.closed(), true, &words(&headers));
}

fn pull_streams(context: &CaseContext) {
    assert_node_stream(
        &pulls(context, &context.open(), &context.stock(), false, &["-H", "X-Number-Of-Streams: 4"]),
        MANY,
    );
    assert_node_stream(
        &pulls(context, &context.open(), &context.stock(), true, &["-H", "X-Number-Of-Streams: 0"]),
        MANY,
    );
}

fn pulled_streams(context: &CaseContext) {
    pulls(context, &context.stock(), &context.open(), false, &["-H", "X-Number-Of-Streams: 4"]);
}

fn pull_empty(context: &CaseContext) {
    let (active, passive) = (context.open(), context.stock());
    passive.put("f", b"");
    let reply = copy(context, &["-H", &source(&passive.http("f"))], &active.http("g"));
    assert_eq!((reply.status, active.get("g")), (202, Vec::new()));
}

fn pull_parents(context: &CaseContext) {
    let (active, passive) = (context.open(), context.stock());
    passive.put("f", b"here");
    copy(context, &["-H", &source(&passive.http("f"))], &active.http("a/b/g"));
    assert_eq!(active.get("a/b/g"), b"here");
}

fn pull_overwrite(context: &CaseContext) {
    let active = context.open();
    active.put("g", b"old");
    assert_node_stream(&pulls(context, &active, &context.stock(), false, &["-H", "Overwrite: T"]), MANY);
}

fn headers(context: &CaseContext) {
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
    assert_node_stream(&pulls(context, &context.open(), &context.stock(), false, &more), MANY);
}

fn between(context: &CaseContext) {
    // Neither server sees that both URLs name one directory.
    assert_node_stream(&pulls(context, &context.open(), &context.cautious(), false, &[]), MANY);
    assert_node_stream(&pushes(context, &context.open(), &context.cautious(), true, &[]), MANY);
}
