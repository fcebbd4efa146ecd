//! A copy between two Longhaul nodes by the native engine, with as many streams as the path needs.
//!
//! The other node delegates a key for the one file, by the client's credentials for that node. A copy that cannot begin this way
//! goes by the protocol in which it was ordered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::AccessKey;
use engine::Trust;
use engine::control::{Control, Label};
use engine::receive::TargetPlace;
use engine::scan::SourceRoot;
use engine::session::{Connect, Session, SessionParts};
use engine::transfer::{Ends, Transfer, TransferEvent};
use model::fault::Blame;
use model::id::{JobId, Uuid};
use model::locator::NodePlace;
use model::spec::{LiveSettings, Options, Sync};
use model::{Algorithm, Digest, Fault, HostPort};

use super::progress::{CopyProgress, Failure};
use crate::access::ResolvedPath;
use crate::digests::Stamp;
use crate::services::Services;

/// How long a copy without progress is tried again; after that FTS tries again itself.
const RETRY_FOR: Duration = Duration::from_secs(60);

/// A native copy that can begin: the other node and the key to it.
pub(crate) struct NativeCopy {
    key: AccessKey,
    place: NodePlace,
    at: HostPort,
    address: SocketAddr,
    plain: bool,
    job: Uuid,
    /// Checks every address that is dialled: the other node may advertise further ones.
    guard: Arc<web::client::Guard>,
}

/// The result of a native copy.
pub(crate) struct CopyResult {
    pub bytes: u64,
    pub digests: Vec<Digest>,
}

impl NativeCopy {
    /// The copy of the file that a key is for; the other node has sent it from `address`. With `plain`, payload may go in clear.
    pub fn new(
        (key, place): (AccessKey, NodePlace),
        address: SocketAddr,
        plain: bool,
        job: Uuid,
        guard: Arc<web::client::Guard>,
    ) -> NativeCopy {
        let at = HostPort { host: address.ip().to_canonical().to_string(), port: address.port() };
        NativeCopy { key, place, at, address, plain, job, guard }
    }

    /// The address of the other node.
    pub fn at(&self) -> SocketAddr {
        self.address
    }

    fn session(&self) -> engine::Result<Session> {
        let trust = Trust::Fingerprints(vec![self.key.node]);
        let keys = std::slice::from_ref(&self.key);
        let guard = Arc::clone(&self.guard);
        let guard: Arc<engine::dial::Guard> = Arc::new(move |ip| guard(&SocketAddr::new(ip, 0)));
        Session::connect(&self.at, &Connect { plain: self.plain, guard: Some(guard), ..Connect::new(trust, keys)? })
    }

    fn run(
        &self,
        services: &Services,
        holder: &str,
        progress: &CopyProgress,
        ends: Ends<'_>,
        overwrite: bool,
    ) -> Result<CopyResult, Failure> {
        let (source, target) = match &ends {
            Ends::Pull { .. } => (vec![format!("lh://{}/{}", self.at.host, self.place)], "here".to_owned()),
            Ends::Push { .. } => (vec!["here".to_owned()], format!("lh://{}/{}", self.at.host, self.place)),
        };
        let label = Label { id: self.job, role: "copy", source, target };
        let control = Control::new(label, LiveSettings::default(), Arc::default());
        let _entry = services.jobs.begin(*self.job.as_bytes(), "copy", holder, &control);
        progress.set_native(&control);
        let checksums = vec![Algorithm::Crc32c, Algorithm::Adler32];
        let options = Options { sync: Sync::None, no_overwrite: !overwrite, checksums, ..Options::default() };
        let transfer = Transfer {
            id: JobId(self.job),
            options,
            congestion: None,
            session_parts: SessionParts {
                streams_max: services.access.policy().third_party.max_streams.into(),
                history: Some(services.access.history()),
                path_shares: Some(services.access.path_shares()),
                ..SessionParts::default()
            },
            ends,
            files: None,
            retry_for: RETRY_FOR,
            is_piped: false,
            begun: false,
            is_retry_useful: None,
            control: &control,
            keep: None,
        };
        let mut connect = || self.session();
        let mut note = |note: TransferEvent<'_>| {
            if let TransferEvent::Job(engine::job::JobEvent::Progress(reached, _)) = note {
                progress.set(reached.bytes_arrived);
            }
        };
        let done = transfer.run(&mut connect, &mut note).map_err(|error| of_engine(&error))?;
        let report = done.report;
        if let Some(error) = &report.error {
            return Err(of_engine(error));
        }
        if let Some(miss) = report.misses.first() {
            return Err(Failure::new(miss.refusal.fault, 500, miss.refusal.reason.clone()));
        }
        progress.set(report.totals.bytes);
        Ok(CopyResult { bytes: report.totals.bytes, digests: report.digests })
    }

    /// Copies the file to this node; `replace` says whether it may replace another one.
    ///
    /// # Errors
    /// The copy has failed.
    pub fn pull(
        &self,
        context: &NativeContext<'_>,
        progress: &CopyProgress,
        replace: bool,
    ) -> Result<CopyResult, Failure> {
        let resolved = context.resolved;
        let make = |options: &Options, waker| {
            let tag = engine::identity::random_tag()
                .map_err(|_| engine::Error::Order("the system gives no random numbers".into()))?;
            let opening = context.services.access.record_leftovers(resolved, &tag);
            let place = TargetPlace {
                before_unfinished_file: opening,
                ..TargetPlace::new(Arc::clone(&resolved.store), resolved.path.clone())
            };
            Ok(place.receive(options.clone(), tag, waker))
        };
        let ends = Ends::Pull { sources: vec![self.place.clone()], target: &make };
        let copied = self.run(&context.services, &context.holder, progress, ends, replace)?;
        context.keep_digests(&copied);
        Ok(copied)
    }

    /// Copies the file to the other node, whose key says whether it may replace another one there.
    ///
    /// # Errors
    /// The copy has failed.
    pub fn push(
        &self,
        context: &NativeContext<'_>,
        progress: &CopyProgress,
        overwrite: bool,
    ) -> Result<CopyResult, Failure> {
        let resolved = context.resolved;
        let name =
            resolved.path.name().ok_or_else(|| Failure::new(Fault::Config, 409, "the source of a copy is a file"))?;
        let sources = || {
            Ok(vec![SourceRoot { store: Arc::clone(&resolved.store), path: resolved.path.clone(), name: name.clone() }])
        };
        let ends = Ends::Push { sources: &sources, target: self.place.clone() };
        self.run(&context.services, &context.holder, progress, ends, overwrite)
    }
}

/// The parts of an order that a native copy needs.
pub(crate) struct NativeContext<'a> {
    pub services: Arc<Services>,
    pub holder: String,
    pub resolved: &'a ResolvedPath,
}

impl NativeContext<'_> {
    /// Keeps the digests of the file that was copied to this node, unless another one of another size has its name already.
    fn keep_digests(&self, CopyResult { bytes, digests }: &CopyResult) {
        let ResolvedPath { store, path, .. } = self.resolved;
        if let Ok((stat, source)) = store.open(path).and_then(|source| Ok((source.stat()?, source)))
            && stat.meta.size == *bytes
        {
            let stamp = Stamp { size: stat.meta.size, mtime: stat.meta.mtime, inode: stat.identity.1 };
            self.services.digests.keep(&*source, stat.identity, stamp, digests);
        }
    }
}

/// Whether the protocol of the order may succeed instead: no byte has moved, and the failure is not one of the copy itself.
pub(crate) fn may_fall_back(failure: &Failure, progress: &CopyProgress) -> bool {
    let is_final = matches!(failure.fault, Fault::Storage | Fault::Interrupted | Fault::Integrity | Fault::Missing);
    progress.bytes() == 0 && !progress.is_cancelled() && !is_final
}

/// An error of the engine as the failure of a copy.
fn of_engine(error: &engine::Error) -> Failure {
    let refusal = error.as_refusal();
    let status = match refusal.fault {
        Fault::Auth => 403,
        Fault::Missing => 404,
        Fault::Path => 504,
        Fault::Storage => 507,
        Fault::Interrupted => 499,
        _ => 502,
    };
    Failure { fault: error.fault(), retry: error.retry(), status, text: refusal.reason }
}
