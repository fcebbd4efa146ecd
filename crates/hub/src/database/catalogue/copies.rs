//! Which wanted replicas the queue is asked for next: those of one rule at one endpoint, as one job.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use replicas::{DataName, Expression};
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use uuid::Uuid;

use super::counts::Counts;
use super::rule_rows::{self, RuleRow};
use super::states::{LockState, ReplicaState};
use super::{locks, names};
use crate::database::numbers::take_numbers;
use crate::database::{Database, Result};
use crate::limits::SOURCES_MAX;
use crate::topology::Topology;
use database::rows::{insert, numbers};

/// Files of a job: what a transfer takes at once, and little enough that rules of a higher priority need not wait for long.
const FILES_MAX: i64 = 1_000;
/// Files that are in jobs for an endpoint at once: the queue shares among those that it has, and what is behind them waits here, where it costs nothing.
const UNDERWAY_MAX: i64 = 10_000;
/// Rules that are looked at for something to copy.
const RULES_MAX: i64 = 200;
/// How long a file waits that can be read nowhere.
const NO_SOURCE_MS: i64 = 5 * 60_000;

const NO_SOURCE: &str =
    "no copy of it can be read: none is there, or those that are there are not among the rule's sources, or closed";
const NO_STORAGE: &str = "its endpoint has no storage any more: describe it again, or remove the rule";

/// Replicas that the queue is to make by one job.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyBatch {
    /// The id of the job.
    pub id: String,
    /// The rule that asks for them.
    pub rule: RuleRow,
    /// Where they are to be.
    pub endpoint: String,
    /// The files, in the order of the job.
    pub files: Vec<CopyFile>,
}

/// A file of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFile {
    /// Its name.
    pub name: DataName,
    /// Its size.
    pub bytes: i64,
    /// Its Adler-32.
    pub adler32: Option<String>,
    /// Its MD5.
    pub md5: Option<String>,
    /// Where it is to be at the endpoint, if not as the endpoint names files.
    pub path: Option<String>,
    /// Where it can be read.
    pub sources: Vec<CopySource>,
}

/// A copy that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The endpoint.
    pub endpoint: String,
    /// Where it is there, if not as the endpoint names files.
    pub path: Option<String>,
}

/// A replica that is wanted.
struct Wanted {
    file: i64,
    path: Option<String>,
}

impl Database {
    /// Takes replicas that are wanted for a job, and notes which; none where nothing can be copied now.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_copies(&self, topology: Arc<Topology>, now: i64) -> Result<Option<CopyBatch>> {
        self.writer.change(move |connection| Box::pin(take(connection, topology, now))).await
    }
}

async fn take(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<Option<CopyBatch>> {
    // A rule may have a hundred thousand copies that all wait until later.
    let sql = "SELECT file FROM replicas WHERE state = 1 AND not_before <= $1 LIMIT 1";
    if sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await?.is_none() {
        return Ok(None);
    }
    let full = full(connection).await?;
    for rule in rule_rows::unfulfilled(connection, RULES_MAX).await? {
        while let Some((store, endpoint, wanted)) = wanted(connection, &rule, &full, now).await? {
            let sources = sources(connection, &rule, &endpoint, &wanted, &topology).await?;
            let has_storage = topology.storage.contains_key(&endpoint);
            let why = if has_storage { NO_SOURCE } else { NO_STORAGE };
            let (readable, unreadable): (Vec<Wanted>, Vec<Wanted>) =
                wanted.into_iter().partition(|wanted| has_storage && sources.contains_key(&wanted.file));
            let unreadable: Vec<i64> = unreadable.iter().map(|wanted| wanted.file).collect();
            postpone(connection, store, &unreadable, why, now).await?;
            if !readable.is_empty() {
                return begin(connection, rule, (store, endpoint), readable, sources, now).await.map(Some);
            }
        }
    }
    Ok(None)
}

/// Endpoints that have enough under way to them, by number.
async fn full(connection: &mut AnyConnection) -> Result<Vec<i64>> {
    let sql = "SELECT store FROM copies GROUP BY store HAVING COUNT(*) >= $1";
    let rows = sqlx::query(sql).bind(UNDERWAY_MAX).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Replicas of a rule that are wanted at one endpoint, which is named.
async fn wanted(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    full: &[i64],
    now: i64,
) -> Result<Option<(i64, String, Vec<Wanted>)>> {
    let full = numbers(full.iter().copied().chain([0]));
    let sql = format!(
        "SELECT l.store, l.file, r.path FROM locks l JOIN replicas r ON r.file = l.file AND r.store = l.store \
         WHERE l.rule = $1 AND l.state <> 1 AND r.state = $2 AND r.not_before <= $3 AND l.store NOT IN {full} \
         ORDER BY l.store, l.file LIMIT $4"
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(rule.number).bind(ReplicaState::Wanted.code()).bind(now);
    let rows = query.bind(FILES_MAX).fetch_all(&mut *connection).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let store: i64 = first.try_get(0)?;
    let mut wanted = Vec::new();
    for row in &rows {
        if row.try_get::<i64, _>(0)? == store {
            wanted.push(Wanted { file: row.try_get(1)?, path: row.try_get(2)? });
        }
    }
    let row = sqlx::query("SELECT endpoint FROM stores WHERE id = $1").bind(store).fetch_one(connection).await?;
    Ok(Some((store, row.try_get(0)?, wanted)))
}

/// Where files can be read for a rule.
async fn sources(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    target: &str,
    wanted: &[Wanted],
    topology: &Topology,
) -> Result<HashMap<i64, Vec<CopySource>>> {
    // What does not read any more means nothing.
    let expression: Option<Expression> =
        rule.source_expression.as_deref().map(str::parse).transpose().unwrap_or_default();
    let is_source = |endpoint: &str| {
        let place = topology.storage.get(endpoint);
        place.is_some_and(|place| {
            expression.as_ref().is_none_or(|expression| expression.matches(endpoint, &place.attributes))
                && !topology.refuses(endpoint)
        })
    };
    let files = numbers(wanted.iter().map(|wanted| wanted.file));
    let sql = format!(
        "SELECT r.file, s.endpoint, r.path FROM replicas r JOIN stores s ON s.id = r.store WHERE r.state = $1 AND r.file IN {files}"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(ReplicaState::Available.code()).fetch_all(connection).await?;
    let mut sources: HashMap<i64, Vec<CopySource>> = HashMap::new();
    for row in rows {
        let (file, endpoint): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        let of_file = sources.entry(file).or_default();
        if endpoint != target && is_source(&endpoint) && of_file.len() < SOURCES_MAX {
            of_file.push(CopySource { endpoint, path: row.try_get(2)? });
        }
    }
    sources.retain(|_, sources| !sources.is_empty());
    Ok(sources)
}

/// Leaves replicas for later, and says why.
async fn postpone(connection: &mut AnyConnection, store: i64, files: &[i64], why: &str, now: i64) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let ids = numbers(files.iter().copied());
    let sql = format!("UPDATE replicas SET error = $1, not_before = $2 WHERE store = $3 AND file IN {ids}");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(why).bind(now + NO_SOURCE_MS).bind(store);
    query.execute(&mut *connection).await?;
    let mut counts = Counts::default();
    locks::set_missing(connection, store, &ids, LockState::Stuck, &mut counts).await?;
    counts.apply(connection, now).await
}

/// Notes that replicas are made by a job.
async fn begin(
    connection: &mut AnyConnection,
    rule: RuleRow,
    (store, endpoint): (i64, String),
    wanted: Vec<Wanted>,
    mut sources: HashMap<i64, Vec<CopySource>>,
    now: i64,
) -> Result<CopyBatch> {
    let (number, id) = (take_numbers(connection, "copy_jobs", 1).await?, Uuid::now_v7().to_string());
    let sql = "INSERT INTO copy_jobs (number, id, rule, store, created) VALUES ($1, $2, $3, $4, $5)";
    let query = sqlx::query(sql).bind(number).bind(&id).bind(rule.number).bind(store).bind(now);
    query.execute(&mut *connection).await?;
    let rows: Vec<(i64, i64)> = (0..).zip(wanted.iter().map(|wanted| wanted.file)).collect();
    insert(connection, "copies (job, at, file, store)", 4, &rows, |query, (at, file)| {
        query.bind(number).bind(*at).bind(*file).bind(store)
    })
    .await?;
    let ids = numbers(wanted.iter().map(|wanted| wanted.file));
    let sql = format!("UPDATE replicas SET state = $1 WHERE store = $2 AND file IN {ids}");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(ReplicaState::Copying.code()).bind(store);
    query.execute(&mut *connection).await?;
    let mut counts = Counts::default();
    locks::set_missing(connection, store, &ids, LockState::Replicating, &mut counts).await?;
    counts.apply(connection, now).await?;
    let mut rows = BTreeMap::new();
    let sql = format!("{} WHERE id IN {ids}", names::ROW);
    for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await? {
        let row = names::read(&row)?;
        rows.insert(row.id, row);
    }
    let file = |wanted: Wanted| {
        let row = rows.remove(&wanted.file)?;
        let sources = sources.remove(&wanted.file).unwrap_or_default();
        let (name, path) = (row.name, wanted.path);
        Some(CopyFile { name, bytes: row.bytes, adler32: row.adler32, md5: row.md5, path, sources })
    };
    let files = wanted.into_iter().filter_map(file).collect();
    Ok(CopyBatch { id, rule, endpoint, files })
}
