//! Claims: files are claimed for a transfer before it is ordered at a node, so that after a crash in between it is known which transfer has
//! them.

use std::collections::HashSet;

use model::Expected;
use model::v1::hub::JobOptions;
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use uuid::Uuid;

use super::numbers::take_numbers;
use super::{Database, Result};
use crate::states::{FileState, JobKind};
use crate::tokens::FileTokens;
use database::rows::id_list;

/// A file of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedFile {
    /// The number of its row.
    pub id: i64,
    /// The number of its job.
    pub job: i64,
    /// Its position in the job.
    pub at: i64,
    /// Its size in bytes; 0 if it is unknown.
    pub bytes: i64,
    /// The number of attempts, this one included.
    pub attempt: i64,
    /// The URL that is read.
    pub source: String,
    /// The URL that is written.
    pub target: String,
    /// `ALGORITHM:VALUE`.
    pub checksum: Option<String>,
    /// How the files of its job belong together.
    pub kind: JobKind,
    /// The options of its job, JSON.
    pub options: String,
    /// Whether it is a hop that another hop follows.
    pub has_next_hop: bool,
    /// Tokens for its storages.
    pub tokens: FileTokens,
}

impl ClaimedFile {
    /// The size and checksum that the file must have.
    pub fn expected(&self) -> Expected {
        Expected {
            bytes: u64::try_from(self.bytes).ok().filter(|bytes| *bytes > 0),
            digest: self.checksum.as_deref().and_then(|text| text.parse().ok()),
        }
    }

    /// The options of its job.
    pub fn options(&self) -> JobOptions {
        serde_json::from_str(&self.options).unwrap_or_default()
    }

    /// Whether an existing target is replaced.
    pub fn overwrites(&self) -> bool {
        let options = self.options();
        options.overwrite || options.overwrite_hops && self.has_next_hop
    }
}

/// The files that have been claimed for one transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its number.
    pub number: i64,
    /// Its id at the node.
    pub id: Uuid,
    /// The queue that the files are from.
    pub queue: i64,
    /// The endpoint that carries it.
    pub carrier: String,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// Its files that have not ended.
    pub files: Vec<ClaimedFile>,
    /// The numbers of the rows of all its files, in the sequence of the order at the node.
    pub order: Vec<i64>,
}

impl Claim {
    /// Whether none of its files has ended.
    pub fn is_whole(&self) -> bool {
        self.files.len() == self.order.len()
    }
}

/// A request for a claim: the queue, and the bounds of the transfer.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The queue that files are claimed from.
    pub queue: i64,
    /// The endpoint that will carry them.
    pub carrier: String,
    /// The hub that claims.
    pub hub: String,
    /// The limits of the endpoints, this transfer included.
    pub limits: EndpointLimits,
    /// The most files.
    pub files: usize,
    /// The most bytes; a single file may be larger.
    pub bytes: i64,
    /// The time of the claim, milliseconds since 1970.
    pub now: i64,
    /// Whether two files can be moved by one transfer.
    pub can_share_transfer: fn(&ClaimedFile, &ClaimedFile) -> bool,
}

/// Limits of the endpoints of a queue. They are checked in the transaction that claims, so that several hubs keep them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointLimits {
    /// The most transfers out of the source.
    pub out_transfers: u32,
    /// The most transfers into the target.
    pub in_transfers: u32,
    /// The most bytes that running transfers may reserve at the target.
    pub space_bytes: i64,
}

impl Default for EndpointLimits {
    fn default() -> EndpointLimits {
        EndpointLimits { out_transfers: u32::MAX, in_transfers: u32::MAX, space_bytes: i64::MAX }
    }
}

/// The longest pause after an attempt, milliseconds. A longer one means that the clock was set back, and is ignored.
const PAUSE_MAX_MS: i64 = 900_000;
/// The most files that one statement marks.
const FILES_PER_STATEMENT: usize = 1000;

const FILE: &str = "SELECT f.id, f.job, f.at, f.bytes, f.attempt, x.source, x.target, x.checksum, j.kind, j.options, \
                    t.source, t.target, j.file_rows FROM files f JOIN file_facts x ON x.id = f.id \
                    JOIN jobs j ON j.number = f.job LEFT JOIN file_tokens t ON t.file = f.id";

impl Database {
    /// Claims the oldest files of a queue that are ready; `None` if there are none.
    ///
    /// # Errors
    /// The database cannot be written: nothing is claimed.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Option<Claim>> {
        self.writer.change(move |connection| Box::pin(claim(connection, request))).await
    }

    /// The claim of a transfer that has not ended, with its files that have not; `None` if there is no such transfer.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn unended_claim(&self, number: i64) -> Result<Option<Claim>> {
        let sql =
            "SELECT number, id, queue, carrier, created, file_ids FROM transfers WHERE number = $1 AND ended IS NULL";
        let Some(row) = sqlx::query(sql).bind(number).fetch_optional(&self.pool).await? else { return Ok(None) };
        Ok(Some(Claim {
            number,
            id: row.try_get::<String, _>(1)?.parse().unwrap_or_default(),
            queue: row.try_get(2)?,
            carrier: row.try_get(3)?,
            created: row.try_get(4)?,
            files: self.files_of(number).await?,
            order: serde_json::from_str(&row.try_get::<String, _>(5)?).unwrap_or_default(),
        }))
    }

    /// Transfers of a hub whose unended files have all been cancelled, one by one or with their jobs.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn cancelled_transfers(&self, hub: &str) -> Result<Vec<i64>> {
        let sql = "SELECT t.number FROM transfers t JOIN files f ON f.transfer = t.number AND f.state = 1 \
                   JOIN jobs j ON j.number = f.job WHERE t.ended IS NULL AND t.hub = $1 \
                   GROUP BY t.number HAVING MIN(j.ending + f.ending) > 0";
        let any = "SELECT 1 FROM jobs WHERE ending = 1 AND ended IS NULL \
                   UNION ALL SELECT 1 FROM files WHERE ending = 1 AND state = 1 LIMIT 1";
        if sqlx::query(any).fetch_optional(&self.pool).await?.is_none() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(sql).bind(hub).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn files_of(&self, transfer: i64) -> Result<Vec<ClaimedFile>> {
        let sql = format!("{FILE} WHERE f.transfer = $1 AND f.state = 1 ORDER BY f.id");
        sqlx::query(AssertSqlSafe(sql)).bind(transfer).fetch_all(&self.pool).await?.iter().map(read).collect()
    }
}

fn read(row: &sqlx::any::AnyRow) -> Result<ClaimedFile> {
    let (at, rows): (i64, i64) = (row.try_get(2)?, row.try_get(12)?);
    let kind = JobKind::of_code(row.try_get(8)?).unwrap_or(JobKind::Independent);
    Ok(ClaimedFile {
        id: row.try_get(0)?,
        job: row.try_get(1)?,
        at,
        bytes: row.try_get(3)?,
        attempt: row.try_get(4)?,
        source: row.try_get(5)?,
        target: row.try_get(6)?,
        checksum: row.try_get(7)?,
        kind,
        has_next_hop: kind == JobKind::MultiHop && at + 1 < rows,
        options: row.try_get(9)?,
        tokens: FileTokens {
            source: row.try_get::<Option<String>, _>(10)?.unwrap_or_default(),
            target: row.try_get::<Option<String>, _>(11)?.unwrap_or_default(),
        },
    })
}

/// Whether one more transfer of a queue is within the limits of its endpoints.
async fn has_room(connection: &mut AnyConnection, request: &ClaimRequest) -> Result<bool> {
    for (column, most) in [("source", request.limits.out_transfers), ("target", request.limits.in_transfers)] {
        if most == u32::MAX {
            continue;
        }
        let sql = format!(
            "SELECT COUNT(*) FROM transfers t JOIN queues q ON q.id = t.queue \
             WHERE t.ended IS NULL AND q.{column} = (SELECT {column} FROM queues WHERE id = $1)"
        );
        let row = sqlx::query(AssertSqlSafe(sql)).bind(request.queue).fetch_one(&mut *connection).await?;
        if row.try_get::<i64, _>(0)? >= i64::from(most) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The space at the target of a queue that is not reserved, bytes.
async fn space_left(connection: &mut AnyConnection, request: &ClaimRequest) -> Result<i64> {
    if request.limits.space_bytes == i64::MAX {
        return Ok(i64::MAX);
    }
    let sql = "SELECT CAST(COALESCE(SUM(running_bytes), 0) AS BIGINT) FROM queues \
               WHERE target = (SELECT target FROM queues WHERE id = $1) AND running > 0";
    let row = sqlx::query(sql).bind(request.queue).fetch_one(&mut *connection).await?;
    Ok(request.limits.space_bytes - row.try_get::<i64, _>(0)?)
}

async fn claim(connection: &mut AnyConnection, request: ClaimRequest) -> Result<Option<Claim>> {
    if !has_room(connection, &request).await? {
        return Ok(None);
    }
    let space = space_left(connection, &request).await?;
    let ready = "f.queue = $1 AND f.state = 0 AND (f.not_before <= $2 OR f.not_before > $2 + $4) \
                 AND NOT EXISTS (SELECT 1 FROM stages s WHERE s.file = f.id AND s.state < 2)";
    let sql = AssertSqlSafe(format!("{FILE} WHERE {ready} ORDER BY f.id LIMIT $3"));
    let query = sqlx::query(sql).bind(request.queue).bind(request.now).bind(request.files as i64).bind(PAUSE_MAX_MS);
    let rows = query.fetch_all(&mut *connection).await?;
    let mut files: Vec<ClaimedFile> = Vec::with_capacity(rows.len());
    let mut bytes = 0i64;
    let mut sources = HashSet::new();
    for row in &rows {
        let file = read(row)?;
        bytes = bytes.saturating_add(file.bytes);
        let fits =
            files.first().is_none_or(|first| bytes <= request.bytes && (request.can_share_transfer)(first, &file));
        // A node reports files by their sources, so a transfer has each source once.
        if !fits || bytes > space || !sources.insert(file.source.clone()) {
            break;
        }
        files.push(ClaimedFile { attempt: file.attempt + 1, ..file });
    }
    if files.is_empty() {
        return Ok(None);
    }
    let number = take_numbers(connection, "transfers", 1).await?;
    let order = files.iter().map(|file| file.id).collect();
    let (id, created) = (Uuid::now_v7(), request.now);
    let claim = Claim { number, id, queue: request.queue, carrier: request.carrier, created, files, order };
    store(connection, &claim, &request.hub).await?;
    Ok(Some(claim))
}

async fn store(connection: &mut AnyConnection, claim: &Claim, hub: &str) -> Result<()> {
    let bytes: i64 = claim.files.iter().map(|file| file.bytes).sum();
    let sql = "INSERT INTO transfers (number, id, queue, carrier, files, bytes, created, hub, file_ids) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let query = sqlx::query(sql).bind(claim.number).bind(claim.id.to_string()).bind(claim.queue);
    let query = query.bind(claim.carrier.as_str()).bind(claim.files.len() as i64).bind(bytes).bind(claim.created);
    let query = query.bind(hub).bind(serde_json::to_string(&claim.order).unwrap_or_default());
    query.execute(&mut *connection).await?;
    for chunk in claim.files.chunks(FILES_PER_STATEMENT) {
        let state = FileState::Running.code();
        let ids = id_list(chunk.iter().map(|file| file.id));
        let number = claim.number;
        let sql =
            format!("UPDATE files SET state = {state}, attempt = attempt + 1, transfer = {number} WHERE id IN {ids}");
        sqlx::query(AssertSqlSafe(sql)).persistent(false).execute(&mut *connection).await?;
        let sql = format!("UPDATE file_facts SET started = {} WHERE id IN {ids}", claim.created);
        sqlx::query(AssertSqlSafe(sql)).persistent(false).execute(&mut *connection).await?;
    }
    let sql = "UPDATE queues SET queued = queued - $1, queued_bytes = queued_bytes - $2, running = running + $1, \
               running_bytes = running_bytes + $2 WHERE id = $3";
    let files = claim.files.len() as i64;
    sqlx::query(sql).bind(files).bind(bytes).bind(claim.queue).execute(&mut *connection).await?;
    for (job, files) in files_per_job(&claim.files) {
        let sql = "UPDATE jobs SET queued = queued - $1, running = running + $1, started = COALESCE(started, $2) WHERE number = $3";
        sqlx::query(sql).bind(files).bind(claim.created).bind(job).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The number of files of each job.
fn files_per_job(files: &[ClaimedFile]) -> Vec<(i64, i64)> {
    let mut jobs: Vec<i64> = files.iter().map(|file| file.job).collect();
    jobs.sort_unstable();
    jobs.chunk_by(|a, b| a == b).map(|chunk| (chunk[0], chunk.len() as i64)).collect()
}
