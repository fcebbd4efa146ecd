//! Sessions of the portal.

use http::{HeaderValue, header};
use model::v1::hub::WhoAmI;
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::portal::cookies::BrowserRequest;
use crate::portal::sessions;

/// POST /api/v1/session.
pub(super) async fn begin(request: ApiRequest) -> ApiResult {
    let browser = BrowserRequest::of(&request.head, request.is_secure);
    if request.headers().get(header::AUTHORIZATION).is_none() {
        return Err(Refused::new(400, "a session begins with a credential: send it in Authorization"));
    }
    let member = &request.member;
    let cookie = sessions::begin(&request.hub, member, &request.credential, browser).await?;
    let (owner, community) = (member.owner.clone(), member.community.clone());
    with_cookie(json(201, &WhoAmI { owner, role: member.role.word().to_owned(), community }), &cookie)
}

/// DELETE /api/v1/session.
pub(super) async fn end(request: ApiRequest) -> ApiResult {
    let cookie = sessions::end(&request.hub, BrowserRequest::of(&request.head, request.is_secure)).await?;
    with_cookie(json(200, &serde_json::json!({})), &cookie)
}

fn with_cookie(answered: ApiResult, cookie: &str) -> ApiResult {
    let mut response = answered?;
    let value = HeaderValue::try_from(cookie)
        .map_err(|_| Refused::new(500, "the cookie of the session cannot be written as a header field"))?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(response)
}
