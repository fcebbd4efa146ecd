//! Templates: the pairs that they expand to, remarks, and errors.

use super::*;
use crate::mesh::{Mesh, TestKind};

/// The template of a collaboration: a mesh, a class, a host without an agent.
const COLLAB: &str = r#"{"_meta":{"display-name":"Collab"},
 "archives":{"ours":{"archiver":"http","data":{"schema":2,"_url":"https://arch.example.org/logstash","op":"put"}}},
 "addresses":{"a":{"address":"a.example.org","labels":{"v6":{"address":"2001:db8::a"}},"tags":["eu"]},
   "b":{"address":"b.example.org","pscheduler-address":"b.example.org:443"},"c":{"address":"198.51.100.3","no-agent":true}},
 "address-classes":{"eu":{"data-source":{"type":"current-config"},"match-filter":{"type":"tag","tag":"eu"}}},
 "groups":{"mesh":{"type":"mesh","addresses":[{"name":"a"},{"name":"b"}],"excludes-self":"host"},
   "hub":{"type":"disjoint","unidirectional":true,"a-addresses":[{"class":"eu"}],"b-addresses":[{"name":"c"}]}},
 "schedules":{"s6h":{"repeat":"PT6H","slip":"PT6H","sliprand":true}},
 "tests":{"tp":{"type":"throughput","spec":{"source":"{% address[0] %}","dest":"{% address[1] %}","duration":"PT30S"}},
   "lb":{"type":"latencybg","spec":{"source":"{% address[0] %}","dest":"{% address[1] %}","flip":"{% flip %}"}},
   "tr":{"type":"trace","spec":{"source":"{% address[0] %}","dest":"{% address[1] %}"}}},
 "tasks":{"t1":{"group":"mesh","test":"tp","schedule":"s6h","archives":["ours"]},"t2":{"group":"mesh","test":"lb"},
   "t3":{"group":"hub","test":"lb"},"t4":{"group":"mesh","test":"tr","schedule":"s6h"}}}"#;

fn mesh(imported: &PsconfigImport) -> Vec<(String, String, TestKind)> {
    let mesh = Mesh::of(&Config::parse(&imported.toml).unwrap()).unwrap();
    mesh.tests.into_iter().map(|test| (test.from, test.to, test.kind)).collect()
}

#[test]
fn a_template_becomes_a_configuration_with_remarks() {
    let imported = import(COLLAB).unwrap();
    let tests = mesh(&imported);
    let of = |kind| {
        tests.iter().filter(|test| test.2 == kind).map(|test| (test.0.as_str(), test.1.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(of(TestKind::Throughput), [("a", "b"), ("a", "b")], "both directions");
    assert_eq!(of(TestKind::Latency), [("a", "b"), ("a", "c")]);
    assert_eq!(of(TestKind::Path), [("a", "b")]);
    assert!(
        imported.toml.contains("twamp://198.51.100.3") && imported.toml.contains("lasts = \"30s\""),
        "{}",
        imported.toml
    );
    let remarks = imported.remarks.join("\n");
    for part in ["archive ours", "labels and remote addresses", "unidirectional", "slip is not imported"] {
        assert!(remarks.contains(part), "{part}: {remarks}");
    }
}

fn template(rest: &str) -> String {
    format!(
        "{{\"addresses\":{{{}}},\"tests\":{{\"l\":{{\"type\":\"latencybg\",\"spec\":{{}}}}}},\"tasks\":{{\"t\":{{\"group\":\"g\",\"test\":\"l\"}}}},{rest}}}",
        ["a", "b", "c", "d"]
            .map(|name| format!(
                "\"{name}\":{{\"address\":\"{name}.example\",\"tags\":[\"t{name}\"],\"host\":\"h{}\"}}",
                if name < "c" { 1 } else { 2 }
            ))
            .join(",")
    )
}

fn pairs(rest: &str) -> Vec<(String, String)> {
    mesh(&import(&template(rest)).unwrap_or_else(|error| panic!("{error}")))
        .into_iter()
        .map(|(a, b, _)| (a, b))
        .collect()
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn groups_expand_as_perfsonar_expands_them() {
    let all = "\"addresses\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}]";
    let between_hosts = [pair("a", "c"), pair("a", "d"), pair("b", "c"), pair("b", "d")];
    assert_eq!(pairs(&format!("\"groups\":{{\"g\":{{\"type\":\"mesh\",{all}}}}}")), between_hosts, "not within a host");
    let every = pairs(&format!("\"groups\":{{\"g\":{{\"type\":\"mesh\",{all},\"excludes-self\":\"address\"}}}}"));
    assert_eq!(every.len(), 6);
    let disjoint = "\"groups\":{\"g\":{\"type\":\"disjoint\",\"a-addresses\":[{\"name\":\"a\"}],\"b-addresses\":[{\"name\":\"c\"},{\"name\":\"d\"}],\
                    \"excludes\":[{\"local-address\":{\"name\":\"a\"},\"target-addresses\":[{\"name\":\"d\"}]}]}}";
    assert_eq!(pairs(disjoint), [pair("a", "c")]);
}

#[test]
fn classes_and_filters_select_addresses() {
    let of = |filter: &str| {
        pairs(&format!(
            "\"groups\":{{\"g\":{{\"type\":\"mesh\",\"addresses\":[{{\"class\":\"k\"}}],\"excludes-self\":\"address\"}}}},\
             \"address-classes\":{{\"k\":{{\"match-filter\":{filter}}},\"x\":{{\"match-filter\":{{\"type\":\"tag\",\"tag\":\"ta\"}}}}}},\
             \"hosts\":{{\"h1\":{{\"tags\":[\"one\"]}}}}"
        ))
    };
    let tag = |name: &str| format!("{{\"type\":\"tag\",\"tag\":\"t{name}\"}}");
    let or = format!("{{\"type\":\"or\",\"filters\":[{},{}]}}", tag("a"), tag("d"));
    assert_eq!(of(&or), [pair("a", "d")]);
    assert_eq!(of("{\"type\":\"host\",\"tag\":\"one\"}"), [pair("a", "b")]);
    let not = format!(
        "{{\"type\":\"and\",\"filters\":[{{\"type\":\"not\",\"filter\":{}}},{{\"type\":\"not\",\"filter\":{{\"type\":\"address-class\",\"class\":\"x\"}}}}]}}",
        tag("d")
    );
    assert_eq!(of(&not), [pair("b", "c")]);
}

#[test]
fn includes_are_merged_and_cycles_are_refused() {
    let part = "{\"groups\":{\"g\":{\"type\":\"mesh\",\"addresses\":[{\"name\":\"a\"},{\"name\":\"c\"}]}}}";
    let whole = template("\"includes\":[\"https://x.example/part\"]");
    let imported = import_with(&whole, &mut |url| {
        assert_eq!(url, "https://x.example/part");
        Ok(part.to_owned())
    });
    assert_eq!(mesh(&imported.unwrap()).len(), 1);
    let circle = |_: &str| Ok("{\"includes\":[\"https://x.example/part\"]}".to_owned());
    assert!(import_with(&whole, &mut { circle }).unwrap_err().to_string().contains("includes itself"));
    let missing = import(&template(
        "\"groups\":{\"g\":{\"type\":\"mesh\",\"addresses\":[]}},\"includes\":[\"https://x.example/y\"]",
    ))
    .unwrap();
    assert!(missing.remarks.iter().any(|remark| remark.contains("https://x.example/y")), "{:?}", missing.remarks);
}

#[test]
fn an_invalid_template_is_refused_with_its_place() {
    let refused = |rest: &str| import(&template(rest)).unwrap_err().to_string();
    let group = "\"groups\":{\"g\":{\"type\":\"mesh\",\"addresses\":[{\"name\":\"a\"},{\"name\":\"c\"}]}}";
    assert!(import("[]").unwrap_err().to_string().contains("object"));
    assert!(import("{}").unwrap_err().to_string().contains("no addresses"));
    assert!(refused("\"groups\":{}").contains("no such group"));
    assert!(refused("\"groups\":{\"g\":{\"type\":\"star\"}}").contains("groups g"));
    assert!(
        refused("\"groups\":{\"g\":{\"type\":\"mesh\",\"addresses\":[{\"name\":\"z\"}]}}").contains("no address z")
    );
    let circle = "\"groups\":{\"g\":{\"type\":\"mesh\",\"addresses\":[{\"class\":\"k\"}]}},\
                  \"address-classes\":{\"k\":{\"match-filter\":{\"type\":\"address-class\",\"class\":\"k\"}}}";
    assert!(refused(circle).contains("refers to itself"));
    let with = |tests: &str, schedule: &str| {
        format!(
            "{{\"addresses\":{{\"a\":{{\"address\":\"a\"}},\"c\":{{\"address\":\"c\"}}}},{group},\"tests\":{{\"t\":{tests}}},\
             \"schedules\":{{\"s\":{schedule}}},\"tasks\":{{\"t\":{{\"group\":\"g\",\"test\":\"t\",\"schedule\":\"s\"}}}}}}"
        )
    };
    let error = |tests: &str, schedule: &str| import(&with(tests, schedule)).unwrap_err().to_string();
    let tp = "{\"type\":\"throughput\",\"spec\":{\"duration\":\"PT10S\"}}";
    assert!(error(tp, "{\"repeat\":\"P1000Y\"}").contains("schedules s repeat"));
    assert!(error(tp, "{\"repeat\":\"PT1S\"}").contains("every"));
    assert!(error(tp, "{\"repeat\":\"often\"}").contains("ISO 8601"));
    assert!(
        error("{\"type\":\"throughput\",\"spec\":{\"parallel\":-3}}", "{\"repeat\":\"PT1H\"}").contains("parallel")
    );
    assert!(error("{\"type\":\"latency\",\"spec\":{\"source\":\"x.example\"}}", "{}").contains("address[0]"));
    let many: Vec<String> = (0..10_000).map(|at| format!("\"n{at}\":{{\"address\":\"n{at}\"}}")).collect();
    let many = format!("{{\"addresses\":{{{}}},\"groups\":{{}},\"tests\":{{}},\"tasks\":{{}}}}", many.join(","));
    assert!(import(&many).unwrap_err().to_string().contains("10000 addresses"));
}
