//! The answers, one function for each route.

use model::v1::exercise::ExerciseOutcome;
use model::v1::hub::Role;
use model::v1::watch::{Acknowledgement, Alarms, Annotation, Health, Interfaces};
use serde_json::json;
use web::Refused;

use super::{ApiResult, PREFIX, WatchRequest, json, with_body};
use crate::archive::store::{ArchiveError, SeriesKey};
use crate::config::PlaceKind;
use crate::mesh::TestKind;
use crate::{counters, directory, exercises, pages, time};

const DAY_MS: i64 = 86_400_000;
/// Rows of a history, and alarms of an answer, by default.
const ROWS_DEFAULT: usize = 1_000;
/// Alarms of one answer.
const ALARMS_MAX: usize = 10_000;
/// How far the clock of a controller may be ahead.
const CLOCK_AHEAD_MAX_MS: i64 = 120_000;
/// Characters of a note.
const NOTE_CHARS_MAX: usize = 2_000;

fn unavailable(error: ArchiveError) -> Refused {
    tracing::error!(%error, "the archive does not answer");
    Refused::new(503, error.to_string()).with("Retry-After", "5")
}

fn unknown(from: &str, to: &str) -> Refused {
    Refused::new(404, format!("nothing is watched from {from} to {to}: GET {PREFIX}/grid lists what is"))
}

fn no_interface(name: &str) -> Refused {
    Refused::new(
        404,
        format!("no counters of an interface {name} are kept: GET {PREFIX}/interfaces lists what is read"),
    )
}

pub(super) async fn index(_: WatchRequest) -> ApiResult {
    json(200, &super::route_list())
}

pub(super) async fn openapi(_: WatchRequest) -> ApiResult {
    json(200, &super::document())
}

fn kind(request: &WatchRequest) -> Result<Option<TestKind>, Refused> {
    let wrong = |word: String| Refused::new(400, format!("test is latency, throughput or path, and not {word:?}"));
    request.parameter("test").map(|word| TestKind::of_word(&word).ok_or_else(|| wrong(word))).transpose()
}

pub(super) async fn grid(request: WatchRequest) -> ApiResult {
    let kind = kind(&request)?;
    let mut grid = request.watch.grid(kind, &|from, to| request.viewer.sees(from, to, None));
    grid.cells.retain(|cell| request.viewer.sees(&cell.from, &cell.to, TestKind::of_word(&cell.test)));
    json(200, &grid)
}

pub(super) async fn history(request: WatchRequest) -> ApiResult {
    let test = request.parameter("test").unwrap_or_else(|| "latency".to_owned());
    let (from, to) = if test == counters::TEST {
        request.viewer.require(Role::User)?;
        (request.required("from")?, String::new())
    } else if test.starts_with(exercises::SERIES_PREFIX) {
        // The sites of a flow are in its direction, and need not be watched.
        request.viewer.require(Role::User)?;
        (request.required("from")?, request.required("to")?)
    } else {
        visible_pair(&request)?
    };
    let kind = test.split(' ').next().and_then(TestKind::of_word);
    let key = SeriesKey { from, to, test };
    if !request.viewer.sees(&key.from, &key.to, kind) || request.watch.archive.series_id(&key).is_none() {
        return Err(if key.to.is_empty() { no_interface(&key.from) } else { unknown(&key.from, &key.to) });
    }
    let until = request.time("until")?.unwrap_or_else(time::now);
    let since = request.time("since")?.unwrap_or(until - DAY_MS);
    if since >= until {
        return Err(Refused::new(400, "since must be before until"));
    }
    let rows = request.number("rows", ROWS_DEFAULT, crate::state::HISTORY_ROWS_MAX)?;
    json(200, &request.watch.history(&key, since, until, rows).await.map_err(unavailable)?)
}

pub(super) async fn alarms(request: WatchRequest) -> ApiResult {
    let limit = request.number("limit", ROWS_DEFAULT, ALARMS_MAX)?;
    let mut alarms = match request.time("since")? {
        None => request.watch.alarms(),
        Some(since) => request.watch.archive.alarms(Some(since), ALARMS_MAX as i64).await.map_err(unavailable)?,
    };
    alarms.retain(|alarm| request.viewer.sees(&alarm.from, &alarm.to, Some(crate::judge::path::shown_by(alarm.kind))));
    alarms.truncate(limit);
    json(200, &Alarms { alarms })
}

pub(super) async fn acknowledge(request: WatchRequest) -> ApiResult {
    let id = request.id.parse().map_err(|_| Refused::new(400, "an alarm's id is a number"))?;
    let acknowledgement: Acknowledgement = if request.body.is_empty() {
        Acknowledgement { by: String::new(), note: String::new() }
    } else {
        request.read("an acknowledgement")?
    };
    let by = if acknowledgement.by.is_empty() { request.viewer.name() } else { acknowledgement.by };
    let note = acknowledgement.note.chars().take(NOTE_CHARS_MAX).collect();
    let alarm = request.watch.acknowledge(id, Acknowledgement { by, note });
    json(200, &alarm.ok_or_else(|| Refused::new(404, format!("there is no current alarm {id}")))?)
}

/// The pair of a request, in the order in which it is tested; refused where the viewer may not see it.
fn visible_pair(request: &WatchRequest) -> Result<(String, String), Refused> {
    let (from, to) = (request.required("from")?, request.required("to")?);
    let (from, to) = request.watch.pair(&from, &to).unwrap_or((from, to));
    if request.viewer.sees(&from, &to, None) { Ok((from, to)) } else { Err(unknown(&from, &to)) }
}

pub(super) async fn why(request: WatchRequest) -> ApiResult {
    let (from, to) = visible_pair(&request)?;
    json(200, &request.watch.why(&from, &to).ok_or_else(|| unknown(&from, &to))?)
}

pub(super) async fn evidence(request: WatchRequest) -> ApiResult {
    let (from, to) = visible_pair(&request)?;
    let why = request.watch.why(&from, &to).ok_or_else(|| unknown(&from, &to))?;
    let until = time::now();
    let since = request.time("since")?.unwrap_or(until - 7 * DAY_MS);
    let mut histories = Vec::new();
    for test in ["latency", "throughput", "throughput reverse"] {
        let kind = test.split(' ').next().and_then(TestKind::of_word);
        let key = SeriesKey { from: from.clone(), to: to.clone(), test: test.to_owned() };
        if request.viewer.sees(&from, &to, kind) && request.watch.archive.series_id(&key).is_some() {
            histories.push(request.watch.history(&key, since, until, ROWS_DEFAULT).await.map_err(unavailable)?);
        }
    }
    Ok(with_body(200, "text/html; charset=utf-8", pages::evidence(&why, &histories).into_bytes()))
}

pub(super) async fn annotations(request: WatchRequest) -> ApiResult {
    let since = request.time("since")?.unwrap_or_else(|| time::now() - 7 * DAY_MS);
    json(200, &request.watch.archive.annotations(since, i64::MAX).await.map_err(unavailable)?)
}

pub(super) async fn annotate(request: WatchRequest) -> ApiResult {
    let posted: Annotation = request.read("an annotation")?;
    let at = if posted.at.is_empty() {
        time::now()
    } else {
        time::parse(&posted.at)
            .ok_or_else(|| Refused::new(400, "at must be a time of RFC 3339, like 2026-11-01T10:00:00Z"))?
    };
    if posted.text.trim().is_empty() {
        return Err(Refused::new(400, "an annotation needs a text that says what happened"));
    }
    let text = posted.text.chars().take(NOTE_CHARS_MAX).collect();
    let annotation = Annotation { at: time::show(at), text, place: posted.place, by: request.viewer.name() };
    request.watch.annotate(annotation.clone()).await.map_err(unavailable)?;
    json(201, &annotation)
}

pub(super) async fn record(request: WatchRequest) -> ApiResult {
    let value: serde_json::Value = request.read("a record")?;
    let record = crate::records::read(&request.watch.watched.load().config, &value);
    let record = record.map_err(|why| Refused::new(400, why))?;
    let kept = json!({"source": record.key.from, "target": record.key.to, "test": record.key.test});
    request.watch.take_record(record).await.map_err(unavailable)?;
    json(200, &kept)
}

pub(super) async fn exercise(request: WatchRequest) -> ApiResult {
    let outcome: ExerciseOutcome = request.read("the outcome of an exercise")?;
    exercises::check(&outcome).map_err(|why| Refused::new(400, why))?;
    let at = time::parse(&outcome.began).filter(|at| *at <= time::now() + CLOCK_AHEAD_MAX_MS);
    let at = at.ok_or_else(|| {
        Refused::new(400, "began must be a time of RFC 3339, like 2026-11-01T10:00:00Z, and not in the future")
    })?;
    let alarms = request.watch.take_exercise(&outcome, at).await.map_err(unavailable)?;
    json(200, &Alarms { alarms })
}

pub(super) async fn nodes(request: WatchRequest) -> ApiResult {
    json(200, &request.watch.nodes())
}

pub(super) async fn talkers(request: WatchRequest) -> ApiResult {
    const WINDOWS: [&str; 3] = ["minute", "hour", "start"];
    let window = request.parameter("window").unwrap_or_else(|| "hour".to_owned());
    if !WINDOWS.contains(&window.as_str()) {
        return Err(Refused::new(400, format!("window is minute, hour or start, and not {window:?}")));
    }
    json(200, &request.watch.talkers(&window, request.number("top", 20, 1_000)?))
}

pub(super) async fn directory(request: WatchRequest) -> ApiResult {
    let watched = request.watch.watched.load_full();
    let shown = directory::directory(&watched.config, |name| request.viewer.sees_place(name));
    let key =
        request.watch.directory_key().ok_or_else(|| Refused::new(503, "the watch has no key to sign with yet"))?;
    Ok(with_body(200, "application/jose", key.sign(&shown).into_bytes()))
}

pub(super) async fn directory_key(request: WatchRequest) -> ApiResult {
    let key =
        request.watch.directory_key().ok_or_else(|| Refused::new(503, "the watch has no key to sign with yet"))?;
    json(200, &json!({"key": key.public()}))
}

pub(super) async fn interfaces(request: WatchRequest) -> ApiResult {
    let watched = request.watch.watched.load_full();
    let interfaces = request.watch.interfaces().show(&watched.config.interfaces, time::now());
    json(200, &Interfaces { interfaces })
}

pub(super) async fn map(request: WatchRequest) -> ApiResult {
    let watched = request.watch.watched.load_full();
    let grid = request.watch.grid(None, &|from, to| request.viewer.sees(from, to, None));
    let places: Vec<_> = watched
        .config
        .places
        .iter()
        .filter(|(name, _)| grid.names.contains(name))
        .map(|(name, place)| {
            let is_node = matches!(place.kind, PlaceKind::Node { .. });
            json!({"name": name, "site": place.site, "domain": place.domain, "is_node": is_node,
                   "latitude": place.location.map(|it| it.0), "longitude": place.location.map(|it| it.1),
                   "link_bit_s": place.link.map(|rate| rate.0)})
        })
        .collect();
    let paths: Vec<_> = grid
        .cells
        .chunk_by(|a, b| (&a.from, &a.to) == (&b.from, &b.to))
        .filter_map(|cells| {
            let first = cells.first()?;
            let worst = |of: fn(&model::v1::watch::Cell) -> Health| {
                cells.iter().map(of).reduce(Health::worse).unwrap_or_default()
            };
            Some(json!({"from": first.from, "to": first.to, "forward": worst(|cell| cell.forward.health),
                        "reverse": worst(|cell| cell.reverse.health)}))
        })
        .collect();
    json(200, &json!({"at": grid.at, "places": places, "paths": paths}))
}
