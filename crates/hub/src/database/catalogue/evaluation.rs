//! Evaluates rules: makes locks and replicas for their files, a few thousand in one transaction, so that other writes do not wait for long.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use replicas::Shortage;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::closure::{above, datasets_below};
use super::counts::{Counts, note_fulfilled};
use super::locks;
use super::placing::{self, Group, Placing};
use super::rule_rows::{self, RuleRow};
use crate::database::{Database, Result};
use crate::topology::Topology;
use database::rows::id_list;

/// The most files of one transaction.
const FILES_MAX: i64 = 2_000;
/// How long a rule waits before its files are placed again, after no endpoint had enough space for them; milliseconds.
const RETRY_MS: i64 = 60_000;

/// The result of one step of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationStep {
    /// The number of the rule.
    pub rule: i64,
    /// Files that were evaluated.
    pub files: usize,
}

/// A name whose files wait to be evaluated for a rule.
struct PendingEvaluation {
    number: i64,
    rule: i64,
    name: i64,
    /// Whether the rule releases the files instead of locking them.
    is_released: bool,
    /// The dataset where the evaluation goes on.
    dataset: i64,
    /// The file of this dataset after which the evaluation goes on.
    file: i64,
}

/// Files of a dataset, with their bytes. For a rule of a single file the dataset is 0.
struct DatasetFiles {
    dataset: i64,
    files: Vec<(i64, i64)>,
}

impl Database {
    /// Evaluates some files for a rule; `None` if nothing is left to evaluate now.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn evaluate(&self, topology: Arc<Topology>, now: i64) -> Result<Option<EvaluationStep>> {
        self.writer.change(move |connection| Box::pin(step(connection, topology, now))).await
    }
}

async fn step(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<Option<EvaluationStep>> {
    let sql = "SELECT number, rule, name, released, dataset, file FROM evaluations WHERE not_before <= $1 ORDER BY number LIMIT 1";
    let Some(row) = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await? else { return Ok(None) };
    let item = PendingEvaluation {
        number: row.try_get(0)?,
        rule: row.try_get(1)?,
        name: row.try_get(2)?,
        is_released: row.try_get::<i64, _>(3)? != 0,
        dataset: row.try_get(4)?,
        file: row.try_get(5)?,
    };
    let step = |files| Some(EvaluationStep { rule: item.rule, files });
    let rule = rule_rows::by_number(connection, item.rule).await?;
    let Some(rule) = rule.filter(|rule| rule.expires.is_none_or(|at| at > now)) else {
        end(connection, &item, now).await?;
        return Ok(step(0));
    };
    // The name may have been detached from the rule's name while the rule waited for space.
    if !item.is_released && !above(connection, item.name).await?.contains(&rule.name) {
        end(connection, &item, now).await?;
        return Ok(step(0));
    }
    let datasets = datasets_below(connection, item.name).await?;
    let (parts, next) = files_from(connection, &item, &datasets).await?;
    let files = parts.iter().map(|part| part.files.len()).sum();
    let mut counts = Counts::default();
    let shortage = if item.is_released {
        release(connection, &rule, &parts, &mut counts, now).await.map(|()| None)?
    } else {
        hold(connection, &rule, &parts, &topology, &mut counts, now).await?
    };
    let is_short = shortage.is_some();
    match shortage {
        Some(shortage) => rule_rows::set_error(connection, rule.number, &shortage.to_string()).await?,
        None if rule.error.is_some() => rule_rows::clear_error(connection, rule.number, now).await?,
        None => {}
    }
    counts.apply(connection, now).await?;
    // The rule is not fulfilled as long as the item exists.
    match (is_short, next) {
        (true, _) => postpone(connection, &item, now).await?,
        (false, Some(next)) => advance(connection, &item, next).await?,
        (false, None) => end(connection, &item, now).await?,
    }
    Ok(step(files))
}

/// The next files of an item, by dataset, and the position after them; `None` at the end.
async fn files_from(
    connection: &mut AnyConnection,
    item: &PendingEvaluation,
    datasets: &[i64],
) -> Result<(Vec<DatasetFiles>, Option<(i64, i64)>)> {
    if datasets.is_empty() {
        let row = sqlx::query("SELECT bytes FROM names WHERE id = $1 AND kind = 0").bind(item.name);
        let row = row.fetch_optional(connection).await?;
        let files = row.map(|row| Ok::<_, sqlx::Error>((item.name, row.try_get(0)?))).transpose()?;
        return Ok((vec![DatasetFiles { dataset: 0, files: files.into_iter().collect() }], None));
    }
    let mut parts = Vec::new();
    let mut left = FILES_MAX;
    for dataset in datasets.iter().copied().filter(|dataset| *dataset >= item.dataset) {
        let after = if dataset == item.dataset { item.file } else { 0 };
        let sql = "SELECT c.child, n.bytes FROM contents c JOIN names n ON n.id = c.child \
                   WHERE c.parent = $1 AND c.child > $2 ORDER BY c.child LIMIT $3";
        let rows = sqlx::query(sql).bind(dataset).bind(after).bind(left).fetch_all(&mut *connection).await?;
        let files = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<Vec<_>>>()?;
        left -= files.len() as i64;
        let last = files.last().map(|(file, _)| (dataset, *file));
        parts.push(DatasetFiles { dataset, files });
        if left == 0 {
            return Ok((parts, last));
        }
    }
    Ok((parts, None))
}

async fn advance(connection: &mut AnyConnection, item: &PendingEvaluation, (dataset, file): (i64, i64)) -> Result<()> {
    let sql = "UPDATE evaluations SET dataset = $1, file = $2 WHERE number = $3";
    sqlx::query(sql).bind(dataset).bind(file).bind(item.number).execute(connection).await?;
    Ok(())
}

async fn postpone(connection: &mut AnyConnection, item: &PendingEvaluation, now: i64) -> Result<()> {
    let sql = "UPDATE evaluations SET not_before = $1 WHERE number = $2";
    sqlx::query(sql).bind(now + RETRY_MS).bind(item.number).execute(connection).await?;
    Ok(())
}

async fn end(connection: &mut AnyConnection, item: &PendingEvaluation, now: i64) -> Result<()> {
    sqlx::query("DELETE FROM evaluations WHERE number = $1").bind(item.number).execute(&mut *connection).await?;
    note_fulfilled(connection, item.rule, now).await
}

/// Locks files for a rule at the endpoints of their groups. If too few endpoints can take them, it returns the shortage and locks none of
/// them.
async fn hold(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    parts: &[DatasetFiles],
    topology: &Topology,
    counts: &mut Counts,
    now: i64,
) -> Result<Option<Shortage>> {
    let mut placing = Placing::new(connection, rule, topology).await?;
    let all = datasets_below(connection, rule.name).await?;
    // The space at all endpoints is checked before anything is locked.
    let mut by_endpoint: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let mut placed: HashSet<i64> = HashSet::new();
    for part in parts {
        let held = locks::held_by(connection, rule.number, &part.files).await?;
        // A file of two groups is placed with the first one.
        let is_missing = |(file, _): &(i64, i64)| !held.contains(file) && placed.insert(*file);
        let missing: Vec<(i64, i64)> = part.files.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            continue;
        }
        let dataset_group = Group::of(rule.grouping, part.dataset, &all).filter(|_| part.dataset != 0);
        let groups: Vec<(Group<'_>, Vec<(i64, i64)>)> = match dataset_group {
            Some(group) => vec![(group, missing)],
            None => missing.into_iter().map(|file| (Group::File(file.0, file.1), vec![file])).collect(),
        };
        for (group, files) in groups {
            let endpoints = match placing.endpoints(connection, rule, group).await? {
                Ok(endpoints) => endpoints,
                Err(shortage) => return Ok(Some(shortage)),
            };
            for endpoint in endpoints {
                if let Err(shortage) = placing.reserve_files(connection, group, &endpoint, &files).await? {
                    placing::remove_unused_placement(connection, rule.number, group).await?;
                    return Ok(Some(shortage));
                }
                by_endpoint.entry(endpoint).or_default().extend(&files);
            }
        }
    }
    for (endpoint, files) in by_endpoint {
        locks::hold(connection, rule, &endpoint, &files, counts, now).await?;
    }
    Ok(None)
}

/// Releases a rule's locks on files that its name no longer contains.
async fn release(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    parts: &[DatasetFiles],
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    let datasets = datasets_below(connection, rule.name).await?;
    for part in parts.iter().filter(|part| !part.files.is_empty()) {
        let files: Vec<i64> = part.files.iter().map(|(file, _)| *file).collect();
        let kept = contained_in(connection, &datasets, &files).await?;
        let released: Vec<i64> = files.into_iter().filter(|file| !kept.contains(file) && *file != rule.name).collect();
        locks::release(connection, rule, &released, counts, now).await?;
    }
    Ok(())
}

/// The files in a list that the datasets contain.
async fn contained_in(connection: &mut AnyConnection, datasets: &[i64], files: &[i64]) -> Result<HashSet<i64>> {
    if datasets.is_empty() {
        return Ok(HashSet::new());
    }
    let (parents, children) = (id_list(datasets.iter().copied()), id_list(files.iter().copied()));
    let sql = format!("SELECT DISTINCT child FROM contents WHERE parent IN {parents} AND child IN {children}");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
