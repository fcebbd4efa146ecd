//! Signing in at a provider (OpenID Connect): the browser is sent to the provider, and its session begins when it comes back.

use authn::code_flow::{Flow, SECRET_BYTES};
use web::Refused;

use super::cookies::{BrowserRequest, SameSite};
use super::providers::SignIn;
use super::sessions::{self, ShownCredential};
use crate::state::HubState;
use crate::time;

/// The cookie of a sign-in that has begun: the secret of its flow.
const COOKIE: &str = "longhaul-sign-in";
/// How long signing in at the provider may take, seconds.
const FLOW_LASTS_S: i64 = 600;

/// The URL that a browser is sent to, and the header field that sets the cookie with the flow's secret.
///
/// # Errors
/// There is no such provider, it does not answer, or the system gives no random numbers.
pub async fn begin(hub: &HubState, id: &str, browser: BrowserRequest<'_>) -> Result<(String, String), Refused> {
    let sign_in = find(hub, id)?.clone();
    let mut secret = [0; SECRET_BYTES];
    let filled = auth::trust::provider().secure_random.fill(&mut secret);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    let cookie = browser.set_cookie(COOKIE, Some((&model::hex::encode(&secret), FLOW_LASTS_S)), SameSite::Lax);
    let (issuers, return_to, title) =
        (hub.authenticator.issuers(), return_to(&sign_in, browser), sign_in.title.clone());
    let page = blocking(move || sign_in.provider.page(&issuers, &Flow::of(&secret), &return_to, time::now() / 1000));
    let page = page.await.map_err(|why| Refused::new(502, format!("{title} cannot be asked: {why}")))?;
    Ok((page, cookie))
}

/// Begins a session when a browser comes back from a provider. Returns the header fields that set its cookie, and remove that of the flow.
///
/// # Errors
/// The answer does not belong to a sign-in of this browser, the provider refuses, or the person is no member.
pub async fn finish(hub: &HubState, answer: &Answer, browser: BrowserRequest<'_>) -> Result<[String; 2], Refused> {
    let sign_in = find(hub, &answer.id)?.clone();
    let title = sign_in.title.clone();
    if let Some(error) = &answer.error {
        return Err(Refused::new(403, format!("{title} has not signed you in: {error}")));
    }
    let no_flow =
        || Refused::new(400, "no sign-in of this browser waits for that answer: begin anew; it may take 10 minutes");
    let kept = browser.cookie(COOKIE).and_then(model::hex::decode);
    let secret: [u8; SECRET_BYTES] = kept.and_then(|bytes| bytes.try_into().ok()).ok_or_else(no_flow)?;
    let flow = Flow::of(&secret);
    // The state is compared with the secret of this browser: the answer to another browser's sign-in begins no session here.
    if answer.state != flow.state {
        return Err(no_flow());
    }
    let (issuers, return_to, code) = (hub.authenticator.issuers(), return_to(&sign_in, browser), answer.code.clone());
    let exchange = move || {
        let signed_in = sign_in.provider.exchange(&issuers, &flow, &code, &return_to, time::now() / 1000)?;
        sign_in.member(&signed_in)
    };
    let member = blocking(exchange).await.map_err(|why| Refused::new(403, why))?;
    let member = hub.credentials.require_welcome(member)?;
    tracing::info!(target: "access", by = member.owner, provider = title, "signed in");
    let session = sessions::begin(hub, &member, &ShownCredential::default(), browser).await?;
    Ok([session, browser.set_cookie(COOKIE, None, SameSite::Lax)])
}

/// What a browser brings back from a provider.
#[derive(Clone, Debug, Default)]
pub struct Answer {
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
    found.ok_or_else(|| Refused::new(404, format!("nobody signs in at {id} here: the page of the hub says where")))
}

async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|error| Err(format!("the question broke off: {error}")))
}
