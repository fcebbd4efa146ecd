//! How often names are fetched.

use model::v1::hub::{DataAccess, DataAccessed, DataAccesses};
use web::Refused;

use super::{Answered, ApiRequest, json};
use crate::catalogue::{find, refused};
use crate::database::catalogue::{Accessed, DataRow};
use crate::time;

/// Days or names on a page, unless said.
const PAGE: usize = 100;
/// Days that are looked back, unless said.
const DAYS: i64 = 30;
const DAY_MS: i64 = 24 * 3_600_000;

async fn named(request: &ApiRequest) -> Result<DataRow, Refused> {
    let text = percent_encoding::percent_decode_str(&request.id).decode_utf8();
    let name = text.map_err(|_| Refused::new(400, "a name is UTF-8"))?;
    find(&request.hub, &name).await
}

fn told(name: &DataRow, day: Option<i64>, accessed: Accessed) -> DataAccessed {
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
pub(super) async fn note(request: ApiRequest) -> Answered {
    let access: DataAccess = request.read("an access")?;
    let name = named(&request).await?;
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
pub(super) async fn list(request: ApiRequest) -> Answered {
    let name = named(&request).await?;
    let days = request.hub.database.accesses(name.id, request.limit(PAGE)?).await.map_err(refused)?;
    let accesses = days.into_iter().map(|(day, accessed)| told(&name, Some(day), accessed)).collect();
    json(200, &DataAccesses { accesses })
}

/// GET /api/v1/scopes/SCOPE/popular.
pub(super) async fn popular(request: ApiRequest) -> Answered {
    let days = request.number("days")?.unwrap_or(DAYS).clamp(0, 36_500);
    let since = time::now() - days * DAY_MS;
    let rows = request.hub.database.popular(&request.id, since, request.limit(PAGE)?).await.map_err(refused)?;
    json(200, &DataAccesses { accesses: rows.iter().map(|(name, accessed)| told(name, None, *accessed)).collect() })
}
