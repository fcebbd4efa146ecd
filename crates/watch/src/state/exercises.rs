//! Takes the outcomes of exercises: their rates go to the archive, and regressions become alarms.

use model::v1::exercise::ExerciseOutcome;
use model::v1::watch::Alarm;

use super::Watch;
use crate::alarms::Change;
use crate::archive::columns::THROUGHPUT;
use crate::archive::store::{ArchiveError, NewRow, SeriesKey};
use crate::archive::{Level, Row};
use crate::exercises::{findings, series_name};
use crate::time;

/// How long before a run its earlier runs may have been, milliseconds: as long as rows are kept as they were measured.
const BEFORE_MS: i64 = 30 * 86_400_000;
/// The place of the sustained rate, and of the goal, among the columns of throughput.
const RATE: usize = 0;
const GOAL: usize = 3;

impl Watch {
    /// Archives an outcome that began at a time, and compares it with those before; returns the alarms that it raised. The same outcome
    /// sent again changes nothing in the archive.
    ///
    /// # Errors
    /// The archive cannot be read or written.
    pub async fn take_exercise(&self, outcome: &ExerciseOutcome, at: i64) -> Result<Vec<Alarm>, ArchiveError> {
        let mut before = Vec::new();
        let mut rows = Vec::new();
        for flow in &outcome.flows {
            let test = series_name(&outcome.exercise, &flow.name);
            let key = SeriesKey { from: flow.from.clone(), to: flow.to.clone(), test };
            let earlier = self.archive.rows(&key, Level::Raw, at - BEFORE_MS, at).await?;
            before.push(
                earlier.iter().filter_map(|row| Some(row.values.get(RATE).copied()?? as f64)).collect::<Vec<_>>(),
            );
            let mut values = vec![None; THROUGHPUT.len()];
            values[RATE] = Some(flow.sustained_bit_s as i64);
            values[GOAL] = flow.goal_bit_s.map(|goal| goal as i64);
            let series = self.archive.series(&key).await?;
            rows.push(NewRow { series, columns: key.columns(), row: Row { at, values }, report: None });
        }
        self.archive.append(&rows, None).await?;
        let now = time::now();
        let events = self.events.lock().clone();
        let mut changes = Vec::new();
        {
            let mut alarms = self.alarms.lock();
            for ((from, to), finding) in findings(outcome, &before) {
                changes.extend(alarms.update_exercise(&from, &to, &outcome.exercise, finding.as_ref(), &events, now));
            }
        }
        let raised = |change: &Change| match change {
            Change::Raised(alarm) | Change::Changed(alarm) => Some(alarm.clone()),
            Change::Ended(_) => None,
        };
        let alarms = changes.iter().filter_map(raised).collect();
        self.send_changes(changes);
        Ok(alarms)
    }
}
