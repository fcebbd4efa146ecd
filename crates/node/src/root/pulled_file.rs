//! Third-party copies to this node: a client opens the target with a key, and the node gets the file from the source by that key. The
//! client syncs the file twice: the first time both sides agree, the second time the copy runs, and the answer follows at its end.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::checksum::Digest;
use model::{Algorithm, RelPath};
use parking_lot::{Condvar, Mutex};
use remote::root::{ReadInterrupter, RootSettings, WholeRead};
use remote::{Redirects, Root};
use web::Dialer;
use xroot::entry::EntryFacts;
use xroot::third_party::CopySource;
use xroot::{ErrorCode, RootAnswer, RootPath, RootUrl};

use super::RootService;
use super::failure::{self, RootFailure, RootOutcome, refuse};
use super::native_pull;
use super::written_file::WrittenFile;
use crate::copies::native::NativeCopy;
use crate::copies::progress::CopyProgress;

/// Copies at once.
const COPIES_MAX: usize = 64;
/// Timeout for a connection to a source, and for a byte of it: the file may have to come from tape.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(600);
/// The longest wait for a cancelled copy: its storage may be stuck.
const END_WITHIN: Duration = Duration::from_secs(30);

/// A file that the node gets from another server.
pub(super) struct PulledFile {
    file: Mutex<WrittenFile>,
    source: RootUrl,
    size: Option<u64>,
    checksum: Option<Digest>,
    state: Mutex<PullState>,
    /// Notified when the copy has ended.
    ended: Condvar,
    progress: CopyProgress,
    /// Ends the read of the source, while it runs.
    interrupter: Mutex<Option<ReadInterrupter>>,
}

/// How far the copy is.
#[derive(Default)]
enum PullState {
    /// The client has opened the target.
    #[default]
    Open,
    /// It has synced it once, and goes to announce the copy at the source.
    Agreed,
    Running,
    Ended(Result<CopiedFile, (ErrorCode, String)>),
}

/// Where the file is when its copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopiedFile {
    /// It gets its name when the client closes it.
    Unnamed,
    /// The native engine has given it its name.
    Named,
}

/// What follows from a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    /// Nothing more.
    Done,
    /// The copy begins now.
    Begins,
}

/// The copies that run.
#[derive(Default)]
pub(super) struct RunningCopies(AtomicUsize);

/// The place of one copy among those that run.
struct CopyPermit<'a>(&'a AtomicUsize);

impl Drop for CopyPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RunningCopies {
    fn permit(&self) -> Option<CopyPermit<'_>> {
        let permit = CopyPermit(&self.0);
        (self.0.fetch_add(1, Ordering::Relaxed) < COPIES_MAX).then_some(permit)
    }
}

fn cancelled() -> RootFailure {
    refuse(ErrorCode::Cancelled, "the third-party copy was cancelled")
}

/// The address of the source, with the key by which this node opens the file there.
///
/// # Errors
/// The client delegates a credential, which this node does not take, or the address is wrong.
pub(super) fn source_address(source: &CopySource, target: &RootPath, origin: &str) -> RootOutcome<RootUrl> {
    let Some(key) = source.key.as_deref().filter(|_| !source.is_delegated) else {
        // With this number clients copy by themselves.
        return Err(refuse(ErrorCode::FileSystem, "tpc not supported: this node takes no delegated credentials"));
    };
    let scheme = match source.scheme.as_deref() {
        None | Some("root" | "xroot") => "root",
        Some("roots" | "xroots") => "roots",
        Some(other) => {
            let reason =
                format!("tpc not supported: a copy by root:// has its source at root:// or roots://, not {other}://");
            return Err(refuse(ErrorCode::FileSystem, reason));
        }
    };
    let wrong =
        |_| refuse(ErrorCode::ArgInvalid, "the third-party copy names no source: tpc.src=HOST:PORT, tpc.lfn=PATH");
    let mut address = RootUrl::parse(&format!("{scheme}://{}//", source.host)).map_err(wrong)?;
    let path = match &source.path {
        Some(path) => RootPath::parse(path.as_bytes())?.path,
        None => target.path.clone(),
    };
    let with_own = source.parameters.iter().fold(RootPath::new(path), |place, (name, value)| place.with(name, value));
    address.place = with_own.with("tpc.key", key).with("tpc.org", origin);
    Ok(address)
}

/// The digest that a client states: `ALGORITHM:VALUE`. A name alone states none: the client compares by itself.
///
/// # Errors
/// The node does not know the algorithm.
fn stated_digest(text: &str) -> RootOutcome<Option<Digest>> {
    let Some((name, value)) = text.split_once(':').filter(|(_, value)| !value.is_empty()) else { return Ok(None) };
    let known: Option<Digest> = name.parse::<Algorithm>().ok().and_then(|_| format!("{name}:{value}").parse().ok());
    known
        .map(Some)
        .ok_or_else(|| refuse(ErrorCode::ArgInvalid, format!("{name}:{value} is no checksum that this node knows")))
}

/// The host of a client as servers of XRootD write it, which compare it letter by letter: the name that the system has for the address of a
/// connection, or the address in brackets. They listen for IPv6, where an IPv4 address is a mapped one, with a name of its own or none.
pub(super) fn host_of(address: IpAddr) -> String {
    let address = match address {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        v6 @ IpAddr::V6(_) => v6,
    };
    let name = dns_lookup::lookup_addr(&address).unwrap_or_else(|_| address.to_string()).to_lowercase();
    if name.contains(':') { format!("[{}]", name.split('%').next().unwrap_or_default()) } else { name }
}

impl PulledFile {
    /// A file that is open to be pulled.
    ///
    /// # Errors
    /// The checksum of the client is of an unknown kind.
    pub fn new(file: WrittenFile, source: &CopySource, address: RootUrl) -> RootOutcome<PulledFile> {
        Ok(PulledFile {
            file: Mutex::new(file),
            source: address,
            size: source.size,
            checksum: source.checksum.as_deref().map_or(Ok(None), stated_digest)?,
            state: Mutex::default(),
            ended: Condvar::new(),
            progress: CopyProgress::default(),
            interrupter: Mutex::default(),
        })
    }

    /// The file as far as it has come.
    pub fn file(&self) -> &Mutex<WrittenFile> {
        &self.file
    }

    /// Its facts so far.
    pub fn facts(&self) -> EntryFacts {
        let facts = self.file.lock().facts();
        EntryFacts { size: facts.size.max(self.progress.bytes()), ..facts }
    }

    /// The address of the source, without the key.
    pub fn source_shown(&self) -> String {
        self.source.redacted()
    }

    /// Ends the copy, if it runs, also while its source is silent.
    pub fn cancel(&self) {
        self.progress.cancel();
        self.interrupter.lock().iter().for_each(ReadInterrupter::interrupt);
    }

    /// Ends the copy, and waits until that has happened. Returns whether the file has its name all the same.
    pub fn end(&self) -> bool {
        self.cancel();
        let mut state = self.state.lock();
        let deadline = Instant::now() + END_WITHIN;
        while matches!(*state, PullState::Running) && !self.ended.wait_until(&mut state, deadline).timed_out() {}
        matches!(*state, PullState::Ended(Ok(CopiedFile::Named)))
    }

    fn is_cancelled(&self, service: &RootService) -> bool {
        self.progress.is_cancelled() || service.services.is_stopping()
    }

    /// Gives the file its name, if the copy has ended well.
    ///
    /// # Errors
    /// It has not, or the store cannot commit the file.
    pub fn commit(&self, service: &RootService) -> RootOutcome<()> {
        if self.end() {
            return Ok(());
        }
        match &*self.state.lock() {
            PullState::Ended(Ok(_)) => self.file.lock().commit(service),
            PullState::Ended(Err((code, reason))) => Err(refuse(*code, reason.clone())),
            PullState::Open | PullState::Agreed | PullState::Running => {
                Err(refuse(ErrorCode::Cancelled, "the file was closed before its third-party copy had ended"))
            }
        }
    }

    /// Takes a sync of the client: the first one agrees to the copy, the second one begins it.
    ///
    /// # Errors
    /// The copy runs, or has failed.
    pub fn sync(&self) -> RootOutcome<SyncOutcome> {
        let mut state = self.state.lock();
        match &*state {
            PullState::Open => {
                *state = PullState::Agreed;
                Ok(SyncOutcome::Done)
            }
            PullState::Agreed => {
                *state = PullState::Running;
                Ok(SyncOutcome::Begins)
            }
            PullState::Running => Err(refuse(ErrorCode::InProgress, "the third-party copy is under way")),
            PullState::Ended(Ok(_)) => Ok(SyncOutcome::Done),
            PullState::Ended(Err((code, reason))) => Err(refuse(*code, reason.clone())),
        }
    }

    /// The copy that was to begin has not: the client may sync again.
    pub fn has_not_begun(&self) {
        *self.state.lock() = PullState::Agreed;
    }

    /// Gets the file; returns the answer to the sync that began the copy.
    pub fn run(&self, service: &RootService) -> RootAnswer {
        let ended = match self.pull(service) {
            Ok(copied) => Ok(copied),
            Err(RootFailure::Refused(code, reason)) => Err((code, reason)),
            Err(RootFailure::Broken(error)) => Err((ErrorCode::Server, error.to_string())),
        };
        let answer = match &ended {
            Ok(_) => RootAnswer::Ok(Vec::new()),
            Err((code, reason)) => failure::answer(*code, reason),
        };
        *self.state.lock() = PullState::Ended(ended);
        self.ended.notify_all();
        answer
    }

    fn pull(&self, service: &RootService) -> RootOutcome<CopiedFile> {
        let Some(_permit) = service.copies.permit() else {
            let reason = format!("{COPIES_MAX} third-party copies run on this node; try again later");
            return Err(refuse(ErrorCode::Overloaded, reason));
        };
        let source = self.open_source(service)?;
        let size = source.size();
        if let Some(stated) = self.size.filter(|stated| *stated != size) {
            let reason = format!("the source has {size} bytes, and the client announced {stated}");
            return Err(refuse(ErrorCode::Conflict, reason));
        }
        *self.interrupter.lock() = source.interrupter().ok();
        let copied = self.copy_from(service, source);
        self.interrupter.lock().take();
        copied
    }

    fn open_source(&self, service: &RootService) -> RootOutcome<WholeRead> {
        let dialling = service.dialling.load_full();
        let dialer = Dialer {
            tls: Arc::clone(&dialling.tls),
            guard: Arc::clone(&dialling.guard),
            prepare: None,
            connect: CONNECT_WITHIN,
            silence: SILENCE,
        };
        let settings = RootSettings {
            dialer,
            token: Arc::new(|| Ok(None)),
            redirects: Redirects::SameKind,
            patience: Duration::ZERO,
        };
        let path = self.source.place.path.clone();
        Ok(Root::new(settings, self.source.clone()).open_whole(&path)?)
    }

    fn copy_from(&self, service: &RootService, mut source: WholeRead) -> RootOutcome<CopiedFile> {
        // Whoever cancelled before the interrupter was there is noticed here.
        if self.is_cancelled(service) {
            return Err(cancelled());
        }
        // The native engine would give the file its name before the checksum that the client stated can be compared.
        if self.checksum.is_none()
            && let Some(copy) = native_pull::request(service, &mut source)
            && self.copy_natively(service, &copy, source.size())?
        {
            return Ok(CopiedFile::Named);
        }
        self.read(service, source)?;
        Ok(CopiedFile::Unnamed)
    }

    /// Gets the file, which has this size, by the native engine; `false` if that could not begin.
    fn copy_natively(&self, service: &RootService, copy: &NativeCopy, size: u64) -> RootOutcome<bool> {
        let destination = self.file.lock().destination();
        let copied = native_pull::run(copy, service, &destination, &self.progress);
        self.file.lock().received(self.progress.bytes());
        let Some(bytes) = copied? else { return Ok(false) };
        self.file.lock().count_file();
        if bytes != size {
            let reason = format!(
                "the source was replaced while it was copied: it had {size} bytes, and the file that is in place now has {bytes}"
            );
            return Err(refuse(ErrorCode::Conflict, reason));
        }
        Ok(true)
    }

    /// Gets the file by reading it.
    fn read(&self, service: &RootService, source: WholeRead) -> RootOutcome<()> {
        let size = source.size();
        self.file.lock().reserve()?;
        let mut taken = Ok(());
        let read = source.read(&mut |offset, bytes| {
            taken = self.take(service, offset, bytes);
            taken.is_ok()
        });
        taken?;
        if self.is_cancelled(service) {
            return Err(cancelled());
        }
        read?;
        self.compare(size)
    }

    /// Writes bytes of the source.
    fn take(&self, service: &RootService, offset: u64, bytes: &[u8]) -> RootOutcome<()> {
        if self.is_cancelled(service) {
            return Err(cancelled());
        }
        let mut file = self.file.lock();
        file.write(bytes, offset)?;
        file.received(bytes.len() as u64);
        Ok(())
    }

    /// Compares the file with its size and the checksum that the client stated.
    fn compare(&self, size: u64) -> RootOutcome<()> {
        let (read_back, arrived) = {
            let file = self.file.lock();
            if self.checksum.is_none() {
                (None, file.facts().size)
            } else {
                let (source, arrived) = file.read_back()?;
                (Some(source), arrived)
            }
        };
        if arrived != size {
            return Err(refuse(ErrorCode::Io, format!("{arrived} bytes arrived of {size}")));
        }
        let (Some(stated), Some(source)) = (self.checksum, read_back) else { return Ok(()) };
        let found = store::digest::of_file(&*source, &RelPath::root(), &[stated.algorithm()])?;
        if found.contains(&stated) {
            return Ok(());
        }
        let found = found.first().map(ToString::to_string).unwrap_or_default();
        Err(refuse(
            ErrorCode::Checksum,
            format!("checksum mismatch: the copy has {found}, and the client states {stated}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> CopySource {
        let place = RootPath::parse(text.as_bytes()).unwrap();
        let Ok(Some(xroot::third_party::CopyRole::Target(source))) = xroot::third_party::CopyRole::of(&place) else {
            panic!("{text} is no target")
        };
        source
    }

    #[test]
    fn the_address_of_a_source_has_the_key_and_the_client() {
        let target = RootPath::parse(b"/data/t").unwrap();
        let found = source("/t?tpc.key=k1&tpc.src=src.example:2094&tpc.lfn=/data/f&tpc.spr=roots");
        let address = source_address(&found, &target, "ann.7@laptop").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.is_secure), ("src.example", 2094, true));
        assert_eq!(address.place.to_bytes(), b"/data/f?tpc.key=k1&tpc.org=ann.7@laptop");
        let delegated = source("/t?tpc.src=a:1&tpc.dlg=b:2&tpc.dlgon=1&tpc.lfn=/f");
        assert!(source_address(&delegated, &target, "").is_err());
        let other = source("/t?tpc.key=k1&tpc.src=a:1&tpc.spr=https");
        assert!(source_address(&other, &target, "").is_err());
    }

    #[test]
    fn a_stated_checksum_is_one_with_a_value() {
        assert_eq!(stated_digest("adler32").unwrap(), None);
        assert_eq!(stated_digest("adler32:091e01de").unwrap().unwrap().hex(), "091e01de");
        assert!(stated_digest("crc64:00").is_err());
    }
}
