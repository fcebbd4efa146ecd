//! PROPPATCH (RFC 4918, section 9.2): when a file changed, whether it may be executed, and whatever else clients want to keep with
//! it. All of it is done or none.

use auth::Action;
use model::{Kind, RelPath, Timestamp};
use store::{Asked, Facts, Stat, Store};
use web::dav::proppatch::{self, Change, Done as Became};
use web::dav::{self, Dead, Prop, multistatus};
use web::{Response, date, target};

use super::dead;
use super::refused::{Outcome, refuse};
use super::request_context::RequestContext;
use super::text::Text;
use crate::http::little::read_little;

/// The namespace in which Windows sets times and attributes.
const MICROSOFT: &str = "urn:schemas-microsoft-com:";

/// What a property is to a file here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The time of its last change, as HTTP writes dates.
    Modified,
    /// The same in seconds since 1970, as ownCloud's clients write it.
    ModifiedSeconds,
    /// Whether it may be executed.
    Executable,
    /// What nobody but the server sets.
    Protected,
    /// Nothing.
    Dead,
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
        _ => Meaning::Dead,
    }
}

/// What an entry is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    modified: Timestamp,
    mode: u32,
    dead: Vec<Dead>,
}

impl Plan {
    /// Takes in a change; what would become of it.
    fn take(&mut self, change: &Change, is_dir: bool) -> Became {
        match (meaning(change.prop()), change) {
            (Meaning::Dead, Change::Set(value)) => {
                self.dead.retain(|dead| dead.prop != value.prop);
                self.dead.push(value.clone());
                Became::Made
            }
            // What is not there can be taken away.
            (Meaning::Dead, Change::Remove(prop)) => {
                self.dead.retain(|dead| dead.prop != *prop);
                Became::Made
            }
            (Meaning::Protected, _) | (_, Change::Remove(_)) => Became::Protected,
            (Meaning::Modified, Change::Set(value)) => self.modified(date::parse_http(value.xml.trim())),
            (Meaning::ModifiedSeconds, Change::Set(value)) => {
                let seconds = value.xml.trim().parse().ok();
                self.modified(seconds.map(|seconds| Timestamp { seconds, nanos: 0 }))
            }
            (Meaning::Executable, Change::Set(_)) if is_dir => Became::Protected,
            (Meaning::Executable, Change::Set(value)) => match value.xml.trim() {
                "T" => self.mode(self.mode | 0o111),
                "F" => self.mode(self.mode & !0o111),
                _ => Became::Unusable,
            },
        }
    }

    fn modified(&mut self, at: Option<Timestamp>) -> Became {
        let Some(at) = at else { return Became::Unusable };
        self.modified = at;
        Became::Made
    }

    fn mode(&mut self, mode: u32) -> Became {
        self.mode = mode;
        Became::Made
    }

    /// Makes an entry so.
    fn carry_out(&self, before: &Plan, store: &dyn Store, path: &RelPath, stat: &Stat) -> store::Result<()> {
        if self.dead != before.dead {
            dead::write(store, path, &self.dead)?;
        }
        if (self.modified, self.mode) == (before.modified, before.mode) {
            return Ok(());
        }
        let facts = Facts { mode: self.mode, mtime: self.modified, asked: Asked::default(), attributes: None };
        let done = match stat.meta.kind {
            Kind::Dir => store.finish_dir(path, self.mode, self.modified),
            _ => store.refresh(path, &facts).map(drop),
        };
        // All or nothing.
        done.inspect_err(|_| drop((self.dead != before.dead).then(|| dead::write(store, path, &before.dead))))
    }
}

/// Answers PROPPATCH.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else {
        return Err(refuse(403, "the root has no properties of its own"));
    };
    let reach = context.reach(Action::Overwrite, &export, &path)?;
    let body = read_little(context.exchange, dav::BODY_BYTES_MAX, "a PROPPATCH")?;
    let changes = proppatch::parse(&body).map_err(|e| refuse(e.status(), e.to_string()))?;
    let turn = context.web.unfinished.turn(&reach);
    let stat = reach.store.stat(&reach.path)?;
    // Also where nothing would change.
    context.web.rules.locks.may_change(&export, &path, &context.shown)?;
    let is_dir = stat.meta.kind == Kind::Dir;
    let before = Plan { modified: stat.meta.mtime, mode: stat.meta.mode, dead: dead::read(&*reach.store, &reach.path) };
    let mut plan = before.clone();
    let mut became: Vec<Became> = changes.iter().map(|change| plan.take(change, is_dir)).collect();
    let mut without = became.iter().all(|one| *one == Became::Made);
    if without && let Err(error) = plan.carry_out(&before, &*reach.store, &reach.path, &stat) {
        became = vec![of_error(error)?; changes.len()];
        without = true;
    }
    drop(turn);
    if !without {
        became.iter_mut().filter(|one| **one == Became::Made).for_each(|one| *one = Became::WithOthers);
    }
    let href = target::location("", &context.target.path, is_dir, None);
    let told: Vec<(&Prop, Became)> = changes.iter().map(Change::prop).zip(became).collect();
    let text = [multistatus::open(), proppatch::response(&href, &told), multistatus::close().to_owned()].concat();
    let response = Response::new(207).with("Content-Type", multistatus::CONTENT_TYPE);
    Ok(Text::send(context.exchange, response, text.as_bytes())?)
}

/// What a store has against a change: of properties, or of the place as such.
fn of_error(error: store::Error) -> Outcome<Became> {
    use std::io::ErrorKind::{InvalidInput, QuotaExceeded, StorageFull, Unsupported};
    match &error {
        // Attributes of a file have room of their own, and there are file systems without.
        store::Error::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded | Unsupported | InvalidInput)
                || source.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error())
                || source.raw_os_error() == Some(rustix::io::Errno::RANGE.raw_os_error()) =>
        {
            tracing::warn!(%error, "properties cannot be kept");
            Ok(Became::NoRoom)
        }
        _ => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(namespace: &str, name: &str, xml: &str) -> Change {
        let prop = Prop { namespace: namespace.into(), name: name.into() };
        Change::Set(Dead { prop, language: None, xml: xml.into() })
    }

    #[test]
    fn what_means_something_does_it() {
        let mut plan = Plan { modified: Timestamp::default(), mode: 0o644, dead: Vec::new() };
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(plan.take(&set(dav::DAV, "getlastmodified", date), false), Became::Made);
        assert_eq!(plan.modified.seconds, 784_111_777);
        assert_eq!(plan.take(&set(dav::DAV, "lastmodified", " 7 "), false), Became::Made);
        assert_eq!(plan.modified.seconds, 7);
        assert_eq!(plan.take(&set(dav::DAV, "getlastmodified", "soon"), false), Became::Unusable);
        assert_eq!(plan.take(&set(dav::APACHE, "executable", "T"), false), Became::Made);
        assert_eq!(plan.mode, 0o755);
        assert_eq!(plan.take(&set(dav::APACHE, "executable", "T"), true), Became::Protected);
        assert_eq!(plan.take(&set(dav::APACHE, "executable", "perhaps"), false), Became::Unusable);
        assert_eq!(plan.take(&set(dav::DAV, "getetag", "x"), false), Became::Protected);
    }

    #[test]
    fn what_means_nothing_is_kept() {
        let mut plan = Plan { modified: Timestamp::default(), mode: 0, dead: Vec::new() };
        plan.take(&set("urn:z", "a", "1"), false);
        plan.take(&set("urn:z", "b", "2"), false);
        plan.take(&set("urn:z", "a", "3"), false);
        plan.take(&Change::Remove(Prop { namespace: "urn:z".into(), name: "b".into() }), false);
        assert_eq!(plan.dead.iter().map(|dead| dead.xml.as_str()).collect::<Vec<_>>(), ["3"]);
    }
}
