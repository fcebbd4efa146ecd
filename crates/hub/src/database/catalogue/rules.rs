//! Rules: makes, lists, changes and ends them.

use model::v1::hub::Grouping;
use replicas::Shortage;
use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use std::sync::Arc;

use super::rule_rows::{self, ROW, RuleRow, read};
use super::states::{LockState, grouping_code};
use super::{history, names, pending, placing};
use crate::database::numbers::take_numbers;
use crate::database::{Database, DatabaseError, Result};
use crate::topology::Topology;

/// A rule to be made; its fields have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRule {
    /// Its id, a UUID.
    pub id: String,
    /// The id of its name.
    pub name: i64,
    /// The account that it belongs to.
    pub account: String,
    /// The community of its jobs.
    pub community: String,
    /// The activity of its jobs.
    pub activity: String,
    /// Its priority, 1 to 5.
    pub priority: i64,
    /// The number of copies.
    pub copies: i64,
    /// The expression of the endpoints that may have them.
    pub expression: String,
    /// The expression of the endpoints that copies may be read from; `None` for all.
    pub source_expression: Option<String>,
    /// Which files are placed together.
    pub grouping: Grouping,
    /// The attribute that weighs endpoints.
    pub weight: Option<String>,
    /// A comment for people.
    pub comment: Option<String>,
    /// When it ends, milliseconds since 1970.
    pub expires: Option<i64>,
    /// When it should be fulfilled, milliseconds since 1970.
    pub deadline: Option<i64>,
}

/// Changes of a rule; a field that is `None` is not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleUpdate {
    /// When it ends, milliseconds since 1970.
    pub expires: Option<Option<i64>>,
    /// Its priority, 1 to 5.
    pub priority: Option<i64>,
    /// The activity of its jobs.
    pub activity: Option<String>,
    /// The expression of the endpoints that copies may be read from; `None` for all.
    pub source_expression: Option<Option<String>>,
    /// Whether it is suspended: no new copies are made for it.
    pub suspended: Option<bool>,
    /// A comment for people.
    pub comment: Option<String>,
}

/// The rules that a page lists.
#[derive(Clone, Debug, Default)]
pub struct RuleFilter {
    /// The id of their name; `None` for all.
    pub name: Option<i64>,
    /// Their account; empty for all.
    pub account: String,
    /// Only rules that were made before the one with this number.
    pub before: Option<i64>,
    /// The most rules of a page.
    pub limit: i64,
}

/// A lock: a rule's hold on a copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// The id of the file.
    pub file: i64,
    /// The endpoint.
    pub endpoint: String,
    /// The state of the lock.
    pub state: LockState,
    /// The size of the file.
    pub bytes: i64,
    /// The number of failed attempts to make the copy.
    pub attempts: i64,
    /// When the copy is tried again, milliseconds since 1970; 0 means at once.
    pub not_before: i64,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl Database {
    /// Makes a rule, if it can be fulfilled; otherwise returns the shortage. A rule with an id that exists already is not changed.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn make_rule(&self, rule: NewRule, topology: Arc<Topology>, now: i64) -> Result<Option<Shortage>> {
        self.writer.change(move |connection| Box::pin(make(connection, rule, topology, now))).await
    }

    /// A rule by its id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn rule(&self, id: &str) -> Result<Option<RuleRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE id = $1"));
        sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// A page of rules, newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn rules(&self, filter: &RuleFilter) -> Result<Vec<RuleRow>> {
        let sql = format!(
            "{ROW} WHERE number < $1 AND ($2 = 0 OR name = $2) AND ($3 = '' OR account = $3) ORDER BY number DESC LIMIT $4"
        );
        let query =
            sqlx::query(AssertSqlSafe(sql)).bind(filter.before.unwrap_or(i64::MAX)).bind(filter.name.unwrap_or(0));
        let rows = query.bind(filter.account.as_str()).bind(filter.limit).fetch_all(&self.pool).await?;
        rows.iter().map(read).collect()
    }

    /// Locks of a rule whose copies are not available, those that failed first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn locks_left(&self, rule: i64, limit: i64) -> Result<Vec<LockRow>> {
        let sql = "SELECT l.file, s.endpoint, l.state, l.bytes, r.attempts, r.not_before, r.error FROM locks l \
                   JOIN replicas r ON r.file = l.file AND r.store = l.store JOIN stores s ON s.id = l.store \
                   WHERE l.rule = $1 AND l.state <> 1 ORDER BY l.state DESC, l.file, s.endpoint LIMIT $2";
        let rows = sqlx::query(sql).bind(rule).bind(limit).fetch_all(&self.pool).await?;
        let read = |row: &AnyRow| {
            Ok(LockRow {
                file: row.try_get(0)?,
                endpoint: row.try_get(1)?,
                state: LockState::of_code(row.try_get(2)?).unwrap_or(LockState::Stuck),
                bytes: row.try_get(3)?,
                attempts: row.try_get(4)?,
                not_before: row.try_get(5)?,
                error: row.try_get(6)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Changes a rule, by its number.
    ///
    /// # Errors
    /// The rule has ended, or the database cannot be written: nothing has changed.
    pub async fn change_rule(&self, rule: i64, by: String, update: RuleUpdate, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(change(connection, rule, by, update, now))).await
    }
}

async fn make(
    connection: &mut AnyConnection,
    new: NewRule,
    topology: Arc<Topology>,
    now: i64,
) -> Result<Option<Shortage>> {
    let known =
        sqlx::query("SELECT number FROM rules WHERE id = $1").bind(&new.id).fetch_optional(&mut *connection).await?;
    if known.is_some() {
        return Ok(None);
    }
    let new = NewRule { expires: end_of(connection, new.name, new.expires, now).await?, ..new };
    let rule = RuleRow { number: take_numbers(connection, "rules", 1).await?, ..RuleRow::of(&new, now) };
    if let Some(shortage) = placing::check(connection, &rule, &topology).await? {
        return Ok(Some(shortage));
    }
    let sql = "INSERT INTO rules (number, id, name, account, community, activity, priority, copies, expression, source_expression, \
               grouping, weight, comment, created, expires, deadline) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
    let query = sqlx::query(sql).bind(rule.number).bind(&rule.id).bind(rule.name).bind(&rule.account);
    let query = query.bind(&rule.community).bind(&rule.activity).bind(rule.priority).bind(rule.copies);
    let query = query.bind(&rule.expression).bind(rule.source_expression.as_deref()).bind(grouping_code(rule.grouping));
    let query = query.bind(rule.weight.as_deref()).bind(rule.comment.as_deref()).bind(now).bind(rule.expires);
    query.bind(rule.deadline).execute(&mut *connection).await?;
    pending::begin(connection, rule.number, rule.name).await?;
    let facts = json!({"rule": rule.id, "copies": rule.copies, "at": rule.expression});
    history::append(connection, rule.name, &rule.account, "rule", &facts, now).await?;
    Ok(None)
}

/// The end of a rule: the wanted end, or the end of its name if that is earlier. A rule without an end is refused if its name has one: it
/// would promise copies that will be deleted.
async fn end_of(connection: &mut AnyConnection, name: i64, wanted: Option<i64>, now: i64) -> Result<Option<i64>> {
    let row = names::by_id(connection, name).await?;
    match (row.expires, wanted) {
        (None, wanted) => Ok(wanted),
        (Some(at), _) if at <= now => Err(DatabaseError::Refused(format!("{} has been removed", row.name))),
        (Some(at), Some(wanted)) => Ok(Some(wanted.min(at))),
        (Some(at), None) => Err(DatabaseError::Refused(format!(
            "{} is to be removed at {}, and its rules end then: clear its `expires` first, or say when the rule expires",
            row.name,
            crate::time::show(at)
        ))),
    }
}

impl RuleRow {
    /// The row of a new rule, without its number.
    fn of(new: &NewRule, now: i64) -> RuleRow {
        let new = new.clone();
        RuleRow {
            number: 0,
            id: new.id,
            name: new.name,
            account: new.account,
            community: new.community,
            activity: new.activity,
            priority: new.priority,
            copies: new.copies,
            expression: new.expression,
            source_expression: new.source_expression,
            grouping: new.grouping,
            weight: new.weight,
            comment: new.comment,
            created: now,
            expires: new.expires,
            deadline: new.deadline,
            suspended: false,
            ok: 0,
            replicating: 0,
            stuck: 0,
            bytes: 0,
            bytes_left: 0,
            error: None,
            fulfilled: None,
            is_evaluating: true,
        }
    }
}

async fn change(connection: &mut AnyConnection, rule: i64, by: String, update: RuleUpdate, now: i64) -> Result<()> {
    let rule = rule_rows::by_number(connection, rule).await?.filter(|rule| rule.expires.is_none_or(|at| at > now));
    let Some(rule) = rule else {
        return Err(DatabaseError::Refused("the rule has ended: make another one".to_owned()));
    };
    let expires = match update.expires {
        // A rule may be ended at any time, whatever the end of its name.
        Some(Some(at)) if at <= now => Some(at),
        Some(wanted) => end_of(connection, rule.name, wanted, now).await?,
        None => rule.expires,
    };
    let new = RuleRow {
        expires,
        priority: update.priority.unwrap_or(rule.priority),
        activity: update.activity.clone().unwrap_or(rule.activity),
        source_expression: update.source_expression.clone().unwrap_or(rule.source_expression),
        suspended: update.suspended.unwrap_or(rule.suspended),
        comment: update.comment.clone().or(rule.comment),
        ..rule
    };
    let sql = "UPDATE rules SET expires = $1, priority = $2, activity = $3, source_expression = $4, suspended = $5, comment = $6 \
               WHERE number = $7";
    let query = sqlx::query(sql).bind(new.expires).bind(new.priority).bind(&new.activity);
    let query = query.bind(new.source_expression.as_deref()).bind(i64::from(new.suspended));
    query.bind(new.comment.as_deref()).bind(new.number).execute(&mut *connection).await?;
    let facts = json!({
        "rule": new.id,
        "expires": update.expires,
        "priority": update.priority,
        "activity": update.activity,
        "from": update.source_expression,
        "suspended": update.suspended,
    });
    history::append(connection, new.name, &by, "rule_changed", &facts, now).await
}
