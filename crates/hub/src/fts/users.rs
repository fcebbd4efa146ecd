//! The FTS API: banned users.

use model::v1::hub::Role;
use serde_json::{Value, json};
use web::Refused;

use super::cancel::cancel_all;
use super::forms::submitter;
use super::{FtsRequest, FtsResult, json_answer, no_content};
use crate::database::fts::BannedUser;
use crate::database::jobs::JobFilter;
use crate::state::unavailable;
use crate::time;

/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 1024;

fn dn(request: &FtsRequest) -> Result<String, Refused> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let dn = request.parameter("user_dn").or_else(|| body.get("user_dn")?.as_str().map(str::to_owned));
    let dn = dn.ok_or_else(|| Refused::new(400, "Missing user_dn parameter"))?;
    if dn.is_empty() || dn.len() > NAME_BYTES_MAX || dn.chars().any(char::is_control) {
        return Err(Refused::new(400, "user_dn is the name of a user, as in the answer of /whoami"));
    }
    Ok(dn)
}

/// `GET /ban/dn`.
pub(super) async fn banned(request: &FtsRequest) -> FtsResult {
    request.member.require(Role::Operator)?;
    let users = request.hub.database.banned_users().await.map_err(unavailable)?;
    json_answer(200, &users.iter().map(|user| json!({"dn": user.dn, "message": user.reason})).collect::<Vec<_>>())
}

/// `POST /ban/dn` with `user_dn`, and `message`: bans a user and cancels the user's jobs. Answers with the ids of these jobs.
pub(super) async fn ban(request: FtsRequest) -> FtsResult {
    request.member.require(Role::Admin)?;
    let dn = dn(&request)?;
    if dn == request.member.distinguished_name() {
        return Err(Refused::new(409, "you cannot ban yourself: there might be nobody left to undo it"));
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let reason = body.get("message").and_then(Value::as_str).filter(|text| !text.is_empty());
    let user = BannedUser { dn: dn.clone(), reason: reason.unwrap_or("ask the operators of this hub").to_owned() };
    let by = request.member.owner.clone();
    request.hub.database.ban_user(user, by, time::now()).await.map_err(unavailable)?;
    request.hub.credentials.read_banned().await?;
    let filter = JobFilter { unended: true, limit: 500, ..JobFilter::default() };
    let (_, cancelled) = cancel_all(&request, filter, |job| submitter(job) == dn).await?;
    json_answer(200, &cancelled)
}

/// `DELETE /ban/dn?user_dn=`.
pub(super) async fn unban(request: FtsRequest) -> FtsResult {
    request.member.require(Role::Admin)?;
    let dn = dn(&request)?;
    request.hub.database.unban_user(dn).await.map_err(unavailable)?;
    request.hub.credentials.read_banned().await?;
    no_content()
}
