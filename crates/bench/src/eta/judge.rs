//! The predictions of progress lines, compared with when the job ended.

use anyhow::{Context, Result};
use serde_json::Value;

/// The bound of a good error, as a share of the job's time.
pub const GOOD: f64 = 0.1;
/// The share of good moments that makes a run good.
pub const MOST: f64 = 0.9;

/// How good the predictions of one job were, from the first tenth of its bytes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// How long the job took, s.
    pub seconds: f64,
    /// Its mean rate, bit/s.
    pub rate_bit_s: f64,
    /// Progress lines that count.
    pub moments: usize,
    /// The lines among these with an error below a tenth of the job's time.
    pub good: usize,
    /// The lines among these with an error within the bound that they stated.
    pub within: usize,
    /// Errors as shares of the job's time, from small to large; a line without a prediction counts as 1.
    pub errors: Vec<f64>,
}

impl Verdict {
    /// Whether most moments were good.
    pub fn is_good(&self) -> bool {
        self.moments > 0 && self.good as f64 >= MOST * self.moments as f64
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
pub fn judge(output: &str) -> Result<Verdict> {
    let lines = output.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>().context("not JSON")?;
    let receipt = lines.last().filter(|line| line["event"] == "receipt").context("there is no receipt")?;
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let (end, bytes) = (number(&receipt["seconds"]), number(&receipt["bytes"]));
    let mut verdict = Verdict { seconds: end, rate_bit_s: number(&receipt["rate_bit_s"]), ..Verdict::default() };
    for line in lines.iter().filter(|line| line["event"] == "progress" && number(&line["bytes"]) >= 0.1 * bytes) {
        let told = line["eta_s"].as_f64();
        let error = told.map_or(end, |left| (number(&line["seconds"]) + left - end).abs());
        verdict.moments += 1;
        verdict.good += usize::from(error < GOOD * end);
        verdict.within += usize::from(told.is_some() && error <= number(&line["eta_error_s"]));
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
        assert_eq!((verdict.moments, verdict.good, verdict.within), (3, 1, 1));
        assert_eq!((verdict.median(), verdict.worst(), verdict.is_good()), (0.4, 1.0, false));
        assert!(judge("{\"event\":\"progress\"}").is_err() && judge("no").is_err());
    }
}
