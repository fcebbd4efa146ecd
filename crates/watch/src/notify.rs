//! Tells others of alarms: webhooks, Alertmanager, mail. What cannot be told now is told later, in order; what is older than an hour is not told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::v1::watch::{Alarm, Health};
use serde_json::{Value, json};
use web::{Client, Dialer, Headers, HttpUrl, Method};

use crate::alarms::Change;
use crate::config::{Config, Notify, NotifyKind};

mod mail;

/// What waits for one who is told.
const WAITING_MAX: usize = 1_000;
/// What is older is not told any more.
const OLD: Duration = Duration::from_secs(3_600);
/// After a failure it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(20);
/// Alertmanager forgets alarms that are not told again: its `resolve_timeout` is five minutes.
const REMIND_EVERY: Duration = Duration::from_secs(120);

/// One who is told, and what waits for it.
struct Recipient {
    notify: Notify,
    waiting: VecDeque<(Instant, Change)>,
    again: Instant,
}

/// All who are told.
pub struct Notifier {
    recipients: Vec<Recipient>,
    quiet: Vec<(u16, u16)>,
    dialer: Dialer,
    reminded: Instant,
}

impl Notifier {
    /// Those of a configuration.
    pub fn new(config: &Config, dialer: Dialer) -> Notifier {
        let mut notifier = Notifier { recipients: Vec::new(), quiet: Vec::new(), dialer, reminded: Instant::now() };
        notifier.replace(config);
        notifier
    }

    /// Those of another configuration: what waits for those who stay, stays.
    pub fn replace(&mut self, config: &Config) {
        let mut before = std::mem::take(&mut self.recipients);
        let recipient = |notify: &Notify| match before.iter().position(|known| known.notify == *notify) {
            Some(known) => before.swap_remove(known),
            None => Recipient { notify: notify.clone(), waiting: VecDeque::new(), again: Instant::now() },
        };
        self.recipients = config.notify.iter().map(recipient).collect();
        self.quiet.clone_from(&config.quiet);
    }

    /// Something changed.
    pub fn push(&mut self, change: &Change, minute_of_day: u16) {
        let alarm = change.alarm();
        if alarm.id == 0 || !is_told(alarm, change) {
            return;
        }
        let is_quiet = alarm.severity != Health::Critical && is_within(&self.quiet, minute_of_day);
        for recipient in &mut self.recipients {
            let is_machine = matches!(recipient.notify.how, NotifyKind::Alertmanager(_));
            // A machine that groups and silences by itself is told always.
            let is_held = is_quiet && !is_machine;
            if is_held || recipient.notify.critical_only && alarm.severity != Health::Critical {
                continue;
            }
            recipient.waiting.push_back((Instant::now(), change.clone()));
            if recipient.waiting.len() > WAITING_MAX {
                recipient.waiting.pop_front();
            }
        }
    }

    /// Tells what waits; `lasting` are all alarms, of which Alertmanager wants to hear again and again.
    pub fn tell(&mut self, lasting: &[Alarm]) {
        let is_time = self.reminded.elapsed() >= REMIND_EVERY;
        if is_time {
            self.reminded = Instant::now();
        }
        for recipient in &mut self.recipients {
            if is_time && matches!(recipient.notify.how, NotifyKind::Alertmanager(_)) {
                let again = lasting.iter().filter(|alarm| alarm.acknowledged.is_none()).cloned().map(Change::Changed);
                recipient.waiting.extend(again.map(|change| (Instant::now(), change)));
            }
            recipient.tell(&self.dialer);
        }
    }
}

/// Whether people hear of it: not of what somebody has seen, and of that somebody has not.
fn is_told(alarm: &Alarm, change: &Change) -> bool {
    alarm.acknowledged.is_none() || matches!(change, Change::Ended(_))
}

/// Whether a minute of the day lies in one of these spans, which may go over midnight.
fn is_within(spans: &[(u16, u16)], minute: u16) -> bool {
    spans
        .iter()
        .any(|(from, to)| if from <= to { (*from..*to).contains(&minute) } else { minute >= *from || minute < *to })
}

/// The minute of the day, UTC.
pub fn minute_of_day(now: i64) -> u16 {
    (now.div_euclid(60_000).rem_euclid(1_440)) as u16
}

impl Recipient {
    fn tell(&mut self, dialer: &Dialer) {
        self.waiting.retain(|(since, _)| since.elapsed() < OLD);
        if self.waiting.is_empty() || self.again > Instant::now() {
            return;
        }
        let changes: Vec<&Change> = self.waiting.iter().map(|(_, change)| change).collect();
        let told = match &self.notify.how {
            NotifyKind::Webhook(url) => post_json(
                dialer,
                url,
                &[],
                &json!({"v": 1, "event": "alarms", "changes": changes.iter().map(|c| webhook(c)).collect::<Vec<_>>()}),
            ),
            NotifyKind::Alertmanager(url) => {
                let alerts: Vec<Value> = changes.iter().map(|change| alert(change)).collect();
                post_json(dialer, &format!("{}/api/v2/alerts", url.trim_end_matches('/')), &[], &json!(alerts))
            }
            NotifyKind::Mail { server, from, to } => mail::send(server, from, to, &changes),
        };
        match told {
            Ok(()) => self.waiting.clear(),
            Err(why) => {
                tracing::warn!(why, waiting = self.waiting.len(), "alarms cannot be told; it is tried again");
                self.again = Instant::now() + AGAIN;
            }
        }
    }
}

fn word(change: &Change) -> &'static str {
    match change {
        Change::Raised(_) => "raised",
        Change::Changed(_) => "changed",
        Change::Ended(_) => "ended",
    }
}

fn webhook(change: &Change) -> Value {
    json!({"change": word(change), "alarm": change.alarm()})
}

/// An alert as Alertmanager's API takes it (v2).
fn alert(change: &Change) -> Value {
    let alarm = change.alarm();
    let labels = json!({
        "alertname": format!("longhaul_{}", alarm.kind.word()),
        "severity": alarm.severity.word(),
        "source": alarm.from,
        "target": alarm.to,
        "direction": alarm.direction.map_or("both", model::v1::probe::Direction::word),
    });
    let annotations = json!({
        "summary": summary(alarm),
        "description": alarm.evidence,
        "cause": alarm.cause.word(),
        "segment": alarm.segment,
        "remedy": alarm.remedy,
    });
    let ends = alarm.ended.clone().unwrap_or_else(|| {
        // It lasts: until it is told again, and a little more.
        let until = Timestamp::now().checked_add(jiff::SignedDuration::from_secs(3 * REMIND_EVERY.as_secs() as i64));
        until.map_or_else(|_| alarm.since.clone(), |until| until.to_string())
    });
    json!({"labels": labels, "annotations": annotations, "startsAt": alarm.since, "endsAt": ends})
}

/// An alarm in a line.
pub fn summary(alarm: &Alarm) -> String {
    let direction = alarm.direction.map_or(String::new(), |direction| format!(" {}", direction.word()));
    format!(
        "{} {}: {} from {} to {}{direction} ({})",
        alarm.severity.word(),
        alarm.kind.word(),
        alarm.cause.word(),
        alarm.from,
        alarm.to,
        alarm.segment
    )
}

/// Why somebody did not take what was posted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct NotTaken {
    /// What was answered; none where nothing was.
    pub status: Option<u16>,
    why: String,
}

/// Posts a document, with these fields besides; what is answered counts for nothing but its status.
pub(crate) fn post_json(dialer: &Dialer, url: &str, fields: &[(String, String)], body: &Value) -> Result<(), String> {
    post(dialer, url, fields, body).map(drop).map_err(|not_taken| not_taken.why)
}

/// Posts a document; the document that is answered, or nothing where that is none.
pub(crate) fn post_for_json(dialer: &Dialer, url: &str, body: &Value) -> Result<Value, NotTaken> {
    let answer = post(dialer, url, &[], body)?;
    Ok(serde_json::from_slice(&answer).unwrap_or_default())
}

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

fn post(dialer: &Dialer, url: &str, fields: &[(String, String)], body: &Value) -> Result<Vec<u8>, NotTaken> {
    let said = |error: web::ClientError| NotTaken { status: None, why: model::fault::with_causes(&error) };
    let parsed = HttpUrl::parse(url).map_err(|error| NotTaken { status: None, why: error.to_string() })?;
    let mut client = Client::new(dialer, &parsed).map_err(said)?;
    let text = body.to_string();
    let mut headers =
        Headers::new().with("Content-Type", "application/json").with("Content-Length", text.len().to_string());
    fields.iter().for_each(|(name, value)| headers.add(name, value.as_str()));
    client.send(&Method::Post, parsed.path_and_query(), &headers).map_err(said)?;
    client.write(text.as_bytes()).map_err(said)?;
    let (response, mut body) = client.answer(&Method::Post).map_err(said)?;
    match response.status {
        200..300 => client.read_all(&mut body, ANSWER_BYTES_MAX).map_err(said),
        status => Err(NotTaken { status: Some(status), why: format!("{} answers {status}", parsed.authority()) }),
    }
}

/// The dialer that a watch tells others with.
pub fn dialer(tls: Arc<rustls::ClientConfig>) -> Dialer {
    let (connect, silence) = (Duration::from_secs(10), Duration::from_secs(20));
    Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect, silence }
}

#[cfg(test)]
mod tests;
