//! Signing in at a provider (OpenID Connect), and what somebody is to the hub by what the provider says of him.

use authn::code_flow::{Flow, Provider, SECRET_BYTES, SignedIn};
use model::v1::hub::Role;
use web::Refused;

use super::cookies::{BrowserRequest, SameSite};
use super::sessions::{self, ShownCredential};
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// The cookie of a sign-in that has begun: the secret of its flow.
const COOKIE: &str = "longhaul-sign-in";
/// How long somebody may take at the provider, seconds.
const FLOW_LASTS_S: i64 = 600;

/// A provider where members of the collaboration sign in, and who they are by its word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// What it is in addresses: letters, digits, hyphens.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// The provider.
    pub provider: Provider,
    /// The claim that is the name of a member.
    pub name_claim: String,
    /// Who is what; the first that fits counts, and whom none fits is refused. Everybody is a user where there is none.
    pub members: Vec<MemberRule>,
}

/// What those are to the hub of whom a claim says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRule {
    /// The claim, and what it says or has among what it lists.
    pub claim: String,
    /// See there.
    pub value: String,
    /// What they may do.
    pub role: Role,
    /// The community that they submit for; empty for any.
    pub community: String,
}

impl SignIn {
    /// The member that somebody is who has signed in.
    ///
    /// # Errors
    /// None.
    fn member(&self, signed_in: &SignedIn) -> Result<Member, String> {
        let claim = &self.name_claim;
        let owner = signed_in.text(claim).ok_or_else(|| {
            format!(
                "{} does not say your {claim}: an operator of the hub chooses another claim, or asks for its scope",
                self.title
            )
        })?;
        if self.members.is_empty() {
            return Ok(Member::user(owner, ""));
        }
        let rule = self.members.iter().find(|rule| signed_in.has(&rule.claim, &rule.value)).ok_or_else(|| {
            format!(
                "{owner} is known to {}, and is no member of this collaboration: ask an operator of the hub",
                self.title
            )
        })?;
        Ok(Member { role: rule.role, ..Member::user(owner, &rule.community) })
    }

    fn return_to(&self, browser: BrowserRequest<'_>) -> String {
        format!("{}/api/v1/sign-in/{}/answer", browser.origin(), self.id)
    }
}

/// Where a browser goes to sign in, and the field that has it keep the flow's secret.
///
/// # Errors
/// There is no such provider, it cannot be asked, or the system gives no random numbers.
pub async fn begin(hub: &HubState, id: &str, browser: BrowserRequest<'_>) -> Result<(String, String), Refused> {
    let sign_in = find(hub, id)?.clone();
    let mut secret = [0; SECRET_BYTES];
    let filled = auth::trust::provider().secure_random.fill(&mut secret);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    let cookie = browser.set_cookie(COOKIE, Some((&model::hex::encode(&secret), FLOW_LASTS_S)), SameSite::Lax);
    let (issuers, return_to, title) = (hub.authenticator.issuers(), sign_in.return_to(browser), sign_in.title.clone());
    let page = blocking(move || sign_in.provider.page(&issuers, &Flow::of(&secret), &return_to, time::now() / 1000));
    let page = page.await.map_err(|why| Refused::new(502, format!("{title} cannot be asked: {why}")))?;
    Ok((page, cookie))
}

/// Begins a session for whoever comes back from a provider; the fields that have the browser keep it, and forget the flow.
///
/// # Errors
/// The answer is not to a sign-in of this browser, the provider refuses, or who has signed in is no member.
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
    // The state is compared with what only this browser was given: an answer to somebody else's sign-in begins no session here.
    if answer.state != flow.state {
        return Err(no_flow());
    }
    let (issuers, return_to, code) = (hub.authenticator.issuers(), sign_in.return_to(browser), answer.code.clone());
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
    /// Which provider it comes from.
    pub id: String,
    /// What is exchanged for who has signed in.
    pub code: String,
    /// Which flow it is of.
    pub state: String,
    /// Why there is no code.
    pub error: Option<String>,
}

fn find<'a>(hub: &'a HubState, id: &str) -> Result<&'a SignIn, Refused> {
    let found = hub.sign_ins.iter().find(|one| one.id == id);
    found.ok_or_else(|| Refused::new(404, format!("nobody signs in at {id} here: the page of the hub says where")))
}

async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|error| Err(format!("the question broke off: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use authn::code_flow::SignedIn;
    use serde_json::json;

    fn sign_in(members: Vec<MemberRule>) -> SignIn {
        let provider = Provider {
            issuer: "https://idp.example".to_owned(),
            client_id: "hub".to_owned(),
            client_secret: None,
            scopes: Vec::new(),
        };
        SignIn { id: "idp".to_owned(), title: "Idp".to_owned(), provider, name_claim: "sub".to_owned(), members }
    }

    #[test]
    fn the_first_rule_that_fits_says_who_somebody_is() {
        let rule = |value: &str, role, community: &str| MemberRule {
            claim: "groups".to_owned(),
            value: value.to_owned(),
            role,
            community: community.to_owned(),
        };
        let with_rules = sign_in(vec![rule("ops", Role::Operator, ""), rule("astro", Role::User, "astro")]);
        let who = |groups: &[&str]| SignedIn::of(json!({"sub": "ann", "groups": groups}));
        let member = |sign_in: &SignIn, groups: &[&str]| sign_in.member(&who(groups));
        assert_eq!(member(&with_rules, &["astro"]).unwrap(), Member::user("ann", "astro"));
        assert_eq!(member(&with_rules, &["astro", "ops"]).unwrap().role, Role::Operator);
        assert!(member(&with_rules, &["other"]).unwrap_err().contains("no member of this collaboration"));
        assert_eq!(member(&sign_in(Vec::new()), &[]).unwrap(), Member::user("ann", ""));
        let by_mail = SignIn { name_claim: "email".to_owned(), ..sign_in(Vec::new()) };
        assert!(member(&by_mail, &[]).unwrap_err().contains("does not say your email"));
    }
}
