//! A command's client of a hub: the hub's address and identity, and the access key for it.

use std::sync::Arc;
use std::time::Duration;

use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config};
use auth::{AccessKey, Fingerprint};
use hubapi::Api;
use model::HostPort;
use model::fault::{Exit, Fault};
use rustls::ClientConfig;
use web::client::Dialer;
use web::{Client, Headers, HttpUrl, Method};

use crate::args::HubOption;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the hub may send nothing.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The address of the hub, from `--hub` or the environment: `https://HOST:PORT`.
///
/// # Errors
/// No hub is named.
pub fn origin(at: &HubOption) -> Result<String, Failure> {
    let url = at.hub.clone().or_else(|| std::env::var("LONGHAUL_HUB").ok().filter(|url| !url.is_empty()));
    let url = url.ok_or_else(|| Failure::usage("say which hub: --hub https://HOST:PORT, or LONGHAUL_HUB"))?;
    Ok(url.trim_end_matches('/').to_owned())
}

/// The API of the hub that `--hub` or the environment names.
///
/// # Errors
/// No hub is named, it cannot be reached, or its identity is not the remembered one.
pub fn api(at: &HubOption, settings: &Settings) -> Result<Api, Failure> {
    let url = origin(at)?;
    let origin = HttpUrl::parse(&url).map_err(|error| Failure::usage(format!("--hub: {error}")))?;
    let keys = settings.keys();
    let (tls, key) = match (origin.is_secure(), settings.given_authorities()) {
        (false, _) | (true, Some(_)) => {
            let trust = Trust::Authorities(settings.authorities());
            (tls(&trust, b"http/1.1")?.0, keys.first().cloned())
        }
        (true, None) => authenticate(&origin, keys, settings)?,
    };
    let bearer = key.map(|key| format!("Bearer {}", key.expose_text()));
    Ok(Api::new(dialer(tls), origin, bearer.as_deref()))
}

fn dialer(tls: Arc<ClientConfig>) -> Dialer {
    Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: CONNECT_TIMEOUT, silence: SILENCE_MAX }
}

fn tls(trust: &Trust, alpn: &[u8]) -> Result<(Arc<ClientConfig>, auth::trust::SeenFingerprint), Failure> {
    client_config(trust, vec![alpn.to_vec()]).map_err(|error| Failure::local(format!("cannot set up TLS: {error}")))
}

/// Authenticates a hub by its fingerprint and remembers it. Returns the TLS settings for it and the access key to it.
fn authenticate(
    origin: &HttpUrl,
    keys: &[AccessKey],
    settings: &Settings,
) -> Result<(Arc<ClientConfig>, Option<AccessKey>), Failure> {
    let at = HostPort { host: origin.host().to_owned(), port: origin.port() };
    let known = settings.known_nodes();
    let pinned = known.as_ref().map(|known| known.find(&at)).transpose()?.flatten();
    let accepted: Vec<Fingerprint> = match pinned {
        Some(pinned) => vec![pinned],
        None => keys.iter().map(|key| key.node).collect(),
    };
    let (config, seen) = tls(&Trust::Fingerprints(accepted.clone()), HTTP_BY_KEY_ALPN)?;
    let probe_result = probe_identity(origin, &config);
    let shown = match (probe_result, seen.get()) {
        (Ok(()), Some(shown)) => shown,
        (Err(_), Some(shown)) if !accepted.contains(&shown) && !accepted.is_empty() => {
            return Err(wrong_identity(&at, shown, &accepted, pinned.is_some(), settings));
        }
        (Err(error), _) => return Err(error),
        (Ok(()), None) => return Err(Failure::local("the hub showed no certificate")),
    };
    let key = keys.iter().find(|key| key.node == shown).cloned();
    if pinned != Some(shown) {
        let why = if key.is_some() { "the access key names it" } else { "first contact" };
        let remembered = match &known {
            Some(known) => known.pin(&at, shown).map(|()| "remembered")?,
            None => "not remembered: LONGHAUL_STATE and HOME are not set",
        };
        Printer::note(&format!("the hub {at} is {shown} ({why}; {remembered})"));
    }
    // All later connections must show this identity.
    Ok((tls(&Trust::Fingerprints(vec![shown]), HTTP_BY_KEY_ALPN)?.0, key))
}

/// Makes one request, whose TLS handshake shows the identity of the hub.
fn probe_identity(origin: &HttpUrl, config: &Arc<ClientConfig>) -> Result<(), Failure> {
    let fail = |error: web::ClientError| failure(hubapi::Error::Connection(error));
    let mut client = Client::new(&dialer(Arc::clone(config)), origin).map_err(fail)?;
    client.send(&Method::Get, "/api/v1/health", &Headers::new()).map_err(fail)?;
    client.final_response(&Method::Get).map(drop).map_err(fail)
}

fn wrong_identity(
    at: &HostPort,
    shown: Fingerprint,
    accepted: &[Fingerprint],
    is_pinned: bool,
    settings: &Settings,
) -> Failure {
    let expected: Vec<String> = accepted.iter().map(ToString::to_string).collect();
    let file = settings.known_nodes().map(|known| known.path().display().to_string()).unwrap_or_default();
    let remedy = if is_pinned {
        format!(
            "If its operator confirms the change, remove the line of {at} from {file} and try again; if not, somebody may be in between"
        )
    } else {
        "None of your access keys is for this hub: check the address, or ask its operator for a key".to_owned()
    };
    let message = format!("{at} is {shown}, and not {}. {remedy}", expected.join(" or "));
    Failure { exit: Exit::Refused, fault: Fault::Auth, message }
}

/// The failure of a command for an error of the hub.
pub fn failure(error: hubapi::Error) -> Failure {
    match error {
        hubapi::Error::Refused { problem, .. } => {
            let fault = Fault::of_word(&problem.fault).unwrap_or(Fault::Peer);
            Failure { exit: fault.into(), fault, message: format!("the hub refuses: {}", problem.reason) }
        }
        hubapi::Error::Connection(error) => Failure::from_chain(Fault::Path, &error),
        other => Failure::from_chain(Fault::Peer, &other),
    }
}
