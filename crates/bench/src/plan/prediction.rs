//! What prediction is worth: scores of the methods on held-out weeks, routes chosen by forecast in the simulator, and transfers that leave
//! a link before it fails. As Markdown.
//!
//! Does not know: how forecasts are made.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use model::traffic::{ForecastMethod, TrafficShape};
use plan::{Outcome, simulate};
use predict::synthetic::SyntheticTraffic;
use predict::{DAY, DriftLimit, Estimate, Score, WEEK, early_sign, score};
use scenario::Scenario;

/// Weeks of history, and the days at their end that are held out.
const WEEKS: usize = 12;
const HELD_OUT_DAYS: usize = 28;
/// A Monday, 0:00 UTC, in hours since 1970.
const FIRST_HOUR: i64 = 4 * 24 + 2_900 * WEEK as i64;
/// Seeds of the simulations.
const SEEDS: std::ops::Range<u64> = 1..9;
/// Campaigns of one simulated week.
const CAMPAIGNS: u64 = 24;

/// The light that a receiver needs, dBm.
const RECEIVER_DBM: f64 = -18.0;
/// How long before the limit a sign is looked for, hours.
const SIGN_HOURS: f64 = 12.0;

/// All tables.
///
/// # Errors
/// A method cannot be fitted, or a scenario is not valid.
pub fn markdown() -> Result<String> {
    Ok(format!("{}{}{}", scores()?, choices()?, early_signs()?))
}

fn show(estimate: Estimate) -> String {
    format!("{:.1} ± {:.1}", estimate.mean, estimate.error)
}

/// The scores of the methods on each shape of traffic.
fn scores() -> Result<String> {
    let mut text = format!(
        "\n## How good are forecasts of the next day?\n\n{} weeks of synthetic traffic; each method forecasts the last {HELD_OUT_DAYS} days, which it was not \
         fitted to, a day at a time. Mean absolute error and MAPE in percent of the mean, mean over the days ± standard error. The band is to \
         hold 80 % of the hours. The last column compares the errors of the same days with the week before; a difference of less than two standard \
         errors counts as none.\n\n| traffic | method | error, % | MAPE, % | pinball loss, % | in the band, % | against the week before |\n\
         |---|---|---|---|---|---|---|\n",
        WEEKS
    );
    for shape in TrafficShape::ALL {
        let hours = WEEKS * WEEK;
        let traffic = SyntheticTraffic {
            mean: 40e9,
            habits_change_at: hours - HELD_OUT_DAYS * DAY,
            seed: 1,
            ..SyntheticTraffic::new(shape)
        };
        let series = traffic.series(FIRST_HOUR, hours);
        let mut all: Vec<Score> = Vec::new();
        for method in ForecastMethod::ALL {
            all.push(score(method, &series, HELD_OUT_DAYS, 1)?);
        }
        for score in &all {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                shape.name(),
                score.method.name(),
                show(score.estimate(|day| day.error_percent)),
                show(score.estimate(|day| day.mape_percent)),
                show(score.estimate(|day| day.pinball_percent)),
                show(score.estimate(|day| day.covered_percent)),
                verdict(score, &all[0])
            );
        }
    }
    Ok(text)
}

fn verdict(score: &Score, naive: &Score) -> String {
    let over = score.error_over(naive);
    if score.method == ForecastMethod::SeasonalNaive {
        "-".to_owned()
    } else if over.mean < -2.0 * over.error {
        format!("better: {}", show(over))
    } else if over.is_above_zero() {
        format!("**learning loses**: {}", show(over))
    } else {
        format!("no clear difference: {}", show(over))
    }
}

/// Campaigns between two sites over three routes, each with the traffic of others on it.
fn campaigns(shape: TrafficShape, choice: &str, seed: u64) -> String {
    let mut text = format!("seed = {seed}\n[site.a]\n[site.b]\n");
    // The days of the routes begin at different times, as those of continents do.
    for (site, rtt_ms, later_h) in [("c", 40, 0), ("d", 60, 8), ("e", 80, 16)] {
        let _ = writeln!(
            text,
            "[site.{site}]\n[path.a-{site}]\nrtt = \"{rtt_ms}ms\"\nrate = \"100Gbit/s\"\n[path.{site}-b]\nrtt = \"{rtt_ms}ms\"\nrate = \"100Gbit/s\"\n\
             [background.{site}]\npath = \"a-{site}\"\nshape = \"{}\"\nmean = \"55Gbit/s\"\nlater = \"{later_h}h\"",
            shape.name()
        );
    }
    let mut random = fastrand::Rng::with_seed(seed);
    for campaign in 0..CAMPAIGNS {
        let _ = writeln!(
            text,
            "[work.c{campaign}]\nfrom = \"a\"\nto = \"b\"\nbytes = \"{}TB\"\nfile = \"100GB\"\nat = \"{}min\"\nactivity = \"c{campaign}\"",
            random.u32(20..=200),
            random.u32(0..6 * 24 * 60)
        );
    }
    let _ = write!(text, "[simulate]\nduration = \"21d\"\nstep = \"60s\"\nchoice = \"{choice}\"\n");
    text
}

/// The hours from the begin of each campaign to its last file, on average.
fn mean_hours(text: &str) -> Result<f64> {
    let scenario = Scenario::read(text).map_err(|problem| anyhow!("{problem}"))?;
    let outcome = simulate(&scenario, None, &mut |_| true);
    if !outcome.complete || !outcome.ignored.is_empty() {
        return Err(anyhow!("the campaigns were not simulated as a whole: {:?}", outcome.ignored));
    }
    let hours =
        scenario.work.iter().zip(&outcome.work).map(|(work, done)| (done.last_s - work.at.as_secs_f64()) / 3600.0);
    Ok(hours.sum::<f64>() / outcome.work.len() as f64)
}

/// Completion times by the way in which routes are chosen.
fn choices() -> Result<String> {
    let mut names = vec!["shortest", "least-loaded"];
    names.extend(ForecastMethod::ALL.map(ForecastMethod::name));
    let mut text = format!(
        "\n## Which route: the shortest, the least loaded, or the one that a forecast prefers?\n\n{CAMPAIGNS} campaigns of 20 to 200 TB begin in six days, over \
         three routes of 100 Gbit/s on which others send 55 Gbit/s on average; the days of the routes begin eight hours apart. Hours from the begin of a campaign to \
         its last file, mean of {} seeds ± standard error; in brackets the difference to the least loaded of the same seeds.\n\n| traffic of others | {} |\n|---|{}\n",
        SEEDS.count(),
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for shape in TrafficShape::ALL {
        let mut hours: Vec<Vec<f64>> = Vec::new();
        for name in &names {
            hours.push(SEEDS.map(|seed| mean_hours(&campaigns(shape, name, seed))).collect::<Result<_>>()?);
        }
        let cells: Vec<String> = hours
            .iter()
            .map(|of_choice| {
                let over = Estimate::of(of_choice.iter().zip(&hours[1]).map(|(own, other)| own - other));
                format!("{} ({:+.1} ± {:.1})", show(Estimate::of(of_choice.iter().copied())), over.mean, over.error)
            })
            .collect();
        let _ = writeln!(text, "| {} | {} |", shape.name(), cells.join(" | "));
    }
    Ok(text)
}

/// A link whose light fades until it fails.
struct FadingLink {
    /// Light by hour, dBm.
    light: Vec<Option<f64>>,
    /// The hour in which the light is too weak.
    fails_at: usize,
}

fn fading_link(seed: u64) -> FadingLink {
    let mut random = fastrand::Rng::with_seed(seed);
    let begins_at = random.usize(30..50);
    let slope = -0.3 - 0.4 * random.f64();
    let light: Vec<f64> = (0..200)
        .map(|hour| -7.0 + slope * hour.max(begins_at) as f64 - slope * begins_at as f64 + 0.2 * (random.f64() - 0.5))
        .collect();
    let fails_at = light.iter().position(|light| *light < RECEIVER_DBM).unwrap_or(light.len());
    FadingLink { light: light.into_iter().map(Some).collect(), fails_at }
}

/// Simulates work of three days over a link that fails at hour `fails_at` and is repaired after a day; the other path is longer. Routes
/// follow the failure after 10 minutes; with `leaves_at`, transfers leave the link at that hour.
fn outage(fails_at: usize, leaves_at: Option<usize>) -> Result<Outcome> {
    let sign = leaves_at.map_or_else(String::new, |at| {
        format!(
            "[[event]]\nat = \"{at}h\"\npath = \"a-b\"\nset = {{ withdrawn = true }}\nfor = \"{}h\"\n",
            fails_at - at + 24
        )
    });
    let text = format!(
        "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\nrate = \"100Gbit/s\"\n\
         [path.a-c]\nrtt = \"50ms\"\nrate = \"100Gbit/s\"\n[path.c-b]\nrtt = \"50ms\"\nrate = \"100Gbit/s\"\n{sign}\
         [[event]]\nat = \"{fails_at}h\"\npath = \"a-b\"\nset = {{ down = true }}\nfor = \"24h\"\n\
         [work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"2PB\"\nfile = \"100GB\"\nover = \"3d\"\n\
         [simulate]\nduration = \"6d\"\nstep = \"10s\"\nreroute = \"10min\"\n"
    );
    let scenario = Scenario::read(&text).map_err(|problem| anyhow!("{problem}"))?;
    Ok(simulate(&scenario, None, &mut |_| true))
}

/// The signs, and what leaving early is worth.
fn early_signs() -> Result<String> {
    let mut text = format!(
        "\n## Does fading light move transfers before the link fails?\n\nThe light of a link fades by 0.3 to 0.7 dB an hour, with 0.1 dB of noise, until it is below {RECEIVER_DBM} \
         dBm and the link fails for a day. Without a sign, routes follow the failure after 10 minutes; with one, transfers leave the link at the first hour in which the drift reaches \
         the limit within {SIGN_HOURS:.0} hours. Files arrive for three days; the longest time of a file is that of one that waited at the broken link.\n\n\
         | seed | light too weak at | sign at | longest file without the sign | with it |\n|---|---|---|---|---|\n"
    );
    for seed in 1..=5 {
        let FadingLink { light, fails_at } = fading_link(seed);
        let sign = (DAY..fails_at)
            .find(|end| early_sign(&light[..*end], DriftLimit::AtLeast(RECEIVER_DBM), SIGN_HOURS).is_some());
        let longest_s = |outcome: &Outcome| outcome.work[0].took_ms.max() as f64 / 1e3;
        let without = longest_s(&outage(fails_at, None)?);
        let with = sign.map(|sign| outage(fails_at, Some(sign))).transpose()?;
        let _ = writeln!(
            text,
            "| {seed} | {fails_at} h | {} | {without:.0} s | {} |",
            sign.map_or("none".to_owned(), |sign| format!("{sign} h")),
            with.map_or("-".to_owned(), |outcome| format!("{:.0} s", longest_s(&outcome)))
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_come_before_the_failure_and_leaving_early_shortens_the_longest_wait() {
        let FadingLink { light, fails_at } = fading_link(1);
        let sign = (DAY..fails_at)
            .find(|end| early_sign(&light[..*end], DriftLimit::AtLeast(RECEIVER_DBM), SIGN_HOURS).is_some());
        let sign = sign.unwrap();
        assert!((4..=14).contains(&(fails_at - sign)), "{sign} {fails_at}");
        let longest = |outcome: Outcome| outcome.work[0].took_ms.max();
        let (without, with) =
            (longest(outage(fails_at, None).unwrap()), longest(outage(fails_at, Some(sign)).unwrap()));
        assert!(with + 300_000 < without, "{with} ms with the sign, {without} ms without");
    }

    #[test]
    fn campaigns_are_a_valid_scenario() {
        let scenario = Scenario::read(&campaigns(TrafficShape::Daily, "trees", 1)).unwrap();
        assert_eq!(scenario.work.len() as u64, CAMPAIGNS);
    }
}
