//! Signing in to the portal at a provider.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use model::v1::hub::{SignInProvider, SignInProviders};
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::portal::assets;
use crate::portal::cookies::BrowserRequest;
use crate::portal::providers::SignIn;
use crate::portal::sign_in::{self, ProviderAnswer};

/// GET /api/v1/sign-in.
pub(super) async fn providers(request: ApiRequest) -> ApiResult {
    let to_api = |sign_in: &SignIn| SignInProvider { id: sign_in.id.clone(), title: sign_in.title.clone() };
    json(200, &SignInProviders { providers: request.hub.sign_ins.iter().map(to_api).collect() })
}

/// GET /api/v1/sign-in/ID.
pub(super) async fn begin(request: ApiRequest) -> ApiResult {
    let browser = BrowserRequest::of(&request.head, request.is_secure);
    match sign_in::begin(&request.hub, &request.id, browser).await {
        Ok((page, cookie)) => {
            let mut response = assets::page(StatusCode::SEE_OTHER, "");
            add_header(&mut response, header::LOCATION, &page)?;
            add_header(&mut response, header::SET_COOKIE, &cookie)?;
            Ok(response)
        }
        Err(refused) => Ok(refusal_page(&refused)),
    }
}

/// GET /api/v1/sign-in/ID/answer.
pub(super) async fn finish(request: ApiRequest) -> ApiResult {
    let text = |name: &str| request.parameter(name).unwrap_or_default();
    let error = request.parameter("error").map(|word| request.parameter("error_description").unwrap_or(word));
    let answer = ProviderAnswer { id: request.id.clone(), code: text("code"), state: text("state"), error };
    let browser = BrowserRequest::of(&request.head, request.is_secure);
    match sign_in::finish(&request.hub, &answer, browser).await {
        Ok(cookies) => {
            let mut response = assets::page(StatusCode::OK, "<p>You are signed in. <a href=\"/\">Go on</a></p>");
            // With a redirect the next request would still come from the provider's site, and the browser would not send a strict cookie. A
            // request from this page comes from our own site.
            add_header(&mut response, header::REFRESH, "0; url=/")?;
            for cookie in &cookies {
                add_header(&mut response, header::SET_COOKIE, cookie)?;
            }
            Ok(response)
        }
        Err(refused) => Ok(refusal_page(&refused)),
    }
}

/// A refusal as a page: the browser has followed a link, and no script reads the answer.
fn refusal_page(refused: &Refused) -> Response {
    let problem = refused.problem();
    let reason = web::markup::text(&problem.reason);
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    assets::page(
        status,
        &format!("<h1>You are not signed in</h1><p>{reason}</p><p><a href=\"/\">Back to the hub</a></p>"),
    )
}

fn add_header(response: &mut Response, name: header::HeaderName, value: &str) -> Result<(), Refused> {
    let value = HeaderValue::try_from(value).map_err(|_| Refused::new(500, format!("{name} cannot be written")))?;
    response.headers_mut().append(name, value);
    Ok(())
}
