//! Names: enters, changes and removes them, and attaches them to datasets and containers.

use std::collections::{BTreeMap, BTreeSet};

use model::v1::hub::{
    BadReplica, DataChange, DataConflict, DataKind, DataMerged, DataNames, Metadata, NewData, NewDataList, NewReplica,
};
use replicas::DataName;
use web::Refused;

use super::{NAMES_MAX, bad, bad_name, find, name_of, refused, require_scope, time_or_never};
use crate::database::catalogue::{DataRow, EnteredNames, ExistingReplica, MergeResult, MetadataChange, NewName};
use crate::limits;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;
use model::v1::hub::Role;

/// Adds names to the catalogue.
///
/// # Errors
/// One of them is not a name, contradicts what is stored, or is in another account's scope: nothing has changed.
pub async fn enter(hub: &HubState, member: &Member, list: &NewDataList) -> Result<EnteredNames, Refused> {
    let (names, into) = check_list(hub, member, list).await?;
    let entered = hub.database.enter(member.owner.clone(), names, into, time::now()).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    Ok(entered)
}

/// Adds names from another catalogue, except those that contradict what is stored.
///
/// # Errors
/// One of them is not a name, or is in another account's scope: nothing has changed.
pub async fn merge(hub: &HubState, member: &Member, list: &NewDataList) -> Result<DataMerged, Refused> {
    let mut list = list.clone();
    let mut skipped_replicas = 0;
    let mut unknown = BTreeSet::new();
    let topology = hub.topology.load_full();
    for new in &mut list.data {
        new.replicas.retain(|copy| {
            let is_known = topology.storage.contains_key(&copy.endpoint);
            if !is_known {
                skipped_replicas += 1;
                unknown.insert(copy.endpoint.clone());
            }
            is_known
        });
    }
    let mut conflicts = take_expired(&mut list.data);
    let merged = if list.data.is_empty() && !conflicts.is_empty() {
        MergeResult::default()
    } else {
        let (names, into) = check_list(hub, member, &list).await?;
        hub.database.merge(member.owner.clone(), names, into, time::now()).await.map_err(refused)?
    };
    hub.catalogue_wake.notify_one();
    conflicts.extend(merged.conflicts.into_iter().map(|(name, why)| DataConflict { name, why }));
    Ok(DataMerged {
        new: merged.new as u64,
        known: merged.known as u64,
        conflicts,
        skipped_replicas: skipped_replicas + merged.skipped_copies as u64,
        unknown_endpoints: unknown.into_iter().collect(),
    })
}

/// Removes the names from the list that have expired since the other catalogue listed them.
fn take_expired(data: &mut Vec<NewData>) -> Vec<DataConflict> {
    let now = time::now();
    let has_expired = |new: &NewData| new.expires.as_deref().and_then(time::parse).is_some_and(|at| at <= now);
    let expired = data.extract_if(.., |new| has_expired(new));
    expired.map(|new| DataConflict { name: new.name, why: "it has expired".to_owned() }).collect()
}

/// Checks names and the member's right to enter them; returns them, and the dataset or container that they are attached to.
async fn check_list(
    hub: &HubState,
    member: &Member,
    list: &NewDataList,
) -> Result<(Vec<NewName>, Option<DataName>), Refused> {
    let into = list.into.as_deref().map(name_of).transpose()?;
    check_count(list.data.len())?;
    let names = list.data.iter().map(|new| new_name(hub, new)).collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = names.iter().find(|new| !seen.insert(&new.name)) {
        return Err(bad(format!("{} is named twice", twice.name)));
    }
    let scopes: BTreeSet<&str> =
        names.iter().map(|new| new.name.scope()).chain(into.iter().map(DataName::scope)).collect();
    for scope in scopes {
        require_scope(hub, member, scope).await?;
    }
    Ok((names, into))
}

fn check_count(count: usize) -> Result<(), Refused> {
    match count {
        0 => Err(bad("the list is empty")),
        1..=NAMES_MAX => Ok(()),
        more => {
            Err(bad(format!("a request may have {NAMES_MAX} names, and this one has {more}: send several requests")))
        }
    }
}

/// Checks a name that is entered; returns it in the form of the database.
fn new_name(hub: &HubState, new: &NewData) -> Result<NewName, Refused> {
    let name = name_of(&new.name)?;
    let wrong = |why: &str| bad(format!("{name}: {why}"));
    let is_file = new.kind == DataKind::File;
    let bytes = match (is_file, new.bytes) {
        (true, None) => return Err(wrong("say how many bytes a file has")),
        (true, Some(bytes)) => i64::try_from(bytes).map_err(|_| wrong("its number of bytes is too large"))?,
        (false, Some(_)) => return Err(wrong("only files have bytes of their own")),
        (false, None) => 0,
    };
    if !is_file && (new.adler32.is_some() || new.md5.is_some() || !new.replicas.is_empty()) {
        return Err(wrong("only files have checksums and replicas"));
    }
    let now = time::now();
    let expires = new.expires.as_deref().map(|text| time_or_never("expires", text)).transpose()?.flatten();
    if expires.is_some_and(|at| at <= now) {
        return Err(wrong("expires has passed"));
    }
    Ok(NewName {
        kind: new.kind,
        bytes,
        adler32: hexadecimal(&name, "Adler-32", new.adler32.as_deref(), 8)?,
        md5: hexadecimal(&name, "MD5", new.md5.as_deref(), 32)?,
        monotonic: new.monotonic,
        expires,
        metadata: metadata_json(&name, &new.metadata)?,
        copies: new.replicas.iter().map(|copy| new_copy(hub, &name, copy)).collect::<Result<_, _>>()?,
        name,
    })
}

fn hexadecimal(name: &DataName, what: &str, text: Option<&str>, digits: usize) -> Result<Option<String>, Refused> {
    let Some(text) = text else { return Ok(None) };
    if text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Some(text.to_ascii_lowercase()));
    }
    let text: String = text.chars().take(80).collect();
    Err(bad(format!("{name}: {text:?} is no {what}: it has {digits} hexadecimal digits")))
}

/// The keys of metadata, each with its value as JSON.
fn metadata_json(name: &DataName, metadata: &Metadata) -> Result<BTreeMap<String, String>, Refused> {
    let pairs: BTreeMap<String, String> =
        metadata.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
    let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > limits::METADATA_BYTES_MAX {
        let most = limits::METADATA_BYTES_MAX;
        return Err(bad(format!("the metadata of {name} has {bytes} bytes, and may have {most} at most")));
    }
    Ok(pairs)
}

fn new_copy(hub: &HubState, name: &DataName, copy: &NewReplica) -> Result<ExistingReplica, Refused> {
    let topology = hub.topology.load();
    if !topology.storage.contains_key(&copy.endpoint) {
        let known: Vec<&str> = topology.storage.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(bad(format!(
            "{name}: there is no endpoint {} with storage; those that have it: {known}",
            copy.endpoint
        )));
    }
    if let Some(path) = &copy.path {
        // A path obeys the rules of a name: it stays within its directory.
        DataName::new("path", path).map_err(|error| bad_name(&error))?;
    }
    Ok(ExistingReplica { endpoint: copy.endpoint.clone(), path: copy.path.clone() })
}

/// Attaches names to a dataset or container.
///
/// # Errors
/// The parent cannot contain them, or belongs to another account: nothing has changed.
pub async fn attach(hub: &HubState, member: &Member, parent: &str, children: &DataNames) -> Result<(), Refused> {
    let (parent, children) = parent_and_children(hub, member, parent, children).await?;
    hub.database.attach(parent, children, member.owner.clone(), time::now()).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    Ok(())
}

/// Detaches names from a dataset or container.
///
/// # Errors
/// The parent is monotonic, or belongs to another account: nothing has changed.
pub async fn detach(hub: &HubState, member: &Member, parent: &str, children: &DataNames) -> Result<(), Refused> {
    let (parent, children) = parent_and_children(hub, member, parent, children).await?;
    hub.database.detach(parent, children, member.owner.clone(), time::now()).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    Ok(())
}

async fn parent_and_children(
    hub: &HubState,
    member: &Member,
    parent: &str,
    children: &DataNames,
) -> Result<(DataName, Vec<DataName>), Refused> {
    let parent = name_of(parent)?;
    check_count(children.names.len())?;
    let children = children.names.iter().map(|name| name_of(name)).collect::<Result<Vec<_>, _>>()?;
    require_scope(hub, member, parent.scope()).await?;
    Ok((parent, children))
}

/// Records existing copies of a file.
///
/// # Errors
/// The name is not a file, or belongs to another account: nothing has changed.
pub async fn add_copies(hub: &HubState, member: &Member, name: &str, copies: &[NewReplica]) -> Result<(), Refused> {
    let name = name_of(name)?;
    check_count(copies.len())?;
    require_scope(hub, member, name.scope()).await?;
    let copies = copies.iter().map(|copy| new_copy(hub, &name, copy)).collect::<Result<Vec<_>, _>>()?;
    hub.database.add_copies(name, copies, time::now()).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    Ok(())
}

/// Changes a name, and returns it.
///
/// # Errors
/// There is no such name, or it belongs to another account: nothing has changed.
pub async fn change(hub: &HubState, member: &Member, name: &str, change: &DataChange) -> Result<DataRow, Refused> {
    let row = find(hub, name).await?;
    require_scope(hub, member, row.name.scope()).await?;
    let wrong = |why: &str| bad(format!("{}: {why}", row.name));
    if change.open.is_some() && row.kind == DataKind::File {
        return Err(wrong("a file is neither open nor closed"));
    }
    if change.open == Some(true) && !row.open && member.role < Role::Operator {
        return Err(Refused::new(403, format!("{} is closed, and only an operator opens it again", row.name)));
    }
    let expires = change.expires.as_deref().map(|text| time_or_never("expires", text)).transpose()?;
    let now = time::now();
    if !change.metadata.is_empty() {
        let set: Metadata = change.metadata.iter().filter(|(_, value)| !value.is_null()).map(owned).collect();
        let mut all: MetadataChange =
            metadata_json(&row.name, &set)?.into_iter().map(|(key, value)| (key, Some(value))).collect();
        all.extend(change.metadata.iter().filter(|(_, value)| value.is_null()).map(|(key, _)| (key.clone(), None)));
        hub.database.change_metadata(row.id, member.owner.clone(), all, now).await.map_err(refused)?;
    }
    if let Some(expires) = expires {
        if expires.is_some() {
            require_no_rules_of_others(hub, member, &row).await?;
        }
        let (name, by) = (row.name.clone(), member.owner.clone());
        hub.database.end_name(name, by, expires, now).await.map_err(refused)?;
    }
    hub.database.change_data(row.id, member.owner.clone(), change.open, now).await.map_err(refused)?;
    find(hub, name).await
}

/// Ends a name a day from now, or at once, and returns it. Until it ends, a change of `expires` keeps it.
///
/// # Errors
/// There is no such name, it belongs to another account, or other accounts have rules for it: nothing has changed.
pub async fn remove(hub: &HubState, member: &Member, name: &str, at_once: bool) -> Result<DataRow, Refused> {
    let row = find(hub, name).await?;
    require_scope(hub, member, row.name.scope()).await?;
    require_no_rules_of_others(hub, member, &row).await?;
    let now = time::now();
    let at = if at_once { now } else { now + crate::database::catalogue::UNDO_MS };
    hub.database.end_name(row.name.clone(), member.owner.clone(), Some(at), now).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    find(hub, name).await
}

/// Refuses to end a name that other accounts have rules for, unless the member is an operator.
async fn require_no_rules_of_others(hub: &HubState, member: &Member, row: &DataRow) -> Result<(), Refused> {
    let preview = hub.database.removal_preview(row).await.map_err(refused)?;
    let is_others = |(account, community): &&(String, String)| !member.may_change(account, community);
    let mut others: Vec<&str> = preview.holders.iter().filter(is_others).map(|(account, _)| account.as_str()).collect();
    others.dedup();
    if !others.is_empty() {
        let text = format!(
            "{} is held by rules of {}: these accounts end their rules, or an operator removes it",
            row.name,
            others.join(", ")
        );
        return Err(Refused::new(409, text));
    }
    Ok(())
}

/// Declares a copy bad: it is damaged or lost.
///
/// # Errors
/// There is no such copy, or the name belongs to another account: nothing has changed.
pub async fn declare_bad(hub: &HubState, member: &Member, name: &str, bad_copy: &BadReplica) -> Result<(), Refused> {
    let row = find(hub, name).await?;
    require_scope(hub, member, row.name.scope()).await?;
    let (endpoint, why) = (bad_copy.endpoint.clone(), bad_copy.why.clone());
    if why.len() > limits::METADATA_BYTES_MAX {
        return Err(bad(format!("why: {} bytes at most", limits::METADATA_BYTES_MAX)));
    }
    hub.database.declare_bad(row.name, endpoint, member.owner.clone(), why, time::now()).await.map_err(refused)?;
    hub.catalogue_wake.notify_one();
    Ok(())
}

fn owned((key, value): (&String, &serde_json::Value)) -> (String, serde_json::Value) {
    (key.clone(), value.clone())
}
