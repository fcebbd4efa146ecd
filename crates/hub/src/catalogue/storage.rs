//! Endpoints with storage: how much they hold, and how much an account may still store there.

use model::v1::hub::{Quota, Quotas, Role, StorageUse, StorageUses};
use replicas::Expression;
use web::Refused;

use super::{bad, refused};
use crate::roles::Member;
use crate::state::HubState;

/// The most quotas of an account.
const QUOTAS_MAX: usize = 1_000;

/// The endpoints that an expression matches, or all; with the bytes that the member's rules hold at each.
///
/// # Errors
/// The expression is invalid, or the database cannot be read.
pub async fn list(hub: &HubState, member: &Member, expression: Option<&str>) -> Result<StorageUses, Refused> {
    let expression: Option<Expression> =
        expression.map(str::parse).transpose().map_err(|error: replicas::ExpressionError| bad(error.to_string()))?;
    let stores = hub.database.stores().await.map_err(refused)?;
    let held = hub.database.held_bytes(&member.owner).await.map_err(refused)?;
    let topology = hub.topology.load();
    let left = hub.database.quotas_left(&member.owner, &topology).await.map_err(refused)?;
    let matches = |place: &&crate::topology::StoragePlace| {
        expression.as_ref().is_none_or(|expression| expression.matches(&place.endpoint, &place.attributes))
    };
    let to_api = |place: &crate::topology::StoragePlace| {
        let used = stores.get(&place.endpoint).copied().unwrap_or_default();
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        StorageUse {
            endpoint: place.endpoint.clone(),
            site: place.site.clone(),
            url: place.url.clone(),
            naming: place.naming.word().to_owned(),
            attributes: place.attributes.clone(),
            files: count(used.files),
            bytes: count(used.bytes),
            capacity_bytes: place.capacity_bytes,
            held_bytes: count(held.get(&used.id).copied().unwrap_or(0)),
            quota_left_bytes: left.get(&place.endpoint).copied(),
        }
    };
    Ok(StorageUses { storage: topology.storage.values().filter(matches).map(to_api).collect() })
}

/// The quotas of an account.
///
/// # Errors
/// The member may not see them, or the database cannot be read.
pub async fn quotas(hub: &HubState, member: &Member, account: &str) -> Result<Quotas, Refused> {
    if member.owner != account {
        member.require(Role::Operator)?;
    }
    let quotas = hub.database.quotas(account).await.map_err(refused)?;
    let to_api = |(expression, bytes): (String, i64)| Quota { expression, bytes: u64::try_from(bytes).unwrap_or(0) };
    Ok(Quotas { quotas: quotas.into_iter().map(to_api).collect() })
}

/// Replaces the quotas of an account.
///
/// # Errors
/// An expression is invalid, or the database cannot be written: nothing has changed.
pub async fn set_quotas(hub: &HubState, account: &str, quotas: &Quotas) -> Result<(), Refused> {
    if account.is_empty() || account.len() > 512 || account.chars().any(char::is_control) {
        return Err(bad("an account has a name of 512 bytes at most"));
    }
    if quotas.quotas.len() > QUOTAS_MAX {
        return Err(bad(format!("an account has {QUOTAS_MAX} quotas at most")));
    }
    let mut checked = std::collections::BTreeMap::new();
    for quota in &quotas.quotas {
        let expression: Expression =
            quota.expression.parse().map_err(|error: replicas::ExpressionError| bad(error.to_string()))?;
        checked.insert(expression.to_string(), i64::try_from(quota.bytes).unwrap_or(i64::MAX));
    }
    hub.database.set_quotas(account.to_owned(), checked.into_iter().collect()).await.map_err(refused)
}
