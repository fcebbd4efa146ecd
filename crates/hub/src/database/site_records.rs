//! The catalogue of sites: records and the confirmation round.

use sqlx::Row;
use sqlx::any::AnyRow;

use super::{Database, Result};

/// The only row of the round.
const ROUND: i64 = 1;

/// A stored record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteRecordRow {
    /// The name of the site.
    pub site: String,
    /// JSON: an object of texts by the names of the questions.
    pub answers: String,
    /// Who wrote it last.
    pub owner: String,
    /// When, milliseconds since 1970.
    pub changed: i64,
    /// 0 asked, 1 opened, 2 corrected, 3 confirmed.
    pub state: i64,
    /// The days before the deadline of the last reminder; -1 if none was sent.
    pub reminded: i64,
}

/// A round in which every site confirms its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteRoundRow {
    /// The last day on which sites can answer, in days since 1970.
    pub deadline: i64,
    /// The URL that reminders are posted to; empty for none.
    pub notify: String,
}

fn read(row: &AnyRow) -> Result<SiteRecordRow> {
    Ok(SiteRecordRow {
        site: row.try_get(0)?,
        answers: row.try_get(1)?,
        owner: row.try_get(2)?,
        changed: row.try_get(3)?,
        state: row.try_get(4)?,
        reminded: row.try_get(5)?,
    })
}

impl Database {
    /// All records, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn site_records(&self) -> Result<Vec<SiteRecordRow>> {
        let sql = "SELECT site, answers, owner, changed, state, reminded FROM site_records ORDER BY site";
        sqlx::query(sql).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// Stores a record in place of an earlier one.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn put_site_record(&self, row: SiteRecordRow) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "INSERT INTO site_records (site, answers, owner, changed, state, reminded) VALUES ($1, $2, $3, $4, $5, $6) \
                               ON CONFLICT (site) DO UPDATE SET answers = excluded.answers, owner = excluded.owner, \
                               changed = excluded.changed, state = excluded.state, reminded = excluded.reminded";
                    let query = sqlx::query(sql).bind(row.site).bind(row.answers).bind(row.owner);
                    query.bind(row.changed).bind(row.state).bind(row.reminded).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Removes a record.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_site_record(&self, site: String) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM site_records WHERE site = $1").bind(site).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// The last round; `None` if there was none.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn site_round(&self) -> Result<Option<SiteRoundRow>> {
        let sql = "SELECT deadline, notify FROM site_round WHERE id = $1";
        let row = sqlx::query(sql).bind(ROUND).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(SiteRoundRow { deadline: row.try_get(0)?, notify: row.try_get(1)? })).transpose()
    }

    /// Begins a round: every site is asked anew.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn begin_site_round(&self, round: SiteRoundRow) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "INSERT INTO site_round (id, deadline, notify) VALUES ($1, $2, $3) \
                               ON CONFLICT (id) DO UPDATE SET deadline = excluded.deadline, notify = excluded.notify";
                    let query = sqlx::query(sql).bind(ROUND).bind(round.deadline).bind(round.notify);
                    query.execute(&mut *connection).await?;
                    sqlx::query("UPDATE site_records SET state = 0, reminded = -1").execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
