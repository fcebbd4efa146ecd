//! The audit trail: actions are queued while their requests run, and stored a moment later, many in one write.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::database::Database;
use crate::database::actions::ActionRow;

/// How often queued actions are stored.
const STORE_EVERY: Duration = Duration::from_millis(500);
/// The most actions that wait to be stored; further requests wait until there is room.
const WAITING_MAX: usize = 10_000;
/// The most actions in one write.
const WRITE_ROWS_MAX: usize = 1_000;

/// Queues actions for the audit trail.
#[derive(Clone, Debug)]
pub struct AuditTrail(mpsc::Sender<ActionRow>);

/// The queued actions, for [`run`].
pub type ActionReceiver = mpsc::Receiver<ActionRow>;

/// Makes the queue of the audit trail: the end that requests write to, and the end that [`run`] stores from.
pub fn channel() -> (AuditTrail, ActionReceiver) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (AuditTrail(sender), receiver)
}

impl AuditTrail {
    /// Queues an action. Waits if actions come faster than they can be stored, so none is lost while the hub runs.
    pub async fn note(&self, action: ActionRow) {
        let _ = self.0.send(action).await;
    }
}

/// Stores queued actions until the hub stops, and then those that are left.
pub async fn run(database: Database, mut actions: ActionReceiver, mut stop: watch::Receiver<bool>) {
    let mut is_stopping = false;
    while !is_stopping {
        tokio::select! {
            _ = stop.changed() => is_stopping = true,
            () = tokio::time::sleep(STORE_EVERY) => {}
        }
        loop {
            let mut rows = Vec::new();
            while rows.len() < WRITE_ROWS_MAX
                && let Ok(row) = actions.try_recv()
            {
                rows.push(row);
            }
            if rows.is_empty() {
                break;
            }
            let count = rows.len();
            if let Err(error) = database.keep_actions(rows).await {
                tracing::error!(%error, count, "actions cannot be stored: they are missing in the audit trail");
            }
        }
    }
}
