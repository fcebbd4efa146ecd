//! The catalogue of sites: the questionnaire, its answers, the confirmation round.

use model::v1::hub::{SiteAnswers, SiteRound};

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

/// PUT /api/v1/plan/sites/NAME.
pub(super) async fn put(request: ApiRequest) -> ApiResult {
    let answers: SiteAnswers = request.read("answers")?;
    site_catalogue::put(&request.hub, &request.member, &request.id, answers).await?;
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}

/// POST /api/v1/plan/sites/NAME/confirm.
pub(super) async fn confirm(request: ApiRequest) -> ApiResult {
    site_catalogue::confirm(&request.hub, &request.member, &request.id).await?;
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}

/// POST /api/v1/plan/round.
pub(super) async fn begin_round(request: ApiRequest) -> ApiResult {
    let round: SiteRound = request.read("a round")?;
    site_catalogue::begin_round(&request.hub, round).await?;
    json(200, &site_catalogue::catalogue(&request.hub).await?)
}
