//! The FTS API: banned users.

use model::v1::hub::Role;
use serde_json::{Value, json};
use web::Refused;

use super::cancel::end_all;
use super::forms::submitter;
use super::{Answered, FtsRequest, json_answer, nothing};
use crate::database::fts::BannedUser;
use crate::database::jobs::JobFilter;
use crate::state::unavailable;
use crate::time;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 1024;

fn dn(request: &FtsRequest) -> Result<String, Refused> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let said = request.parameter("user_dn").or_else(|| body.get("user_dn")?.as_str().map(str::to_owned));
    let said = said.ok_or_else(|| Refused::new(400, "Missing user_dn parameter"))?;
    if said.is_empty() || said.len() > NAME_BYTES_MAX || said.chars().any(char::is_control) {
        return Err(Refused::new(400, "user_dn is the name of a user, as whoami says it"));
    }
    Ok(said)
}

/// `GET /ban/dn`.
pub(super) async fn banned(request: &FtsRequest) -> Answered {
    request.member.require(Role::Operator)?;
    let users = request.hub.database.banned_users().await.map_err(unavailable)?;
    json_answer(200, &users.iter().map(|user| json!({"dn": user.dn, "message": user.reason})).collect::<Vec<_>>())
}

/// `POST /ban/dn` with `user_dn`, and `message`: bans a user and ends the user's jobs. Answers with their ids.
pub(super) async fn ban(request: FtsRequest) -> Answered {
    request.member.require(Role::Admin)?;
    let dn = dn(&request)?;
    if dn == request.member.distinguished_name() {
        return Err(Refused::new(409, "nobody bans oneself: there might be nobody left to undo it"));
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let reason = body.get("message").and_then(Value::as_str).filter(|text| !text.is_empty());
    let user = BannedUser { dn: dn.clone(), reason: reason.unwrap_or("ask who runs this hub").to_owned() };
    let by = request.member.owner.clone();
    request.hub.database.ban_user(user, by, time::now()).await.map_err(unavailable)?;
    request.hub.credentials.read_banned().await?;
    let which = JobFilter { unended: true, limit: 500, ..JobFilter::default() };
    let (_, ended) = end_all(&request, which, |job| submitter(job) == dn).await?;
    json_answer(200, &ended)
}

/// `DELETE /ban/dn?user_dn=`.
pub(super) async fn unban(request: FtsRequest) -> Answered {
    request.member.require(Role::Admin)?;
    let dn = dn(&request)?;
    request.hub.database.unban_user(dn).await.map_err(unavailable)?;
    request.hub.credentials.read_banned().await?;
    nothing()
}
