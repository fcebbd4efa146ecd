//! One thread for each lookup service: it registers the nodes of the watch, and renews their records before they expire.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use web::{Dialer, HttpUrl};

use super::facts::HostFacts;
use super::write::{RegisteredNode, interface, legacy};
use crate::collector::{StopSignal, node_api};
use crate::config::{PlaceKind, RecordForm, Register, WatchedPlace};
use crate::state::Watch;

/// The time from one registration to the next; records are valid for a day.
const EVERY: Duration = Duration::from_secs(3_600);
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(300);

/// Starts the thread of a lookup service. It ends when the signal is set, or the configuration does not have the service any more.
///
/// # Errors
/// The host cannot start a thread.
pub fn start(watch: Arc<Watch>, url: String, dialer: Dialer, stop: StopSignal) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("lookup".into()).spawn(move || run(&watch, &url, &dialer, &stop))
}

fn run(watch: &Watch, url: &str, dialer: &Dialer, stop: &StopSignal) {
    let configured = || watch.watched.load().config.registers.iter().find(|register| register.url == url).cloned();
    let mut renewals = HashMap::new();
    while !stop.is_set()
        && let Some(register) = configured()
    {
        let places = watch.watched.load().config.places.clone();
        let mut all_registered = true;
        for (name, place) in places.iter().filter(|(name, place)| is_registered(&register, name, place)) {
            if let Err(why) = register_node(&register, name, place, &mut renewals, dialer) {
                tracing::warn!(node = name, url, why, "a node cannot be registered");
                all_registered = false;
            }
        }
        let pause = if all_registered { EVERY } else { RETRY_PAUSE };
        stop.sleep_while(pause, || configured().as_ref() == Some(&register));
    }
}

fn is_registered(register: &Register, name: &String, place: &WatchedPlace) -> bool {
    matches!(place.kind, PlaceKind::Node { .. }) && (register.nodes.is_empty() || register.nodes.contains(name))
}

fn register_node(
    register: &Register,
    name: &str,
    place: &WatchedPlace,
    renewals: &mut HashMap<String, String>,
    dialer: &Dialer,
) -> Result<(), String> {
    let facts = facts(place)?;
    if facts.addresses.is_empty() {
        return Err(format!("{} has no public address: other domains could not reach it", facts.name));
    }
    let node = RegisteredNode { name, place, facts: &facts };
    match register.form {
        RecordForm::Interface => web::post::for_document(dialer, &register.url, &interface(register, node))
            .map(drop)
            .map_err(|why| why.to_string()),
        RecordForm::Legacy => {
            for (at, record) in legacy(register, node).iter().enumerate() {
                renew(&register.url, format!("{name} {at}"), record, renewals, dialer)?;
            }
            Ok(())
        }
    }
}

/// Renews a record; registers it anew where it is new or the service has dropped it.
pub(super) fn renew(
    url: &str,
    key: String,
    record: &Value,
    renewals: &mut HashMap<String, String>,
    dialer: &Dialer,
) -> Result<(), String> {
    if let Some(known) = renewals.get(&key) {
        match web::post::for_document(dialer, known, record) {
            Ok(_) => return Ok(()),
            Err(refused) if refused.status == Some(404) => drop(renewals.remove(&key)),
            Err(refused) => return Err(refused.to_string()),
        }
    }
    let answer = web::post::for_document(dialer, url, record).map_err(|refused| refused.to_string())?;
    // A service that returns no URI takes the next record as a new one, and lets this one expire.
    let uri = answer["uri"].as_array().and_then(|all| all.first()).unwrap_or(&answer["uri"]).as_str();
    if let Some(uri) = uri {
        let absolute = HttpUrl::parse(url).and_then(|url| url.join(&format!("/{}", uri.trim_start_matches('/'))));
        renewals.insert(key, absolute.map_err(|error| format!("the record's uri {uri}: {error}"))?.to_string());
    }
    Ok(())
}

/// The facts of a node's host: its addresses by DNS, and what its node reports.
fn facts(place: &WatchedPlace) -> Result<HostFacts, String> {
    let PlaceKind::Node { address, .. } = &place.kind else { return Err("it is not a node".into()) };
    let authority = HttpUrl::parse(&format!("https://{address}/")).map_err(|error| format!("{address}: {error}"))?;
    let host = authority.host().to_owned();
    let addresses = (host.as_str(), 0).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
    // A node that does not report its settings is registered without them.
    let audit = node_api(place).and_then(|api| api.host().map_err(|error| error.to_string()));
    if let Err(why) = &audit {
        tracing::debug!(host, why, "a node does not report the settings of its host");
    }
    Ok(HostFacts::new(&host, addresses, audit.ok().as_ref()))
}
