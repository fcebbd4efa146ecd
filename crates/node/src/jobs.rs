//! The jobs on this node: sessions of its clients, and delegated transfers. The holder who began a job may see and change it; the
//! operator may see and change all jobs, over the node's own socket.
//!
//! This is not an `OrderTable`: nothing waits here, one id may have two parts, a second attempt replaces the first, and the control
//! of a job says whether it has ended. Ended jobs are removed in the same order as there (`Retention`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::control::Control;
use model::fault::Fault;
use model::id::Uuid;
use model::{Refusal, v1};
use parking_lot::{Condvar, Mutex, MutexGuard};
use wire::frame::JobName;

use crate::retention::Retention;

/// How long an earlier attempt at the same job may take to end.
const TAKEOVER: Duration = Duration::from_secs(10);
/// Delegated transfers that have ended and are still listed.
const ENDED_MAX: usize = 1000;
/// The most bytes of the failures in the receipt of an ended transfer, and the bytes that a failure counts besides its texts.
const FAILURES_BYTES_MAX: usize = 128 << 10;
const FAILURE_BYTES: usize = 128;

/// The role of delegated transfers.
const DELEGATED: &str = "carry";

/// The id and role of a part of a job: a node may be the target of a delegated transfer that it runs itself.
type Key = (JobName, &'static str);

struct Entry {
    control: Control,
    holder: String,
    number: u64,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    next: u64,
}

/// The table of jobs. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<SharedTable>);

#[derive(Default)]
struct SharedTable {
    table: Mutex<Table>,
    /// Notified when an entry is removed.
    removed: Condvar,
}

/// Removes a job's entry from the table when dropped.
struct EntryGuard {
    jobs: Jobs,
    key: Key,
    number: u64,
}

impl Drop for EntryGuard {
    fn drop(&mut self) {
        let mut table = self.jobs.table();
        if table.entries.get(&self.key).is_some_and(|entry| entry.number == self.number) {
            table.entries.remove(&self.key);
        }
        self.jobs.0.removed.notify_all();
    }
}

/// Removes ended jobs until there is room for another one: each time the oldest of the holder with the most.
fn make_room(table: &mut Table) {
    let mut retention = Retention::default();
    let ended = table.entries.values().filter(|entry| entry.control.has_ended());
    ended.for_each(|entry| retention.add(&entry.holder, entry.number, 0));
    while let Some(number) = retention.take_beyond(ENDED_MAX - 1, 0) {
        table.entries.retain(|_, entry| entry.number != number);
    }
}

/// The receipt of an ended job as it is listed: of very many failures it holds only the first.
pub(crate) fn brief(receipt: &v1::Receipt) -> v1::Receipt {
    let mut left = FAILURES_BYTES_MAX;
    let fits = |miss: &&v1::Miss| {
        let bytes = miss.path.len() + miss.reason.len() + FAILURE_BYTES;
        left = left.saturating_sub(bytes);
        left > 0
    };
    let failures = receipt.failures.iter().take_while(fits).cloned().collect();
    v1::Receipt { failures, ..receipt.clone() }
}

fn unknown(job: &JobName) -> Refusal {
    let job = Uuid::from_bytes(*job);
    Refusal::new(Fault::Missing, format!("there is no job {job} here, or this key may not see it"))
}

impl Jobs {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock()
    }

    /// Begins a job. An earlier attempt at it is cancelled first: its connection has broken, and the node has not noticed yet.
    ///
    /// # Errors
    /// The job is another holder's, or the earlier attempt does not end in time.
    pub fn begin(
        &self,
        job: JobName,
        role: &'static str,
        holder: &str,
        control: &Control,
    ) -> Result<Box<dyn Send>, Refusal> {
        let key = (job, role);
        let deadline = Instant::now() + TAKEOVER;
        let mut table = self.table();
        while let Some(before) = table.entries.get(&key) {
            if before.holder != holder {
                return Err(Refusal::new(Fault::Auth, "a job of this name belongs to another client"));
            }
            before.control.cancel();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = "an earlier attempt at this job has not ended yet (is its storage stuck?)";
                return Err(Refusal::new(Fault::Path, reason));
            }
            self.0.removed.wait_for(&mut table, left);
        }
        let number = self.insert(&mut table, key, holder, control);
        Ok(Box::new(EntryGuard { jobs: self.clone(), key, number }))
    }

    fn insert(&self, table: &mut Table, key: Key, holder: &str, control: &Control) -> u64 {
        table.next += 1;
        let number = table.next;
        table.entries.insert(key, Entry { control: control.clone(), holder: holder.to_owned(), number });
        number
    }

    /// Adds a job that is listed after its end as well. Returns `false` if it is known already.
    pub fn add_lasting(&self, job: JobName, role: &'static str, holder: &str, control: &Control) -> bool {
        let mut table = self.table();
        if table.entries.contains_key(&(job, role)) {
            return false;
        }
        make_room(&mut table);
        self.insert(&mut table, (job, role), holder, control);
        true
    }

    /// Delegated transfers with higher numbers than `number`: number, holder and control of each, in order.
    pub fn delegated_after(&self, number: u64) -> Vec<(u64, String, Control)> {
        let table = self.table();
        let new = table.entries.iter().filter(|(key, entry)| key.1 == DELEGATED && entry.number > number);
        let mut new: Vec<_> = new.map(|(_, e)| (e.number, e.holder.clone(), e.control.clone())).collect();
        new.sort_by_key(|(number, ..)| *number);
        new
    }

    /// The jobs that a holder may know of, oldest first; all of them for the operator.
    pub fn list(&self, job: Option<&JobName>, holder: Option<&str>) -> Vec<v1::Transfer> {
        let table = self.table();
        let known = |(key, entry): &(&Key, &Entry)| {
            job.is_none_or(|job| key.0 == *job) && holder.is_none_or(|holder| entry.holder == holder)
        };
        let mut found: Vec<_> = table.entries.iter().filter(known).collect();
        found.sort_by_key(|(_, entry)| entry.number);
        found.into_iter().map(|(_, entry)| entry.control.show()).collect()
    }

    /// Changes all parts of a job on this node.
    ///
    /// # Errors
    /// The holder has no such job that is running.
    pub fn change(&self, job: &JobName, holder: Option<&str>, change: &v1::Change) -> Result<(), Refusal> {
        let table = self.table();
        let known = |(key, entry): &(&Key, &Entry)| {
            key.0 == *job && holder.is_none_or(|holder| entry.holder == holder) && !entry.control.has_ended()
        };
        let controls: Vec<Control> = table.entries.iter().filter(known).map(|(_, e)| e.control.clone()).collect();
        drop(table);
        if controls.is_empty() {
            return Err(unknown(job));
        }
        controls.iter().for_each(|control| control.change(change));
        Ok(())
    }

    /// The number of jobs that have not ended.
    pub fn under_way(&self) -> u64 {
        self.table().entries.values().filter(|entry| !entry.control.has_ended()).count() as u64
    }

    /// Cancels all jobs.
    pub fn cancel_all(&self) {
        self.table().entries.values().for_each(|entry| entry.control.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::control::Label;
    use model::spec::LiveSettings;

    fn control() -> Control {
        Control::new(Label::default(), LiveSettings::default(), Arc::default())
    }

    #[test]
    fn only_the_holder_of_a_job_and_the_operator_change_it() {
        let jobs = Jobs::default();
        let mine = control();
        let guard = jobs.begin([1; 16], "receive", "me", &mine).unwrap();
        assert_eq!(jobs.list(None, Some("me")).len(), 1);
        assert_eq!(jobs.list(None, Some("you")).len(), 0);
        assert_eq!(jobs.list(None, None).len(), 1, "the operator");
        let pause = v1::Change { paused: Some(true), ..v1::Change::default() };
        assert!(jobs.change(&[1; 16], Some("you"), &pause).is_err());
        jobs.change(&[1; 16], Some("me"), &pause).unwrap();
        assert!(mine.settings().0.paused);
        assert!(jobs.begin([1; 16], "receive", "you", &control()).is_err());
        assert!(jobs.begin([1; 16], "carry", "me", &control()).is_ok());
        drop(guard);
        assert!(jobs.change(&[1; 16], None, &pause).is_err());
    }

    #[test]
    fn a_later_attempt_at_a_job_ends_the_earlier() {
        let jobs = Jobs::default();
        let first = control();
        let guard = jobs.begin([1; 16], "receive", "me", &first).unwrap();
        let ending = first.clone();
        let waiter = std::thread::spawn(move || {
            while !ending.is_cancelled() {
                std::thread::yield_now();
            }
            drop(guard);
        });
        let second = jobs.begin([1; 16], "receive", "me", &control()).unwrap();
        waiter.join().unwrap();
        assert_eq!(jobs.list(None, None).len(), 1);
        drop(second);
        assert_eq!(jobs.list(None, None).len(), 0);
    }

    #[test]
    fn ended_jobs_are_listed_up_to_a_bound() {
        let jobs = Jobs::default();
        for n in 0..ENDED_MAX + 10 {
            let control = control();
            assert!(jobs.add_lasting((n as u128).to_be_bytes(), "carry", "me", &control));
            assert!(!jobs.add_lasting((n as u128).to_be_bytes(), "carry", "me", &control));
            control.end(None);
        }
        assert_eq!(jobs.list(None, None).len(), ENDED_MAX);
        assert_eq!(jobs.list(Some(&[0; 16]), None).len(), 0, "the oldest went");
    }
}
