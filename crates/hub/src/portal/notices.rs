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
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the lease of a notice lasts, milliseconds: longer than an answer may take.
const LEASE_MS: i64 = 120_000;
/// Attempts to post a notice, and the pause after the first; it doubles each time.
const TRIES_MAX: i64 = 8;
const AGAIN_MS: i64 = 10_000;

/// Runs until told to stop.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        match tell_next(&hub).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "jobs that have ended cannot be told of; it is tried again"),
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// Posts one notice; whether there was one.
async fn tell_next(hub: &Arc<HubState>) -> Result<bool, DatabaseError> {
    let Some(notice) = hub.database.take_notice(time::now(), LEASE_MS).await? else { return Ok(false) };
    let Some(stored) = hub.database.job(&notice.id).await? else { return Ok(true) };
    let (dialer, url) = (dialer(hub), notice.url.clone());
    let document = json!({"v": 1, "event": "job", "job": stored.job});
    let told = tokio::task::spawn_blocking(move || web::post::document(&dialer, &url, &[], &document)).await;
    let why = match told {
        Ok(Ok(())) => None,
        Ok(Err(not_taken)) => Some(not_taken.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let again = why.as_ref().and_then(|_| again(&notice, time::now()));
    if let Some(why) = why {
        let url = web::target::redacted(&notice.url);
        tracing::warn!(job = notice.id, url, why, is_given_up = again.is_none(), "nobody takes the news of a job");
    }
    hub.database.noticed(notice.job, again).await?;
    Ok(true)
}

/// When a notice is tried again; none after the last attempt.
fn again(notice: &Notice, now: i64) -> Option<i64> {
    (notice.tries < TRIES_MAX).then(|| now + AGAIN_MS * (1 << (notice.tries - 1).clamp(0, 20)))
}

/// A dialer for URLs that users name: the policy says which addresses it may dial on their behalf.
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
    fn it_is_tried_again_ever_more_rarely_and_then_given_up() {
        let at = |tries| again(&Notice { job: 1, id: String::new(), url: String::new(), tries }, 0);
        assert_eq!((at(1), at(2), at(7), at(8)), (Some(10_000), Some(20_000), Some(640_000), None));
    }
}
