//! Plain HTTP servers, whose directories are pages for browsers: a page of names is a directory, and never data.

use model::Kind;
use model::fault::{Blame, Fault};
use store::Store;
use web::Headers;

use super::{content, dav, impatient};
use crate::script::{Reply, Script, ScriptedRequest};
use crate::servers::path;

/// As Python's `http.server`, Apache and nginx write them.
const PAGES: [&str; 3] = [
    "<!DOCTYPE HTML>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Directory listing for /d/</title></head></html>",
    "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n<html>\n <head>\n  <title>Index of /d</title>\n </head></html>",
    "<html>\r\n<head><title>Index of /d/</title></head>\r\n<body><h1>Index of /d/</h1><hr><pre><a href=\"../\">../</a></pre></body></html>",
];

/// A response with a page, without its body for HEAD.
fn page(request: &ScriptedRequest, body: &str) -> Reply {
    let headers = Headers::new().with("Content-Type", "text/html; charset=utf-8");
    match (request.method(), request.range()) {
        ("HEAD", _) => Reply::head(200, headers.with("Content-Length", body.len().to_string())),
        ("GET", Some((from, to))) => {
            let to = to.min(body.len() - 1);
            let range = format!("bytes {from}-{to}/{}", body.len());
            Reply::new(206, headers.with("Content-Range", range), &body.as_bytes()[from..=to])
        }
        ("GET", None) => Reply::new(200, headers, body.as_bytes()),
        _ => Reply::new(501, Headers::new(), b""),
    }
}

#[track_caller]
fn assert_unlistable_directory(script: &Script, at: &str) {
    let dav = dav(script, impatient());
    let stat = dav.stat(&path(at)).unwrap();
    assert_eq!(stat.meta.kind, Kind::Dir, "{at:?}");
    assert!(dav.is_dir(&path(at)) && dav.open(&path(at)).is_err());
    let error = dav.list(&path(at)).err().unwrap();
    assert_eq!(error.fault(), Fault::Config, "no plain HTTP server lists: {error}");
    assert!(error.to_string().contains("no WebDAV server"), "{error}");
}

#[test]
fn a_name_that_is_redirected_to_itself_with_a_slash_is_a_directory() {
    let script = Script::new(|request| match (request.method(), request.target()) {
        ("PROPFIND", _) => Reply::new(501, Headers::new(), b""),
        (_, "/d") => Reply::new(301, Headers::new().with("Location", "/d/"), b""),
        // The redirect decides, not the content.
        _ => page(request, "<html><title>The home page</title></html>"),
    });
    assert_unlistable_directory(&script, "d");
    assert_unlistable_directory(&script, "");
}

#[test]
fn a_directory_without_a_length_is_recognised() {
    let script = Script::new(|request| match (request.method(), request.target()) {
        ("PROPFIND", _) => Reply::new(405, Headers::new(), b""),
        (_, "/d") => Reply::new(301, Headers::new().with("Location", "/d/"), b""),
        // As nginx does for pages that it generates.
        ("HEAD", _) => Reply::head(200, Headers::new().with("Transfer-Encoding", "chunked")),
        _ => Reply::new(200, Headers::new().with("Content-Type", "text/html"), PAGES[2].as_bytes()),
    });
    assert_unlistable_directory(&script, "d");
}

#[test]
fn a_page_of_names_is_a_directory_whatever_its_address() {
    for body in PAGES {
        let script = Script::new(move |request| page(request, body));
        assert_unlistable_directory(&script, "d");
    }
}

#[test]
fn a_page_with_the_name_of_a_page_is_a_file() {
    for body in PAGES.into_iter().chain(["<html><title>Results</title></html>"]) {
        let script = Script::new(move |request| page(request, body));
        let dav = dav(&script, impatient());
        let stat = dav.stat(&path("d/index.html")).unwrap();
        assert_eq!((stat.meta.kind, stat.meta.size), (Kind::File, body.len() as u64));
    }
    // A page that is not a list of names is data, whatever its media type.
    let script = Script::new(|request| page(request, "<html><title>Results</title></html>"));
    assert_eq!(dav(&script, impatient()).stat(&path("results")).unwrap().meta.kind, Kind::File);
}

#[test]
fn a_file_that_is_redirected_to_another_name_is_a_file() {
    let bytes = content(5);
    let script = Script::new(move |request| match request.target() {
        "/f" => Reply::new(302, Headers::new().with("Location", "/store/4711/"), b""),
        _ => Reply::honest(request, &bytes),
    });
    let stat = dav(&script, impatient()).stat(&path("f")).unwrap();
    assert_eq!((stat.meta.kind, stat.meta.size), (Kind::File, 5), "only the same name with a slash is a directory");
}
