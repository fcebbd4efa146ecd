//! The records of a node for lookup services.

use model::id::Uuid;
use serde_json::{Map, Value, json};

use super::facts::HostFacts;
use crate::config::{LookupService, Register, WatchedPlace};

/// How long a flat record is valid: a day, so that a node that is gone is not found any longer.
const TTL: &str = "PT24H";
/// The version of pScheduler's contract that a node speaks.
const PSCHEDULER: &str = "5.2";

/// A node that is registered.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredNode<'a> {
    /// Its name at the watch.
    pub name: &'a str,
    /// Its entry in the configuration.
    pub place: &'a WatchedPlace,
    /// Its host.
    pub facts: &'a HostFacts,
}

/// The id of a record, always the same for a name: a record that is sent again replaces the earlier one.
fn id(name: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("longhaul:{name}").as_bytes())
}

/// The URL at which other hosts reach a service.
fn locator(service: LookupService, host: &str) -> String {
    match service {
        LookupService::Twamp => format!("tcp://{host}:862"),
        LookupService::Pscheduler => format!("https://{host}/pscheduler"),
    }
}

/// The tests of pScheduler that a service answers.
fn tests(service: LookupService) -> &'static [&'static str] {
    match service {
        LookupService::Twamp => &["latency", "latencybg", "rtt"],
        LookupService::Pscheduler => &["throughput"],
    }
}

/// Flat maps of lists: the host, its interface, its services.
pub fn legacy(register: &Register, node: RegisteredNode<'_>) -> Vec<Value> {
    let facts = node.facts;
    let addresses: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
    let mut common = Map::new();
    common.insert("ttl".into(), json!([TTL]));
    common.insert("client-uuid".into(), json!([id(node.name)]));
    common.insert("location-sitename".into(), json!([node.place.site]));
    if let Some((latitude, longitude)) = node.place.location {
        common.insert("location-latitude".into(), json!([latitude.to_string()]));
        common.insert("location-longitude".into(), json!([longitude.to_string()]));
    }
    if !register.communities.is_empty() {
        common.insert("group-communities".into(), json!(register.communities));
    }
    if !node.place.domain.is_empty() {
        common.insert("group-domains".into(), json!([node.place.domain]));
    }
    let record = |kind: &str, own: Vec<(&str, Value)>| {
        let mut record = common.clone();
        record.insert("type".into(), json!([kind]));
        record.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(record)
    };
    let mut host = vec![("host-name", json!([facts.name])), ("pshost-bundle", json!(["longhaul"]))];
    host.push(("pshost-bundle-version", json!([env!("CARGO_PKG_VERSION")])));
    host.extend(facts.kernel.iter().map(|kernel| ("host-os-kernel", json!([kernel]))));
    host.extend(facts.is_virtual.map(|is_virtual| ("host-vm", json!([u8::from(is_virtual).to_string()]))));
    host.extend(facts.settings.iter().map(|setting| (setting.flat_name, json!([setting.value]))));
    let mut records = vec![record("host", host)];
    let mut interface = vec![("interface-addresses", json!(addresses))];
    if let Some((name, capacity, mtu)) = &facts.nic {
        interface.push(("interface-name", json!([name])));
        interface.extend(capacity.map(|it| ("interface-capacity", json!([it.to_string()]))));
        interface.extend(mtu.map(|it| ("interface-mtu", json!([it.to_string()]))));
    }
    records.push(record("interface", interface));
    for service in &register.services {
        records.push(record(
            "service",
            vec![
                ("service-name", json!([format!("{} {}", node.name, service.word())])),
                ("service-type", json!([service.word()])),
                ("service-version", json!([PSCHEDULER])),
                ("service-locator", json!([locator(*service, &facts.name)])),
                ("service-host", json!([facts.name])),
                ("psservice-eventtypes", json!(tests(*service))),
            ],
        ));
    }
    records
}

/// The document of 2026.
pub fn interface(register: &Register, node: RegisteredNode<'_>) -> Value {
    let facts = node.facts;
    let mut host = Map::new();
    host.insert("client_uuid".into(), json!(id(node.name)));
    host.insert("name".into(), json!([facts.name]));
    let mut location = json!({"sitename": node.place.site});
    if let Some((latitude, longitude)) = node.place.location {
        location["latitude"] = json!(latitude);
        location["longitude"] = json!(longitude);
    }
    host.insert("location".into(), location);
    for setting in &facts.settings {
        let value = setting.value.parse::<u64>().map_or_else(|_| json!(setting.value), |number| json!(number));
        host.insert(setting.name.into(), value);
    }
    let texts = [("role", &register.role), ("access_policy", &register.access_policy)];
    host.extend(texts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))));
    host.extend(facts.is_virtual.map(|is_virtual| ("vm".to_owned(), json!(is_virtual))));
    if !register.communities.is_empty() {
        host.insert("group_communities".into(), json!(register.communities));
    }
    let tests: Vec<&str> = register.services.iter().flat_map(|service| tests(*service)).copied().collect();
    if register.services.contains(&LookupService::Pscheduler) {
        let service = json!({
            "urls": [locator(LookupService::Pscheduler, &facts.name)], "version": PSCHEDULER,
            "tools": ["iperf3"], "tests": ["throughput"],
        });
        host.insert("pscheduler_service".into(), service);
    }
    let (name, capacity, mtu) = facts.nic.clone().unwrap_or_else(|| (facts.name.clone(), None, None));
    let mut document = json!({"name": name, "addresses": facts.addresses, "host": host});
    let capacity = capacity.or_else(|| node.place.link.map(|rate| rate.0));
    capacity.into_iter().for_each(|capacity| document["capacity"] = json!(capacity));
    mtu.into_iter().for_each(|mtu| document["mtu"] = json!(mtu));
    if !tests.is_empty() {
        document["pscheduler_tests"] = json!(tests);
    }
    document
}
