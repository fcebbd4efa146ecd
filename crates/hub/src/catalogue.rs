//! The catalogue of a collaboration: the rights to enter, change and remove names, and the workers that carry out rules.
//!
//! The tables are in [`database::catalogue`](crate::database::catalogue). Replicas are made by jobs of the queue.

pub mod audits;
pub mod data;
pub mod orders;
pub mod remover;
pub mod rule_worker;
pub mod rules;
pub mod storage;
pub mod subscriptions;
pub mod to_api;
pub mod webhooks;

use model::v1::hub::Role;
use model::{Fault, Refusal};
use replicas::{DataName, NameError};
use web::Refused;

use crate::database::DatabaseError;
use crate::database::catalogue::DataRow;
use crate::roles::Member;
use crate::state::{HubState, unavailable};
use crate::time;

/// The most names in one request.
pub const NAMES_MAX: usize = 1_000;

/// The refusal for an error of the database: a request that contradicts the stored state is a conflict (409).
pub(crate) fn refused(error: DatabaseError) -> Refused {
    match error {
        DatabaseError::Refused(reason) => Refused::new(409, reason),
        other => unavailable(other).into(),
    }
}

fn bad(reason: impl Into<String>) -> Refused {
    Refused::new(400, reason)
}

fn bad_name(error: &NameError) -> Refused {
    bad(error.to_string())
}

/// Reads a name of data.
///
/// # Errors
/// The text is not a name.
pub fn name_of(text: &str) -> Result<DataName, Refused> {
    text.parse().map_err(|error| bad_name(&error))
}

/// Finds a name in the catalogue.
///
/// # Errors
/// The text is not a name, or the catalogue does not have it.
pub async fn find(hub: &HubState, text: &str) -> Result<DataRow, Refused> {
    let name = name_of(text)?;
    let row = hub.database.data(&name).await.map_err(refused)?;
    row.ok_or_else(|| Refused::new(404, format!("there is no {name} here")))
}

/// Requires that a member may enter and change names in a scope. A user's own scope is made when it is first needed.
///
/// # Errors
/// The scope belongs to another account.
pub async fn require_scope(hub: &HubState, member: &Member, scope: &str) -> Result<(), Refused> {
    let account = match hub.database.scope_account(scope).await.map_err(refused)? {
        Some(account) => account,
        None if scope == own_scope(&member.owner) => {
            hub.database.make_scope(scope.to_owned(), member.owner.clone(), time::now()).await.map_err(refused)?
        }
        None => {
            let own_scope = own_scope(&member.owner);
            let reason = format!(
                "there is no scope {scope}; yours is {own_scope}, and an operator makes others: PUT /api/v1/scopes/{scope}"
            );
            return Err(Refused::new(404, reason));
        }
    };
    if account == member.owner || member.role >= Role::Operator {
        return Ok(());
    }
    let reason = format!("the scope {scope} belongs to {account}: only {account} and operators may change its names");
    Err(Refusal::new(Fault::Auth, reason).into())
}

/// The scope of a user: `user.NAME`, with the characters replaced that a scope cannot have.
pub fn own_scope(owner: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = owner.chars().map(plain).take(replicas::SCOPE_BYTES_MAX - "user.".len()).collect();
    format!("user.{name}")
}

/// Reads a time: RFC 3339, or empty for never.
fn time_or_never(what: &str, text: &str) -> Result<Option<i64>, Refused> {
    if text.is_empty() {
        return Ok(None);
    }
    let at = time::parse(text)
        .ok_or_else(|| bad(format!("{what} {text:?} is not a valid time: write 2026-12-24T18:00:00Z")))?;
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_a_valid_scope() {
        assert_eq!(own_scope("ann"), "user.ann");
        let long = own_scope(&"/DC=example/CN=ann b".repeat(10));
        assert!(replicas::check_scope(&long).is_ok(), "{long}");
    }
}
