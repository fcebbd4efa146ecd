//! Records of both forms are written and found again; a service that drops records, and a server that is not a lookup service.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use serde_json::{Value, json};
use web::Dialer;

use super::facts::HostFacts;
use super::write::{RegisteredNode, interface, legacy};
use super::{FoundService, find, targets};
use crate::config::Config;

const CONFIG: &str = "[node.jbo]\naddress = \"dtn.example\"\nsite = \"jodrell\"\nlocation = [53.2, -2.3]\nlink = \"100G\"\ndomain = \"janet\"\n\
                      [[register]]\nurl = \"https://lookup.example/lookup/records\"\ncommunities = [\"SKA\"]\n\
                      services = [\"pscheduler\", \"twamp\"]\nrole = \"science-dmz\"\naccess-policy = \"research-education\"\n";

fn audit() -> Value {
    json!({
        "host": {"host": {"name": "x", "kernel": "6.12", "nics": [{"name": "eth0", "speed_bit_s": 100_000_000_000u64, "mtu_bytes": 9000}]}},
        "findings": [{"id": "T01", "observed": "2147483647"}, {"id": "T11", "observed": "bbr"}, {"id": "C18", "observed": "none"}],
    })
}

fn facts() -> HostFacts {
    let addresses = ["198.51.100.3", "10.0.0.7", "2001:db8::b", "127.0.0.1"];
    HostFacts::new("dtn.example", addresses.map(|address| address.parse::<IpAddr>().unwrap()), Some(&audit()))
}

fn written() -> (Vec<Value>, Value) {
    let config = Config::parse(CONFIG).unwrap();
    let register = &config.registers[0];
    let facts = facts();
    let node = RegisteredNode { name: "jbo", place: &config.places["jbo"], facts: &facts };
    (legacy(register, node), interface(register, node))
}

#[test]
fn private_addresses_are_not_registered() {
    let (flat, document) = written();
    let addresses = json!(["198.51.100.3", "2001:db8::b"]);
    assert_eq!((&flat[1]["interface-addresses"], &document["addresses"]), (&addresses, &addresses));
}

#[test]
fn flat_records_are_maps_of_lists() {
    let (flat, _) = written();
    let kinds: Vec<&str> = flat.iter().map(|record| record["type"][0].as_str().unwrap()).collect();
    assert_eq!(kinds, ["host", "interface", "service", "service"]);
    let is_flat = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    assert!(flat.iter().all(|record| record.as_object().unwrap().values().all(is_flat)), "{flat:?}");
    assert_eq!(flat[0]["host-net-tcp-congestionalgorithm"], json!(["bbr"]));
    assert_eq!(flat[2]["service-locator"], json!(["https://dtn.example/pscheduler"]));
    assert_eq!(flat[3]["psservice-eventtypes"], json!(["latency", "latencybg", "rtt"]));
}

#[test]
fn the_document_of_2026_has_what_its_schema_requires() {
    let (_, document) = written();
    let host = &document["host"];
    assert!(document["name"] == "eth0" && host["client_uuid"].is_string() && host["name"] == json!(["dtn.example"]));
    assert_eq!((&document["capacity"], &document["mtu"]), (&json!(100_000_000_000u64), &json!(9000)));
    assert_eq!(
        (&host["net_core_rmem_max"], &host["net_ipv4_tcp_congestion_control"]),
        (&json!(2147483647), &json!("bbr"))
    );
    assert_eq!(
        (&host["vm"], &host["role"], &host["location"]["latitude"]),
        (&json!(false), &json!("science-dmz"), &json!(53.2))
    );
    assert_eq!(host["pscheduler_service"]["urls"], json!(["https://dtn.example/pscheduler"]));
}

fn dialer() -> Dialer {
    let roots = Arc::new(rustls::RootCertStore::empty());
    crate::notify::dialer(auth::client_certificate::http_client_config(roots, None).unwrap())
}

/// A server that answers one request after another with these statuses and documents; its thread returns the requests.
fn service(answers: Vec<(u16, Value)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/lookup/records", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for (status, answer) in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 65_536];
            let mut request = String::new();
            let is_whole = |request: &str| {
                let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
                let length =
                    head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                body.len() >= length.unwrap_or(0)
            };
            while !is_whole(&request) {
                let count = socket.read(&mut buffer).unwrap();
                request.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
            }
            requests.push(request);
            let body = answer.to_string();
            write!(socket, "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                .unwrap();
        }
        requests
    });
    (url, served)
}

#[test]
fn a_registered_node_is_found_by_either_form() {
    let (flat, document) = written();
    let expected = |url: &str, domain: Option<&str>| FoundService {
        host: "dtn.example".into(),
        url: url.into(),
        site: Some("jodrell".into()),
        location: Some((53.2, -2.3)),
        domain: domain.map(str::to_owned),
    };
    let (url, served) = service(vec![(200, json!(flat))]);
    let found = find(&url, Some("SKA & more"), &dialer()).unwrap();
    let services = ["pscheduler://dtn.example", "twamp://dtn.example"].map(|url| expected(url, Some("janet")));
    assert_eq!(found, services);
    assert!(
        served.join().unwrap()[0].starts_with("GET /lookup/records?type=service&group-communities=SKA%20%26%20more ")
    );
    let (url, served) = service(vec![(200, json!({"hits": {"hits": [{"_source": document}, {"_source": 7}]}}))]);
    let found = find(&url.replace("records", "_search"), None, &dialer()).unwrap();
    assert_eq!(found, [expected("pscheduler://dtn.example", None)]);
    assert!(served.join().unwrap()[0].contains(r#"{"range":{"expires":{"gt":"now"}}}"#));
    let config = Config::parse(&targets(&services)).unwrap();
    assert_eq!(config.places["dtn.example"].location, Some((53.2, -2.3)));
}

#[test]
fn records_of_other_domains_cannot_inject_configuration() {
    let record = |locator: &str| {
        json!([{"type": ["service"], "service-type": ["twamp"], "service-locator": [locator],
        "location-sitename": ["a\"\n[node.evil]\naddress = \"evil\""], "location-latitude": ["1e999"], "location-longitude": ["5"]}])
    };
    for (locator, count) in
        [("tcp://good.example:862", 1), ("tcp://a b", 0), ("tcp://-x", 0), ("", 0), ("https://[2001:db8::7]/x", 1)]
    {
        let (url, _served) = service(vec![(200, record(locator))]);
        let found = find(&url, None, &dialer()).unwrap();
        let config = Config::parse(&targets(&found)).unwrap();
        assert_eq!((config.places.len(), config.nodes().count()), (count, 0), "{locator}: {}", targets(&found));
    }
    let (url, _served) = service(vec![(200, json!({"title": "a page"}))]);
    assert!(find(&url, None, &dialer()).unwrap_err().contains("not a lookup service"));
}

#[test]
fn a_record_is_renewed_and_registered_anew_when_the_service_dropped_it() {
    let own = json!({"uri": ["lookup/host/7"]});
    let (url, served) = service(vec![(201, own.clone()), (200, json!({})), (404, json!({})), (201, own)]);
    let mut renewals = std::collections::HashMap::new();
    for _ in 0..3 {
        super::register::renew(&url, "jbo 0".into(), &json!({"type": ["host"]}), &mut renewals, &dialer()).unwrap();
    }
    let requests: Vec<String> =
        served.join().unwrap().iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(requests, ["/lookup/records", "/lookup/host/7", "/lookup/host/7", "/lookup/records"]);
}
