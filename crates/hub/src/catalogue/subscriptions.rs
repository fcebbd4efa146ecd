//! Subscriptions: makes rules for new names that match a filter.

use std::collections::BTreeMap;

use model::v1::hub::{DataFilter, DataKind, RuleOrder, RuleTemplate, Subscription, SubscriptionOrder};
use replicas::matches_pattern;
use serde_json::Value;
use uuid::Uuid;
use web::Refused;

use super::rules::{self, MakeRuleError};
use super::{bad, refused, time_or_never};
use crate::database::catalogue::{MissingRules, SubscriptionRow, UncomparedName};
use crate::limits;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// The most rules of a subscription.
const RULES_MAX: usize = 20;
/// The most names that one round compares with the subscriptions.
const UNCOMPARED_MAX: i64 = 100;

/// A subscription as the type of the API.
pub fn to_api(row: &SubscriptionRow) -> Subscription {
    Subscription {
        name: row.name.clone(),
        account: row.account.clone(),
        community: row.community.clone(),
        filter: serde_json::from_str(&row.filter).unwrap_or_default(),
        rules: serde_json::from_str(&row.rules).unwrap_or_default(),
        created: time::show(row.created),
        expires: row.expires.map(time::show),
        suspended: row.suspended,
        comment: row.comment.clone(),
        names: u64::try_from(row.names).unwrap_or(0),
        waiting: u64::try_from(row.waiting).unwrap_or(0),
        error: row.error.clone(),
    }
}

/// A subscription by its name.
///
/// # Errors
/// There is no subscription of this name.
pub async fn of_name(hub: &HubState, name: &str) -> Result<SubscriptionRow, Refused> {
    let row = hub.database.subscription(name).await.map_err(refused)?;
    row.ok_or_else(|| {
        let name: String = name.chars().take(80).collect();
        Refused::new(404, format!("there is no subscription {name} here"))
    })
}

/// Makes a subscription, or replaces the one of this name, and returns it.
///
/// # Errors
/// The order is invalid, or the subscription belongs to another account: nothing has changed.
pub async fn set(
    hub: &HubState,
    member: &Member,
    name: &str,
    order: &SubscriptionOrder,
) -> Result<SubscriptionRow, Refused> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_plain) {
        return Err(bad("a subscription has a name of letters, digits, `-`, `_` and `.`, 128 at most"));
    }
    let known = hub.database.subscription(name).await.map_err(refused)?;
    if let Some(known) = &known {
        require_own(member, known)?;
    }
    let own_community = if member.community.is_empty() { "default" } else { &member.community };
    let community = order.community.as_deref().unwrap_or(own_community);
    if !member.may_submit_for(community) {
        let reason = format!("{} subscribes for the community {own_community}, not for {community}", member.owner);
        return Err(Refused::new(403, reason));
    }
    check(order)?;
    let text = |value: Result<String, serde_json::Error>| value.map_err(|error| bad(error.to_string()));
    let row = SubscriptionRow {
        name: name.to_owned(),
        account: known.map_or_else(|| member.owner.clone(), |known| known.account),
        community: community.to_owned(),
        filter: text(serde_json::to_string(&order.filter))?,
        rules: text(serde_json::to_string(&order.rules))?,
        comment: order.comment.clone(),
        created: time::now(),
        expires: order.expires.as_deref().map(|at| time_or_never("expires", at)).transpose()?.flatten(),
        suspended: order.suspended,
        ..SubscriptionRow::default()
    };
    hub.database.set_subscription(row, order.existing).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    of_name(hub, name).await
}

fn require_own(member: &Member, row: &SubscriptionRow) -> Result<(), Refused> {
    if member.may_change(&row.account, &row.community) {
        return Ok(());
    }
    let (name, account) = (&row.name, &row.account);
    Err(Refused::new(
        403,
        format!("the subscription {name} belongs to {account}: only {account} and operators may change it"),
    ))
}

/// Checks the filter and the rules of an order, as far as that is possible without a name.
fn check(order: &SubscriptionOrder) -> Result<(), Refused> {
    if order.rules.is_empty() || order.rules.len() > RULES_MAX {
        return Err(bad(format!("a subscription makes 1 to {RULES_MAX} rules")));
    }
    if order.filter.kind == Some(DataKind::File) {
        return Err(bad("kind: dataset or container; rules of single files are made by hand"));
    }
    let long = [serde_json::to_string(&order.filter), serde_json::to_string(&order.rules)];
    if long.iter().flatten().chain(&order.comment).any(|text| text.len() > limits::SUBSCRIPTION_BYTES_MAX) {
        let most = limits::SUBSCRIPTION_BYTES_MAX;
        return Err(bad(format!("the filter, the rules and the comment have {most} bytes each at most")));
    }
    order.rules.iter().enumerate().try_for_each(|(at, template)| {
        let order = rule_order(template, String::new(), None, time::now());
        rules::check(&order).map(drop).map_err(|refused| bad(format!("rule {}: {}", at + 1, refused.reason)))
    })
}

/// Removes a subscription; the rules that it has made stay.
///
/// # Errors
/// There is no such subscription, or it belongs to another account: nothing has changed.
pub async fn remove(hub: &HubState, member: &Member, name: &str) -> Result<SubscriptionRow, Refused> {
    let row = of_name(hub, name).await?;
    require_own(member, &row)?;
    hub.database.remove_subscription(row.number).await.map_err(refused)?;
    Ok(row)
}

/// Compares some of the new names with the subscriptions, and makes the rules that follow. Returns whether there were new names.
///
/// # Errors
/// The database cannot be read or written.
pub async fn run_round(hub: &HubState) -> crate::database::Result<bool> {
    let now = time::now();
    let names = hub.database.uncompared_names(UNCOMPARED_MAX, now).await?;
    if names.is_empty() {
        return Ok(false);
    }
    let lasts = |row: &SubscriptionRow| row.expires.is_none_or(|at| at > now);
    let all: Vec<SubscriptionRow> = hub.database.subscriptions().await?.into_iter().filter(lasts).collect();
    let mut compared = Vec::new();
    for item in &names {
        let mut is_waiting = false;
        // Number 0 stands for all subscriptions.
        for row in all.iter().filter(|row| [0, row.number].contains(&item.subscription)) {
            is_waiting |= !compare(hub, row, item, now).await?;
        }
        if !is_waiting || item.subscription == 0 {
            compared.push(item.number);
        }
    }
    hub.database.remove_compared(compared).await?;
    Ok(true)
}

/// Makes the rules of a subscription for a name that matches it. Returns false if some of them could not be made yet.
async fn compare(
    hub: &HubState,
    row: &SubscriptionRow,
    item: &UncomparedName,
    now: i64,
) -> crate::database::Result<bool> {
    let subscription = to_api(row);
    let name = item.data.id;
    if !matches(&subscription.filter, item) || hub.database.is_subscribed(row.number, name).await? {
        return Ok(true);
    }
    let made = if row.suspended {
        Err(MissingRules { made: item.rules_made, error: None })
    } else {
        make_rules(hub, row.number, &subscription, item, now).await
    };
    let is_done = made.is_ok();
    match made {
        Ok(()) => hub.database.mark_subscribed(row.number, name, now).await?,
        Err(missing) => hub.database.mark_not_subscribed(row.number, name, missing, now).await?,
    }
    Ok(is_done)
}

/// Makes the rules of a subscription that a name does not have yet.
async fn make_rules(
    hub: &HubState,
    number: i64,
    subscription: &Subscription,
    item: &UncomparedName,
    now: i64,
) -> Result<(), MissingRules> {
    let member = Member::user(&subscription.account, &subscription.community);
    let data = &item.data;
    for (at, template) in subscription.rules.iter().enumerate().skip(item.rules_made) {
        // The id is the same at every attempt: a hub that was killed in between does not make a second rule.
        let id =
            Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("subscription {number} of {} rule {at}", data.id).as_bytes());
        let order = RuleOrder {
            community: Some(subscription.community.clone()),
            ..rule_order(template, data.name.to_string(), Some(id), now)
        };
        rules::make(hub, &member, &order).await.map_err(|not_made| {
            let reason = match not_made {
                MakeRuleError::Refused(refused) => refused.reason,
                MakeRuleError::NotPlaced(not_placed) => not_placed.problem.reason,
            };
            MissingRules { made: at, error: Some(format!("{}: {reason}", data.name)) }
        })?;
    }
    Ok(())
}

fn rule_order(template: &RuleTemplate, name: String, id: Option<Uuid>, now: i64) -> RuleOrder {
    let after =
        |seconds: u64| time::show(now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)));
    RuleOrder {
        id: id.map(|id| id.to_string()),
        name,
        copies: template.copies,
        at: template.at.clone(),
        grouping: template.grouping,
        weight: template.weight.clone(),
        expires: template.lifetime_s.map(after),
        priority: template.priority,
        activity: template.activity.clone(),
        community: None,
        account: None,
        from: template.from.clone(),
        deadline: template.deadline_s.map(after),
        comment: template.comment.clone(),
    }
}

/// Whether a filter matches a name.
fn matches(filter: &DataFilter, item: &UncomparedName) -> bool {
    let data = &item.data;
    let one_of =
        |patterns: &[String], text: &str| patterns.is_empty() || patterns.iter().any(|one| matches_pattern(one, text));
    one_of(&filter.scopes, data.name.scope())
        && one_of(&filter.names, data.name.name())
        && one_of(&filter.accounts, &data.account)
        && data.kind == filter.kind.unwrap_or(DataKind::Dataset)
        && !(filter.closed && data.open)
        && data.expires.is_none()
        && filter.metadata.iter().all(|(key, wanted)| has_metadata(&item.metadata, key, wanted))
}

/// Whether metadata has a key with a wanted value, or with one of several.
fn has_metadata(metadata: &BTreeMap<String, String>, key: &str, wanted: &Value) -> bool {
    let Some(found) = metadata.get(key).and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return false;
    };
    let is_equal = |wanted: &Value| match (wanted, &found) {
        (Value::String(pattern), Value::String(text)) => matches_pattern(pattern, text),
        (wanted, found) => wanted == found,
    };
    match wanted {
        Value::Array(values) => values.iter().any(is_equal),
        wanted => is_equal(wanted),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::database::catalogue::DataRow;

    fn item(name: &str, metadata: Value) -> UncomparedName {
        let Value::Object(metadata) = metadata else { panic!("{metadata}") };
        let data = DataRow {
            id: 1,
            name: name.parse().unwrap(),
            kind: DataKind::Dataset,
            account: "ann".into(),
            created: 0,
            changed: 0,
            bytes: 0,
            entries: 0,
            adler32: None,
            md5: None,
            open: true,
            monotonic: false,
            expires: None,
        };
        let metadata = metadata.into_iter().map(|(key, value)| (key, value.to_string())).collect();
        UncomparedName { number: 1, data, metadata, subscription: 0, rules_made: 0 }
    }

    fn filter(json: Value) -> DataFilter {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_filter_matches_names_by_their_attributes_and_metadata() {
        let cube = item("ska.low:cube/7", json!({"product": "image-cube", "beam": 3}));
        for (json, is_match) in [
            (json!({}), true),
            (json!({"scopes": ["ska.*"]}), true),
            (json!({"scopes": ["ska.mid", "ska.low"], "names": ["cube/*"], "accounts": ["ann"]}), true),
            (json!({"scopes": ["ska.mid"]}), false),
            (json!({"names": ["visibilities/*"]}), false),
            (json!({"accounts": ["bob"]}), false),
            (json!({"kind": "container"}), false),
            (json!({"closed": true}), false),
            (json!({"metadata": {"product": "image-*", "beam": 3}}), true),
            (json!({"metadata": {"beam": [1, 2, 3]}}), true),
            (json!({"metadata": {"beam": "3"}}), false),
            (json!({"metadata": {"beam": [1, 2]}}), false),
            (json!({"metadata": {"telescope": "low"}}), false),
        ] {
            assert_eq!(matches(&filter(json.clone()), &cube), is_match, "{json}");
        }
        let mut done = cube.clone();
        done.data.open = false;
        assert!(matches(&filter(json!({"closed": true})), &done));
        done.data.expires = Some(1);
        assert!(!matches(&DataFilter::default(), &done), "a name that expires gets no rules");
    }
}
