//! The catalogue of sites: the questionnaire, its answers, the confirmation round.

use std::borrow::Cow;

use model::v1::hub::{SiteAnswers, SiteRound};
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::portal::site_catalogue;

/// GET /api/v1/plan/questions.
pub(super) async fn questions(_: ApiRequest) -> ApiResult {
    json(200, &site_catalogue::questions())
}

/// GET /api/v1/plan/sites.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}

/// The site of a request's path. Names of sites may contain spaces and letters beyond ASCII.
fn site(request: &ApiRequest) -> Result<String, Refused> {
    let text = percent_encoding::percent_decode_str(&request.id).decode_utf8();
    text.map(Cow::into_owned).map_err(|_| Refused::new(400, "the name of a site is percent-encoded UTF-8"))
}

/// PUT /api/v1/plan/sites/NAME.
pub(super) async fn put(request: ApiRequest) -> ApiResult {
    let answers: SiteAnswers = request.read("answers")?;
    site_catalogue::put(&request.hub, &request.member, &site(&request)?, answers).await?;
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}

/// POST /api/v1/plan/sites/NAME/confirm.
pub(super) async fn confirm(request: ApiRequest) -> ApiResult {
    site_catalogue::confirm(&request.hub, &request.member, &site(&request)?).await?;
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}

/// POST /api/v1/plan/round.
pub(super) async fn begin_round(request: ApiRequest) -> ApiResult {
    let round: SiteRound = request.read("a round")?;
    site_catalogue::begin_round(&request.hub, round).await?;
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}
