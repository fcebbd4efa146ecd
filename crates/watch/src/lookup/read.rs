//! Queries of lookup services: services that can be tested.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use web::Dialer;

use crate::fetch::bytes;

/// The largest number of records of an answer.
const RECORDS_MAX: usize = 1_000;

/// A service that another domain has registered.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundService {
    /// Its host.
    pub host: String,
    /// Its URL as a target of tests.
    pub url: String,
    /// Its site.
    pub site: Option<String>,
    /// Latitude and longitude.
    pub location: Option<(f64, f64)>,
    /// Its domain.
    pub domain: Option<String>,
}

/// Asks a lookup service for the services of a community, or for all. A URL that ends with `_search` is one of Elasticsearch.
///
/// # Errors
/// The service does not answer, or its answer has no records.
pub fn find(url: &str, community: Option<&str>, dialer: &Dialer) -> Result<Vec<FoundService>, String> {
    let is_search = url.trim_end_matches('/').ends_with("_search");
    let answer = if is_search { search(url, community, dialer)? } else { pull(url, community, dialer)? };
    let records: Vec<&Value> = match (&answer, answer["hits"]["hits"].as_array()) {
        (_, Some(hits)) => hits.iter().map(|hit| &hit["_source"]).collect(),
        (Value::Array(records), _) => records.iter().collect(),
        _ => return Err(format!("{url} answers without records: it is not a lookup service")),
    };
    Ok(records.into_iter().take(RECORDS_MAX).flat_map(services).collect())
}

fn pull(url: &str, community: Option<&str>, dialer: &Dialer) -> Result<Value, String> {
    let community =
        community.map(|it| format!("&group-communities={}", web::target::encode(it.as_bytes()))).unwrap_or_default();
    let separator = if url.contains('?') { '&' } else { '?' };
    let answer = bytes(&format!("{url}{separator}type=service{community}"), dialer)?;
    serde_json::from_slice(&answer).map_err(|error| format!("the answer of {url} is not JSON: {error}"))
}

fn search(url: &str, community: Option<&str>, dialer: &Dialer) -> Result<Value, String> {
    let mut filter = vec![json!({"range": {"expires": {"gt": "now"}}})];
    if let Some(community) = community {
        let terms = ["group-communities.keyword", "host.group_communities.keyword"];
        let terms: Vec<Value> = terms.iter().map(|name| json!({"term": {*name: community}})).collect();
        filter.push(json!({"bool": {"should": terms}}));
    }
    let query = json!({"size": RECORDS_MAX, "query": {"bool": {"filter": filter}}});
    web::post::for_document(dialer, url, &query).map_err(|refused| refused.to_string())
}

/// The services of a record of either form.
fn services(record: &Value) -> Vec<FoundService> {
    if record["host"].is_object() {
        services_of_interface(record)
    } else {
        service_of_flat(record).into_iter().collect()
    }
}

/// The text of a field, or of the first element of its list: servers differ.
fn text<'a>(record: &'a Value, name: &str) -> Option<&'a str> {
    let value = &record[name];
    value.as_array().and_then(|all| all.first()).unwrap_or(value).as_str().filter(|text| !text.is_empty())
}

fn service_of_flat(record: &Value) -> Option<FoundService> {
    if text(record, "type") != Some("service") {
        return None;
    }
    let locator = text(record, "service-locator")?;
    let host = host_of(locator)?;
    let number = |name: &str| text(record, name)?.parse().ok();
    Some(FoundService {
        url: url(text(record, "service-type")?, &host)?,
        host,
        site: text(record, "location-sitename").map(str::to_owned),
        location: number("location-latitude").zip(number("location-longitude")),
        domain: text(record, "group-domains").map(str::to_owned),
    })
}

fn services_of_interface(record: &Value) -> Vec<FoundService> {
    let host = &record["host"];
    let location = &host["location"];
    let urls = host["pscheduler_service"]["urls"].as_array();
    let locators = urls.into_iter().flatten().filter_map(Value::as_str);
    locators
        .filter_map(|locator| {
            let name = host_of(locator)?;
            Some(FoundService {
                url: url("pscheduler", &name)?,
                host: name,
                site: location["sitename"].as_str().map(str::to_owned),
                location: location["latitude"].as_f64().zip(location["longitude"].as_f64()),
                domain: None,
            })
        })
        .collect()
}

/// The URL of a service as a target; none if it cannot be tested.
fn url(service: &str, host: &str) -> Option<String> {
    match service {
        "twamp" | "pscheduler" => Some(format!("{service}://{host}")),
        "ping" => Some(format!("ping://{host}")),
        _ => None,
    }
}

/// The host of `https://HOST[:PORT]/…`, `tcp://HOST:PORT`, or `HOST[:PORT]`; none if it is neither a name nor an address.
pub(crate) fn host_of(locator: &str) -> Option<String> {
    let rest = locator.split_once("://").map_or(locator, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(v6) => format!("[{}]", v6.split(']').next()?),
        None => authority.split(':').next()?.to_owned(),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    ((1..=253).contains(&host.len()) && host.chars().all(is_name) && !host.starts_with('-')).then_some(host)
}

/// Tables of a configuration: a target for each host, with the first of its services.
pub fn targets(found: &[FoundService]) -> String {
    let by_host: BTreeMap<&str, &FoundService> = found.iter().rev().map(|found| (found.host.as_str(), found)).collect();
    let mut text = String::new();
    for found in by_host.into_values() {
        let name: String = found.host.chars().map(|c| if c == '[' || c == ']' { '_' } else { c }).collect();
        let _ = writeln!(text, "[target.{}]\nurl = {}", json!(name), json!(found.url));
        let texts = [("site", &found.site), ("domain", &found.domain)];
        for (name, value) in texts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            let _ = writeln!(text, "{name} = {}", toml::Value::from(value.as_str()));
        }
        let is_on_earth = |(latitude, longitude): &(f64, f64)| latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
        if let Some((latitude, longitude)) = found.location.filter(is_on_earth) {
            let _ = writeln!(text, "location = [{latitude:?}, {longitude:?}]");
        }
        text.push('\n');
    }
    text
}
