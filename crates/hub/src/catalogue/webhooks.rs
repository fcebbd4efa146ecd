//! Posts the events of names to webhooks, in order and at least once, signed by the rules of Standard Webhooks (`webhook-id`,
//! `webhook-timestamp`, `webhook-signature`).

use std::sync::Arc;
use std::time::Duration;

use auth::macaroon::hmac_sha256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::v1::hub::{Webhook, WebhookOrder};
use replicas::matches_pattern;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use web::{Dialer, HttpUrl, Refused};

use super::{bad, refused};
use crate::database::catalogue::{HistoryEvent, WebhookRow};
use crate::database::{DatabaseError, Result};
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// How often the worker looks for events to post.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// The most webhooks that are posted to at the same time.
const HOOKS_MAX: usize = 8;
/// How long an answer may take: less than the lease of a webhook.
const POST_MAX: Duration = Duration::from_secs(100);
/// The most events in one request.
const EVENTS_MAX: i64 = 100;
/// How many bytes a secret has.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const SECRET_PREFIX: &str = "whsec_";

/// Runs until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    let dialer = hub.servers.dialer();
    // A receiver that answers slowly does not delay the others.
    let mut posting = JoinSet::new();
    loop {
        match take(&hub, HOOKS_MAX - posting.len()).await {
            Ok(hooks) => hooks.into_iter().for_each(|hook| {
                posting.spawn(serve(Arc::clone(&hub), dialer.clone(), hook));
            }),
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "webhooks cannot be read; the hub tries again"),
        }
        tokio::select! {
            _ = stop.changed() => return,
            Some(_) = posting.join_next() => {}
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
    }
}

/// Takes webhooks that have events to be posted.
async fn take(hub: &HubState, count: usize) -> Result<Vec<WebhookRow>> {
    let mut hooks = Vec::new();
    while hooks.len() < count
        && let Some(hook) = hub.database.take_webhook(time::now()).await?
    {
        hooks.push(hook);
    }
    Ok(hooks)
}

/// Posts the next events to a webhook, and logs an error of the database.
async fn serve(hub: Arc<HubState>, dialer: Dialer, hook: WebhookRow) {
    let name = hook.name.clone();
    match post_events(&hub, &dialer, hook).await {
        Ok(()) | Err(DatabaseError::Stopping) => {}
        Err(error) => {
            tracing::error!(%error, webhook = name, "events cannot be posted to a webhook; the hub tries again")
        }
    }
}

/// Posts the next events to a webhook.
async fn post_events(hub: &HubState, dialer: &Dialer, hook: WebhookRow) -> Result<()> {
    let events = hub.database.history_after(None, hook.last_event, EVENTS_MAX).await?;
    let last = events.last().map_or(hook.last_event, |(event, _)| event.number);
    let wanted: Vec<_> = events.iter().filter(|(event, name)| is_for(&hook, event, name)).collect();
    let count = wanted.len() as i64;
    let outcome = match wanted.first().zip(wanted.last()) {
        None => Ok(()),
        Some(((first, _), (last, _))) => {
            let id = format!("{}-{}-{}", hook.name, first.number, last.number);
            let body: Vec<_> = wanted.iter().map(|(event, name)| super::to_api::event(event, name)).collect();
            post(hook.clone(), dialer.clone(), id, json!({"v": 1, "event": "data", "events": body}).to_string()).await
        }
    };
    if let Err(why) = &outcome {
        tracing::warn!(webhook = hook.name, why, "a webhook does not accept events; the hub tries again");
    }
    hub.database.record_posted(hook, outcome.map(|()| (last, count)), time::now()).await
}

fn is_for(hook: &WebhookRow, event: &HistoryEvent, name: &str) -> bool {
    let list = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap_or_default();
    let (kinds, names) = (list(&hook.kinds), list(&hook.names));
    (kinds.is_empty() || kinds.contains(&event.kind))
        && (names.is_empty() || names.iter().any(|one| matches_pattern(one, name)))
}

async fn post(hook: WebhookRow, dialer: Dialer, id: String, text: String) -> std::result::Result<(), String> {
    let at = time::now() / 1000;
    let fields = [
        ("webhook-id".to_owned(), id.clone()),
        ("webhook-timestamp".to_owned(), at.to_string()),
        ("webhook-signature".to_owned(), signature(&hook.secret, &id, at, &text)),
    ];
    let posted = tokio::task::spawn_blocking(move || web::post::text(&dialer, &hook.url, &fields, &text));
    let posted = tokio::time::timeout(POST_MAX, posted).await;
    let posted = posted.map_err(|_| format!("it has not answered within {} s", POST_MAX.as_secs()))?;
    posted.map_err(|error| error.to_string())?.map(drop).map_err(|refusal| refusal.to_string())
}

/// `v1,` and the HMAC-SHA256 of `ID.TIMESTAMP.BODY` in Base64.
fn signature(secret: &str, id: &str, at_s: i64, text: &str) -> String {
    let key = secret.strip_prefix(SECRET_PREFIX).and_then(|key| STANDARD.decode(key).ok()).unwrap_or_default();
    format!("v1,{}", STANDARD.encode(hmac_sha256(&key, format!("{id}.{at_s}.{text}").as_bytes())))
}

/// A webhook as the type of the API, without its secret.
pub fn to_api(row: &WebhookRow) -> Webhook {
    let list = |text: &str| serde_json::from_str(text).unwrap_or_default();
    Webhook {
        name: row.name.clone(),
        url: row.url.clone(),
        kinds: list(&row.kinds),
        names: list(&row.names),
        account: row.account.clone(),
        created: time::show(row.created),
        told: u64::try_from(row.delivered).unwrap_or(0),
        failures: u64::try_from(row.failures).unwrap_or(0),
        error: row.error.clone(),
        not_before: (row.failures > 0).then(|| time::show(row.not_before)),
        secret: None,
    }
}

/// A webhook by its name.
///
/// # Errors
/// There is no webhook of this name.
pub async fn of_name(hub: &HubState, name: &str) -> std::result::Result<WebhookRow, Refused> {
    let row = hub.database.webhook(name).await.map_err(refused)?;
    row.ok_or_else(|| {
        Refused::new(404, format!("there is no webhook {} here", name.chars().take(80).collect::<String>()))
    })
}

/// Makes a webhook, or replaces the one of this name, and returns it with its secret.
///
/// # Errors
/// The order is invalid: nothing has changed.
pub async fn set(
    hub: &HubState,
    member: &Member,
    name: &str,
    order: &WebhookOrder,
) -> std::result::Result<Webhook, Refused> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_plain) {
        return Err(bad("a webhook has a name of letters, digits, `-`, `_` and `.`, 128 at most"));
    }
    HttpUrl::parse(&order.url).map_err(|error| bad(format!("url: {error}")))?;
    if order.kinds.len() > 100
        || order.names.len() > 100
        || order.kinds.iter().chain(&order.names).any(|one| one.len() > 1_000)
    {
        return Err(bad("a webhook names 100 kinds and 100 patterns at most, of 1000 bytes each"));
    }
    let secret = match &order.secret {
        None => format!("{SECRET_PREFIX}{}", STANDARD.encode(random()?)),
        Some(secret) => secret.clone(),
    };
    let key = secret.strip_prefix(SECRET_PREFIX).and_then(|key| STANDARD.decode(key).ok());
    if !key.is_some_and(|key| SECRET_BYTES.contains(&key.len())) {
        return Err(bad("secret: whsec_ and 24 to 64 bytes in Base64"));
    }
    let list = |list: &[String]| serde_json::to_string(list).unwrap_or_default();
    let row = WebhookRow {
        name: name.to_owned(),
        url: order.url.clone(),
        kinds: list(&order.kinds),
        names: list(&order.names),
        secret: secret.clone(),
        account: member.owner.clone(),
        created: time::now(),
        ..WebhookRow::default()
    };
    hub.database.set_webhook(row).await.map_err(refused)?;
    Ok(Webhook { secret: Some(secret), ..to_api(&of_name(hub, name).await?) })
}

/// 32 random bytes.
fn random() -> std::result::Result<[u8; 32], Refused> {
    let mut bytes = [0; 32];
    let filled = auth::trust::provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| Refused::new(500, "the system gives no random numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // The example of the specification of Standard Webhooks.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let (id, at) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        assert_eq!(
            signature(secret, id, at, "{\"test\": 2432232314}"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_webhook_gets_the_events_of_its_kinds_and_names() {
        let event = |kind: &str| HistoryEvent {
            number: 1,
            at: 0,
            account: "ann".into(),
            kind: kind.into(),
            facts: "{}".into(),
        };
        let hook =
            |kinds: &str, names: &str| WebhookRow { kinds: kinds.into(), names: names.into(), ..WebhookRow::default() };
        assert!(is_for(&hook("[]", "[]"), &event("complete"), "s:d"));
        assert!(is_for(&hook("[\"complete\"]", "[\"t:*\", \"s:*\"]"), &event("complete"), "s:d"));
        assert!(!is_for(&hook("[\"complete\"]", "[]"), &event("created"), "s:d"));
        assert!(!is_for(&hook("[]", "[\"t:*\"]"), &event("complete"), "s:d"));
    }
}
