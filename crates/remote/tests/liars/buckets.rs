//! S3 servers that refuse keys, that have keys which are not paths, and that must not be asked the same for every file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use model::RelPath;
use model::fault::{Blame, Fault};
use remote::S3;
use remote::s3::{Bucket, Credentials, KeySource};
use store::Store;
use web::Headers;

use super::{impatient, put_at};
use crate::script::{Reply, Script, ScriptedRequest};
use crate::servers::path;

fn key(name: &str) -> Credentials {
    Credentials { key: name.into(), secret: "secret".into(), token: Some(format!("session of {name}")) }
}

fn bucket(script: &Script, credentials: Arc<KeySource>) -> S3 {
    let endpoint = Some(script.url().as_str().to_owned());
    let (name, region) = ("b".into(), "us-east-1".into());
    let bucket = Bucket { name, endpoint, region, virtual_hosted: false, credentials };
    S3::new(impatient(), &bucket, RelPath::root()).unwrap()
}

fn found(bytes: usize) -> Headers {
    Headers::new()
        .with("Content-Length", bytes.to_string())
        .with("ETag", "\"e\"")
        .with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
}

fn listed(inner: &str) -> Reply {
    let body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}</ListBucketResult>"
    );
    Reply::new(200, Headers::new().with("Content-Type", "application/xml"), body.as_bytes())
}

fn object(key: &str) -> String {
    format!(
        "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>\"e\"</ETag>\
         <Size>3</Size></Contents>"
    )
}

#[test]
fn an_expired_session_key_is_read_again() {
    let issued = Arc::new(Mutex::new("AK1"));
    let now = Arc::clone(&issued);
    let script = Script::new(move |request| {
        let shown = request.headers().get("authorization").unwrap_or_default();
        if shown.contains(&format!("Credential={}/", now.lock().unwrap())) {
            return Reply::head(200, found(7));
        }
        // As Amazon answers; a HEAD gets no body.
        Reply::new(400, Headers::new(), b"<Error><Code>ExpiredToken</Code><Message>It has expired.</Message></Error>")
    });
    let kept = Arc::new(Mutex::new("AK1"));
    let file = Arc::clone(&kept);
    let store = bucket(&script, Arc::new(move || Ok(Some(key(*file.lock().unwrap())))));
    assert_eq!(store.stat(&path("f")).unwrap().meta.size, 7);
    *issued.lock().unwrap() = "AK2";
    let error = store.list(&path("")).err().unwrap();
    assert_eq!(error.fault(), Fault::Auth, "{error}");
    assert!(error.to_string().contains("the key's session has ended"), "{error}");
    *kept.lock().unwrap() = "AK2";
    assert_eq!(store.stat(&path("g")).unwrap().meta.size, 7, "the key's file holds a new key");
}

#[test]
fn keys_that_are_not_paths_are_listed_with_the_reason() {
    let script = Script::new(|request| match request.method() {
        "GET" if !request.target().contains("prefix=d%2F") || request.target().contains("sub") => listed(""),
        "GET" => listed(&format!(
            "{}{}<CommonPrefixes><Prefix>d//</Prefix></CommonPrefixes><CommonPrefixes><Prefix>d/sub/</Prefix></CommonPrefixes>",
            object("d/f"),
            object("d/..")
        )),
        "PUT" | "DELETE" => panic!("{} {}", request.method(), request.target()),
        _ => Reply::new(404, Headers::new(), b""),
    });
    let store = bucket(&script, Arc::new(|| Ok(Some(key("AK")))));
    let mut entries: Vec<_> = store
        .list(&path("d"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|(name, stat)| (name.to_string(), stat))
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<_> = entries.iter().map(|(name, stat)| (name.as_str(), stat.is_ok())).collect();
    assert_eq!(names, [("?", false), ("?..", false), ("f", true), ("sub", true)]);
    let why = entries[0].1.as_ref().unwrap_err();
    assert_eq!(why.fault(), Fault::Storage);
    assert!(why.to_string().contains("the bucket has \"d//\", which makes no path"), "{why}");
    // An entry without a path cannot be moved, so nothing is moved.
    let moved = store.rename(&path("d"), &path("e"), false).unwrap_err();
    assert!(moved.to_string().contains("makes no path"), "{moved}");
}

#[test]
fn an_object_that_s3_cannot_copy_is_refused_before_anything_is_moved() {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&changes);
    let script =
        Script::new(move |request| match (request.method(), request.target().split('?').next().unwrap_or_default()) {
            ("HEAD", "/b/d/large") => Reply::head(200, found((5 << 30) + 1)),
            ("HEAD", _) => Reply::new(404, Headers::new(), b""),
            ("GET", _) if request.target().contains("prefix=d%2F") => {
                listed(&(object("d/a") + &object("d/large").replace(">3<", ">5368709121<")))
            }
            ("GET", _) => listed(""),
            (method, target) => {
                noted.lock().unwrap().push(format!("{method} {target}"));
                Reply::new(200, Headers::new(), b"")
            }
        });
    let store = bucket(&script, Arc::new(|| Ok(Some(key("AK")))));
    for (from, to) in [("d", "e"), ("d/large", "e")] {
        let error = store.rename(&path(from), &path(to), false).unwrap_err();
        assert_eq!(error.fault(), Fault::Config);
        assert!(
            error.to_string().contains("more than the 5 GiB") && error.to_string().contains("longhaul cp"),
            "{error}"
        );
    }
    assert!(store.make_hard_link(&path("c"), &path("d/large"), false, "t").is_err());
    assert_eq!(*changes.lock().unwrap(), [""; 0], "nothing is changed");
}

/// The replies of an S3 server that stores only lengths, and notes the requests for listings.
fn keeps(request: &ScriptedRequest, kept: &Mutex<BTreeMap<String, usize>>, lists: &Mutex<Vec<String>>) -> Reply {
    let name = request.target().split('?').next().unwrap_or_default().to_owned();
    let size = kept.lock().unwrap().get(&name).copied();
    match request.method() {
        "PUT" => {
            kept.lock().unwrap().insert(name, request.body().len());
            Reply::new(200, Headers::new().with("ETag", "\"e\""), b"")
        }
        "HEAD" => size.map_or_else(|| Reply::new(404, Headers::new(), b""), |size| Reply::head(200, found(size))),
        _ => {
            lists.lock().unwrap().push(request.target().to_owned());
            let of_parent = request.target().ends_with("prefix=d%2F") || request.target().contains("prefix=d%2F&");
            listed(&if of_parent { object("d/before") } else { String::new() })
        }
    }
}

#[test]
fn a_directory_is_not_listed_for_every_file() {
    let (kept, lists) = (Arc::<Mutex<BTreeMap<_, _>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let (files, noted) = (Arc::clone(&kept), Arc::clone(&lists));
    let script = Script::new(move |request| keeps(request, &files, &noted));
    let store = bucket(&script, Arc::new(|| Ok(Some(key("AK")))));
    (0..20).for_each(|n| put_at(&store, &format!("d/f{n}"), b"bytes").unwrap());
    assert_eq!(kept.lock().unwrap().len(), 20);
    let lists = lists.lock().unwrap();
    let of_parent =
        lists.iter().filter(|target| target.contains("prefix=d%2F&") || target.ends_with("prefix=d%2F")).count();
    assert!((1..=3).contains(&of_parent), "{lists:#?}");
}

/// Keys and their contents.
type Objects = Mutex<BTreeMap<String, Vec<u8>>>;

/// The listing of the names right below a prefix.
fn level(objects: &BTreeMap<String, Vec<u8>>, prefix: &str) -> String {
    let mut inner = String::new();
    let mut prefixes = std::collections::BTreeSet::new();
    for (key, below) in objects.keys().filter_map(|key| Some((key, key.strip_prefix(prefix)?))) {
        match below.split_once('/') {
            Some((dir, _)) => drop(prefixes.insert(format!("{prefix}{dir}/"))),
            None => inner += &object(key),
        }
    }
    inner
        + &prefixes
            .iter()
            .map(|at| format!("<CommonPrefixes><Prefix>{at}</Prefix></CommonPrefixes>"))
            .collect::<String>()
}

/// The replies of an S3 server, which has keys and no directories.
fn flat(request: &ScriptedRequest, objects: &Objects) -> Reply {
    let (name, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
    let key = name.strip_prefix("/b").unwrap().trim_start_matches('/').to_owned();
    let mut objects = objects.lock().unwrap();
    match request.method() {
        "PUT" => {
            objects.insert(key, request.body().to_vec());
            Reply::new(200, Headers::new().with("ETag", "\"e\""), b"")
        }
        "DELETE" => {
            objects.remove(&key);
            Reply::new(204, Headers::new(), b"")
        }
        "GET" if key.is_empty() => {
            let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
            listed(&level(&objects, &prefix.replace("%2F", "/")))
        }
        _ => match objects.get(&key) {
            Some(bytes) => Reply::head(200, found(bytes.len())),
            None => Reply::new(404, Headers::new(), b""),
        },
    }
}

/// A bucket with these objects, and a function that opens a new store on it.
fn bucket_of(keys: &[&str]) -> (Script, Arc<Objects>, impl Fn(&Script) -> S3) {
    let objects: Arc<Objects> = Arc::new(Mutex::new(keys.iter().map(|key| ((*key).to_owned(), Vec::new())).collect()));
    let kept = Arc::clone(&objects);
    (Script::new(move |request| flat(request, &kept)), objects, |script| {
        bucket(script, Arc::new(|| Ok(Some(key("AK")))))
    })
}

#[test]
fn a_prefix_is_removed_with_everything_below_it() {
    // Two directories: the end of the first must not keep the second.
    let (script, objects, bucket) = bucket_of(&["t/a", "t/sub/b", "t/tub/c", "u"]);
    store::remove_all(&bucket(&script), &path("t")).unwrap();
    assert_eq!(objects.lock().unwrap().keys().collect::<Vec<_>>(), ["u"]);
    let gone = bucket(&script).stat(&path("t")).unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    let never = store::remove_all(&bucket(&script), &path("nothing")).unwrap_err();
    assert!(never.is_not_found(), "{never}");
}

#[test]
fn a_directory_stays_when_its_last_file_is_removed() {
    let (script, _objects, bucket) = bucket_of(&["t/a"]);
    let store = bucket(&script);
    store.remove(&path("t/a")).unwrap();
    assert!(store.is_dir(&path("t")), "for as long as the store lives");
    store.remove(&path("t")).unwrap();
    assert!(!store.is_dir(&path("t")));
}
