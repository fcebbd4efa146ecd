//! Requests that two parsers could read differently, each with a second request hidden behind it: they are refused, the
//! connection ends, and the hidden request is not answered.

use std::fs;

use super::measures::holds;
use crate::node::Node;
use crate::web::raw::{Raw, open};

/// The hidden request, which must never be answered.
const HIDDEN: &str = "GET /data/hidden HTTP/1.1\r\nHost: h\r\n\r\n";
const CANARY: &[u8] = b"what only the hidden request brings";

/// A request without its hidden second half: its description, its bytes, and the status of its answer.
type Case = (String, Vec<u8>, u16);

/// Whether a status may replace the expected one: an unknown feature may be reported as such, and bytes that are not HTTP need no answer.
fn is_acceptable(expected: u16, status: Option<u16>) -> bool {
    match (expected, status) {
        (BAD_OR_UNKNOWN, Some(400 | 501 | 505)) | (BAD_OR_SILENT, Some(400) | None) => true,
        (expected, status) => status == Some(expected),
    }
}

const BAD_OR_UNKNOWN: u16 = 1;
const BAD_OR_SILENT: u16 = 2;

fn put(what: &str, fields: &str, body: &str, status: u16) -> Case {
    (what.to_owned(), format!("PUT /data/g HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}").into_bytes(), status)
}

fn lengths() -> Vec<Case> {
    let case =
        |value: &str| put(&format!("Content-Length {value:?}"), &format!("Content-Length: {value}\r\n"), "abc", 400);
    let values = [
        "-3",
        "+3",
        "3 ",
        "3,3 4",
        "3, 4",
        "3 3",
        "03x",
        "0x3",
        "3.0",
        "3e0",
        "",
        "٣",
        "３",
        "\u{a0}3",
        "3\u{3000}",
        "\u{85}3",
        "\x0b3",
        "3\x0c",
        "36893488147419103232",
        "18446744073709551616",
        "99999999999999999999999999999999",
        "three",
        "3\t4",
        "\"3\"",
        "3;4",
    ];
    let mut cases: Vec<Case> = values.into_iter().filter(|value| *value != "3 ").map(case).collect();
    for (what, fields) in [
        ("two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n"),
        ("two lengths, one of them empty", "Content-Length: 3\r\nContent-Length:\r\n"),
        ("two lengths of different case", "Content-Length: 3\r\ncontent-length: 0\r\n"),
        ("a space before the colon", "Content-Length : 3\r\n"),
        ("a tab before the colon", "Content-Length\t: 3\r\n"),
        ("a folded length", "Content-Length:\r\n 3\r\n"),
        ("a folded field", "A: b\r\n\tc\r\nContent-Length: 3\r\n"),
        ("a field that begins with a space", " Content-Length: 3\r\n"),
        ("a NUL in a name", "Content-\0Length: 3\r\n"),
        ("a NUL in a value", "Content-Length: 3\0\r\n"),
        ("a bare line feed", "Content-Length: 3\nA: b\r\n"),
        ("a bare carriage return", "Content-Length: 3\rA: b\r\n"),
        ("a line without a colon", "Content-Length 3\r\nContent-Length: 3\r\n"),
        ("a name of no letters", ": 3\r\nContent-Length: 3\r\n"),
        ("a name in brackets", "(Content-Length): 3\r\nContent-Length: 3\r\n"),
        ("a name beyond ASCII", "Content-Lengt\u{212a}: 3\r\nContent-Length: 3\r\n"),
    ] {
        cases.push(put(what, fields, "abc", 400));
    }
    cases
}

fn codings() -> Vec<Case> {
    let mut cases = Vec::new();
    for (value, status) in [
        ("\x0bchunked", 400),
        ("\x0cchunked", 400),
        ("\u{a0}chunked", BAD_OR_UNKNOWN),
        ("\u{3000}chunked", BAD_OR_UNKNOWN),
        ("\u{85}chunked", BAD_OR_UNKNOWN),
        ("chunked\x0b", 400),
        ("chunked\u{2003}", BAD_OR_UNKNOWN),
        ("chun\0ked", 400),
        ("\"chunked\"", 501),
        ("xchunked", 501),
        ("chunkedx", 501),
        ("chunked, chunked", 501),
        ("chunked, identity", 501),
        ("identity, chunked, identity", 501),
        ("gzip, chunked", 501),
        ("chunked;q=1", 501),
        ("identity", 501),
    ] {
        let fields = format!("Transfer-Encoding: {value}\r\n");
        cases.push(put(&format!("Transfer-Encoding {value:?}"), &fields, "0\r\n\r\n", status));
        let both = format!("{fields}Content-Length: 5\r\n");
        cases.push(put(&format!("Transfer-Encoding {value:?} and a length"), &both, "0\r\n\r\n", 400));
    }
    for (what, fields, status) in [
        ("a length before chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("a length behind chunks", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
        ("chunks of two fields", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501),
        ("chunks and identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 501),
        ("chunks behind a folded line", "Transfer-Encoding:\r\n chunked\r\n", 400),
        ("a space before the colon of chunks", "Transfer-Encoding : chunked\r\n", 400),
        ("chunks behind a bare line feed", "A: b\nTransfer-Encoding: chunked\r\n", 400),
    ] {
        cases.push(put(what, fields, "0\r\n\r\n", status));
    }
    cases
}

fn chunks() -> Vec<Case> {
    let long = "0".repeat(40);
    let case = |body: &str| put(&format!("chunks {:.40?}", body), "Transfer-Encoding: chunked\r\n", body, 400);
    let mut bodies = vec![
        "\x0b3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\x0b\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\x0c\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\u{a0}\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\r\rabc\r\n0\r\n\r\n".to_owned(),
        "3\rabc\r\n0\r\n\r\n".to_owned(),
        "3;a\rb\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3;a\nb\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\nabc\r\n0\r\n\r\n".to_owned(),
        "3\r\nabc\n0\r\n\r\n".to_owned(),
        "3\r\nabc\r0\r\n\r\n".to_owned(),
        "3\r\nabcd\r\n0\r\n\r\n".to_owned(),
        "0x3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "+3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "-3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3 3\r\nabc\r\n0\r\n\r\n".to_owned(),
        "three\r\nabc\r\n0\r\n\r\n".to_owned(),
        ";a\r\nabc\r\n0\r\n\r\n".to_owned(),
        "\r\nabc\r\n0\r\n\r\n".to_owned(),
        "10000000000000003\r\nabc\r\n0\r\n\r\n".to_owned(),
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3\0\r\nabc\r\n0\r\n\r\n".to_owned(),
        "3;\0\r\nabc\r\n0\r\n\r\n".to_owned(),
        "0\r\nA: b\n\r\n\r\n".to_owned(),
        "0\r\nA\r\n\r\n".to_owned(),
        "0\r\nA : b\r\n\r\n".to_owned(),
        "0\r\n b\r\n\r\n".to_owned(),
        "0\n\r\n".to_owned(),
        "0\r\n\n".to_owned(),
    ];
    bodies.push(format!("{long}3\r\nabc\r\n0\r\n\r\n"));
    bodies.push(format!("3;{}\r\nabc\r\n0\r\n\r\n", "e".repeat(20_000)));
    bodies.iter().map(|body| case(body)).collect()
}

fn heads() -> Vec<Case> {
    let get = |what: &str, text: &str, status: u16| (what.to_owned(), text.as_bytes().to_vec(), status);
    let folded = "GET /data/f HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n";
    vec![
        get("two Hosts", "GET /data/f HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", 400),
        get("no Host", "GET /data/f HTTP/1.1\r\nA: b\r\n\r\n", 400),
        get("a Host of two", "GET /data/f HTTP/1.1\r\nHost: h, i\r\n\r\n", 400),
        get("a Host with a path", "GET /data/f HTTP/1.1\r\nHost: h/i\r\n\r\n", 400),
        get("a folded field", folded, 400),
        get("a tab in the request line", "GET\t/data/f\tHTTP/1.1\r\nHost: h\r\n\r\n", 400),
        get("two spaces", "GET  /data/f HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        get("a space in the target", "GET /data/f x HTTP/1.1\r\nHost: h\r\n\r\n", BAD_OR_UNKNOWN),
        get("something behind the version", "GET /data/f HTTP/1.1 x\r\nHost: h\r\n\r\n", 400),
        get("a version of two letters", "GET /data/f HTTP/11\r\nHost: h\r\n\r\n", BAD_OR_UNKNOWN),
        get("a version of another age", "GET /data/f HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        get("a small version", "GET /data/f http/1.1\r\nHost: h\r\n\r\n", BAD_OR_UNKNOWN),
        get("a carriage return in the target", "GET /data/\rf HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        get("a method in brackets", "G(T /data/f HTTP/1.1\r\nHost: h\r\n\r\n", BAD_OR_SILENT),
        get("bare line feeds", "GET /data/f HTTP/1.1\nHost: h\n\n", 400),
    ]
}

fn answered(node: &Node, bytes: &[u8]) -> (Option<u16>, bool, Vec<u8>) {
    let mut raw = Raw::to(node);
    raw.try_send([bytes, HIDDEN.as_bytes()].concat());
    // The node sees the end of the requests, and does not wait for more.
    raw.shut();
    let first = raw.receive();
    let mut rest = Vec::new();
    let mut statuses = Vec::new();
    while let Some(answer) = raw.receive() {
        statuses.push(answer.status);
        rest.extend(answer.body);
    }
    let status = first.as_ref().map(|answer| answer.status);
    rest.extend(first.map(|answer| answer.body).unwrap_or_default());
    (status, statuses.is_empty(), rest)
}

#[test]
fn no_request_is_smuggled_behind_another() {
    let node = open();
    fs::write(node.data("hidden"), CANARY).unwrap();
    fs::write(node.data("f"), b"x").unwrap();
    let cases = [lengths(), codings(), chunks(), heads()].concat();
    assert!(cases.len() >= 100, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for (what, bytes, expected) in cases {
        let (status, is_alone, body) = answered(&node, &bytes);
        if !is_acceptable(expected, status) {
            wrong.push(format!("{what}: {status:?}, expected {expected}"));
        }
        if !is_alone || holds(&body, CANARY) {
            wrong.push(format!("{what}: what was hidden behind it was answered"));
        }
        if node.data("g").exists() {
            wrong.push(format!("{what}: a file was made"));
            fs::remove_file(node.data("g")).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{} of the cases:\n{}", wrong.len(), wrong.join("\n"));
}
