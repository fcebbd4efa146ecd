//! The jobs of the queue that make the copies of a rule.

use sqlx::Row;

use crate::database::{Database, Result};

/// Jobs of a rule, and their rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleJobs {
    /// The ids of its jobs that have not ended.
    pub jobs: Vec<String>,
    /// The rate of all of them, bytes per second.
    pub rate: i64,
}

impl RuleJobs {
    /// When `bytes_left` bytes will have been moved at this rate, milliseconds since 1970.
    pub fn expected(&self, bytes_left: i64, now: i64) -> Option<i64> {
        let seconds = bytes_left.checked_div(self.rate).filter(|_| self.rate > 0 && bytes_left > 0)?;
        now.checked_add(seconds.checked_mul(1000)?)
    }
}

impl Database {
    /// The jobs of the queue for a rule. If a transfer also carries other files, the rule gets its part of the rate by bytes.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn copy_work(&self, rule: i64) -> Result<RuleJobs> {
        let rows = sqlx::query("SELECT id FROM copy_jobs WHERE rule = $1 ORDER BY number").bind(rule);
        let rows = rows.fetch_all(&self.pool).await?;
        let jobs = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_>>()?;
        let sql = "SELECT CAST(COALESCE(SUM(1.0 * t.rate * f.bytes / t.bytes), 0) AS BIGINT) FROM copy_jobs c \
                   JOIN jobs j ON j.id = c.id JOIN files f ON f.id >= j.first_file AND f.id < j.first_file + j.file_rows \
                   JOIN transfers t ON t.number = f.transfer WHERE c.rule = $1 AND f.state = 1 AND t.bytes > 0";
        let rate = sqlx::query(sql).bind(rule).fetch_one(&self.pool).await?.try_get(0)?;
        Ok(RuleJobs { jobs, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_rate_there_is_no_expected_end() {
        let work = |rate| RuleJobs { jobs: Vec::new(), rate };
        assert_eq!(work(10).expected(1_000, 5), Some(100_005));
        assert_eq!(
            (work(0).expected(1_000, 5), work(10).expected(0, 5), work(1).expected(i64::MAX, 5)),
            (None, None, None)
        );
    }
}
