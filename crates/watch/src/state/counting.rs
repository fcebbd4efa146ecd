//! Counters of interfaces: they are stored, remembered, and used to explain findings of paths.

use parking_lot::MutexGuard;

use super::diagnosing::explain_by_diagnosis;
use super::places::segments;
use super::{Watch, WatchedPath};
use crate::archive::store::{ArchiveError, NewRow, SeriesKey};
use crate::archive::{DAY, Level, Row};
use crate::config::Config;
use crate::counters::{self, Interfaces, Reading};
use crate::time;

impl Watch {
    /// The state of all interfaces.
    pub fn interfaces(&self) -> MutexGuard<'_, Interfaces> {
        self.interfaces.lock()
    }

    /// Stores the rows that follow from readings of an interface's counters, then remembers them.
    ///
    /// # Errors
    /// Their clock is ahead, or the archive cannot be written.
    pub async fn take_readings(&self, name: &str, readings: Vec<Reading>) -> Result<(), String> {
        let failed = |error: ArchiveError| error.to_string();
        let cursor = format!("interface {name}");
        let last = self.interfaces().last(name);
        let is_first = last.is_none();
        let after = match &last {
            Some(last) => last.at,
            None => self.archive.cursor(&cursor).await.map_err(failed)? as i64,
        };
        let fresh = counters::fresh(readings, after, time::now())?;
        let readings: Vec<Reading> = last.into_iter().chain(fresh).collect();
        let rows: Vec<Row> = readings.windows(2).filter_map(|pair| counters::row_between(&pair[0], &pair[1])).collect();
        let Some(last) = readings.last() else { return Ok(()) };
        let key = SeriesKey { from: name.to_owned(), to: String::new(), test: counters::TEST.to_owned() };
        let series = self.archive.series(&key).await.map_err(failed)?;
        let columns = key.columns();
        // Rows from before a restart count as well: errors of an hour ago explain the present loss.
        let now = time::now();
        let mut remembered = if is_first {
            self.archive.rows(&key, Level::Minutes, now - DAY, now).await.map_err(failed)?
        } else {
            Vec::new()
        };
        let new: Vec<NewRow> =
            rows.iter().map(|row| NewRow { series, columns, row: row.clone(), report: None }).collect();
        self.archive.append(&new, Some((&cursor, last.at.unsigned_abs()))).await.map_err(failed)?;
        remembered.extend(rows);
        self.interfaces().record(name, last.clone(), &remembered);
        Ok(())
    }

    /// Updates the findings of a path, explained by its last diagnosis and the counters of its segments.
    pub(super) fn update_findings(
        &self,
        (from, to): &(String, String),
        path: &mut WatchedPath,
        config: &Config,
        now: i64,
    ) {
        path.findings = path.judge.findings(now);
        explain_by_diagnosis(path, now);
        let interfaces = self.interfaces();
        for finding in &mut path.findings {
            interfaces.explain(finding, &config.interfaces, |direction| segments(config, from, to, direction), now);
        }
    }
}
