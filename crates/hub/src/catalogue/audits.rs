//! Audits: compare the files of an endpoint, listed over HTTP or by a dump, with its replicas in the catalogue. A missing replica is looked
//! up at the endpoint once more before it counts as bad. Files that the catalogue does not know are deleted only on an operator's order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use model::fault::with_causes;
use model::v1::hub::{Audit, AuditFinding, AuditOrder, AuditState};
use model::{Kind, RelPath};
use remote::Dav;
use replicas::{Difference, ListedFile};
use store::Store;
use tokio::sync::watch;
use web::Refused;

use super::{bad, refused};
use crate::database::catalogue::{AuditRow, Finding};
use crate::database::{DatabaseError, Result};
use crate::limits::LISTED_MAX;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;
use crate::topology::StoragePlace;

/// How often the hub looks for audits to make.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// How often progress is recorded. Each record renews the lease of the audit; another hub takes the audit when the lease has ended.
const RECORD_EVERY: Duration = Duration::from_secs(30);
/// The most findings that are read at once.
const PAGE: i64 = 1_000;

/// Runs until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
        match run_next(&hub, &mut stop).await {
            Ok(()) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "an audit cannot go on; it is tried again"),
        }
    }
}

/// Runs the next audit that waits, if there is one.
async fn run_next(hub: &Arc<HubState>, stop: &mut watch::Receiver<bool>) -> Result<()> {
    let Some(audit) = hub.database.take_audit(time::now()).await? else { return Ok(()) };
    let number = audit.number;
    let outcome = match audit.state {
        AuditState::Cleaning => clean(hub, &audit, stop).await?,
        _ => list_and_compare(hub, audit, stop).await?,
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(why) => {
            tracing::warn!(audit = number, why, "an audit failed");
            hub.database.set_audit(number, AuditState::Failed, Some(why), time::now()).await
        }
    }
}

/// The inner error fails the audit (its endpoint does not answer), the outer one is an error of the hub's database.
type Outcome = Result<std::result::Result<(), String>>;

/// The progress of a listing, and the flag that ends it; shared by the thread that lists and the task that waits for it.
#[derive(Default)]
struct ListingProgress {
    files: AtomicI64,
    is_stopped: AtomicBool,
}

async fn list_and_compare(hub: &Arc<HubState>, audit: AuditRow, stop: &mut watch::Receiver<bool>) -> Outcome {
    let place = match place(hub, &audit.endpoint) {
        Ok(place) => place,
        Err(why) => return Ok(Err(why)),
    };
    let progress = Arc::<ListingProgress>::default();
    let mut listing = {
        let hub = Arc::clone(hub);
        let place = place.clone();
        let below = audit.below.clone();
        let progress = Arc::clone(&progress);
        tokio::task::spawn_blocking(move || list(&hub, &place, &below, &progress))
    };
    let listed = loop {
        tokio::select! {
            ended = &mut listing => break ended.unwrap_or_else(|error| Err(error.to_string())),
            _ = stop.changed() => {
                progress.is_stopped.store(true, Ordering::Relaxed);
                return Err(DatabaseError::Stopping);
            }
            () = tokio::time::sleep(RECORD_EVERY) => {
                let files = progress.files.load(Ordering::Relaxed);
                if let Err(error) = hub.database.record_audit_progress(audit.number, files, 0, time::now()).await {
                    progress.is_stopped.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    match listed {
        Ok(listed) if listed.is_empty() && audit.below.is_empty() && expects_files(hub, &audit).await? => {
            Ok(Err(format!("{} is empty, but the catalogue has copies there: is its disk mounted?", place.url)))
        }
        Ok(listed) => compare(hub, audit, &place, listed).await.map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// Whether an audit should find any file: the endpoint had a replica when the audit began, and is not on tape.
async fn expects_files(hub: &HubState, audit: &AuditRow) -> Result<bool> {
    let is_on_tape = hub.topology.load().described_endpoint(&audit.endpoint).is_some_and(|it| it.tape);
    Ok(!is_on_tape && hub.database.had_copies(&audit.endpoint, audit.begun).await?)
}

async fn compare(
    hub: &HubState,
    audit: AuditRow,
    place: &StoragePlace,
    listed: HashMap<String, ListedFile>,
) -> Result<()> {
    let count = listed.len() as i64;
    let compared = replicas::Audit::new(listed, &audit.below, audit.begun);
    let (counts, findings) = hub.database.compare(&audit.endpoint, place.naming, compared).await?;
    hub.database.keep_audit(audit, count, counts, findings, time::now()).await
}

fn place(hub: &HubState, endpoint: &str) -> std::result::Result<StoragePlace, String> {
    hub.topology.load().storage.get(endpoint).cloned().ok_or_else(|| format!("{endpoint} has no storage"))
}

/// The server of an endpoint, and the path on this server of `path`, which is below the endpoint's directory.
fn server(hub: &HubState, place: &StoragePlace, path: &str) -> std::result::Result<(Dav, RelPath), String> {
    hub.servers.file(&hub.topology.load(), &place.endpoint, &place.url_of_path(path))
}

/// Lists all files below a directory of an endpoint.
fn list(
    hub: &HubState,
    place: &StoragePlace,
    below: &str,
    progress: &ListingProgress,
) -> std::result::Result<HashMap<String, ListedFile>, String> {
    let (server, root) = server(hub, place, below)?;
    let failed = |error: &store::Error| format!("{} cannot be listed: {}", place.endpoint, with_causes(error));
    let mut listed = HashMap::new();
    let mut dirs = vec![(root, below.trim_matches('/').to_owned())];
    while let Some((dir, name)) = dirs.pop() {
        if progress.is_stopped.load(Ordering::Relaxed) {
            return Err("the hub stops".to_owned());
        }
        let entries = match server.list(&dir) {
            Ok(entries) => entries,
            // The directory was removed during the listing, or has never been made.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(failed(&error)),
        };
        for entry in entries.finished() {
            let (entry, stat) = entry.map_err(|error| failed(&error))?;
            let stat = stat.map_err(|error| failed(&error))?;
            let path = format!(
                "{name}{}{}",
                if name.is_empty() { "" } else { "/" },
                String::from_utf8_lossy(entry.as_bytes())
            );
            match stat.meta.kind {
                Kind::Dir => dirs.push((dir.join(&entry), path)),
                _ => {
                    let changed = Some(stat.meta.mtime.seconds.saturating_mul(1000));
                    listed.insert(path, ListedFile { bytes: Some(stat.meta.size), changed });
                }
            }
            if listed.len() > LISTED_MAX {
                return Err(format!(
                    "it has more than {LISTED_MAX} files: audit its directories one by one, with `below`"
                ));
            }
        }
        progress.files.store(listed.len() as i64, Ordering::Relaxed);
    }
    Ok(listed)
}

/// Deletes the files of an audit that the catalogue does not know, unless they have been entered since.
async fn clean(hub: &Arc<HubState>, audit: &AuditRow, stop: &watch::Receiver<bool>) -> Outcome {
    let place = match place(hub, &audit.endpoint) {
        Ok(place) => place,
        Err(why) => return Ok(Err(why)),
    };
    let mut after = 0;
    let mut deleted = audit.deleted;
    let mut recorded_at = Instant::now();
    loop {
        let findings = hub.database.findings(audit.number, after, PAGE).await?;
        let Some((last, _)) = findings.last() else { break };
        after = *last;
        for (_, finding) in findings.into_iter().filter(|(_, finding)| finding.kind == Difference::Dark) {
            if *stop.borrow() {
                hub.database.record_audit_progress(audit.number, audit.listed, deleted, time::now()).await?;
                return Err(DatabaseError::Stopping);
            }
            if hub.database.is_known(&audit.endpoint, &finding.path, &place.naming.names(&finding.path)).await? {
                continue;
            }
            let path = finding.path.clone();
            let deletion = {
                let hub = Arc::clone(hub);
                let place = place.clone();
                let begun = audit.begun;
                tokio::task::spawn_blocking(move || delete_unchanged(&hub, &place, &finding, begun))
            };
            match deletion.await.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(is_deleted) => deleted += i64::from(is_deleted),
                Err(why) => return Ok(Err(format!("{path} cannot be deleted: {why}"))),
            }
            if recorded_at.elapsed() >= RECORD_EVERY {
                hub.database.record_audit_progress(audit.number, audit.listed, deleted, time::now()).await?;
                recorded_at = Instant::now();
            }
        }
    }
    hub.database.record_audit_progress(audit.number, audit.listed, deleted, time::now()).await?;
    hub.database.set_audit(audit.number, AuditState::Cleaned, None, time::now()).await.map(Ok)
}

/// Deletes a file, unless it has changed since the listing: a client may have written it again and not entered it yet. Returns whether it
/// was deleted.
fn delete_unchanged(
    hub: &HubState,
    place: &StoragePlace,
    finding: &Finding,
    begun: i64,
) -> std::result::Result<bool, String> {
    let (server, path) = server(hub, place, &finding.path)?;
    let meta = match server.stat(&path) {
        Ok(stat) => stat.meta,
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(with_causes(&error)),
    };
    let changed = meta.mtime.seconds.saturating_mul(1000);
    let is_as_listed = finding.bytes.is_none_or(|bytes| u64::try_from(bytes) == Ok(meta.size));
    // A server without times of modification reports 1970.
    if !is_as_listed || changed <= 0 || changed >= begun - replicas::YOUNG_MS {
        return Ok(false);
    }
    match server.remove(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(with_causes(&error)),
    }
}

/// Orders an audit; one with a listing is made at once.
///
/// # Errors
/// The order is invalid: nothing has changed.
pub async fn order(
    hub: &HubState,
    member: &Member,
    endpoint: &str,
    order: &AuditOrder,
) -> std::result::Result<AuditRow, Refused> {
    let place = place(hub, endpoint).map_err(|why| Refused::new(404, why))?;
    let is_path = |path: &str| !path.split('/').any(|part| part == ".." || part == ".");
    if order.below.len() > 4096 || !is_path(&order.below) {
        return Err(bad("below: a directory below that of the endpoint"));
    }
    let now = time::now();
    let begun = match (&order.listing, &order.taken) {
        (None, None) => now,
        (None, Some(_)) => return Err(bad("taken is the time of a listing: send a listing with it")),
        (Some(_), None) => return Err(bad("a listing needs the time when it was begun: taken")),
        (Some(_), Some(text)) => time::parse(text)
            .filter(|at| *at <= now)
            .ok_or_else(|| bad(format!("taken {text:?} is not a time that has passed: write 2026-12-24T18:00:00Z")))?,
    };
    let row = AuditRow {
        endpoint: endpoint.to_owned(),
        below: order.below.trim_matches('/').to_owned(),
        account: member.owner.clone(),
        // An audit with a listing is done within this request. Until then it counts as failed, so that no worker takes it.
        state: if order.listing.is_some() { AuditState::Failed } else { AuditState::Listing },
        begun,
        ..AuditRow::default()
    };
    if order.listing.as_ref().is_some_and(|listing| listing.len() > LISTED_MAX) {
        return Err(bad(format!(
            "a listing has {LISTED_MAX} files at most: audit the directories one by one, with `below`"
        )));
    }
    let bad_path = |path: &str| path.len() > 4096 || path.contains('\0') || path.contains("//") || !is_path(path);
    if let Some(file) = order.listing.iter().flatten().find(|file| bad_path(file.path.trim_matches('/'))) {
        return Err(bad(format!("listing: {:?} is no path of a file below the endpoint's directory", file.path)));
    }
    let number = hub.database.order_audit(row.clone()).await.map_err(refused)?;
    if let Some(listing) = &order.listing {
        let listed = listing.iter().map(|file| {
            let changed = file.changed_s.map(|at| at.saturating_mul(1000));
            (file.path.trim_matches('/').to_owned(), ListedFile { bytes: file.bytes, changed })
        });
        compare(hub, AuditRow { number, ..row }, &place, listed.collect()).await.map_err(refused)?;
    }
    of_number(hub, number).await
}

/// An audit by its number.
///
/// # Errors
/// There is no audit with this number.
pub async fn of_number(hub: &HubState, number: i64) -> std::result::Result<AuditRow, Refused> {
    let row = hub.database.audit_of(number).await.map_err(refused)?;
    row.ok_or_else(|| Refused::new(404, format!("there is no audit {number} here")))
}

/// Orders the deletion of the files that an audit found and the catalogue does not know.
///
/// # Errors
/// There is no such audit, or it has not ended: nothing has changed.
pub async fn order_clean(hub: &HubState, number: i64) -> std::result::Result<AuditRow, Refused> {
    let row = of_number(hub, number).await?;
    if row.state != AuditState::Done {
        return Err(Refused::new(409, format!("the audit {number} is not done, or its files were deleted before")));
    }
    if row.counts.dark > 0 && hub.database.findings(number, 0, 1).await.map_err(refused)?.is_empty() {
        return Err(Refused::new(
            409,
            format!("the findings of the audit {number} have been removed: run another audit"),
        ));
    }
    hub.database.set_audit(number, AuditState::Cleaning, None, time::now()).await.map_err(refused)?;
    of_number(hub, number).await
}

/// An audit as the type of the API.
pub fn to_api(row: &AuditRow) -> Audit {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Audit {
        number: row.number,
        endpoint: row.endpoint.clone(),
        below: row.below.clone(),
        account: row.account.clone(),
        state: row.state,
        begun: time::show(row.begun),
        ended: row.ended.map(time::show),
        listed: count(row.listed),
        missing: count(row.counts.missing),
        wrong_size: count(row.counts.wrong_size),
        dark: count(row.counts.dark),
        dark_bytes: count(row.counts.dark_bytes),
        deleted: count(row.deleted),
        error: row.error.clone(),
    }
}

/// A finding as the type of the API.
pub fn finding_to_api(finding: &Finding) -> AuditFinding {
    AuditFinding {
        kind: finding.kind.word().to_owned(),
        path: finding.path.clone(),
        bytes: finding.bytes.and_then(|bytes| u64::try_from(bytes).ok()),
    }
}
