//! `plan predict`: forecasts of the traffic of a path, the scores of the methods, and drifts towards a limit.

use std::path::Path;

use ::predict::synthetic::SyntheticTraffic;
use ::predict::{
    Band, DAY, DriftLimit, EarlySign, Estimate, HISTORY_MIN, HourlySeries, Model, PredictError, Score, SeriesError,
    WEEK, early_sign, score,
};
use model::Exit;
use model::traffic::{ForecastMethod, TrafficShape};
use model::v1::plan::{PlanEarlySign, PlanEstimate, PlanForecastHour, PlanPrediction, PlanScore};
use model::v1::watch::History;

use super::show_rate;
use crate::args::PlanPredict;
use crate::failure::Failure;
use crate::hub_client;
use crate::printer::Printer;
use crate::settings::Settings;

/// The most rows that are read from an archive: hours of more than a year.
const ROWS: u32 = 10_000;
/// Hours of synthetic traffic.
const SYNTHETIC: usize = 10 * WEEK;
/// The mean of synthetic traffic, bit/s.
const SYNTHETIC_BIT_S: f64 = 40e9;
/// The first hour of synthetic traffic, in hours since 1970: a Monday, 0:00 UTC.
const SYNTHETIC_HOUR: i64 = 4 * 24 + 2_950 * WEEK as i64;
/// The hours from one printed line of the forecast to the next.
const HOURS_SHOWN: usize = 3;

/// Values at times, and where they come from.
struct Samples {
    source: String,
    /// Seconds since 1970, and a value.
    values: Vec<(i64, f64)>,
}

/// Runs the command.
///
/// # Errors
/// The history cannot be read, is too short, or has no traffic.
pub fn run(args: &PlanPredict, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let limit = args.falls_below.map(DriftLimit::AtLeast).or(args.rises_above.map(DriftLimit::AtMost));
    match limit {
        Some(limit) => {
            let samples = samples(args, settings)?;
            find_drift(args, &samples, limit, printer)
        }
        None => {
            let (source, series) = match args.synthetic {
                Some(shape) => (format!("synthetic traffic, {}", shape.name()), synthetic(shape, args)),
                None => {
                    let samples = samples(args, settings)?;
                    let series =
                        HourlySeries::from_rates(&samples.values).map_err(|error| no_series(&samples, &error))?;
                    (samples.source, series)
                }
            };
            let document = predict(source, &series, args)?;
            if printer.is_json() {
                printer.object(&document);
            } else {
                print(&document, printer);
            }
            Ok(Exit::Done)
        }
    }
}

fn synthetic(shape: TrafficShape, args: &PlanPredict) -> HourlySeries {
    let held_out = usize::from(args.held_out) * DAY;
    let hours = SYNTHETIC.max(held_out + HISTORY_MIN);
    let traffic = SyntheticTraffic {
        mean: SYNTHETIC_BIT_S,
        habits_change_at: hours - held_out,
        seed: args.seed,
        ..SyntheticTraffic::new(shape)
    };
    traffic.series(SYNTHETIC_HOUR, hours)
}

/// Reads the values.
///
/// # Errors
/// A file cannot be read, a line of it is no time and value, or the hub does not answer.
fn samples(args: &PlanPredict, settings: &Settings) -> Result<Samples, Failure> {
    if let Some(file) = &args.file {
        let text =
            std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
        return Ok(Samples { source: file.display().to_string(), values: csv(file, &text)? });
    }
    let (from, to, test, column) = match (&args.interface, args.path.as_slice()) {
        (Some(interface), _) => (interface.as_str(), "", "counters", "out_bit_s"),
        (None, [from, to]) => (from.as_str(), to.as_str(), "throughput", "rate_bit_s"),
        _ => return Err(Failure::usage("synthetic traffic does not drift: name a FILE, --path or --interface")),
    };
    let api = hub_client::api(&args.at, settings)?;
    let history = api.watch_history(from, to, test, &args.since, ROWS).map_err(hub_client::failure)?;
    let arrow = if to.is_empty() { String::new() } else { format!(" to {to}") };
    Ok(Samples { source: format!("the archive's {test} of {from}{arrow}"), values: column_of(&history, column) })
}

/// The known values of a column.
fn column_of(history: &History, column: &str) -> Vec<(i64, f64)> {
    let Some(at) = history.columns.iter().position(|name| name == column) else { return Vec::new() };
    let value = |row: &Vec<Option<f64>>| {
        let time = row.first().copied().flatten()?;
        Some((time as i64, row.get(at).copied().flatten()?))
    };
    history.rows.iter().filter_map(value).collect()
}

/// Reads lines of time and value. A first line that is no such pair is a header.
fn csv(file: &Path, text: &str) -> Result<Vec<(i64, f64)>, Failure> {
    let mut values = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match pair(line) {
            Some(sample) => values.push(sample),
            None if number == 0 => {}
            None => {
                let what = format!(
                    "{}, line {}: {line:?} is not a time and a value: write lines like 2026-11-01T10:00:00Z,40e9",
                    file.display(),
                    number + 1
                );
                return Err(Failure::usage(what));
            }
        }
    }
    Ok(values)
}

/// A time and a value with a comma between them.
fn pair(line: &str) -> Option<(i64, f64)> {
    let (time, value) = line.split_once(',')?;
    let time = time.trim();
    let seconds = time.parse::<f64>().ok().map(|seconds| seconds as i64);
    let seconds = seconds.or_else(|| time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second))?;
    Some((seconds, value.trim().parse().ok()?))
}

fn no_series(samples: &Samples, error: &SeriesError) -> Failure {
    Failure::usage(format!("{}: {error}", samples.source))
}

fn find_drift(args: &PlanPredict, samples: &Samples, limit: DriftLimit, printer: &Printer) -> Result<Exit, Failure> {
    let series = HourlySeries::from_values(&samples.values).map_err(|error| no_series(samples, &error))?;
    let sign = early_sign(&series.values, limit, args.within);
    let (DriftLimit::AtLeast(value) | DriftLimit::AtMost(value)) = limit;
    if printer.is_json() {
        printer.object(&PlanEarlySign {
            v: 1,
            event: "plan_early_sign".to_owned(),
            source: samples.source.clone(),
            limit: value,
            drifts: sign.is_some(),
            slope_per_hour: sign.map(|sign| sign.slope),
            hours_left: sign.map(|sign| sign.hours_left),
        });
    } else {
        printer.line(&match sign {
            None => format!("{}: no drift of the last day reaches {value} within {} h", samples.source, args.within),
            Some(EarlySign { slope, hours_left }) => format!(
                "{}: DRIFTS by {slope:+.3} an hour, and reaches {value} in {hours_left:.0} h if it goes on: move its traffic, and repair it",
                samples.source
            ),
        });
    }
    Ok(if sign.is_some() { Exit::Partial } else { Exit::Done })
}

/// Scores all methods, and forecasts with the best one.
///
/// # Errors
/// The history is too short or has no traffic, or no method can be fitted.
fn predict(source: String, series: &HourlySeries, args: &PlanPredict) -> Result<PlanPrediction, Failure> {
    let failure = |error: PredictError| Failure::usage(format!("{source}: {error}"));
    let held_out_days = usize::from(args.held_out);
    let hours = series.values.len();
    if hours < HISTORY_MIN + held_out_days * DAY {
        let what = format!(
            "{source}: {hours} hours are too few: {held_out_days} held-out days and four weeks before them are {} hours; \
             give a longer history, or a smaller --held-out",
            HISTORY_MIN + held_out_days * DAY
        );
        return Err(Failure::usage(what));
    }
    let mut scores: Vec<Score> = Vec::new();
    for method in ForecastMethod::ALL {
        scores.push(score(method, series, held_out_days, args.seed).map_err(failure)?);
    }
    let error = |score: &&Score| score.estimate(|day| day.error_percent).mean;
    let best = scores
        .iter()
        .min_by(|a, b| error(a).total_cmp(&error(b)))
        .map_or(ForecastMethod::SeasonalNaive, |it| it.method);
    let bands = Model::fit(best, series, args.seed).and_then(|model| model.forecast(series)).map_err(failure)?;
    let first_hour = series.first_hour + hours as i64;
    Ok(PlanPrediction {
        v: 1,
        event: "plan_prediction".to_owned(),
        hours: hours as u64,
        held_out_days: held_out_days as u64,
        scores: scores.iter().map(|score| score_document(score, &scores[0])).collect(),
        best: best.name().to_owned(),
        forecast: (first_hour..).zip(&bands).map(|(hour, band)| hour_document(hour, band)).collect(),
        source,
    })
}

fn score_document(score: &Score, naive: &Score) -> PlanScore {
    let estimate = |Estimate { mean, error }: Estimate| PlanEstimate { mean, error };
    PlanScore {
        method: score.method.name().to_owned(),
        error_percent: estimate(score.estimate(|day| day.error_percent)),
        mape_percent: estimate(score.estimate(|day| day.mape_percent)),
        pinball_percent: estimate(score.estimate(|day| day.pinball_percent)),
        covered_percent: estimate(score.estimate(|day| day.covered_percent)),
        over_naive_percent: estimate(score.error_over(naive)),
    }
}

fn hour_document(hour: i64, band: &Band) -> PlanForecastHour {
    let at = jiff::Timestamp::from_second(hour * 3600).map_or_else(|_| hour.to_string(), |time| time.to_string());
    PlanForecastHour { at, low_bit_s: band.low, median_bit_s: band.median, high_bit_s: band.high }
}

fn print(document: &PlanPrediction, printer: &Printer) {
    printer.line(&format!(
        "{}: {} hours; each method forecast the last {} days, a day at a time (mean ± standard error, percent)",
        document.source, document.hours, document.held_out_days
    ));
    printer.line(&format!(
        "{:<20} {:>15} {:>15} {:>15} {:>15}  than the week before",
        "method", "error", "MAPE", "pinball loss", "in the band"
    ));
    for score in &document.scores {
        let show = |estimate: PlanEstimate| format!("{:.1} ± {:.1}", estimate.mean, estimate.error);
        printer.line(&format!(
            "{:<20} {:>15} {:>15} {:>15} {:>15}  {}",
            score.method,
            show(score.error_percent),
            show(score.mape_percent),
            show(score.pinball_percent),
            show(score.covered_percent),
            verdict(score)
        ));
    }
    printer.line(&format!("forecast by {}:", document.best));
    for hour in document.forecast.iter().step_by(HOURS_SHOWN) {
        printer.line(&format!(
            "  {}  {:>14}  (8 of 10 hours: {} to {})",
            hour.at,
            show_rate(hour.median_bit_s),
            show_rate(hour.low_bit_s),
            show_rate(hour.high_bit_s)
        ));
    }
}

/// Whether a method is better than the seasonal naive forecast, by more than two standard errors.
fn verdict(score: &PlanScore) -> String {
    let PlanEstimate { mean, error } = score.over_naive_percent;
    if score.method == ForecastMethod::SeasonalNaive.name() {
        "the measure".to_owned()
    } else if mean < -2.0 * error {
        format!("better by {:.1}", -mean)
    } else if mean > 2.0 * error {
        format!("WORSE by {mean:.1}")
    } else {
        "no clear difference".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_times_in_two_forms_and_may_have_a_header() {
        let values = csv(Path::new("x.csv"), "time,value\n2026-11-01T00:00:00Z,4e9\n\n1793491200, 5\n").unwrap();
        assert_eq!(values, [(1_793_491_200, 4e9), (1_793_491_200, 5.0)]);
        let error = csv(Path::new("x.csv"), "1,2\nyesterday,3\n").unwrap_err();
        let message = error.message;
        assert!(message.contains("x.csv, line 2: \"yesterday,3\" is not a time and a value"), "{message}");
    }

    #[test]
    fn a_column_of_an_archive_has_no_gaps() {
        let history = History {
            columns: vec!["at".into(), "rate_bit_s".into()],
            rows: vec![vec![Some(3600.0), Some(5.0)], vec![Some(7200.0), None]],
            ..History::default()
        };
        assert_eq!(column_of(&history, "rate_bit_s"), [(3600, 5.0)]);
    }
}
