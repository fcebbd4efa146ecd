//! Requests of the native protocol outside of jobs: stat, list, mkdir, remove, rename, digest; and those about jobs: to list them, to
//! change them, to delegate one.

use auth::Action;
use engine::node::{AnswerPart, Requester};
use model::entry::{Kind, Meta, Timestamp};
use model::fault::Fault;
use model::id::Uuid;
use model::locator::NodePlace;
use model::name::RelPath;
use model::v1::probe::{Task, Test, TestRequest};
use model::{Algorithm, Refusal};
use store::{Stat, Store};
use wire::frame::{Listed, Request};

use crate::access::{RENAME_STAYS, ResolvedPath, storage_refusal};
use crate::digests::{BUSY, Digests, NoDigest};
use crate::services::Services;

/// Sends an answer to the client; `false` says that the client has gone.
type Emit<'a> = &'a mut dyn FnMut(AnswerPart) -> bool;

/// Lines of a listing that are sent together.
const BATCH: usize = 256;

/// A request as text for the access log.
pub(crate) fn describe(request: &Request) -> String {
    match request {
        Request::Stat(at) => format!("stat {at}"),
        Request::List(at) => format!("ls {at}"),
        Request::Mkdir(at) => format!("mkdir {at}"),
        Request::Remove(at, _) => format!("rm {at}"),
        Request::Rename(from, to) => format!("mv {from} {to}"),
        Request::Digest(at, _) => format!("digest {at}"),
        Request::KeyFor { job, place, .. } => format!("key for job {} to {place}", Uuid::from_bytes(*job)),
        Request::Carry(delegation) => {
            format!("carry job {} to {}", Uuid::from_bytes(delegation.order.job), delegation.to)
        }
        Request::Jobs(job) => job.map_or("jobs".into(), |job| format!("job {}", Uuid::from_bytes(job))),
        Request::Probe(ask) => describe_test(ask),
        Request::Change(job, _) => format!("change job {}", Uuid::from_bytes(*job)),
    }
}

/// A description of a test for the access log.
fn describe_test(ask: &str) -> String {
    match serde_json::from_str::<TestRequest>(ask).map(|ask| ask.test) {
        Ok(Test::Tcp(order)) => format!("probe tcp {}, {} streams", order.direction.word(), order.streams),
        Ok(Test::Flows(flows)) => format!("probe {}, {} flows", task_word(&flows.task), flows.flows),
        Ok(Test::Disk(ask)) => format!("probe disk {}", ask.place),
        Ok(Test::Limits) => "probe limits".into(),
        Ok(Test::Audit(_)) => "audit of the settings".into(),
        Ok(Test::Claim(claim)) => format!("probe claim, {} s", claim.seconds),
        Err(_) => "probe of an unknown kind".into(),
    }
}

fn task_word(task: &Task) -> &'static str {
    match task {
        Task::Reflect { .. } => "latency",
        Task::Receive { .. } => "udp forward",
        Task::Send { .. } => "udp reverse",
        Task::Answer { .. } => "udp request",
        Task::Echo { .. } => "path forward",
        Task::Explore(_) => "path reverse",
    }
}

/// Answers a request.
///
/// # Errors
/// The principal lacks the right, or the request fails; the refusal says why.
pub(crate) fn answer(
    services: &Services,
    requester: &Requester<'_>,
    request: &Request,
    emit: Emit<'_>,
) -> Result<(), Refusal> {
    let access = requester.access;
    match request {
        Request::List(NodePlace::Exports) | Request::Stat(NodePlace::Exports) => {
            let line =
                |name: &str| Listed::plain(RelPath::parse(name.as_bytes()).unwrap_or_default(), dir_meta(), None);
            emit(AnswerPart::Lines(services.access.visible(access).iter().map(|name| line(name)).collect()));
            Ok(())
        }
        Request::Stat(place) => {
            let ResolvedPath { store, path, .. } = services.access.resolve(access, Action::Read, place)?;
            let stat = store.stat(&path).map_err(storage_refusal)?;
            emit(AnswerPart::Lines(vec![listed(&*store, &path, RelPath::root(), &stat)]));
            Ok(())
        }
        Request::List(place) => {
            let ResolvedPath { store, path, .. } = services.access.resolve(access, Action::Read, place)?;
            list(&*store, &path, emit)
        }
        Request::Mkdir(place) => {
            let ResolvedPath { store, path, .. } = services.access.resolve(access, Action::Create, place)?;
            store::make_dirs(&*store, &path).map_err(storage_refusal)
        }
        Request::Remove(place, below) => remove(services, requester, place, *below),
        Request::Rename(from, to) => {
            let source = services.access.resolve(access, Action::Modify, from)?;
            let target = services.access.resolve(access, Action::Modify, to)?;
            check_not_root(&source.path, "renamed")?;
            if !source.shares_root(&target) {
                return Err(Refusal::new(Fault::Config, RENAME_STAYS));
            }
            // Into an existing directory, as mv does.
            let from = &source.path;
            let to = target.path;
            let into = target.store.is_dir(&to) && to != *from;
            let to = from.name().filter(|_| into).map_or_else(|| to.clone(), |name| to.join(&name));
            // An existing file is replaced, as mv does.
            source.store.rename(from, &to, true).map_err(storage_refusal)
        }
        Request::Digest(place, algorithms) => {
            let ResolvedPath { store, path, .. } = services.access.resolve(access, Action::Read, place)?;
            let stat = store.stat(&path).map_err(storage_refusal)?;
            let work =
                DigestWork { digests: &services.digests, store: &*store, algorithms, is_gone: requester.is_gone };
            work.tree(&path, &RelPath::root(), &stat, emit).map(drop)
        }
        Request::KeyFor { job, place, delete } => {
            emit(AnswerPart::Text(services.access.transfer_key(access, job, place, *delete)?.expose_text()));
            Ok(())
        }
        Request::Carry(delegation) => services.transfers.accept_native(access, delegation),
        Request::Jobs(job) => {
            for job in services.jobs.list(job.as_ref(), Some(access.holder())) {
                let text = job_message(job).map_err(|e| Refusal::new(Fault::Bug, e.to_string()))?;
                if !emit(AnswerPart::Text(text)) {
                    break;
                }
            }
            Ok(())
        }
        Request::Change(job, change) => services.jobs.change(job, Some(access.holder()), change),
        Request::Probe(_) => Err(Refusal::new(Fault::Bug, "a test must be answered by the test service")),
    }
}

/// Removes an entry, with the entries below it if `below` is set.
fn remove(services: &Services, requester: &Requester<'_>, place: &NodePlace, below: bool) -> Result<(), Refusal> {
    let ResolvedPath { store, path, .. } = services.access.resolve(requester.access, Action::Modify, place)?;
    check_not_root(&path, "removed")?;
    let removed = if below {
        store::remove_all_while(&*store, &path, &|| !(requester.is_gone)()).map(drop)
    } else {
        store.remove(&path)
    };
    removed.map_err(storage_refusal)
}

/// A job as one message, with only the first of very many failures.
fn job_message(mut job: model::v1::Transfer) -> serde_json::Result<String> {
    let text = serde_json::to_string(&job)?;
    match &mut job.receipt {
        Some(receipt) if text.len() > wire::limits::ANSWER_LINE_BYTES_MAX => {
            receipt.failures.truncate(20);
            serde_json::to_string(&job)
        }
        _ => Ok(text),
    }
}

fn check_not_root(path: &RelPath, what: &str) -> Result<(), Refusal> {
    if path.is_root() {
        return Err(Refusal::new(
            Fault::Auth,
            format!(
                "the root of an export, or of the part that a key opens, cannot be {what}; only entries below it can"
            ),
        ));
    }
    Ok(())
}

fn dir_meta() -> Meta {
    Meta { kind: Kind::Dir, mode: 0o755, size: 0, mtime: Timestamp::default() }
}

fn listed(store: &dyn Store, path: &RelPath, shown: RelPath, stat: &Stat) -> Listed {
    let link = if stat.meta.kind == Kind::Symlink { store.read_link(path).ok() } else { None };
    Listed::plain(shown, stat.meta, link)
}

fn list(store: &dyn Store, path: &RelPath, emit: Emit<'_>) -> Result<(), Refusal> {
    if !store.is_dir(path) {
        let stat = store.stat(path).map_err(storage_refusal)?;
        let name = path.name().map(|name| RelPath::root().join(&name)).unwrap_or_default();
        emit(AnswerPart::Lines(vec![listed(store, path, name, &stat)]));
        return Ok(());
    }
    let mut batch = Vec::new();
    for entry in store.list(path).map_err(storage_refusal)?.finished() {
        let (name, stat) = entry.map_err(storage_refusal)?;
        let shown = RelPath::root().join(&name);
        batch.push(match stat {
            Ok(stat) => listed(store, &path.join(&name), shown, &stat),
            Err(error) => failed(shown, storage_refusal(error)),
        });
        if batch.len() >= BATCH && !emit(AnswerPart::Lines(std::mem::take(&mut batch))) {
            return Ok(());
        }
    }
    emit(AnswerPart::Lines(batch));
    Ok(())
}

fn failed(shown: RelPath, refusal: Refusal) -> Listed {
    let meta = Meta { kind: Kind::Special, mode: 0, size: 0, mtime: Timestamp::default() };
    Listed { failure: Some(refusal), ..Listed::plain(shown, meta, None) }
}

/// The computation of digests for a waiting client.
struct DigestWork<'a> {
    digests: &'a Digests,
    store: &'a dyn Store,
    algorithms: &'a [Algorithm],
    is_gone: &'a dyn Fn() -> bool,
}

impl DigestWork<'_> {
    /// Digests of a file, or of every file below a directory; `false` if the client has gone.
    fn tree(&self, path: &RelPath, shown: &RelPath, stat: &Stat, emit: Emit<'_>) -> Result<bool, Refusal> {
        match stat.meta.kind {
            Kind::File => self.file(path, shown, stat, emit),
            Kind::Dir => {
                // A list instead of recursion: a path can be 2,000 levels deep, which would overflow a thread's stack.
                let mut dirs = vec![(path.clone(), shown.clone())];
                while let Some((path, shown)) = dirs.pop() {
                    if !self.directory(&path, &shown, &mut dirs, emit)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    /// Digests of the files of one directory; its subdirectories are added to `left`. A listing holds a descriptor, so it ends before
    /// they are opened.
    fn directory(
        &self,
        path: &RelPath,
        shown: &RelPath,
        left: &mut Vec<(RelPath, RelPath)>,
        emit: Emit<'_>,
    ) -> Result<bool, Refusal> {
        let known = left.len();
        for entry in self.store.list(path).map_err(storage_refusal)?.finished() {
            let (name, stat) = entry.map_err(storage_refusal)?;
            let (path, shown) = (path.join(&name), shown.join(&name));
            let continues = match stat {
                Ok(stat) if stat.meta.kind == Kind::Dir => {
                    left.push((path, shown));
                    true
                }
                Ok(stat) => self.tree(&path, &shown, &stat, emit)?,
                Err(error) => emit(AnswerPart::Lines(vec![failed(shown, storage_refusal(error))])),
            };
            if !continues || (self.is_gone)() {
                return Ok(false);
            }
        }
        // The caller takes the last element first.
        left[known..].reverse();
        Ok(true)
    }

    fn file(&self, path: &RelPath, shown: &RelPath, stat: &Stat, emit: Emit<'_>) -> Result<bool, Refusal> {
        let source = self.store.open(path);
        let made = source
            .map_err(NoDigest::Store)
            .and_then(|source| self.digests.read(&*source, path, self.algorithms, self.is_gone));
        let line = match made {
            Ok(digests) => Listed { digests, ..Listed::plain(shown.clone(), stat.meta, None) },
            Err(NoDigest::Store(error)) => failed(shown.clone(), storage_refusal(error)),
            Err(NoDigest::Busy) => return Err(Refusal::new(Fault::Path, BUSY)),
            Err(NoDigest::Gone) => return Ok(false),
        };
        Ok(emit(AnswerPart::Lines(vec![line])))
    }
}
