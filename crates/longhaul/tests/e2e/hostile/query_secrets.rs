//! Secrets in the query of a request do not appear in anything that the node writes down.

use std::fs;

use super::requests::Requests;
use crate::node::Setup;
use crate::wait::{LONG, until};

/// Parameters that carry secrets in some protocol, and two unknown ones.
const NAMES: [&str; 22] = [
    "temp_url_sig",
    "id_token",
    "client_secret",
    "authz",
    "access_token",
    "refresh_token",
    "X-Amz-Signature",
    "X-Amz-Security-Token",
    "X-Amz-Credential",
    "X-Goog-Signature",
    "Signature",
    "sig",
    "se",
    "sv",
    "AWSAccessKeyId",
    "api_key",
    "apikey",
    "code",
    "password",
    "session",
    "what_is_this",
    "unheard-of",
];

#[test]
fn no_query_parameter_is_logged() {
    let node = Setup::new().data_export("rw").arg("--plain").start();
    fs::write(node.data("f"), b"x").unwrap();
    let key = node.grant(&["--export", "data", "--write"]);
    for (at, name) in NAMES.into_iter().enumerate() {
        for (kind, name) in [
            ("a", name.to_owned()),
            ("b", name.to_uppercase()),
            ("c", format!("%{:02x}{}", name.as_bytes()[0], &name[1..])),
        ] {
            let secret = format!("hunter2{kind}{at}z");
            let target = format!("/data/f?x=1&{name}={secret}");
            Requests::new(&node, None).ask("GET", &target, &[], b"");
            if name != "authz" && !name.eq_ignore_ascii_case("access_token") {
                Requests::new(&node, Some(&key)).ask("GET", &target, &[], b"");
            }
            let url = format!("http://127.0.0.1:1/f?{name}={secret}&{name}={secret}");
            Requests::new(&node, Some(&key)).ask("COPY", "/data/new", &[("Source", &url)], b"");
            Requests::new(&node, Some(&key)).ask("COPY", "/data/f", &[("Destination", &url)], b"");
        }
    }
    let written = || {
        let names = ["audit.jsonl", "audit-nobody.jsonl"].map(|name| node.state().join(name));
        names.iter().filter_map(|path| fs::read_to_string(path).ok()).collect::<String>() + &node.log()
    };
    until("the last request is written down", LONG, || written().matches("COPY").count() >= NAMES.len() * 3);
    let all = written();
    let leaking: Vec<&str> = all.lines().filter(|line| line.contains("hunter2")).collect();
    assert!(leaking.is_empty(), "{} lines contain secrets, the first of them: {}", leaking.len(), leaking[0]);
}
