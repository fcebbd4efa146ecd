//! PROPPATCH (RFC 4918, section 9.2): the time of change, whether a file is executable, and dead properties of clients. All changes
//! of a request are made, or none.

use auth::Action;
use model::{Kind, RelPath, Timestamp};
use store::{AttributeSelection, Stat, Store, WantedMetadata};
use web::dav::proppatch::{self, Change, ChangeResult};
use web::dav::{self, DeadProperty, Prop, multistatus};
use web::{Response, date, target};

use super::refused::{Outcome, refuse};
use super::request_context::RequestContext;
use super::text::Text;
use crate::dead_properties;
use crate::http::short_body::read_short_body;

/// The namespace in which Windows sets times and attributes.
const MICROSOFT: &str = "urn:schemas-microsoft-com:";

/// The meaning of a property on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The time of its last change, as HTTP writes dates.
    Modified,
    /// The time of its last change in seconds since 1970, as ownCloud's clients write it.
    ModifiedSeconds,
    /// Whether the file is executable.
    Executable,
    /// A property that only the server sets.
    Protected,
    /// A dead property: kept without a meaning.
    DeadProperty,
}

fn meaning(prop: &Prop) -> Meaning {
    match (prop.namespace.as_str(), prop.name.as_str()) {
        (dav::DAV, "getlastmodified") | (MICROSOFT, "Win32LastModifiedTime") => Meaning::Modified,
        (dav::DAV, "lastmodified") => Meaning::ModifiedSeconds,
        (dav::APACHE, "executable") => Meaning::Executable,
        (
            dav::DAV,
            "resourcetype"
            | "getcontentlength"
            | "getcontenttype"
            | "creationdate"
            | "getetag"
            | "iscollection"
            | "supportedlock"
            | "lockdiscovery"
            | "quota-available-bytes"
            | "quota-used-bytes",
        )
        | (dav::OWNCLOUD, "checksums")
        | (dav::DCACHE, "Checksums") => Meaning::Protected,
        _ => Meaning::DeadProperty,
    }
}

/// The properties of an entry that a PROPPATCH can change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryProperties {
    modified: Timestamp,
    mode: u32,
    dead: Vec<DeadProperty>,
}

impl EntryProperties {
    /// Applies a change to these values; returns its outcome.
    fn apply(&mut self, change: &Change, is_dir: bool) -> ChangeResult {
        match (meaning(change.prop()), change) {
            (Meaning::DeadProperty, Change::Set(value)) => {
                self.dead.retain(|dead| dead.prop != value.prop);
                self.dead.push(value.clone());
                ChangeResult::Made
            }
            // Removing an absent property succeeds.
            (Meaning::DeadProperty, Change::Remove(prop)) => {
                self.dead.retain(|dead| dead.prop != *prop);
                ChangeResult::Made
            }
            (Meaning::Protected, _) | (_, Change::Remove(_)) => ChangeResult::Protected,
            (Meaning::Modified, Change::Set(value)) => self.modified(date::parse_http(value.xml.trim())),
            (Meaning::ModifiedSeconds, Change::Set(value)) => {
                let seconds = value.xml.trim().parse().ok();
                self.modified(seconds.map(|seconds| Timestamp { seconds, nanos: 0 }))
            }
            (Meaning::Executable, Change::Set(_)) if is_dir => ChangeResult::Protected,
            (Meaning::Executable, Change::Set(value)) => match value.xml.trim() {
                "T" => self.mode(self.mode | 0o111),
                "F" => self.mode(self.mode & !0o111),
                _ => ChangeResult::Unusable,
            },
        }
    }

    fn modified(&mut self, at: Option<Timestamp>) -> ChangeResult {
        let Some(at) = at else { return ChangeResult::Unusable };
        self.modified = at;
        ChangeResult::Made
    }

    fn mode(&mut self, mode: u32) -> ChangeResult {
        self.mode = mode;
        ChangeResult::Made
    }

    /// Writes the values that differ from `before` to the entry.
    fn write_changes(
        &self,
        before: &EntryProperties,
        store: &dyn Store,
        path: &RelPath,
        stat: &Stat,
    ) -> store::Result<()> {
        if self.dead != before.dead {
            dead_properties::write(store, path, &self.dead)?;
        }
        if (self.modified, self.mode) == (before.modified, before.mode) {
            return Ok(());
        }
        let facts = WantedMetadata {
            mode: self.mode,
            mtime: self.modified,
            asked: AttributeSelection::default(),
            attributes: None,
        };
        let done = match stat.meta.kind {
            Kind::Dir => store.finish_dir(path, self.mode, self.modified),
            _ => store.refresh(path, &facts).map(drop),
        };
        // A failure restores the dead properties.
        done.inspect_err(|_| {
            drop((self.dead != before.dead).then(|| dead_properties::write(store, path, &before.dead)))
        })
    }
}

/// Answers PROPPATCH.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else {
        return Err(refuse(403, "the root has no properties of its own"));
    };
    let resolved = context.resolve(Action::Overwrite, &export, &path)?;
    let body = read_short_body(context.exchange, dav::BODY_BYTES_MAX, "a PROPPATCH")?;
    let changes = proppatch::parse(&body).map_err(|e| refuse(e.status(), e.to_string()))?;
    let name_lock = context.service.services.unfinished.lock_name(&resolved);
    let stat = resolved.store.stat(&resolved.path)?;
    // Checked even if no value changes.
    context.service.access_control.locks.may_change(&export, &path, &context.submitted)?;
    let is_dir = stat.meta.kind == Kind::Dir;
    let before = EntryProperties {
        modified: stat.meta.mtime,
        mode: stat.meta.mode,
        dead: dead_properties::read(&*resolved.store, &resolved.path),
    };
    let mut plan = before.clone();
    let mut outcomes: Vec<ChangeResult> = changes.iter().map(|change| plan.apply(change, is_dir)).collect();
    let all_accepted = outcomes.iter().all(|one| *one == ChangeResult::Made);
    if all_accepted && let Err(error) = plan.write_changes(&before, &*resolved.store, &resolved.path, &stat) {
        outcomes = vec![of_error(error)?; changes.len()];
    }
    drop(name_lock);
    if !all_accepted {
        outcomes
            .iter_mut()
            .filter(|one| **one == ChangeResult::Made)
            .for_each(|one| *one = ChangeResult::AnotherFailed);
    }
    let href = target::location("", &context.target.path, is_dir, None);
    let results: Vec<(&Prop, ChangeResult)> = changes.iter().map(Change::prop).zip(outcomes).collect();
    let text = [multistatus::open(), proppatch::response(&href, &results), multistatus::close().to_owned()].concat();
    let response = Response::new(207).with("Content-Type", multistatus::CONTENT_TYPE);
    Ok(Text::send(context.exchange, response, text.as_bytes())?)
}

/// The outcome of a store's error: no room for properties, or a failure of the request.
fn of_error(error: store::Error) -> Outcome<ChangeResult> {
    use std::io::ErrorKind::{InvalidInput, QuotaExceeded, StorageFull, Unsupported};
    match &error {
        // Extended attributes have a space of their own, and some file systems have none.
        store::Error::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded | Unsupported | InvalidInput)
                || source.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error())
                || source.raw_os_error() == Some(rustix::io::Errno::RANGE.raw_os_error()) =>
        {
            tracing::warn!(%error, "properties cannot be kept");
            Ok(ChangeResult::NoRoom)
        }
        _ => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(namespace: &str, name: &str, xml: &str) -> Change {
        let prop = Prop { namespace: namespace.into(), name: name.into() };
        Change::Set(DeadProperty { prop, language: None, xml: xml.into() })
    }

    #[test]
    fn a_property_with_a_meaning_changes_the_entry() {
        let mut plan = EntryProperties { modified: Timestamp::default(), mode: 0o644, dead: Vec::new() };
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(plan.apply(&set(dav::DAV, "getlastmodified", date), false), ChangeResult::Made);
        assert_eq!(plan.modified.seconds, 784_111_777);
        assert_eq!(plan.apply(&set(dav::DAV, "lastmodified", " 7 "), false), ChangeResult::Made);
        assert_eq!(plan.modified.seconds, 7);
        assert_eq!(plan.apply(&set(dav::DAV, "getlastmodified", "soon"), false), ChangeResult::Unusable);
        assert_eq!(plan.apply(&set(dav::APACHE, "executable", "T"), false), ChangeResult::Made);
        assert_eq!(plan.mode, 0o755);
        assert_eq!(plan.apply(&set(dav::APACHE, "executable", "T"), true), ChangeResult::Protected);
        assert_eq!(plan.apply(&set(dav::APACHE, "executable", "perhaps"), false), ChangeResult::Unusable);
        assert_eq!(plan.apply(&set(dav::DAV, "getetag", "x"), false), ChangeResult::Protected);
    }

    #[test]
    fn a_property_without_a_meaning_is_kept() {
        let mut plan = EntryProperties { modified: Timestamp::default(), mode: 0, dead: Vec::new() };
        plan.apply(&set("urn:z", "a", "1"), false);
        plan.apply(&set("urn:z", "b", "2"), false);
        plan.apply(&set("urn:z", "a", "3"), false);
        plan.apply(&Change::Remove(Prop { namespace: "urn:z".into(), name: "b".into() }), false);
        assert_eq!(plan.dead.iter().map(|dead| dead.xml.as_str()).collect::<Vec<_>>(), ["3"]);
    }
}
