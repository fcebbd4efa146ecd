//! The catalogue of sites: answers to the questionnaire, their checks, the confirmation round, reminders.
//!
//! What this module does not know: the questions and the rules that check answers. They are in `plan::catalogue`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use model::v1::hub::{
    SiteAnswers, SiteCatalogue, SiteFinding, SiteQuestion, SiteQuestions, SiteRecord, SiteRound, SiteStatistics,
};
use plan::catalogue::{
    CatalogueQuestion, Kind, Measured, QUESTIONS, Round, RoundState, Severity, SiteRecord as PlanRecord, statistics,
    validate,
};
use serde_json::json;
use tokio::sync::watch;
use web::Refused;

use crate::catalogue::refused;
use crate::database::site_records::{SiteRecordRow, SiteRoundRow};
use crate::database::{Database, DatabaseError};
use crate::roles::Member;
use crate::state::HubState;
use crate::time;
use model::v1::hub::Role;

/// How often reminders are looked for.
const REMIND_EVERY: Duration = Duration::from_secs(3_600);
const DAY_MS: i64 = 86_400_000;
/// The longest name of a site, and the longest answer, characters.
const SITE_CHARS_MAX: usize = 100;
const ANSWER_CHARS_MAX: usize = 1_000;

/// All questions.
pub fn questions() -> SiteQuestions {
    SiteQuestions { questions: QUESTIONS.iter().map(question).collect() }
}

fn question(question: &CatalogueQuestion) -> SiteQuestion {
    let (kind, unit, choices): (&str, &str, &[&str]) = match question.kind {
        Kind::Number(unit) => ("number", unit, &[]),
        Kind::Year => ("year", "", &[]),
        Kind::YesNo => ("yes_no", "", &[]),
        Kind::Choice(words) => ("choice", "", words),
        Kind::Text => ("text", "", &[]),
    };
    SiteQuestion {
        name: question.name.to_owned(),
        text: question.text.to_owned(),
        hint: question.hint.to_owned(),
        kind: kind.to_owned(),
        unit: unit.to_owned(),
        choices: choices.iter().map(|word| (*word).to_owned()).collect(),
        required: question.required,
    }
}

/// The catalogue with its findings and statistics.
///
/// # Errors
/// The database cannot be read.
pub async fn catalogue(hub: &HubState) -> Result<SiteCatalogue, Refused> {
    let database = &hub.database;
    let measured = hub.measured_paths();
    let rows = database.site_records().await.map_err(refused)?;
    let stored = database.site_round().await.map_err(refused)?;
    let round = stored.as_ref().map(|stored| round(stored, &rows));
    let records: Vec<PlanRecord> = rows.iter().map(|row| read(&row.site, &answers(row))).collect();
    let all = statistics(&records);
    let today = today();
    let sites = rows.iter().zip(&records).map(|(row, record)| SiteRecord {
        site: row.site.clone(),
        answers: answers(row),
        owner: row.owner.clone(),
        changed: time::show(row.changed),
        state: word(round.as_ref().and_then(|round| round.state(&row.site, today)).unwrap_or_else(|| state(row.state)))
            .to_owned(),
        findings: findings(record, measured.at_site(&row.site)),
    });
    Ok(SiteCatalogue {
        sites: sites.collect(),
        round: stored.map(|stored| SiteRound {
            deadline: show_day(stored.deadline),
            notify: Some(stored.notify).filter(|notify| !notify.is_empty()),
        }),
        statistics: SiteStatistics {
            sites: all.sites,
            disk_least_pb: all.disk_pb.map(|(least, _)| least),
            disk_most_pb: all.disk_pb.map(|(_, most)| most),
            disk_sum_pb: all.disk_pb_sum,
            raid: all.raid,
            writes_beyond_10g: all.writes_beyond_10g,
            link_10g: all.link_10g,
            link_100g: all.link_100g,
            can_100g: all.can_100g,
            dtn: all.dtn,
            dmz: all.dmz,
            firewall: all.firewall,
        },
    })
}

/// Stores the answers of a site. Members write records of sites that have none, and those that they wrote themselves; operators write all.
///
/// # Errors
/// The member may not write it, an answer is not of its kind, or the database cannot be written.
pub async fn put(hub: &HubState, member: &Member, site: &str, sent: SiteAnswers) -> Result<(), Refused> {
    check_name(site)?;
    let mut stored = BTreeMap::new();
    for (name, text) in sent.answers.into_iter().filter(|(_, text)| !text.trim().is_empty()) {
        let Some(question) = CatalogueQuestion::named(&name) else {
            return Err(Refused::new(
                400,
                format!("there is no question {name}: GET /api/v1/plan/questions names them"),
            ));
        };
        if text.chars().count() > ANSWER_CHARS_MAX {
            return Err(Refused::new(400, format!("{name}: an answer has at most {ANSWER_CHARS_MAX} characters")));
        }
        question.read(&text).map_err(|problem| Refused::new(400, format!("{name}: {problem}")))?;
        stored.insert(name, text.trim().to_owned());
    }
    let before = row(&hub.database, site).await?;
    check_owner(member, before.as_ref())?;
    let row = SiteRecordRow {
        site: site.to_owned(),
        answers: json!(stored).to_string(),
        owner: member.owner.clone(),
        changed: time::now(),
        state: number(if before.is_some() { RoundState::Corrected } else { RoundState::Asked }),
        reminded: before.map_or(-1, |before| before.reminded),
    };
    hub.database.put_site_record(row).await.map_err(refused)
}

/// Confirms the record of a site as it stands.
///
/// # Errors
/// There is no such record, it is incomplete, the member may not write it, the round is over, or the database cannot be written.
pub async fn confirm(hub: &HubState, member: &Member, site: &str) -> Result<(), Refused> {
    let Some(before) = row(&hub.database, site).await? else {
        return Err(Refused::new(404, format!("there is no record of {site}")));
    };
    check_owner(member, Some(&before))?;
    let errors =
        findings(&read(site, &answers(&before)), Measured::default()).into_iter().filter(|finding| finding.is_error);
    let errors: Vec<String> = errors.map(|finding| finding.text).collect();
    if !errors.is_empty() {
        return Err(Refused::new(409, format!("the record is not complete: {}", errors.join("; "))));
    }
    if let Some(stored) = hub.database.site_round().await.map_err(refused)? {
        let mut round = round(&stored, std::slice::from_ref(&before));
        round.answer(site, RoundState::Confirmed, today()).map_err(|why| Refused::new(409, why))?;
    }
    hub.database
        .put_site_record(SiteRecordRow { state: number(RoundState::Confirmed), ..before })
        .await
        .map_err(refused)
}

/// Begins a round in which every site is to confirm its record.
///
/// # Errors
/// The deadline is not a future date, the URL is invalid, or the database cannot be written.
pub async fn begin_round(hub: &HubState, round: SiteRound) -> Result<(), Refused> {
    let deadline = day(&round.deadline).filter(|deadline| *deadline >= i64::from(today())).ok_or_else(|| {
        Refused::new(400, format!("{:?} is not a future date: write it like 2027-01-31", round.deadline))
    })?;
    let notify = round.notify.unwrap_or_default();
    if !notify.is_empty() {
        web::HttpUrl::parse(&notify).map_err(|error| Refused::new(400, format!("notify: {error}")))?;
    }
    hub.database.begin_site_round(SiteRoundRow { deadline, notify }).await.map_err(refused)
}

/// Posts reminders until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        match remind(&hub).await {
            Ok(()) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => {
                tracing::error!(%error, "the round of the site catalogue cannot be read; the hub tries again")
            }
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(REMIND_EVERY) => {}
        }
    }
}

/// Posts the reminders that are due today.
async fn remind(hub: &Arc<HubState>) -> Result<(), DatabaseError> {
    let Some(stored) = hub.database.site_round().await?.filter(|stored| !stored.notify.is_empty()) else {
        return Ok(());
    };
    let rows = hub.database.site_records().await?;
    let mut round = round(&stored, &rows);
    for reminder in round.reminders(today()) {
        let Some(row) = rows.iter().find(|row| row.site == reminder.site) else { continue };
        let contact = answers(row).remove("contact").unwrap_or_default();
        let document = json!({
            "v": 1, "event": "site_reminder", "site": reminder.site, "contact": contact,
            "deadline": show_day(stored.deadline), "days_left": reminder.days_left,
        });
        let dialer = hub.servers.dialer();
        let url = stored.notify.clone();
        let posted = tokio::task::spawn_blocking(move || web::post::document(&dialer, &url, &[], &document)).await;
        if let Ok(Ok(())) = posted {
            let reminded = round.last_reminder(&row.site).map_or(-1, i64::from);
            hub.database.put_site_record(SiteRecordRow { reminded, ..row.clone() }).await?;
        } else {
            tracing::warn!(site = row.site, "a reminder of the site catalogue is not accepted; the hub tries again");
        }
    }
    Ok(())
}

async fn row(database: &Database, site: &str) -> Result<Option<SiteRecordRow>, Refused> {
    let rows = database.site_records().await.map_err(refused)?;
    Ok(rows.into_iter().find(|row| row.site == site))
}

fn check_name(site: &str) -> Result<(), Refused> {
    let length = site.chars().count();
    let is_plain = site.chars().all(|c| !c.is_control()) && site.trim() == site;
    if (1..=SITE_CHARS_MAX).contains(&length) && is_plain {
        return Ok(());
    }
    Err(Refused::new(
        400,
        format!("the name of a site has 1 to {SITE_CHARS_MAX} characters, none of them a control character"),
    ))
}

fn check_owner(member: &Member, before: Option<&SiteRecordRow>) -> Result<(), Refused> {
    match before {
        Some(before) if before.owner != member.owner && member.role < Role::Operator => Err(Refused::new(
            403,
            format!("the record of {} was written by somebody else: ask an operator", before.site),
        )),
        _ => Ok(()),
    }
}

fn findings(record: &PlanRecord, measured: Measured) -> Vec<SiteFinding> {
    let finding = |finding: plan::catalogue::AnswerFinding| SiteFinding {
        question: finding.question.to_owned(),
        is_error: finding.severity == Severity::Error,
        text: finding.text,
    };
    validate(record, measured).into_iter().map(finding).collect()
}

/// The stored answers as texts.
fn answers(row: &SiteRecordRow) -> BTreeMap<String, String> {
    serde_json::from_str(&row.answers).unwrap_or_default()
}

/// The record of stored answers. An answer to a question that has changed since is left out.
fn read(site: &str, answers: &BTreeMap<String, String>) -> PlanRecord {
    let answer =
        |(name, text): (&String, &String)| Some((name.clone(), CatalogueQuestion::named(name)?.read(text).ok()?));
    PlanRecord { site: site.to_owned(), answers: answers.iter().filter_map(answer).collect() }
}

fn round(stored: &SiteRoundRow, rows: &[SiteRecordRow]) -> Round {
    let site = |row: &SiteRecordRow| (row.site.clone(), state(row.state), u32::try_from(row.reminded).ok());
    Round::restore(stored.deadline.max(0) as u32, rows.iter().map(site))
}

const STATES: [(RoundState, &str); 4] = [
    (RoundState::Asked, "asked"),
    (RoundState::Opened, "opened"),
    (RoundState::Corrected, "corrected"),
    (RoundState::Confirmed, "confirmed"),
];

fn state(number: i64) -> RoundState {
    usize::try_from(number).ok().and_then(|at| STATES.get(at)).map_or(RoundState::Asked, |(state, _)| *state)
}

fn number(state: RoundState) -> i64 {
    STATES.iter().position(|(known, _)| *known == state).unwrap_or_default() as i64
}

fn word(state: RoundState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("overdue", |(_, word)| word)
}

/// Days since 1970.
fn today() -> u32 {
    (time::now() / DAY_MS).max(0) as u32
}

fn day(text: &str) -> Option<i64> {
    let date: Date = text.parse().ok()?;
    let days = Date::constant(1970, 1, 1).until(date).ok()?.get_days();
    Some(i64::from(days))
}

fn show_day(day: i64) -> String {
    let date = Date::constant(1970, 1, 1).checked_add(jiff::Span::new().days(day));
    date.map_or_else(|_| day.to_string(), |date| date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_and_shown() {
        assert_eq!((day("1970-01-01"), day("2026-11-27"), day("soon")), (Some(0), Some(20784), None));
        assert_eq!(show_day(20784), "2026-11-27");
    }

    #[test]
    fn every_stored_state_has_a_word() {
        for at in 0..4 {
            assert_eq!(number(state(at)), at);
        }
        assert_eq!(word(RoundState::Overdue), "overdue");
    }
}
