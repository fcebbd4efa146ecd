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

/// The largest number of changes that wait for one recipient.
const WAITING_MAX: usize = 1_000;
/// Older changes are dropped.
const AGE_MAX: Duration = Duration::from_secs(3_600);
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(20);
/// Alertmanager forgets alarms that are not repeated: its `resolve_timeout` is five minutes.
const REMIND_EVERY: Duration = Duration::from_secs(120);

/// A recipient, and the changes that wait for it.
struct Recipient {
    notify: Notify,
    waiting: VecDeque<(Instant, Change)>,
    /// No attempt before this.
    retry_at: Instant,
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

    /// Replaces the recipients by those of another configuration; changes that wait for a recipient of both are kept.
    pub fn replace(&mut self, config: &Config) {
        let mut before = std::mem::take(&mut self.recipients);
        let recipient = |notify: &Notify| match before.iter().position(|known| known.notify == *notify) {
            Some(known) => before.swap_remove(known),
            None => Recipient { notify: notify.clone(), waiting: VecDeque::new(), retry_at: Instant::now() },
        };
        self.recipients = config.notify.iter().map(recipient).collect();
        self.quiet.clone_from(&config.quiet);
    }

    /// Queues a change for all recipients that it is meant for.
    pub fn push(&mut self, change: &Change, minute_of_day: u16) {
        let alarm = change.alarm();
        if alarm.id == 0 || !is_announced(alarm, change) {
            return;
        }
        let is_quiet = alarm.severity != Health::Critical && is_within(&self.quiet, minute_of_day);
        for recipient in &mut self.recipients {
            let is_machine = matches!(recipient.notify.how, NotifyKind::Alertmanager(_));
            // Alertmanager gets every change: it groups and silences by itself.
            let is_withheld = is_quiet && !is_machine;
            if is_withheld || recipient.notify.critical_only && alarm.severity != Health::Critical {
                continue;
            }
            recipient.waiting.push_back((Instant::now(), change.clone()));
            if recipient.waiting.len() > WAITING_MAX {
                recipient.waiting.pop_front();
            }
        }
    }

    /// Sends the changes that wait; `lasting` are all alarms, which are repeated to Alertmanager.
    pub fn send(&mut self, lasting: &[Alarm]) {
        let is_reminder_due = self.reminded.elapsed() >= REMIND_EVERY;
        if is_reminder_due {
            self.reminded = Instant::now();
        }
        for recipient in &mut self.recipients {
            if is_reminder_due && matches!(recipient.notify.how, NotifyKind::Alertmanager(_)) {
                let reminders =
                    lasting.iter().filter(|alarm| alarm.acknowledged.is_none()).cloned().map(Change::Changed);
                recipient.waiting.extend(reminders.map(|change| (Instant::now(), change)));
            }
            recipient.send(&self.dialer);
        }
    }
}

/// Whether a change is sent: changes of an acknowledged alarm are not, except its end.
fn is_announced(alarm: &Alarm, change: &Change) -> bool {
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
    fn send(&mut self, dialer: &Dialer) {
        self.waiting.retain(|(since, _)| since.elapsed() < AGE_MAX);
        if self.waiting.is_empty() || self.retry_at > Instant::now() {
            return;
        }
        let changes: Vec<&Change> = self.waiting.iter().map(|(_, change)| change).collect();
        let sent = match &self.notify.how {
            NotifyKind::Webhook(url) => web::post::document(
                dialer,
                url,
                &[],
                &json!({"v": 1, "event": "alarms", "changes": changes.iter().map(|c| webhook(c)).collect::<Vec<_>>()}),
            )
            .map_err(|error| error.to_string()),
            NotifyKind::Alertmanager(url) => {
                let alerts: Vec<Value> = changes.iter().map(|change| alert(change)).collect();
                web::post::document(
                    dialer,
                    &format!("{}/api/v2/alerts", url.trim_end_matches('/')),
                    &[],
                    &json!(alerts),
                )
                .map_err(|error| error.to_string())
            }
            NotifyKind::Mail { server, from, to } => mail::send(server, from, to, &changes),
        };
        match sent {
            Ok(()) => self.waiting.clear(),
            Err(why) => {
                tracing::warn!(why, waiting = self.waiting.len(), "alarms cannot be sent; they are sent again later");
                self.retry_at = Instant::now() + RETRY_PAUSE;
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

/// An alert for Alertmanager's API (v2).
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
        // An open alarm expires at Alertmanager soon after a missed reminder.
        let until = Timestamp::now().checked_add(jiff::SignedDuration::from_secs(3 * REMIND_EVERY.as_secs() as i64));
        until.map_or_else(|_| alarm.since.clone(), |until| until.to_string())
    });
    json!({"labels": labels, "annotations": annotations, "startsAt": alarm.since, "endsAt": ends})
}

/// An alarm in one line.
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

/// The dialer for the connections of a watch to recipients and services.
pub fn dialer(tls: Arc<rustls::ClientConfig>) -> Dialer {
    Dialer {
        tls,
        guard: Arc::new(|_| Ok(())),
        prepare: None,
        connect: Duration::from_secs(10),
        silence: Duration::from_secs(20),
    }
}

#[cfg(test)]
mod tests;
