//! Which wanted replicas the queue is asked for next: those of one rule at one endpoint, as one job.

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
use database::rows::{insert, numbers};

/// Files of a job: what a transfer takes at once, and little enough that rules of a higher priority need not wait for long.
const FILES_MAX: i64 = 1_000;
/// Files that are in jobs for an endpoint at once: the queue shares among those that it has, and what is behind them waits here, where it costs nothing.
const UNDERWAY_MAX: i64 = 10_000;
/// Rules that are looked at for something to copy, in one transaction.
const RULES_MAX: i64 = 200;
/// Such looks, one after another: 20,000 rules.
const TURNS_MAX: usize = 100;
/// How long a rule is not looked at of which nothing could be copied.
const IDLE_MS: i64 = 5_000;
/// How long a file waits that can be read nowhere.
const NO_SOURCE_MS: i64 = 5 * 60_000;

const NO_SOURCE: &str =
    "no copy of it can be read: none is there, or those that are there are not among the rule's sources, or closed";
const SOURCE_COMES: &str = "it is read at an endpoint that does not have it yet";
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
        for _ in 0..TURNS_MAX {
            let of = Arc::clone(&topology);
            match self.writer.change(move |connection| Box::pin(take(connection, of, now))).await? {
                Taken::Batch(batch) => return Ok(Some(*batch)),
                Taken::Nothing => return Ok(None),
                // Those that were looked at are idle now: others have their turn.
                Taken::NothingOfThese => {}
            }
        }
        Ok(None)
    }
}

/// What one look at rules has found to copy.
enum Taken {
    Batch(Box<CopyBatch>),
    /// Nothing of the rules that were looked at, and there are more.
    NothingOfThese,
    Nothing,
}

async fn take(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<Taken> {
    // A rule may have a hundred thousand copies that all wait until later.
    let sql = "SELECT file FROM replicas WHERE state = 1 AND not_before <= $1 LIMIT 1";
    if sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await?.is_none() {
        return Ok(Taken::Nothing);
    }
    let full = full(connection).await?;
    let mut idle = Vec::new();
    let rules = rule_rows::unfulfilled(connection, RULES_MAX, now).await?;
    let are_all = (rules.len() as i64) < RULES_MAX;
    for rule in rules {
        while let Some((store, endpoint, wanted)) = wanted(connection, &rule, &full, now).await? {
            let to = Target { store, endpoint: &endpoint };
            let sources = sources(connection, to, &wanted, &topology).await?;
            let sorted = sorted(wanted, &sources, topology.storage.contains_key(&endpoint));
            postpone(connection, store, &sorted.none, LockState::Stuck, NO_SOURCE, now).await?;
            postpone(connection, store, &sorted.homeless, LockState::Stuck, NO_STORAGE, now).await?;
            postpone(connection, store, &sorted.coming, LockState::Replicating, SOURCE_COMES, now).await?;
            if !sorted.readable.is_empty() {
                rule_rows::set_idle(connection, &idle, now + IDLE_MS).await?;
                let batch = begin(connection, rule, to, sorted.readable, sources, now).await?;
                return Ok(Taken::Batch(Box::new(batch)));
            }
        }
        idle.push(rule.number);
    }
    rule_rows::set_idle(connection, &idle, now + IDLE_MS).await?;
    Ok(if are_all { Taken::Nothing } else { Taken::NothingOfThese })
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
         AND NOT EXISTS (SELECT 1 FROM copies c WHERE c.file = l.file AND c.store = l.store) ORDER BY l.store, l.file LIMIT $4"
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

/// Where copies are to be.
#[derive(Clone, Copy)]
struct Target<'a> {
    store: i64,
    endpoint: &'a str,
}

/// Where a file can be read for a copy.
#[derive(Default)]
struct Sources {
    /// Copies that are there and may be read.
    there: Vec<CopySource>,
    /// One that may be read is on its way.
    is_coming: bool,
}

impl Sources {
    /// Leaves those that are better, where there are any.
    fn prefer(&mut self, is_better: impl Fn(&CopySource) -> bool) {
        if self.there.iter().any(&is_better) {
            self.there.retain(is_better);
        }
    }
}

/// Copies that are wanted at one endpoint, by what can be done for them now.
#[derive(Default)]
struct Sorted {
    readable: Vec<Wanted>,
    /// What they are read from is on its way.
    coming: Vec<i64>,
    /// Nothing that may be read is there.
    none: Vec<i64>,
    /// The endpoint has no storage any more.
    homeless: Vec<i64>,
}

fn sorted(wanted: Vec<Wanted>, sources: &HashMap<i64, Sources>, has_storage: bool) -> Sorted {
    let mut sorted = Sorted::default();
    for wanted in wanted {
        match sources.get(&wanted.file) {
            _ if !has_storage => sorted.homeless.push(wanted.file),
            Some(sources) if !sources.there.is_empty() => sorted.readable.push(wanted),
            Some(sources) if sources.is_coming => sorted.coming.push(wanted.file),
            _ => sorted.none.push(wanted.file),
        }
    }
    sorted
}

/// Where files can be read for copies at an endpoint: at what one of the rules permits that hold the copy.
async fn sources(
    connection: &mut AnyConnection,
    to: Target<'_>,
    wanted: &[Wanted],
    topology: &Topology,
) -> Result<HashMap<i64, Sources>> {
    let files = numbers(wanted.iter().map(|wanted| wanted.file));
    let permitted = permitted(connection, to.store, &files).await?;
    let may_read = |file: i64, endpoint: &str| {
        let Some(place) = topology.storage.get(endpoint) else { return false };
        let means = |expression: &Option<Expression>| {
            expression.as_ref().is_none_or(|expression| expression.matches(endpoint, &place.attributes))
        };
        !topology.refuses(endpoint) && permitted.get(&file).is_some_and(|all| all.iter().any(means))
    };
    let sql = format!(
        "SELECT r.file, s.endpoint, r.path, r.state FROM replicas r JOIN stores s ON s.id = r.store WHERE r.state < 3 AND r.file IN {files}"
    );
    let mut sources: HashMap<i64, Sources> = HashMap::new();
    let (mut expected, mut exists) = (HashSet::new(), HashSet::new());
    for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await? {
        let (file, endpoint): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        let is_there = row.try_get::<i64, _>(3)? == ReplicaState::Available.code();
        if is_there {
            exists.insert(file);
        }
        if endpoint == to.endpoint || !may_read(file, &endpoint) {
            continue;
        }
        let of_file = sources.entry(file).or_default();
        if !is_there {
            expected.insert(file);
        } else if of_file.there.len() < SOURCES_MAX {
            of_file.there.push(CopySource { endpoint, path: row.try_get(2)? });
        }
    }
    // One that is stopped, or on tape, is read only where there is no other.
    for of_file in sources.values_mut() {
        of_file.prefer(|source| !topology.is_stopped(&source.endpoint));
        of_file.prefer(|source| topology.described_endpoint(&source.endpoint).is_none_or(|it| !it.tape));
    }
    // What is on its way comes only where there is something to make it of.
    for file in expected.intersection(&exists) {
        sources.entry(*file).or_default().is_coming = true;
    }
    Ok(sources)
}

/// The expressions of the rules that hold files at an endpoint, of where these may be read; none for anywhere.
async fn permitted(
    connection: &mut AnyConnection,
    store: i64,
    files: &str,
) -> Result<HashMap<i64, Vec<Option<Expression>>>> {
    let sql = format!(
        "SELECT DISTINCT l.file, u.source_expression FROM locks l JOIN rules u ON u.number = l.rule \
         WHERE l.store = $1 AND u.suspended = 0 AND l.file IN {files}"
    );
    let mut permitted: HashMap<i64, Vec<Option<Expression>>> = HashMap::new();
    for row in sqlx::query(AssertSqlSafe(sql)).bind(store).fetch_all(connection).await? {
        let text: Option<String> = row.try_get(1)?;
        // What does not read any more means nothing.
        let expression = text.as_deref().map(str::parse).transpose().unwrap_or_default();
        permitted.entry(row.try_get(0)?).or_default().push(expression);
    }
    Ok(permitted)
}

/// Leaves replicas for later, and says why.
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
    let ids = numbers(files.iter().copied());
    let sql = format!("UPDATE replicas SET error = $1, not_before = $2 WHERE store = $3 AND file IN {ids}");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(why).bind(now + NO_SOURCE_MS).bind(store);
    query.execute(&mut *connection).await?;
    let mut counts = Counts::default();
    locks::set_missing(connection, store, &ids, state, &mut counts).await?;
    counts.apply(connection, now).await
}

/// Has copies of a file tried now that wait for one that can be read: there is one more.
pub(super) async fn wake(connection: &mut AnyConnection, file: i64) -> Result<()> {
    let sql = "UPDATE replicas SET not_before = 0 WHERE file = $1 AND state = $2 AND attempts = 0 AND not_before > 0";
    sqlx::query(sql).bind(file).bind(ReplicaState::Wanted.code()).execute(&mut *connection).await?;
    let sql = "UPDATE rules SET idle_until = 0 WHERE idle_until > 0 AND number IN (SELECT rule FROM locks WHERE file = $1 AND state <> 1)";
    sqlx::query(sql).bind(file).execute(connection).await?;
    Ok(())
}

/// Notes that replicas are made by a job.
async fn begin(
    connection: &mut AnyConnection,
    rule: RuleRow,
    to: Target<'_>,
    wanted: Vec<Wanted>,
    mut sources: HashMap<i64, Sources>,
    now: i64,
) -> Result<CopyBatch> {
    let store = to.store;
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
        let sources = sources.remove(&wanted.file).unwrap_or_default().there;
        let (name, path) = (row.name, wanted.path);
        Some(CopyFile { name, bytes: row.bytes, adler32: row.adler32, md5: row.md5, path, sources })
    };
    let files = wanted.into_iter().filter_map(file).collect();
    Ok(CopyBatch { id, rule, endpoint: to.endpoint.to_owned(), files })
}
