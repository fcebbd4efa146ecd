//! What nodes say about the transfers of all flows that begin there, twice a second: a request for those that wait and one for those that run,
//! and one for each that has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::v1::{Stage, Transfer};
use nodeapi::PageQuery;
use parking_lot::Mutex;

use super::RunLab;
use super::lease::Leases;
use crate::record::NodeSample;

/// How often a node is asked for its transfers.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often a node is asked for its load.
const LOAD_EVERY: Duration = Duration::from_secs(10);
/// Transfers on a page.
const PAGE: usize = 1000;
/// The status of a node that does not know a transfer.
const UNKNOWN: u16 = 404;

/// The last answers of a node.
pub(crate) struct NodeSampler {
    site: String,
    leases: Arc<Leases>,
    /// The transfers that flows follow, and what is known of them.
    followed: Mutex<HashMap<Uuid, TransferSample>>,
    loads: Mutex<Vec<NodeSample>>,
    error: Mutex<Option<String>>,
}

/// What is known of a transfer.
#[derive(Clone, Debug)]
pub(crate) enum TransferSample {
    /// Nothing yet.
    Awaited,
    /// Its node described it at a moment.
    Known(Instant, Box<Transfer>),
    /// Its node does not know it: it was restarted, and the transfer was that of a scratch place which is gone.
    Forgotten,
}

impl NodeSampler {
    /// A sampler of a site's node, for the holder of the site's scratch place.
    pub fn new(site: &str, leases: Arc<Leases>) -> NodeSampler {
        NodeSampler {
            site: site.to_owned(),
            leases,
            followed: Mutex::default(),
            loads: Mutex::default(),
            error: Mutex::default(),
        }
    }

    /// Asks until `over` is set. Times of loads count from `began`; what the process of the node has is known in a lab only.
    pub fn run(&self, began: Instant, over: &AtomicBool, lab: Option<&dyn RunLab>) {
        let mut load_due = Instant::now();
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            *self.error.lock() = self.read_transfers().err().map(|error| error.to_string());
            if load_due <= asked {
                self.read_load(began, lab);
                load_due = asked + LOAD_EVERY;
            }
            std::thread::sleep(INTERVAL.saturating_sub(asked.elapsed()));
        }
    }

    /// Begins to follow a transfer.
    pub fn follow(&self, id: Uuid) {
        self.followed.lock().insert(id, TransferSample::Awaited);
    }

    /// Ends to follow a transfer.
    pub fn leave(&self, id: Uuid) {
        self.followed.lock().remove(&id);
    }

    /// What is known of a transfer that is followed.
    pub fn transfer(&self, id: Uuid) -> TransferSample {
        self.followed.lock().get(&id).cloned().unwrap_or(TransferSample::Awaited)
    }

    /// Why the last request failed, if it did.
    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    /// The loads so far.
    pub fn take_loads(&self) -> Vec<NodeSample> {
        std::mem::take(&mut self.loads.lock())
    }

    /// Lists what has not ended, and asks for each transfer that is followed and not listed.
    fn read_transfers(&self) -> Result<(), nodeapi::Error> {
        let Some(api) = self.leases.place_api(&self.site) else { return Ok(()) };
        let followed: Vec<Uuid> = self.followed.lock().keys().copied().collect();
        if followed.is_empty() {
            return Ok(());
        }
        let mut listed = HashMap::new();
        for state in [Stage::Queued, Stage::Running] {
            let mut after = None;
            loop {
                let page = api.list_transfers(PageQuery { state: Some(state), after, limit: Some(PAGE) })?;
                let at = Instant::now();
                listed.extend(page.transfers.into_iter().map(|transfer| (transfer.id, (at, transfer))));
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        for id in followed {
            let found = match listed.remove(&id) {
                Some((at, transfer)) => TransferSample::Known(at, Box::new(transfer)),
                None => match api.transfer(id) {
                    Ok(transfer) => TransferSample::Known(Instant::now(), Box::new(transfer)),
                    Err(nodeapi::Error::Refused { problem, .. }) if problem.status == UNKNOWN => {
                        TransferSample::Forgotten
                    }
                    Err(error) => return Err(error),
                },
            };
            if let Some(known) = self.followed.lock().get_mut(&id) {
                *known = found;
            }
        }
        Ok(())
    }

    fn read_load(&self, began: Instant, lab: Option<&dyn RunLab>) {
        let Some(Ok(capabilities)) = self.leases.place_api(&self.site).map(|api| api.capabilities()) else { return };
        let load = capabilities.load;
        let process = lab.and_then(|lab| lab.node_process(&self.site));
        self.loads.lock().push(NodeSample {
            site: self.site.clone(),
            at_s: began.elapsed().as_secs_f64(),
            running: load.running,
            queued: load.queued,
            load: load.load_percent as f64 / 100.0 / load.processors.max(1) as f64,
            resident_bytes: process.map(|process| process.resident_bytes),
            descriptors: process.map(|process| process.descriptors),
        });
    }
}
