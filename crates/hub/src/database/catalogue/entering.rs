//! Enters names, with their existing copies, and puts them into a dataset or container.

use std::collections::{BTreeMap, HashMap};

use model::v1::hub::DataKind;
use replicas::DataName;
use serde_json::json;
use sqlx::AnyConnection;

use super::contents::{self, Child};
use super::counts::Counts;
use super::names::{DataRow, find, find_all};
use super::replicas::{self as copies, NewCopy};
use super::states::{ReplicaState, kind_code};
use super::{history, metadata, news, stores};
use crate::database::numbers::take_numbers;
use crate::database::{Database, DatabaseError, Result};
use database::rows::insert;

/// A name to be entered, checked.
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
    /// It is monotonic: nothing is taken out of it.
    pub monotonic: bool,
    /// When it is removed, milliseconds since 1970.
    pub expires: Option<i64>,
    /// Metadata: words, and their values in JSON.
    pub metadata: BTreeMap<String, String>,
    /// The existing copies of a file.
    pub copies: Vec<NewCopy>,
}

/// The result of entering names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// Their numbers, in order.
    pub ids: Vec<i64>,
    /// How many were new.
    pub new: usize,
}

/// The result of merging names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many were new.
    pub new: usize,
    /// How many existed already, and are the same.
    pub known: usize,
    /// Copies that were skipped, because they are being deleted.
    pub skipped_copies: usize,
    /// Names that contradict what is stored, each with the reason; they are unchanged.
    pub conflicts: Vec<(String, String)>,
}

impl Database {
    /// Enters names, and puts them into a dataset or container.
    ///
    /// # Errors
    /// They contradict what is stored, or the database cannot be written: nothing has changed.
    pub async fn enter(
        &self,
        account: String,
        names: Vec<NewName>,
        into: Option<DataName>,
        now: i64,
    ) -> Result<Entered> {
        self.writer.change(move |connection| Box::pin(enter(connection, account, names, into, now))).await
    }

    /// Enters the names that do not contradict what is stored, adds metadata that is missing, and puts them into a dataset or container;
    /// existing values stay as they are.
    ///
    /// # Errors
    /// There is no such dataset or container, or the database cannot be written: nothing has changed.
    pub async fn merge(
        &self,
        account: String,
        names: Vec<NewName>,
        into: Option<DataName>,
        now: i64,
    ) -> Result<Merged> {
        self.writer.change(move |connection| Box::pin(merge(connection, account, names, into, now))).await
    }
}

async fn enter(
    connection: &mut AnyConnection,
    account: String,
    names: Vec<NewName>,
    into: Option<DataName>,
    now: i64,
) -> Result<Entered> {
    let known = known(connection, &names).await?;
    for new in &names {
        let Some(old) = known.get(&new.name) else { continue };
        if old.has_ended(now) {
            return Err(DatabaseError::Refused(format!("{} has been removed, and is not all gone yet", new.name)));
        }
        let is_whole = (new.kind != DataKind::File).then(|| "as a whole: add to what it contains".to_owned());
        if let Some(why) = contradiction(old, new).or(is_whole) {
            return Err(DatabaseError::Refused(format!("{} is there already, {why}", new.name)));
        }
    }
    let entered = write(connection, &account, &names, known, now).await?;
    if let Some(into) = into {
        let parent = find(connection, &into).await?;
        contents::attach(connection, &parent, &children(&names, &entered), &account, now).await?;
    }
    Ok(entered)
}

/// Those of several names that exist already.
async fn known(connection: &mut AnyConnection, names: &[NewName]) -> Result<HashMap<DataName, DataRow>> {
    let wanted: Vec<DataName> = names.iter().map(|new| new.name.clone()).collect();
    find_all(connection, &wanted).await
}

/// Enters the names that are new, and the copies of all; the caller has checked that none contradicts what is stored.
async fn write(
    connection: &mut AnyConnection,
    account: &str,
    names: &[NewName],
    known: HashMap<DataName, DataRow>,
    now: i64,
) -> Result<Entered> {
    let fresh: Vec<&NewName> = names.iter().filter(|new| !known.contains_key(&new.name)).collect();
    let first = insert_names(connection, account, &fresh, now).await?;
    let mut ids: HashMap<DataName, i64> = known.into_iter().map(|(name, row)| (name, row.id)).collect();
    ids.extend((first..).zip(&fresh).map(|(id, new)| (new.name.clone(), id)));
    let of = |name: &DataName| ids.get(name).copied().unwrap_or_default();
    for new in &fresh {
        metadata::insert_all(connection, of(&new.name), &new.metadata).await?;
        if new.kind != DataKind::File {
            history::append(connection, of(&new.name), account, "created", &json!({}), now).await?;
            news::tell(connection, of(&new.name)).await?;
        }
    }
    enter_copies(connection, names, &ids, first, now).await?;
    Ok(Entered { ids: names.iter().map(|new| of(&new.name)).collect(), new: fresh.len() })
}

fn children(names: &[NewName], entered: &Entered) -> Vec<Child> {
    let child = |(new, id): (&NewName, &i64)| Child { id: *id, kind: new.kind, bytes: new.bytes };
    names.iter().zip(&entered.ids).map(child).collect()
}

async fn merge(
    connection: &mut AnyConnection,
    account: String,
    names: Vec<NewName>,
    into: Option<DataName>,
    now: i64,
) -> Result<Merged> {
    let known = known(connection, &names).await?;
    let deleting = copies::being_deleted(connection, known.values().map(|row| row.id)).await?;
    let mut merged = Merged::default();
    let mut good = Vec::new();
    for mut new in names {
        let old = known.get(&new.name);
        let conflict = match old {
            Some(old) if old.has_ended(now) => Some("it has been removed here".to_owned()),
            Some(old) => contradiction(old, &new).map(|why| format!("it is there already, {why}")),
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
        good.push(new);
    }
    for new in &good {
        if let Some(old) = known.get(&new.name) {
            metadata::add_missing(connection, old.id, &new.metadata).await?;
        }
    }
    let entered = write(connection, &account, &good, known, now).await?;
    (merged.new, merged.known) = (entered.new, good.len() - entered.new);
    if let Some(into) = into {
        let parent = find(connection, &into).await?;
        match contents::attach(connection, &parent, &children(&good, &entered), &account, now).await {
            // A closed parent and a circle are found before anything is written.
            Err(DatabaseError::Refused(why)) => merged.conflicts.push((into.to_string(), why)),
            attached => attached?,
        }
    }
    Ok(merged)
}

/// How a stored name differs from the one that is to be entered, if it does.
fn contradiction(old: &DataRow, new: &NewName) -> Option<String> {
    if old.kind != new.kind {
        return Some("and is something else".to_owned());
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

/// Inserts names; the number of the first.
async fn insert_names(connection: &mut AnyConnection, account: &str, fresh: &[&NewName], now: i64) -> Result<i64> {
    if fresh.is_empty() {
        return Ok(0);
    }
    let first = take_numbers(connection, "names", fresh.len()).await?;
    let rows: Vec<(i64, &NewName)> = (first..).zip(fresh.iter().copied()).collect();
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

/// Enters the copies of names; files from the number `first_new` on have none yet.
async fn enter_copies(
    connection: &mut AnyConnection,
    names: &[NewName],
    ids: &HashMap<DataName, i64>,
    first_new: i64,
    now: i64,
) -> Result<()> {
    let mut numbers: HashMap<&str, i64> = HashMap::new();
    let (mut counts, mut of_new) = (Counts::default(), Vec::new());
    for new in names {
        let file = ids.get(&new.name).copied().unwrap_or_default();
        let mut at = BTreeMap::new();
        for copy in &new.copies {
            let store = match numbers.get(copy.endpoint.as_str()) {
                Some(store) => *store,
                None => stores::id(connection, &copy.endpoint).await?,
            };
            numbers.insert(&copy.endpoint, store);
            at.insert(store, copy.path.as_deref());
        }
        for (store, path) in at {
            if first_new > 0 && file >= first_new {
                of_new.push(NewReplica { file, store, bytes: new.bytes, path })
            } else {
                copies::found(connection, file, new.bytes, store, path, &mut counts, now).await?
            }
        }
    }
    insert_replicas(connection, &of_new, &mut counts, now).await?;
    counts.apply(connection, now).await
}

/// A copy of a file that has none yet.
struct NewReplica<'a> {
    file: i64,
    store: i64,
    bytes: i64,
    path: Option<&'a str>,
}

/// Enters copies of files that have none: many in a statement, since nobody waits for these files yet.
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
