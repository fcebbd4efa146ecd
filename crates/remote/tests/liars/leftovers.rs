//! Temporary files of uploads that broke off: listings hide them, and a write to their directory removes the old ones.

use std::sync::{Arc, Mutex};

use store::Store;
use web::Headers;

use super::{content, dav, entry, impatient, listing, put, takes};
use crate::script::{Reply, Script};
use crate::servers::path;

#[test]
fn leftovers_are_hidden_and_old_ones_are_removed_by_a_write() {
    let deleted = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&deleted);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let old = format!("/.longhaul-{:x}-aa.upload", now - 2 * 24 * 3600);
    let fresh = format!("/.longhaul-{now:x}-bb.upload");
    let names = [old.clone(), fresh, "/.longhaul-cc.upload".to_owned(), "/f".to_owned()];
    let all = names.iter().map(|name| entry(name, false)).collect::<String>();
    let script = Script::new(move |request| match (request.method(), request.headers().get("depth")) {
        ("PROPFIND", Some("1")) => listing(&format!("{}{all}", entry("/", true))),
        ("PROPFIND", _) => listing(&entry("/f", false).replace(">3<", ">100<")),
        ("DELETE", _) => {
            noted.lock().unwrap().push(request.target().to_owned());
            Reply::new(204, Headers::new(), b"")
        }
        _ => takes(request, &|| Reply::head(200, Headers::new().with("Content-Length", "100"))),
    });
    let dav = dav(&script, impatient());
    let listed: Vec<_> = dav.list(&path("")).unwrap().map(|entry| entry.unwrap().0.to_string()).collect();
    assert_eq!(listed, ["f"]);
    assert!(deleted.lock().unwrap().is_empty(), "a listing removes nothing");
    put(&dav, &content(100)).unwrap();
    assert_eq!(deleted.lock().unwrap().as_slice(), std::slice::from_ref(&old));
    put(&dav, &content(100)).unwrap();
    assert_eq!(*deleted.lock().unwrap(), [old], "once");
}

#[test]
fn a_directory_with_old_leftovers_alone_is_empty() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (age, empty) in [(2 * 24 * 3600, true), (60, false)] {
        let left = entry(&format!("/d/.longhaul-{:x}-aa.upload", now - age), false);
        let script = Script::new(move |request| match (request.method(), request.headers().get("depth")) {
            ("PROPFIND", Some("1")) => listing(&format!("{}{left}", entry("/d/", true))),
            ("PROPFIND", _) => listing(&entry("/d/", true)),
            _ => takes(request, &|| Reply::new(405, Headers::new(), b"")),
        });
        let removed = dav(&script, impatient()).remove(&path("d"));
        assert_eq!(removed.is_ok(), empty, "{removed:?}");
    }
}
