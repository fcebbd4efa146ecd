//! Reads work: files that are to be at sites; and the settings of the simulator.
//!
//! Does not know: how transfers share links.

use std::time::Duration;

use model::traffic::ForecastMethod;
use model::units::BitRate;

use super::facts;
use super::flow::{check_pairs, required, sites};
use crate::planning::{
    CacheSettings, Congestion, LightSettings, RouteChoice, Scheduler, ServingOrder, SimulationSettings, Sizes, Work,
};
use crate::problem::{Problem, instead};
use crate::source::{Entry, Table};
use crate::{Scenario, quantity};

pub(super) const WORK_REMEDY: &str = "write a table with a header, like [work.raw-export]";
const WORK_WORDS: [&str; 20] = [
    "from",
    "to",
    "bytes",
    "file",
    "sizes",
    "at",
    "over",
    "copies",
    "order",
    "relays",
    "activity",
    "priority",
    "deadline",
    "failures",
    "streams",
    "on_tape",
    "objects",
    "popularity",
    "cache",
    "on_demand",
];
const SIMULATION_WORDS: [&str; 10] = [
    "duration",
    "step",
    "scheduler",
    "congestion",
    "reroute",
    "choice",
    "wavelengths",
    "wavelength_rate",
    "setup",
    "restoration",
];
/// The most objects: the cumulative distribution over all of them is kept in memory.
const OBJECTS_MAX: i128 = 10_000_000;
const LIGHT_DEFAULT: LightSettings = LightSettings {
    wavelengths: 1,
    rate: BitRate(100_000_000_000),
    setup: Duration::from_secs(60),
    restoration: Duration::from_secs(5),
};
const RELAYS_REMEDY: &str = "write which site feeds which, like relays = { singapore = [\"london\", \"tokyo\"] }";

/// Reads work between sites that were read before.
pub(super) fn work(entry: &Entry, scenario: &Scenario) -> Result<Work, Problem> {
    let table = entry.table(WORK_REMEDY)?;
    table.only(&WORK_WORDS, "work")?;
    let size = |key: &str, remedy: &str| required(entry, table, key, remedy).and_then(quantity::size);
    let from = sites(required(entry, table, "from", "say who has the files, like from = \"cern\"")?, scenario)?;
    let to = sites(required(entry, table, "to", "say who gets them, like to = \"tier1\"")?, scenario)?;
    check_pairs(entry, &from, &to, scenario)?;
    let work = Work {
        name: entry.key.clone(),
        line: entry.line,
        bytes: size("bytes", "add the bytes of all files, like bytes = \"3PB\"")?,
        file: size("file", "add the mean size of a file, like file = \"2GB\"")?,
        sizes: word(table, "sizes", &[("equal", Sizes::Equal), ("lognormal", Sizes::Lognormal)])?,
        at: time(table, "at")?,
        over: time(table, "over")?,
        copies: table.get("copies").map_or(Ok(1), |entry| entry.whole(1..=to.len() as i128))?,
        order: word(table, "order", &[("parallel", ServingOrder::Parallel), ("in-turn", ServingOrder::InTurn)])?,
        relays: table.get("relays").map_or(Ok(Vec::new()), |entry| relays(entry, scenario))?,
        activity: facts::text(table, "activity")?.unwrap_or_else(|| "default".to_owned()),
        priority: table.get("priority").map_or(Ok(3), |entry| entry.whole(1..=5))?,
        deadline: table.get("deadline").map(quantity::time).transpose()?,
        failures: table.get("failures").map_or(Ok(0.0), failures)?,
        streams: table.get("streams").map(|entry| entry.whole(1..=10_000)).transpose()?,
        on_tape: table.get("on_tape").map_or(Ok(false), Entry::truth)?,
        cache: cache(table)?,
        on_demand: table.get("on_demand").map_or(Ok(false), Entry::truth)?,
        from,
        to,
    };
    if let Some(relays) = table.get("relays") {
        check_relays(relays, &work, scenario)?;
    }
    if let Some(entry) = table.get("on_demand").filter(|_| work.on_demand && scenario.simulation.light.is_none()) {
        let remedy = "say how many wavelengths the links have, like wavelengths = 2 in [simulate]";
        return Err(entry.problem("no link has wavelengths for paths on demand", remedy));
    }
    Ok(work)
}

/// `objects`, `popularity` and `cache`.
fn cache(table: &Table) -> Result<Option<CacheSettings>, Problem> {
    const POPULARITY_REMEDY: &str = "write the exponent of Zipf's law from 0 to 4, without quotes, like 0.8";
    let words = ["popularity", "cache"].into_iter().find_map(|key| table.get(key));
    let Some(objects) = table.get("objects") else {
        return match words {
            Some(entry) => {
                let what = format!("{} needs the number of different files", entry.key);
                Err(entry.problem(what, "add it, like objects = 100000"))
            }
            None => Ok(None),
        };
    };
    // Objects are alike, and what a cache holds is not what a relay passes on.
    if let Some(entry) = ["sizes", "relays"].into_iter().find_map(|key| table.get(key)) {
        return Err(entry.problem(format!("{} does not go with objects", entry.key), "leave one of the two out"));
    }
    Ok(Some(CacheSettings {
        objects: objects.whole(1..=OBJECTS_MAX)?,
        exponent: table
            .get("popularity")
            .map_or(Ok(1.0), |entry| quantity::number(entry, 0.0..=4.0, POPULARITY_REMEDY))?,
        bytes: table.get("cache").map_or(Ok(0.0), |entry| quantity::size(entry).map(|bytes| bytes.0 as f64))?,
    }))
}

/// The words of optical paths on demand.
fn light(table: &Table) -> Result<Option<LightSettings>, Problem> {
    let Some(wavelengths) = table.get("wavelengths") else {
        let idle = ["wavelength_rate", "setup", "restoration"].into_iter().find_map(|key| table.get(key));
        return idle.map_or(Ok(None), |entry| {
            Err(entry.problem(format!("{} does nothing without wavelengths", entry.key), "add wavelengths = 2"))
        });
    };
    let time = |key: &str, default: Duration| table.get(key).map_or(Ok(default), quantity::time);
    let rate = |entry| quantity::rate(entry, "leave wavelengths out if there are none");
    Ok(Some(LightSettings {
        wavelengths: wavelengths.whole(1..=1_000)?,
        rate: table.get("wavelength_rate").map_or(Ok(LIGHT_DEFAULT.rate), rate)?,
        setup: time("setup", LIGHT_DEFAULT.setup)?,
        restoration: time("restoration", LIGHT_DEFAULT.restoration)?,
    }))
}

/// Reads the settings of the simulator.
pub(super) fn simulation(entry: &Entry) -> Result<SimulationSettings, Problem> {
    let table = entry.table("write a table with a header: [simulate]")?;
    table.only(&SIMULATION_WORDS, "simulate")?;
    let default = SimulationSettings::default();
    let time = |key: &str, default: Duration| table.get(key).map_or(Ok(default), quantity::time);
    let duration = time("duration", default.duration)?;
    if let (Duration::ZERO, Some(entry)) = (duration, table.get("duration")) {
        return Err(entry.problem("duration is zero", "write how long is simulated, like \"1d\""));
    }
    let congestion = [("bbr", Congestion::Bbr), ("cubic", Congestion::Cubic), ("reno", Congestion::Reno)];
    Ok(SimulationSettings {
        duration,
        step: time("step", default.step)?,
        scheduler: word(table, "scheduler", &[("hub", Scheduler::Hub), ("none", Scheduler::None)])?,
        congestion: word(table, "congestion", &congestion)?,
        reroute: time("reroute", default.reroute)?,
        choice: word(table, "choice", &route_choices())?,
        light: light(table)?,
    })
}

/// The words for ways to choose a route: `shortest`, `least-loaded`, or the name of a method of forecasting.
fn route_choices() -> Vec<(&'static str, RouteChoice)> {
    let forecasts = ForecastMethod::ALL.map(|method| (method.name(), RouteChoice::Forecast(method)));
    [("shortest", RouteChoice::Shortest), ("least-loaded", RouteChoice::LeastLoaded)]
        .into_iter()
        .chain(forecasts)
        .collect()
}

/// One of some words; the default if there is none.
pub(super) fn word<T: Copy + Default>(table: &Table, key: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let Some(entry) = table.get(key) else { return Ok(T::default()) };
    let names = words.iter().map(|(name, _)| *name);
    let text = entry.text(&instead("", names.clone()))?;
    match words.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(*value),
        None => Err(entry.wrong(instead(text, names))),
    }
}

pub(super) fn time(table: &Table, key: &str) -> Result<Duration, Problem> {
    table.get(key).map_or(Ok(Duration::ZERO), quantity::time)
}

fn failures(entry: &Entry) -> Result<f64, Problem> {
    match quantity::probability(entry)? {
        1.0 => Err(entry.problem("all attempts fail", "write the share of attempts that fail, below 100%")),
        share => Ok(share),
    }
}

fn relays(entry: &Entry, scenario: &Scenario) -> Result<Vec<(usize, Vec<usize>)>, Problem> {
    let table = entry.table(RELAYS_REMEDY)?;
    let mut relays = Vec::new();
    for item in &table.entries {
        let feeder = super::path::site_of(item, &item.key, scenario)?;
        relays.push((feeder, sites(item, scenario)?));
    }
    Ok(relays)
}

/// Relays form a tree: each site is fed by one site, and the way back from any site ends at a source.
fn check_relays(entry: &Entry, work: &Work, scenario: &Scenario) -> Result<(), Problem> {
    let name = |site: usize| &scenario.sites[site].name;
    let feeders =
        |site: usize| work.relays.iter().filter(move |(_, fed)| fed.contains(&site)).map(|(feeder, _)| *feeder);
    for (feeder, fed) in &work.relays {
        if let Some(site) = fed.iter().find(|site| feeders(**site).count() > 1) {
            let what = format!("{} is fed by more than one relay", name(*site));
            return Err(entry.problem(what, "name each site below one relay only"));
        }
        let mut at = *feeder;
        for _ in 0..=work.relays.len() {
            match feeders(at).next() {
                Some(next) => at = next,
                None => break,
            }
        }
        if feeders(at).next().is_some() {
            let what = format!("the relays form a cycle through {}", name(*feeder));
            return Err(entry.problem(what, "let each relay get its files from a source, or from a relay that does"));
        }
        if !work.to.contains(&at) && !work.from.contains(&at) {
            let what = format!("{} feeds others but gets no files itself", name(at));
            return Err(entry.problem(what, "name it among the targets in to"));
        }
    }
    Ok(())
}
