//! The rows of rules, and changes of single fields.

use model::v1::hub::Grouping;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::states::grouping_of_code;
use crate::database::Result;
use database::rows::id_list;

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleRow {
    /// Its number.
    pub number: i64,
    /// Its id.
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
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it ends, milliseconds since 1970.
    pub expires: Option<i64>,
    /// When it should be fulfilled, milliseconds since 1970.
    pub deadline: Option<i64>,
    /// Whether it is suspended: no new copies are made for it.
    pub suspended: bool,
    /// Locks whose copies are available.
    pub ok: i64,
    /// Locks whose copies are being made, or wait to be made.
    pub replicating: i64,
    /// Locks whose copies could not be made.
    pub stuck: i64,
    /// Bytes of all locks.
    pub bytes: i64,
    /// Bytes of those that are not ok.
    pub bytes_left: i64,
    /// Why some of its files could not be placed.
    pub error: Option<String>,
    /// When all of its copies were available.
    pub fulfilled: Option<i64>,
    /// Whether some of its files have not been evaluated yet.
    pub is_evaluating: bool,
}

pub(super) const ROW: &str = "SELECT number, id, name, account, community, activity, priority, copies, expression, source_expression, grouping, \
                   weight, comment, created, expires, deadline, suspended, ok, replicating, stuck, bytes, bytes_left, error, fulfilled, \
                   (SELECT COUNT(*) FROM evaluations e WHERE e.rule = rules.number) FROM rules";

pub(super) fn read(row: &AnyRow) -> Result<RuleRow> {
    Ok(RuleRow {
        number: row.try_get(0)?,
        id: row.try_get(1)?,
        name: row.try_get(2)?,
        account: row.try_get(3)?,
        community: row.try_get(4)?,
        activity: row.try_get(5)?,
        priority: row.try_get(6)?,
        copies: row.try_get(7)?,
        expression: row.try_get(8)?,
        source_expression: row.try_get(9)?,
        grouping: grouping_of_code(row.try_get(10)?),
        weight: row.try_get(11)?,
        comment: row.try_get(12)?,
        created: row.try_get(13)?,
        expires: row.try_get(14)?,
        deadline: row.try_get(15)?,
        suspended: row.try_get::<i64, _>(16)? != 0,
        ok: row.try_get(17)?,
        replicating: row.try_get(18)?,
        stuck: row.try_get(19)?,
        bytes: row.try_get(20)?,
        bytes_left: row.try_get(21)?,
        error: row.try_get(22)?,
        fulfilled: row.try_get(23)?,
        is_evaluating: row.try_get::<i64, _>(24)? != 0,
    })
}

/// A rule by its number.
pub(super) async fn by_number(connection: &mut AnyConnection, number: i64) -> Result<Option<RuleRow>> {
    let sql = AssertSqlSafe(format!("{ROW} WHERE number = $1"));
    sqlx::query(sql).bind(number).fetch_optional(connection).await?.as_ref().map(read).transpose()
}

/// Records why files of a rule could not be placed.
pub(super) async fn set_error(connection: &mut AnyConnection, rule: i64, error: &str) -> Result<()> {
    let sql = "UPDATE rules SET error = $1, fulfilled = NULL WHERE number = $2";
    sqlx::query(sql).bind(error).bind(rule).execute(connection).await?;
    Ok(())
}

/// Removes the reason why files could not be placed, unless other files of the rule still wait to be placed.
pub(super) async fn clear_error(connection: &mut AnyConnection, rule: i64, now: i64) -> Result<()> {
    let sql = "UPDATE rules SET error = NULL WHERE number = $1 \
               AND NOT EXISTS (SELECT 1 FROM evaluations WHERE rule = $1 AND not_before > $2)";
    sqlx::query(sql).bind(rule).bind(now).execute(connection).await?;
    Ok(())
}

/// Rules with missing copies that are not idle, the most urgent first.
pub(super) async fn unfulfilled(connection: &mut AnyConnection, limit: i64, now: i64) -> Result<Vec<RuleRow>> {
    let sql = format!(
        "{ROW} WHERE (replicating > 0 OR stuck > 0) AND suspended = 0 AND idle_until <= $1 ORDER BY priority DESC, number LIMIT $2"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(limit).fetch_all(connection).await?;
    rows.iter().map(read).collect()
}

/// Makes rules idle until a time, because nothing can be copied for them now: the next search takes other rules.
pub(super) async fn set_idle(connection: &mut AnyConnection, rules: &[i64], until: i64) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let rules = id_list(rules.iter().copied());
    let sql = format!("UPDATE rules SET idle_until = $1 WHERE number IN {rules}");
    sqlx::query(AssertSqlSafe(sql)).bind(until).execute(connection).await?;
    Ok(())
}
