//! curl uses WebDAV: OPTIONS, PROPFIND, MKCOL, MOVE, COPY within a server.

use super::FORTY;
use crate::case::Case;
use crate::clients::Reply;
use crate::context::CaseContext;

const CURL: &str = "curl";

pub const CASES: &[Case] = &[
    Case::new(CURL, "options", "OPTIONS", "200 or 204, `DAV: 1, 2`, Allow with all verbs", options)
        .stock("no MKCOL, MOVE"),
    Case::new(CURL, "propfind-0", "PROPFIND, Depth 0", "207, length, date, kind", propfind_0),
    Case::new(CURL, "propfind-1", "PROPFIND, Depth 1", "207, the directory and what is in it", propfind_1),
    Case::new(CURL, "propfind-empty", "PROPFIND without a body", "207, as allprop", propfind_empty),
    Case::new(CURL, "propfind-unknown", "PROPFIND for properties that nobody has", "207, 404 within", propfind_unknown)
        .stock("leaves them out"),
    Case::new(CURL, "propfind-infinity", "PROPFIND, Depth infinity", "403", propfind_infinity).stock("207, as Depth 1"),
    Case::new(CURL, "propfind-missing", "PROPFIND of nothing", "404", propfind_missing),
    Case::new(CURL, "propfind-broken", "PROPFIND with a broken body", "400", propfind_broken).stock("207"),
    Case::new(CURL, "propfind-names", "PROPFIND of odd names", "207, encoded so that GET finds them", propfind_names)
        .stock("names as they are"),
    Case::new(CURL, "mkcol", "MKCOL", "201", mkcol),
    Case::new(CURL, "mkcol-exists", "MKCOL of what is there", "405", mkcol_exists),
    Case::new(CURL, "mkcol-no-parent", "MKCOL without a parent", "409", mkcol_no_parent).stock("makes it"),
    Case::new(CURL, "mkcol-body", "MKCOL with a body", "415", mkcol_body).stock("201"),
    Case::new(CURL, "move", "MOVE to a new name", "201", move_new),
    Case::new(CURL, "move-over", "MOVE over a file", "204", move_over).stock("201"),
    Case::new(CURL, "move-no-overwrite", "MOVE over a file, `Overwrite: F`", "412", move_no_overwrite)
        .stock("overwrites"),
    Case::new(CURL, "move-directory", "MOVE of a directory", "201", move_directory),
    Case::new(CURL, "move-missing", "MOVE of nothing", "404", move_missing),
    Case::new(CURL, "copy-local", "COPY with a Destination on the same server", "201 or 202, a copy", copy_local),
    Case::new(CURL, "copy-full", "COPY and MOVE over a directory that is not empty", "204, it is replaced", copy_full)
        .stock("500"),
    Case::new(CURL, "trace", "TRACE, PATCH", "405 or 501", trace).stock("400, and closes"),
];

fn propfind(context: &CaseContext, url: &str, depth: &str, body: &str) -> Reply {
    let depth = format!("Depth: {depth}");
    let mut words = vec!["-X", "PROPFIND", "-H", &depth];
    if !body.is_empty() {
        words.extend(["-H", "Content-Type: application/xml", "--data-binary", body]);
    }
    words.push(url);
    context.curl(&words)
}

const QUERY: &str = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:getcontentlength/>\
    <D:getlastmodified/><D:resourcetype/></D:prop></D:propfind>";

fn options(context: &CaseContext) {
    let reply = context
        .curl(&["-X", "OPTIONS", &context.open().http("")])
        .expect_one_of(&[200, 204])
        .expect_header_part("dav", "1, 2");
    for verb in
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND", "MKCOL", "MOVE", "COPY", "PROPPATCH", "LOCK", "UNLOCK"]
    {
        assert!(reply.header("allow").is_some_and(|allow| allow.contains(verb)), "{verb}: {reply:?}");
    }
}

/// Text of the first element of this local name, whatever its prefix.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.find(&format!(":{name}>")).or_else(|| text.find(&format!("<{name}>")))?;
    let start = at + text[at..].find('>')? + 1;
    Some(text[start..start + text[start..].find('<')?].trim())
}

fn propfind_0(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let text = propfind(context, &dir.http("f"), "0", QUERY).expect_status(207).text();
    assert_eq!(element(&text, "getcontentlength"), Some("40"), "{text}");
    assert!(element(&text, "getlastmodified").is_some_and(|date| date.ends_with("GMT")), "{text}");
    assert!(!text.contains(":collection") && !text.contains("<collection"), "{text}");
    let text = propfind(context, &dir.http(""), "0", QUERY).expect_status(207).text();
    assert!(text.contains("collection") && text.matches("href>").count() == 2, "{text}");
}

fn propfind_1(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("d/inner", FORTY);
    let text = propfind(context, &dir.http(""), "1", QUERY).expect_status(207).text();
    assert_eq!(text.matches("href>").count(), 6, "itself, f and d: {text}");
    assert!(text.contains(&dir.target("f")) && text.contains(&dir.target("d")), "{text}");
    assert!(!text.contains("inner"), "{text}");
}

fn propfind_empty(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let text = propfind(context, &dir.http("f"), "0", "").expect_status(207).text();
    assert_eq!(element(&text, "getcontentlength"), Some("40"), "{text}");
}

fn propfind_unknown(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let body = "<propfind xmlns=\"DAV:\"><prop><getcontentlength/><x:colour xmlns:x=\"urn:x\"/></prop></propfind>";
    let text = propfind(context, &dir.http("f"), "0", body).expect_status(207).text();
    assert_eq!(element(&text, "getcontentlength"), Some("40"), "{text}");
    assert!(text.contains("colour") && text.contains(" 404 "), "{text}");
}

fn propfind_infinity(context: &CaseContext) {
    let dir = context.open();
    dir.put("d/f", FORTY);
    propfind(context, &dir.http(""), "infinity", "").expect_status(403);
}

fn propfind_missing(context: &CaseContext) {
    propfind(context, &context.open().http("f"), "0", "").expect_status(404);
}

fn propfind_broken(context: &CaseContext) {
    let dir = context.open();
    propfind(context, &dir.http(""), "0", "<propfind xmlns=\"DAV:\"><prop>").expect_status(400);
}

fn propfind_names(context: &CaseContext) {
    let dir = context.open();
    for name in ["a b", "a&b", "50%", "<x>", "grün"] {
        dir.put(name, FORTY);
    }
    let text = propfind(context, &dir.http(""), "1", QUERY).expect_status(207).text();
    for name in ["a%20b", "50%25", "%3Cx%3E", "gr%C3%BCn"] {
        assert!(text.contains(name), "{name}: {text}");
        context.curl(&["-I", &dir.http(name)]).expect_status(200);
    }
}

fn mkcol(context: &CaseContext) {
    let dir = context.open();
    context.curl(&["-X", "MKCOL", &dir.http("d")]).expect_status(201);
    context.curl(&["-X", "MKCOL", &dir.http("e/")]).expect_status(201);
    assert!(dir.disk("d").is_dir() && dir.disk("e").is_dir());
}

fn mkcol_exists(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.make_dir("d");
    context.curl(&["-X", "MKCOL", &dir.http("d")]).expect_status(405);
    context.curl(&["-X", "MKCOL", &dir.http("f")]).expect_status(405);
    assert_eq!(dir.get("f"), FORTY);
}

fn mkcol_no_parent(context: &CaseContext) {
    let dir = context.open();
    context.curl(&["-X", "MKCOL", &dir.http("a/b")]).expect_status(409);
    assert!(!dir.has("a"));
}

fn mkcol_body(context: &CaseContext) {
    let dir = context.open();
    context.curl(&["-X", "MKCOL", "-d", "<x/>", &dir.http("d")]).expect_status(415);
    assert!(!dir.has("d"));
}

fn request_move(context: &CaseContext, from: &str, to: &str, more: &[&str]) -> Reply {
    let dir = context.open();
    let (from, destination) = (dir.http(from), format!("Destination: {}", dir.http(to)));
    context.curl(&[&["-X", "MOVE", "-H", &destination], more, &[&from]].concat())
}

fn move_new(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    request_move(context, "f", "g", &[]).expect_status(201);
    assert_eq!((dir.names(), dir.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn move_over(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("g", b"old");
    request_move(context, "f", "g", &[]).expect_status(204);
    assert_eq!((dir.names(), dir.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn move_no_overwrite(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("g", b"old");
    request_move(context, "f", "g", &["-H", "Overwrite: F"]).expect_status(412);
    assert_eq!((dir.get("f"), dir.get("g")), (FORTY.to_vec(), b"old".to_vec()));
}

fn move_directory(context: &CaseContext) {
    let dir = context.open();
    dir.put("d/f", FORTY);
    request_move(context, "d", "e", &[]).expect_status(201);
    assert_eq!((dir.names(), dir.get("e/f")), (vec!["e".to_owned()], FORTY.to_vec()));
}

fn move_missing(context: &CaseContext) {
    request_move(context, "f", "g", &[]).expect_status(404);
}

fn copy_local(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let destination = format!("Destination: {}", dir.http("g"));
    let reply = context.curl(&["-X", "COPY", "-H", &destination, &dir.http("f")]).expect_one_of(&[201, 202, 204]);
    assert!(reply.status != 202 || reply.text().contains("success"), "{}", reply.text());
    assert_eq!((dir.get("f"), dir.get("g")), (FORTY.to_vec(), FORTY.to_vec()));
}

fn copy_full(context: &CaseContext) {
    let dir = context.open();
    for verb in ["COPY", "MOVE"] {
        dir.put("from/f", FORTY);
        dir.put("to/old/f", FORTY);
        let destination = format!("Destination: {}", dir.http("to"));
        context.curl(&["-X", verb, "-H", &destination, &dir.http("from")]).expect_status(204);
        assert!(dir.has("to/f") && !dir.has("to/old"), "{verb}");
    }
    assert!(!dir.has("from"));
}

fn trace(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    for verb in ["TRACE", "PATCH"] {
        context.curl(&["-X", verb, &dir.http("f")]).expect_one_of(&[405, 501]);
    }
}
