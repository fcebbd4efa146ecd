//! Extended attributes of entries.

use std::collections::BTreeMap;

use auth::Action;
use xroot::attributes::{self, AttributeResult, AttributesAction, AttributesRequest};
use xroot::place::FileOrPath;
use xroot::{ErrorCode, RootAnswer};

use super::connection::RootConnection;
use super::failure::{RootOutcome, refuse};

/// The name of the note that holds the extended attributes of an entry.
const NOTE: &str = "root";

impl RootConnection {
    /// Reads, sets, lists or removes extended attributes. They are kept in a note on the entry, which stays with it when it is renamed.
    pub(super) fn attributes(&mut self, request: &AttributesRequest) -> RootOutcome<RootAnswer> {
        let FileOrPath::Path(place) = &request.of else {
            return Err(refuse(
                ErrorCode::Unsupported,
                "name the file by its path: attributes of open files are not kept",
            ));
        };
        let changes = matches!(request.action, AttributesAction::Set { .. } | AttributesAction::Remove(_));
        let resolved = self.resolve(if changes { Action::Modify } else { Action::Stat }, place, "fattr")?;
        let (store, path) = (&resolved.at.store, &resolved.at.path);
        store.stat(path)?;
        let note = store.note(path, NOTE)?.unwrap_or_default();
        let mut all: BTreeMap<String, String> = serde_json::from_slice(&note).unwrap_or_default();
        let missing = ErrorCode::NoAttribute.number() as u16;
        let result =
            |name: &[u8], code: u16, value: Option<Vec<u8>>| AttributeResult { name: name.to_vec(), code, value };
        let key = |name: &[u8]| model::name::show_bytes(name);
        let answer = match &request.action {
            AttributesAction::Get(names) => attributes::results(
                &names
                    .iter()
                    .map(|name| match all.get(&key(name)).and_then(|hex| model::hex::decode(hex)) {
                        Some(value) => result(name, 0, Some(value)),
                        None => result(name, missing, Some(Vec::new())),
                    })
                    .collect::<Vec<_>>(),
            ),
            AttributesAction::List { with_values } => attributes::list(
                &all.iter()
                    .map(|(name, hex)| {
                        let value = with_values.then(|| model::hex::decode(hex).unwrap_or_default());
                        (name.clone().into_bytes(), value)
                    })
                    .collect::<Vec<_>>(),
            ),
            AttributesAction::Set { values, only_new } => {
                let exists = ErrorCode::Exists.number() as u16;
                let results: Vec<_> = values
                    .iter()
                    .map(|(name, value)| {
                        if *only_new && all.contains_key(&key(name)) {
                            return result(name, exists, None);
                        }
                        all.insert(key(name), auth::hex(value));
                        result(name, 0, None)
                    })
                    .collect();
                attributes::results(&results)
            }
            AttributesAction::Remove(names) => {
                let results: Vec<_> = names
                    .iter()
                    .map(|name| result(name, if all.remove(&key(name)).is_some() { 0 } else { missing }, None))
                    .collect();
                attributes::results(&results)
            }
        };
        if changes {
            let note = if all.is_empty() { Vec::new() } else { serde_json::to_vec(&all).unwrap_or_default() };
            store.set_note(path, NOTE, &note)?;
        }
        Ok(RootAnswer::Ok(answer))
    }
}
