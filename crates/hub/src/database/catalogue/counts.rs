//! Counters of rules, accounts and endpoints. A transaction collects their changes and writes them together.

use std::collections::BTreeMap;

use serde_json::json;
use sqlx::{AnyConnection, Row};

use super::states::LockState;
use super::stores::{self, StoreChange};
use super::{history, quotas};
use crate::database::Result;

/// Changes of the counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RuleChange {
    /// Locks, by [`LockState::code`].
    locks: [i64; 3],
    bytes: i64,
    bytes_left: i64,
}

/// The changes of counters that a transaction has collected.
#[derive(Debug, Default)]
pub(super) struct Counts {
    rules: BTreeMap<i64, RuleChange>,
    /// Files and bytes, by account and endpoint.
    held: BTreeMap<(String, i64), (i64, i64)>,
    /// By endpoint.
    stores: BTreeMap<i64, StoreChange>,
}

impl Counts {
    /// Counts a lock that is added, removed, or changes its state.
    pub fn lock(&mut self, rule: i64, from: Option<LockState>, to: Option<LockState>, bytes: i64) {
        let change = self.rules.entry(rule).or_default();
        for (state, by) in [(from, -1), (to, 1)] {
            let Some(state) = state else { continue };
            change.locks[state.code() as usize] += by;
            change.bytes += by * bytes;
            change.bytes_left += if state == LockState::Ok { 0 } else { by * bytes };
        }
    }

    /// Counts files and bytes that an account holds at an endpoint; negative for fewer.
    pub fn hold(&mut self, account: &str, store: i64, files: i64, bytes: i64) {
        let held = self.held.entry((account.to_owned(), store)).or_default();
        held.0 += files;
        held.1 += bytes;
    }

    /// Counts files and bytes that an endpoint has or will get; negative for fewer.
    pub fn store(&mut self, store: i64, files: i64, bytes: i64) {
        let stored = self.stores.entry(store).or_default();
        stored.files += files;
        stored.bytes += bytes;
    }

    /// Counts bytes at an endpoint that no rule holds; negative for fewer.
    pub fn spare(&mut self, store: i64, bytes: i64) {
        self.stores.entry(store).or_default().spare += bytes;
    }

    /// Writes the changes. A rule without missing replicas is recorded as fulfilled.
    pub async fn apply(self, connection: &mut AnyConnection, now: i64) -> Result<()> {
        for (store, change) in self.stores {
            stores::count(connection, store, change).await?;
        }
        for ((account, store), (files, bytes)) in self.held {
            quotas::count(connection, &account, store, files, bytes).await?;
        }
        for (rule, change) in self.rules {
            let [replicating, ok, stuck] = change.locks;
            let sql = "UPDATE rules SET replicating = replicating + $1, ok = ok + $2, stuck = stuck + $3, bytes = bytes + $4, \
                       bytes_left = bytes_left + $5, idle_until = 0, \
                       fulfilled = CASE WHEN replicating + $1 + stuck + $3 > 0 THEN NULL ELSE fulfilled END WHERE number = $6";
            let query = sqlx::query(sql).bind(replicating).bind(ok).bind(stuck).bind(change.bytes);
            query.bind(change.bytes_left).bind(rule).execute(&mut *connection).await?;
            note_fulfilled(connection, rule, now).await?;
        }
        Ok(())
    }
}

/// Records that a rule is fulfilled, once.
pub(super) async fn note_fulfilled(connection: &mut AnyConnection, rule: i64, now: i64) -> Result<()> {
    let sql = "UPDATE rules SET fulfilled = $1 WHERE number = $2 AND fulfilled IS NULL AND replicating = 0 AND stuck = 0 \
               AND error IS NULL AND NOT EXISTS (SELECT 1 FROM evaluations WHERE rule = $2) RETURNING id, name, ok, bytes";
    let Some(row) = sqlx::query(sql).bind(now).bind(rule).fetch_optional(&mut *connection).await? else {
        return Ok(());
    };
    let (id, name, ok, bytes): (String, i64, i64, i64) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let facts = json!({"rule": id, "copies": ok, "bytes": bytes});
    history::append(connection, name, "hub", "complete", &facts, now).await
}
