//! The archive in its database.

use std::collections::HashMap;
use std::sync::Arc;

use database::rows::{id_list, insert, insert_new};
use database::{Migrations, OpenError};
use model::v1::watch::{Alarm, Annotation};
use parking_lot::RwLock;
use sqlx::{AnyPool, AssertSqlSafe, Row as _};
use tokio::sync::Mutex;

use super::chunk::{ChunkError, pack_row, unpack};
use super::columns::{self, Column};
use super::{DAY, Level, Row, day_of, pack as packing};
use crate::time;

static MIGRATIONS: Migrations =
    Migrations { sqlite: sqlx::migrate!("migrations/sqlite"), postgres: sqlx::migrate!("migrations/postgres") };

/// Connections to the database.
const CONNECTIONS_MAX: u32 = 6;
/// Series that one transaction packs.
const PACKED_AT_ONCE: usize = 500;
/// Alarms and annotations in one answer.
const LISTED_MAX: i64 = 10_000;

/// An error of the archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A statement failed.
    #[error("the archive: {0}")]
    Statement(#[from] sqlx::Error),
    /// A day is damaged.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// A stored document cannot be read.
    #[error("the archive holds a document that cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

/// The result of a call to the archive.
pub type Result<T> = std::result::Result<T, ArchiveError>;

/// The key of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesKey {
    /// One end, or the name of an interface.
    pub from: String,
    /// The other end; empty for an interface.
    pub to: String,
    /// Which test: `latency`, `throughput`, `throughput reverse`, `path`, `counters`.
    pub test: String,
}

impl SeriesKey {
    /// Its columns.
    pub fn columns(&self) -> &'static [Column] {
        columns::of_test(&self.test)
    }
}

/// A row that is to be stored.
#[derive(Clone, Debug)]
pub struct NewRow {
    /// The number of its series.
    pub series: i64,
    /// The row.
    pub row: Row,
    /// Its columns.
    pub columns: &'static [Column],
    /// The whole report of the node, where it has more than the row.
    pub report: Option<String>,
}

/// An open archive.
#[derive(Clone, Debug)]
pub struct Archive {
    pool: AnyPool,
    series: Arc<RwLock<HashMap<SeriesKey, i64>>>,
    /// One transaction writes at a time: SQLite refuses a second one that has read before the first one wrote.
    writing: Arc<Mutex<()>>,
}

impl Archive {
    /// Opens the archive by its URL.
    ///
    /// # Errors
    /// The database cannot be opened or read.
    pub async fn open(url: &str) -> Result<Archive> {
        let (pool, _) = database::open(url, &MIGRATIONS, CONNECTIONS_MAX).await?;
        let mut series = HashMap::new();
        for row in sqlx::query("SELECT id, source, target, test FROM series").fetch_all(&pool).await? {
            let key = SeriesKey { from: row.try_get(1)?, to: row.try_get(2)?, test: row.try_get(3)? };
            series.insert(key, row.try_get(0)?);
        }
        Ok(Archive { pool, series: Arc::new(RwLock::new(series)), writing: Arc::default() })
    }

    /// The number of a series; creates the series if it does not exist.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn series(&self, key: &SeriesKey) -> Result<i64> {
        if let Some(id) = self.series_id(key) {
            return Ok(id);
        }
        let sql = "INSERT INTO series (source, target, test) VALUES ($1, $2, $3) ON CONFLICT (source, target, test) DO NOTHING";
        let query = sqlx::query(sql).bind(key.from.as_str()).bind(key.to.as_str()).bind(key.test.as_str());
        query.execute(&self.pool).await?;
        let sql = "SELECT id FROM series WHERE source = $1 AND target = $2 AND test = $3";
        let query = sqlx::query(sql).bind(key.from.as_str()).bind(key.to.as_str()).bind(key.test.as_str());
        let id: i64 = query.fetch_one(&self.pool).await?.try_get(0)?;
        self.series.write().insert(key.clone(), id);
        Ok(id)
    }

    /// The number of a series, if it exists.
    pub fn series_id(&self, key: &SeriesKey) -> Option<i64> {
        self.series.read().get(key).copied()
    }

    /// All series.
    pub fn all_series(&self) -> Vec<(SeriesKey, i64)> {
        self.series.read().iter().map(|(key, id)| (key.clone(), *id)).collect()
    }

    /// Stores rows together with the cursor of a node's measurements: both or nothing. A row whose time is stored already is the same row, fetched
    /// once more: it is skipped.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn append(&self, rows: &[NewRow], cursor: Option<(&str, u64)>) -> Result<()> {
        let _writing = self.writing.lock().await;
        let mut transaction = self.pool.begin().await?;
        let packed: Vec<(i64, i64, Vec<u8>)> =
            rows.iter().map(|new| (new.series, new.row.at, pack_row(new.columns, &new.row))).collect();
        insert_new(&mut transaction, "samples (series, at, body)", 3, &packed, |query, (series, at, body)| {
            query.bind(*series).bind(*at).bind(body.as_slice())
        })
        .await?;
        let report = |new: &NewRow| Some((new.series, new.row.at, new.report.clone()?));
        let reports: Vec<(i64, i64, String)> = rows.iter().filter_map(report).collect();
        insert_new(&mut transaction, "reports (series, at, body)", 3, &reports, |query, (series, at, body)| {
            query.bind(*series).bind(*at).bind(body.as_str())
        })
        .await?;
        if let Some((node, next)) = cursor {
            let sql = "INSERT INTO cursors (node, next) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE SET next = excluded.next";
            sqlx::query(sql).bind(node).bind(next as i64).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// The cursor of a node: the number up to which its measurements are stored.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn cursor(&self, node: &str) -> Result<u64> {
        let row = sqlx::query("SELECT next FROM cursors WHERE node = $1").bind(node).fetch_optional(&self.pool).await?;
        Ok(row.map(|row| row.try_get::<i64, _>(0)).transpose()?.unwrap_or(0) as u64)
    }

    /// Rows of a series from `from` up to `to`, at a level; rows that are not packed yet are rolled up here.
    ///
    /// # Errors
    /// The database cannot be read, or a day is damaged.
    pub async fn rows(&self, key: &SeriesKey, level: Level, from: i64, to: i64) -> Result<Vec<Row>> {
        let Some(series) = self.series_id(key) else { return Ok(Vec::new()) };
        let columns = key.columns();
        let sql = "SELECT body FROM chunks WHERE level = $1 AND series = $2 AND day >= $3 AND day <= $4 ORDER BY day";
        let query = sqlx::query(sql).bind(level.number()).bind(series).bind(day_of(from)).bind(day_of(to));
        let mut rows = Vec::new();
        for blob in query.fetch_all(&self.pool).await? {
            rows.extend(unpack(columns, &blob.try_get::<Vec<u8>, _>(0)?)?);
        }
        let sql = "SELECT body FROM samples WHERE series = $1 AND at >= $2 AND at < $3 ORDER BY at";
        let step = level.step().unwrap_or(1);
        let query = sqlx::query(sql).bind(series).bind(from - from.rem_euclid(step)).bind(to);
        let mut recent = Vec::new();
        for body in query.fetch_all(&self.pool).await? {
            recent.extend(unpack(columns, &body.try_get::<Vec<u8>, _>(0)?)?);
        }
        rows.extend(match level.step() {
            None => recent,
            Some(step) => columns::roll_up(columns, &recent, step),
        });
        rows.retain(|row| row.at >= from - from.rem_euclid(step) && row.at < to);
        // Rows of an hour that was packed between the two queries are in both answers.
        rows.sort_by_key(|row| row.at);
        rows.dedup_by_key(|row| row.at);
        Ok(rows)
    }

    /// Packs the rows that are older than `before`, a multiple of an hour; returns how many. A call that was interrupted can be repeated.
    ///
    /// # Errors
    /// The database cannot be written, or a day is damaged.
    pub async fn pack(&self, before: i64) -> Result<u64> {
        let all = self.all_series();
        let mut packed = 0;
        for batch in all.chunks(PACKED_AT_ONCE) {
            packed += self.pack_batch(batch, before).await?;
        }
        Ok(packed)
    }

    async fn pack_batch(&self, batch: &[(SeriesKey, i64)], before: i64) -> Result<u64> {
        let _writing = self.writing.lock().await;
        let mut transaction = self.pool.begin().await?;
        let mut packed = 0;
        for (key, series) in batch {
            let columns = key.columns();
            let sql = "SELECT body FROM samples WHERE series = $1 AND at < $2 ORDER BY at";
            let mut rows = Vec::new();
            for body in sqlx::query(sql).bind(*series).bind(before).fetch_all(&mut *transaction).await? {
                rows.extend(unpack(columns, &body.try_get::<Vec<u8>, _>(0)?)?);
            }
            if rows.is_empty() {
                continue;
            }
            packed += rows.len() as u64;
            let interval_ms = rows.windows(2).map(|pair| pair[1].at - pair[0].at).min().unwrap_or(60_000);
            for day in rows.chunk_by(|a, b| day_of(a.at) == day_of(b.at)) {
                for level in packing::levels(interval_ms) {
                    self.pack_day(&mut transaction, columns, *level, *series, day).await?;
                }
            }
            let sql = "DELETE FROM samples WHERE series = $1 AND at < $2";
            sqlx::query(sql).bind(*series).bind(before).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(packed)
    }

    async fn pack_day(
        &self,
        connection: &mut sqlx::AnyConnection,
        columns: &[Column],
        level: Level,
        series: i64,
        rows: &[Row],
    ) -> Result<()> {
        let day = rows.first().map_or(0, |row| day_of(row.at));
        let sql = "SELECT body FROM chunks WHERE level = $1 AND day = $2 AND series = $3";
        let query = sqlx::query(sql).bind(level.number()).bind(day).bind(series);
        let known: Option<Vec<u8>> =
            query.fetch_optional(&mut *connection).await?.map(|row| row.try_get(0)).transpose()?;
        let blob = packing::add(columns, level, known.as_deref(), rows)?;
        let sql = "INSERT INTO chunks (level, day, series, body) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (level, day, series) DO UPDATE SET body = excluded.body";
        let query = sqlx::query(sql).bind(level.number()).bind(day).bind(series).bind(blob);
        query.execute(&mut *connection).await?;
        Ok(())
    }

    /// Writes days that are packed already, for imports and benchmarks.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn write_days(&self, level: Level, day: i64, blobs: &[(i64, Vec<u8>)]) -> Result<()> {
        let _writing = self.writing.lock().await;
        let mut transaction = self.pool.begin().await?;
        insert(&mut transaction, "chunks (level, day, series, body)", 4, blobs, |query, (series, blob)| {
            query.bind(level.number()).bind(day).bind(*series).bind(blob.as_slice())
        })
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Removes everything that is older than `keep` says.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn forget(&self, now: i64, keep: &crate::config::Keep) -> Result<()> {
        let kept = [(Level::Raw, keep.raw), (Level::Minutes, keep.minutes), (Level::Hours, keep.hours)];
        for (level, keep) in kept {
            let sql = "DELETE FROM chunks WHERE level = $1 AND day < $2";
            let day = day_of(now) - keep.as_millis() as i64 / DAY;
            sqlx::query(sql).bind(level.number()).bind(day).execute(&self.pool).await?;
        }
        let before = now - keep.raw.as_millis() as i64;
        sqlx::query("DELETE FROM reports WHERE at < $1").bind(before).execute(&self.pool).await?;
        Ok(())
    }

    /// The newest whole report of a node in a series, from `at` or before.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn report(&self, series: i64, at: i64) -> Result<Option<String>> {
        let sql = "SELECT body FROM reports WHERE series = $1 AND at <= $2 ORDER BY at DESC LIMIT 1";
        let row = sqlx::query(sql).bind(series).bind(at).fetch_optional(&self.pool).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Stores an alarm: a new one gets its number, a known one is overwritten.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn write_alarm(&self, alarm: &mut Alarm) -> Result<()> {
        let since = time::parse(&alarm.since).unwrap_or(0);
        let ended = alarm.ended.as_deref().and_then(time::parse);
        // The body has the number in it, so it follows the row. Nobody may read the row before it has its body.
        let mut transaction = self.pool.begin().await?;
        let mut stored = alarm.clone();
        if stored.id == 0 {
            let sql = "INSERT INTO alarms (source, target, kind, since, ended, body) VALUES ($1, $2, $3, $4, $5, '') RETURNING id";
            let query = sqlx::query(sql).bind(alarm.from.as_str()).bind(alarm.to.as_str()).bind(alarm.kind.word());
            stored.id = query.bind(since).bind(ended).fetch_one(&mut *transaction).await?.try_get(0)?;
        }
        let sql = "UPDATE alarms SET ended = $1, body = $2 WHERE id = $3";
        let body = serde_json::to_string(&stored)?;
        sqlx::query(sql).bind(ended).bind(body).bind(stored.id).execute(&mut *transaction).await?;
        transaction.commit().await?;
        // A number that was not stored must not be taken for one that was.
        alarm.id = stored.id;
        Ok(())
    }

    /// Alarms that had not ended before `from`, or, without it, those that have not ended; the newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn alarms(&self, from: Option<i64>, limit: i64) -> Result<Vec<Alarm>> {
        let (sql, from) = match from {
            None => {
                ("SELECT id, body FROM alarms WHERE ended IS NULL AND since >= $1 ORDER BY id DESC LIMIT $2", i64::MIN)
            }
            Some(from) => {
                ("SELECT id, body FROM alarms WHERE ended IS NULL OR ended >= $1 ORDER BY id DESC LIMIT $2", from)
            }
        };
        let rows = sqlx::query(sql).bind(from).bind(limit.min(LISTED_MAX)).fetch_all(&self.pool).await?;
        let read = |row: &sqlx::any::AnyRow| {
            let alarm: Alarm = serde_json::from_str(&row.try_get::<String, _>(1)?)?;
            Ok(Alarm { id: row.try_get(0)?, ..alarm })
        };
        rows.iter().map(read).collect()
    }

    /// Stores an annotation.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn annotate(&self, annotation: &Annotation) -> Result<()> {
        let sql = "INSERT INTO annotations (at, place, text, author) VALUES ($1, $2, $3, $4)";
        let query = sqlx::query(sql).bind(time::parse(&annotation.at).unwrap_or(0)).bind(annotation.place.as_str());
        query.bind(annotation.text.as_str()).bind(annotation.by.as_str()).execute(&self.pool).await?;
        Ok(())
    }

    /// The annotations from `from` up to `to`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn annotations(&self, from: i64, to: i64) -> Result<Vec<Annotation>> {
        let sql = "SELECT at, place, text, author FROM annotations WHERE at >= $1 AND at < $2 ORDER BY at LIMIT $3";
        let rows = sqlx::query(sql).bind(from).bind(to).bind(LISTED_MAX).fetch_all(&self.pool).await?;
        let read = |row: &sqlx::any::AnyRow| {
            Ok(Annotation {
                at: time::show(row.try_get(0)?),
                place: row.try_get(1)?,
                text: row.try_get(2)?,
                by: row.try_get(3)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Removes series by their numbers. The caller chooses series without tests and without rows.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn forget_series(&self, ids: &[i64]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = format!("DELETE FROM series WHERE id IN {}", id_list(ids.iter().copied()));
        sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await?;
        self.series.write().retain(|_, id| !ids.contains(id));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
