//! Opening and closing files: rights, who else has the file open, and where its bytes go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use auth::Action;
use authn::Principal;
use model::{Kind, RelPath};
use parking_lot::Mutex;
use store::{Source, Stat};
use xroot::answer::OpenAnswer;
use xroot::codes::open_options;
use xroot::head::FileHandle;
use xroot::third_party::{CopyRole, CopySource};
use xroot::{ErrorCode, RootAnswer, RootPath, StreamId};

use super::announced::AnnouncedCopy;
use super::connection::RootConnection;
use super::failure::{self, RootFailure, RootOutcome, refuse};
use super::files::{ReadFile, RootFile};
use super::log::LoggedAction;
use super::mover_redirects::{FILE_BYTES_MIN, LargeFile, REDIRECTED};
use super::native_pull::FetchedFile;
use super::pulled_file::{self, PulledFile};
use super::resolved::{ExportPath, Resolved, export_and_path};
use super::written_file::{WriteOrder, WrittenFile};
use crate::access::{ResolvedPath, check_name};
use crate::authorization::Authorization;
use crate::fireflies::FlowGuard;
use crate::locks::SubmittedLocks;
use crate::services::user;

/// Options with which a file is written.
const WRITING: u16 =
    open_options::NEW | open_options::DELETE | open_options::UPDATE | open_options::WRITE | open_options::APPEND;

/// The export and the path in it that a path names.
///
/// # Errors
/// It names the root, or the name of the export is not text.
fn named_export(place: &RootPath) -> RootOutcome<(String, RelPath)> {
    let found = export_and_path(&place.path)?;
    found.ok_or_else(|| refuse(ErrorCode::NotFile, "the root holds exports; name one: /EXPORT/PATH"))
}

/// A file of a store, open for reading.
struct OpenedSource {
    source: Arc<dyn Source>,
    stat: Stat,
}

/// Opens a file of a store for reading.
///
/// # Errors
/// It is no file, or the store cannot open it.
fn open_source(place: &RootPath, resolved: &Resolved) -> RootOutcome<OpenedSource> {
    let ResolvedPath { store, path, .. } = &resolved.at;
    let is_directory = || refuse(ErrorCode::IsDirectory, format!("/{} is a directory", place.path));
    let source = match store.open(path) {
        Err(_) if store.is_dir(path) => return Err(is_directory()),
        opened => opened?,
    };
    let stat = source.stat()?;
    match stat.meta.kind {
        Kind::File => Ok(OpenedSource { source, stat }),
        Kind::Dir => Err(is_directory()),
        _ => Err(refuse(ErrorCode::NotFile, format!("/{} is not a file", place.path))),
    }
}

impl RootConnection {
    /// Resolves a path, if the principal may do something there.
    ///
    /// # Errors
    /// It may not, or the place does not exist.
    pub(super) fn resolve(&self, action: Action, place: &RootPath, method: &str) -> RootOutcome<Resolved> {
        let (export, path) = named_export(place)?;
        let principal = self.principal(place)?;
        self.resolve_for(principal, action, (export, path), method)
    }

    /// The same for a principal.
    fn resolve_for(
        &self,
        principal: Arc<Principal>,
        action: Action,
        (export, path): (String, RelPath),
        method: &str,
    ) -> RootOutcome<Resolved> {
        let services = &self.service.services;
        if action.changes() && services.access.is_read_only(&principal.access, &export) {
            return Err(refuse(ErrorCode::ReadOnly, format!("the export {export} is read-only on this node")));
        }
        let submitted = SubmittedLocks::none();
        let authorization =
            Authorization { services, principal: &principal, peer: self.peer.ip(), method, submitted: &submitted };
        let resolved = authorization.resolve(action, &export, &path);
        let at = match resolved {
            Ok(at) => at,
            Err(why) => {
                check_name(action, &path)?;
                return Err(self.deny(&principal, why.into()));
            }
        };
        let is_file = || action == Action::Create || !at.store.is_dir(&at.path);
        if principal.access.only_as_dir(action, &export, &path) && is_file() {
            let reason = format!("/{export}/{path} is a file, and your credential is for a directory");
            return Err(refuse(ErrorCode::NotAuthorized, reason));
        }
        let place = ExportPath { export, path: path.as_bytes().to_vec() };
        Ok(Resolved { principal, place, path, at })
    }

    /// The failure as the client may learn it: an anonymous client must not learn whether a path exists.
    fn deny(&self, principal: &Principal, failure: RootFailure) -> RootFailure {
        use RootFailure::Refused;
        match failure {
            Refused(ErrorCode::NotAuthorized | ErrorCode::NotFound, _) if principal.is_anonymous => {
                let has_public_data = self.service.services.authenticator.has_public_data(self.peer.ip());
                let reason = "nothing here is open to everybody; show a token: roots:// and BEARER_TOKEN, or ?authz=";
                if has_public_data { failure } else { refuse(ErrorCode::NotAuthorized, reason) }
            }
            failure => failure,
        }
    }

    /// Opens a file.
    pub(super) fn open(&mut self, place: &RootPath, mode: u16, options: u16) -> RootOutcome<RootAnswer> {
        let role = CopyRole::of(place).map_err(|why| refuse(ErrorCode::ArgInvalid, why))?;
        let writes = options & WRITING != 0;
        let file = match role {
            Some(CopyRole::Target(source)) if writes => self.open_to_pull(place, mode, options, &source)?,
            Some(CopyRole::Announced { key, target, lifetime_s }) if !writes => {
                self.announce(place, (key, lifetime_s), target)?
            }
            Some(CopyRole::Fetched { key, .. }) if !writes => {
                let (export, path) = named_export(place)?;
                let here = ExportPath { export: export.clone(), path: path.as_bytes().to_vec() };
                let principal = self.service.announced.take(&key, &here, self.peer.ip())?;
                let fetched = FetchedFile::new(&principal, &export, &path);
                let resolved = self.resolve_for(principal, Action::Read, (export, path), "open")?;
                RootFile::Read(Box::new(ReadFile {
                    fetched_for: Some(fetched),
                    ..self.open_to_read(place, &resolved)?
                }))
            }
            None | Some(CopyRole::Placement) if writes => {
                let written = self.open_to_write(place, mode, options)?;
                written.reserve()?;
                RootFile::Written(Box::new(Mutex::new(written)))
            }
            None | Some(CopyRole::Placement) => {
                let resolved = self.resolve(Action::Read, place, "open")?;
                let opened = open_source(place, &resolved)?;
                // A client that asks where the source of a copy is gets an answer here: movers do not know the copy.
                if role.is_none()
                    && let Some(redirect) = self.redirect(place, &resolved, &opened.stat)
                {
                    return Ok(redirect);
                }
                RootFile::Read(Box::new(self.file_to_read(place, &resolved.principal, opened)))
            }
            Some(_) => {
                let reason = "a third-party copy writes its target and reads its source";
                return Err(refuse(ErrorCode::ArgInvalid, reason));
            }
        };
        let facts = (options & open_options::RETURN_STAT != 0).then(|| file.facts());
        let handle = self.session()?.files.add(file)?;
        Ok(RootAnswer::Ok(OpenAnswer { file: handle, facts }.to_bytes()))
    }

    /// Opens the source of a third-party copy for the client, who names the target that may read it.
    fn announce(
        &self,
        place: &RootPath,
        (key, lifetime_s): (String, Option<u64>),
        target: String,
    ) -> RootOutcome<RootFile> {
        let resolved = self.resolve(Action::Read, place, "open")?;
        let copy = AnnouncedCopy { principal: Arc::clone(&resolved.principal), place: resolved.place.clone(), target };
        let file = self.open_to_read(place, &resolved)?;
        self.service.announced.add(key, copy, lifetime_s)?;
        Ok(RootFile::Read(Box::new(file)))
    }

    /// Opens the target of a third-party copy.
    fn open_to_pull(&self, place: &RootPath, mode: u16, options: u16, source: &CopySource) -> RootOutcome<RootFile> {
        let session = self.session()?;
        let origin = format!("{}@{}", session.login_name, pulled_file::host_of(self.peer.ip()));
        let address = pulled_file::source_address(source, place, &origin)?;
        let principal = self.principal(place)?;
        self.service.services.access.may_have_connect(&principal.access, &address.redacted())?;
        let file = self.open_to_write(place, mode, options)?;
        Ok(RootFile::Pulled(Arc::new(PulledFile::new(file, source, address)?)))
    }

    fn open_to_read(&self, place: &RootPath, resolved: &Resolved) -> RootOutcome<ReadFile> {
        let opened = open_source(place, resolved)?;
        Ok(self.file_to_read(place, &resolved.principal, opened))
    }

    fn file_to_read(&self, place: &RootPath, principal: &Principal, opened: OpenedSource) -> ReadFile {
        ReadFile {
            source: opened.source,
            stat: opened.stat,
            shown: format!("/{}", place.path),
            meter: self.meter(principal),
            opened: Instant::now(),
            sent_bytes: AtomicU64::new(0),
            fetched_for: None,
            _flow: self.flow(place, true),
        }
    }

    /// Sends the client to a mover, if the node has movers for such clients and the file is large. In clear a mover takes no macaroon.
    fn redirect(&self, place: &RootPath, resolved: &Resolved, stat: &Stat) -> Option<RootAnswer> {
        let movers = self.service.services.access.root_movers()?;
        if !self.login.is_tls() || stat.meta.size < FILE_BYTES_MIN || place.parameter(REDIRECTED).is_some() {
            return None;
        }
        let began = Instant::now();
        let tried = place.parameter("tried").unwrap_or_default();
        let dialling = self.service.dialling.load();
        let file = LargeFile { place: &resolved.place, meta: &stat.meta, expires: resolved.principal.access.expires() };
        let redirect = self.service.mover_redirects.choose(&movers, &dialling.tls, &file, &tried)?;
        self.log(&LoggedAction {
            action: "redirect",
            target: &format!("/{}", place.path),
            other: Some(&redirect.mover.to_string()),
            status: 307,
            reason: None,
            bytes: 0,
            began,
        });
        Some(redirect.answer())
    }

    fn open_to_write(&self, place: &RootPath, mode: u16, options: u16) -> RootOutcome<WrittenFile> {
        let has = |option: u16| options & option != 0;
        let resolved = self.resolve(Action::Create, place, "open")?;
        let shown = format!("/{}", place.path);
        let ResolvedPath { store, path, .. } = &resolved.at;
        if path.is_root() || store.is_dir(path) {
            return Err(refuse(ErrorCode::IsDirectory, format!("{shown} is a directory")));
        }
        let holder = resolved.principal.access.holder().to_owned();
        let is_new = has(open_options::NEW) || has(open_options::DELETE);
        match self.service.parked.take(&holder, &resolved.place) {
            Some(parked) if !is_new => return Ok(parked),
            // The client begins again: what it has sent before its connection broke is discarded.
            _ => {}
        }
        let is_there = match store.stat(path) {
            Ok(stat) if stat.meta.kind == Kind::Special => {
                return Err(refuse(ErrorCode::NotFile, format!("{shown} is a FIFO, socket or device")));
            }
            Ok(_) => true,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        // Clients have always had missing directories made, whether they say so or not.
        let makes_path = has(open_options::MAKE_PATH) || has(open_options::ASYNC);
        match (is_there, is_new) {
            (true, true) if has(open_options::NEW) && !has(open_options::DELETE) => {
                return Err(refuse(ErrorCode::Exists, format!("{shown} exists already; replace it by -f")));
            }
            (true, _) => drop(self.resolve(Action::Overwrite, place, "open")?),
            (false, false) => return Err(refuse(ErrorCode::NotFound, format!("{shown} is not there"))),
            (false, true) if !makes_path && !store.is_dir(&path.parent()) => {
                return Err(refuse(ErrorCode::NotFound, format!("the directory of {shown} does not exist")));
            }
            (false, true) => {}
        }
        let order = WriteOrder {
            shown,
            holder,
            size: place.parameter("oss.asize").and_then(|text| text.parse().ok()),
            mode: u32::from(mode & 0o777),
            copies: !is_new,
            was_there: is_there,
            is_forced: has(open_options::FORCE),
            persists_on_close: has(open_options::PERSIST_ON_CLOSE),
            meter: self.meter(&resolved.principal),
            flow: self.flow(place, false),
        };
        WrittenFile::begin(&self.service, resolved, order)
    }

    fn meter(&self, principal: &Principal) -> crate::meters::WorkMeter {
        self.service.services.meters.request(self.protocol(), self.peer.ip(), user(&principal.access))
    }

    /// Begins the flow of a file, if the client marks it (`scitag.flow`).
    fn flow(&self, place: &RootPath, is_sender: bool) -> FlowGuard {
        let tag = place.parameter("scitag.flow").map(|text| web::scitag::SciTag::parse(&text)).unwrap_or_default();
        self.service.fireflies.load().begin(tag, self.conn.socket(), is_sender)
    }

    /// Closes a file. One that was written gets its name.
    pub(super) fn close(&mut self, stream: StreamId, handle: FileHandle) -> RootOutcome<Option<RootAnswer>> {
        let file = self.session()?.files.take(handle)?;
        match &*file {
            RootFile::Read(read) => {
                let bytes = read.sent_bytes.load(Ordering::Relaxed);
                if bytes >= read.stat.meta.size {
                    read.meter.file_sent();
                }
                // Nothing can fail any more: the client need not wait for the log.
                self.send(stream, &RootAnswer::Ok(Vec::new()))?;
                self.log(&LoggedAction {
                    action: "read",
                    target: &read.shown,
                    other: None,
                    status: 200,
                    reason: None,
                    bytes,
                    began: read.opened,
                });
                return Ok(None);
            }
            RootFile::Written(written) => {
                let mut written = written.lock();
                let outcome = written.commit(&self.service);
                self.log_written(&written, None, &outcome);
                outcome?;
            }
            RootFile::Pulled(pulled) => {
                let outcome = pulled.commit(&self.service);
                self.log_written(&pulled.file().lock(), Some(&pulled.source_shown()), &outcome);
                outcome?;
            }
        }
        Ok(Some(RootAnswer::Ok(Vec::new())))
    }

    /// Logs a file that was closed; `source` is that of a third-party copy.
    fn log_written(&self, written: &WrittenFile, source: Option<&str>, outcome: &RootOutcome<()>) {
        let (status, reason) = match outcome {
            Ok(()) => (200, None),
            Err(RootFailure::Refused(code, reason)) => (failure::status_of(*code), Some(reason.clone())),
            Err(RootFailure::Broken(error)) => (500, Some(error.to_string())),
        };
        self.log(&LoggedAction { other: source, status, reason: reason.as_deref(), ..written.logged_action() });
    }
}
