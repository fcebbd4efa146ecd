//! How often names are fetched.

use model::v1::hub::{DataAccess, DataAccessed, DataAccesses};
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::{find, refused};
use crate::database::catalogue::{AccessCounts, DataRow};
use crate::time;

/// Days or names on a page, unless the request gives a limit.
const PAGE: usize = 100;
/// How many of the last days are counted, unless the request gives a number.
const DAYS: i64 = 30;
const DAY_MS: i64 = 24 * 3_600_000;

/// The name in the request's path.
async fn find_name(request: &ApiRequest) -> Result<DataRow, Refused> {
    let text = percent_encoding::percent_decode_str(&request.id).decode_utf8();
    let name = text.map_err(|_| Refused::new(400, "a name is UTF-8"))?;
    find(&request.hub, &name).await
}

fn to_api(name: &DataRow, day: Option<i64>, accessed: AccessCounts) -> DataAccessed {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    DataAccessed {
        name: name.name.to_string(),
        day: day.map(|day| time::show(day).chars().take("2026-12-24".len()).collect()),
        count: count(accessed.count),
        files: count(accessed.files),
        bytes: count(accessed.bytes),
    }
}

/// POST /api/v1/data/NAME/accesses.
pub(super) async fn note(request: ApiRequest) -> ApiResult {
    let access: DataAccess = request.read("an access")?;
    let name = find_name(&request).await?;
    if !request.hub.topology.load().storage.contains_key(&access.endpoint) {
        let endpoint: String = access.endpoint.chars().take(80).collect();
        return Err(Refused::new(400, format!("there is no endpoint {endpoint} with storage")));
    }
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX / 2);
    let (files, bytes) = (number(access.files), number(access.bytes));
    request.hub.database.note_access(name.id, access.endpoint, files, bytes, time::now()).await.map_err(refused)?;
    list(request).await
}

/// GET /api/v1/data/NAME/accesses.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let name = find_name(&request).await?;
    let days = request.hub.database.accesses(name.id, request.limit(PAGE)?).await.map_err(refused)?;
    let accesses = days.into_iter().map(|(day, accessed)| to_api(&name, Some(day), accessed)).collect();
    json(200, &DataAccesses { accesses })
}

/// GET /api/v1/scopes/SCOPE/popular.
pub(super) async fn popular(request: ApiRequest) -> ApiResult {
    let days = request.number("days")?.unwrap_or(DAYS).clamp(0, 36_500);
    let since = time::now() - days * DAY_MS;
    let rows = request.hub.database.popular(&request.id, since, request.limit(PAGE)?).await.map_err(refused)?;
    json(200, &DataAccesses { accesses: rows.iter().map(|(name, accessed)| to_api(name, None, *accessed)).collect() })
}
