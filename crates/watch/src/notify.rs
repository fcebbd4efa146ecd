//! Sends alarms to webhooks, Alertmanager and mail addresses. Changes that cannot be sent now are sent later, in order; those older than an hour are dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::v1::watch::{Alarm, Health};
use serde_json::{Value, json};
use web::Dialer;

use crate::alarms::Change;
use crate::config::{Config, Notify, NotifyKind};

mod mail;

/// Changes that wait for one recipient.
const WAITING_MAX: usize = 1_000;
/// Older changes are dropped.
const OLD: Duration = Duration::from_secs(3_600);
/// The pause after a failure.
const AGAIN: Duration = Duration::from_secs(20);
/// Alertmanager forgets alarms that are not repeated: its `resolve_timeout` is five minutes.
const REMIND_EVERY: Duration = Duration::from_secs(120);

/// A recipient, and the changes that wait for it.
struct Recipient {
    notify: Notify,
    waiting: VecDeque<(Instant, Change)>,
    again: Instant,
}

/// All recipients.
pub struct Notifier {
    recipients: Vec<Recipient>,
    quiet: Vec<(u16, u16)>,
    dialer: Dialer,
    reminded: Instant,
}

impl Notifier {
    /// The recipients of a configuration.
    pub fn new(config: &Config, dialer: Dialer) -> Notifier {
        let mut notifier = Notifier { recipients: Vec::new(), quiet: Vec::new(), dialer, reminded: Instant::now() };
        notifier.replace(config);
        notifier
    }

    /// Takes the recipients of another configuration: changes that wait for recipients who stay are kept.
    pub fn replace(&mut self, config: &Config) {
        let mut before = std::mem::take(&mut self.recipients);
        let recipient = |notify: &Notify| match before.iter().position(|known| known.notify == *notify) {
            Some(known) => before.swap_remove(known),
            None => Recipient { notify: notify.clone(), waiting: VecDeque::new(), again: Instant::now() },
        };
        self.recipients = config.notify.iter().map(recipient).collect();
        self.quiet.clone_from(&config.quiet);
    }

    /// Queues a change for all recipients who want it.
    pub fn push(&mut self, change: &Change, minute_of_day: u16) {
        let alarm = change.alarm();
        if alarm.id == 0 || !is_told(alarm, change) {
            return;
        }
        let is_quiet = alarm.severity != Health::Critical && is_within(&self.quiet, minute_of_day);
        for recipient in &mut self.recipients {
            let is_machine = matches!(recipient.notify.how, NotifyKind::Alertmanager(_));
            // Alertmanager gets every change: it groups and silences by itself.
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

    /// Sends the changes that wait; `lasting` are all alarms, which Alertmanager wants repeated.
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
            NotifyKind::Webhook(url) => web::post::document(
                dialer,
                url,
                &[],
                &json!({"v": 1, "event": "alarms", "changes": changes.iter().map(|c| webhook(c)).collect::<Vec<_>>()}),
            )
            .map_err(|not_taken| not_taken.to_string()),
            NotifyKind::Alertmanager(url) => {
                let alerts: Vec<Value> = changes.iter().map(|change| alert(change)).collect();
                web::post::document(
                    dialer,
                    &format!("{}/api/v2/alerts", url.trim_end_matches('/')),
                    &[],
                    &json!(alerts),
                )
                .map_err(|not_taken| not_taken.to_string())
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
        // An alarm that lasts ends a little after the next reminder.
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

/// The dialer that a watch tells others with.
pub fn dialer(tls: Arc<rustls::ClientConfig>) -> Dialer {
    let (connect, silence) = (Duration::from_secs(10), Duration::from_secs(20));
    Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect, silence }
}

#[cfg(test)]
mod tests;
