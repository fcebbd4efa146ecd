//! The audit trail: requests that change something are noted beside them, and kept a moment later, many in one write.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::database::Database;
use crate::database::actions::ActionRow;

/// How often what was noted is kept.
const KEEP_EVERY: Duration = Duration::from_millis(500);
/// Actions that wait to be kept; beyond, requests wait.
const WAITING_MAX: usize = 10_000;
/// Actions of one write.
const AT_ONCE: usize = 1_000;

/// Notes actions.
#[derive(Clone, Debug)]
pub struct Trail(mpsc::Sender<ActionRow>);

/// Where they are read.
pub type Noted = mpsc::Receiver<ActionRow>;

/// A trail, and its other end.
pub fn trail() -> (Trail, Noted) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Trail(sender), receiver)
}

impl Trail {
    /// Notes an action. Waits where many are noted faster than they can be kept: none is lost while the hub runs.
    pub async fn note(&self, action: ActionRow) {
        let _ = self.0.send(action).await;
    }
}

/// Keeps what is noted until told to stop, and then what is left.
pub async fn run(database: Database, mut noted: Noted, mut stop: watch::Receiver<bool>) {
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
