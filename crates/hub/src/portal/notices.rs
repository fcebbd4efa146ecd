//! Posts notices of jobs that have ended to the URLs that their orders gave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use web::Dialer;
use web::client::Guard;

use crate::database::DatabaseError;
use crate::database::notices::Notice;
use crate::state::HubState;
use crate::time;

/// How often the hub looks for jobs that have ended.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long the lease of a notice lasts, milliseconds: longer than an answer may take.
const LEASE_MS: i64 = 120_000;
/// The most attempts to post a notice.
const TRIES_MAX: i64 = 8;
/// The pause after the first attempt, milliseconds; it doubles each time.
const RETRY_MS: i64 = 10_000;

/// Runs until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        match post_next(&hub).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "notices of jobs cannot be read; the hub tries again"),
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
    }
}

/// Posts one notice; returns whether there was one.
async fn post_next(hub: &Arc<HubState>) -> Result<bool, DatabaseError> {
    let Some(notice) = hub.database.take_notice(time::now(), LEASE_MS).await? else { return Ok(false) };
    let Some(stored) = hub.database.job(&notice.id).await? else { return Ok(true) };
    let dialer = dialer(hub);
    let url = notice.url.clone();
    let document = json!({"v": 1, "event": "job", "job": stored.job});
    let posted = tokio::task::spawn_blocking(move || web::post::document(&dialer, &url, &[], &document)).await;
    let why = match posted {
        Ok(Ok(())) => None,
        Ok(Err(refusal)) => Some(refusal.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let retry_at = why.as_ref().and_then(|_| retry_at(&notice, time::now()));
    if let Some(why) = why {
        let url = web::target::redacted(&notice.url);
        tracing::warn!(
            job = notice.id,
            url,
            why,
            is_given_up = retry_at.is_none(),
            "the notice of a job is not accepted"
        );
    }
    hub.database.settle_notice(notice.job, retry_at).await?;
    Ok(true)
}

/// When a notice is posted again; `None` after the last attempt.
fn retry_at(notice: &Notice, now: i64) -> Option<i64> {
    (notice.tries < TRIES_MAX).then(|| now + RETRY_MS * (1 << (notice.tries - 1).clamp(0, 20)))
}

/// A dialer for URLs that users name: it connects only to addresses that the policy permits.
fn dialer(hub: &HubState) -> Dialer {
    let rules = authn::Credentials::policy(&*hub.credentials).third_party.clone();
    let guard: Arc<Guard> = Arc::new(move |address: &SocketAddr| {
        rules.check(address.ip(), &sys::addresses::is_own).map_err(|denied| denied.to_string())
    });
    Dialer { guard, ..hub.servers.dialer() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_posts_doubles_until_the_notice_is_given_up() {
        let at = |tries| retry_at(&Notice { job: 1, id: String::new(), url: String::new(), tries }, 0);
        assert_eq!((at(1), at(2), at(7), at(8)), (Some(10_000), Some(20_000), Some(640_000), None));
    }
}
