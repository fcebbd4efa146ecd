//! The audit trail: actions are queued while their requests run, and stored a moment later, many in one write.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::database::Database;
use crate::database::actions::ActionRow;

/// How often queued actions are stored.
const KEEP_EVERY: Duration = Duration::from_millis(500);
/// Actions that wait to be stored; with more, requests wait.
const WAITING_MAX: usize = 10_000;
/// Actions of one write.
const AT_ONCE: usize = 1_000;

/// Queues actions for the audit trail.
#[derive(Clone, Debug)]
pub struct AuditTrail(mpsc::Sender<ActionRow>);

/// The receiving end of the trail.
pub type ActionReceiver = mpsc::Receiver<ActionRow>;

/// A trail, and its other end.
pub fn trail() -> (AuditTrail, ActionReceiver) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (AuditTrail(sender), receiver)
}

impl AuditTrail {
    /// Queues an action. Waits where actions come faster than they can be stored: none is lost while the hub runs.
    pub async fn note(&self, action: ActionRow) {
        let _ = self.0.send(action).await;
    }
}

/// Stores queued actions until the hub stops, and then the rest.
pub async fn run(database: Database, mut noted: ActionReceiver, mut stop: watch::Receiver<bool>) {
    let mut is_stopping = false;
    while !is_stopping {
        tokio::select! {
            _ = stop.changed() => is_stopping = true,
            () = tokio::time::sleep(KEEP_EVERY) => {}
        }
        loop {
            let mut rows = Vec::new();
            while rows.len() < AT_ONCE
                && let Ok(row) = noted.try_recv()
            {
                rows.push(row);
            }
            if rows.is_empty() {
                break;
            }
            let count = rows.len();
            if let Err(error) = database.keep_actions(rows).await {
                tracing::error!(%error, count, "actions cannot be kept: they are missing in the audit trail");
            }
        }
    }
}
