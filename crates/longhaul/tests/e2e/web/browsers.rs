//! Requests of browsers, portals and pipelines: pages of other sites, compressed and long listings, JSON; and the files that every
//! browser requests.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::raw::{Raw, ask, get, open, plain, put};
use crate::node::Setup;

#[test]
fn pages_of_allowed_sites_may_send_requests() {
    let node = plain().arg("--allow-origin").arg("https://portal.example").start();
    put(&node, "/data/f", b"0123456789").expect(201);
    let page = ("Origin", "https://portal.example");
    let preflight =
        [page, ("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "authorization, range")];
    let answer = ask(&node, "OPTIONS", "/data/new", &preflight, &[]).expect(204);
    assert_eq!(answer.field("access-control-allow-origin"), Some("https://portal.example"));
    assert_eq!(answer.field("access-control-allow-headers"), Some("authorization, range"));
    assert!(answer.field("access-control-allow-methods").unwrap().contains("PROPFIND"));
    assert!(answer.field("access-control-max-age").unwrap().parse::<u32>().unwrap() > 0);
    let read =
        ask(&node, "GET", "/data/f", &[page, ("Range", "bytes=2-3"), ("Want-Digest", "adler32")], &[]).expect(206);
    let exposed = read.field("access-control-expose-headers").unwrap();
    for field in ["Content-Range", "Digest", "ETag", "Lock-Token"] {
        assert!(exposed.contains(field), "{field}: {exposed}");
    }
    assert_eq!(read.field("vary"), Some("Origin"));
    assert_eq!(read.field("access-control-allow-credentials"), None, "no cookie of ours counts for another site");
    // Refusals must be readable by the page as well.
    let none = ask(&node, "GET", "/data/none", &[page], &[]).expect(404);
    assert_eq!(none.field("access-control-allow-origin"), Some("https://portal.example"));
    let other = ("Origin", "https://evil.example");
    assert_eq!(ask(&node, "GET", "/data/f", &[other], &[]).expect(200).field("access-control-allow-origin"), None);
    assert_eq!(ask(&node, "OPTIONS", "/data/f", &[other, preflight[1]], &[]).status, 403);
    let closed = open();
    assert_eq!(ask(&closed, "OPTIONS", "/data/f", &preflight, &[]).status, 403);
}

#[test]
fn a_preflight_needs_no_credential() {
    let setup = Setup::new().data_export("rw").arg("--plain").arg("--allow-origin").arg("*");
    let node = setup.start();
    let preflight = [("Origin", "https://any.example"), ("Access-Control-Request-Method", "GET")];
    assert_eq!(ask(&node, "OPTIONS", "/data/f", &preflight, &[]).status, 204);
    let answer = ask(&node, "GET", "/data/f", &preflight[..1], &[]).expect(401);
    assert_eq!(answer.field("access-control-allow-origin"), Some("https://any.example"));
    assert!(answer.field("access-control-expose-headers").unwrap().contains("WWW-Authenticate"));
}

#[test]
fn listings_are_compressed_and_files_are_not() {
    let node = open();
    for at in 0..500 {
        fs::write(node.data(&format!("a-rather-long-name-{at:05}")), b"").unwrap();
    }
    put(&node, "/data/f", &vec![b'x'; 100_000]).expect(201);
    let packs = ("Accept-Encoding", "gzip, deflate, br");
    for (method, target, fields) in [
        ("PROPFIND", "/data/", vec![packs, ("Depth", "1")]),
        ("GET", "/data/", vec![packs]),
        ("GET", "/data/", vec![packs, ("Accept", "application/json")]),
        ("GET", "/api/v1/openapi.json", vec![packs]),
    ] {
        let packed = ask(&node, method, target, &fields, &[]);
        assert_eq!(packed.field("content-encoding"), Some("gzip"), "{method} {target}: {packed:?}");
        assert!(packed.fields.iter().any(|(name, value)| name == "vary" && value == "Accept-Encoding"));
        let mut text = String::new();
        GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
        assert!(text.len() > 2 * packed.body.len(), "{method} {target}");
        let plain = ask(&node, method, target, &fields[1..], &[]);
        assert_eq!(plain.field("content-encoding"), None);
        assert_eq!(plain.text(), text);
    }
    for accepted in ["gzip", "*"] {
        let file = ask(&node, "GET", "/data/f", &[("Accept-Encoding", accepted)], &[]).expect(200);
        assert_eq!((file.field("content-encoding"), file.body.len()), (None, 100_000));
    }
    let head = Raw::to(&node).ask("HEAD", "/data/", &[packs], &[]);
    assert_eq!(head.status, 200);
}

#[test]
fn a_long_listing_is_complete() {
    let node = open();
    for at in 0..10_050 {
        fs::File::create(node.data(&format!("{at:05}"))).unwrap();
    }
    // A program reads all of it from one page.
    let all = get(&node, "/data/").expect(200);
    assert_eq!(all.text().matches("<td class=\"t\">").count(), 10_050);
    assert!(!all.text().contains("?page="));
    let people = ("Accept", "text/html,application/xhtml+xml");
    let first = ask(&node, "GET", "/data/", &[people], &[]).expect(200).text();
    assert!(
        first.contains("./09999\"")
            && !first.contains("./10000\"")
            && first.contains("rel=\"next\" href=\"?page=2&amp;")
    );
    let last = ask(&node, "GET", "/data/?page=2&sort=name&order=asc", &[people], &[]).expect(200).text();
    assert!(last.contains("./10049\"") && !last.contains("./09999\"") && !last.contains("rel=\"next\""));
    let json = ask(&node, "GET", "/data/", &[("Accept", "application/json")], &[]).expect(200);
    let listing: Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!((listing["v"].as_u64(), listing["path"].as_str()), (Some(1), Some("/data")));
    assert_eq!(listing["entries"].as_array().unwrap().len(), 10_050);
    let root = ask(&node, "GET", "/", &[("Accept", "application/json")], &[]).expect(200);
    let root: Value = serde_json::from_slice(&root.body).unwrap();
    assert_eq!((root["entries"][0]["path"].as_str(), root["entries"][0]["kind"].as_str()), (Some("data"), Some("dir")));
}

#[test]
fn the_type_of_a_file_follows_from_its_name() {
    let node = open();
    for (name, kind, runs) in [
        ("a.txt", "text/plain", false),
        ("a.HTML", "text/html", true),
        ("a.svg", "image/svg+xml", true),
        ("a.fits", "application/fits", false),
        ("a.tar.gz", "application/gzip", false),
        ("a", "application/octet-stream", false),
        (".txt", "application/octet-stream", false),
    ] {
        let target = format!("/data/{name}");
        put(&node, &target, b"x").expect(201);
        let file = get(&node, &target).expect(200);
        let content_type = file.field("content-type").unwrap();
        assert_eq!(content_type, kind, "{name}");
        assert_eq!(file.field("content-security-policy").is_some_and(|p| p.contains("sandbox")), runs, "{name}");
        assert_eq!(file.field("x-content-type-options"), Some("nosniff"));
        let found = ask(&node, "PROPFIND", &target, &[("Depth", "0")], &[]).expect(207).text();
        assert!(found.contains(&format!("<D:getcontenttype>{content_type}</D:getcontenttype>")), "{found}");
    }
}

#[test]
fn files_that_every_browser_requests_need_no_credential() {
    for setup in [Setup::new().data_export("ro").arg("--plain"), plain()] {
        let node = setup.start();
        for target in ["/favicon.ico", "/robots.txt", "/.well-known/openid-configuration", "/.well-known/security.txt"]
        {
            let answer = get(&node, target).expect(404);
            assert_eq!(answer.field("www-authenticate"), None, "{target}");
        }
    }
    let closed = Setup::new().data_export("ro").arg("--plain").start();
    for target in ["/data/f", "/none/f"] {
        assert_eq!(get(&closed, target).status, 401, "{target}: an anonymous client does not see whether it exists");
    }
    let public = open();
    put(&public, "/data/f", b"x").expect(201);
    assert_eq!(get(&public, "/none/f").status, 404);
    // A credential for another site does not prevent access to public files.
    for credential in ["Bearer eyJhbGciOiJFUzI1NiJ9.e30.c2ln", "Negotiate abc=", "Basic bWU6eW91", "Bearer lhk1_x"] {
        let shown = [("Authorization", credential)];
        assert_eq!(ask(&public, "GET", "/data/f", &shown, &[]).status, 200, "{credential}");
        assert_eq!(ask(&public, "PROPFIND", "/data/f", &[shown[0], ("Depth", "0")], &[]).status, 207, "{credential}");
        // But it permits no change.
        assert_eq!(ask(&public, "DELETE", "/data/f", &shown, &[]).status, 401, "{credential}");
        assert_eq!(ask(&public, "GET", "/api/v1/transfers", &shown, &[]).status, 401, "{credential}");
    }
}

#[test]
fn a_site_is_described_in_the_formats_of_the_wlcg() {
    let node = open();
    let json = |target: &str| -> Value { serde_json::from_slice(&get(&node, target).expect(200).body).unwrap() };
    let service = &json("/api/v1/srr")["storageservice"];
    let share = &service["storageshares"][0];
    assert_eq!((share["name"].as_str(), share["path"][0].as_str()), (Some("data"), Some("/data")));
    let online = &service["storagecapacity"]["online"];
    assert!(online["totalsize"].as_u64() > online["usedsize"].as_u64(), "{service}");
    assert!(service["storageendpoints"][0]["endpointurl"].as_str().unwrap().starts_with("http"), "{service}");
    let network = json("/api/v1/site-network");
    assert!(
        network["InBytesPerSec"].as_f64() >= Some(0.0) && network["OutBytesPerSec"].as_f64() >= Some(0.0),
        "{network}"
    );
    assert!(network["UpdateInterval"].as_str().unwrap().ends_with(" seconds"), "{network}");
    assert!(network["MonitoredInterfaces"].is_array(), "{network}");
}
