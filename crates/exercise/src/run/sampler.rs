//! What nodes say about their transfers, twice a second with one request for each node, for all flows that begin there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::v1::Transfer;
use nodeapi::PageQuery;
use parking_lot::Mutex;

use super::RunLab;
use super::lease::Leases;
use crate::record::NodeSample;

/// How often a node is asked for its transfers.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often a node is asked for its load.
const LOAD_EVERY: Duration = Duration::from_secs(10);
/// Transfers on a page: a node of an exercise has hundreds at most that have not ended, and old ones fall out.
const PAGE: usize = 1000;

/// The last answers of a node.
pub(crate) struct NodeSampler {
    site: String,
    leases: Arc<Leases>,
    transfers: Mutex<HashMap<Uuid, SampledTransfer>>,
    loads: Mutex<Vec<NodeSample>>,
    error: Mutex<Option<String>>,
}

/// A transfer as its node described it at a moment.
#[derive(Clone, Debug)]
pub(crate) struct SampledTransfer {
    /// When the answer came.
    pub at: Instant,
    /// The transfer.
    pub transfer: Transfer,
}

impl NodeSampler {
    /// A sampler of a site's node, for the holder of the site's scratch place.
    pub fn new(site: &str, leases: Arc<Leases>) -> NodeSampler {
        NodeSampler {
            site: site.to_owned(),
            leases,
            transfers: Mutex::default(),
            loads: Mutex::default(),
            error: Mutex::default(),
        }
    }

    /// Asks until `over` is set. Times of loads count from `began`; what the process of the node has is known in a lab only.
    pub fn run(&self, began: Instant, over: &AtomicBool, lab: Option<&dyn RunLab>) {
        let mut load_due = Instant::now();
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            match self.read_transfers() {
                Ok(()) => *self.error.lock() = None,
                Err(error) => *self.error.lock() = Some(error.to_string()),
            }
            if load_due <= asked {
                self.read_load(began, lab);
                load_due = asked + LOAD_EVERY;
            }
            std::thread::sleep(INTERVAL.saturating_sub(asked.elapsed()));
        }
    }

    /// The last answer about a transfer.
    pub fn transfer(&self, id: Uuid) -> Option<SampledTransfer> {
        self.transfers.lock().get(&id).cloned()
    }

    /// Why the last request failed, if it did.
    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    /// The loads so far.
    pub fn take_loads(&self) -> Vec<NodeSample> {
        std::mem::take(&mut self.loads.lock())
    }

    fn read_transfers(&self) -> Result<(), nodeapi::Error> {
        let Some(api) = self.leases.place_api(&self.site) else { return Ok(()) };
        let mut after = None;
        loop {
            let query = PageQuery { state: None, after, limit: Some(PAGE) };
            let page = api.list_transfers(query)?;
            let at = Instant::now();
            let mut transfers = self.transfers.lock();
            transfers
                .extend(page.transfers.into_iter().map(|transfer| (transfer.id, SampledTransfer { at, transfer })));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
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
