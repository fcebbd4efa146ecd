//! Third-party copies between two nodes. The target asks the source for a key to the file that it has opened there, and the native engine
//! moves the bytes, with as many streams as the path needs. Other servers do not know the question: then the target reads the file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use authn::Principal;
use model::Refusal;
use model::RelPath;
use model::id::JobId;
use remote::root::WholeRead;
use xroot::{ErrorCode, RootAnswer};

use super::RootService;
use super::failure::{RootOutcome, refuse};
use super::written_file::WriteDestination;
use crate::copies::delegated_key::KeyReply;
use crate::copies::native::{self, NativeContext, NativeCopy};
use crate::copies::progress::CopyProgress;

/// The query about an open file that asks for a key to it.
pub(super) const KEY_FOR_COPY: &[u8] = b"longhaul.copy key";

/// The file that the target of a third-party copy has opened, with the rights of the client that announced it.
pub(super) struct FetchedFile {
    pub principal: Arc<Principal>,
    pub export: String,
    pub path: RelPath,
    /// A key to it was given: each open of it gives one.
    pub has_given_key: AtomicBool,
}

impl FetchedFile {
    pub fn new(principal: &Arc<Principal>, export: &str, path: &RelPath) -> FetchedFile {
        let (principal, export, path) = (Arc::clone(principal), export.to_owned(), path.clone());
        FetchedFile { principal, export, path, has_given_key: AtomicBool::new(false) }
    }
}

/// Answers with a key that reads this one file.
pub(super) fn delegate(service: &RootService, file: &FetchedFile) -> RootOutcome<RootAnswer> {
    let FetchedFile { principal, export, path, has_given_key } = file;
    if has_given_key.swap(true, Ordering::Relaxed) {
        return Err(refuse(ErrorCode::NotAuthorized, "a key to this file was given already; open it again"));
    }
    let key = service.services.access.delegate(&principal.access, export, path, None, false);
    let key = key.map_err(|refusal| refuse(ErrorCode::Overloaded, refusal.reason))?;
    let reply = serde_json::to_vec(&KeyReply::new(&key, export.clone(), path)).map_err(io::Error::from)?;
    Ok(RootAnswer::Ok(reply))
}

/// The native copy of an open file; none if its server is no node, or delegates no key.
pub(super) fn request(service: &RootService, source: &mut WholeRead) -> Option<NativeCopy> {
    let answer = source.ask_about(KEY_FOR_COPY).ok()?;
    let reply: KeyReply = serde_json::from_slice(&answer).ok()?;
    let guard = Arc::clone(&service.dialling.load().guard);
    Some(NativeCopy::new(reply.read()?, source.peer(), !source.is_secure(), JobId::random().0, guard))
}

/// Gets a file. Returns its size when it has its name; none if the copy could not begin.
pub(super) fn run(
    copy: &NativeCopy,
    service: &RootService,
    to: &WriteDestination,
    progress: &CopyProgress,
) -> RootOutcome<Option<u64>> {
    let WriteDestination { at, holder, replaces } = to;
    let context = NativeContext { services: Arc::clone(&service.services), holder: holder.clone(), resolved: at };
    match copy.pull(&context, progress, *replaces) {
        Ok(copied) => Ok(Some(copied.bytes)),
        Err(failure) if native::may_fall_back(&failure, progress) => {
            tracing::info!(error = failure.text, "the native copy could not begin; the copy goes by root://");
            Ok(None)
        }
        Err(failure) => Err(Refusal::new(failure.fault, failure.text).into()),
    }
}
