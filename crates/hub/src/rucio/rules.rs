//! Rules, and their locks on replicas.

use model::v1::hub::{NotPlaced, RuleChange, RuleOrder};
use replicas::DataName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::errors::RucioError;
use super::names::{Did, expires_in, find};
use super::{RucioRequest, RucioResult, done, forms, json_answer, stream, unknown};
use crate::catalogue::rules::{self, MakeRuleError};
use crate::database::catalogue::{DataRow, RuleFilter, RuleRow};

/// The most rules of one answer.
const RULES_MAX: i64 = 10_000;
/// The most locks of a rule in one answer.
const LOCKS_MAX: i64 = 10_000;

/// A new rule, as a client sends it; fields that it does not set are null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NewRule {
    dids: Vec<Did>,
    copies: Option<u32>,
    rse_expression: String,
    weight: Option<String>,
    lifetime: Option<f64>,
    grouping: Option<String>,
    source_replica_expression: Option<String>,
    activity: Option<String>,
    comment: Option<String>,
    priority: Option<u8>,
}

/// `rules/…`.
pub(super) async fn answer(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    match (method, path) {
        ("POST", []) => {
            let new: NewRule = request.read()?;
            let mut ids = Vec::new();
            for did in &new.dids {
                ids.push(make(&request, did, &new).await?);
            }
            json_answer(201, &ids)
        }
        ("GET", []) => {
            let rows = request.hub.database.rules(&RuleFilter { limit: RULES_MAX, ..RuleFilter::default() }).await?;
            stream_rules(&request, rows).await
        }
        ("GET", [id]) => show(&request, id).await,
        ("PUT", [id]) => change(&request, id).await,
        ("DELETE", [id]) => {
            let ended = rules::end(&request.hub, &request.member, id).await;
            ended.map_err(|refused| RucioError::from(refused).missing("RuleNotFound"))?;
            done()
        }
        ("GET", [id, "analysis"]) => analysis(&request, id).await,
        ("GET", [id, "locks"]) => locks_of(&request, id).await,
        ("POST", [id, "move"]) => replace(&request, id).await,
        ("GET", [scope, name, "history"]) => history(&request, &format!("{scope}:{name}")).await,
        _ => Err(unknown(method, path)),
    }
}

/// Makes a rule, and returns its id.
pub(super) async fn make(request: &RucioRequest, did: &Did, new: &NewRule) -> Result<String, RucioError> {
    let row = find(request, &did.text()).await?;
    let copies = new.copies.unwrap_or(1);
    let filter =
        RuleFilter { name: Some(row.id), account: request.member.owner.clone(), limit: RULES_MAX, before: None };
    let known = request.hub.database.rules(&filter).await?;
    let is_same = |rule: &RuleRow| rule.expression == new.rse_expression && rule.copies == i64::from(copies);
    if known.iter().any(is_same) {
        let text = format!("you already have a rule for {copies} copies of {} at {}", row.name, new.rse_expression);
        return Err(RucioError::new(409, "DuplicateRule", text));
    }
    let order = RuleOrder {
        name: did.text(),
        copies: Some(copies),
        at: new.rse_expression.clone(),
        grouping: forms::grouping(new.grouping.as_deref())?,
        weight: new.weight.clone(),
        expires: expires_in(new.lifetime),
        priority: new.priority,
        activity: new.activity.clone(),
        from: new.source_replica_expression.clone(),
        comment: new.comment.clone(),
        ..RuleOrder::default()
    };
    match rules::make(&request.hub, &request.member, &order).await {
        Ok(rule) => Ok(rule.id.replace('-', "")),
        Err(MakeRuleError::NotPlaced(NotPlaced { problem, full, .. })) => {
            let class = if full.is_empty() { "InsufficientTargetRSEs" } else { "InsufficientAccountLimit" };
            Err(RucioError::new(409, class, problem.reason))
        }
        Err(MakeRuleError::Refused(refused)) if refused.reason.contains("is not a valid expression") => {
            Err(RucioError::new(409, "InvalidRSEExpression", refused.reason))
        }
        Err(MakeRuleError::Refused(refused)) => Err(refused.into()),
    }
}

/// Rules in Rucio's form, with the names to which they apply.
async fn lines(request: &RucioRequest, rows: &[RuleRow]) -> Result<Vec<Value>, RucioError> {
    let ids: Vec<i64> = rows.iter().map(|rule| rule.name).collect();
    let names = request.hub.database.data_of(&ids).await?;
    let line = |rule: &RuleRow| names.get(&rule.name).map(|row| forms::rule(rule, &row.name, row.kind));
    Ok(rows.iter().filter_map(line).collect())
}

/// Streams rules, with the names to which they apply.
async fn stream_rules(request: &RucioRequest, rows: Vec<RuleRow>) -> RucioResult {
    stream(lines(request, &rows).await?)
}

/// The rules of a name.
pub(super) async fn of_name(request: &RucioRequest, text: &str) -> RucioResult {
    let row = find(request, text).await?;
    stream_rules(request, rules_of(request, &row).await?).await
}

async fn rules_of(request: &RucioRequest, row: &DataRow) -> Result<Vec<RuleRow>, RucioError> {
    let filter = RuleFilter { name: Some(row.id), limit: RULES_MAX, ..RuleFilter::default() };
    Ok(request.hub.database.rules(&filter).await?)
}

/// The rules of a name and of all names that contain it.
pub(super) async fn of_file(request: &RucioRequest, text: &str) -> RucioResult {
    let mut all = Vec::new();
    let mut waiting = vec![find(request, text).await?];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(row) = waiting.pop() {
        if seen.insert(row.id) {
            all.extend(rules_of(request, &row).await?);
            waiting.extend(request.hub.database.parents(row.id).await?);
        }
    }
    stream_rules(request, all).await
}

/// The rules of an account.
pub(super) async fn of_account(request: &RucioRequest, account: &str) -> RucioResult {
    let filter = RuleFilter { account: account.to_owned(), limit: RULES_MAX, ..RuleFilter::default() };
    stream_rules(request, request.hub.database.rules(&filter).await?).await
}

async fn row(request: &RucioRequest, id: &str) -> Result<RuleRow, RucioError> {
    let rule = rules::of_id(&request.hub, id).await;
    rule.map_err(|refused| RucioError::from(refused).missing("RuleNotFound"))
}

async fn show(request: &RucioRequest, id: &str) -> RucioResult {
    let rule = row(request, id).await?;
    let mut all = lines(request, std::slice::from_ref(&rule)).await?;
    match all.pop() {
        Some(one) => json_answer(200, &one),
        None => Err(RucioError::new(404, "RuleNotFound", format!("the name of the rule {id} does not exist any more"))),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Options {
    options: Changes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Changes {
    /// Null for a rule without end; a missing field leaves the end as it is.
    lifetime: Option<Value>,
    comment: Option<String>,
    state: Option<String>,
    activity: Option<String>,
    source_replica_expression: Option<String>,
    priority: Option<u8>,
}

async fn change(request: &RucioRequest, id: &str) -> RucioResult {
    let options = request.read::<Options>()?.options;
    let body: Value = request.read()?;
    let is_without_end = body["options"].get("lifetime").is_some_and(Value::is_null);
    let expires = match options.lifetime.as_ref().and_then(Value::as_f64) {
        Some(seconds) => expires_in(Some(seconds)),
        None if is_without_end => Some(String::new()),
        None => None,
    };
    let suspended = options.state.as_deref().map(|state| state == "SUSPENDED");
    let change = RuleChange {
        expires,
        priority: options.priority,
        activity: options.activity,
        from: options.source_replica_expression,
        suspended,
        comment: options.comment,
    };
    let changed = rules::change(&request.hub, &request.member, id, &change).await;
    changed.map_err(|refused| RucioError::from(refused).missing("RuleNotFound"))?;
    done()
}

async fn analysis(request: &RucioRequest, id: &str) -> RucioResult {
    let why = rules::why(&request.hub, id).await;
    let why = why.map_err(|refused| RucioError::from(refused).missing("RuleNotFound"))?;
    let transfer = |lock: &model::v1::hub::RuleLock| {
        let (scope, name) = lock.name.split_once(':').unwrap_or_default();
        json!({
            "scope": scope,
            "name": name,
            "rse": lock.endpoint,
            "attempts": lock.attempts,
            "last_time": null,
            "last_error": lock.error,
            "last_source": null,
            "sources": [],
        })
    };
    json_answer(200, &json!({"rule_error": why.text, "transfers": why.locks.iter().map(transfer).collect::<Vec<_>>()}))
}

async fn locks_of(request: &RucioRequest, id: &str) -> RucioResult {
    let rule = row(request, id).await?;
    let locks = request.hub.database.locks_left(rule.number, LOCKS_MAX).await?;
    let files: Vec<i64> = locks.iter().map(|lock| lock.file).collect();
    let names = request.hub.database.data_of(&files).await?;
    let line = |lock: &crate::database::catalogue::LockRow| {
        let mut object = forms::name_of(&names.get(&lock.file)?.name);
        object.insert("rse".into(), lock.endpoint.clone().into());
        object.insert("rse_id".into(), forms::id(&lock.endpoint).into());
        object.insert("state".into(), lock.state.word().to_ascii_uppercase().into());
        Some(Value::Object(object))
    };
    stream(locks.iter().filter_map(line).collect::<Vec<_>>())
}

#[derive(Deserialize)]
struct MoveRequest {
    rse_expression: String,
}

/// Replaces a rule by one for other endpoints: the old rule ends once the new one has been made.
async fn replace(request: &RucioRequest, id: &str) -> RucioResult {
    let old = row(request, id).await?;
    let order: MoveRequest = request.read()?;
    let names = request.hub.database.data_of(&[old.name]).await?;
    let name: &DataName = match names.get(&old.name) {
        Some(row) => &row.name,
        None => {
            return Err(RucioError::new(
                404,
                "RuleNotFound",
                format!("the name of the rule {id} does not exist any more"),
            ));
        }
    };
    let did = Did { scope: name.scope().to_owned(), name: name.name().to_owned() };
    let new = NewRule {
        copies: u32::try_from(old.copies).ok(),
        rse_expression: order.rse_expression,
        weight: old.weight.clone(),
        activity: Some(old.activity.clone()),
        comment: old.comment.clone(),
        priority: u8::try_from(old.priority).ok(),
        ..NewRule::default()
    };
    let made = make(request, &did, &new).await?;
    rules::end(&request.hub, &request.member, id).await?;
    json_answer(201, &made)
}

async fn history(request: &RucioRequest, text: &str) -> RucioResult {
    let row = find(request, text).await?;
    let events = request.hub.database.history(row.id, 0, RULES_MAX).await?;
    let line = |event: &crate::database::catalogue::HistoryEvent| {
        let facts: Value = serde_json::from_str(&event.facts).ok()?;
        matches!(event.kind.as_str(), "rule" | "rule_ended").then(|| {
            json!({
                "rule_id": facts["rule"].as_str().unwrap_or_default().replace('-', ""),
                "account": event.account,
                "rse_expression": facts["at"],
                "created_at": forms::time(event.at),
                "updated_at": forms::time(event.at),
            })
        })
    };
    stream(events.iter().filter_map(line).collect::<Vec<_>>())
}

/// `locks/…`: the rules that hold a dataset at each endpoint.
pub(super) async fn locks(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    let ("GET", [scope, name]) = (method, path) else { return Err(unknown(method, path)) };
    let row = find(&request, &format!("{scope}:{name}")).await?;
    let rules = rules_of(&request, &row).await?;
    let (all_files, _) = request.hub.database.total(&row).await?;
    let mut lines = Vec::new();
    for count in request.hub.database.whereabouts(&row).await? {
        for rule in &rules {
            let mut object = forms::name_of(&row.name);
            object.insert("rse".into(), count.endpoint.clone().into());
            object.insert("rse_id".into(), forms::id(&count.endpoint).into());
            object.insert("rule_id".into(), rule.id.replace('-', "").into());
            object.insert("account".into(), rule.account.clone().into());
            object.insert("state".into(), if count.files == all_files { "OK" } else { "REPLICATING" }.into());
            object.insert("length".into(), count.files.into());
            object.insert("bytes".into(), count.bytes.into());
            object.insert("accessed_at".into(), Value::Null);
            lines.push(Value::Object(object));
        }
    }
    stream(lines)
}
