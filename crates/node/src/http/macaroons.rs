//! Issues macaroons: for a POST of `application/macaroon-request` to any path (dCache, XrdMacaroons, gfal2), or for a token
//! request of OAuth 2 (RFC 6749, section 4.4) at `/.oauth2/token`, which clients find by RFC 8414.
//!
//! Clients ask on every connection and fall back after a refusal, so a refusal is sent at once, before the body is read.

use auth::macaroon::{Issued, MacaroonContext, MacaroonRequest};
use auth::{Denied, Policy};
use model::id::Uuid;
use model::{RelPath, Timestamp};
use serde_json::{Value, json};
use serve::Length;
use web::method::ALLOW;
use web::target::{encode, location};
use web::{Headers, Response, date};

use super::refused::{Outcome, Refused, RequestFailure, RequestOutcome, refuse};
use super::request_context::{RequestContext, export_and_path};
use crate::clock::now;
use crate::http::short_body::read_short_body;
use authn::Credential;
use authn::Presented;

/// The path of the metadata of the token endpoint (RFC 8414, section 3.1).
const METADATA: &[u8] = b".well-known/oauth-authorization-server";
/// The path of the token endpoint.
const TOKEN: &[u8] = b".oauth2/token";

/// Whether a GET asks for the metadata of the token endpoint.
pub(crate) fn is_metadata_request(context: &RequestContext<'_>) -> bool {
    context.target.path.as_bytes() == METADATA
}

/// Answers with the metadata of the token endpoint.
pub(crate) fn describe(context: &mut RequestContext<'_>) -> Outcome {
    if !context.service.access_control.policy().macaroons.on {
        return Err(refuse(404, "this node gives no macaroons"));
    }
    let origin = context.origin();
    let metadata = json!({
        "issuer": origin,
        "token_endpoint": format!("{origin}/.oauth2/token"),
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
    });
    send(context, &metadata)
}

/// Answers POST.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let policy = context.service.access_control.policy();
    let is_form = context.target.path.as_bytes() == TOKEN;
    if !policy.macaroons.on {
        let refused = Refused::new(405, "POST is not allowed here: this node issues no macaroons");
        return Err(refused.with("Allow", ALLOW.replace("POST,", "")).into());
    }
    check_type(context, is_form)?;
    if context.principal.is_anonymous {
        let reason = "a macaroon is issued to authenticated clients only: show a key, a token or a certificate";
        return Err(context.service.services.authenticator.challenge_anonymous(reason).into());
    }
    let request = read(context, &policy, is_form)?;
    let path = match request.paths.first() {
        Some(path) if is_form || context.target.path.is_root() => path.clone(),
        _ => context.target.path.clone(),
    };
    let issued = match Presented::of(context.request(), &context.target) {
        Presented::Macaroon(text) => narrow(context, &text, &path, &request)?,
        _ => issue(context, &path, &request)?,
    };
    let answer = if is_form { token(&issued) } else { macaroon(context, &path, &issued) };
    send(context, &answer)
}

fn check_type(context: &RequestContext<'_>, is_form: bool) -> Outcome<()> {
    let due = if is_form { "application/x-www-form-urlencoded" } else { "application/macaroon-request" };
    let given = context.request().headers.get("content-type").unwrap_or_default();
    let given = given.split(';').next().unwrap_or_default().trim();
    if given.eq_ignore_ascii_case(due) {
        return Ok(());
    }
    Err(refuse(415, format!("POST takes a request for a macaroon here, with Content-Type: {due}")))
}

fn read(context: &mut RequestContext<'_>, policy: &Policy, is_form: bool) -> Outcome<MacaroonRequest> {
    let most = auth::limits::REQUEST_BYTES;
    let body = read_short_body(context.exchange, most, "a request for a macaroon")?;
    let seconds_max = policy.macaroons.max_validity.as_secs();
    let read = if is_form { MacaroonRequest::parse_form } else { MacaroonRequest::parse };
    read(&body, seconds_max).map_err(|error| refuse(400, error.to_string()))
}

fn issue(context: &RequestContext<'_>, path: &RelPath, request: &MacaroonRequest) -> Outcome<Issued> {
    let access_control = &context.service.access_control;
    let (export, below) =
        export_and_path(path)?.ok_or_else(|| refuse(400, "ask for a macaroon at a path: /EXPORT/PATH"))?;
    let writable = access_control.is_writable(&export).filter(|_| context.access().may_see(&export));
    let writable = writable.ok_or_else(|| refuse(404, Denied::NoExport(export.clone()).to_string()))?;
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "no macaroon can be made");
        refuse(500, "the node cannot make macaroons; its operator must look at its log")
    };
    let secret = access_control.state().macaroon_key().map_err(|error| failed(&error))?;
    let random = engine::identity::random::<16>().map_err(|error| failed(&error))?;
    let uuid = Uuid::from_bytes(random).to_string();
    let origin = context.origin();
    let location = origin.split_once("://").map_or("longhaul", |(_, name)| name);
    let now = now().seconds;
    let issuer = match &context.principal.credential {
        Credential::Token { claims } => Some(claims.issuer.as_str()),
        _ => None,
    };
    let macaroon = MacaroonContext {
        access: context.access(),
        issuer,
        export: &export,
        writable,
        path: &below,
        location,
        uuid: &uuid,
        now,
    };
    let issued = auth::macaroon::issue(&secret, &macaroon, request).map_err(|denied| refused(context, &denied))?;
    let who = context.access().who();
    let activities = issued.activities.to_string();
    let expires_in_s = issued.expires_in;
    tracing::info!(target: "access", who, uuid, path = %path, activities, expires_in_s, "gave a macaroon");
    Ok(issued)
}

/// Adds the caveats of the request to the client's own macaroon, as any holder could do without the node.
fn narrow(context: &RequestContext<'_>, text: &str, path: &RelPath, request: &MacaroonRequest) -> Outcome<Issued> {
    let ends = now().seconds.saturating_add_unsigned(request.validity_seconds);
    let ends = date::rfc3339(Timestamp { seconds: ends, nanos: 0 });
    let paths = std::iter::once(path).chain(&request.paths).map(|path| format!("path:/{path}"));
    let mut caveats = vec![format!("activity:{}", request.activities), format!("before:{ends}")];
    caveats.extend(paths);
    let bad = |error: auth::MacaroonError| refuse(400, error.to_string());
    let text = caveats.iter().try_fold(text.to_owned(), |text, caveat| auth::macaroon::attenuate(&text, caveat));
    let text = text.map_err(bad)?;
    let secret =
        context.service.access_control.state().macaroon_key().map_err(|error| refuse(500, error.to_string()))?;
    let held = auth::macaroon::verify(&secret, &text, now().seconds).map_err(bad)?;
    let left = held.before.unwrap_or(i64::MAX).saturating_sub(now().seconds);
    let expires_in = u64::try_from(left).unwrap_or(0);
    Ok(Issued { text, expires_in, activities: held.activities })
}

fn refused(context: &RequestContext<'_>, denied: &Denied) -> RequestFailure {
    if let Denied::CaveatPath { .. } = denied {
        return refuse(400, denied.to_string());
    }
    context.deny(refuse(403, denied.to_string()))
}

/// The answer of dCache and XrdMacaroons.
fn macaroon(context: &RequestContext<'_>, path: &RelPath, issued: &Issued) -> Value {
    let origin = context.origin();
    let text = &issued.text;
    let target = location(&origin, path, context.target.is_dir, None);
    let secret = encode(text.as_bytes());
    json!({
        "macaroon": text,
        "uri": {
            "targetWithMacaroon": format!("{target}?authz={secret}"),
            "baseWithMacaroon": format!("{origin}/?authz={secret}"),
            "target": target,
            "base": format!("{origin}/"),
        },
        "expires_in": issued.expires_in,
    })
}

/// The answer of RFC 6749, section 5.1.
fn token(issued: &Issued) -> Value {
    json!({ "access_token": issued.text, "token_type": "bearer", "expires_in": issued.expires_in })
}

fn send(context: &mut RequestContext<'_>, answer: &Value) -> Outcome {
    let text = format!("{answer}\n");
    let headers = Headers::new().with("Content-Type", "application/json").with("Cache-Control", "no-store");
    let bytes = text.len() as u64;
    context.exchange.begin(Response { headers, ..Response::new(200) }, Length::Known(bytes))?;
    context.exchange.write(text.as_bytes())?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 200, bytes })
}
