//! The metadata worker: does the machine's actions on the target's store, in order, on its own thread, so that a slow
//! directory does not keep the control connection from answering pings.

use std::sync::atomic::Ordering;

use model::checksum::Digest;
use model::entry::Attributes;
use model::fault::Fault;
use model::name::RelPath;
use model::spec::{Options, Step, Sync};
use model::{Kind, Refusal, Timestamp};
use store::Stat;
use wire::frame::{Outcome, UNKNOWN_SIZE};
use wire::receiver::{Action, Judgement, Wanted};

use super::Receiving;
use super::file::Incoming;
use super::resume_verifier::SlowFile;
use crate::error::Error;
use crate::meter::Meter;
use crate::stream::RecordBuffer;

impl Receiving {
    /// Works until the job is over, and runs the resume verifier on a second thread.
    pub fn run_metadata_worker(&self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.run_resume_verifier());
            let mut buffer = None;
            while let Some(action) = self.next_action() {
                self.act(action, &mut buffer);
                self.waker.wake();
            }
        });
        // Files that are still open are kept for a later attempt, or removed where that is not possible.
        let open: Vec<u64> = self.incoming().keys().copied().collect();
        open.into_iter().for_each(|id| self.leave(id));
        // The movers refer to this side as well: dropping them here ends the cycle of references.
        drop(self.movers.lock().take());
    }

    fn next_action(&self) -> Option<Action> {
        let mut state = self.state();
        loop {
            if state.over {
                return None;
            }
            if let Some(action) = state.machine.poll_action() {
                return Some(action);
            }
            self.actions.wait(&mut state);
        }
    }

    fn act(&self, action: Action, buffer: &mut Option<RecordBuffer>) {
        match action {
            Action::MakeDir { id, path } => {
                let made = if self.policy.options.dry_run {
                    self.make_dir_dry(&path)
                } else {
                    self.with_room(|| self.make_dir(id, &path))
                };
                let made = made.map_err(|e| self.refusal(e));
                self.state().machine.dir_made(id, made);
            }
            Action::Judge(wanted) => self.judge(wanted),
            Action::Symlink { id, path, target, mtime, attributes } => {
                let outcome = self.symlink(id, &path, &target, mtime, attributes.as_deref());
                self.settle(id, outcome);
            }
            Action::HardLink { id, path, to } => {
                let made = self.hard_link(id, &path, &to);
                let outcome = made.map_or_else(|e| Outcome::Failed(self.refusal(e)), |()| Outcome::Done);
                self.settle(id, outcome);
            }
            Action::Record(record) => self.inline_record(&record, buffer.get_or_insert_default()),
            Action::Commit(complete) => self.complete(&complete),
            Action::Discard(id) => self.discard(id),
            Action::FinishDir { id, path, mode, mtime, attributes } => {
                let kept = self.kept_dirs.lock().remove(&id);
                let implied = attributes.as_ref().is_some_and(|a| a.implied);
                let finished = if kept || implied || self.policy.options.dry_run {
                    Ok(())
                } else {
                    self.finish_dir(&path, mode, mtime, attributes.as_deref())
                };
                let finished = finished.map_err(|e| self.refusal(e));
                self.state().machine.dir_finished(id, finished);
            }
            Action::NoteExtras { path, display_path, offered } => self.note_extras(&path, &display_path, &offered),
            Action::RemoveExtras { unread } => {
                self.remove_extras(unread);
                self.state().machine.extras_settled();
            }
        }
    }

    /// Sets the attributes of a directory, and last its mode, which may take the right to change the rest.
    fn finish_dir(
        &self,
        path: &RelPath,
        mode: u32,
        mtime: Timestamp,
        attributes: Option<&Attributes>,
    ) -> store::Result<()> {
        self.store.refresh(path, &self.facts(mode, mtime, attributes))?;
        self.store.finish_dir(path, mode, mtime)
    }

    /// The metadata that an entry should have, as far as this job preserves them.
    fn facts<'a>(&self, mode: u32, mtime: Timestamp, attributes: Option<&'a Attributes>) -> store::WantedMetadata<'a> {
        let Options { owner, xattrs, .. } = self.policy.options;
        store::WantedMetadata { mode, mtime, asked: store::AttributeSelection { owner, xattrs }, attributes }
    }

    fn make_dir_dry(&self, path: &RelPath) -> store::Result<()> {
        match self.store.stat(path) {
            Ok(existing) if existing.meta.kind == Kind::Dir => {
                self.count_found(*path != self.target.path);
                Ok(())
            }
            Ok(_) if *path == self.target.path && self.target.is_dir => Ok(()),
            Ok(_) => self.store.list(path).map(drop),
            Err(_) => {
                self.plan(Step::MakeDir, path, 0);
                Ok(())
            }
        }
    }

    fn tag(&self, id: u64) -> String {
        format!("{}-{id:x}", self.policy.tag)
    }

    /// The refusal for an error of the store. An error that every further file would meet fails the job.
    fn refusal(&self, error: store::Error) -> Refusal {
        let refusal = Refusal::from_error(&error);
        if error.is_fatal() {
            self.fail(Error::Store(error));
        }
        refusal
    }

    fn inline_record(&self, record: &[u8], buffer: &mut RecordBuffer) {
        let taken =
            buffer.from_inline(record).and_then(|parts| self.take_record(&parts, buffer.payload(), &Meter::default()));
        if let Err(source) = taken {
            self.fail(Error::Protocol { peer: "the sender".into(), source });
        }
    }

    /// Makes the missing parents of a source root; deeper entries have directories that were offered.
    fn prepare_parent(&self, path: &RelPath) -> store::Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let parent = path.parent();
        let above = parent == self.target.path || self.target.path.starts_with(&parent);
        if above && !self.store.is_dir(&parent) { store::make_dirs(&*self.store, &parent) } else { Ok(()) }
    }

    fn make_dir(&self, id: u64, path: &RelPath) -> store::Result<()> {
        let is_checked = self.policy.may_replace.is_err() || self.policy.options.delete.is_allowed();
        let exists = is_checked && self.store.is_dir(path);
        self.count_found(exists && *path != self.target.path);
        if self.policy.may_replace.is_err() && exists {
            // A client that may only create may put entries into the directory, but not change its mode or time.
            self.kept_dirs.lock().insert(id);
            return Ok(());
        }
        if *path == self.target.path && self.target.is_dir {
            return Ok(());
        }
        self.prepare_parent(path)?;
        // A file of that name is not replaced: a copy of a directory must not lose a file.
        self.store.make_dir(path)
    }

    /// Counts an offered entry, if it existed before.
    fn count_found(&self, existed: bool) {
        self.found.fetch_add(u64::from(existed), Ordering::Relaxed);
    }

    fn hard_link(&self, id: u64, path: &RelPath, to: &RelPath) -> store::Result<()> {
        let existing = self.store.stat(path).map(|stat| stat.identity);
        self.count_found(existing.is_ok());
        if existing.is_ok_and(|existing| self.store.stat(to).is_ok_and(|stat| stat.identity == existing)) {
            return Ok(());
        }
        if self.policy.options.dry_run {
            self.plan(Step::Link, path, 0);
            return Ok(());
        }
        self.prepare_parent(path)?;
        self.refuse_special(path)?;
        self.store.make_hard_link(path, to, self.policy.replaces(), &self.tag(id))
    }

    fn symlink(
        &self,
        id: u64,
        path: &RelPath,
        target: &[u8],
        mtime: Timestamp,
        attributes: Option<&Attributes>,
    ) -> Outcome {
        let facts = self.facts(0, mtime, attributes);
        let existing = self.store.read_link(path);
        self.count_found(existing.is_ok());
        if existing.is_ok_and(|existing| existing == target) {
            return self.refresh(path, &facts).map_or_else(Outcome::Failed, |()| Outcome::Done);
        }
        if self.policy.options.dry_run {
            self.plan(Step::Link, path, 0);
            return Outcome::Done;
        }
        let made = self
            .prepare_parent(path)
            .and_then(|()| self.refuse_special(path))
            .and_then(|()| self.store.make_symlink(path, target, mtime, self.policy.replaces(), &self.tag(id)))
            .and_then(|()| self.store.refresh(path, &facts));
        made.map_or_else(|e| Outcome::Failed(self.refusal(e)), |_| Outcome::Done)
    }

    /// Fails where the path is a device, FIFO or socket, which is never replaced.
    fn refuse_special(&self, path: &RelPath) -> store::Result<()> {
        match self.store.stat(path) {
            Ok(stat) if stat.meta.kind == Kind::Special => {
                let path = path.to_string();
                Err(store::Error::Kind { path, found: "a device, FIFO or socket", wanted: "a file or link" })
            }
            _ => Ok(()),
        }
    }

    fn judge(&self, wanted: Wanted) {
        let id = wanted.id;
        let dry = self.policy.options.dry_run;
        let judgement = match if dry { Ok(()) } else { self.prepare_parent(&wanted.path) } {
            Ok(()) => self.judgement(&wanted),
            Err(error) => Judgement::Refuse(self.refusal(error)),
        };
        let judgement = match judgement {
            Judgement::Skip => self.refresh_file(&wanted).map_or_else(Judgement::Refuse, |()| Judgement::Skip),
            other => other,
        };
        if dry {
            return self.judge_dry(&wanted, judgement);
        }
        // The unfinished file of a refused file is kept: a later attempt may have more rights.
        if !matches!(judgement, Judgement::Refuse(_))
            && (matches!(judgement, Judgement::Skip) || !self.is_journalled(&wanted))
        {
            self.remove_partial(&wanted);
        }
        let existing = match &judgement {
            Judgement::WantUnless(existing) => Some(*existing),
            Judgement::Want | Judgement::WantRest(_) => None,
            Judgement::Skip | Judgement::Refuse(_) => return self.state().machine.judged(id, judgement),
        };
        if existing.is_none() && self.has_partial(&wanted) {
            return self.hand_to_verifier(SlowFile { wanted, existing });
        }
        match self.promise(&wanted, 0) {
            Ok(promise) => {
                self.expect_file(Incoming::new(self, wanted, existing, promise));
                self.state().machine.judged(id, judgement);
            }
            Err(_) => self.hand_to_verifier(SlowFile { wanted, existing }),
        }
    }

    fn judgement(&self, wanted: &Wanted) -> Judgement {
        let is_doubted = self.is_doubted(wanted.id);
        let existing = match self.store.stat(&wanted.path) {
            Ok(stat) => stat,
            Err(error) if error.is_not_found() => return Judgement::Want,
            Err(error) => return Judgement::Refuse(self.refusal(error)),
        };
        self.count_found(true);
        if existing.meta.kind == Kind::Dir {
            let reason = format!("{} is a directory at the target, and a file at the source", wanted.path);
            return Judgement::Refuse(Refusal::new(Fault::Storage, reason));
        }
        if existing.meta.kind == Kind::Special {
            let reason = format!(
                "{} is a device, FIFO or socket at the target, which is never replaced (null: discards data, - is a pipe)",
                wanted.path
            );
            return Judgement::Refuse(Refusal::new(Fault::Storage, reason));
        }
        // A client that may only create learns nothing of an existing file but whether it has the length and time of its own.
        let sync = match (&self.policy.may_replace, self.policy.options.sync) {
            (Ok(()), sync) => sync,
            (Err(_), Sync::None) => Sync::None,
            (Err(_), _) => Sync::Mtime,
        };
        match sync {
            _ if existing.meta.kind != Kind::File => {}
            // An unfinished file of an earlier attempt shows that the existing file differs.
            Sync::Digest if existing.meta.size == wanted.size && !self.has_partial(wanted) => {
                match self.digest_of(wanted) {
                    Ok(digest) => return Judgement::WantUnless(digest),
                    Err(error) => return Judgement::Refuse(self.refusal(error)),
                }
            }
            _ if is_same(sync, &existing, wanted, self.store.capabilities().times) => {
                // To read a file back from a remote server costs as much as to send it.
                let compares = is_doubted && sync == Sync::Mtime && self.store.capabilities().posix;
                return match compares.then(|| self.digest_of(wanted)) {
                    None => Judgement::Skip,
                    Some(Ok(digest)) => Judgement::WantUnless(digest),
                    Some(Err(error)) => Judgement::Refuse(self.refusal(error)),
                };
            }
            _ => {}
        }
        if self.policy.options.no_overwrite {
            let reason = format!("{} exists already and differs (--no-overwrite)", wanted.path);
            return Judgement::Refuse(Refusal::new(Fault::Storage, reason));
        }
        match &self.policy.may_replace {
            Ok(()) => Judgement::Want,
            Err(refusal) => Judgement::Refuse(refusal.clone()),
        }
    }

    /// Updates the metadata of a file whose data are the same.
    pub(super) fn refresh_file(&self, wanted: &Wanted) -> Result<(), Refusal> {
        self.refresh(&wanted.path, &self.facts(wanted.mode, wanted.mtime, wanted.attributes.as_deref()))
    }

    /// Updates the metadata of an existing entry (mode, time, owner, attributes, ACL), or counts the update in a dry run. Nothing is
    /// updated where an entry of that name is enough, or where existing files may not be changed.
    fn refresh(&self, path: &RelPath, facts: &store::WantedMetadata<'_>) -> Result<(), Refusal> {
        if !self.policy.replaces() || self.policy.options.sync == Sync::Exists {
            return Ok(());
        }
        let changed =
            if self.policy.options.dry_run { self.store.differs(path, facts) } else { self.store.refresh(path, facts) };
        self.refreshed.fetch_add(u64::from(changed.map_err(|e| self.refusal(e))?), Ordering::Relaxed);
        Ok(())
    }

    fn digest_of(&self, wanted: &Wanted) -> store::Result<Digest> {
        let path = &wanted.path;
        let algorithm = wanted.compare_by;
        let _busy = self.busy_with(format!("making the digest of {path} at the target"));
        let mut digests = self.store.digests(path, &[algorithm])?;
        if digests.is_empty() {
            let source = self.store.open(path)?;
            digests = store::digest::of_file(&*source, path, &[algorithm])?;
        }
        Ok(digests.first().copied().unwrap_or_else(|| Digest::crc32c(0)))
    }
}

/// Whether an existing file counts as the one that is offered. Where a store keeps no times, a file that was written after
/// the source's last change, to the second, counts like one of the same time: more cannot be known without reading it.
fn is_same(sync: Sync, existing: &Stat, wanted: &Wanted, keeps_times: bool) -> bool {
    if wanted.size == UNKNOWN_SIZE {
        return sync == Sync::Exists;
    }
    let (ours, theirs) = (existing.meta.mtime, wanted.mtime);
    // A file system may keep whole seconds only.
    let same_time = ours == theirs || ours.nanos == 0 && ours.seconds == theirs.seconds;
    let same_time = same_time || !keeps_times && ours.seconds >= theirs.seconds;
    match sync {
        Sync::None => false,
        Sync::Exists => true,
        Sync::Size => existing.meta.size == wanted.size,
        Sync::Mtime => existing.meta.size == wanted.size && same_time,
        Sync::Digest => false,
    }
}
