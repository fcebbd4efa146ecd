//! Checksums of files.

use std::sync::Arc;

use auth::Action;
use model::Algorithm;
use xroot::{ErrorCode, RootAnswer, RootPath, StreamId};

use super::connection::RootConnection;
use super::failure::{self, RootFailure, RootOutcome, refuse};

/// Files up to this size are read at once for their checksum: a second of a disk.
const AT_ONCE_BYTES: u64 = 128 << 20;
/// How long a client waits for a checksum of a large file, seconds.
const CHECKSUM_S: u32 = 3600;
/// Algorithms that are offered, the most common one first.
pub(super) const OFFERED: [Algorithm; 6] =
    [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

/// The algorithm that a path asks for (`cks.type`); adler32 if it asks for none.
///
/// # Errors
/// The node does not compute it.
pub(super) fn algorithm(place: &RootPath) -> RootOutcome<Algorithm> {
    let Some(name) = place.parameter("cks.type") else { return Ok(Algorithm::Adler32) };
    let found = name.parse::<Algorithm>().ok().filter(|algorithm| OFFERED.contains(algorithm));
    found.ok_or_else(|| {
        let known = OFFERED.map(Algorithm::name).join(", ");
        refuse(ErrorCode::Server, format!("this node computes no {name} checksum; it computes {known}"))
    })
}

impl RootConnection {
    /// The checksum of a file: at once if it is known or the file is small, else in an answer that follows.
    pub(super) fn checksum(&mut self, stream: StreamId, place: &RootPath) -> RootOutcome<RootAnswer> {
        let algorithm = algorithm(place)?;
        let resolved = self.resolve(Action::Read, place, "checksum")?;
        if resolved.at.store.is_dir(&resolved.at.path) {
            return Err(refuse(ErrorCode::IsDirectory, format!("/{} is a directory", place.path)));
        }
        let source = resolved.at.store.open(&resolved.at.path)?;
        let services = Arc::clone(&self.service.services);
        let path = resolved.at.path.clone();
        let is_known = services.digests.known(&*source)?.iter().any(|digest| digest.algorithm() == algorithm);
        let compute = move || -> RootOutcome<RootAnswer> {
            let digest = services.digests.compute(&*source, &path, algorithm)?;
            Ok(RootAnswer::Ok(format!("{} {}\0", digest.algorithm(), digest.hex()).into_bytes()))
        };
        if is_known || resolved.stat()?.meta.size <= AT_ONCE_BYTES {
            return compute();
        }
        let session = Arc::clone(self.session()?);
        session.begin_answer();
        let work = {
            let session = Arc::clone(&session);
            move || {
                let answer = match compute() {
                    Ok(answer) => answer,
                    Err(RootFailure::Refused(code, reason)) => failure::answer(code, &reason),
                    Err(RootFailure::Broken(error)) => failure::answer(ErrorCode::Server, &error.to_string()),
                };
                let answer = RootAnswer::Async { stream, answer: Box::new(answer) };
                session.finish_answer(StreamId::default(), answer);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("root-checksum".into()).spawn(work) {
            session.finish_answer(stream, failure::answer(ErrorCode::Overloaded, &error.to_string()));
            return Err(refuse(ErrorCode::Overloaded, "no thread is free for the checksum; try again later"));
        }
        Ok(RootAnswer::WaitForAnswer(CHECKSUM_S))
    }
}
