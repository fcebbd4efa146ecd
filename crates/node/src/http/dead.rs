//! Properties that clients have given files and directories: kept in a note on each, so that they travel with a rename and go with
//! what they are of.

use model::RelPath;
use serde::{Deserialize, Serialize};
use store::Store;
use web::dav::{Dead, Prop};

/// The note's name.
const NOTE: &str = "dav";

/// A property as the note has it.
#[derive(Serialize, Deserialize)]
struct Row {
    namespace: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    xml: String,
}

/// The properties of an entry; none where there are none, or the store keeps none.
pub(super) fn read(store: &dyn Store, path: &RelPath) -> Vec<Dead> {
    let note = store.note(path, NOTE).ok().flatten().unwrap_or_default();
    let rows: Vec<Row> = serde_json::from_slice(&note).unwrap_or_default();
    let dead = |Row { namespace, name, language, xml }| Dead { prop: Prop { namespace, name }, language, xml };
    rows.into_iter().map(dead).filter(Dead::is_sound).collect()
}

/// Gives an entry these properties in place of those that it had.
pub(super) fn write(store: &dyn Store, path: &RelPath, all: &[Dead]) -> store::Result<()> {
    let row = |dead: &Dead| Row {
        namespace: dead.prop.namespace.clone(),
        name: dead.prop.name.clone(),
        language: dead.language.clone(),
        xml: dead.xml.clone(),
    };
    let rows: Vec<Row> = all.iter().map(row).collect();
    let note = if rows.is_empty() { Vec::new() } else { serde_json::to_vec(&rows).unwrap_or_default() };
    store.set_note(path, NOTE, &note)
}

/// Lets a file come in the place of another one, and keep what clients have given that one (RFC 4918, section 9.7.1).
pub(super) fn keeping(
    store: &dyn Store,
    path: &RelPath,
    replace: &mut dyn FnMut() -> store::Result<()>,
) -> store::Result<()> {
    let given = store.note(path, NOTE).ok().flatten().filter(|note| !note.is_empty());
    replace()?;
    if let Some(note) = given
        && let Err(error) = store.set_note(path, NOTE, &note)
    {
        tracing::warn!(%error, %path, "a new file is without the properties of the one before it");
    }
    Ok(())
}

/// Gives a copy what its source has.
pub(super) fn copy(from: (&dyn Store, &RelPath), to: (&dyn Store, &RelPath)) -> store::Result<()> {
    match from.0.note(from.1, NOTE)? {
        Some(note) if !note.is_empty() => to.0.set_note(to.1, NOTE, &note),
        _ => Ok(()),
    }
}
