//! curl speaks WebDAV: OPTIONS, PROPFIND, MKCOL, MOVE, COPY within a server.

use super::FORTY;
use crate::case::Case;
use crate::clients::Reply;
use crate::scene::CaseContext;

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

fn propfind(scene: &CaseContext, url: &str, depth: &str, body: &str) -> Reply {
    let depth = format!("Depth: {depth}");
    let mut words = vec!["-X", "PROPFIND", "-H", &depth];
    if !body.is_empty() {
        words.extend(["-H", "Content-Type: application/xml", "--data-binary", body]);
    }
    words.push(url);
    scene.curl(&words)
}

const ASKS: &str = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:getcontentlength/>\
    <D:getlastmodified/><D:resourcetype/></D:prop></D:propfind>";

fn options(scene: &CaseContext) {
    let reply = scene.curl(&["-X", "OPTIONS", &scene.open().http("")]).answers_one_of(&[200, 204]).has("dav", "1, 2");
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

fn propfind_0(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let text = propfind(scene, &room.http("f"), "0", ASKS).is(207).text();
    assert_eq!(element(&text, "getcontentlength"), Some("40"), "{text}");
    assert!(element(&text, "getlastmodified").is_some_and(|date| date.ends_with("GMT")), "{text}");
    assert!(!text.contains(":collection") && !text.contains("<collection"), "{text}");
    let text = propfind(scene, &room.http(""), "0", ASKS).is(207).text();
    assert!(text.contains("collection") && text.matches("href>").count() == 2, "{text}");
}

fn propfind_1(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("d/inner", FORTY);
    let text = propfind(scene, &room.http(""), "1", ASKS).is(207).text();
    assert_eq!(text.matches("href>").count(), 6, "itself, f and d: {text}");
    assert!(text.contains(&room.target("f")) && text.contains(&room.target("d")), "{text}");
    assert!(!text.contains("inner"), "{text}");
}

fn propfind_empty(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let text = propfind(scene, &room.http("f"), "0", "").is(207).text();
    assert_eq!(element(&text, "getcontentlength"), Some("40"), "{text}");
}

fn propfind_unknown(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let body = "<propfind xmlns=\"DAV:\"><prop><getcontentlength/><x:colour xmlns:x=\"urn:x\"/></prop></propfind>";
    let text = propfind(scene, &room.http("f"), "0", body).is(207).text();
    assert_eq!(element(&text, "getcontentlength"), Some("40"), "{text}");
    assert!(text.contains("colour") && text.contains(" 404 "), "{text}");
}

fn propfind_infinity(scene: &CaseContext) {
    let room = scene.open();
    room.put("d/f", FORTY);
    propfind(scene, &room.http(""), "infinity", "").is(403);
}

fn propfind_missing(scene: &CaseContext) {
    propfind(scene, &scene.open().http("f"), "0", "").is(404);
}

fn propfind_broken(scene: &CaseContext) {
    let room = scene.open();
    propfind(scene, &room.http(""), "0", "<propfind xmlns=\"DAV:\"><prop>").is(400);
}

fn propfind_names(scene: &CaseContext) {
    let room = scene.open();
    for name in ["a b", "a&b", "50%", "<x>", "grün"] {
        room.put(name, FORTY);
    }
    let text = propfind(scene, &room.http(""), "1", ASKS).is(207).text();
    for name in ["a%20b", "50%25", "%3Cx%3E", "gr%C3%BCn"] {
        assert!(text.contains(name), "{name}: {text}");
        scene.curl(&["-I", &room.http(name)]).is(200);
    }
}

fn mkcol(scene: &CaseContext) {
    let room = scene.open();
    scene.curl(&["-X", "MKCOL", &room.http("d")]).is(201);
    scene.curl(&["-X", "MKCOL", &room.http("e/")]).is(201);
    assert!(room.disk("d").is_dir() && room.disk("e").is_dir());
}

fn mkcol_exists(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.make_dir("d");
    scene.curl(&["-X", "MKCOL", &room.http("d")]).is(405);
    scene.curl(&["-X", "MKCOL", &room.http("f")]).is(405);
    assert_eq!(room.get("f"), FORTY);
}

fn mkcol_no_parent(scene: &CaseContext) {
    let room = scene.open();
    scene.curl(&["-X", "MKCOL", &room.http("a/b")]).is(409);
    assert!(!room.has("a"));
}

fn mkcol_body(scene: &CaseContext) {
    let room = scene.open();
    scene.curl(&["-X", "MKCOL", "-d", "<x/>", &room.http("d")]).is(415);
    assert!(!room.has("d"));
}

fn moved(scene: &CaseContext, from: &str, to: &str, more: &[&str]) -> Reply {
    let room = scene.open();
    let (from, destination) = (room.http(from), format!("Destination: {}", room.http(to)));
    scene.curl(&[&["-X", "MOVE", "-H", &destination], more, &[&from]].concat())
}

fn move_new(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    moved(scene, "f", "g", &[]).is(201);
    assert_eq!((room.names(), room.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn move_over(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("g", b"old");
    moved(scene, "f", "g", &[]).is(204);
    assert_eq!((room.names(), room.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn move_no_overwrite(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("g", b"old");
    moved(scene, "f", "g", &["-H", "Overwrite: F"]).is(412);
    assert_eq!((room.get("f"), room.get("g")), (FORTY.to_vec(), b"old".to_vec()));
}

fn move_directory(scene: &CaseContext) {
    let room = scene.open();
    room.put("d/f", FORTY);
    moved(scene, "d", "e", &[]).is(201);
    assert_eq!((room.names(), room.get("e/f")), (vec!["e".to_owned()], FORTY.to_vec()));
}

fn move_missing(scene: &CaseContext) {
    moved(scene, "f", "g", &[]).is(404);
}

fn copy_local(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let destination = format!("Destination: {}", room.http("g"));
    let reply = scene.curl(&["-X", "COPY", "-H", &destination, &room.http("f")]).answers_one_of(&[201, 202, 204]);
    assert!(reply.status != 202 || reply.text().contains("success"), "{}", reply.text());
    assert_eq!((room.get("f"), room.get("g")), (FORTY.to_vec(), FORTY.to_vec()));
}

fn copy_full(scene: &CaseContext) {
    let room = scene.open();
    for verb in ["COPY", "MOVE"] {
        room.put("from/f", FORTY);
        room.put("to/old/f", FORTY);
        let destination = format!("Destination: {}", room.http("to"));
        scene.curl(&["-X", verb, "-H", &destination, &room.http("from")]).is(204);
        assert!(room.has("to/f") && !room.has("to/old"), "{verb}");
    }
    assert!(!room.has("from"));
}

fn trace(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    for verb in ["TRACE", "PATCH"] {
        scene.curl(&["-X", verb, &room.http("f")]).answers_one_of(&[405, 501]);
    }
}
