//! Carries out rules: evaluates them, submits the copies that they need as jobs, records the results, and releases the locks of rules that
//! have ended.
//!
//! Every step is one transaction that reads what it needs. So several hubs on one database may take turns, and a hub that is killed leaves
//! no step half done.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{orders, subscriptions};
use crate::database::{DatabaseError, Result};
use crate::state::HubState;
use crate::time;

/// How often the worker looks for work; a change wakes it earlier.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// The most jobs that one round submits, so that rules with many files do not delay the other steps.
const BATCHES_MAX: usize = 20;

/// Runs until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = hub.catalogue_wake.notified() => {}
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
        match run_round(&hub, &stop).await {
            Ok(()) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "the catalogue could not carry out its rules; it tries again"),
        }
    }
}

async fn run_round(hub: &HubState, stop: &watch::Receiver<bool>) -> Result<()> {
    let goes_on = || !*stop.borrow();
    while goes_on() && hub.database.settle_copies(Arc::clone(&hub.topology.load()), time::now()).await? > 0 {}
    while goes_on() && hub.database.end_rules(time::now()).await? {}
    while goes_on() && hub.database.end_names(time::now()).await? {}
    while goes_on() && subscriptions::run_round(hub).await? {}
    while goes_on() && hub.database.evaluate(Arc::clone(&hub.topology.load()), time::now()).await?.is_some() {}
    for _ in 0..BATCHES_MAX {
        if !goes_on() || !submit_batch(hub).await? {
            break;
        }
    }
    Ok(())
}

/// Submits a job for some of the missing copies; returns whether there were any.
async fn submit_batch(hub: &HubState) -> Result<bool> {
    let topology = Arc::clone(&hub.topology.load());
    let Some(batch) = hub.database.take_copies(topology, time::now()).await? else { return Ok(false) };
    if let Err(refusal) = orders::submit(hub, &batch).await {
        tracing::info!(
            rule = batch.rule.id,
            job = batch.id,
            reason = refusal.reason,
            "the queue refuses copies of a rule"
        );
        hub.database.return_copies(batch.id, refusal.reason, time::now()).await?;
    }
    Ok(true)
}
