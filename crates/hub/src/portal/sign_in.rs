//! Signing in at a provider (OpenID Connect): the hub sends the browser to the provider, and begins a session when the browser comes back.

use authn::code_flow::{Flow, SECRET_BYTES};
use web::Refused;

use super::cookies::{BrowserRequest, SameSite};
use super::providers::SignIn;
use super::sessions::{self, SessionCredential};
use crate::state::HubState;
use crate::time;

/// The cookie of a sign-in that has begun: it holds the secret of the flow.
const COOKIE: &str = "longhaul-sign-in";
/// How long signing in at the provider may take, seconds.
const FLOW_MAX_S: i64 = 600;

/// The URL that a browser is sent to, and the header field that sets the cookie with the flow's secret.
///
/// # Errors
/// There is no such provider, the provider does not answer, or the system gives no random numbers.
pub async fn begin(hub: &HubState, id: &str, browser: BrowserRequest<'_>) -> Result<(String, String), Refused> {
    let sign_in = find(hub, id)?.clone();
    let mut secret = [0; SECRET_BYTES];
    let filled = auth::trust::provider().secure_random.fill(&mut secret);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    let cookie = browser.set_cookie(COOKIE, Some((&model::hex::encode(&secret), FLOW_MAX_S)), SameSite::Lax);
    let issuers = hub.authenticator.issuers();
    let return_to = return_to(&sign_in, browser);
    let title = sign_in.title.clone();
    let page = blocking(move || {
        sign_in.provider.sign_in_url(&issuers, &Flow::from_secret(&secret), &return_to, time::now() / 1000)
    });
    let page = page.await.map_err(|why| Refused::new(502, format!("{title} does not answer: {why}")))?;
    Ok((page, cookie))
}

/// Begins a session when a browser comes back from a provider. Returns the header fields that set the session's cookie and remove the
/// cookie of the flow.
///
/// # Errors
/// The answer does not belong to a sign-in of this browser, the provider refuses, or the person is no member.
pub async fn finish(
    hub: &HubState,
    answer: &ProviderAnswer,
    browser: BrowserRequest<'_>,
) -> Result<[String; 2], Refused> {
    let sign_in = find(hub, &answer.id)?.clone();
    let title = sign_in.title.clone();
    if let Some(error) = &answer.error {
        return Err(Refused::new(403, format!("{title} has not signed you in: {error}")));
    }
    let no_flow =
        || Refused::new(400, "this browser has no sign-in that waits for the answer: sign in again, within 10 minutes");
    let cookie = browser.cookie(COOKIE).and_then(model::hex::decode);
    let secret: [u8; SECRET_BYTES] = cookie.and_then(|bytes| bytes.try_into().ok()).ok_or_else(no_flow)?;
    let flow = Flow::from_secret(&secret);
    // The state is derived from the secret of this browser: the answer to another browser's sign-in is refused.
    if answer.state != flow.state {
        return Err(no_flow());
    }
    let issuers = hub.authenticator.issuers();
    let return_to = return_to(&sign_in, browser);
    let code = answer.code.clone();
    let exchange = move || {
        let signed_in = sign_in.provider.exchange(&issuers, &flow, &code, &return_to, time::now() / 1000)?;
        sign_in.member(&signed_in)
    };
    let member = blocking(exchange).await.map_err(|why| Refused::new(403, why))?;
    let member = hub.credentials.require_not_banned(member)?;
    tracing::info!(target: "access", by = member.owner, provider = title, "signed in");
    let session = sessions::begin(hub, &member, &SessionCredential::default(), browser).await?;
    Ok([session, browser.set_cookie(COOKIE, None, SameSite::Lax)])
}

/// The provider's answer, in the query of the browser's request.
#[derive(Clone, Debug, Default)]
pub struct ProviderAnswer {
    /// The id of the provider.
    pub id: String,
    /// The code that is exchanged for the identity.
    pub code: String,
    /// The state of the flow.
    pub state: String,
    /// Why there is no code.
    pub error: Option<String>,
}

fn return_to(sign_in: &SignIn, browser: BrowserRequest<'_>) -> String {
    format!("{}/api/v1/sign-in/{}/answer", browser.origin(), sign_in.id)
}

fn find<'a>(hub: &'a HubState, id: &str) -> Result<&'a SignIn, Refused> {
    let found = hub.sign_ins.iter().find(|one| one.id == id);
    found.ok_or_else(|| Refused::new(404, format!("the hub has no sign-in provider {id}: its page lists them")))
}

async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|error| Err(format!("the request broke off: {error}")))
}
