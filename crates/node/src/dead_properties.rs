//! Dead properties (RFC 4918, section 4): properties that clients have given files and directories. They are kept in a note on each
//! entry (an extended attribute), so that they stay with it when it is renamed and vanish when it is removed.

use model::RelPath;
use serde::{Deserialize, Serialize};
use store::Store;
use web::dav::{DeadProperty, Prop};

/// The note's name.
const NOTE: &str = "dav";

/// A property in the form of the note.
#[derive(Serialize, Deserialize)]
struct Row {
    namespace: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    xml: String,
}

/// The properties of an entry; none if the entry has none, or the store keeps none.
pub(crate) fn read(store: &dyn Store, path: &RelPath) -> Vec<DeadProperty> {
    let note = store.note(path, NOTE).ok().flatten().unwrap_or_default();
    let rows: Vec<Row> = serde_json::from_slice(&note).unwrap_or_default();
    let dead = |Row { namespace, name, language, xml }| DeadProperty { prop: Prop { namespace, name }, language, xml };
    rows.into_iter().map(dead).filter(DeadProperty::is_sound).collect()
}

/// Replaces the properties of an entry by these.
///
/// # Errors
/// The store cannot write them.
pub(crate) fn write(store: &dyn Store, path: &RelPath, all: &[DeadProperty]) -> store::Result<()> {
    let row = |dead: &DeadProperty| Row {
        namespace: dead.prop.namespace.clone(),
        name: dead.prop.name.clone(),
        language: dead.language.clone(),
        xml: dead.xml.clone(),
    };
    let rows: Vec<Row> = all.iter().map(row).collect();
    let note = if rows.is_empty() { Vec::new() } else { serde_json::to_vec(&rows).unwrap_or_default() };
    store.set_note(path, NOTE, &note)
}

/// Replaces a file by another one, which keeps the properties of the first (RFC 4918, section 9.7.1).
///
/// # Errors
/// Those of `replace`.
pub(crate) fn replace_file(
    store: &dyn Store,
    path: &RelPath,
    replace: &mut dyn FnMut() -> store::Result<()>,
) -> store::Result<()> {
    let kept = store.note(path, NOTE).ok().flatten().filter(|note| !note.is_empty());
    replace()?;
    if let Some(note) = kept
        && let Err(error) = store.set_note(path, NOTE, &note)
    {
        tracing::warn!(%error, %path, "a new file has lost the properties of the file that it replaced");
    }
    Ok(())
}

/// Copies the properties of an entry to its copy.
///
/// # Errors
/// The store cannot read or write them.
pub(crate) fn copy(from: (&dyn Store, &RelPath), to: (&dyn Store, &RelPath)) -> store::Result<()> {
    match from.0.note(from.1, NOTE)? {
        Some(note) if !note.is_empty() => to.0.set_note(to.1, NOTE, &note),
        _ => Ok(()),
    }
}
