//! Evaluates rules: makes locks and replicas for their files, some thousand in a transaction, so that other writes do not wait for long.

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
use database::rows::numbers;

/// Files of one transaction.
const FILES_MAX: i64 = 2_000;
/// How long a rule waits whose files have no endpoint with enough space.
const AGAIN_MS: i64 = 60_000;

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the rule.
    pub rule: i64,
    /// Files that were evaluated.
    pub files: usize,
}

/// A name whose files are to be evaluated for a rule.
struct Item {
    number: i64,
    rule: i64,
    name: i64,
    is_released: bool,
    /// The position: the evaluation goes on after this file of this dataset.
    dataset: i64,
    file: i64,
}

/// Files of a dataset, with their bytes. For a rule of a single file: that file, and no dataset.
struct Segment {
    dataset: i64,
    files: Vec<(i64, i64)>,
}

impl Database {
    /// Evaluates some files for a rule; none where nothing is left to evaluate now.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn evaluate(&self, topology: Arc<Topology>, now: i64) -> Result<Option<Step>> {
        self.writer.change(move |connection| Box::pin(step(connection, topology, now))).await
    }
}

async fn step(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<Option<Step>> {
    let sql = "SELECT number, rule, name, released, dataset, file FROM evaluations WHERE not_before <= $1 ORDER BY number LIMIT 1";
    let Some(row) = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await? else { return Ok(None) };
    let item = Item {
        number: row.try_get(0)?,
        rule: row.try_get(1)?,
        name: row.try_get(2)?,
        is_released: row.try_get::<i64, _>(3)? != 0,
        dataset: row.try_get(4)?,
        file: row.try_get(5)?,
    };
    let step = |files| Some(Step { rule: item.rule, files });
    let rule = rule_rows::by_number(connection, item.rule).await?;
    let Some(rule) = rule.filter(|rule| rule.expires.is_none_or(|at| at > now)) else {
        end(connection, &item, now).await?;
        return Ok(step(0));
    };
    // The name may have been taken out of the rule's name while the rule waited for space.
    if !item.is_released && !above(connection, item.name).await?.contains(&rule.name) {
        end(connection, &item, now).await?;
        return Ok(step(0));
    }
    let datasets = datasets_below(connection, item.name).await?;
    let (segments, next) = files_from(connection, &item, &datasets).await?;
    let files = segments.iter().map(|segment| segment.files.len()).sum();
    let mut counts = Counts::default();
    let shortage = if item.is_released {
        release(connection, &rule, &segments, &mut counts, now).await.map(|()| None)?
    } else {
        hold(connection, &rule, &segments, &topology, &mut counts, now).await?
    };
    let is_short = shortage.is_some();
    match shortage {
        Some(shortage) => rule_rows::set_error(connection, rule.number, &shortage.to_string()).await?,
        None if rule.error.is_some() => rule_rows::forget_error(connection, rule.number, now).await?,
        None => {}
    }
    counts.apply(connection, now).await?;
    // While the item exists, the rule is not fulfilled.
    match (is_short, next) {
        (true, _) => postpone(connection, &item, now).await?,
        (false, Some(next)) => advance(connection, &item, next).await?,
        (false, None) => end(connection, &item, now).await?,
    }
    Ok(step(files))
}

/// The next files of an item, by dataset, and the position after them; none at the end.
async fn files_from(
    connection: &mut AnyConnection,
    item: &Item,
    datasets: &[i64],
) -> Result<(Vec<Segment>, Option<(i64, i64)>)> {
    if datasets.is_empty() {
        let row = sqlx::query("SELECT bytes FROM names WHERE id = $1 AND kind = 0").bind(item.name);
        let row = row.fetch_optional(connection).await?;
        let files = row.map(|row| Ok::<_, sqlx::Error>((item.name, row.try_get(0)?))).transpose()?;
        return Ok((vec![Segment { dataset: 0, files: files.into_iter().collect() }], None));
    }
    let (mut segments, mut left) = (Vec::new(), FILES_MAX);
    for dataset in datasets.iter().copied().filter(|dataset| *dataset >= item.dataset) {
        let after = if dataset == item.dataset { item.file } else { 0 };
        let sql = "SELECT c.child, n.bytes FROM contents c JOIN names n ON n.id = c.child \
                   WHERE c.parent = $1 AND c.child > $2 ORDER BY c.child LIMIT $3";
        let rows = sqlx::query(sql).bind(dataset).bind(after).bind(left).fetch_all(&mut *connection).await?;
        let files = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<Vec<_>>>()?;
        left -= files.len() as i64;
        let last = files.last().map(|(file, _)| (dataset, *file));
        segments.push(Segment { dataset, files });
        if left == 0 {
            return Ok((segments, last));
        }
    }
    Ok((segments, None))
}

async fn advance(connection: &mut AnyConnection, item: &Item, (dataset, file): (i64, i64)) -> Result<()> {
    let sql = "UPDATE evaluations SET dataset = $1, file = $2 WHERE number = $3";
    sqlx::query(sql).bind(dataset).bind(file).bind(item.number).execute(connection).await?;
    Ok(())
}

async fn postpone(connection: &mut AnyConnection, item: &Item, now: i64) -> Result<()> {
    let sql = "UPDATE evaluations SET not_before = $1 WHERE number = $2";
    sqlx::query(sql).bind(now + AGAIN_MS).bind(item.number).execute(connection).await?;
    Ok(())
}

async fn end(connection: &mut AnyConnection, item: &Item, now: i64) -> Result<()> {
    sqlx::query("DELETE FROM evaluations WHERE number = $1").bind(item.number).execute(&mut *connection).await?;
    note_fulfilled(connection, item.rule, now).await
}

/// Locks files for a rule at the endpoints of their groups. Returns the shortage where too few endpoints can take them: then none of them is locked.
async fn hold(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    segments: &[Segment],
    topology: &Topology,
    counts: &mut Counts,
    now: i64,
) -> Result<Option<Shortage>> {
    let mut placing = Placing::new(connection, rule, topology).await?;
    let all = datasets_below(connection, rule.name).await?;
    // The space at all endpoints is checked before anything is locked.
    let mut by_endpoint: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let mut placed: HashSet<i64> = HashSet::new();
    for segment in segments {
        let held = locks::of_rule(connection, rule.number, &segment.files).await?;
        // A file of two groups goes with the first.
        let is_missing = |(file, _): &(i64, i64)| !held.contains(file) && placed.insert(*file);
        let missing: Vec<(i64, i64)> = segment.files.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            continue;
        }
        let whole = Group::of(rule.grouping, segment.dataset, &all).filter(|_| segment.dataset != 0);
        let groups: Vec<(Group<'_>, Vec<(i64, i64)>)> = match whole {
            Some(group) => vec![(group, missing)],
            None => missing.into_iter().map(|file| (Group::File(file.0, file.1), vec![file])).collect(),
        };
        for (group, files) in groups {
            let endpoints = match placing.endpoints(connection, rule, group).await? {
                Ok(endpoints) => endpoints,
                Err(shortage) => return Ok(Some(shortage)),
            };
            for endpoint in endpoints {
                if let Err(shortage) = placing.take_files(connection, group, &endpoint, &files).await? {
                    placing::forget_unused(connection, rule.number, group).await?;
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
    segments: &[Segment],
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    let datasets = datasets_below(connection, rule.name).await?;
    for segment in segments.iter().filter(|segment| !segment.files.is_empty()) {
        let files: Vec<i64> = segment.files.iter().map(|(file, _)| *file).collect();
        let still = those_below(connection, &datasets, &files).await?;
        let gone: Vec<i64> = files.into_iter().filter(|file| !still.contains(file) && *file != rule.name).collect();
        locks::release(connection, rule, &gone, counts, now).await?;
    }
    Ok(())
}

/// Those of several files that datasets contain.
async fn those_below(connection: &mut AnyConnection, datasets: &[i64], files: &[i64]) -> Result<HashSet<i64>> {
    if datasets.is_empty() {
        return Ok(HashSet::new());
    }
    let (parents, children) = (numbers(datasets.iter().copied()), numbers(files.iter().copied()));
    let sql = format!("SELECT DISTINCT child FROM contents WHERE parent IN {parents} AND child IN {children}");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
