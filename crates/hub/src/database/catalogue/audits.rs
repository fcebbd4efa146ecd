//! Audits: their orders, the leases of the hubs that make them, and their findings.

use model::v1::hub::AuditState;
use replicas::{Audit, DataName, Difference, KnownCopy, Naming};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::states::ReplicaState;
use super::{stores, suspicions};
use crate::database::numbers::take_numbers;
use crate::database::{Database, Result};
use database::rows::insert;

/// How long the lease of a hub on an audit lasts unless the hub renews it, milliseconds.
const LEASE_MS: i64 = 5 * 60_000;
/// The most copies that are read and compared at once.
const PAGE: i64 = 5_000;
/// The most findings of an audit that are kept; more are only counted.
const FINDINGS_MAX: usize = 100_000;
/// The most findings that one transaction writes.
const FINDINGS_PER_WRITE: usize = 2_000;
/// The number of audits of an endpoint whose findings are kept: the newest ones.
const AUDITS_KEPT: i64 = 10;

/// An audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number.
    pub number: i64,
    /// The endpoint.
    pub endpoint: String,
    /// The directory that is compared; empty for the whole endpoint.
    pub below: String,
    /// The account that ordered it.
    pub account: String,
    /// Its state.
    pub state: AuditState,
    /// When the listing was begun, milliseconds since 1970.
    pub begun: i64,
    /// When the audit ended, milliseconds since 1970.
    pub ended: Option<i64>,
    /// Files that have been listed.
    pub listed: i64,
    /// The counts of its findings.
    pub counts: AuditCounts,
    /// Files that have been deleted.
    pub deleted: i64,
    /// Why it failed, or why its findings are not complete.
    pub error: Option<String>,
}

/// How much an audit has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
    /// Copies that are missing.
    pub missing: i64,
    /// Copies with another size.
    pub wrong_size: i64,
    /// Files that the catalogue does not know.
    pub dark: i64,
    /// Their bytes.
    pub dark_bytes: i64,
}

impl AuditCounts {
    /// Findings of all kinds.
    fn all(self) -> i64 {
        self.missing + self.wrong_size + self.dark
    }
}

/// A difference that an audit has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of difference.
    pub kind: Difference,
    /// The path below the directory of the endpoint.
    pub path: String,
    /// Its size at the endpoint, if that is known.
    pub bytes: Option<i64>,
    /// The id of the file in the catalogue, if it knows the file.
    pub file: Option<i64>,
}

const STATES: [AuditState; 5] =
    [AuditState::Listing, AuditState::Done, AuditState::Failed, AuditState::Cleaning, AuditState::Cleaned];
const KINDS: [Difference; 3] = [Difference::Missing, Difference::Size, Difference::Dark];

fn code(state: AuditState) -> i64 {
    STATES.iter().position(|one| *one == state).unwrap_or_default() as i64
}

const ROW: &str = "SELECT number, endpoint, below, account, state, begun, ended, listed, missing, wrong_size, dark, dark_bytes, deleted, error FROM audits";

fn read(row: &AnyRow) -> Result<AuditRow> {
    let state: i64 = row.try_get(4)?;
    Ok(AuditRow {
        number: row.try_get(0)?,
        endpoint: row.try_get(1)?,
        below: row.try_get(2)?,
        account: row.try_get(3)?,
        state: usize::try_from(state).ok().and_then(|at| STATES.get(at).copied()).unwrap_or(AuditState::Failed),
        begun: row.try_get(5)?,
        ended: row.try_get(6)?,
        listed: row.try_get(7)?,
        counts: AuditCounts {
            missing: row.try_get(8)?,
            wrong_size: row.try_get(9)?,
            dark: row.try_get(10)?,
            dark_bytes: row.try_get(11)?,
        },
        deleted: row.try_get(12)?,
        error: row.try_get(13)?,
    })
}

impl Database {
    /// Stores an audit that has been ordered, and returns its number.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn order_audit(&self, row: AuditRow) -> Result<i64> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let number = take_numbers(connection, "audits", 1).await?;
                    let sql = "INSERT INTO audits (number, endpoint, below, account, state, begun) VALUES ($1, $2, $3, $4, $5, $6)";
                    let query = sqlx::query(sql).bind(number).bind(row.endpoint).bind(row.below).bind(row.account);
                    query.bind(code(row.state)).bind(row.begun).execute(connection).await?;
                    Ok(number)
                })
            })
            .await
    }

    /// Audits, the newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn audits(&self, limit: i64) -> Result<Vec<AuditRow>> {
        let sql = AssertSqlSafe(format!("{ROW} ORDER BY number DESC LIMIT $1"));
        sqlx::query(sql).bind(limit).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// An audit.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn audit_of(&self, number: i64) -> Result<Option<AuditRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE number = $1"));
        sqlx::query(sql).bind(number).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Leases the next audit that is to be listed or cleaned. A listing begins at `now`.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_audit(&self, now: i64) -> Result<Option<AuditRow>> {
        let due = "SELECT number FROM audits WHERE state IN (0, 3) AND not_before <= $1 LIMIT 1";
        if sqlx::query(due).bind(now).fetch_optional(&self.pool).await?.is_none() {
            return Ok(None);
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = AssertSqlSafe(format!(
                        "{ROW} WHERE state IN (0, 3) AND not_before <= $1 ORDER BY number LIMIT 1"
                    ));
                    let row = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await?;
                    let Some(mut row) = row.as_ref().map(read).transpose()? else { return Ok(None) };
                    if row.state == AuditState::Listing {
                        row.begun = now;
                    }
                    let sql = "UPDATE audits SET begun = $1, not_before = $2 WHERE number = $3";
                    let query = sqlx::query(sql).bind(row.begun).bind(now + LEASE_MS).bind(row.number);
                    query.execute(connection).await?;
                    Ok(Some(row))
                })
            })
            .await
    }

    /// Renews the lease of an audit, and records its progress: the files that have been listed, or deleted, so far.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn record_audit_progress(&self, number: i64, listed: i64, deleted: i64, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "UPDATE audits SET listed = $1, deleted = $2, not_before = $3 WHERE number = $4";
                    let query = sqlx::query(sql).bind(listed).bind(deleted).bind(now + LEASE_MS).bind(number);
                    query.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Sets the state of an audit, with an error if it failed.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn set_audit(&self, number: i64, state: AuditState, error: Option<String>, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "UPDATE audits SET state = $1, error = $2, ended = COALESCE(ended, $3), not_before = 0 WHERE number = $4";
                    let query = sqlx::query(sql).bind(code(state)).bind(error).bind(now).bind(number);
                    query.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Compares a listing with the catalogue's replicas at an endpoint.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn compare(
        &self,
        endpoint: &str,
        naming: Naming,
        mut audit: Audit,
    ) -> Result<(AuditCounts, Vec<Finding>)> {
        let mut counts = AuditCounts::default();
        let mut findings = Vec::new();
        let mut add = |finding: Finding| {
            match finding.kind {
                Difference::Missing => counts.missing += 1,
                Difference::Size => counts.wrong_size += 1,
                Difference::Dark => {
                    counts.dark += 1;
                    counts.dark_bytes += finding.bytes.unwrap_or(0);
                }
            }
            if findings.len() < FINDINGS_MAX {
                findings.push(finding);
            }
        };
        if let Some(store) = self.stores().await?.get(endpoint) {
            let mut after = 0;
            loop {
                let sql = "SELECT r.file, n.scope, n.name, r.path, r.bytes, r.state, r.created FROM replicas r JOIN names n ON n.id = r.file \
                           WHERE r.store = $1 AND r.file > $2 ORDER BY r.file LIMIT $3";
                let rows = sqlx::query(sql).bind(store.id).bind(after).bind(PAGE).fetch_all(&self.pool).await?;
                for row in &rows {
                    after = row.try_get(0)?;
                    if let Some(finding) = compare_one(row, naming, &mut audit)? {
                        add(finding);
                    }
                }
                if (rows.len() as i64) < PAGE {
                    break;
                }
            }
        }
        for (path, listed) in audit.dark() {
            let bytes = listed.bytes.and_then(|bytes| i64::try_from(bytes).ok());
            add(Finding { kind: Difference::Dark, path, bytes, file: None });
        }
        Ok((counts, findings))
    }

    /// Stores the findings of an audit. Copies that are missing or have another size are suspected from now on: each is verified before it
    /// counts as bad.
    ///
    /// # Errors
    /// The database cannot be written: a part of the findings may be stored, and the audit has not ended.
    pub async fn keep_audit(
        &self,
        audit: AuditRow,
        listed: i64,
        counts: AuditCounts,
        findings: Vec<Finding>,
        now: i64,
    ) -> Result<()> {
        let (number, endpoint) = (audit.number, audit.endpoint);
        let is_whole = counts.all() == findings.len() as i64;
        let endpoint_name = endpoint.clone();
        self.writer.change(move |connection| Box::pin(forget_findings(connection, number, endpoint_name))).await?;
        let mut at = 0;
        for chunk in findings.chunks(FINDINGS_PER_WRITE) {
            let findings = chunk.to_vec();
            let endpoint = endpoint.clone();
            let after = at;
            at += chunk.len() as i64;
            self.writer
                .change(move |connection| Box::pin(keep(connection, number, endpoint, after, findings, now)))
                .await?;
        }
        let remark = (!is_whole).then(|| {
            let all = counts.all();
            format!(
                "of {all} findings the first {FINDINGS_MAX} are kept: audit the directories one by one, with `below`"
            )
        });
        self.writer.change(move |connection| Box::pin(end(connection, number, listed, counts, remark, now))).await
    }

    /// The findings of an audit after the finding with the number `after`, each with its number.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn findings(&self, audit: i64, after: i64, limit: i64) -> Result<Vec<(i64, Finding)>> {
        let sql =
            "SELECT at, kind, path, bytes, file FROM audit_findings WHERE audit = $1 AND at > $2 ORDER BY at LIMIT $3";
        let rows = sqlx::query(sql).bind(audit).bind(after).bind(limit).fetch_all(&self.pool).await?;
        let mut findings = Vec::with_capacity(rows.len());
        for row in rows {
            let word: String = row.try_get(1)?;
            let Some(kind) = KINDS.into_iter().find(|kind| kind.word() == word) else { continue };
            let finding = Finding { kind, path: row.try_get(2)?, bytes: row.try_get(3)?, file: row.try_get(4)? };
            findings.push((row.try_get(0)?, finding));
        }
        Ok(findings)
    }

    /// Whether an endpoint has copies that are available and were made before a time.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn had_copies(&self, endpoint: &str, at: i64) -> Result<bool> {
        let sql = "SELECT r.file FROM replicas r JOIN stores s ON s.id = r.store WHERE s.endpoint = $1 AND r.state = $2 AND r.created < $3 LIMIT 1";
        let query = sqlx::query(sql).bind(endpoint).bind(ReplicaState::Available.code()).bind(at);
        Ok(query.fetch_optional(&self.pool).await?.is_some())
    }

    /// Whether the catalogue knows a file at an endpoint, by its path, or by one of the names that a file at this path may have.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn is_known(&self, endpoint: &str, path: &str, names: &[DataName]) -> Result<bool> {
        let sql = "SELECT r.file FROM replicas r JOIN stores s ON s.id = r.store JOIN names n ON n.id = r.file \
                   WHERE s.endpoint = $1 AND (r.path = $2 OR n.scope = $3 AND n.name = $4) LIMIT 1";
        let named = names.iter().map(|name| (name.scope(), name.name()));
        for (scope, name) in named.chain([("", "")]) {
            let query = sqlx::query(sql).bind(endpoint).bind(path).bind(scope).bind(name);
            if query.fetch_optional(&self.pool).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn compare_one(row: &AnyRow, naming: Naming, audit: &mut Audit) -> Result<Option<Finding>> {
    let (scope, name): (String, String) = (row.try_get(1)?, row.try_get(2)?);
    let path = match row.try_get::<Option<String>, _>(3)? {
        Some(path) => path,
        None => naming.path(&DataName::new(&scope, &name).map_err(|error| sqlx::Error::Decode(Box::new(error)))?),
    };
    let bytes: i64 = row.try_get(4)?;
    let copy = KnownCopy {
        path: &path,
        bytes: u64::try_from(bytes).unwrap_or(0),
        is_available: row.try_get::<i64, _>(5)? == ReplicaState::Available.code(),
        created: row.try_get(6)?,
    };
    let Some(kind) = audit.compare(copy) else { return Ok(None) };
    Ok(Some(Finding { kind, path, bytes: None, file: Some(row.try_get(0)?) }))
}

/// Removes the earlier findings of an audit, and those of the oldest audits of its endpoint.
async fn forget_findings(connection: &mut AnyConnection, audit: i64, endpoint: String) -> Result<()> {
    let sql = "DELETE FROM audit_findings WHERE audit = $1 OR audit IN (SELECT number FROM audits WHERE endpoint = $2 AND state <> $3 \
               ORDER BY number DESC LIMIT 1000 OFFSET $4)";
    let query = sqlx::query(sql).bind(audit).bind(&endpoint).bind(code(AuditState::Cleaning)).bind(AUDITS_KEPT);
    query.execute(&mut *connection).await?;
    stores::id_or_new(connection, &endpoint).await?;
    Ok(())
}

async fn keep(
    connection: &mut AnyConnection,
    audit: i64,
    endpoint: String,
    after: i64,
    findings: Vec<Finding>,
    now: i64,
) -> Result<()> {
    let rows: Vec<(i64, &Finding)> = (after + 1..).zip(&findings).collect();
    insert(connection, "audit_findings (audit, at, kind, path, bytes, file)", 6, &rows, |query, (at, finding)| {
        let query = query.bind(audit).bind(*at).bind(finding.kind.word()).bind(finding.path.as_str());
        query.bind(finding.bytes).bind(finding.file)
    })
    .await?;
    for finding in &findings {
        let Some(file) = finding.file else { continue };
        let why = format!("the audit {audit} found: {}", finding.kind.word());
        suspicions::note(connection, file, &endpoint, &why, now).await?;
    }
    let sql = "UPDATE audits SET not_before = $1 WHERE number = $2";
    sqlx::query(sql).bind(now + LEASE_MS).bind(audit).execute(connection).await?;
    Ok(())
}

async fn end(
    connection: &mut AnyConnection,
    audit: i64,
    listed: i64,
    counts: AuditCounts,
    remark: Option<String>,
    now: i64,
) -> Result<()> {
    let sql = "UPDATE audits SET state = $1, ended = $2, listed = $3, missing = $4, wrong_size = $5, dark = $6, dark_bytes = $7, not_before = 0, \
               error = $8 WHERE number = $9";
    let query = sqlx::query(sql).bind(code(AuditState::Done)).bind(now).bind(listed).bind(counts.missing);
    let query = query.bind(counts.wrong_size).bind(counts.dark).bind(counts.dark_bytes).bind(remark).bind(audit);
    query.execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_codes_and_words_never_change() {
        assert_eq!(STATES.map(code), [0, 1, 2, 3, 4]);
        assert_eq!(KINDS.map(Difference::word), ["missing", "size", "dark"]);
    }
}
