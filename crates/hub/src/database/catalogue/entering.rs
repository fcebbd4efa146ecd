//! Adds names to the catalogue, with their existing copies, and attaches them to a dataset or container.

use std::collections::{BTreeMap, HashMap};

use model::v1::hub::DataKind;
use replicas::DataName;
use serde_json::json;
use sqlx::AnyConnection;

use super::contents::{self, Child};
use super::counts::Counts;
use super::names::{DataRow, find, find_all};
use super::replicas::{self as copies, ExistingReplica};
use super::states::{ReplicaState, kind_code};
use super::{history, metadata, stores, uncompared};
use crate::database::numbers::take_numbers;
use crate::database::{Database, DatabaseError, Result};
use database::rows::insert;

/// A name to be entered; its fields have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewName {
    /// `scope:name`.
    pub name: DataName,
    /// File, dataset or container.
    pub kind: DataKind,
    /// The size of a file.
    pub bytes: i64,
    /// 8 hexadecimal digits.
    pub adler32: Option<String>,
    /// 32 hexadecimal digits.
    pub md5: Option<String>,
    /// Whether it is monotonic: names are attached to it, and never detached.
    pub monotonic: bool,
    /// When it is removed, milliseconds since 1970.
    pub expires: Option<i64>,
    /// The keys of its metadata, with their values in JSON.
    pub metadata: BTreeMap<String, String>,
    /// The existing copies of a file.
    pub copies: Vec<ExistingReplica>,
}

/// The result of entering names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnteredNames {
    /// Their ids, in the order of the request.
    pub ids: Vec<i64>,
    /// How many were new.
    pub new: usize,
}

/// The result of merging names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeResult {
    /// How many were new.
    pub new: usize,
    /// How many existed already, with the same attributes.
    pub known: usize,
    /// How many copies were skipped because they are being deleted.
    pub skipped_copies: usize,
    /// Names that contradict the stored ones, each with the reason; the stored names are unchanged.
    pub conflicts: Vec<(String, String)>,
}

impl Database {
    /// Adds names to the catalogue, and attaches them to a dataset or container.
    ///
    /// # Errors
    /// They contradict stored names, or the database cannot be written: nothing has changed.
    pub async fn enter(
        &self,
        account: String,
        names: Vec<NewName>,
        into: Option<DataName>,
        now: i64,
    ) -> Result<EnteredNames> {
        self.writer.change(move |connection| Box::pin(enter(connection, account, names, into, now))).await
    }

    /// Adds the names that do not contradict stored ones, adds metadata that is missing, and attaches the names to a dataset or
    /// container. Existing values of metadata are kept.
    ///
    /// # Errors
    /// There is no such dataset or container, or the database cannot be written: nothing has changed.
    pub async fn merge(
        &self,
        account: String,
        names: Vec<NewName>,
        into: Option<DataName>,
        now: i64,
    ) -> Result<MergeResult> {
        self.writer.change(move |connection| Box::pin(merge(connection, account, names, into, now))).await
    }
}

async fn enter(
    connection: &mut AnyConnection,
    account: String,
    names: Vec<NewName>,
    into: Option<DataName>,
    now: i64,
) -> Result<EnteredNames> {
    let known = find_known(connection, &names).await?;
    for new in &names {
        let Some(old) = known.get(&new.name) else { continue };
        if old.has_ended(now) {
            return Err(DatabaseError::Refused(format!(
                "{} has been removed, and its files are still being deleted",
                new.name
            )));
        }
        // Files may be entered again, with further copies; datasets and containers may not.
        let not_a_file =
            (new.kind != DataKind::File).then(|| "and can be added only once: attach names to it".to_owned());
        if let Some(why) = contradiction(old, new).or(not_a_file) {
            return Err(DatabaseError::Refused(format!("{} exists already, {why}", new.name)));
        }
    }
    let entered = write(connection, &account, &names, known, now).await?;
    if let Some(into) = into {
        let parent = find(connection, &into).await?;
        contents::attach(connection, &parent, &children(&names, &entered), &account, now).await?;
    }
    Ok(entered)
}

/// The rows of those names in a list that exist already.
async fn find_known(connection: &mut AnyConnection, names: &[NewName]) -> Result<HashMap<DataName, DataRow>> {
    let wanted: Vec<DataName> = names.iter().map(|new| new.name.clone()).collect();
    find_all(connection, &wanted).await
}

/// Stores the names that are new, and the copies of all names. The caller has checked that none contradicts a stored name.
async fn write(
    connection: &mut AnyConnection,
    account: &str,
    names: &[NewName],
    known: HashMap<DataName, DataRow>,
    now: i64,
) -> Result<EnteredNames> {
    let new_names: Vec<&NewName> = names.iter().filter(|new| !known.contains_key(&new.name)).collect();
    let first = insert_names(connection, account, &new_names, now).await?;
    let mut ids: HashMap<DataName, i64> = known.into_iter().map(|(name, row)| (name, row.id)).collect();
    ids.extend((first..).zip(&new_names).map(|(id, new)| (new.name.clone(), id)));
    let id_of = |name: &DataName| ids.get(name).copied().unwrap_or_default();
    for new in &new_names {
        metadata::insert_all(connection, id_of(&new.name), &new.metadata).await?;
        if new.kind != DataKind::File {
            history::append(connection, id_of(&new.name), account, "created", &json!({}), now).await?;
            uncompared::queue(connection, id_of(&new.name)).await?;
        }
    }
    enter_copies(connection, names, &ids, first, now).await?;
    Ok(EnteredNames { ids: names.iter().map(|new| id_of(&new.name)).collect(), new: new_names.len() })
}

fn children(names: &[NewName], entered: &EnteredNames) -> Vec<Child> {
    let child = |(new, id): (&NewName, &i64)| Child { id: *id, kind: new.kind, bytes: new.bytes };
    names.iter().zip(&entered.ids).map(child).collect()
}

async fn merge(
    connection: &mut AnyConnection,
    account: String,
    names: Vec<NewName>,
    into: Option<DataName>,
    now: i64,
) -> Result<MergeResult> {
    let known = find_known(connection, &names).await?;
    let deleting = copies::being_deleted(connection, known.values().map(|row| row.id)).await?;
    let mut merged = MergeResult::default();
    let mut accepted = Vec::new();
    for mut new in names {
        let old = known.get(&new.name);
        let conflict = match old {
            Some(old) if old.has_ended(now) => Some("it has been removed here".to_owned()),
            Some(old) => contradiction(old, &new).map(|why| format!("it exists already, {why}")),
            None => None,
        };
        if let Some(why) = conflict {
            merged.conflicts.push((new.name.to_string(), why));
            continue;
        }
        new.copies.retain(|copy| {
            let is_kept = !old.is_some_and(|old| deleting.contains(&(old.id, copy.endpoint.clone())));
            merged.skipped_copies += usize::from(!is_kept);
            is_kept
        });
        accepted.push(new);
    }
    for new in &accepted {
        if let Some(old) = known.get(&new.name) {
            metadata::add_missing(connection, old.id, &new.metadata).await?;
        }
    }
    let entered = write(connection, &account, &accepted, known, now).await?;
    merged.new = entered.new;
    merged.known = accepted.len() - entered.new;
    if let Some(into) = into {
        let parent = find(connection, &into).await?;
        match contents::attach(connection, &parent, &children(&accepted, &entered), &account, now).await {
            // A refusal (a closed parent, a circle) comes before anything is written.
            Err(DatabaseError::Refused(why)) => merged.conflicts.push((into.to_string(), why)),
            attached => attached?,
        }
    }
    Ok(merged)
}

/// The difference between a stored name and one that is entered under the same name, if there is one.
fn contradiction(old: &DataRow, new: &NewName) -> Option<String> {
    if old.kind != new.kind {
        return Some("and is of another kind".to_owned());
    }
    if new.kind == DataKind::File && old.bytes != new.bytes {
        return Some(format!("with {} bytes and not {}", old.bytes, new.bytes));
    }
    let sums = [("Adler-32", &old.adler32, &new.adler32), ("MD5", &old.md5, &new.md5)];
    sums.into_iter().find_map(|(what, old, new)| {
        let (old, new) = (old.as_ref()?, new.as_ref()?);
        (old != new).then(|| format!("with the {what} {old} and not {new}"))
    })
}

/// Inserts names; returns the id of the first.
async fn insert_names(connection: &mut AnyConnection, account: &str, new_names: &[&NewName], now: i64) -> Result<i64> {
    if new_names.is_empty() {
        return Ok(0);
    }
    let first = take_numbers(connection, "names", new_names.len()).await?;
    let rows: Vec<(i64, &NewName)> = (first..).zip(new_names.iter().copied()).collect();
    let into = "names (id, scope, name, kind, account, created, changed, bytes, adler32, md5, monotonic, expires)";
    insert(connection, into, 12, &rows, |query, (id, new)| {
        let query = query.bind(*id).bind(new.name.scope()).bind(new.name.name()).bind(kind_code(new.kind));
        let query = query.bind(account.to_owned()).bind(now).bind(now).bind(new.bytes);
        let query = query.bind(new.adler32.as_deref()).bind(new.md5.as_deref());
        query.bind(i64::from(new.monotonic)).bind(new.expires)
    })
    .await?;
    Ok(first)
}

/// Stores the copies of names; files with ids from `first_new` on have no copies yet.
async fn enter_copies(
    connection: &mut AnyConnection,
    names: &[NewName],
    ids: &HashMap<DataName, i64>,
    first_new: i64,
    now: i64,
) -> Result<()> {
    let mut store_ids: HashMap<&str, i64> = HashMap::new();
    let mut counts = Counts::default();
    let mut new_replicas = Vec::new();
    for new in names {
        let file = ids.get(&new.name).copied().unwrap_or_default();
        let mut path_by_store = BTreeMap::new();
        for copy in &new.copies {
            let store = match store_ids.get(copy.endpoint.as_str()) {
                Some(store) => *store,
                None => stores::id_or_new(connection, &copy.endpoint).await?,
            };
            store_ids.insert(&copy.endpoint, store);
            path_by_store.insert(store, copy.path.as_deref());
        }
        for (store, path) in path_by_store {
            if first_new > 0 && file >= first_new {
                new_replicas.push(NewReplica { file, store, bytes: new.bytes, path })
            } else {
                copies::record_existing(connection, file, new.bytes, store, path, &mut counts, now).await?
            }
        }
    }
    insert_replicas(connection, &new_replicas, &mut counts, now).await?;
    counts.apply(connection, now).await
}

/// A copy of a file that has none yet.
struct NewReplica<'a> {
    file: i64,
    store: i64,
    bytes: i64,
    path: Option<&'a str>,
}

/// Stores copies of files that have none, many in one statement. No rule waits for these files yet, so their locks need no update.
async fn insert_replicas(
    connection: &mut AnyConnection,
    new: &[NewReplica<'_>],
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    let into = "replicas (file, store, state, bytes, path, created, accessed, unlocked)";
    insert(connection, into, 8, new, |query, one| {
        let query = query.bind(one.file).bind(one.store).bind(ReplicaState::Available.code()).bind(one.bytes);
        query.bind(one.path).bind(now).bind(now).bind(now + super::UNDO_MS)
    })
    .await?;
    for one in new {
        counts.store(one.store, 1, one.bytes);
        counts.spare(one.store, one.bytes);
    }
    Ok(())
}
