//! Alarms by mail.

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::{Message, SmtpTransport, Transport};

use super::{summary, word};
use crate::alarms::Change;

/// How long a mail server may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Alarms in one mail; further ones are only counted.
const LISTED_MAX: usize = 50;

/// Sends one mail of all changes.
pub(super) fn send(server: &str, from: &str, to: &[String], changes: &[&Change]) -> Result<(), String> {
    let mut builder = Message::builder().from(mailbox(from)?).subject(subject(changes));
    for one in to {
        builder = builder.to(mailbox(one)?);
    }
    let message = builder.body(body(changes)).map_err(|error| error.to_string())?;
    let transport =
        SmtpTransport::from_url(server).map_err(|error| format!("{}: {error}", web::target::redacted(server)))?;
    let sent = transport.timeout(Some(TIMEOUT)).build().send(&message);
    sent.map(drop)
        .map_err(|error| format!("mail by {}: {}", web::target::redacted(server), model::fault::with_causes(&error)))
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|error| format!("{text:?} is not a mail address: {error}"))
}

fn subject(changes: &[&Change]) -> String {
    match changes {
        [one] => format!("[longhaul] {} {}", word(one), summary(one.alarm())),
        many => format!("[longhaul] {} changes of alarms", many.len()),
    }
}

pub(super) fn body(changes: &[&Change]) -> String {
    let mut text = String::new();
    for change in changes.iter().take(LISTED_MAX) {
        let alarm = change.alarm();
        text.push_str(&format!(
            "{}: {}\n  since {}\n  {}\n",
            word(change),
            summary(alarm),
            alarm.since,
            alarm.evidence
        ));
        if let Some(ended) = &alarm.ended {
            text.push_str(&format!("  over since {ended}\n"));
        } else {
            text.push_str(&format!("  {}\n", alarm.remedy));
        }
        text.extend(alarm.event.iter().map(|event| format!("  at about that time: {event}\n")));
        text.push('\n');
    }
    if changes.len() > LISTED_MAX {
        text.push_str(&format!("and {} more: longhaul watch alarms\n", changes.len() - LISTED_MAX));
    }
    text
}
