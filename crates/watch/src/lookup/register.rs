//! One thread for each lookup service: it registers our nodes, and renews what is registered before it expires.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use web::{Dialer, HttpUrl};

use super::facts::HostFacts;
use super::write::{Registered, interface, legacy};
use crate::collector::{StopSignal, node_api};
use crate::config::{PlaceKind, RecordForm, Register, WatchedPlace};
use crate::state::Watch;

/// From one registration to the next; records are valid for a day.
const EVERY: Duration = Duration::from_secs(3_600);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(300);

/// Starts the thread of a lookup service, until it is over or nobody wants it any more.
///
/// # Errors
/// The host gives no thread.
pub fn start(watch: Arc<Watch>, url: String, dialer: Dialer, over: StopSignal) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("lookup".into()).spawn(move || run(&watch, &url, &dialer, &over))
}

fn run(watch: &Watch, url: &str, dialer: &Dialer, over: &StopSignal) {
    let wanted = || watch.watched.load().config.registers.iter().find(|register| register.url == url).cloned();
    let mut renewals = HashMap::new();
    while !over.is_set()
        && let Some(register) = wanted()
    {
        let places = watch.watched.load().config.places.clone();
        let mut is_done = true;
        for (name, place) in places.iter().filter(|(name, place)| is_registered(&register, name, place)) {
            if let Err(why) = register_node(&register, name, place, &mut renewals, dialer) {
                tracing::warn!(node = name, url, why, "a node is not registered");
                is_done = false;
            }
        }
        let pause = if is_done { EVERY } else { AGAIN };
        over.sleep_while(pause, || wanted().as_ref() == Some(&register));
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
        return Err(format!("{} has no public address: nobody could reach it", facts.name));
    }
    let node = Registered { name, place, facts: &facts };
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

/// Renews a record where it is known, or registers it anew: a service may have forgotten it.
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
    // A service that tells no URI takes the next one as a new record, and lets this one expire.
    let own = answer["uri"].as_array().and_then(|all| all.first()).unwrap_or(&answer["uri"]).as_str();
    if let Some(own) = own {
        let absolute = HttpUrl::parse(url).and_then(|url| url.join(&format!("/{}", own.trim_start_matches('/'))));
        renewals.insert(key, absolute.map_err(|error| format!("the record's uri {own}: {error}"))?.to_string());
    }
    Ok(())
}

/// What is known of a node's host: its name's addresses, and what the node tells.
fn facts(place: &WatchedPlace) -> Result<HostFacts, String> {
    let PlaceKind::Node { address, .. } = &place.kind else { return Err("it is no node".into()) };
    let authority = HttpUrl::parse(&format!("https://{address}/")).map_err(|error| format!("{address}: {error}"))?;
    let host = authority.host().to_owned();
    let addresses = (host.as_str(), 0).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
    // A node that does not tell, or not now, is registered without its settings.
    let audit = node_api(place).and_then(|api| api.host().map_err(|error| error.to_string()));
    if let Err(why) = &audit {
        tracing::debug!(host, why, "a node tells no settings of its host");
    }
    Ok(HostFacts::new(&host, addresses, audit.ok().as_ref()))
}
