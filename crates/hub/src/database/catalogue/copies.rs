//! Chooses the wanted replicas that the queue makes next: replicas of one rule at one endpoint, as one job.

use std::collections::{BTreeMap, HashMap, HashSet};
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
use database::rows::{id_list, insert};

/// The most files of a job: as many as one transfer takes, and few enough that rules of a higher priority do not wait for long.
const FILES_MAX: i64 = 1_000;
/// The most files that are in jobs for one endpoint at the same time: enough for the queue to share the links. The others wait in the
/// catalogue, where they cost nothing.
const UNDERWAY_MAX: i64 = 10_000;
/// The most rules that one transaction searches for files to copy.
const RULES_MAX: i64 = 200;
/// The most such transactions one after another: they search 20,000 rules.
const SEARCHES_MAX: usize = 100;
/// How long a rule is skipped after a search that found nothing to copy, milliseconds.
const IDLE_MS: i64 = 5_000;
/// How long a file without a readable source waits, milliseconds.
const NO_SOURCE_MS: i64 = 5 * 60_000;

const NO_SOURCE: &str = "no copy of it can be read: there is none, or the rule does not permit its endpoint as a source, or the endpoint is stopped";
const SOURCE_COMES: &str = "its source is an endpoint that does not have it yet";
const NO_STORAGE: &str = "its endpoint has no storage any more: describe it again, or remove the rule";

/// Replicas that one job of the queue makes.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyBatch {
    /// The id of the job.
    pub id: String,
    /// The rule that they are made for.
    pub rule: RuleRow,
    /// The endpoint that they are copied to.
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
    /// Its path at the endpoint, if it is not the path of the endpoint's naming.
    pub path: Option<String>,
    /// The copies that it can be read from.
    pub sources: Vec<CopySource>,
}

/// A copy that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The endpoint.
    pub endpoint: String,
    /// Its path at the endpoint, if it is not the path of the endpoint's naming.
    pub path: Option<String>,
}

/// A replica that is wanted.
struct WantedReplica {
    file: i64,
    path: Option<String>,
}

impl Database {
    /// Takes wanted replicas for a job, and records that the job makes them; `None` if nothing can be copied now.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_copies(&self, topology: Arc<Topology>, now: i64) -> Result<Option<CopyBatch>> {
        for _ in 0..SEARCHES_MAX {
            let topology = Arc::clone(&topology);
            match self.writer.change(move |connection| Box::pin(take_batch(connection, topology, now))).await? {
                CopySearch::Batch(batch) => return Ok(Some(*batch)),
                CopySearch::Nothing => return Ok(None),
                // The rules that were searched are idle now: the next search takes others.
                CopySearch::NothingInThese => {}
            }
        }
        Ok(None)
    }
}

/// The result of one search through rules for files to copy.
enum CopySearch {
    Batch(Box<CopyBatch>),
    /// Nothing in the rules that were searched; there are more rules.
    NothingInThese,
    Nothing,
}

async fn take_batch(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<CopySearch> {
    // The first query is cheap where a rule has a hundred thousand copies that all wait until later.
    let sql = "SELECT file FROM replicas WHERE state = 1 AND not_before <= $1 LIMIT 1";
    if sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await?.is_none() {
        return Ok(CopySearch::Nothing);
    }
    let full = full_stores(connection).await?;
    let mut idle = Vec::new();
    let rules = rule_rows::unfulfilled(connection, RULES_MAX, now).await?;
    let are_all = (rules.len() as i64) < RULES_MAX;
    for rule in rules {
        while let Some((store, endpoint, wanted)) = wanted_replicas(connection, &rule, &full, now).await? {
            let to = Target { store, endpoint: &endpoint };
            let sources = sources(connection, to, &wanted, &topology).await?;
            let replicas = by_readiness(wanted, &sources, topology.storage.contains_key(&endpoint));
            postpone(connection, store, &replicas.without_source, LockState::Stuck, NO_SOURCE, now).await?;
            postpone(connection, store, &replicas.without_storage, LockState::Stuck, NO_STORAGE, now).await?;
            postpone(connection, store, &replicas.source_coming, LockState::Replicating, SOURCE_COMES, now).await?;
            if !replicas.readable.is_empty() {
                rule_rows::set_idle(connection, &idle, now + IDLE_MS).await?;
                let batch = begin(connection, rule, to, replicas.readable, sources, now).await?;
                return Ok(CopySearch::Batch(Box::new(batch)));
            }
        }
        idle.push(rule.number);
    }
    rule_rows::set_idle(connection, &idle, now + IDLE_MS).await?;
    Ok(if are_all { CopySearch::Nothing } else { CopySearch::NothingInThese })
}

/// The numbers of the endpoints that have [`UNDERWAY_MAX`] files in jobs.
async fn full_stores(connection: &mut AnyConnection) -> Result<Vec<i64>> {
    let sql = "SELECT store FROM copies GROUP BY store HAVING COUNT(*) >= $1";
    let rows = sqlx::query(sql).bind(UNDERWAY_MAX).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Replicas that a rule wants at one endpoint: the endpoint's number, its name and the replicas.
async fn wanted_replicas(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    full: &[i64],
    now: i64,
) -> Result<Option<(i64, String, Vec<WantedReplica>)>> {
    let full = id_list(full.iter().copied().chain([0]));
    let sql = format!(
        "SELECT l.store, l.file, r.path FROM locks l JOIN replicas r ON r.file = l.file AND r.store = l.store \
         WHERE l.rule = $1 AND l.state <> 1 AND r.state = $2 AND r.not_before <= $3 AND l.store NOT IN {full} \
         AND NOT EXISTS (SELECT 1 FROM copies c WHERE c.file = l.file AND c.store = l.store) ORDER BY l.store, l.file LIMIT $4"
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(rule.number).bind(ReplicaState::Wanted.code()).bind(now);
    let rows = query.bind(FILES_MAX).fetch_all(&mut *connection).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let store: i64 = first.try_get(0)?;
    let mut wanted = Vec::new();
    for row in &rows {
        if row.try_get::<i64, _>(0)? == store {
            wanted.push(WantedReplica { file: row.try_get(1)?, path: row.try_get(2)? });
        }
    }
    let row = sqlx::query("SELECT endpoint FROM stores WHERE id = $1").bind(store).fetch_one(connection).await?;
    Ok(Some((store, row.try_get(0)?, wanted)))
}

/// The endpoint where copies are made.
#[derive(Clone, Copy)]
struct Target<'a> {
    store: i64,
    endpoint: &'a str,
}

/// The sources of a file.
#[derive(Default)]
struct Sources {
    /// Copies that exist and may be read.
    available: Vec<CopySource>,
    /// Whether a copy that may be read is being made.
    is_coming: bool,
}

impl Sources {
    /// Keeps only the better sources, if there are any.
    fn prefer(&mut self, is_better: impl Fn(&CopySource) -> bool) {
        if self.available.iter().any(&is_better) {
            self.available.retain(is_better);
        }
    }
}

/// Replicas that are wanted at one endpoint, by the state of their sources.
#[derive(Default)]
struct ReplicasByReadiness {
    readable: Vec<WantedReplica>,
    /// Files whose source is being made.
    source_coming: Vec<i64>,
    /// Files without a source.
    without_source: Vec<i64>,
    /// Files whose endpoint has no storage any more.
    without_storage: Vec<i64>,
}

fn by_readiness(wanted: Vec<WantedReplica>, sources: &HashMap<i64, Sources>, has_storage: bool) -> ReplicasByReadiness {
    let mut replicas = ReplicasByReadiness::default();
    for wanted in wanted {
        match sources.get(&wanted.file) {
            _ if !has_storage => replicas.without_storage.push(wanted.file),
            Some(sources) if !sources.available.is_empty() => replicas.readable.push(wanted),
            Some(sources) if sources.is_coming => replicas.source_coming.push(wanted.file),
            _ => replicas.without_source.push(wanted.file),
        }
    }
    replicas
}

/// The sources of files that are wanted at an endpoint: copies at endpoints that one of the holding rules permits.
async fn sources(
    connection: &mut AnyConnection,
    to: Target<'_>,
    wanted: &[WantedReplica],
    topology: &Topology,
) -> Result<HashMap<i64, Sources>> {
    let files = id_list(wanted.iter().map(|wanted| wanted.file));
    let permitted = source_expressions(connection, to.store, &files).await?;
    let may_read = |file: i64, endpoint: &str| {
        let Some(place) = topology.storage.get(endpoint) else { return false };
        let permits = |expression: &Option<Expression>| {
            expression.as_ref().is_none_or(|expression| expression.matches(endpoint, &place.attributes))
        };
        !topology.refuses(endpoint) && permitted.get(&file).is_some_and(|all| all.iter().any(permits))
    };
    let sql = format!(
        "SELECT r.file, s.endpoint, r.path, r.state FROM replicas r JOIN stores s ON s.id = r.store WHERE r.state < 3 AND r.file IN {files}"
    );
    let mut sources: HashMap<i64, Sources> = HashMap::new();
    let mut coming = HashSet::new();
    let mut existing = HashSet::new();
    for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await? {
        let (file, endpoint): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        let is_available = row.try_get::<i64, _>(3)? == ReplicaState::Available.code();
        if is_available {
            existing.insert(file);
        }
        if endpoint == to.endpoint || !may_read(file, &endpoint) {
            continue;
        }
        let file_sources = sources.entry(file).or_default();
        if !is_available {
            coming.insert(file);
        } else if file_sources.available.len() < SOURCES_MAX {
            file_sources.available.push(CopySource { endpoint, path: row.try_get(2)? });
        }
    }
    // A source that is stopped or on tape is read only if there is no other.
    for file_sources in sources.values_mut() {
        file_sources.prefer(|source| !topology.is_stopped(&source.endpoint));
        file_sources.prefer(|source| topology.described_endpoint(&source.endpoint).is_none_or(|it| !it.tape));
    }
    // A copy that is being made can arrive only if the file has a copy somewhere.
    for file in coming.intersection(&existing) {
        sources.entry(*file).or_default().is_coming = true;
    }
    Ok(sources)
}

/// The source expressions of the rules that hold files at an endpoint, by file; `None` if a rule permits every source.
async fn source_expressions(
    connection: &mut AnyConnection,
    store: i64,
    files: &str,
) -> Result<HashMap<i64, Vec<Option<Expression>>>> {
    let sql = format!(
        "SELECT DISTINCT l.file, u.source_expression FROM locks l JOIN rules u ON u.number = l.rule \
         WHERE l.store = $1 AND u.suspended = 0 AND l.file IN {files}"
    );
    let mut expressions: HashMap<i64, Vec<Option<Expression>>> = HashMap::new();
    for row in sqlx::query(AssertSqlSafe(sql)).bind(store).fetch_all(connection).await? {
        let text: Option<String> = row.try_get(1)?;
        // An expression that cannot be parsed any more matches nothing.
        let expression = text.as_deref().map(str::parse).transpose().unwrap_or_default();
        expressions.entry(row.try_get(0)?).or_default().push(expression);
    }
    Ok(expressions)
}

/// Postpones replicas, and records the reason.
async fn postpone(
    connection: &mut AnyConnection,
    store: i64,
    files: &[i64],
    state: LockState,
    why: &str,
    now: i64,
) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let ids = id_list(files.iter().copied());
    let sql = format!("UPDATE replicas SET error = $1, not_before = $2 WHERE store = $3 AND file IN {ids}");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(why).bind(now + NO_SOURCE_MS).bind(store);
    query.execute(&mut *connection).await?;
    let mut counts = Counts::default();
    locks::set_missing(connection, store, &ids, state, &mut counts).await?;
    counts.apply(connection, now).await
}

/// Makes the postponed replicas of a file due now: it has a new source.
pub(super) async fn wake(connection: &mut AnyConnection, file: i64) -> Result<()> {
    let sql = "UPDATE replicas SET not_before = 0 WHERE file = $1 AND state = $2 AND attempts = 0 AND not_before > 0";
    sqlx::query(sql).bind(file).bind(ReplicaState::Wanted.code()).execute(&mut *connection).await?;
    let sql = "UPDATE rules SET idle_until = 0 WHERE idle_until > 0 AND number IN (SELECT rule FROM locks WHERE file = $1 AND state <> 1)";
    sqlx::query(sql).bind(file).execute(connection).await?;
    Ok(())
}

/// Records that a job makes replicas.
async fn begin(
    connection: &mut AnyConnection,
    rule: RuleRow,
    to: Target<'_>,
    wanted: Vec<WantedReplica>,
    mut sources: HashMap<i64, Sources>,
    now: i64,
) -> Result<CopyBatch> {
    let store = to.store;
    let number = take_numbers(connection, "copy_jobs", 1).await?;
    let id = Uuid::now_v7().to_string();
    let sql = "INSERT INTO copy_jobs (number, id, rule, store, created) VALUES ($1, $2, $3, $4, $5)";
    let query = sqlx::query(sql).bind(number).bind(&id).bind(rule.number).bind(store).bind(now);
    query.execute(&mut *connection).await?;
    let rows: Vec<(i64, i64)> = (0..).zip(wanted.iter().map(|wanted| wanted.file)).collect();
    insert(connection, "copies (job, at, file, store)", 4, &rows, |query, (at, file)| {
        query.bind(number).bind(*at).bind(*file).bind(store)
    })
    .await?;
    let ids = id_list(wanted.iter().map(|wanted| wanted.file));
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
    let file = |wanted: WantedReplica| {
        let row = rows.remove(&wanted.file)?;
        let sources = sources.remove(&wanted.file).unwrap_or_default().available;
        let (name, path) = (row.name, wanted.path);
        Some(CopyFile { name, bytes: row.bytes, adler32: row.adler32, md5: row.md5, path, sources })
    };
    let files = wanted.into_iter().filter_map(file).collect();
    Ok(CopyBatch { id, rule, endpoint: to.endpoint.to_owned(), files })
}
