//! The metadata worker: does the machine's actions on the target's store, in order, on a thread of its own, so that a slow
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
    /// Works until the job is over; the resume verifier beside it.
    pub fn run_metadata_worker(&self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.run_resume_verifier());
            let mut buffer = None;
            while let Some(action) = self.next_action() {
                self.act(action, &mut buffer);
                self.waker.wake();
            }
        });
        // What is still open is kept for a later attempt, or of no use to anybody.
        let open: Vec<u64> = self.incoming().keys().copied().collect();
        open.into_iter().for_each(|id| self.leave(id));
        // They know this side as well: one of the two has to forget the other.
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
                let made = match self.policy.options.dry_run {
                    true => self.make_dir_dry(&path),
                    false => self.with_room(|| self.make_dir(id, &path)),
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
                let finished = match kept || implied || self.policy.options.dry_run {
                    true => Ok(()),
                    false => self.finish_dir(&path, mode, mtime, attributes.as_deref()),
                };
                let finished = finished.map_err(|e| self.refusal(e));
                self.state().machine.dir_finished(id, finished);
            }
            Action::NoteExtras { path, shown, offered } => self.note_extras(&path, &shown, &offered),
            Action::RemoveExtras { unread } => {
                self.remove_extras(unread);
                self.state().machine.extras_settled();
            }
        }
    }

    /// The mode last: it may take the right to change anything else.
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

    /// What an entry should have, as far as this job was asked to bring it.
    fn facts<'a>(&self, mode: u32, mtime: Timestamp, attributes: Option<&'a Attributes>) -> store::Facts<'a> {
        let Options { owner, xattrs, .. } = self.policy.options;
        store::Facts { mode, mtime, asked: store::AttributeSelection { owner, xattrs }, attributes }
    }

    fn make_dir_dry(&self, path: &RelPath) -> store::Result<()> {
        match self.store.stat(path) {
            Ok(there) if there.meta.kind == Kind::Dir => {
                self.found(*path != self.target.path);
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

    /// The words for a store's error; one that would meet every further file ends the job.
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

    /// A source root's missing parents are made; everything deeper has a directory that was offered.
    fn prepare_parent(&self, path: &RelPath) -> store::Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let parent = path.parent();
        let above = parent == self.target.path || self.target.path.starts_with(&parent);
        if above && !self.store.is_dir(&parent) { store::make_dirs(&*self.store, &parent) } else { Ok(()) }
    }

    fn make_dir(&self, id: u64, path: &RelPath) -> store::Result<()> {
        let asks = self.policy.may_replace.is_err() || self.policy.options.delete.is_asked();
        let is_there = asks && self.store.is_dir(path);
        self.found(is_there && *path != self.target.path);
        if self.policy.may_replace.is_err() && is_there {
            // Whoever may only create may put things into it, not change its mode or time.
            self.kept_dirs.lock().insert(id);
            return Ok(());
        }
        if *path == self.target.path && self.target.is_dir {
            return Ok(());
        }
        self.prepare_parent(path)?;
        // A file in the way stays: nobody who copies a directory means to lose a file.
        self.store.make_dir(path)
    }

    /// Counts an entry that was offered, if it was there.
    fn found(&self, is_there: bool) {
        self.found.fetch_add(u64::from(is_there), Ordering::Relaxed);
    }

    fn hard_link(&self, id: u64, path: &RelPath, to: &RelPath) -> store::Result<()> {
        let there = self.store.stat(path).map(|stat| stat.identity);
        self.found(there.is_ok());
        if there.is_ok_and(|there| self.store.stat(to).is_ok_and(|stat| stat.identity == there)) {
            return Ok(());
        }
        if self.policy.options.dry_run {
            self.plan(Step::Link, path, 0);
            return Ok(());
        }
        self.prepare_parent(path)?;
        self.spare_special(path)?;
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
        let there = self.store.read_link(path);
        self.found(there.is_ok());
        if there.is_ok_and(|there| there == target) {
            return self.refresh(path, &facts).map_or_else(Outcome::Failed, |()| Outcome::Done);
        }
        if self.policy.options.dry_run {
            self.plan(Step::Link, path, 0);
            return Outcome::Done;
        }
        let made = self
            .prepare_parent(path)
            .and_then(|()| self.spare_special(path))
            .and_then(|()| self.store.make_symlink(path, target, mtime, self.policy.replaces(), &self.tag(id)))
            .and_then(|()| self.store.refresh(path, &facts));
        made.map_or_else(|e| Outcome::Failed(self.refusal(e)), |_| Outcome::Done)
    }

    /// A device, FIFO or socket is never replaced.
    fn spare_special(&self, path: &RelPath) -> store::Result<()> {
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
        // A refused file keeps what there is: the next attempt may be allowed more.
        if !matches!(judgement, Judgement::Refuse(_))
            && (matches!(judgement, Judgement::Skip) || !self.is_journalled(&wanted))
        {
            self.give_up_rest(&wanted);
        }
        let there = match &judgement {
            Judgement::WantUnless(there) => Some(*there),
            Judgement::Want | Judgement::WantRest(_) => None,
            Judgement::Skip | Judgement::Refuse(_) => return self.state().machine.judged(id, judgement),
        };
        if there.is_none() && self.has_rest(&wanted) {
            return self.hand_to_verifier(SlowFile { wanted, there });
        }
        match self.promise(&wanted, 0) {
            Ok(promise) => {
                self.expect_file(Incoming::new(self, wanted, there, promise));
                self.state().machine.judged(id, judgement);
            }
            Err(_) => self.hand_to_verifier(SlowFile { wanted, there }),
        }
    }

    fn judgement(&self, wanted: &Wanted) -> Judgement {
        let is_doubted = self.is_doubted(wanted.id);
        let there = match self.store.stat(&wanted.path) {
            Ok(stat) => stat,
            Err(error) if error.is_not_found() => return Judgement::Want,
            Err(error) => return Judgement::Refuse(self.refusal(error)),
        };
        self.found(true);
        if there.meta.kind == Kind::Dir {
            let reason = format!("{} is a directory at the target, and a file at the source", wanted.path);
            return Judgement::Refuse(Refusal::new(Fault::Storage, reason));
        }
        if there.meta.kind == Kind::Special {
            let reason = format!(
                "{} is a device, FIFO or socket at the target, which is never replaced (null: discards data, - is a pipe)",
                wanted.path
            );
            return Judgement::Refuse(Refusal::new(Fault::Storage, reason));
        }
        // Whoever may only create learns of what is there no more than that it is what they brought before.
        let sync = match (&self.policy.may_replace, self.policy.options.sync) {
            (Ok(()), sync) => sync,
            (Err(_), Sync::None) => Sync::None,
            (Err(_), _) => Sync::Mtime,
        };
        match sync {
            _ if there.meta.kind != Kind::File => {}
            // What an earlier attempt left of it says that it is not what is there.
            Sync::Digest if there.meta.size == wanted.size && !self.has_rest(wanted) => match self.digest_of(wanted) {
                Ok(digest) => return Judgement::WantUnless(digest),
                Err(error) => return Judgement::Refuse(self.refusal(error)),
            },
            _ if is_same(sync, &there, wanted, self.store.capabilities().times) => {
                // Where bytes rest with a server, to read them back would cost the path as much as to send them.
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

    /// Brings the facts of a file up to date whose data is there.
    pub(super) fn refresh_file(&self, wanted: &Wanted) -> Result<(), Refusal> {
        self.refresh(&wanted.path, &self.facts(wanted.mode, wanted.mtime, wanted.attributes.as_deref()))
    }

    /// Brings the facts of what is there up to date, or says in a dry run that it would: mode, time, owner, attributes and ACL. Not
    /// where an entry of that name is enough, nor for whoever may not change what is there.
    fn refresh(&self, path: &RelPath, facts: &store::Facts<'_>) -> Result<(), Refusal> {
        if !self.policy.replaces() || self.policy.options.sync == Sync::Exists {
            return Ok(());
        }
        let changed = match self.policy.options.dry_run {
            true => self.store.differs(path, facts),
            false => self.store.refresh(path, facts),
        };
        self.refreshed.fetch_add(u64::from(changed.map_err(|e| self.refusal(e))?), Ordering::Relaxed);
        Ok(())
    }

    fn digest_of(&self, wanted: &Wanted) -> store::Result<Digest> {
        let (path, algorithm) = (&wanted.path, wanted.compare_by);
        let _busy = self.busy_with(format!("making the digest of {path} at the target"));
        let mut digests = self.store.digests(path, &[algorithm])?;
        if digests.is_empty() {
            let source = self.store.open(path)?;
            digests = store::digest::of_file(&*source, path, &[algorithm])?;
        }
        Ok(digests.first().copied().unwrap_or_else(|| Digest::crc32c(0)))
    }
}

/// Whether a file that is there counts as the one that is offered. Where a store keeps no times, one that was written after
/// the source was last changed, to the second, is as good as one of the same time: nothing else can be known without reading
/// it.
fn is_same(sync: Sync, there: &Stat, wanted: &Wanted, keeps_times: bool) -> bool {
    if wanted.size == UNKNOWN_SIZE {
        return sync == Sync::Exists;
    }
    let (ours, theirs) = (there.meta.mtime, wanted.mtime);
    // A file system that keeps whole seconds only cannot be expected to show more.
    let same_time = ours == theirs || ours.nanos == 0 && ours.seconds == theirs.seconds;
    let same_time = same_time || !keeps_times && ours.seconds >= theirs.seconds;
    match sync {
        Sync::None => false,
        Sync::Exists => true,
        Sync::Size => there.meta.size == wanted.size,
        Sync::Mtime => there.meta.size == wanted.size && same_time,
        Sync::Digest => false,
    }
}
