//! Compares the predictions of progress lines with the time at which the job ended.

use anyhow::{Context, Result};
use serde_json::Value;

/// The largest error of a good line, as a share of the job's time.
pub const GOOD_ERROR_MAX: f64 = 0.1;
/// The least share of good lines in a good run.
pub const GOOD_SHARE_MIN: f64 = 0.9;

/// The accuracy of the predictions of one job, from the first tenth of its bytes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// How long the job took, s.
    pub seconds: f64,
    /// Its mean rate, bit/s.
    pub rate_bit_s: f64,
    /// How many progress lines count.
    pub lines_counted: usize,
    /// How many of these lines have an error below a tenth of the job's time.
    pub good: usize,
    /// How many of these lines have an error within the bound that they report.
    pub within: usize,
    /// Errors as shares of the job's time, from small to large; a line without a prediction counts as 1.
    pub errors: Vec<f64>,
}

impl Verdict {
    /// Whether enough of its lines are good.
    pub fn is_good(&self) -> bool {
        self.lines_counted > 0 && self.good as f64 >= GOOD_SHARE_MIN * self.lines_counted as f64
    }

    /// The median error.
    pub fn median(&self) -> f64 {
        self.errors.get(self.errors.len() / 2).copied().unwrap_or(1.0)
    }

    /// The largest error.
    pub fn worst(&self) -> f64 {
        self.errors.last().copied().unwrap_or(1.0)
    }
}

/// Reads the output of `longhaul cp --json`.
///
/// # Errors
/// The output is not JSON, or has no receipt.
pub fn judge(output: &str) -> Result<Verdict> {
    let lines = output.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>().context("not JSON")?;
    let receipt = lines.last().filter(|line| line["event"] == "receipt").context("there is no receipt")?;
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let end = number(&receipt["seconds"]);
    let bytes = number(&receipt["bytes"]);
    let mut verdict = Verdict { seconds: end, rate_bit_s: number(&receipt["rate_bit_s"]), ..Verdict::default() };
    for line in lines.iter().filter(|line| line["event"] == "progress" && number(&line["bytes"]) >= 0.1 * bytes) {
        let predicted = line["eta_s"].as_f64();
        let error = predicted.map_or(end, |left| (number(&line["seconds"]) + left - end).abs());
        verdict.lines_counted += 1;
        verdict.good += usize::from(error < GOOD_ERROR_MAX * end);
        verdict.within += usize::from(predicted.is_some() && error <= number(&line["eta_error_s"]));
        verdict.errors.push(error / end);
    }
    verdict.errors.sort_by(f64::total_cmp);
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_judged_from_a_tenth_on() {
        let output = r#"{"event":"progress","bytes":50,"seconds":1}
{"event":"progress","bytes":100,"seconds":2}
{"event":"progress","bytes":300,"seconds":3,"eta_s":7.5,"eta_error_s":0.6}
{"event":"progress","bytes":500,"seconds":5,"eta_s":9,"eta_error_s":0.5}
{"event":"receipt","bytes":1000,"seconds":10,"rate_bit_s":800}
"#;
        let verdict = judge(output).unwrap();
        assert_eq!((verdict.lines_counted, verdict.good, verdict.within), (3, 1, 1));
        assert_eq!((verdict.median(), verdict.worst(), verdict.is_good()), (0.4, 1.0, false));
        assert!(judge("{\"event\":\"progress\"}").is_err() && judge("no").is_err());
    }
}
