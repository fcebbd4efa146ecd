//! One thread for each interface: it reads the counters at the configured interval.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use web::Dialer;

use super::snmp::SnmpInterface;
use super::{Reading, text};
use crate::collector::{StopSignal, node_api};
use crate::config::{CounterSource, Interface, SnmpLogin};
use crate::fetch::bytes;
use crate::state::Watch;

/// Starts the thread of an interface. It ends when the signal is set, or the configuration does not have the interface any more.
///
/// # Errors
/// The host cannot start a thread.
pub fn start(
    watch: Arc<Watch>,
    name: String,
    dialer: Dialer,
    stop: StopSignal,
    runtime: Handle,
) -> std::io::Result<JoinHandle<()>> {
    // The usual stack, 2 MiB: an SNMP session has two buffers of 64 KiB, which are on the stack until it is boxed.
    let thread = std::thread::Builder::new().name(format!("counters {name}"));
    thread.spawn(move || run(&watch, &name, &dialer, &stop, &runtime))
}

fn run(watch: &Watch, name: &str, dialer: &Dialer, stop: &StopSignal, runtime: &Handle) {
    let configured = || watch.watched.load().config.interfaces.iter().find(|interface| interface.name == name).cloned();
    let mut agent = KnownAgent::default();
    while !stop.is_set()
        && let Some(interface) = configured()
    {
        let taken = read(watch, &interface, dialer, &mut agent)
            .and_then(|readings| runtime.block_on(watch.take_readings(name, readings)));
        if let Err(why) = taken {
            tracing::warn!(interface = name, why, "the counters of an interface cannot be read");
            watch.interfaces().record_error(name, why);
        }
        stop.sleep_while(interface.every, || configured().as_ref() == Some(&interface));
    }
}

/// The agent of the present configuration of an interface: its session lasts from one reading to the next.
#[derive(Default)]
struct KnownAgent(Option<(CounterSource, SnmpInterface)>);

impl KnownAgent {
    /// Reads the interface of an agent; `source` is its configuration.
    fn read(
        &mut self,
        source: &CounterSource,
        agent: &str,
        interface: &str,
        login: &SnmpLogin,
    ) -> Result<Reading, String> {
        let interface = match self.0.take() {
            Some((known, interface)) if known == *source => interface,
            _ => SnmpInterface::new(agent, interface, login.clone()),
        };
        self.0.insert((source.clone(), interface)).1.read()
    }
}

/// Reads an interface now.
fn read(watch: &Watch, interface: &Interface, dialer: &Dialer, known: &mut KnownAgent) -> Result<Vec<Reading>, String> {
    match &interface.source {
        CounterSource::Node(node) => {
            let place = watch.watched.load().config.places.get(node).cloned();
            let api = node_api(&place.ok_or_else(|| format!("there is no node {node}"))?)?;
            let counters = api.network().map_err(|error| format!("{node}: {}", model::fault::with_causes(&error)))?;
            text::json(counters.to_string().as_bytes()).map_err(|why| format!("{node}: {why}"))
        }
        CounterSource::Csv(from) => text::csv(&bytes(from, dialer)?).map_err(|why| format!("{from}: {why}")),
        CounterSource::Json(from) => text::json(&bytes(from, dialer)?).map_err(|why| format!("{from}: {why}")),
        source @ CounterSource::Snmp { agent, interface, login } => {
            Ok(vec![known.read(source, agent, interface, login)?])
        }
    }
}
