//! Clients of FTS3's REST API, as PyPI has them: FTS's own commands and bindings, and Rucio's conveyor. A hub has
//! nodes move what they order.

mod bindings;
mod commands;
pub mod hub_with_nodes;
#[path = "../../../hub/tests/servers/postgres.rs"]
#[allow(dead_code, reason = "the end-to-end tests need more of it")]
mod postgres;
mod rucio;

use crate::case::Case;

/// FTS's commands.
const COMMANDS: &str = "fts3";
/// FTS's easy bindings in Python.
const BINDINGS: &str = "fts3-easy";
/// Rucio's submitter, poller and finisher.
const RUCIO: &str = "rucio-conveyor";

/// Whether a client is one of these: docs/fts.md describes it.
pub fn is_of(client: &str) -> bool {
    [COMMANDS, BINDINGS, RUCIO].contains(&client)
}

/// All of them.
pub fn all() -> Vec<Case> {
    [commands::CASES, bindings::CASES, rucio::CASES].concat()
}
