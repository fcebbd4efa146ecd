//! Impossible third-party copies: the answers before the stream begins and in the stream, and what is left behind.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::clients::Reply;
use crate::context::{CaseContext, ServerDir, skip};
use crate::endless_server::EndlessServer;
use crate::wait::{LONG, until};

const ERRORS: &str = "third-party-errors";

pub const CASES: &[Case] = &[
    Case::new(ERRORS, "missing-source", "pull of nothing", "404, no file", missing_source)
        .stock("201, `failure`, an empty file"),
    Case::new(ERRORS, "missing-local", "push of nothing", "404", missing_local).stock("400"),
    Case::new(ERRORS, "source-token", "pull with a bad token for the source", "401 or 403, no file", source_token)
        .stock("201, `failure`"),
    Case::new(ERRORS, "own-token", "pull without a token for ourselves", "401, no file", own_token),
    Case::new(
        ERRORS,
        "target-token",
        "push with a bad token for the target",
        "4xx, or 202 and `failure`",
        target_token,
    )
    .stock("201, `failure`"),
    Case::new(ERRORS, "exists", "pull over a file, `Overwrite: F`", "412, the file as it was", exists),
    Case::new(ERRORS, "both", "COPY with Source and Destination", "400", both).stock("takes the first"),
    Case::new(ERRORS, "neither", "COPY with neither", "400", neither),
    Case::new(ERRORS, "gridsite", "`Credential: gridsite`", "400", gridsite),
    Case::new(ERRORS, "overwrite-nonsense", "`Overwrite: perhaps`", "400", overwrite).stock("taken as T"),
    Case::new(ERRORS, "streams", "`X-Number-Of-Streams: 101`", "400", streams).stock("500"),
    Case::new(ERRORS, "scheme", "a source of another scheme: ftp, file", "400", scheme).stock("201, `failure`"),
    Case::new(ERRORS, "refused", "a source that refuses connections", "502, or 202 and `failure`; no file", refused)
        .stock("201, an empty file"),
    Case::new(ERRORS, "local", "a source on this machine, without leave to go there", "403", local)
        .stock("before 5.9.3 it goes there"),
    Case::new(ERRORS, "untrusted", "a source whose certificate nobody signed", "502, or 202 and `failure`", untrusted)
        .stock("201, `failure`"),
    Case::new(ERRORS, "full", "pull where there is no room", "507, or 202 and `failure`; no file", full)
        .stock("201, a part of the file"),
    Case::new(ERRORS, "cancel", "the client hangs up during a pull", "nothing is left", cancel)
        .stock("leaves a part of the file"),
];

fn copy(context: &CaseContext, headers: &[&str], url: &str) -> Reply {
    let mut words = vec!["-X", "COPY"];
    headers.iter().for_each(|header| words.extend(["-H", header]));
    words.push(url);
    context.curl(&words)
}

fn pull(context: &CaseContext, to: &ServerDir, source: &str, more: &[&str]) -> Reply {
    let source = format!("Source: {source}");
    copy(context, &[&[source.as_str()], more].concat(), &to.http("g"))
}

/// Asserts that the copy was refused with a status, or failed within the stream, and left nothing.
fn failed(reply: &Reply, dir: &ServerDir, statuses: &[u16]) {
    if reply.status == 202 {
        let text = reply.text();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(last.starts_with("failure: "), "{text}");
    } else {
        assert!(statuses.contains(&reply.status), "{reply:?}");
    }
    until("nothing is left of it", LONG, || dir.names().is_empty());
}

fn missing_source(context: &CaseContext) {
    let dir = context.open();
    pull(context, &dir, &context.stock().http("f"), &[]).expect_status(404);
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn missing_local(context: &CaseContext) {
    let (ours, theirs) = (context.open(), context.stock());
    copy(context, &[&format!("Destination: {}", theirs.http("g"))], &ours.http("f")).expect_status(404);
    assert!(theirs.names().is_empty());
}

fn source_token(context: &CaseContext) {
    let (ours, theirs) = (context.closed(), context.guarded());
    theirs.put("f", FORTY);
    let own = format!("Authorization: Bearer {}", context.token(&["modify"]));
    let bad =
        format!("TransferHeaderAuthorization: Bearer {}", context.test_bed.tokens.expired(&context.scope("read")));
    let source = format!("Source: {}", theirs.https("f"));
    copy(context, &[&own, &bad, &source, "Credential: none"], &ours.https("g")).expect_one_of(&[401, 403]);
    assert!(ours.names().is_empty(), "{:?}", ours.names());
}

fn own_token(context: &CaseContext) {
    let (ours, theirs) = (context.closed(), context.guarded());
    theirs.put("f", FORTY);
    let other = format!("TransferHeaderAuthorization: Bearer {}", context.token(&["read"]));
    let source = format!("Source: {}", theirs.https("f"));
    copy(context, &[&other, &source, "Credential: none"], &ours.https("g")).expect_status(401);
    assert!(ours.names().is_empty(), "{:?}", ours.names());
}

fn target_token(context: &CaseContext) {
    let (ours, theirs) = (context.closed(), context.guarded());
    ours.put("f", FORTY);
    let own = format!("Authorization: Bearer {}", context.token(&["read"]));
    let bad = format!("TransferHeaderAuthorization: Bearer {}", context.token(&["read"]));
    let target = format!("Destination: {}", theirs.https("g"));
    let reply = copy(context, &[&own, &bad, &target, "Credential: none"], &ours.https("f"));
    failed(&reply, &theirs, &[401, 403, 502]);
}

fn exists(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    dir.put("g", b"old");
    theirs.put("f", FORTY);
    pull(context, &dir, &theirs.http("f"), &["Overwrite: F"]).expect_status(412);
    assert_eq!(dir.get("g"), b"old");
}

fn both(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    theirs.put("f", FORTY);
    pull(context, &dir, &theirs.http("f"), &[&format!("Destination: {}", theirs.http("h"))]).expect_status(400);
    assert!(dir.names().is_empty() && theirs.names() == ["f"]);
}

fn neither(context: &CaseContext) {
    copy(context, &[], &context.open().http("g")).expect_status(400);
}

fn gridsite(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    theirs.put("f", FORTY);
    pull(context, &dir, &theirs.http("f"), &["Credential: gridsite"]).expect_status(400);
    assert!(dir.names().is_empty());
}

fn overwrite(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    theirs.put("f", FORTY);
    pull(context, &dir, &theirs.http("f"), &["Overwrite: perhaps"]).expect_status(400);
    assert!(dir.names().is_empty());
}

fn streams(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    theirs.put("f", FORTY);
    pull(context, &dir, &theirs.http("f"), &["X-Number-Of-Streams: 101"]).expect_status(400);
    assert!(dir.names().is_empty());
}

fn scheme(context: &CaseContext) {
    let dir = context.open();
    for source in ["ftp://127.0.0.1/f", "file:///etc/hostname", "gopher://127.0.0.1/", "no-url"] {
        pull(context, &dir, source, &[]).expect_status(400);
    }
    assert!(dir.names().is_empty());
}

fn refused(context: &CaseContext) {
    let dir = context.open();
    // Port 1 of this machine: a program that listens there is none of the tests'.
    let reply = pull(context, &dir, "http://127.0.0.1:1/f", &[]);
    failed(&reply, &dir, &[502, 504]);
}

fn local(context: &CaseContext) {
    let (dir, theirs) = (context.cautious(), context.stock());
    theirs.put("f", FORTY);
    let reply = pull(context, &dir, &theirs.http("f"), &[]).expect_status(403).expect_without("0123456789");
    assert_eq!(reply.status, 403);
    pull(context, &dir, "http://169.254.169.254/latest/", &[]).expect_status(403);
    assert!(dir.names().is_empty());
}

fn untrusted(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    theirs.put("f", FORTY);
    // The certificate names localhost and its addresses, of which this is none.
    let source = theirs.https("f").replace("localhost", "127.0.0.2");
    let reply = pull(context, &dir, &source, &[]);
    failed(&reply, &dir, &[502]);
}

/// A file system of 4 MB in the case's directory, for as long as the case lasts.
struct SmallFileSystem(std::path::PathBuf);

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn full(context: &CaseContext) {
    let (dir, theirs) = (context.open(), context.stock());
    theirs.put("f", &pattern(16_000_000));
    dir.make_dir("small");
    let at = dir.disk("small");
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m,mode=777", "tmpfs"]).arg(&at).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skip("no small file system can be mounted (that takes root)");
    }
    let _small = SmallFileSystem(at.clone());
    let source = format!("Source: {}", theirs.http("f"));
    let reply = copy(context, &[&source], &dir.http("small/g"));
    if reply.status == 202 {
        assert!(reply.text().contains("failure: "), "{}", reply.text());
    } else {
        assert_eq!(reply.status, 507, "{reply:?}");
    }
    until("nothing is left of it", LONG, || std::fs::read_dir(&at).unwrap().next().is_none());
    let file = context.write("up", &pattern(16_000_000));
    context.curl(&["-T", &file, &dir.http("small/h")]).expect_status(507);
    until("nothing is left of it", LONG, || std::fs::read_dir(&at).unwrap().next().is_none());
}

fn cancel(context: &CaseContext) {
    let (dir, slow) = (context.open(), EndlessServer::start());
    let (source, url) = (format!("Source: http://{}/f", slow.address), dir.http("g"));
    let client = context.begin(&["curl", "-sS", "-X", "COPY", "-H", &source, &url]);
    until("the pull has begun", LONG, || slow.get_count() > 0);
    drop(client);
    until("nothing is left of it", LONG, || dir.names().is_empty());
}
