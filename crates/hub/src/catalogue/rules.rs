//! Rules: makes, changes, ends and explains them.

use std::sync::Arc;

use model::v1::hub::{NotPlaced, Role, RuleChange, RuleOrder, RuleWhy};
use replicas::{Expression, Shortage};
use uuid::Uuid;
use web::Refused;

use super::{bad, find, refused, time_or_never, to_api};
use crate::database::catalogue::{LockState, NewRule, RuleRow, RuleUpdate};
use crate::limits;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// The most locks that an explanation names.
const LOCKS_MAX: i64 = 100;

/// Why a rule was not made.
pub enum MakeRuleError {
    /// The order is invalid, or the member has no right to it.
    Refused(Refused),
    /// Too few endpoints have room for the copies.
    NotPlaced(NotPlaced),
}

impl From<Refused> for MakeRuleError {
    fn from(refused: Refused) -> MakeRuleError {
        MakeRuleError::Refused(refused)
    }
}

/// Makes a rule.
///
/// # Errors
/// The order is invalid, or the rule could not be fulfilled: nothing has changed.
pub async fn make(hub: &HubState, member: &Member, order: &RuleOrder) -> Result<RuleRow, MakeRuleError> {
    let new = new_rule(hub, member, order).await?;
    let (id, name, account) = (new.id.clone(), new.name, new.account.clone());
    let topology = Arc::clone(&hub.topology.load());
    let shortage = hub.database.make_rule(new, topology, time::now()).await.map_err(refused)?;
    if let Some(shortage) = shortage {
        return Err(MakeRuleError::NotPlaced(not_placed(shortage)));
    }
    hub.catalogue_wake.notify_one();
    let rule = of_id(hub, &id).await?;
    if rule.account != account || rule.name != name {
        return Err(Refused::new(409, format!("{id} is the id of another rule")).into());
    }
    Ok(rule)
}

fn not_placed(shortage: Shortage) -> NotPlaced {
    NotPlaced {
        problem: Refused::new(409, shortage.to_string()).problem(),
        copies: u32::try_from(shortage.able.len()).unwrap_or(u32::MAX),
        able: shortage.able,
        full: shortage.full,
    }
}

async fn new_rule(hub: &HubState, member: &Member, order: &RuleOrder) -> Result<NewRule, Refused> {
    let id = match &order.id {
        None => Uuid::now_v7(),
        Some(text) => text.parse().map_err(|_| bad(format!("{text:?} is not a valid id of a rule: it is a UUID")))?,
    };
    let row = find(hub, &order.name).await?;
    let account = order.account.as_ref().unwrap_or(&member.owner);
    if *account != member.owner && member.role < Role::Operator {
        return Err(Refused::new(403, format!("only operators make rules for another account, such as {account}")));
    }
    let own_community = if member.community.is_empty() { "default" } else { &member.community };
    let community = order.community.as_deref().unwrap_or(own_community);
    if !member.may_submit_for(community) {
        return Err(Refused::new(
            403,
            format!("{} makes rules for the community {own_community}, not for {community}", member.owner),
        ));
    }
    Ok(NewRule {
        id: id.to_string(),
        name: row.id,
        account: account.clone(),
        community: community.to_owned(),
        ..check(order)?
    })
}

/// Checks an order without its name and account; returns the rule without them.
///
/// # Errors
/// The order is invalid for every name.
pub(super) fn check(order: &RuleOrder) -> Result<NewRule, Refused> {
    let copies = order.copies.unwrap_or(1);
    if !(1..=limits::COPIES_MAX).contains(&copies) {
        return Err(bad(format!("copies: 1 to {}", limits::COPIES_MAX)));
    }
    let priority = order.priority.unwrap_or(3);
    if !(1..=5).contains(&priority) {
        return Err(bad("priority is 1 to 5"));
    }
    let now = time::now();
    let later = |what: &str, text: &Option<String>| -> Result<Option<i64>, Refused> {
        let at = text.as_deref().map(|text| time_or_never(what, text)).transpose()?.flatten();
        match at {
            Some(at) if at <= now => Err(bad(format!("{what} has passed"))),
            at => Ok(at),
        }
    };
    Ok(NewRule {
        id: String::new(),
        name: 0,
        account: String::new(),
        community: String::new(),
        activity: word("activity", order.activity.as_deref().unwrap_or("default"))?,
        priority: i64::from(priority),
        copies: i64::from(copies),
        expression: expression(&order.at)?.to_string(),
        source_expression: order.from.as_deref().map(expression).transpose()?.map(|from| from.to_string()),
        grouping: order.grouping,
        weight: order.weight.as_deref().map(|text| word("weight", text)).transpose()?,
        comment: order.comment.as_deref().map(comment).transpose()?,
        expires: later("expires", &order.expires)?,
        deadline: later("deadline", &order.deadline)?,
    })
}

fn expression(text: &str) -> Result<Expression, Refused> {
    text.parse().map_err(|error: replicas::ExpressionError| bad(error.to_string()))
}

fn word(what: &str, text: &str) -> Result<String, Refused> {
    let is_plain = |c: char| c.is_alphanumeric() || " -_.:/+()".contains(c);
    if !text.is_empty() && text.len() <= 256 && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    let text: String = text.chars().take(80).collect();
    Err(bad(format!("{what} {text:?} is not a valid name: letters, digits, spaces and -_.:/+(), 256 bytes at most")))
}

fn comment(text: &str) -> Result<String, Refused> {
    if text.len() > limits::METADATA_BYTES_MAX {
        Err(bad(format!("a comment has {} bytes at most", limits::METADATA_BYTES_MAX)))
    } else {
        Ok(text.to_owned())
    }
}

/// A rule by its id.
///
/// # Errors
/// There is no rule with this id.
pub async fn of_id(hub: &HubState, id: &str) -> Result<RuleRow, Refused> {
    let none = || Refused::new(404, format!("there is no rule {} here", id.chars().take(80).collect::<String>()));
    let id: Uuid = id.parse().map_err(|_| none())?;
    hub.database.rule(&id.to_string()).await.map_err(refused)?.ok_or_else(none)
}

/// A rule that the member may change.
async fn changeable(hub: &HubState, member: &Member, id: &str) -> Result<RuleRow, Refused> {
    let rule = of_id(hub, id).await?;
    if member.may_change(&rule.account, &rule.community) {
        return Ok(rule);
    }
    let account = &rule.account;
    Err(Refused::new(403, format!("the rule {id} belongs to {account}: only {account} and operators may change it")))
}

/// Changes a rule, and returns it.
///
/// # Errors
/// There is no such rule, or it belongs to another account: nothing has changed.
pub async fn change(hub: &HubState, member: &Member, id: &str, change: &RuleChange) -> Result<RuleRow, Refused> {
    let rule = changeable(hub, member, id).await?;
    if change.priority.is_some_and(|priority| !(1..=5).contains(&priority)) {
        return Err(bad("priority is 1 to 5"));
    }
    let from = match change.from.as_deref() {
        None => None,
        Some("") => Some(None),
        Some(text) => Some(Some(expression(text)?.to_string())),
    };
    let update = RuleUpdate {
        expires: change.expires.as_deref().map(|text| time_or_never("expires", text)).transpose()?,
        priority: change.priority.map(i64::from),
        activity: change.activity.as_deref().map(|text| word("activity", text)).transpose()?,
        source_expression: from,
        suspended: change.suspended,
        comment: change.comment.as_deref().map(comment).transpose()?,
    };
    hub.database.change_rule(rule.number, member.owner.clone(), update, time::now()).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    of_id(hub, id).await
}

/// Ends a rule now. Replicas that no other rule holds may be deleted a day later.
///
/// # Errors
/// There is no such rule, or it belongs to another account: nothing has changed.
pub async fn end(hub: &HubState, member: &Member, id: &str) -> Result<RuleRow, Refused> {
    let rule = changeable(hub, member, id).await?;
    let now = time::now();
    if rule.expires.is_some_and(|at| at <= now) {
        return Ok(rule);
    }
    let update = RuleUpdate { expires: Some(Some(now)), ..RuleUpdate::default() };
    hub.database.change_rule(rule.number, member.owner.clone(), update, now).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    Ok(RuleRow { expires: Some(now), ..rule })
}

/// Explains a rule: its progress, its rate, its expected end, and the copies that are stuck, with the reasons.
///
/// # Errors
/// There is no such rule, or the database cannot be read.
pub async fn why(hub: &HubState, id: &str) -> Result<RuleWhy, Refused> {
    let rule = of_id(hub, id).await?;
    let now = time::now();
    let locks = hub.database.locks_left(rule.number, LOCKS_MAX).await.map_err(refused)?;
    let work = hub.database.copy_work(rule.number).await.map_err(refused)?;
    let files: Vec<i64> = locks.iter().map(|lock| lock.file).collect();
    let names = hub.database.data_of(&files).await.map_err(refused)?;
    let stuck = locks.iter().find(|lock| lock.state == LockState::Stuck).and_then(|lock| lock.error.as_deref());
    let text = to_api::sentence(&rule, &work, stuck, now);
    let locks = locks.iter().filter_map(|lock| Some(to_api::lock(lock, &names.get(&lock.file)?.name))).collect();
    let expected = work.expected(rule.bytes_left, now).map(time::show);
    let name = hub.database.data_of(&[rule.name]).await.map_err(refused)?;
    Ok(RuleWhy {
        rule: to_api::rule(&rule, name.get(&rule.name).map(|row| &row.name)),
        text,
        rate_bit_s: work.rate.max(0) as u64 * 8,
        jobs: work.jobs,
        expected,
        locks,
    })
}
