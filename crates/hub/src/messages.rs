//! Sends messages to a broker over STOMP 1.2: the changes of each file, for consumers of FTS's messages (Rucio's receiver, monitoring).
//!
//! The database records each change in the transaction that makes it ([`crate::database::messages`]). Changes are sent in their order, and
//! removed when the broker has confirmed them. So a broker that was down gets all of them, up to a bound; after a lost connection it may
//! get messages twice.

mod forms;
mod stomp;

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::sync::watch;

use self::forms::{complete, state};
use self::stomp::{Connection, Login, Message};
use crate::database::messages::{FileChange, FileChanges};
use crate::database::{Database, DatabaseError};
use crate::limits;
use crate::state::HubState;

/// How often the hub looks for changes.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// The first and the longest pause before a broker is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How often the oldest changes beyond the bound are removed while no broker answers.
const TRIM_EVERY: Duration = Duration::from_secs(60);

/// The brokers that messages are sent to, the login, and the names in messages.
#[derive(Clone)]
pub struct Messages {
    /// The brokers, tried one after the other.
    pub brokers: Vec<Broker>,
    /// The user name of the login; `None` for a broker without a login.
    pub user: Option<String>,
    /// The password of the login.
    pub password: String,
    /// The broker's virtual host.
    pub virtual_host: String,
    /// The prefix of the destinations `complete` and `state`.
    pub destination: String,
    /// The name of the hub in messages (`endpnt`).
    pub endpoint: String,
    /// Whether every change of a file is sent, not only the ends of attempts.
    pub states: bool,
}

/// A broker: `stomp://HOST:PORT`, or `stomps://HOST:PORT` over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether the connection uses TLS.
    pub is_secure: bool,
}

impl FromStr for Broker {
    type Err = String;

    fn from_str(text: &str) -> Result<Broker, String> {
        let wrong = || format!("{text:?} is no broker: stomp://HOST:PORT or stomps://HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (is_secure, default_port) = match scheme {
            "stomp" => (false, 61613),
            "stomps" => (true, 61614),
            _ => return Err(wrong()),
        };
        let rest = rest.trim_end_matches('/');
        let has_port = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let (host, port) = match has_port {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (rest, default_port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || host.contains(['/', '@']) {
            return Err(wrong());
        }
        Ok(Broker { host, port, is_secure })
    }
}

/// Why messages cannot be sent.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error("the broker: {0}")]
    Broker(#[from] io::Error),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Sends changes to a broker until the hub stops. Of several hubs on one database only one sends.
pub async fn run(hub: Arc<HubState>, to: Messages, roots: Arc<RootCertStore>, mut stop: watch::Receiver<bool>) {
    let database = &hub.database;
    let mut pause = PAUSES.0;
    loop {
        for broker in &to.brokers {
            let result = tokio::select! {
                result = send_to(&hub, &to, broker, &roots, &mut pause) => result,
                _ = stop.changed() => return,
            };
            let Err(error) = result;
            tracing::warn!(broker = %broker.host, port = broker.port, %error, "messages wait for the broker");
        }
        tokio::select! {
            () = wait(database, pause) => {}
            _ = stop.changed() => return,
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Removes the oldest changes beyond the bound, and pauses.
async fn wait(database: &Database, pause: Duration) {
    match database.trim_changes(limits::CHANGES_WAITING_MAX).await {
        Ok(0) => {}
        Ok(lost) => tracing::error!(lost, "the broker has been away for too long: the oldest messages are removed"),
        Err(error) => tracing::error!(%error, "messages cannot be counted"),
    }
    tokio::time::sleep(pause.min(TRIM_EVERY)).await;
}

/// Sends changes to one broker until an error occurs.
async fn send_to(
    hub: &HubState,
    to: &Messages,
    broker: &Broker,
    roots: &Arc<RootCertStore>,
    pause: &mut Duration,
) -> Result<std::convert::Infallible, PublishError> {
    let login = Login { user: to.user.as_deref(), password: &to.password, virtual_host: &to.virtual_host };
    let mut connection = Connection::open(broker, &login, roots).await?;
    tracing::info!(broker = %broker.host, port = broker.port, "connected to the broker: messages are sent");
    let database = &hub.database;
    loop {
        let changes = if database.sends_messages(&hub.name).await? {
            database.changes(limits::CHANGES_AT_ONCE).await?
        } else {
            FileChanges::default()
        };
        let Some(last) = changes.last else {
            connection.wait(POLL_EVERY).await?;
            continue;
        };
        let messages: Vec<Message> = changes.changes.iter().flat_map(|change| messages(to, change)).collect();
        connection.send(&messages).await?;
        database.remove_changes(last).await?;
        *pause = PAUSES.0;
    }
}

/// The messages of a change: the end of an attempt, and the change itself.
fn messages(to: &Messages, change: &FileChange) -> Vec<Message> {
    let message = |kind: &str, body: serde_json::Value| Message {
        destination: format!("{}{kind}", to.destination),
        vo: change.job.job.community.clone(),
        // Consumers expect this byte after the JSON.
        body: format!("{body}\u{4}"),
    };
    let ended = change.ends_attempt.then(|| message("complete", complete(&to.endpoint, change)));
    let changed = to.states.then(|| message("state", state(change)));
    ended.into_iter().chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_a_url() {
        let broker = |host: &str, port, is_secure| Ok(Broker { host: host.to_owned(), port, is_secure });
        assert_eq!("stomp://mq.example:1".parse(), broker("mq.example", 1, false));
        assert_eq!("stomps://mq.example".parse(), broker("mq.example", 61614, true));
        assert_eq!("stomp://[::1]/".parse(), broker("::1", 61613, false));
        assert_eq!("stomp://[::1]:5".parse(), broker("::1", 5, false));
        for wrong in ["", "mq.example:1", "http://h", "stomp://", "stomp://h:x", "stomp://u:p@h:1", "stomp://h/q"] {
            assert!(wrong.parse::<Broker>().is_err(), "{wrong}");
        }
    }
}
