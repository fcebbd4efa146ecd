//! Audits: the files of an endpoint, compared with its replicas in the catalogue.

use model::v1::hub::{AuditFindings, AuditOrder, Audits};
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::{audits, refused};

/// Audits or findings on a page, unless the request gives a limit.
const PAGE: usize = 1_000;

fn number(request: &ApiRequest) -> Result<i64, Refused> {
    request.id.parse().map_err(|_| Refused::new(404, format!("there is no audit {} here", request.id)))
}

/// POST /api/v1/storage/ENDPOINT/audits.
pub(super) async fn order(request: ApiRequest) -> ApiResult {
    let order: AuditOrder = request.read("an audit")?;
    let row = audits::order(&request.hub, &request.member, &request.id, &order).await?;
    json(201, &audits::to_api(&row))
}

/// GET /api/v1/audits.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.audits(request.limit(PAGE)?).await.map_err(refused)?;
    json(200, &Audits { audits: rows.iter().map(audits::to_api).collect() })
}

/// GET /api/v1/audits/NUMBER.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    json(200, &audits::to_api(&audits::of_number(&request.hub, number(&request)?).await?))
}

/// GET /api/v1/audits/NUMBER/findings.
pub(super) async fn findings(request: ApiRequest) -> ApiResult {
    let audit = audits::of_number(&request.hub, number(&request)?).await?;
    let (after, limit) = (request.number("after")?.unwrap_or(0), request.limit(PAGE)?);
    let rows = request.hub.database.findings(audit.number, after, limit).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|(at, _)| *at);
    json(
        200,
        &AuditFindings { findings: rows.iter().map(|(_, finding)| audits::finding_to_api(finding)).collect(), next },
    )
}

/// POST /api/v1/audits/NUMBER/clean.
pub(super) async fn clean(request: ApiRequest) -> ApiResult {
    json(202, &audits::to_api(&audits::order_clean(&request.hub, number(&request)?).await?))
}
