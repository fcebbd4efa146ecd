//! Fetches an issuer's metadata (RFC 8414, OpenID Connect Discovery), and the keys at the URL in the metadata.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::fault::with_causes;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use web::client::{Client, Dialer, redirect};
use web::url::HttpUrl;
use web::{Headers, Method, Response, date};

/// The longest time for metadata and keys together.
const WITHIN: Duration = Duration::from_secs(10);
/// The most bytes of a document.
const BYTES_MAX: usize = 512 << 10;
/// Redirects followed for one document.
const REDIRECTS_MAX: usize = 3;
/// A greater difference between an issuer's clock and this host's is reported: tokens carry times by the issuer's clock.
const SKEW_SECONDS: i64 = auth::limits::SKEW_SECONDS;

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The metadata of an issuer.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    jwks_uri: String,
    /// The page at which browsers sign in; `None` where the issuer offers no sign-in.
    #[serde(default)]
    pub authorization_endpoint: Option<String>,
    /// The address that exchanges a code for tokens.
    #[serde(default)]
    pub token_endpoint: Option<String>,
}

/// The dialer for issuers: over TLS, with these authorities. Any address may be dialled: the operator chooses the issuers.
pub(super) fn dialer(authorities: &Arc<RootCertStore>) -> Option<Dialer> {
    let config = ClientConfig::builder_with_provider(auth::trust::provider()).with_safe_default_protocol_versions();
    let mut tls = config.ok()?.with_root_certificates(Arc::clone(authorities)).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(Dialer { tls: Arc::new(tls), guard: Arc::new(|_| Ok(())), prepare: None, connect: WITHIN, silence: WITHIN })
}

/// The possible URLs of an issuer's metadata: RFC 8414 puts the well-known name between host and path, OpenID Connect after the path.
fn metadata_urls(iss: &str) -> Option<Vec<String>> {
    let rest = iss.strip_prefix("https://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() || iss.contains(['?', '#', '@']) {
        return None;
    }
    let path = path.trim_end_matches('/');
    let mut urls = vec![format!("https://{host}{DISCOVERY}{path}"), format!("https://{host}{path}{DISCOVERY}")];
    urls.dedup();
    Some(urls)
}

/// Parses a URL, which must be https.
pub(super) fn secure(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse(text).map_err(|error| error.to_string())?;
    if url.is_secure() && text.starts_with("https://") { Ok(url) } else { Err(format!("{url} is not https")) }
}

/// Fetches the issuer's key set; returns it unparsed.
pub(super) fn fetch(dialer: &Dialer, iss: &str, now: i64) -> Result<String, String> {
    let deadline = Instant::now() + WITHIN;
    let metadata = metadata(dialer, iss, deadline, now)?;
    let failed = |why: String| format!("jwks_uri of {iss}: {why}");
    let bytes = get(dialer, secure(&metadata.jwks_uri).map_err(failed)?, deadline, now).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| "its key set is not text".to_owned())
}

/// Fetches the metadata of an issuer from the first URL that has them.
pub(super) fn fetch_metadata(dialer: &Dialer, iss: &str, now: i64) -> Result<Metadata, String> {
    metadata(dialer, iss, Instant::now() + WITHIN, now)
}

fn metadata(dialer: &Dialer, iss: &str, deadline: Instant, now: i64) -> Result<Metadata, String> {
    let urls = metadata_urls(iss).ok_or_else(|| format!("{iss} is not the URL of an issuer (https, no query)"))?;
    let mut failures = Vec::new();
    for url in urls {
        match metadata_at(dialer, &url, iss, deadline, now) {
            Ok(metadata) => return Ok(metadata),
            Err(why) => failures.push(format!("{url}: {why}")),
        }
    }
    Err(failures.join("; "))
}

fn metadata_at(dialer: &Dialer, url: &str, iss: &str, deadline: Instant, now: i64) -> Result<Metadata, String> {
    let bytes = get(dialer, secure(url)?, deadline, now)?;
    let parsed: Result<Metadata, _> = serde_json::from_slice(&bytes);
    let metadata = parsed.map_err(|_| "not a JSON object with issuer and jwks_uri")?;
    // One server's metadata must not stand in for another's (RFC 8414, section 3.3).
    if metadata.issuer != iss {
        return Err(format!(
            "it describes the issuer {:?}, not {iss:?}: iss must be written exactly as the issuer writes it",
            metadata.issuer
        ));
    }
    Ok(metadata)
}

fn get(dialer: &Dialer, mut url: HttpUrl, deadline: Instant, now: i64) -> Result<Vec<u8>, String> {
    for _ in 0..=REDIRECTS_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        let dialer = Dialer { connect: left, silence: left, ..dialer.clone() };
        let mut client = Client::new(&dialer, &url).map_err(|error| with_causes(&error))?;
        let headers = Headers::new()
            .with("Accept", "application/json")
            .with("User-Agent", concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .with("Connection", "close");
        client.send(&Method::Get, url.path_and_query(), &headers).map_err(|error| with_causes(&error))?;
        let (response, mut body) = client.final_response(&Method::Get).map_err(|error| with_causes(&error))?;
        if let Some(to) = redirect(&response, &url) {
            url = secure(to.as_str())?;
            continue;
        }
        if response.status != 200 {
            return Err(format!("{} answers {}", url, response.status));
        }
        compare_clocks(&url, &response, now);
        let mut document = Vec::new();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = client.read(&mut body, &mut buffer).map_err(|error| with_causes(&error))?;
            document.extend_from_slice(&buffer[..read]);
            match read {
                0 => return Ok(document),
                _ if document.len() > BYTES_MAX => return Err(format!("more than {BYTES_MAX} bytes")),
                _ if Instant::now() > deadline => return Err(late()),
                _ => {}
            }
        }
    }
    Err(format!("more than {REDIRECTS_MAX} redirects"))
}

fn late() -> String {
    format!("no complete answer within {} s", WITHIN.as_secs())
}

/// Reports an issuer whose clock differs: its tokens seem too young or too old here.
fn compare_clocks(url: &HttpUrl, response: &Response, now: i64) {
    let issuer_time = response.headers.get("date").and_then(date::parse_http);
    let ahead = issuer_time.map_or(0, |time| time.seconds - now);
    if ahead.abs() > SKEW_SECONDS {
        tracing::warn!(server = %url, ahead_s = ahead, "an issuer's clock and this host's differ: tokens may seem too young or old");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_name_stands_before_or_after_the_path_of_the_issuer() {
        let found = |iss| metadata_urls(iss).unwrap_or_default();
        assert_eq!(found("https://i.example/"), ["https://i.example/.well-known/openid-configuration"]);
        assert_eq!(
            found("https://i.example:8443/realms/x"),
            [
                "https://i.example:8443/.well-known/openid-configuration/realms/x",
                "https://i.example:8443/realms/x/.well-known/openid-configuration"
            ]
        );
        for bad in ["http://i/", "https://", "https://u@i/", "https://i/?x", "i"] {
            assert!(metadata_urls(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn keys_are_fetched_only_over_tls() {
        assert!(secure("http://i/k").is_err() && secure("s3://i/k").is_err() && secure("https://i/k").is_ok());
    }
}
