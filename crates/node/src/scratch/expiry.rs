//! Ends scratch places, in a thread of the node: cancels what was ordered with their keys, and removes their directories.

use std::time::{Duration, Instant};

use model::Kind;
use model::fault::with_causes;
use model::id::Uuid;
use model::name::RelPath;
use model::v1::Change;
use store::{Overseer, Store};

use super::table::{EndCause, EndedPlace, LivePlace};
use super::{EXPORT, ScratchPlaces, place_of, root_of};
use crate::audit::Decision;
use crate::clock::now_text;
use crate::services::Services;

/// How often the table is checked for places whose lifetime is over. Their keys are not valid from that moment on; this is how long
/// transfers and files may outlive them.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// How long one directory is worked on before the next one, and before further places are ended.
const SLICE: Duration = Duration::from_millis(100);
/// The pause before a directory is tried again that could not be removed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a node that stops removes directories. The next process removes the rest.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Ends places until the node stops, and then all of them.
pub(crate) fn run(services: &Services) {
    let Some(places) = services.access.scratch() else { return };
    let mut removals = Removals { places: &places, pending: Vec::new() };
    while !services.is_stopping() {
        removals.end_places(services);
        if !removals.run_slice() {
            places.wait(CHECK_EVERY);
        }
    }
    places.state.table.lock().close();
    removals.end_places(services);
    let deadline = Instant::now() + STOP_WITHIN;
    while !removals.pending.is_empty() && Instant::now() < deadline {
        if !removals.run_slice() {
            std::thread::sleep(SLICE);
        }
    }
}

/// A directory that is being removed.
struct DirectoryRemoval {
    id: Uuid,
    /// When it is tried next.
    due: Instant,
    /// A failure has been logged.
    has_warned: bool,
}

/// The directories that are being removed.
struct Removals<'a> {
    places: &'a ScratchPlaces,
    pending: Vec<DirectoryRemoval>,
}

impl Removals<'_> {
    /// Ends the places whose time has come.
    fn end_places(&mut self, services: &Services) {
        for ended in self.places.take_ended() {
            end(services, &ended);
            self.pending.push(DirectoryRemoval { id: ended.id, due: Instant::now(), has_warned: false });
        }
    }

    /// Removes a part of each directory. Returns whether any was due.
    fn run_slice(&mut self) -> bool {
        let mut was_any_due = false;
        self.pending.retain_mut(|removal| {
            if removal.due > Instant::now() {
                return true;
            }
            was_any_due = true;
            let is_gone = remove_part(&self.places.directory, removal);
            if is_gone {
                self.places.state.table.lock().gone(&removal.id);
            }
            !is_gone
        });
        was_any_due
    }
}

/// Removes entries below a directory for a while, and the directory once it is empty. Returns whether it is gone.
fn remove_part(directory: &dyn Store, removal: &mut DirectoryRemoval) -> bool {
    let mut overseer = RemovalOverseer { directory, until: Instant::now() + SLICE, failure: None };
    let removed = store::remove_tree(directory, &root_of(&removal.id), &mut overseer);
    let failure = match removed {
        Ok(true) => return true,
        Err(error) if error.is_not_found() => return true,
        Err(error) => Some(error),
        Ok(false) => overseer.failure,
    };
    if let Some(error) = failure {
        removal.due = Instant::now() + RETRY_AFTER;
        if !removal.has_warned {
            removal.has_warned = true;
            let error = with_causes(&error);
            tracing::warn!(place = %removal.id, error, "a scratch place cannot be removed; the node tries again");
        }
    }
    false
}

/// Watches over the removal of a directory.
struct RemovalOverseer<'a> {
    directory: &'a dyn Store,
    until: Instant,
    failure: Option<store::Error>,
}

impl Overseer for RemovalOverseer<'_> {
    fn continues(&mut self) -> bool {
        Instant::now() < self.until
    }

    fn stays(&mut self, path: &RelPath, why: store::Error) -> store::Result<()> {
        // A client may have made a directory that not even its owner may list or change. Making it again makes it usable.
        for dir in [path.clone(), path.parent()].into_iter().filter(|dir| !dir.is_root()) {
            if self.directory.stat(&dir).is_ok_and(|stat| stat.meta.kind == Kind::Dir) {
                let _ = self.directory.make_dir(&dir);
            }
        }
        self.failure = Some(why);
        Ok(())
    }
}

/// Ends a place: its key is void already; what was ordered with the key is cancelled.
fn end(services: &Services, ended: &EndedPlace) {
    let Some(place) = &ended.place else { return };
    // The holder of the key, without and with rules of the policy.
    for holder in [place.grant.id.clone(), format!("key:{}", place.grant.id)] {
        cancel_all_of(services, &holder);
        services.access.remove_transfer_keys_of(&holder);
    }
    services.access.locks.remove_below(EXPORT, &root_of(&ended.id));
    log_end(services, &ended.id, ended.cause, place);
}

/// Cancels the delegated transfers of a holder, and the jobs of its sessions.
fn cancel_all_of(services: &Services, holder: &str) {
    for unended in services.transfers.unended_of(holder, None).0 {
        services.transfers.cancel(holder, &unended.transfer.id);
    }
    let cancel = Change { cancel: true, ..Change::default() };
    for job in services.jobs.list(None, Some(holder)) {
        // One that has ended meanwhile is not known any more.
        let _ = services.jobs.change(job.id.as_bytes(), Some(holder), &cancel);
    }
}

fn log_end(services: &Services, id: &Uuid, cause: EndCause, place: &LivePlace) {
    let who = place.orderer.who.as_str();
    let bytes = place.usage.bytes();
    let seconds = place.created.elapsed().as_secs_f64();
    let outcome = cause.word();
    tracing::info!(target: "access", who, event = "scratch-end", place = %id, outcome, bytes, seconds);
    // A removal is in the audit log as the request that it is.
    if cause == EndCause::Expired {
        services.audit_log.add(&Decision {
            time: now_text(),
            is_anonymous: false,
            peer: place.orderer.peer,
            who,
            by: "node",
            action: outcome,
            target: &place_of(id),
            other: None,
            outcome: "allowed",
            status: None,
            reason: Some("its lifetime is over"),
            bytes,
            seconds,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use store::posix::{Links, Posix};

    use super::*;

    #[test]
    fn a_directory_is_removed_in_parts_whatever_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let removal = |id| DirectoryRemoval { id, due: Instant::now(), has_warned: false };
        let id = Uuid::now_v7();
        let place = dir.path().join(id.to_string());
        let closed = place.join("closed/below");
        std::fs::create_dir_all(&closed).unwrap();
        for name in ["a", ".longhaul-1.part"] {
            std::fs::write(place.join(name), name).unwrap();
            std::fs::write(closed.join(name), name).unwrap();
        }
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("other"), place.join("link")).unwrap();
        for closed in [&closed, &place.join("closed")] {
            std::fs::set_permissions(closed, PermissionsExt::from_mode(0o000)).unwrap();
        }
        let store = Posix::open(dir.path(), Links::Refuse).unwrap();
        let mut removal_of_place = removal(id);
        // One attempt for each closed directory, and one more.
        assert!((0..3).any(|_| remove_part(&store, &mut removal_of_place)));
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["other"]);
        assert!(remove_part(&store, &mut removal(Uuid::now_v7())), "one that is not there is gone");
    }

    #[test]
    fn a_long_removal_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let id = Uuid::now_v7();
        std::fs::create_dir_all(dir.path().join(id.to_string()).join("a")).unwrap();
        std::fs::write(dir.path().join(id.to_string()).join("f"), "").unwrap();
        let store = Posix::open(dir.path(), Links::Refuse).unwrap();
        let mut overseer = RemovalOverseer { directory: &store, until: Instant::now(), failure: None };
        assert!(!store::remove_tree(&store, &root_of(&id), &mut overseer).unwrap());
        assert!(overseer.failure.is_none() && dir.path().join(id.to_string()).exists());
    }
}
