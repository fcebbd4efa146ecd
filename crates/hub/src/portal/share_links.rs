//! Share links: with one, people without an account read a file or folder, or put new files into a folder.
//!
//! A link's token is 32 random bytes; the hub stores its digest. Payload goes between the endpoint and the browser: the holder of the link
//! gets short-lived links from the hub, each for one file and signed by the endpoint.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use auth::macaroon::hmac_sha256;
use aws_lc_rs::pbkdf2;
use model::v1::hub::{Download, FolderEntry, ShareKind, ShareLink, ShareLinkOrder, Shared, SharedQuery};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use web::Refused;

use super::files::{self, Activity, LINK_LIFETIME};
use crate::catalogue::refused;
use crate::database::share_links::ShareLinkRow;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// How long a link lasts if its order does not say, seconds.
const LIFETIME_DEFAULT_S: u64 = 7 * 86_400;
/// How long a link may last, seconds.
const LIFETIME_MAX_S: u64 = 366 * 86_400;
/// How many characters a password has.
const PASSWORD_CHARS: std::ops::RangeInclusive<usize> = 8..=200;
/// Rounds of PBKDF2: some 0.1 s of a processor.
const ROUNDS: NonZeroU32 = match NonZeroU32::new(600_000) {
    Some(rounds) => rounds,
    None => NonZeroU32::MIN,
};
/// After this many wrong passwords, no password is checked for [`LOCKED_MS`].
const TRIES_MAX: i64 = 5;
const LOCKED_MS: i64 = 60_000;
/// How long a ticket stands for a password, milliseconds.
const TICKET_LIFETIME_MS: i64 = 3_600_000;
/// The most bytes of a file's name.
const NAME_BYTES_MAX: usize = 255;

fn random<const N: usize>() -> Result<[u8; N], Refused> {
    let mut bytes = [0; N];
    let filled = auth::trust::provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    Ok(bytes)
}

fn digest(token: &str) -> String {
    model::hex::encode(&Sha256::digest(token))
}

fn password_hash(password: &str, salt: &[u8]) -> String {
    let mut hash = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, password.as_bytes(), &mut hash);
    model::hex::encode(&hash)
}

/// A link as the type of the API, for its owner.
pub fn to_api(row: &ShareLinkRow) -> ShareLink {
    ShareLink {
        id: row.id.clone(),
        page: None,
        owner: row.owner.clone(),
        at: web::target::redacted(&row.target),
        kind: kind(row),
        has_password: !row.password_hash.is_empty(),
        created: time::show(row.created),
        expires: time::show(row.expires),
        opened: row.opened.max(0) as u64,
    }
}

fn kind(row: &ShareLinkRow) -> ShareKind {
    if row.kind == "drop" { ShareKind::Drop } else { ShareKind::Read }
}

/// Makes a link.
///
/// # Errors
/// The file or folder does not exist, or the order is invalid.
pub async fn make(hub: &Arc<HubState>, member: &Member, order: ShareLinkOrder) -> Result<ShareLink, Refused> {
    let lasts_s = order.lasts_s.unwrap_or(LIFETIME_DEFAULT_S);
    if !(60..=LIFETIME_MAX_S).contains(&lasts_s) {
        return Err(Refused::new(400, "a link lasts at least a minute and at most 366 days: lasts_s"));
    }
    if order.kind == ShareKind::Drop && !order.at.ends_with('/') {
        return Err(Refused::new(400, "a drop box is a folder: its URL has a slash at its end"));
    }
    if order.password.as_ref().is_some_and(|text| !PASSWORD_CHARS.contains(&text.chars().count())) {
        return Err(Refused::new(400, "a password has 8 to 200 characters"));
    }
    files::require(hub, &order.at, order.at.ends_with('/')).await?;
    let token = model::hex::encode(&random::<32>()?);
    let id = random::<8>()?;
    let salt = random::<16>()?;
    let hash = match order.password {
        None => String::new(),
        Some(password) => blocking(move || password_hash(&password, &salt)).await?,
    };
    let now = time::now();
    let row = ShareLinkRow {
        id: model::hex::encode(&id),
        token_sha256: digest(&token),
        owner: member.owner.clone(),
        target: order.at,
        kind: if order.kind == ShareKind::Drop { "drop" } else { "read" }.to_owned(),
        password_salt: if hash.is_empty() { String::new() } else { model::hex::encode(&salt) },
        password_hash: hash,
        created: now,
        expires: now + (lasts_s as i64) * 1000,
        ..ShareLinkRow::default()
    };
    let link = ShareLink { page: Some(format!("/s/{token}")), ..to_api(&row) };
    hub.database.add_share_link(row).await.map_err(refused)?;
    Ok(link)
}

/// The link with an id, if the member may end it.
///
/// # Errors
/// There is no such link, or it belongs to another member.
pub async fn of_id(hub: &HubState, member: &Member, id: &str) -> Result<ShareLinkRow, Refused> {
    let row = hub.database.share_link(id).await.map_err(refused)?;
    let row = row.filter(|row| member.may_change(&row.owner, &member.community));
    row.ok_or_else(|| Refused::new(404, format!("there is no link {id}, or none of yours")))
}

/// The file or folder of a link.
///
/// # Errors
/// The link has ended, the password is wrong, or the endpoint does not answer.
pub async fn open(hub: &Arc<HubState>, token: &str, query: &SharedQuery) -> Result<Shared, Refused> {
    let row = find(hub, token).await?;
    let (kind, is_folder) = (kind(&row), row.target.ends_with('/'));
    let mut shared = Shared {
        name: files::last_name(&row.target),
        kind,
        owner: row.owner.clone(),
        expires: time::show(row.expires),
        is_folder,
        ..Shared::default()
    };
    if !row.password_hash.is_empty() && query.password.is_none() && query.ticket.is_none() {
        return Ok(Shared { needs_password: true, ..shared });
    }
    shared.ticket = check_password(hub, &row, query).await?;
    if kind == ShareKind::Drop {
        return Ok(shared);
    }
    let at = below(&row, &query.path)?;
    shared.entries = if is_folder { files::list(hub, &at).await?.entries } else { vec![file_entry(hub, &row).await?] };
    Ok(shared)
}

/// A signed link of the endpoint to a file of a share link: to read it, or to upload it.
///
/// # Errors
/// The link has ended, does not permit this, the password is wrong, or the endpoint signs no links.
pub async fn link(
    hub: &Arc<HubState>,
    token: &str,
    query: &SharedQuery,
    activity: Activity,
) -> Result<Download, Refused> {
    let row = find(hub, token).await?;
    let wanted = if kind(&row) == ShareKind::Drop { Activity::Upload } else { Activity::Download };
    if activity != wanted {
        return Err(Refused::new(403, "this link does not permit that"));
    }
    check_password(hub, &row, query).await?;
    if activity == Activity::Upload && (query.path.contains('/') || query.path.len() > 3 * NAME_BYTES_MAX) {
        return Err(Refused::new(400, "a file in a drop box has one name, of 255 bytes at most"));
    }
    let at = below(&row, &query.path)?;
    if at.ends_with('/') {
        return Err(Refused::new(400, "say which file: path"));
    }
    let left = Duration::from_millis((row.expires - time::now()).max(0) as u64);
    tracing::info!(target: "access", by = format!("link {} of {}", row.id, row.owner), ?activity, "a link was given");
    files::signed_link(hub, at, activity, LINK_LIFETIME.min(left)).await
}

/// The link with a token, if it has not ended.
async fn find(hub: &HubState, token: &str) -> Result<ShareLinkRow, Refused> {
    let row = hub.database.share_link_of_token(&digest(token)).await.map_err(refused)?;
    let ended = || Refused::new(404, "this link has expired or was ended: ask the person who shared it for a new one");
    row.filter(|row| time::now() < row.expires).ok_or_else(ended)
}

/// Checks the password, or a ticket that was given for it. Returns a ticket; `None` for a link without a password.
async fn check_password(hub: &HubState, row: &ShareLinkRow, query: &SharedQuery) -> Result<Option<String>, Refused> {
    let now = time::now();
    if row.password_hash.is_empty() {
        if query.path.is_empty() {
            hub.database.record_link_opened(row.id.clone()).await.map_err(refused)?;
        }
        return Ok(None);
    }
    if let Some(ticket) = &query.ticket {
        let until = ticket.split('.').next().and_then(|until| until.parse::<i64>().ok()).unwrap_or(0);
        let is_good: bool = ticket_of(row, until).as_bytes().ct_eq(ticket.as_bytes()).into();
        return if is_good && now < until { Ok(Some(ticket.clone())) } else { Err(wrong_password()) };
    }
    let password = query.password.clone().ok_or_else(wrong_password)?;
    if !PASSWORD_CHARS.contains(&password.chars().count()) {
        return Err(wrong_password());
    }
    let may_try = hub.database.take_password_try(row.id.clone(), now, TRIES_MAX, LOCKED_MS).await.map_err(refused)?;
    if !may_try {
        let reason = format!("{TRIES_MAX} wrong passwords: none is checked for a minute");
        return Err(Refused::new(429, reason).with("Retry-After", "60"));
    }
    let salt = model::hex::decode(&row.password_salt).unwrap_or_default();
    let hash = blocking(move || password_hash(&password, &salt)).await?;
    if !bool::from(hash.as_bytes().ct_eq(row.password_hash.as_bytes())) {
        return Err(wrong_password());
    }
    hub.database.record_link_opened(row.id.clone()).await.map_err(refused)?;
    Ok(Some(ticket_of(row, now + TICKET_LIFETIME_MS)))
}

/// A ticket: it stands for the password until a time, and cannot be made without the password's digest.
fn ticket_of(row: &ShareLinkRow, until: i64) -> String {
    let tag = hmac_sha256(row.password_hash.as_bytes(), format!("{} {until}", row.id).as_bytes());
    format!("{until}.{}", model::hex::encode(&tag))
}

fn wrong_password() -> Refused {
    Refused::new(403, "the password is wrong, or was entered more than an hour ago: ask the person who shared the link")
}

/// The URL of a path below the shared folder. A path cannot leave the folder.
fn below(row: &ShareLinkRow, path: &str) -> Result<String, Refused> {
    if !row.target.ends_with('/') {
        return Ok(row.target.clone());
    }
    let leads_out = |part: &str| {
        let name = web::target::decode(part);
        name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0)
    };
    let inner = path.strip_suffix('/').unwrap_or(path);
    if !inner.is_empty() && inner.split('/').any(leads_out) || path.contains(['?', '#']) {
        return Err(Refused::new(400, "a path below the folder: names with slashes between them"));
    }
    Ok(format!("{}{path}", row.target))
}

/// The entry of a shared file in its folder.
async fn file_entry(hub: &Arc<HubState>, row: &ShareLinkRow) -> Result<FolderEntry, Refused> {
    let (folder, name) = row.target.rsplit_once('/').unwrap_or_default();
    let listed = files::list(hub, &format!("{folder}/")).await?;
    let found = listed.entries.into_iter().find(|entry| entry.href == name && !entry.is_folder);
    found.ok_or_else(|| Refused::new(404, "the file does not exist any more: ask the person who shared it"))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Refused::new(500, format!("the request broke off: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str) -> ShareLinkRow {
        ShareLinkRow { id: "1".to_owned(), target: target.to_owned(), ..ShareLinkRow::default() }
    }

    #[test]
    fn a_path_cannot_leave_the_shared_folder() {
        let folder = row("lh://h/e/shared/");
        assert_eq!(below(&folder, "").unwrap(), "lh://h/e/shared/");
        assert_eq!(below(&folder, "a/b%20c").unwrap(), "lh://h/e/shared/a/b%20c");
        assert_eq!(below(&folder, "a/").unwrap(), "lh://h/e/shared/a/");
        for path in ["..", "a/../..", "%2e%2e/x", "a//b", "/a", "a%2Fb", "x?authz=1", "x#y", ".", "a/%00"] {
            assert!(below(&folder, path).is_err(), "{path}");
        }
        assert_eq!(below(&row("lh://h/e/f"), "../x").unwrap(), "lh://h/e/f", "a file is that file");
    }

    #[test]
    fn a_ticket_is_valid_for_one_link_one_password_and_one_time() {
        let link = |id: &str, hash: &str| ShareLinkRow {
            id: id.to_owned(),
            password_hash: hash.to_owned(),
            ..ShareLinkRow::default()
        };
        let one = ticket_of(&link("1", "a"), 5);
        for other in [ticket_of(&link("2", "a"), 5), ticket_of(&link("1", "b"), 5), ticket_of(&link("1", "a"), 6)] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_same_password_has_another_digest_with_another_salt() {
        assert_ne!(password_hash("correct horse", b"one"), password_hash("correct horse", b"two"));
        assert_eq!(password_hash("correct horse", b"one"), password_hash("correct horse", b"one"));
    }
}
